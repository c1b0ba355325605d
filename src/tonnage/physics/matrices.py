"""Which matrices and vectors has a layer?

Every matrix of every layer is written once, here: `mixer_matrices` and `feed_forward_matrices` give names, outputs and
inputs. Parameter counts, weight bytes per rank and the GEMM shapes of work lists all read these lists.

Ideas needed to read this file:
- a `Matrix` is multiplied with tokens: outputs x inputs, `copies` of it (experts), and how tensor parallelism cuts it;
- *vectors* (biases, norms, gains, decay rates) are counted but multiply nothing, and no engine quantises them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from tonnage.domain.model import Attention, FeedForward, LatentAttention, LayerGroup, Mixer, Mlp, Moe, StateSpace
from tonnage.record import SparseRecord


class Matrix(SparseRecord, kw_only=True):
    """One weight matrix: its two sides, how often it occurs, and how a group of ranks cuts it."""

    name: str
    outputs: int
    inputs: int
    copies: int = 1
    """Matrices of this shape in the layer: routed experts."""
    active: int | None = None
    """Copies one token passes, when not all: experts per token."""
    split: Literal["outputs", "inputs", "experts", "whole"] = "outputs"
    """Side that tensor parallelism cuts: columns, rows, the experts of a mixture, or none (each rank holds a copy)."""
    parts: int | None = None
    """Pieces it can be cut into (heads); beyond them ranks hold copies."""

    @property
    def size(self) -> int:
        """Values of one copy."""
        return self.outputs * self.inputs


def matrix_parameters(matrices: Iterable[Matrix], active: bool = False) -> float:
    """Values in all copies of these matrices, or only in the copies one token passes."""
    return float(sum(m.size * (m.active if active and m.active is not None else m.copies) for m in matrices))


def layer_matrices(group: LayerGroup, hidden: int) -> tuple[Matrix, ...]:
    """Every matrix of one layer: mixer, cross attention, feed-forward."""
    return (
        *mixer_matrices(group.mixer, hidden),
        *mixer_matrices(group.cross_attention, hidden),
        *feed_forward_matrices(group.feed_forward, hidden),
    )


def is_target(name: str, targets: tuple[str, ...]) -> bool:
    """Whether adapters of these targets change a matrix, or a part of a merged one; no targets stand for all."""
    merged = ("up_proj", "gate_up_proj")
    return not targets or any(
        target == name or (target in {"up_proj", "gate_proj"} and name.endswith(merged)) for target in targets
    )


def mixer_matrices(mixer: Mixer | None, hidden_size: int) -> tuple[Matrix, ...]:
    """The matrices of a token mixer, in the order a token meets them."""
    match mixer:
        case Attention():
            return _attention(mixer, hidden_size)
        case LatentAttention():
            return _latent(mixer, hidden_size)
        case StateSpace():
            return _STATE_SPACES[mixer.kind](mixer, hidden_size)
        case None:
            return ()


def _attention(a: Attention, hidden: int) -> tuple[Matrix, ...]:
    """Projections of attention with heads; a layer that shares another's keys has neither keys nor values."""
    heads, kv_heads, width = a.num_attention_heads, a.num_key_value_heads, a.head_dim
    value_width = a.v_head_dim or width
    found = [Matrix(name="q_proj", outputs=heads * width * (2 if a.gated else 1), inputs=hidden, parts=heads)]
    if not a.kv_shared:
        found.append(Matrix(name="k_proj", outputs=kv_heads * width, inputs=hidden, parts=kv_heads))
        if not a.key_is_value:
            found.append(Matrix(name="v_proj", outputs=kv_heads * value_width, inputs=hidden, parts=kv_heads))
    if a.index_heads:
        index = a.index_heads * a.index_head_dim
        found.append(Matrix(name="index_q_proj", outputs=index, inputs=hidden, split="whole"))
        found.append(Matrix(name="index_k_proj", outputs=a.index_head_dim, inputs=hidden, split="whole"))
    found.append(Matrix(name="o_proj", outputs=hidden, inputs=heads * value_width, split="inputs", parts=heads))
    return tuple(found)


