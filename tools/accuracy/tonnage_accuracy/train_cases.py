"""
Which training case does a measured row describe?

A degree that the row leaves open stays open: the planner chooses it. The model is the catalogue's, with the row's own
shape over it (a padded vocabulary, say); a row without a catalogue model is built from its shape columns. Shapes of
models whose layers differ (alternating windows, experts after dense layers, encoder and decoder) cannot be restated
by one width and one depth, so there only the vocabulary is taken from the row.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from msgspec.structs import replace

from tonnage import catalog
from tonnage.domain.case import TrainCase, TrainCaseLayout
from tonnage.domain.model import Attention, LayerGroup, Mlp, Model, Moe
from tonnage.errors import BadFact, UnknownName
from tonnage_accuracy.rows import Row, count, flag, number, text
from tonnage_accuracy.serve_cases import links, year

Method = Literal["pretrain", "full", "lora", "qlora", "dora"]

_METHODS: Final[dict[str, Method]] = {"full-ft": "full", "lora": "lora", "qlora": "qlora", "dora": "dora"}

_MEMORY_KINDS: Final[dict[str, Literal["allocated", "reserved", "device"]]] = {
    "allocated_max": "allocated",
    "active_max": "allocated",
    "nvidia-smi": "device",
}
"""Every other word (reserved, not stated, approximate) is scored as what the allocator holds."""


def train_case(row: Row) -> TrainCase:
    """
    The case of a training row.

    Raises
    ------
    BadFact
        The row does not say enough, or a cell cannot be read.
    """
    accelerators = count(row, "num_accel")
    if accelerators is None:
        raise BadFact("not stated: num_accel")
    recompute, flash = text(row, "act_ckpt"), flag(row, "flash_attn")
    return TrainCase(
        model=model_of(row),
        accelerator=text(row, "accelerator_id"),
        method=_METHODS.get(text(row, "method"), "pretrain"),
        count=accelerators,
        accelerators_per_node=count(row, "accel_per_node"),
        links=links(row),
        layout=_layout(row, accelerators),
        precision=text(row, "act_precision") or text(row, "weight_precision") or "bf16",
        weight_precision=text(row, "weight_precision") or None,
        micro_batch=count(row, "micro_batch"),
        global_batch=count(row, "global_batch"),
        seq_len=count(row, "seq_len"),
        mean_seq_len=number(row, "mean_seq_len"),
        document_len=number(row, "document_len"),
        predicted_share=number(row, "predicted_share") or 1.0,
        predicted_ahead=count(row, "predicted_ahead") or 0,
        fused_experts=flag(row, "fused_experts"),
        image_px=count(row, "image_px"),
        image_layout="channels-last" if text(row, "image_layout") == "channels-last" else None,
        recompute=recompute if recompute in {"none", "selective", "full"} else None,  # type: ignore[arg-type]
        optimizer=text(row, "optimizer") or "adamw",
        master_weights=flag(row, "master_weights"),
        grads_kept=flag(row, "grads_kept") is not False,
        flash_attention=flash,
        offload_activations=flag(row, "offload_activations"),
        residual_precision=text(row, "residual_precision") or None,
        gradient_precision=_gradients(row),
        loss=text(row, "loss") or None,  # type: ignore[arg-type]
        lora_rank=count(row, "lora_rank") or 16,
        lora_targets=text(row, "lora_targets") or None,
        trainable_parameters=number(row, "trainable_params"),
        framework=_framework(row),
        year=year(row),
        accelerator_fraction=number(row, "accel_fraction") or 1.0,
        offload=_offload(row),
        memory_kind=_MEMORY_KINDS.get(text(row, "mem_kind"), "reserved"),
        id=row.id,
    )


def _gradients(row: Row) -> str | None:
    """Format in which gradients add up, where the row or its prose states it."""
    said = "fp32" if "BF16Optimizer with fp32 grad accumulation" in text(row, "notes") else None
    return text(row, "gradient_precision") or said


BESIDE: Final = ("accelerated-peft", "foak", "internevo", "liger")
"""What a row's framework names beside the engine that runs it."""


def _framework(row: Row) -> str | None:
    """
    The engine, with what compiled the model or the release of NVIDIA's container where the row names them.

    Prose says which rows of a table are of the loop that a compiler is compared with, and which of MLPerf's submissions
    ran NVIDIA's own scripts (NeMo), whatever the submitter calls the framework.
    """
    name, notes = text(row, "engine"), text(row, "notes")
    if name == "thunder" and "eager" in notes.lower():
        return "pytorch"
    if re.search(r"submission config_\w*(?:DGX|GB200)", notes):
        return "nemo"
    compiler = text(row, "compiler")
    if compiler == "none":
        return "pytorch"
    if compiler:
        return f"{name} {compiler}"
    release = re.match(r"(\d\d\.\d\d)\S* NeMo Container", notes)
    beside = (word for word in BESIDE if word in text(row, "framework").lower())
    return " ".join(filter(None, (name, release and release[1], *beside))) or None


