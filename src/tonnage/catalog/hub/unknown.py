"""How is an architecture read that no adapter knows? By what its fields name: latent attention, windows, experts.

The names that most files share say which of four decoders it is like: Llama, one with windows, Mixtral with its dense
layers and shared experts, or DeepSeek. Fields that name anything else (states, convolutions, folded caches) are not
read, and the model says which they are: its cache is then too large rather than too small.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tonnage.catalog.hub.blocks import attention, decoder, layer_count, mlp, moe, windows
from tonnage.catalog.hub.fields import Config, flag, given, integer, optional_integer, texts
from tonnage.catalog.hub.latent import LATENT
from tonnage.catalog.hub.mixtures import sparse_step
from tonnage.catalog.hub.recent import sparse_layers
from tonnage.domain.model import LayerGroup, Model, Moe
from tonnage.errors import BadFact, echo

__all__ = ["read_unknown"]

EXPERTS: Final = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
SHARED: Final = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")
USUAL: Final = (
    ("hidden_size", "n_embd", "d_model"),
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    ("num_attention_heads", "n_head", "n_heads"),
    ("intermediate_size", "ffn_dim", "n_inner", "moe_intermediate_size"),
    ("vocab_size",),
)
"""Without one of each, no decoder is read."""

FOREIGN: Final = (
    "mamba", "ssm", "linear_", "conv_", "compress_ratio", "hc_", "hybrid_", "layers_block_type", "altup", "laurel",
    "ngram", "recurrent", "rwkv", "full_attention_interval", "attn_layer", "layer_group_size", "kv_shared",
)  # fmt: skip
"""Beginnings of fields that name a part no such decoder has."""


def read_unknown(c: Config, kind: str) -> Model:
    """
    A decoder read from the usual field names alone.

    Raises
    ------
    BadFact
        The usual fields are not all there.
    """
    if not all(given(c, *names) is not None for names in USUAL):
        shown = f"model_type '{echo(kind)}'" if kind else "no model_type"
        raise BadFact(
            f"{c.file}: {shown} is not one Tonnage reads and the usual fields (hidden_size, num_hidden_layers, "
            f"num_attention_heads, intermediate_size, vocab_size) are not all there; give those fields inline"
        )
    mixture = given(c, *EXPERTS) is not None
    if mixture and given(c, "kv_lora_rank") is not None and given(c, "moe_intermediate_size") is not None:
        model, like = LATENT["deepseek_v3"][1](c), "DeepSeek"
    else:
        model, like = _plain(c, mixture=mixture), "Mixtral" if mixture else "Llama"
    said = f"'{echo(kind)}'" if kind else "a file without model_type"
    note = f"model_type {said} is not known: read as a {like}-like decoder from its fields"
    unread = sorted(name for name, value in c.data.items() if name.startswith(FOREIGN) and value not in (None, False))
    if unread:
        names = ", ".join(echo(name) for name in unread[:3]) + (" and more" if len(unread) > 3 else "")
        note += f"; {names} were not read: parameters may be off, and the cache may be several times too large"
    return msgspec.structs.replace(model, family=kind or "unknown", assumed=(note,))


def _plain(c: Config, *, mixture: bool) -> Model:
    """Ordinary attention, with the window of each layer, before a mixture or a dense feed-forward."""
    base = attention(c, qk_norm=flag(c, "use_qk_norm", "qk_norm", default=False))
    experts = _experts(c) if mixture else None
    dense = mlp(c, gated=flag(c, "mlp_gated", default=True)) if not mixture or _has_dense(c) else experts
    layers = [
        LayerGroup(
            count=1, mixer=msgspec.structs.replace(base, window=window), feed_forward=experts if sparse else dense
        )
        for window, sparse in zip(_windows(c), _sparse(c, mixture=mixture), strict=True)
    ]
    return decoder(c, layers, mtp_layers=integer(c, "num_nextn_predict_layers", default=0, low=0))


def _has_dense(c: Config) -> bool:
    return given(c, *USUAL[3][:3]) is not None


def _experts(c: Config) -> Moe:
    """Experts, and those that every token sees: by their number, or by their width alone."""
    width = integer(c, "moe_intermediate_size", "intermediate_size")
    stated = optional_integer(c, *SHARED)
    count = integer(c, "n_shared_experts", "num_shared_experts", "moe_num_shared_experts", default=0, low=0)
    shared = count * width if count else (stated or 0)
    return moe(c, moe_intermediate_size=width, shared_intermediate_size=shared)


def _sparse(c: Config, *, mixture: bool) -> tuple[bool, ...]:
    if not mixture:
        return (False,) * layer_count(c)
    return sparse_step(c) if given(c, "decoder_sparse_step", "mlp_only_layers") is not None else sparse_layers(c)


def _windows(c: Config) -> tuple[int | None, ...]:
    """Windows where the file says which layers have one; a bare width is no proof that any layer uses it."""
    pattern = optional_integer(c, "sliding_window_pattern", "_sliding_window_pattern", low=2)
    off = not flag(c, "use_sliding_window", default=True)
    if off or (pattern is None and texts(c, "layer_types", length=layer_count(c)) is None):
        return (None,) * layer_count(c)
    return windows(c, every=pattern)
