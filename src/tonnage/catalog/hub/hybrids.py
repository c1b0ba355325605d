"""Recurrent and hybrid decoders: layers with a fixed state, alone or between attention layers.

Sources: Mamba (arXiv 2312.00752), Mamba-2 (2405.21060), gated DeltaNet (2412.06464), MiniMax-01 (2501.08313), Jamba
(2403.19887), Nemotron-H (2504.03624), xLSTM 7B (2503.13427) and the reference implementation of each `model_type`.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tonnage.catalog.hub.fields import (
    Adapter,
    Config,
    attention,
    decoder,
    field_error,
    first_given,
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
    optional_count,
    optional_integer,
    text,
    texts,
)
from tonnage.domain.model import Attention, FeedForward, LayerGroup, Mixer, Mlp, Model, StateSpace


def _kinds(c: Config, *, every: int = 4) -> tuple[str, ...]:
    """`layer_types`, or full attention in the last of every so many layers."""
    count = layer_count(c)
    listed = texts(c, "layer_types", length=count)
    if listed is not None:
        return listed
    every = integer(c, "full_attention_interval", default=every)
    return tuple("full_attention" if index % every == every - 1 else "linear_attention" for index in range(count))


def _deltanet(c: Config) -> StateSpace:
    return StateSpace(
        kind="gated_deltanet",
        num_heads=integer(c, "linear_num_value_heads"),
        head_dim=integer(c, "linear_value_head_dim"),
        state_size=integer(c, "linear_key_head_dim"),
        num_groups=integer(c, "linear_num_key_heads"),
        conv_kernel=integer(c, "linear_conv_kernel_dim", default=4),
    )


def _qwen_hybrid(c: Config) -> Model:
    """Qwen3-Next and Qwen3.5: three gated DeltaNet layers for each layer of gated attention; dense or experts."""
    full, state = attention(c, qk_norm=True, gated=True), _deltanet(c)
    dense_only = set(integers(c, "mlp_only_layers") or ())
    sparse = first_given(c, "num_experts", "num_local_experts") is not None
    dense = mlp(c) if not sparse or dense_only else None
    experts = None
    if sparse:
        shared = optional_count(c, "shared_expert_intermediate_size")
        experts = moe(c, shared_intermediate_size=shared, shared_gate=shared > 0)
    layers = []
    for index, kind in enumerate(_kinds(c)):
        mixer: Mixer = full if kind == "full_attention" else state
        feed: FeedForward | None = experts if experts is not None and index not in dense_only else dense
        layers.append(layer(mixer, feed))
    return decoder(c, layers, mtp_layers=optional_count(c, "mtp_num_hidden_layers"))


def _mamba2(c: Config, *, heads: int | None = None) -> StateSpace:
    """Mamba-2 in the field names of Nemotron-H, Bamba, Granite, Falcon-H1 and Mamba-2 itself."""
    inner = integer(c, "mamba_d_ssm", default=int(integer(c, "mamba_expand", "expand", default=2)) * hidden_size(c))
    width = optional_integer(c, "mamba_head_dim", "mamba_d_head", "head_dim", low=1)
    count = heads or optional_integer(c, "mamba_num_heads", "mamba_n_heads", "num_heads", low=1)
    if width is None:
        width = inner // count if count else 64
    return StateSpace(
        kind="mamba2",
        num_heads=count or max(inner // width, 1),
        head_dim=width,
        state_size=integer(c, "ssm_state_size", "mamba_d_state", "state_size", "d_state", default=128),
        num_groups=integer(c, "n_groups", "mamba_n_groups", default=1),
        conv_kernel=integer(c, "conv_kernel", "mamba_d_conv", "d_conv", default=4),
    )


_LETTERS: Final = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def _nemotron_h(c: Config) -> Model:
    """Nemotron-H and Nemotron 3: each block is one of Mamba-2, attention, squared-ReLU feed-forward or experts."""
    count = layer_count(c)
    kinds = texts(c, "layers_block_type", length=count)
    if kinds is None:
        pattern = text(c, "hybrid_override_pattern")
        if len(pattern) < count or set(pattern) - set(_LETTERS):
            expected = f"{count} letters of M (Mamba), * (attention), - (feed-forward), E (experts)"
            raise field_error(c, "hybrid_override_pattern", value=pattern or None, expected=expected)
        kinds = tuple(_LETTERS[letter] for letter in pattern[:count])
    blocks = {kind: _nemotron_block(c, kind) for kind in set(kinds)}
    model = decoder(c, [blocks[kind] for kind in kinds], mtp_layers=optional_count(c, "num_nextn_predict_layers"))
    return model


def _nemotron_block(c: Config, kind: str) -> LayerGroup:
    """One block of that kind, with one norm."""
    if kind == "mamba":
        return layer(_mamba2(c), norms=1)
    if kind == "attention":
        width = integer(c, "head_dim", "attention_head_dim", default=128)
        return layer(attention(c, head_dim=width), norms=1)
    if kind == "mlp":
        return LayerGroup(count=1, feed_forward=mlp(c, gated=False), norms=1)
    if kind != "moe":
        raise field_error(c, "layers_block_type", value=kind, expected="mamba, attention, mlp or moe")
    narrow = optional_integer(c, "moe_latent_size", low=1)
    shared = integer(c, "n_shared_experts", default=1, low=0) * optional_count(c, "moe_shared_expert_intermediate_size")
    experts = moe(c, gated=False, latent_size=narrow, shared_intermediate_size=shared, router_bias=True)
    return LayerGroup(count=1, feed_forward=experts, norms=1)


def _mamba1(c: Config) -> StateSpace:
    """Mamba's first layer: one head as wide as the inner width, for nothing mixes its channels."""
    inner = integer(
        c, "intermediate_size", "d_inner", default=integer(c, "mamba_expand", "expand", default=2) * hidden_size(c)
    )
    return StateSpace(
        kind="mamba1",
        num_heads=1,
        head_dim=inner,
        state_size=integer(c, "state_size", "mamba_d_state", "d_state", default=16),
        conv_kernel=integer(c, "conv_kernel", "mamba_d_conv", "d_conv", default=4),
        dt_rank=_rank(c),
    )