def _offload(row: Row) -> Literal["none", "optimizer", "all"]:
    """
    Sources write it in prose only ("activation offloading" is another thing, and no setting of a case).

    FSDP offloads parameters or nothing; ZeRO its optimizer first.
    """
    notes = text(row, "notes").lower()
    if not re.search(r"\bcpu offload", notes):
        return "none"
    return "all" if "fsdp" in notes or text(row, "sharding") == "fsdp" else "optimizer"


def _layout(row: Row, accelerators: int) -> TrainCaseLayout:
    """Degrees as printed; a data-parallel degree that contradicts the others and the count is left open."""
    tp, pp, cp, dp = (count(row, name) for name in ("tp", "pp", "cp", "dp"))
    if dp is not None and (tp or 1) * (pp or 1) * (cp or 1) * dp > accelerators:
        dp = None
    if dp is not None and None not in (tp, pp, cp) and tp * pp * cp * dp != accelerators:  # type: ignore[operator]
        dp = None
    return TrainCaseLayout(
        tp=tp,
        pp=pp,
        vpp=count(row, "vpp"),
        cp=cp,
        ep=count(row, "ep"),
        dp=dp,
        sharding=text(row, "sharding") or None,
    )


def model_of(row: Row) -> str | Model:
    """
    The catalogue's name where the row adds nothing to it, else the model with the row's shape.

    Raises
    ------
    BadFact
        No catalogue model and no shape.
    """
    name = text(row, "model_id")
    if not name:
        return _from_shape(row)
    try:
        known = catalog.model(name)
    except UnknownName:
        if text(row, "layers") and text(row, "hidden"):
            return _from_shape(row)
        raise BadFact(f"model not in the catalogue: {name}") from None
    vocabulary = count(row, "vocab") or known.vocab_size
    shaped = replace(known, vocab_size=vocabulary) if known.vocab_size else known
    columns = count(row, "head_columns")
    if columns is not None:
        shaped = replace(shaped, head_columns=columns)
    if _uniform(known):
        shaped = _with_shape(shaped, row)
    return name if shaped == known else shaped


def _uniform(model: Model) -> bool:
    """Whether one depth and one width say everything: identical dense layers and nothing beside them."""
    if len(model.layers) != 1 or model.encoder or model.towers or model.layers[0].cross_attention is not None:
        return False
    return isinstance(model.layers[0].mixer, Attention) and isinstance(model.layers[0].feed_forward, Mlp)


def _with_shape(model: Model, row: Row) -> Model:
    group = model.layers[0]
    mixer, mlp = group.mixer, group.feed_forward
    assert isinstance(mixer, Attention) and isinstance(mlp, Mlp)
    heads = count(row, "heads") or mixer.num_attention_heads
    gated, tied, learned = flag(row, "arch_gated"), flag(row, "arch_tied"), flag(row, "arch_learned_pos")
    layer = replace(
        group,
        count=count(row, "layers") or group.count,
        mixer=replace(
            mixer,
            num_attention_heads=heads,
            num_key_value_heads=count(row, "kv_heads") or mixer.num_key_value_heads,
            head_dim=count(row, "head_dim") or mixer.head_dim,
        ),
        feed_forward=replace(
            mlp,
            intermediate_size=count(row, "ffn") or mlp.intermediate_size,
            gated=mlp.gated if gated is None else gated,
        ),
    )
    positions = model.learned_positions
    if learned is not None and learned != bool(positions):
        positions = (count(row, "seq_len") or 0) if learned else 0
    return replace(
        model,
        hidden_size=count(row, "hidden") or model.hidden_size,
        layers=(layer,),
        tie_word_embeddings=model.tie_word_embeddings if tied is None or not model.has_head else tied,
        learned_positions=positions,
    )


def _from_shape(row: Row) -> Model:
    layers, hidden, heads = count(row, "layers"), count(row, "hidden"), count(row, "heads")
    if layers is None or hidden is None or heads is None:
        raise BadFact("model not in the catalogue: the row gives no layers, hidden and heads either")
    gated = bool(flag(row, "arch_gated"))
    width = count(row, "ffn") or 4 * hidden
    experts = count(row, "experts")
    mixer = Attention(
        num_attention_heads=heads,
        num_key_value_heads=count(row, "kv_heads") or heads,
        head_dim=count(row, "head_dim") or max(hidden // heads, 1),
    )
    feed_forward: Mlp | Moe = Mlp(intermediate_size=width, gated=gated)
    if experts is not None:
        chosen = count(row, "top_k") or 1
        feed_forward = Moe(num_experts=experts, num_experts_per_tok=chosen, moe_intermediate_size=width, gated=gated)
    return Model(
        id=text(row, "model") or row.id,
        family=(text(row, "model_near_id") or text(row, "model")).rpartition("/")[2],
        kind="llm" if experts is None else "llm-moe",
        hidden_size=hidden,
        vocab_size=count(row, "vocab") or 0,
        layers=(LayerGroup(count=layers, mixer=mixer, feed_forward=feed_forward, norm_bias=not gated),),
        tie_word_embeddings=bool(flag(row, "arch_tied")),
        learned_positions=(count(row, "seq_len") or 0) if flag(row, "arch_learned_pos") else 0,
        max_context=count(row, "seq_len"),
        norm_bias=not gated,
        source=text(row, "source"),
    )
