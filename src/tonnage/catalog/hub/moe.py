"""Mixtures of experts with ordinary attention: one small function for each `model_type`.

Sources: the reference implementation of each type (Hugging Face transformers and the vendors' repositories), checked
against published totals in the tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from tonnage.catalog.hub.fields import (
    Adapter,
    Config,
    attention,
    decoder,
    flag,
    flags,
    hidden_size,
    identical_layers,
    integer,
    integers,
    layer,
    layer_count,
    mlp,
    moe,
    moe_layers,
    normed_channels,
    optional_count,
    optional_integer,
    section,
    texts,
    windows,
)
from tonnage.domain.model import Attention, FeedForward, LayerGroup, Mlp, Model, Moe


def sparse_step(c: Config) -> tuple[bool, ...]:
    """Layers with experts by `decoder_sparse_step`, less those of `mlp_only_layers`."""
    every = max(integer(c, "decoder_sparse_step", default=1), 1)
    dense = set(integers(c, "mlp_only_layers") or ())
    return tuple(sparse and index not in dense for index, sparse in enumerate(moe_layers(c, every=every)))


def _group_layers(
    mixer: Attention, sparse: Iterable[bool], *, experts: Moe, dense: FeedForward | None, norms: int = 2
) -> list[LayerGroup]:
    """Layers with one mixer, whose feed-forward is a mixture where `sparse` says so."""
    return [layer(mixer, experts if s else dense, norms=norms) for s in sparse]


def _mixtral(c: Config) -> Model:
    return decoder(
        c, identical_layers(c, (attention(c), moe(c, moe_intermediate_size=integer(c, "intermediate_size"))))
    )


def _qwen2_moe(c: Config) -> Model:
    """Biased query, key and value; a shared expert behind a scalar gate."""
    experts = moe(c, shared_intermediate_size=integer(c, "shared_expert_intermediate_size"), shared_gate=True)
    return decoder(c, _group_layers(attention(c, bias=True), sparse_step(c), experts=experts, dense=mlp(c)))


def _qwen3_moe(c: Config) -> Model:
    sparse = sparse_step(c)
    dense = None if all(sparse) else mlp(c)
    return decoder(c, _group_layers(attention(c, qk_norm=True), sparse, experts=moe(c), dense=dense))


def _phimoe(c: Config) -> Model:
    """Phi-3.5-MoE: LayerNorm, biases in attention and head."""
    bias = flag(c, "attention_bias", default=True)
    layers = identical_layers(c, (attention(c, bias=bias, output_bias=bias), moe(c)), norm_bias=True)
    return decoder(c, layers, norm_bias=True, head_bias=flag(c, "lm_head_bias", default=True))


def _olmoe(c: Config) -> Model:
    """Query and key norms over all heads together."""
    base = attention(c, qk_norm_all_heads=True)
    return decoder(c, identical_layers(c, (base, moe(c)), extra_parameters=normed_channels(base)))


def _dbrx(c: Config) -> Model:
    """DBRX nests its attention and expert settings; LayerNorm without bias."""
    look, feed = section(c, "attn_config") or c, section(c, "ffn_config") or c
    experts = Moe(
        num_experts=integer(feed, "moe_num_experts", "num_experts", default=4),
        num_experts_per_tok=integer(feed, "moe_top_k", "num_experts_per_tok", default=1),
        moe_intermediate_size=integer(feed, "ffn_hidden_size", "moe_intermediate_size", default=3584),
    )
    kv_heads = integer(look, "kv_n_heads", "num_key_value_heads", default=1)
    return decoder(c, identical_layers(c, (attention(c, num_key_value_heads=kv_heads), experts)))


def _arctic(c: Config) -> Model:
    """A dense residual feed-forward of the model's width beside the experts, with its own norm."""
    dense = hidden_size(c) if flag(c, "parallel_attn_mlp_res", default=True) else 0
    return decoder(c, identical_layers(c, (attention(c), moe(c, dense_intermediate_size=dense)), norms=3))


def _grok1(c: Config) -> Model:
    """Norms before and after each sub-layer; the embedding is the head."""
    return decoder(c, identical_layers(c, (attention(c), moe(c)), norms=4), tied=True)


