"""
What is one call of PyTorch's dispatcher? A name and tensors -> a `TracedOperator`, or nothing for views.

Products are counted as mathematics defines them (2 m n k), attention over the whole score matrix, halved where the
call says that it is causal. All else is traffic: what it reads and writes. The operator that is not in any table is
counted as traffic too, and its name is kept for the notes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final, Literal

from tonnage.domain.profile import TracedOperator
from tonnage.record import Record

Product = Literal["gemm", "convolution", "attention"]


class Call(Record, kw_only=True):
    """One call: the operator's plain name, its arguments, its results, and which tensors are parameters."""

    name: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    results: Sequence[Any]
    tensors: Sequence[Any]
    """Tensor arguments."""
    weights: frozenset[int]
    """Which of `tensors` are parameters or views of them."""
    pointwise: bool
    reduction: bool


_TABLE: Final = """
skipped:
    _local_scalar_dense _version alias arange detach empty empty_like empty_strided is_pinned is_same_size
    lift_fresh new_empty new_empty_strided prim.device record_stream scalar_tensor set_data sym_numel sym_size
normalisation:
    native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training _batch_norm_with_update
    _batch_norm_no_update cudnn_batch_norm native_layer_norm _fused_rms_norm native_batch_norm_backward
    batch_norm_backward native_layer_norm_backward _fused_rms_norm_backward
group norm:
    native_group_norm native_group_norm_backward
softmax:
    _softmax _safe_softmax _log_softmax _softmax_backward_data _log_softmax_backward_data logsumexp _masked_softmax
activation:
    relu gelu silu sigmoid tanh hardswish hardsigmoid hardtanh leaky_relu elu mish softplus threshold_backward
    gelu_backward silu_backward sigmoid_backward tanh_backward hardswish_backward hardsigmoid_backward
    hardtanh_backward leaky_relu_backward elu_backward mish_backward softplus_backward glu glu_backward clamp relu_
    silu_ hardswish_ hardtanh_ hardsigmoid_ leaky_relu_ native_dropout native_dropout_backward log_sigmoid_forward
    prelu
copy:
    clone copy_ _to_copy cat stack slice_backward select_backward constant_pad_nd reflection_pad2d replication_pad2d
    roll flip repeat im2col col2im fill_ zero_ zeros ones zeros_like ones_like full full_like new_zeros new_full
    new_ones tril triu split_with_sizes_copy _reshape_copy permute_copy unfold_backward _unsafe_masked_index rot90
    as_strided_scatter
pooling:
    max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d adaptive_max_pool2d max_pool3d_with_indices avg_pool3d
    max_pool2d_with_indices_backward avg_pool2d_backward _adaptive_avg_pool2d_backward
    max_pool3d_with_indices_backward avg_pool1d _adaptive_avg_pool3d
resample:
    upsample_nearest2d upsample_bilinear2d upsample_bicubic2d upsample_nearest1d upsample_nearest3d
    upsample_trilinear3d _upsample_bilinear2d_aa grid_sampler_2d upsample_nearest2d_backward
    upsample_bilinear2d_backward upsample_bicubic2d_backward grid_sampler_2d_backward pixel_shuffle pixel_unshuffle
scatter:
    scatter_add scatter_add_ scatter scatter_ scatter_reduce index_add index_add_ index_put index_put_
    _index_put_impl_ index_copy_ segment_reduce
reduction:
    sum mean amax amin max min argmax var_mean var std norm linalg_vector_norm cumsum topk sort prod any all argmin
    nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward bincount _foreach_norm
    binary_cross_entropy mse_loss cross_entropy_loss argsort nonzero
other:
    bernoulli_ bernoulli rand randn rand_like randn_like uniform_ normal_ randint
lookup:
    _embedding_bag _embedding_bag_dense_backward _embedding_bag_forward_only _unsafe_index embedding embedding_bag
    embedding_dense_backward gather index index_select
"""
"""Operators by what they do, under the names of PyTorch's dispatcher."""


def _group_operators(table: str) -> dict[str, frozenset[str]]:
    found: dict[str, list[str]] = {}
    for line in table.strip().splitlines():
        if line.endswith(":"):
            group = found.setdefault(line.removesuffix(":"), [])
        else:
            group += line.split()
    return {name: frozenset(operators) for name, operators in found.items()}


_GROUPS: Final = _group_operators(_TABLE)
SKIPPED: Final = _GROUPS["skipped"]
"""Calls that touch no data worth counting."""
_LOOKUPS: Final = _GROUPS["lookup"]
_CATEGORIES: Final = {
    operator: group
    for group, operators in _GROUPS.items()
    if group not in {"skipped", "lookup"}
    for operator in operators
}
_WITHOUT_SPREAD: Final = frozenset({"embedding", "_embedding_bag", "_embedding_bag_forward_only", "index_select"})
"""Look-ups that read the rows they return, not the table."""


