"""A plan made ready to be started: settings the engine would choose by itself are written out, as the plan took them.

An option carries what the user fixed; the rest the planner took from the engine's defaults for that release, model and
accelerator. A file that leaves them out would run whatever the installed release prefers, which is another plan.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.checkpoints import published_in
from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.models import hub_id, look_up
from tonnage.catalog.published import download_of
from tonnage.core.cold_start import cold_start
from tonnage.core.deployment import case_of, deploy
from tonnage.domain.batch_plan import BatchOption, BatchPlan
from tonnage.domain.case import Traffic
from tonnage.domain.model import Attention, LayerGroup, Mlp, Model, Moe
from tonnage.domain.plan import ServeOption, ServePlan, option_at_rank
from tonnage.domain.precision import number_format
from tonnage.domain.train_plan import TrainOption, TrainPlan
from tonnage.engines.registry import engine_spec
from tonnage.errors import BadRequest, TonnageError
from tonnage.physics.parameters import parameters
from tonnage.questions.ask import Plan
from tonnage.questions.rl.question import RlOption, RlPlan

INSTEAD: Final = {
    "own": "`tonnage local -a 'COUNT x ACCELERATOR' --model MODEL --files FOLDER` writes what starts a model for one "
    "request at a time; for a service export `tonnage plan serve MODEL --own 'COUNT x ACCELERATOR' -o plan.json`",
    "budget": "export what the command on its screen plans, with -o plan.json",
    "lifecycle": "plan its halves apart (finetune or train, and serve), each with -o plan.json, and export those",
    "": "export a plan of one model: serve, batch, train, finetune or rl with -o plan.json",
}
"""What can be exported in place of a plan of another kind."""
STARTED: Final = ServePlan | TrainPlan | BatchPlan | RlPlan
"""Plans whose options files can start."""
Served = TypeVar("Served", ServePlan, BatchPlan)
ServedOption = TypeVar("ServedOption", ServeOption, BatchOption)


def launchable_option(
    plan: Plan,
    *,
    rank: int = 1,
    pools: bool = False,
    checkpoint: str | None = None,
    additions: Additions = catalog.NOTHING,
) -> (
    tuple[ServePlan, ServeOption]
    | tuple[TrainPlan, TrainOption]
    | tuple[BatchPlan, BatchOption]
    | tuple[RlPlan, RlOption]
):
    """
    One option of a plan with every engine setting filled in, and the plan with what is known of its checkpoint.

    Parameters
    ----------
    plan : Plan
        As `read_plan` gives it.
    rank : int
        Which option, 1 = the one ranked first.
    pools : bool
        Start the plan's separate prefill and decode workers in place of an option.
    checkpoint : str, optional
        What to load instead of the planned model: the same network in the planned weight format. Absent where the
        engine cannot make that format while it loads the model's own: a published one, where one is known.
    additions : Additions
        The user's own accelerators and models.

    Raises
    ------
    BadRequest
        Not a plan to serve or to train, nothing feasible in it, or no such option.
    """
    if not isinstance(plan, STARTED):
        kind = str(plan.__struct_config__.tag)
        raise BadRequest(f"no files are written of a plan of kind {kind}: {INSTEAD.get(kind, INSTEAD[''])}")
    if not plan.options:
        raise BadRequest("the plan has no option: it is infeasible, and its sentence says what stands in the way")
    if pools:
        plan = _with_pools_first(plan)
    facts = dict(plan.model)
    tuned = hub_id(str(plan.request.model))
    if tuned is not None and look_up(tuned) == facts.get("id"):  # a model of the user's own may be called the same
        facts["hub"] = tuned
    if checkpoint is not None:
        facts["named"] = checkpoint
    if isinstance(plan, RlPlan):
        return replace(plan, model=facts), option_at_rank(plan.options, rank)
    model = _resolve_model(plan, additions)
    if isinstance(plan, TrainPlan):
        option = option_at_rank(plan.options, rank)
        facts |= _accelerator_facts(option.configuration.accelerator, additions)
        shape = {} if model is None else _shape(model)
        if model is not None:
            facts["decodes"] = bool(model.layers) and model.has_head and not model.encoder
            facts["family"] = model.family
            facts |= {"rotary_base": ROTARY_BASE} if model.family == BARE else {}
            if facts["decodes"] and model.hidden_size:
                widths = {name: getattr(model, name) for name in ("num_layers", "hidden_size", "vocab_size")}
                facts["widths"] = {name: width for name, width in widths.items() if width}
        return replace(plan, model=facts | ({"shape": shape} if shape else {})), option
    if isinstance(plan, BatchPlan):
        batched = option_at_rank(plan.options, rank)
        return _fill_settings(plan, batched, facts, model=model, additions=additions, saturated=True)
    served = option_at_rank(plan.options, rank)
    if (split := served.configuration.pools) is not None:
        if split.encode:
            raise BadRequest(
                f"no file is written for units with encoders ({split.label}): start those with vLLM's"
                " --mm-encoder-only and --ec-transfer-config, or SGLang's --encoder-only and --language-only, by hand;"
                " or choose an option without them (--option)"
            )
        units, workers = served.replicas, served.replicas * (split.prefill + split.decode)
        facts["pools"] = _workers(units, prefill=split.prefill, decode=split.decode)
        served = replace(served, replicas=workers)
    return _fill_settings(plan, served, facts, model=model, additions=additions)


def _with_pools_first(plan: Plan) -> ServePlan:
    """The plan with its separate pools as its first option: workers of both kinds count as replicas."""
    if not isinstance(plan, ServePlan) or plan.pools is None:
        raise BadRequest(
            "the plan has no separate pools; plan again with --pools, a rate and an objective, without --quick"
        )
    found = plan.pools
    alike = next((option for option in plan.options if option.configuration == found.configuration), plan.options[0])
    option = replace(
        alike,
        configuration=found.configuration,
        replicas=found.units * (found.prefill_workers + found.decode_workers),
        bill=found.bill,
        accelerators=found.accelerators,
    )
    workers = _workers(found.units, prefill=found.prefill_workers, decode=found.decode_workers)
    return replace(plan, options=(option, *plan.options), model={**plan.model, "pools": workers})


def _workers(units: int, *, prefill: int, decode: int) -> dict[str, int]:
    """Workers of all units, by the names that exports take them."""
    return {"prefill_workers": units * prefill, "decode_workers": units * decode, "units": units}


def _fill_settings(
    plan: Served,
    option: ServedOption,
    facts: dict[str, Any],
    *,
    model: Model | None,
    additions: Additions,
    saturated: bool = False,
) -> tuple[Served, ServedOption]:
    """
    A plan and its option with every engine setting filled in, and what is known of the checkpoint; the option as it is
    where the model cannot be resolved here.
    """
    if model is None:
        return replace(plan, model=facts), option
    kept = option.configuration.precision.experts is not None
    facts["checkpoint"] = model.quantization or (None if kept else model.experts_dtype) or model.native_dtype
    stored = model.stored_weight_bytes or parameters(model).value * number_format(facts["checkpoint"]).bytes
    begun = cold_start(weight_bytes=stored, provider=option.bill.provider)
    facts |= {"stored_bytes": stored, "start_s": begun.weights_s + begun.warm_up_s}
    configuration = option.configuration
    room = configuration.layout.ranks * catalog.accelerator(configuration.accelerator, additions).driver_memory_bytes
    facts["fits_whole"] = stored <= room or not engine_spec(configuration.engine.name).quantises_whole
    if "named" not in facts:
        name = facts.get("hub", plan.request.model)
        facts |= _published(name, option, model=model, stored=facts["checkpoint"], whole=facts["fits_whole"])
    load = Traffic(saturated=True) if saturated else Traffic(rate_per_s=1.0)
    case = case_of(configuration, model=model, lengths=plan.request.lengths, traffic=load)
    part = catalog.accelerator(configuration.accelerator, additions)
    engine = deploy(case, model=model, accelerator=part).engine
    if configuration.engine.block_tokens is None and not _takes_any_block(model):
        engine = replace(engine, block_tokens=None)
    filled = replace(configuration, engine=engine)
    return replace(plan, model=facts), replace(option, configuration=filled)


def _published(name: str, option: ServedOption, *, model: Model, stored: str, whole: bool) -> dict[str, str]:
    """
    The published checkpoint that the option loads, and what is known of it; empty where the model's own will do, or
    none is known. `whole` says that the model's own, unquantised, fits the memory of a replica.
    """
    configuration = option.configuration
    engine, precision = configuration.engine.name, configuration.precision
    if precision.weights.startswith("gguf-"):
        files = download_of(name)
        return {"named": files.gguf, "published": f"{files.gguf} (GGUF; {files.source})"} if files else {}
    if engine_spec(engine).loads(precision.weights, stored=stored) and (whole or precision.weights == stored):
        return {}
    found = published_in(name, id=model.id, stored=precision.stored, engine=engine)
    return {} if found is None else {"named": found.checkpoint, "published": found.told(engine)}


def _takes_any_block(model: Model) -> bool:
    """
    Kernels of latent attention and of recurrent layers come with cache blocks of their own (64 tokens for FlashMLA, a
    state's size for a hybrid), which the engine chooses with the kernel; a size written down would rule these out.
    """
    return all(group.mixer is None or isinstance(group.mixer, Attention) for group in model.layers)


def _accelerator_facts(name: str, additions: Additions) -> dict[str, str]:
    """What decides which kernels an exported file may ask for; nothing where the accelerator is not known any more."""
    try:
        part = catalog.accelerator(name, additions)
    except TonnageError:
        return {}
    capability = {"compute_capability": part.compute_capability} if part.compute_capability else {}
    return {"vendor": part.vendor.lower(), **capability}


def _resolve_model(plan: ServePlan | TrainPlan | BatchPlan, additions: Additions) -> Model | None:
    """The network, without asking anyone else's machine; a file that has moved since is no reason to fail."""
    for name in (plan.request.model, str(plan.model.get("id", ""))):
        try:
            return resolve(name, additions=additions, offline=True)
        except TonnageError:
            continue
    return None


BARE: Final = "generic"
"""Family of a bare size: no configuration states its rotary base."""
ROTARY_BASE: Final = 500_000
"""Of a bare size, as Llama 3 has it (its config.json, rope_theta); chosen. [-]"""
LLAMA_LIKE: Final = frozenset({
    "Llama1", "Llama2", "Llama3", "Llama3.2", "Llama3.3", "Meta", "CodeLlama", "Mistral", "Mixtral", "Qwen1.5", "Qwen2",
    "Qwen2.5", "Qwen3", "Yi", "TinyLlama", "OpenLLaMA", "SmolLM2", "SOLAR", BARE,
})  # fmt: skip
"""Families of decoders with RMSNorm, rotary positions and a SiLU gate, which widths do not tell apart from others:
Gemma gates with GELU and scales its embedding, Granite and Command-R scale as well, OLMo 2 norms behind its layers."""
PLAIN_ATTENTION: Final = Attention(num_attention_heads=1, num_key_value_heads=1, head_dim=1)
PLAIN_LAYER: Final = LayerGroup(count=1)
PLAIN_MODEL: Final = Model(id="", family="", kind="llm")
WRITTEN: Final = frozenset({
    "num_attention_heads", "num_key_value_heads", "head_dim", "bias", "output_bias", "qk_norm", "count", "mixer",
    "feed_forward", "hidden_size", "layers", "tie_word_embeddings",
})  # fmt: skip
"""Fields of the architecture that become flags."""
BESIDE: Final = frozenset({
    "id", "family", "kind", "vocab_size", "max_context", "native_dtype", "quantization", "experts_dtype", "mtp_layers",
    "published_parameters", "published_active_parameters", "stored_weight_bytes", "licence", "source", "notes",
    "assumed",
})  # fmt: skip
"""Fields that say nothing of the layers: names, sources, and the vocabulary, which is the tokenizer's."""


def _as_plain(found: msgspec.Struct, plain: msgspec.Struct) -> bool:
    """Whatever has no flag is as in a plain decoder."""
    names = (name for name in found.__struct_fields__ if name not in WRITTEN | BESIDE)
    return all(getattr(found, name) == getattr(plain, name) for name in names)


def _shape(model: Model) -> dict[str, int | bool]:
    """
    The widths of a decoder of equal layers, by Megatron-LM's names; empty for a network that its flags cannot say.
    """
    group = model.layers[-1] if model.layers else None
    like = group is not None and all(replace(other, count=group.count) == group for other in model.layers)
    if group is None or not like or not isinstance(group.mixer, Attention) or group.hidden_size:
        return {}
    attention, feed_forward = group.mixer, group.feed_forward
    described = ((model, PLAIN_MODEL), (group, PLAIN_LAYER), (attention, PLAIN_ATTENTION))
    if model.family not in LLAMA_LIKE or not all(_as_plain(found, plain) for found, plain in described):
        return {}
    if attention.output_bias and not attention.bias:
        return {}
    shape: dict[str, int | bool] = {
        "num_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "num_attention_heads": attention.num_attention_heads,
        "kv_channels": attention.head_dim,
        "qk_layernorm": attention.qk_norm,
        "add_qkv_bias": attention.bias and not attention.output_bias,
        "disable_bias_linear": not attention.output_bias,
        "untie_embeddings_and_output_weights": not model.tie_word_embeddings,
    }
    if attention.num_key_value_heads != attention.num_attention_heads:
        shape |= {"group_query_attention": True, "num_query_groups": attention.num_key_value_heads}
    if isinstance(feed_forward, Mlp) and feed_forward.gated and feed_forward.bias == attention.output_bias:
        return shape | {"ffn_hidden_size": feed_forward.intermediate_size, "swiglu": True}
    if isinstance(feed_forward, Moe) and _plain_experts(feed_forward):
        shared = feed_forward.shared_intermediate_size
        return shape | {
            "ffn_hidden_size": feed_forward.moe_intermediate_size,
            "num_experts": feed_forward.num_experts,
            "moe_router_topk": feed_forward.num_experts_per_tok,
            "moe_ffn_hidden_size": feed_forward.moe_intermediate_size,
            "swiglu": True,
            **({"moe_shared_expert_intermediate_size": shared} if shared else {}),
        }
    return {}


def _plain_experts(found: Moe) -> bool:
    """Gated experts behind a softmax router, shared ones added without a gate of their own."""
    more = found.shared_gate or found.dense_intermediate_size or found.latent_size or found.bias or found.router_bias
    return found.gated and not more