def _granitemoe(c: Config) -> Model:
    shared = optional_count(c, "shared_intermediate_size")
    return decoder(c, identical_layers(c, (attention(c), moe(c, shared_intermediate_size=shared))), tied=True)


def _ernie(c: Config) -> Model:
    """ERNIE 4.5: dense layers first, shared experts, a correction bias on the router."""
    first = integer(c, "moe_layer_start_index", default=1, low=0)
    width = integer(c, "moe_intermediate_size")
    shared = optional_count(c, "moe_num_shared_experts") * width
    experts = moe(c, moe_intermediate_size=width, shared_intermediate_size=shared, router_bias=True)
    sparse = moe_layers(c, first_dense=first)
    bias = flag(c, "use_bias")
    return decoder(c, _group_layers(attention(c, bias=bias), sparse, experts=experts, dense=mlp(c)), tied=True)


def _gpt_oss(c: Config) -> Model:
    """Biases everywhere, a sink logit for each head, every second layer with a window."""
    base = attention(c, bias=True, output_bias=True, sinks=True)
    experts = moe(c, moe_intermediate_size=integer(c, "intermediate_size"), bias=True, router_bias=True)
    layers = (layer(replace(base, window=w), experts) for w in windows(c, every=2))
    return decoder(c, layers)


def _llama4(c: Config) -> Model:
    """One routed and one shared expert; three of four layers see a chunk; dense layers between in Maverick."""
    count, step = layer_count(c), integer(c, "interleave_moe_layer_step", default=1)
    listed = integers(c, "moe_layers")
    sparse = set(range(step - 1, count, step)) if listed is None else set(listed)
    width = integer(c, "intermediate_size")
    experts = moe(c, moe_intermediate_size=width, shared_intermediate_size=width)
    dense = Mlp(intermediate_size=integer(c, "intermediate_size_mlp", default=width))
    base, rotary = attention(c), flags(c, "no_rope_layers", length=count) if c.data.get("no_rope_layers") else None
    layers = []
    for index, window in enumerate(windows(c, every=4)):
        seen = window if rotary is None or rotary[index] else None
        mixer = replace(base, window=seen)
        layers.append(layer(mixer, experts if index in sparse else dense))
    return decoder(c, layers)


def _minimax_m2(c: Config) -> Model:
    """Query and key norms over all heads together; a correction bias on the router."""
    base = attention(c, qk_norm_all_heads=flag(c, "use_qk_norm", default=True))
    experts = moe(c, moe_intermediate_size=integer(c, "intermediate_size"), router_bias=True)
    extra = normed_channels(base) if base.qk_norm_all_heads else 0.0
    return decoder(
        c, identical_layers(c, (base, experts), extra_parameters=extra), mtp_layers=optional_count(c, "num_mtp_modules")
    )


def _minimax_m3(c: Config) -> Model:
    """Dense layers first; sparse attention chosen by an indexer in the others."""
    count, settings = layer_count(c), section(c, "sparse_attention_config")
    full = attention(c, qk_norm=True)
    indexed, chosen = full, (False,) * count
    if settings is not None and flag(settings, "use_sparse_attention", default=True):
        tokens = integer(settings, "sparse_topk_blocks") * integer(settings, "sparse_block_size")
        indexed = replace(
            full,
            index_heads=integer(settings, "sparse_num_index_heads"),
            index_topk=tokens,
            index_head_dim=integer(settings, "sparse_index_dim"),
        )
        chosen = flags(settings, "sparse_attention_freq", length=count) or (True,) * count
    width = integer(c, "moe_intermediate_size", "intermediate_size")
    shared = integer(c, "shared_intermediate_size", default=optional_count(c, "n_shared_experts") * width, low=0)
    experts = moe(c, moe_intermediate_size=width, shared_intermediate_size=shared, router_bias=True)
    sparse = moe_layers(c, first_dense=optional_count(c, "first_k_dense_replace"))
    dense = Mlp(intermediate_size=integer(c, "dense_intermediate_size", default=width))
    layers = [layer(indexed if chosen[i] else full, experts if sparse[i] else dense) for i in range(count)]
    return decoder(c, layers, mtp_layers=optional_count(c, "num_mtp_modules", "num_nextn_predict_layers"))