def traced_operator(call: Call, *, samples: int) -> tuple[TracedOperator | None, str]:
    """The operator of a call, per sample, and the name of an operator that no table holds (else empty)."""
    name = call.name
    if name in SKIPPED:
        return None, ""
    if name in _PRODUCTS:
        return _PRODUCTS[name](call, samples), ""
    if name in _LOOKUPS:
        return _lookup(call, samples), ""
    category = _CATEGORIES.get(name) or _CATEGORIES.get(name.rstrip("_"))
    unknown = ""
    if category is None:
        if call.pointwise:
            category = "arithmetic"
        elif call.reduction:
            category = "reduction"
        else:
            category, unknown = "other", name
    return _traffic(call, samples, category), unknown


def _size(tensor: Any) -> float:
    """Values a call really touches: a broadcast view counts what is stored."""
    stored = 1.0
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        stored *= length if stride or length == 1 else 1
    return stored


def _read(call: Call, samples: int) -> tuple[float, float]:
    """Values read per sample, and parameter values read."""
    moved = weights = 0.0
    for index, tensor in enumerate(call.tensors):
        if index in call.weights:
            weights += _size(tensor)
        else:
            moved += _size(tensor)
    return moved / samples, weights


def _written(call: Call, samples: int) -> float:
    """Values written, per sample."""
    return sum(_size(tensor) for tensor in call.results) / samples


def _is_pixels(call: Call) -> bool:
    return any(len(tensor.shape) >= 4 for tensor in call.results[:1])


def _traffic(call: Call, samples: int, category: str) -> TracedOperator:
    """An operator that only moves values: what it reads and writes; what fills memory with a constant reads none."""
    read, weights = _read(call, samples)
    if category == "copy" and call.name in {
        "fill_",
        "zero_",
        "zeros",
        "ones",
        "full",
        "zeros_like",
        "ones_like",
        "full_like",
        "new_zeros",
        "new_full",
        "new_ones",
    }:
        read = 0.0
    return TracedOperator(
        kind="elementwise",
        name=category,
        read_values=read,
        write_values=_written(call, samples),
        weight_values=weights,
        pixels=_is_pixels(call),
    )


def _lookup(call: Call, samples: int) -> TracedOperator:
    """A look-up of rows, its table not counted as weights; where gradients are added up, old values are read too."""
    written = _written(call, samples)
    read = written if call.name in _WITHOUT_SPREAD or "index" in call.name or call.name == "gather" else 2 * written
    return TracedOperator(kind="embedding", name="lookup", read_values=read, write_values=written)


def _product(
    call: Call,
    samples: int,
    *,
    flop: float,
    shape: tuple[float, float, float],
    groups: float = 1.0,
    kind: Product = "gemm",
    name: str = "",
) -> TracedOperator:
    """A product as an operator; `flop` and m of `shape` (m, n, k) are of all samples, in the result of one."""
    read, weights = _read(call, samples)
    m, n, k = shape
    return TracedOperator(
        kind=kind,
        name=name or ("linear" if call.weights else "product"),
        flop=flop / samples,
        read_values=read,
        write_values=_written(call, samples),
        weight_values=weights,
        m=m / samples,
        n=n,
        k=k,
        groups=groups,
        pixels=kind == "convolution",
    )


def _mm(call: Call, samples: int) -> TracedOperator:
    """Products of matrices; of a batch without parameters, its matrices are the groups of each sample."""
    left, right = call.args[1:3] if call.name in {"addmm", "baddbmm"} else call.args[:2]
    batch = float(prod(left.shape[:-2])) if len(left.shape) > 2 else 1.0
    m, k, n = float(left.shape[-2]), float(left.shape[-1]), float(right.shape[-1])
    flop = 2.0 * batch * m * n * k
    if not call.weights and len(left.shape) > 2:
        # Products of a batch: its matrices are samples times groups, whichever way they are folded.
        return _product(call, samples, flop=flop, shape=(m * samples, n, k), groups=max(batch / samples, 1.0))
    return _product(call, samples, flop=flop, shape=(m * batch, n, k))


def _linear(call: Call, samples: int) -> TracedOperator:
    left, right = call.args[:2]
    k, n = float(left.shape[-1]), float(right.shape[0])
    m = _numel(left) / k
    return _product(call, samples, flop=2.0 * m * n * k, shape=(m, n, k))


def _numel(tensor: Any) -> float:
    return float(prod(tensor.shape))


