"""How many seconds does one operator take on one accelerator?

`operator_s` is the only door: it looks the operator's shape up in the ladder's measured grids and falls
back to the generic curve, t = launch + smooth_max(FLOP / (peak e_c), bytes / (bandwidth e_m)), with what
is special to each kind. The operator says what it does (FLOP, bytes, shape, formats); the accelerator
says what it could do; the ladder says how much of it such kernels reach.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Final

from tonnage.errors import Unmeasured
from tonnage.nouns.accelerator import Accelerator
from tonnage.nouns.precision import FORMATS, number_format
from tonnage.physics.collectives import collective_s
from tonnage.physics.efficiency import Ladder, Rung, smooth_max, weakest_rung
from tonnage.physics.work import Operator, Work

__all__ = ["operator_s", "peak_flop_per_s", "work_s"]

_EMULATED: Final = {
    "fp4": ("fp8", "bf16", "fp16", "fp32"),
    "fp8": ("bf16", "fp16", "fp32"),
    "int8": ("bf16", "fp16", "fp32"),
    "bf16": ("fp32", "fp16"),
    "fp16": ("bf16", "fp32"),
    "tf32": ("fp32", "bf16", "fp16"),
    "fp32": ("bf16", "fp16"),
}
"""What multiplies a dtype that the part has no unit for: the weights are widened on the way in."""

_COLLECTIVES: Final = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "point_to_point"})


def operator_s(op: Operator, *, accelerator: Accelerator, ladder: Ladder, eager: bool = False) -> tuple[float, Rung]:
    """
    Seconds of ONE execution of `op` on one rank, and the rung of the ladder that says so.

    `op.count` is not applied: `work_s` does. `eager` adds what a launch outside a captured graph costs.
    """
    if op.kind in _COLLECTIVES:
        return collective_s(op, accelerator=accelerator, ladder=ladder, eager=eager)
    seconds = _GENERIC[op.kind](op, accelerator, ladder)
    if eager:
        seconds += ladder.curve.eager_launch_s - ladder.curve.launch_s
    return seconds, "generic"


def work_s(work: Work, *, accelerator: Accelerator, ladder: Ladder, eager: bool = False) -> tuple[float, Rung]:
    """Seconds of a whole phase run back to back, and the weakest rung in it."""
    total, rungs = 0.0, set[Rung]()
    for op in work:
        seconds, rung = operator_s(op, accelerator=accelerator, ladder=ladder, eager=eager)
        total += seconds * op.count
        rungs.add(rung)
    return total, weakest_rung(tuple(rungs))


def peak_flop_per_s(accelerator: Accelerator, dtype: str) -> float:
    """
    Peak at which a product in this dtype runs: its own unit's, else that of the dtype it is widened to. [FLOP/s]

    Raises
    ------
    Unmeasured
        The accelerator has no published peak for any of them.
    """
    peaks = accelerator.peaks
    if dtype in peaks:
        return peaks[dtype]
    for other in _EMULATED.get(dtype, ("fp32",)):
        if other in peaks:
            return peaks[other]
    raise Unmeasured(
        f"{accelerator.id}: no published peak for {dtype}; add one with --set {accelerator.id}.peaks.{dtype}"
    )


def _roofline(op: Operator, accelerator: Accelerator, ladder: Ladder, compute: float, memory: float) -> float:
    return smooth_max(
        compute_s=op.flop / (peak_flop_per_s(accelerator, op.compute) * ladder.sustained * compute) if op.flop else 0.0,
        memory_s=(op.read_bytes + op.write_bytes) / (accelerator.memory_bytes_per_s * memory),
    )


def _gemm(op: Operator, accelerator: Accelerator, ladder: Ladder) -> float:
    curve = ladder.curve
    compute, memory, m0 = curve.gemm.get(op.compute, curve.gemm["bf16"])
    known = FORMATS.get(op.weights) or number_format(op.weights)
    if known.weight_only and op.m > 64:
        compute *= curve.dequantize
    rows = op.m / op.groups if op.kind == "grouped_gemm" and op.groups > 1 else op.m
    if rows > 0 and op.n > 0:
        compute /= 1.0 + m0 / sqrt(max(rows, 1.0) * op.n * max(op.groups, 1.0))
    return curve.launch_s + _roofline(op, accelerator, ladder, compute, memory)


def _prefill(op: Operator, accelerator: Accelerator, ladder: Ladder) -> float:
    curve = ladder.curve
    width = max(op.heads * op.head_dim * max(op.batch, 1.0), 1.0)
    # Query tokens of a causal prompt with the same FLOP: one number for chunks, windows and encoders.
    q = sqrt(max(op.flop, 1.0) / (2.0 * width))
    compute = curve.prefill_limit * q / (q + curve.prefill_half)
    # Short prompts are bound by latency, which the launch carries; below this the curve would double-count it.
    compute = max(compute, 0.02)
    return curve.launch_s * 2 + _roofline(op, accelerator, ladder, compute, curve.elementwise_memory)


def _decode(op: Operator, accelerator: Accelerator, ladder: Ladder) -> float:
    curve = ladder.curve
    context = min(op.context, op.window) if op.window else op.context
    units = max(op.batch, 1.0) * max(op.kv_heads, 1.0) * max(context, 1.0) / (256.0 * (ladder.multiprocessors or 100.0))
    occupancy = 1.0 + curve.decode_occupancy / max(units, 0.05)
    return curve.decode_launch_s + occupancy * _roofline(
        op, accelerator, ladder, curve.prefill_limit, curve.decode_memory
    )


def _elementwise(op: Operator, accelerator: Accelerator, ladder: Ladder) -> float:
    curve = ladder.curve
    return curve.launch_s + (op.read_bytes + op.write_bytes) / (
        accelerator.memory_bytes_per_s * curve.elementwise_memory
    )


def _embedding(op: Operator, accelerator: Accelerator, ladder: Ladder) -> float:
    curve = ladder.curve
    return curve.launch_s + (op.read_bytes + op.write_bytes) / (accelerator.memory_bytes_per_s * curve.gather_memory)


def _state_space(op: Operator, accelerator: Accelerator, ladder: Ladder) -> float:
    curve = ladder.curve
    return curve.launch_s * 3 + _roofline(op, accelerator, ladder, curve.state_space_compute, curve.state_space_memory)


def _convolution(op: Operator, accelerator: Accelerator, ladder: Ladder) -> float:
    curve = ladder.curve
    return curve.launch_s + _roofline(op, accelerator, ladder, curve.convolution_compute, curve.convolution_memory)


_GENERIC: Final[dict[str, Callable[[Operator, Accelerator, Ladder], float]]] = {
    "gemm": _gemm,
    "grouped_gemm": _gemm,
    "attention_prefill": _prefill,
    "attention_decode": _decode,
    "mla_prefill": _prefill,
    "mla_decode": _decode,
    "state_space": _state_space,
    "convolution": _convolution,
    "elementwise": _elementwise,
    "embedding": _embedding,
}
"""The generic curve of every kind that computes."""