def _glm4_moe(c: Config) -> Model:
    """GLM-4.5 to 4.7: dense layers first, a shared expert, a correction bias on the router."""
    width = integer(c, "moe_intermediate_size")
    shared = optional_count(c, "n_shared_experts") * width
    mixer = attention(c, bias=flag(c, "attention_bias", default=True), qk_norm=flag(c, "use_qk_norm"))
    sparse = moe_layers(c, first_dense=optional_count(c, "first_k_dense_replace"))
    experts = moe(c, shared_intermediate_size=shared, router_bias=True)
    layers = _group_layers(mixer, sparse, experts=experts, dense=mlp(c))
    return decoder(c, layers, mtp_layers=optional_count(c, "num_nextn_predict_layers"))


def _mimo_v2(c: Config) -> Model:
    """Full layers between windowed ones that have twice the key-value heads and a sink for each head."""
    count = layer_count(c)
    windowed = flags(c, "hybrid_layer_pattern", length=count) or (False,) * count
    value = optional_integer(c, "v_head_dim")
    full = attention(c, v_head_dim=value, sinks=flag(c, "add_full_attention_sink_bias"))
    local = Attention(
        num_attention_heads=integer(c, "swa_num_attention_heads", default=full.num_attention_heads),
        num_key_value_heads=integer(c, "swa_num_key_value_heads", default=full.num_key_value_heads),
        head_dim=integer(c, "swa_head_dim", default=full.head_dim),
        v_head_dim=optional_integer(c, "swa_v_head_dim") or value,
        window=optional_integer(c, "sliding_window", low=1),
        sinks=flag(c, "add_swa_attention_sink_bias"),
    )
    experts, dense = moe(c, router_bias=True), mlp(c)
    sparse = moe_layers(c)
    layers = [layer(local if windowed[i] else full, experts if sparse[i] else dense) for i in range(count)]
    return decoder(c, layers)


def _step3(c: Config) -> Model:
    """Step 3.5 to 3.7 Flash: windowed layers may have more heads; a gate for each head; norms of queries and keys."""
    settings = section(c, "attention_other_setting") or c
    base = attention(c, qk_norm=True, num_key_value_heads=integer(c, "num_attention_groups", "num_key_value_heads"))
    heads = integer(settings, "num_attention_heads")
    groups = integer(settings, "num_attention_groups", default=base.num_key_value_heads)
    local = replace(base, num_attention_heads=heads, num_key_value_heads=groups)
    shared = optional_count(c, "share_expert_dim", "share_expert_dims")
    experts = moe(c, shared_intermediate_size=shared, router_bias=flag(c, "use_moe_router_bias", default=True))
    sparse = moe_layers(c, first_dense=optional_count(c, "first_k_dense_replace"))
    dense, width = mlp(c), hidden_size(c)
    layers = []
    for index, window in enumerate(windows(c, every=4, full_first=True)):
        mixer = base if window is None else replace(local, window=window)
        feed_forward = experts if sparse[index] else dense
        gate = float(mixer.num_attention_heads * width)
        layers.append(layer(mixer, feed_forward, extra_parameters=gate))
    return decoder(c, layers, mtp_layers=optional_count(c, "num_nextn_predict_layers"))


def gemma4_layers(c: Config) -> list[LayerGroup]:
    """
    Gemma 4: windowed layers and full ones with wider heads whose keys are the values.

    Every layer has the dense feed-forward; with `enable_moe_block` experts stand beside it, with three more norms, a
    scale for the router's input and one for each expert. Small models gate a per-layer embedding into each layer.
    """
    count, width = layer_count(c), hidden_size(c)
    local = attention(c, qk_norm=True)
    one = flag(c, "attention_k_eq_v")
    kv_heads = optional_integer(c, "num_global_key_value_heads") if one else None
    full = attention(
        c,
        qk_norm=True,
        key_is_value=one,
        head_dim=integer(c, "global_head_dim", "head_dim"),
        num_key_value_heads=kv_heads or local.num_key_value_heads,
    )
    shared = optional_count(c, "num_kv_shared_layers")
    double = flag(c, "use_double_wide_mlp")
    gate = optional_count(c, "hidden_size_per_layer_input")
    dense = mlp(c)
    experts = None
    if flag(c, "enable_moe_block"):
        experts = moe(c, dense_intermediate_size=dense.intermediate_size)
    layers = []
    for index, window in enumerate(windows(c, every=6)):
        base = full if window is None else replace(local, window=window)
        reuses = index >= count - shared
        feed: FeedForward = dense if experts is None else experts
        if reuses and double and isinstance(feed, Mlp):
            feed = Mlp(intermediate_size=2 * dense.intermediate_size)
        routing = 0 if experts is None else width + experts.num_experts
        extra = float(routing + (2 * width * gate + width if gate else 0))
        mixer = replace(base, kv_shared=reuses)
        norms = 4 if experts is None else 7
        layers.append(layer(mixer, feed, norms=norms, extra_parameters=extra))
    return layers


