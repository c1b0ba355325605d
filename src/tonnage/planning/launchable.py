"""A plan made ready to be started: settings the engine would choose by itself are written out, as the plan took them.

An option carries what the user fixed; the rest the planner took from the engine's defaults for that release, model and
accelerator. A file that leaves them out would run whatever the installed release prefers, which is another plan.
"""

from __future__ import annotations

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.hub import resolve
from tonnage.domain.case import Traffic
from tonnage.domain.model import Attention, Mlp, Model, Moe
from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.domain.rl_plan import RlOption, RlPlan
from tonnage.domain.train_plan import TrainOption, TrainPlan
from tonnage.errors import BadRequest, TonnageError
from tonnage.planning.deployment import case_of, deploy
from tonnage.planning.plans import Plan

__all__ = ["launchable"]


def launchable(
    plan: Plan, *, rank: int = 1, checkpoint: str | None = None, additions: Additions = catalog.NOTHING
) -> tuple[ServePlan, ServeOption] | tuple[TrainPlan, TrainOption] | tuple[RlPlan, RlOption]:
    """
    One option of a plan with every engine setting filled in, and the plan with what is known of its checkpoint.

    Parameters
    ----------
    plan : Plan
        As `read_plan` gives it.
    rank : int
        Which option, 1 = the one ranked first.
    checkpoint : str, optional
        What to load instead of the planned model: the same network in the planned weight format.
    additions : Additions
        The user's own accelerators and models.

    Raises
    ------
    BadRequest
        Not a plan to serve or to train, nothing feasible in it, or no such option.
    """
    if not isinstance(plan, ServePlan | TrainPlan | RlPlan):
        raise BadRequest(
            "only plans to serve, train, fine-tune or rl can be exported; export the halves of others apart"
        )
    if not plan.options:
        raise BadRequest("the plan has no option: it is infeasible, and its sentence says what stands in the way")
    if rank > len(plan.options):
        raise BadRequest(f"option {rank} does not exist; choose 1 to {len(plan.options)}")
    facts = dict(plan.model)
    if checkpoint is not None:
        facts["named"] = checkpoint
    if isinstance(plan, RlPlan):
        return msgspec.structs.replace(plan, model=facts), plan.options[rank - 1]
    model = _resolved(plan, additions)
    if isinstance(plan, TrainPlan):
        facts |= _accelerator_facts(plan.options[rank - 1].configuration.accelerator, additions)
        shape = {} if model is None else _shape(model)
        return msgspec.structs.replace(plan, model=facts | ({"shape": shape} if shape else {})), plan.options[rank - 1]
    option = plan.options[rank - 1]
    if model is None:
        return msgspec.structs.replace(plan, model=facts), option
    facts["checkpoint"] = model.quantization or model.native_dtype
    configuration = option.configuration
    case = case_of(configuration, model=model, lengths=plan.request.lengths, traffic=Traffic(rate_per_s=1.0))
    part = catalog.accelerator(configuration.accelerator, additions)
    filled = msgspec.structs.replace(configuration, engine=deploy(case, model=model, accelerator=part).engine)
    return msgspec.structs.replace(plan, model=facts), msgspec.structs.replace(option, configuration=filled)


def _accelerator_facts(name: str, additions: Additions) -> dict[str, str]:
    """What decides which kernels an exported file may ask for; nothing where the accelerator is not known any more."""
    try:
        part = catalog.accelerator(name, additions)
    except TonnageError:
        return {}
    capability = {"compute_capability": part.compute_capability} if part.compute_capability else {}
    return {"vendor": part.vendor.lower(), **capability}


def _resolved(plan: ServePlan | TrainPlan, additions: Additions) -> Model | None:
    """The network, without asking anyone else's machine; a file that has moved since is no reason to fail."""
    for name in (plan.request.model, str(plan.model.get("id", ""))):
        try:
            return resolve(name, additions=additions, offline=True)
        except TonnageError:
            continue
    return None


def _shape(model: Model) -> dict[str, int | bool]:
    """The widths of a decoder of like layers, by Megatron-LM's names; empty for any other network."""
    group = model.layers[-1] if model.layers else None
    like = group is not None and all(
        (other.mixer, other.feed_forward) == (group.mixer, group.feed_forward) for other in model.layers
    )
    if group is None or not like or not isinstance(group.mixer, Attention) or model.encoder:
        return {}
    attention, feed_forward = group.mixer, group.feed_forward
    shape: dict[str, int | bool] = {
        "num_layers": sum(other.count for other in model.layers),
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
    if isinstance(feed_forward, Mlp):
        return shape | {"ffn_hidden_size": feed_forward.intermediate_size, "swiglu": feed_forward.gated}
    if isinstance(feed_forward, Moe) and not feed_forward.dense_intermediate_size:
        shared = feed_forward.shared_intermediate_size
        return shape | {
            "ffn_hidden_size": feed_forward.moe_intermediate_size,
            "num_experts": feed_forward.num_experts,
            "moe_router_topk": feed_forward.num_experts_per_tok,
            "moe_ffn_hidden_size": feed_forward.moe_intermediate_size,
            "swiglu": feed_forward.gated,
            **({"moe_shared_expert_intermediate_size": shared} if shared else {}),
        }
    return {}
