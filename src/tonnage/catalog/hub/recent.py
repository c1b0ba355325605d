"""Architectures that appeared from late 2025 on: one small function for each `model_type`.

What they have in common: windows between full layers whose heads differ, gates on attention's output, short
convolutions, and linear attention where full attention was. Sources: the reference implementation of each type (Hugging
Face transformers and the vendors' repositories), checked against published totals in the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from tonnage.catalog.hub.fields import (
    Adapter,
    Config,
    attention,
    decoder,
    first_given,
    flag,
    hidden_size,
    identical_layers,
    integer,
    integers,
    layer,
    layer_count,
    mlp,
    moe,
    moe_layers,
    optional_count,
    optional_integer,
    text,
    texts,
    windows,
)
from tonnage.catalog.hub.moe import sparse_step
from tonnage.domain.model import (
    Attention,
    FeedForward,
    LatentAttention,
    LayerGroup,
    Mixer,
    Model,
    Moe,
    StateSpace,
)


def _shared_width(c: Config, width: int) -> int:
    """Total width of the shared experts."""
    count = optional_count(c, "n_shared_experts", "num_shared_experts", "num_shared_expert")
    return integer(c, "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", default=width) * count


def sparse_layers(c: Config) -> tuple[bool, ...]:
    """Layers with experts, from `mlp_layer_types` or after the first dense ones."""
    listed = texts(c, "mlp_layer_types", length=layer_count(c))
    if listed is not None:
        return tuple(kind == "sparse" for kind in listed)
    return moe_layers(c, first_dense=optional_count(c, "first_k_dense_replace", "num_dense_layers"))


def _windowed_decoder(
    c: Config, base: Attention, feeds: tuple[FeedForward, FeedForward | None], **changes: Any
) -> Model:
    """A decoder whose attention is `base` with the window of each layer, and whose layers hold experts or are dense."""
    experts, dense = feeds
    layers = [
        layer(replace(base, window=window), experts if sparse else dense, **changes)
        for window, sparse in zip(windows(c, every=4), sparse_layers(c), strict=True)
    ]
    return decoder(c, layers, mtp_layers=optional_count(c, "num_nextn_predict_layers"))


def _afmoe(c: Config) -> Model:
    """Arcee Trinity: gated attention with normed queries and keys, norms before and after each half of a layer."""
    width = integer(c, "moe_intermediate_size")
    experts = moe(c, shared_intermediate_size=_shared_width(c, width), router_bias=True)
    return _windowed_decoder(c, attention(c, qk_norm=True, gated=True), (experts, mlp(c)), norms=4)


def _hy_v3(c: Config) -> Model:
    """Tencent Hy3: GLM-4.5's layout with normed queries and keys, and no window."""
    width = integer(c, "moe_intermediate_size", "expert_hidden_dim")
    experts = moe(c, moe_intermediate_size=width, shared_intermediate_size=_shared_width(c, width), router_bias=True)
    normed = attention(c, qk_norm=flag(c, "qk_norm", default=True))
    layers = [layer(normed, experts if sparse else mlp(c)) for sparse in sparse_layers(c)]
    return decoder(c, layers, mtp_layers=optional_count(c, "num_nextn_predict_layers"))


def _hunyuan_moe(c: Config) -> Model:
    """Hunyuan-A13B: a shared expert beside the routed ones in every layer; the file lists one value for each layer."""

    def first(name: str) -> int:
        listed = c.data.get(name)
        one = {name: listed[0]} if isinstance(listed, list) and listed else {name: listed}
        return integer(Config(c.file, one, c.prefix), name)

    width = first("moe_intermediate_size")
    experts = Moe(
        num_experts=integer(c, "num_experts"),
        num_experts_per_tok=first("moe_topk"),
        moe_intermediate_size=width,
        shared_intermediate_size=first("num_shared_expert") * width,
    )
    return decoder(
        c, identical_layers(c, (attention(c, qk_norm=flag(c, "use_qk_norm", default=True)), experts)), tied=True
    )