def _rank(c: Config) -> int:
    named = first_given(c, "time_step_rank", "mamba_dt_rank", "dt_rank")
    return (
        -(-hidden_size(c) // 16)
        if named in (None, "auto")
        else integer(c, "time_step_rank", "mamba_dt_rank", "dt_rank")
    )


def _padded_vocabulary(c: Config) -> int:
    """The vendors' files give the tokenizer's size and the multiple it is padded to."""
    multiple = integer(c, "pad_vocab_size_multiple", default=1)
    return -(-integer(c, "vocab_size") // multiple) * multiple


def _mamba_model(c: Config) -> Model:
    layers = identical_layers(c, (_mamba1(c), None), norms=1)
    return decoder(c, layers, tied=True, max_context=None, vocab_size=_padded_vocabulary(c))


def _mamba2_model(c: Config) -> Model:
    layers = identical_layers(c, (_mamba2(c), None), norms=1)
    return decoder(c, layers, tied=True, max_context=None, vocab_size=_padded_vocabulary(c))


def _jamba(c: Config) -> Model:
    """One attention layer in eight, experts in every second; norms on Mamba's step, B and C."""
    count = layer_count(c)
    period, offset = integer(c, "attn_layer_period", default=8), integer(c, "attn_layer_offset", default=4, low=0)
    state = replace(_mamba1(c), head_dim=integer(c, "mamba_expand", default=2) * hidden_size(c))
    inside = float((state.dt_rank or 0) + 2 * state.state_size)
    sparse = moe_layers(
        c,
        every=integer(c, "expert_layer_period", default=2),
        offset=integer(c, "expert_layer_offset", default=1, low=0),
    )
    experts, dense = moe(c, moe_intermediate_size=integer(c, "intermediate_size")), mlp(c)
    layers = []
    for index in range(count):
        attends = index % period == offset
        mixer: Mixer = attention(c) if attends else state
        feed: FeedForward = experts if sparse[index] and experts.num_experts > 1 else dense
        layers.append(layer(mixer, feed, extra_parameters=0.0 if attends else inside))
    return decoder(c, layers)


def _granite_hybrid(c: Config) -> Model:
    """Granite 4: Mamba-2 and attention layers, each with experts, a shared expert, or a plain feed-forward."""
    count = layer_count(c)
    kinds = texts(c, "layer_types", length=count) or texts(c, "layers_block_type", length=count) or ("mamba",) * count
    shared = optional_count(c, "shared_intermediate_size")
    feed: FeedForward = Mlp(intermediate_size=shared or 1)
    if optional_count(c, "num_local_experts"):
        feed = moe(c, moe_intermediate_size=integer(c, "intermediate_size"), shared_intermediate_size=shared)
    layers = [layer(attention(c) if kind == "attention" else _mamba2(c), feed) for kind in kinds]
    return decoder(c, layers, tied=True)


def _bamba(c: Config) -> Model:
    attends = set(integers(c, "attn_layer_indices") or ())
    layers = [layer(attention(c) if index in attends else _mamba2(c), mlp(c)) for index in range(layer_count(c))]
    return decoder(c, layers)


def _falcon_h1(c: Config) -> Model:
    """Attention and Mamba-2 side by side in each layer: written as two groups, the second without a feed-forward."""
    state = replace(_mamba2(c), norm=flag(c, "mamba_rms_norm", default=True))
    count = layer_count(c)
    layers = (
        LayerGroup(count=count, mixer=state, feed_forward=mlp(c), norms=2),
        LayerGroup(count=count, mixer=attention(c), norms=0),
    )
    return decoder(c, layers)


def _lfm2(c: Config) -> Model:
    """LFM2: short gated convolutions between layers of attention with query and key norms; perhaps experts."""
    width, count = hidden_size(c), layer_count(c)
    listed = integers(c, "full_attn_idxs")
    kinds = texts(c, "layer_types", length=count)
    if kinds is None:
        attends = set(listed or ())
        kinds = tuple("full_attention" if index in attends else "conv" for index in range(count))
    inner = integer(c, "intermediate_size", "block_ff_dim", default=4 * width)
    if flag(c, "block_auto_adjust_ff_dim"):
        multiple = integer(c, "block_multiple_of", default=256)
        inner = -(-int(integer(c, "block_ffn_dim_multiplier", default=1) * (2 * inner // 3)) // multiple) * multiple
    conv = StateSpace(
        kind="short_conv", num_heads=1, head_dim=width, state_size=1, conv_kernel=integer(c, "conv_L_cache", default=3)
    )
    first = integer(c, "num_dense_layers", default=count, low=0) if first_given(c, "num_experts") is not None else count
    experts = moe(c, router_bias=flag(c, "use_expert_bias", default=True)) if first < count else None
    layers = []
    for index, kind in enumerate(kinds):
        mixer: Mixer = attention(c, qk_norm=True) if kind == "full_attention" else conv
        feed: FeedForward = Mlp(intermediate_size=inner) if experts is None or index < first else experts
        layers.append(layer(mixer, feed))
    return decoder(c, layers, tied=True)


def _minimax_m1(c: Config) -> Model:
    """MiniMax-Text-01 and M1: seven layers of lightning attention for each full one."""
    count = layer_count(c)
    full: Attention = attention(c)
    lightning = StateSpace(
        kind="lightning",
        num_heads=full.num_attention_heads,
        head_dim=full.head_dim,
        state_size=full.head_dim,
        num_groups=full.num_attention_heads,
        conv_kernel=1,
    )
    attends = flags(c, "attn_type_list", length=count)
    if attends is None:
        kinds = texts(c, "layer_types", length=count) or ("full_attention",) * count
        attends = tuple(kind == "full_attention" for kind in kinds)
    experts = moe(c, moe_intermediate_size=integer(c, "intermediate_size"))
    layers = [layer(full if a else lightning, experts) for a in attends]
    return decoder(c, layers)


def _xlstm(c: Config) -> Model:
    """xLSTM 7B: matrix memories with queries and keys of half the width, and a gated feed-forward."""
    width = integer(c, "hidden_size", "embedding_dim")
    heads = integer(c, "num_heads")
    state = StateSpace(
        kind="xlstm", num_heads=heads, head_dim=width // heads, state_size=max(width // heads // 2, 1), conv_kernel=1
    )
    inner = -(-int(width * 8 / 3) // 64) * 64
    return decoder(c, identical_layers(c, (state, Mlp(intermediate_size=inner))), hidden_size=width)


HYBRIDS: Final[dict[str, tuple[str, Adapter]]] = {
    "qwen3_next": ("Qwen3", _qwen_hybrid),
    "qwen3_5_text": ("Qwen3.5", _qwen_hybrid),
    "qwen3_5_moe_text": ("Qwen3.5", _qwen_hybrid),
    "nemotron_h": ("Nemotron-H", _nemotron_h),
    "mamba": ("Mamba", _mamba_model),
    "mamba2": ("Mamba2", _mamba2_model),
    "jamba": ("Jamba", _jamba),
    "granitemoehybrid": ("Granite", _granite_hybrid),
    "bamba": ("Bamba", _bamba),
    "falcon_h1": ("Falcon-H1", _falcon_h1),
    "lfm2": ("LFM2", _lfm2),
    "lfm2_moe": ("LFM2", _lfm2),
    "minimax_m1": ("MiniMax", _minimax_m1),
    "minimax_text_01": ("MiniMax", _minimax_m1),
    "minimax": ("MiniMax", _minimax_m1),
    "xlstm": ("xLSTM", _xlstm),
}
"""Family and adapter by `model_type`."""