def _latent(a: LatentAttention, hidden: int) -> tuple[Matrix, ...]:
    """Projections of latent attention down to its latents and up to heads, those of its indexer, and the output's."""
    heads, query = a.num_attention_heads, a.qk_nope_head_dim + a.qk_rope_head_dim
    found = []
    if a.q_lora_rank is None:
        found.append(Matrix(name="q_proj", outputs=heads * query, inputs=hidden, parts=heads))
    else:
        found.append(Matrix(name="q_a_proj", outputs=a.q_lora_rank, inputs=hidden, split="whole"))
        found.append(Matrix(name="q_b_proj", outputs=heads * query, inputs=a.q_lora_rank, parts=heads))
    found.append(
        Matrix(name="kv_a_proj", outputs=a.kv_lora_rank + a.qk_rope_head_dim, inputs=hidden, split="whole"),
    )
    up = heads * (a.qk_nope_head_dim + a.v_head_dim)
    if not a.absorbed:
        found.append(Matrix(name="kv_b_proj", outputs=up, inputs=a.kv_lora_rank, parts=heads))
    if a.index_heads:
        query_rank = a.q_lora_rank or hidden
        index = a.index_heads * a.index_head_dim
        found.append(Matrix(name="index_q_proj", outputs=index, inputs=query_rank, split="whole"))
        if not a.compress_ratio:
            found.append(Matrix(name="index_k_proj", outputs=a.index_head_dim, inputs=hidden, split="whole"))
        found.append(Matrix(name="index_weights_proj", outputs=a.index_heads, inputs=hidden, split="whole"))
    found += _compressors(a, hidden)
    values, groups = heads * a.v_head_dim, a.o_groups
    if a.o_lora_rank is None:
        found.append(Matrix(name="o_proj", outputs=hidden, inputs=values, split="inputs", parts=heads))
    else:
        rank = a.o_lora_rank
        found.append(Matrix(name="o_a_proj", outputs=groups * rank, inputs=values // groups, parts=groups))
        found.append(Matrix(name="o_b_proj", outputs=hidden, inputs=groups * rank, split="inputs", parts=groups))
    return tuple(found)


def _compressors(a: LatentAttention, hidden: int) -> list[Matrix]:
    """
    Values and scores of what is folded into one cache entry, and into one index key where there is an indexer.

    Indexed layers fold overlapping stretches and so project twice (DeepSeek-V4's reference implementation).
    """
    if not a.compress_ratio:
        return []
    each = 4 if a.index_heads else 2
    found = [
        Matrix(name="compress_proj", outputs=each * (a.kv_lora_rank + a.qk_rope_head_dim), inputs=hidden, split="whole")
    ]
    if a.index_heads:
        found.append(Matrix(name="index_compress_proj", outputs=each * a.index_head_dim, inputs=hidden, split="whole"))
    return found


def _projections(s: StateSpace, hidden: int, widths: dict[str, int]) -> tuple[Matrix, ...]:
    """Projections of the hidden state by name, then the output projection."""
    found = [Matrix(name=name, outputs=n, inputs=hidden, parts=s.parts) for name, n in widths.items()]
    inner = s.num_heads * s.head_dim
    return (*found, Matrix(name="out_proj", outputs=hidden, inputs=inner, split="inputs", parts=s.parts))


def _convolution(s: StateSpace, channels: int) -> Matrix:
    """A depthwise convolution over the last `conv_kernel` tokens."""
    return Matrix(name="conv", outputs=channels, inputs=s.conv_kernel, parts=s.parts)


def _mamba1(s: StateSpace, hidden: int) -> tuple[Matrix, ...]:
    inner, rank = s.num_heads * s.head_dim, _dt_rank(s, hidden)
    first, last = _projections(s, hidden, {"in_proj": 2 * inner})
    selection = Matrix(name="x_proj", outputs=rank + 2 * s.state_size, inputs=inner, split="inputs", parts=s.parts)
    step = Matrix(name="dt_proj", outputs=inner, inputs=rank, parts=s.parts)
    return first, _convolution(s, inner), selection, step, last


def _mamba2(s: StateSpace, hidden: int) -> tuple[Matrix, ...]:
    inner, groups = s.num_heads * s.head_dim, 2 * s.num_groups * s.state_size
    first, last = _projections(s, hidden, {"in_proj": 2 * inner + groups + s.num_heads})
    return first, _convolution(s, inner + groups), last


def _gated_deltanet(s: StateSpace, hidden: int) -> tuple[Matrix, ...]:
    inner, key = s.num_heads * s.head_dim, s.num_groups * s.state_size
    widths = {"qkvz_proj": 2 * key + 2 * inner, "ba_proj": 2 * s.num_heads}
    *first, last = _projections(s, hidden, widths)
    return *first, _convolution(s, 2 * key + inner), last


def _kda(s: StateSpace, hidden: int) -> tuple[Matrix, ...]:
    inner, key, heads = s.num_heads * s.head_dim, s.num_groups * s.state_size, s.num_heads
    *first, last = _projections(s, hidden, {"qkv_proj": 2 * key + inner, "b_proj": heads})
    gates = (
        Matrix(name="f_a_proj", outputs=s.head_dim, inputs=hidden, split="whole"),
        Matrix(name="f_b_proj", outputs=key, inputs=s.head_dim, parts=heads),
        Matrix(name="g_a_proj", outputs=s.head_dim, inputs=hidden, split="whole"),
        Matrix(name="g_b_proj", outputs=inner, inputs=s.head_dim, parts=heads),
    )
    return *first, *gates, _convolution(s, 2 * key + inner), last


def _lightning(s: StateSpace, hidden: int) -> tuple[Matrix, ...]:
    inner = s.num_heads * s.head_dim
    return _projections(s, hidden, {"qkv_proj": 3 * inner, "gate_proj": inner})


def _xlstm(s: StateSpace, hidden: int) -> tuple[Matrix, ...]:
    inner, key = s.num_heads * s.head_dim, s.num_heads * s.state_size
    return _projections(s, hidden, {"qkv_proj": 2 * key + inner, "gate_proj": inner, "if_proj": 2 * s.num_heads})


def _rwkv(s: StateSpace, hidden: int) -> tuple[Matrix, ...]:
    return _projections(s, hidden, {"rkvg_proj": 4 * s.num_heads * s.head_dim})


def _short_conv(s: StateSpace, hidden: int) -> tuple[Matrix, ...]:
    inner = s.num_heads * s.head_dim
    first, last = _projections(s, hidden, {"in_proj": 3 * inner})
    return first, _convolution(s, inner), last


_STATE_SPACES = {
    "mamba1": _mamba1,
    "mamba2": _mamba2,
    "gated_deltanet": _gated_deltanet,
    "kda": _kda,
    "lightning": _lightning,
    "xlstm": _xlstm,
    "rwkv": _rwkv,
    "short_conv": _short_conv,
}


def _dt_rank(s: StateSpace, hidden: int) -> int:
    return s.dt_rank if s.dt_rank is not None else -(-hidden // 16)


_BIASED = {"q_proj", "k_proj", "v_proj"}


def mixer_vectors(mixer: Mixer | None, hidden_size: int) -> float:
    """Values of a mixer that multiply no token: biases, norms inside it, sinks, decay rates."""
    match mixer:
        case Attention():
            projections = _attention(mixer, hidden_size)
            biases = sum(m.outputs for m in projections if m.name in _BIASED) if mixer.bias else 0
            norms = (mixer.head_dim if mixer.kv_shared else 2 * mixer.head_dim) if mixer.qk_norm else 0
            output_bias = hidden_size if mixer.output_bias else 0
            index_norms = 2 * mixer.index_head_dim if mixer.index_heads else 0
            return float(biases + norms + output_bias + index_norms + (mixer.num_attention_heads if mixer.sinks else 0))
        case LatentAttention():
            index_norm = 2 * mixer.index_head_dim if mixer.index_heads and not mixer.compress_ratio else 0
            return float((mixer.q_lora_rank or 0) + mixer.kv_lora_rank + index_norm)
        case StateSpace():
            return float(_state_space_vectors(mixer))
        case None:
            return 0.0


def _state_space_vectors(s: StateSpace) -> int:
    """Values of a recurrent mixer that are no matrix: decay rates, biases and norms, by its kind."""
    inner, heads = s.num_heads * s.head_dim, s.num_heads
    return {
        "mamba1": inner * (s.state_size + 3),  # A by state column; D, convolution and step biases
        "mamba2": (1 + s.norm) * inner
        + 2 * s.num_groups * s.state_size
        + 3 * heads,  # norm and conv bias; A, D, step bias
        "gated_deltanet": 2 * heads + s.head_dim,  # A and step bias; norm
        "kda": heads + s.num_groups * s.state_size + s.head_dim,
        "lightning": inner,
        "xlstm": inner + 2 * heads,
        "rwkv": 0,
        "short_conv": 0,
    }[s.kind]


def feed_forward_matrices(feed_forward: FeedForward | None, hidden_size: int) -> tuple[Matrix, ...]:
    """The matrices of a feed-forward: router and routed experts first, then what every token passes."""
    match feed_forward:
        case Mlp(intermediate_size=width, gated=gated):
            return _dense(hidden_size, width, gated=gated, prefix="")
        case Moe():
            return _experts(feed_forward, hidden_size)
        case None:
            return ()


def _dense(hidden: int, width: int, *, gated: bool, prefix: str) -> tuple[Matrix, ...]:
    first = ("gate_up_proj", 2 * width) if gated else ("up_proj", width)
    return (
        Matrix(name=prefix + first[0], outputs=first[1], inputs=hidden, parts=width),
        Matrix(name=prefix + "down_proj", outputs=hidden, inputs=width, split="inputs", parts=width),
    )


def _experts(moe: Moe, hidden: int) -> tuple[Matrix, ...]:
    """Router, routed experts (in a latent width if they have one), and what every token passes beside them."""
    width, experts = moe.latent_size or hidden, moe.num_experts
    found = [Matrix(name="router", outputs=experts, inputs=hidden, split="whole")]
    if moe.latent_size is not None:
        found.append(Matrix(name="latent_down_proj", outputs=moe.latent_size, inputs=hidden, split="whole"))
    routed = _dense(width, moe.moe_intermediate_size, gated=moe.gated, prefix="expert_")
    found += [
        msgspec.structs.replace(m, copies=experts, active=moe.num_experts_per_tok, split="experts") for m in routed
    ]
    if moe.latent_size is not None:
        found.append(Matrix(name="latent_up_proj", outputs=hidden, inputs=moe.latent_size, split="whole"))
    if moe.shared_intermediate_size:
        found += _dense(hidden, moe.shared_intermediate_size, gated=moe.gated, prefix="shared_")
    if moe.shared_gate:
        found.append(Matrix(name="shared_gate", outputs=1, inputs=hidden, split="whole"))
    if moe.dense_intermediate_size:
        found += _dense(hidden, moe.dense_intermediate_size, gated=moe.gated, prefix="dense_")
    return tuple(found)


def feed_forward_vectors(feed_forward: FeedForward | None, hidden_size: int, *, active: bool = False) -> float:
    """Biases of a feed-forward, of all experts or of those one token passes."""
    match feed_forward:
        case Mlp(bias=True, intermediate_size=width, gated=gated):
            return float((2 if gated else 1) * width + hidden_size)
        case Moe():
            copies = feed_forward.num_experts_per_tok if active else feed_forward.num_experts
            up = (2 if feed_forward.gated else 1) * feed_forward.moe_intermediate_size
            biases = copies * (up + (feed_forward.latent_size or hidden_size)) if feed_forward.bias else 0
            return float(biases + (feed_forward.num_experts if feed_forward.router_bias else 0))
        case _:
            return 0.0