def _conv_name(groups: int, inputs: float) -> str:
    if groups == 1:
        return "convolution"
    return "depthwise" if groups >= inputs else "grouped"


def _convolution(call: Call, samples: int) -> TracedOperator:
    """Forward, or backward as a product for each gradient that is wanted."""
    backward = call.name == "convolution_backward"
    data, weight, *_ = call.args[backward:]
    out = call.args[0] if backward else call.results[0]
    transposed, groups = bool(call.args[6 + backward]), int(call.args[8 + backward])
    products = sum(map(bool, call.args[10][:2])) if backward else 1
    # Each weight meets every pixel of the side that is not spread: outputs, or inputs of a transposed one.
    side = data if transposed else out
    pixels = _numel(side) / side.shape[1]
    width, terms = float(weight.shape[0]) / groups, float(weight.shape[1])
    if transposed and not backward:
        width, terms = terms, width
    return _product(
        call,
        samples,
        flop=2.0 * products * pixels * _numel(weight),
        shape=(pixels, width, terms * _numel(weight) / (weight.shape[0] * weight.shape[1])),
        groups=float(groups),
        kind="convolution",
        name=_conv_name(groups, float(data.shape[1])),
    )


def _attention(call: Call, samples: int) -> TracedOperator:
    """Fused attention, forward or backward (five products against two); heads stand in the second dimension."""
    backward = "backward" in call.name
    given = call.args[1:4] if backward else call.args[:3]
    query, key, value = given
    sequences, heads, length, width = (float(s) for s in query.shape)
    keys, value_width = float(key.shape[2]), float(value.shape[3])
    causal = _is_causal(call)
    flop = 2.0 * sequences * heads * length * keys * (width + value_width) * (0.5 if causal else 1.0)
    moved, _ = _read(call, samples)
    return TracedOperator(
        kind="attention",
        name="attention",
        flop=flop * (2.5 if backward else 1.0) / samples,
        read_values=moved,
        write_values=_written(call, samples),
        m=sequences * length / samples,
        n=keys,
        k=width,
        groups=sequences / samples,
        heads=heads,
        head_dim=width,
        keys=keys,
        causal=causal,
    )


def _is_causal(call: Call) -> bool:
    """Whether attention is causal: by the argument `is_causal`, by its place in known operators, else not."""
    named = call.kwargs.get("is_causal")
    if named is not None:
        return bool(named)
    place = {
        "_scaled_dot_product_flash_attention_for_cpu": 4,
        "_scaled_dot_product_flash_attention": 4,
        "_scaled_dot_product_efficient_attention": 6,
        "_scaled_dot_product_fused_attention_overrideable": 5,
        "_scaled_dot_product_cudnn_attention": 6,
        "_scaled_dot_product_flash_attention_for_cpu_backward": 7,
        "_scaled_dot_product_flash_attention_backward": 11,
        "_scaled_dot_product_efficient_attention_backward": 11,
        "_scaled_dot_product_cudnn_attention_backward": 14,
    }.get(call.name)
    return place is not None and len(call.args) > place and call.args[place] is True


def _recurrent(call: Call, samples: int) -> TracedOperator:
    """One LSTM or GRU layer: every weight meets every step, and twice on the way back; shaped as of four gates."""
    weights = sum(_numel(t) for t in call.tensors if len(t.shape) == 2 and t is not call.tensors[0])
    data = call.args[0]
    steps = float(data.shape[0] * data.shape[1]) if len(data.shape) == 3 else float(data.shape[0])
    twice = 2.0 if "backward" in call.name else 1.0
    hidden = float(call.results[0].shape[-1])
    return _product(
        call,
        samples,
        flop=2.0 * steps * weights * twice,
        shape=(steps, 4.0 * hidden, weights / (4.0 * hidden)),
        name="recurrent",
    )


_PRODUCTS: Final[dict[str, Callable[[Call, int], TracedOperator]]] = {
    **dict.fromkeys(("mm", "bmm", "addmm", "baddbmm", "_scaled_mm"), _mm),
    "linear": _linear,
    **dict.fromkeys(("convolution", "_convolution", "convolution_overrideable", "convolution_backward"), _convolution),
    **dict.fromkeys(
        (
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_fused_attention_overrideable",
            "_scaled_dot_product_cudnn_attention",
            "_scaled_dot_product_flash_attention_for_cpu_backward",
            "_scaled_dot_product_flash_attention_backward",
            "_scaled_dot_product_efficient_attention_backward",
        ),
        _attention,
    ),
    **dict.fromkeys(("mkldnn_rnn_layer", "mkldnn_rnn_layer_backward", "_thnn_fused_lstm_cell_rnn"), _recurrent),
}
"""Operators whose arithmetic is counted."""