def _gemma4(c: Config) -> Model:
    gate = optional_count(c, "hidden_size_per_layer_input")
    extra = 0.0
    if gate:
        rows = integer(c, "vocab_size_per_layer_input", "vocab_size")
        extra = float(layer_count(c) * gate * (rows + hidden_size(c)) + gate)
    return decoder(c, gemma4_layers(c), tied=True, extra_parameters=extra)


def _gemma3n(c: Config) -> Model:
    """
    Gemma 3n: per-layer embeddings, alternating updates of four streams (AltUp), low-rank residuals (LAuReL).

    The checkpoint keeps key and value projections in the layers that reuse an earlier cache; they are in
    `extra_parameters`.
    """
    count, width, gate = layer_count(c), hidden_size(c), integer(c, "hidden_size_per_layer_input", default=256)
    streams, rank = integer(c, "altup_num_inputs", default=4), integer(c, "laurel_rank", default=64)
    sizes = integers(c, "intermediate_size", length=count) or ()
    base = attention(c, qk_norm=True)
    kept = float(2 * base.num_key_value_heads * base.head_dim * width + base.head_dim)
    altup = 2 * width + width * streams + streams**2 + streams**3
    each = float(2 * width * rank + width + 2 * width * gate + width + altup)
    shared = optional_count(c, "num_kv_shared_layers")
    kinds = texts(c, "layer_types", length=count)
    every = 5 if kinds is None else None
    layers = []
    for index, window in enumerate(windows(c, every=every)):
        reuses = index >= count - shared
        mixer = replace(base, window=window, kv_shared=reuses)
        extra = each + (kept if reuses else 0.0)
        feed = Mlp(intermediate_size=sizes[index])
        layers.append(layer(mixer, feed, norms=4, extra_parameters=extra))
    rows = integer(c, "vocab_size_per_layer_input", default=262144)
    outside = count * gate * (rows + width) + gate + 2 * (streams - 1) * width**2
    return decoder(c, layers, tied=True, extra_parameters=float(outside))


MOE: Final[dict[str, tuple[str, Adapter]]] = {
    "mixtral": ("Mixtral", _mixtral),
    "qwen2_moe": ("Qwen2", _qwen2_moe),
    "qwen3_moe": ("Qwen3", _qwen3_moe),
    "phimoe": ("Phi3", _phimoe),
    "olmoe": ("OLMo", _olmoe),
    "dbrx": ("DBRX", _dbrx),
    "arctic": ("Arctic", _arctic),
    "grok-1": ("Grok", _grok1),
    "granitemoe": ("Granite", _granitemoe),
    "granitemoeshared": ("Granite", _granitemoe),
    "ernie4_5_moe": ("ERNIE", _ernie),
    "gpt_oss": ("gpt-oss", _gpt_oss),
    "llama4_text": ("Llama4", _llama4),
    "minimax_m2": ("MiniMax", _minimax_m2),
    "minimax_m3": ("MiniMax", _minimax_m3),
    "glm4_moe": ("GLM", _glm4_moe),
    "mimo_v2_flash": ("MiMo", _mimo_v2),
    "step3p5": ("Step", _step3),
    "step3p7": ("Step", _step3),
    "gemma4_text": ("Gemma4", _gemma4),
    "gemma3n_text": ("Gemma3n", _gemma3n),
}
"""Family and adapter by `model_type`."""