def _laguna(c: Config) -> Model:
    """Poolside Laguna: windowed layers have more query heads than full ones; a gate per head or per channel."""
    count, width = layer_count(c), hidden_size(c)
    heads = integers(c, "num_attention_heads_per_layer", length=count) or (integer(c, "num_attention_heads"),) * count
    by_channel = first_given(c, "gating") == "per-element"  # else true or "per-head"
    experts = moe(c, shared_intermediate_size=optional_count(c, "shared_expert_intermediate_size"))
    dense, base = mlp(c), attention(c, qk_norm=True, gated=by_channel)
    layers = []
    for number, window, sparse in zip(heads, windows(c), sparse_layers(c), strict=True):
        mixer = replace(base, num_attention_heads=number, window=window)
        gate = 0.0 if by_channel else float(number * width)
        feed = experts if sparse else dense
        layers.append(layer(mixer, feed, extra_parameters=gate))
    return decoder(c, layers)


def _mellum(c: Config) -> Model:
    """JetBrains Mellum 2: Qwen3-MoE with windows."""
    return _windowed_decoder(c, attention(c, qk_norm=True), (moe(c), None))


def _muse_glimmer(c: Config) -> Model:
    """Muse Glimmer: dense, three windowed layers for each full one, gated attention, norms before and after."""
    return _windowed_decoder(c, attention(c, gated=True, qk_norm=True), (mlp(c), mlp(c)), norms=4)


def _k2_horizon(c: Config) -> Model:
    """
    K2 Horizon: dense, or experts in the feed-forward and in the value projection (MoVA).

    MoVA routes each token to some of many value projections. All but one of them are written as a mixture of ungated
    experts of half the value width: the same weights, the same work for each token, and the cache stays that of grouped
    queries.
    """
    gated = bool(text(c, "attention_gate_func"))
    mixer = attention(c, gated=gated, qk_norm=flag(c, "query_key_norm"))
    values = optional_count(c, "mova_num_experts")
    if not optional_count(c, "num_experts"):
        return decoder(c, identical_layers(c, (mixer, mlp(c))))
    width = integer(c, "moe_intermediate_size")
    experts = moe(c, shared_intermediate_size=_shared_width(c, width), router_bias=flag(c, "moe_gate_bias"))
    layers = []
    for sparse in sparse_step(c):
        layers.append(layer(mixer, experts if sparse else mlp(c)))
        if sparse and values > 1:
            chosen = max(integer(c, "mova_num_experts_per_tok") - 1, 1)
            routed = Moe(
                num_experts=values - 1,
                num_experts_per_tok=chosen,
                gated=False,
                moe_intermediate_size=mixer.num_key_value_heads * mixer.head_dim // 2,
            )
            layers.append(LayerGroup(count=1, feed_forward=routed, norms=0))
    return decoder(c, layers)


def _latent(c: Config, **changes: Any) -> LatentAttention:
    return LatentAttention(
        num_attention_heads=integer(c, "num_attention_heads"),
        kv_lora_rank=integer(c, "kv_lora_rank"),
        qk_rope_head_dim=integer(c, "qk_rope_head_dim", low=0),
        qk_nope_head_dim=integer(c, "qk_nope_head_dim"),
        v_head_dim=integer(c, "v_head_dim"),
        q_lora_rank=optional_integer(c, "q_lora_rank", low=1),
        **changes,
    )


def _delta(c: Config, heads: int, width: int) -> StateSpace:
    return StateSpace(
        kind="kda",
        num_heads=heads,
        head_dim=width,
        state_size=width,
        num_groups=heads,
        conv_kernel=integer(c, "short_conv_kernel_size", "linear_conv_kernel_dim", default=4),
    )


def _bailing_hybrid(c: Config) -> Model:
    """Ling 3: Kimi-delta layers, and a latent one with a gate for each head at the end of each group of layers."""
    count, width = layer_count(c), hidden_size(c)
    heads, head = integer(c, "num_attention_heads"), integer(c, "head_dim")
    inner, group = heads * head, integer(c, "layer_group_size")
    # Without low rank, the decay and the output gate are whole matrices: what they have more than the factored ones.
    whole = 2.0 * (inner * width - head * (width + inner)) if flag(c, "no_kda_lora") else 0.0
    latent, delta = _latent(c), _delta(c, heads, head)
    expert = integer(c, "moe_intermediate_size")
    experts = moe(c, shared_intermediate_size=_shared_width(c, expert), router_bias=True)
    layers = []
    for index, sparse in enumerate(sparse_layers(c)):
        attends = index % group == group - 1 or index == count - 1
        mixer: Mixer = latent if attends else delta
        extra = float(heads * width) if attends else whole
        feed = experts if sparse else mlp(c)
        layers.append(layer(mixer, feed, extra_parameters=extra))
    return decoder(c, layers, mtp_layers=optional_count(c, "num_nextn_predict_layers"))


