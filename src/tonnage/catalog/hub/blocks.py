"""The pieces most architectures are made of, read from the fields most config.json files share.

`attention`, `mlp` and `moe` build one mixer or feed-forward; `stack` folds a list of layers into groups; `decoder`
makes the model around them. An adapter says only what its family does differently.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tonnage.catalog.hub.fields import Config, first_given, flag, integer, integers, optional_integer, texts, wrong
from tonnage.domain.model import Attention, FeedForward, LayerGroup, Mixer, Mlp, Model, Moe, StateSpace

__all__ = [
    "attention",
    "decoder",
    "hidden_size",
    "layer_count",
    "mlp",
    "model_kind",
    "moe",
    "moe_layers",
    "same",
    "stack",
    "windows",
]


def hidden_size(c: Config) -> int:
    """Model width."""
    return integer(c, "hidden_size", "n_embd", "d_model", "dim", "embedding_dim")


def layer_count(c: Config) -> int:
    """Number of blocks; newer files of block lists leave the number out."""
    listed = first_given(c, "layers_block_type", "hybrid_override_pattern")
    names = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_blocks")
    if first_given(c, *names) is None and isinstance(listed, list | str):
        return integer(Config(c.file, {"num_hidden_layers": len(listed)}, c.prefix), "num_hidden_layers")
    return integer(c, *names)


def attention(c: Config, **changes: Any) -> Attention:
    """Attention as llama-like files describe it."""
    heads = integer(c, "num_attention_heads", "n_head", "n_heads")
    kv_heads = integer(c, "num_key_value_heads", default=heads)
    width = integer(c, "head_dim", "attention_head_dim", default=max(hidden_size(c) // heads, 1))
    if kv_heads > heads:
        raise wrong(c, "num_key_value_heads", value=kv_heads, expected=f"at most the {heads} attention heads")
    facts: dict[str, Any] = {
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": width,
        "bias": flag(c, "attention_bias", default=False),
    }
    return Attention(**{**facts, **changes})


def mlp(c: Config, **changes: Any) -> Mlp:
    """A dense feed-forward as llama-like files describe it."""
    facts: dict[str, Any] = {"bias": flag(c, "mlp_bias", default=False), **changes}
    if "intermediate_size" not in facts:
        facts["intermediate_size"] = integer(c, "intermediate_size", "ffn_dim", "n_inner")
    return Mlp(**facts)


def moe(c: Config, **changes: Any) -> Moe:
    """A mixture of experts as Mixtral-like files describe it."""
    experts = integer(c, "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    chosen = integer(c, "num_experts_per_tok", "num_experts_per_token", "moe_top_k", "top_k_experts", "moe_k")
    if chosen > experts:
        raise wrong(c, "num_experts_per_tok", value=chosen, expected=f"at most the {experts} experts")
    facts: dict[str, Any] = {"num_experts": experts, "num_experts_per_tok": chosen, **changes}
    if "moe_intermediate_size" not in facts:
        facts["moe_intermediate_size"] = integer(c, "moe_intermediate_size", "intermediate_size")
    return Moe(**facts)


def stack(layers: Iterable[LayerGroup]) -> tuple[LayerGroup, ...]:
    """Layers, each given with its count, folded into groups of identical ones."""
    counts: dict[LayerGroup, int] = {}
    for layer in layers:
        one = layer if layer.count == 1 else msgspec.structs.replace(layer, count=1)
        counts[one] = counts.get(one, 0) + layer.count
    return tuple(msgspec.structs.replace(layer, count=count) for layer, count in counts.items())


def same(c: Config, parts: tuple[Mixer | None, FeedForward | None], **changes: Any) -> tuple[LayerGroup, ...]:
    """One group of identical layers of this mixer and feed-forward, as many as the file says."""
    mixer, feed_forward = parts
    return (LayerGroup(count=layer_count(c), mixer=mixer, feed_forward=feed_forward, **changes),)


def windows(c: Config, *, every: int | None = None, full_first: bool = False) -> tuple[int | None, ...]:
    """
    The window of each layer: from `layer_types`, else the last (or first) of `every` layers is full.

    A window not below the longest context never binds and is left out.
    """
    count = layer_count(c)
    width = optional_integer(c, "sliding_window", "attention_chunk_size")
    longest = optional_integer(c, "max_position_embeddings")
    if not width or (longest is not None and width >= longest):
        return (None,) * count
    kinds = texts(c, "layer_types", length=count)
    if kinds is not None:
        return tuple(width if "sliding" in kind or "chunked" in kind else None for kind in kinds)
    if every is None:
        return (width,) * count
    full = 0 if full_first else every - 1
    return tuple(None if every and index % every == full else width for index in range(count))


def moe_layers(c: Config, *, first_dense: int = 0, every: int = 1, offset: int | None = None) -> tuple[bool, ...]:
    """Which layers hold experts: after the first dense ones, every so many, from an offset."""
    count = layer_count(c)
    listed = integers(c, "moe_layer_freq", length=count) if isinstance(c.data.get("moe_layer_freq"), list) else None
    if listed is not None:
        return tuple(bool(item) for item in listed)
    start = every - 1 if offset is None else offset
    return tuple(index >= first_dense and index % every == start for index in range(count))


def model_kind(model: Model) -> str:
    """The kind of a decoder, from its layers."""
    state = any(isinstance(group.mixer, StateSpace) for group in model.layers)
    attends = any(group.mixer is not None and not isinstance(group.mixer, StateSpace) for group in model.layers)
    experts = any(isinstance(group.feed_forward, Moe) for group in model.layers)
    if state and not attends:
        return "ssm"
    return ("hybrid" if state else "llm") + ("-moe" if experts else "")


def decoder(c: Config, layers: Iterable[LayerGroup], *, tied: bool = False, **changes: Any) -> Model:
    """A decoder around these layers; `tied` is what the family's files mean when they do not say."""
    facts: dict[str, Any] = {
        "id": "",
        "family": "",
        "kind": "",
        "hidden_size": hidden_size(c),
        "vocab_size": integer(c, "vocab_size", "padded_vocab_size"),
        "layers": stack(layers),
        "tie_word_embeddings": flag(c, "tie_word_embeddings", default=tied),
        "max_context": optional_integer(
            c, "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", low=1
        ),
    }
    model = Model(**{**facts, **changes})
    return model if model.kind else msgspec.structs.replace(model, kind=model_kind(model))