def _glm5_next(c: Config) -> Model:
    """GLM-5.3-Flash: Kimi-delta layers, latent ones with a sparse-attention indexer, mixed residual streams."""
    width, streams = hidden_size(c), integer(c, "hc_mult", default=4)
    mixing = 2.0 * ((2 + streams) * streams * (streams * width + 1) + 3)
    latent = _latent(
        c,
        index_heads=integer(c, "index_n_heads"),
        index_head_dim=integer(c, "index_head_dim"),
        index_topk=integer(c, "index_topk"),
    )
    delta = _delta(c, integer(c, "linear_num_heads"), integer(c, "linear_head_dim"))
    expert = integer(c, "moe_intermediate_size")
    experts = moe(c, shared_intermediate_size=_shared_width(c, expert), router_bias=True)
    kinds = texts(c, "layer_types", length=layer_count(c)) or _every_fourth(layer_count(c))
    layers = []
    for kind, sparse in zip(kinds, sparse_layers(c), strict=True):
        mixer: Mixer = delta if kind == "linear_attention" else latent
        feed = experts if sparse else mlp(c)
        layers.append(layer(mixer, feed, extra_parameters=mixing))
    return decoder(c, layers, mtp_layers=optional_count(c, "num_nextn_predict_layers"))


def _every_fourth(count: int) -> tuple[str, ...]:
    return tuple("linear_attention" if index % 4 != 3 else "deepseek_sparse_attention" for index in range(count))


def _inkling(c: Config) -> Model:
    """
    Inkling: windowed layers with twice the key-value heads, relative positions by a low-rank term, short convolutions.

    A term of `d_rel` values for each head replaces rotary positions; keys, values and both outputs pass a convolution
    over a few tokens, whose state is too small to count.
    """
    count, width = layer_count(c), hidden_size(c)
    full = attention(c, qk_norm=True)
    local = Attention(
        num_attention_heads=integer(c, "swa_num_attention_heads", default=full.num_attention_heads),
        num_key_value_heads=integer(c, "swa_num_key_value_heads", default=full.num_key_value_heads),
        head_dim=integer(c, "swa_head_dim", default=full.head_dim),
        qk_norm=True,
        window=integer(c, "sliding_window_size", "sliding_window"),
    )
    expert = integer(c, "moe_intermediate_size")
    experts = moe(c, shared_intermediate_size=optional_count(c, "n_shared_experts") * expert)
    dense, kernel = mlp(c), integer(c, "conv_kernel_size", "sconv_kernel_size", default=4)
    first, rank = optional_count(c, "dense_mlp_idx"), integer(c, "d_rel", default=16)
    layers = [
        layer(
            mixer, dense if index < first else experts, extra_parameters=_inkling_extra(mixer, width, kernel, rank=rank)
        )
        for index, mixer in enumerate(_inkling_mixers(c, full, local, count=count))
    ]
    return decoder(c, layers, mtp_layers=optional_count(c, "num_mtp_layers"))


def _inkling_mixers(c: Config, full: Attention, local: Attention, *, count: int) -> Iterator[Attention]:
    kinds = texts(c, "layer_types", length=count)
    for index in range(count):
        slides = (index + 1) % 6 != 0 if kinds is None else "sliding" in kinds[index]
        yield local if slides else full


def _inkling_extra(mixer: Attention, width: int, kernel: int, *, rank: int) -> float:
    """Relative positions, and four short convolutions: on keys, values and both outputs of the layer."""
    cached = 2 * mixer.num_key_value_heads * mixer.head_dim
    return float(mixer.num_attention_heads * rank * width + kernel * (cached + 2 * width))


RECENT: Final[dict[str, tuple[str, Adapter]]] = {
    "afmoe": ("Trinity", _afmoe),
    "hy_v3": ("Hy", _hy_v3),
    "hunyuan_v1_moe": ("Hunyuan", _hunyuan_moe),
    "laguna": ("Laguna", _laguna),
    "mellum": ("Mellum", _mellum),
    "muse_glimmer_text": ("Muse", _muse_glimmer),
    "k2_horizon": ("K2", _k2_horizon),
    "bailing_hybrid": ("Ling", _bailing_hybrid),
    "glm5_next_text": ("GLM", _glm5_next),
    "inkling_text": ("Inkling", _inkling),
}
"""Family and adapter by `model_type`."""
