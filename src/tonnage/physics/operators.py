"""How many seconds does one operator take on one accelerator?

`operator_s` looks the operator's shape up in the ladder's measured grids and falls back to the generic
curve, t = launch + smooth_max(FLOP / (peak e_c), bytes / (bandwidth e_m)), with what is special to each
kind; `operator_evidence` gives the same seconds with what they rest on. The operator says what it does
(FLOP, bytes, shape, formats); the accelerator says what it could do; the ladder says how much of it such
kernels reach.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from operator import itemgetter
from typing import Final, Literal

import msgspec

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Evidence, Tier
from tonnage.domain.efficiency import WITNESSES, Grid, Ladder, Rung
from tonnage.domain.precision import number_format
from tonnage.physics.collectives import collective_s, level_bytes, link_rate, network_rate, ring_traffic
from tonnage.physics.efficiency import cycle_s, peak_flop_per_s, smooth_max, weakest_rung
from tonnage.physics.grid_reading import MEASURED, Measured, find, kernels, read
from tonnage.physics.work import Operator

SLOWER: Final = 1.3
"""How much longer than the 16-bit kernel of its shape a product in fewer bits may take on the word of one table. [-]"""
_PRODUCTS: Final = frozenset({"gemm", "grouped_gemm"})
_COLLECTIVES: Final = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "point_to_point"})


def operator_s(op: Operator, *, accelerator: Accelerator, ladder: Ladder) -> tuple[float, Rung, Grid | None]:
    """
    Seconds of ONE execution of `op` on one rank, the rung of the ladder that says so, and the grid they were read from.

    No grid where a curve or a formula answers. `op.count` is not applied. Launches are those inside a captured graph.
    Products in narrow formats include quantising their input; grouped products include permuting
    rows to experts, the activation between them and the weighted sum after.
    """
    kind = op.kind
    if kind in _COLLECTIVES:
        return collective_s(op, accelerator=accelerator, ladder=ladder)
    grid: Grid | None = None
    rung: Rung = "generic"
    measured = MEASURED[kind](op, ladder) if ladder.grids and kind in MEASURED else None
    if measured is None:
        seconds = _GENERIC[kind](op, accelerator, ladder)
    else:
        grid = measured[0]
        says = _agreed_s if kind == "grouped_gemm" else read
        seconds, rung = says(op, measured, accelerator=accelerator, ladder=ladder), grid.rung
        if kind in _PRODUCTS and measured[2] < 2.0:
            seconds, rung, grid = _second_witness(op, (seconds, rung, grid), accelerator=accelerator, ladder=ladder)
    return seconds, rung, grid


def operator_evidence(op: Operator, *, accelerator: Accelerator, ladder: Ladder) -> tuple[float, Evidence]:
    """The seconds of `operator_s`, and what they rest on: grid, donor, file, date, and the share of the roofline."""
    seconds, rung, grid = operator_s(op, accelerator=accelerator, ladder=ladder)
    least_s, bound = roofline_of(op, accelerator=accelerator, ladder=ladder)
    tier: Tier = "curve" if rung == "generic" else rung
    if op.kind in _COLLECTIVES and grid is None:
        tier = "formula"
    origin = None if grid is None else grid.origin
    return seconds, Evidence(
        tier=tier,
        grid="" if origin is None else origin.key,
        accelerator="" if origin is None else origin.accelerator,
        source=_source_of(grid, collective=op.kind in _COLLECTIVES),
        file="" if origin is None else f"efficiency/{origin.file}",
        date="" if origin is None else origin.date,
        roofline_s=least_s,
        roofline_share=least_s / seconds if seconds else None,
        bound=bound,
    )


def _source_of(grid: Grid | None, *, collective: bool) -> str:
    if grid is None:
        named = "latency and bandwidth (physics.collectives)", "generic curve (domain.efficiency.Curve)"
        return named[0 if collective else 1]
    return f"{grid.source} ({grid.origin.package})" if grid.origin else grid.source


def roofline_of(
    op: Operator, *, accelerator: Accelerator, ladder: Ladder
) -> tuple[float, Literal["", "arithmetic", "memory", "link"]]:
    """
    Seconds of one execution at the rates of the `accelerator` (of the network: as the ladder states it), and the limit.

    Nothing for latency and launches; "" is the limit of a collective of one rank, which takes no time.
    """
    if op.kind in _COLLECTIVES:
        if op.ranks <= 1:
            return 0.0, ""
        if op.inter_node and op.per_node > 1:
            sent = level_bytes(op.kind, op.message_bytes, ranks=op.ranks, per_domain=op.per_node, crossing=op.crossing)
            near = sent.inside / link_rate(accelerator, ranks=op.per_node)
            return max(near, sent.outside / network_rate(ladder)), "link"
        rate = network_rate(ladder) if op.inter_node else link_rate(accelerator, ranks=op.ranks)
        return ring_traffic(op.kind, op.ranks) * op.message_bytes / rate, "link"
    compute_s = op.flop / peak_flop_per_s(accelerator, op.compute) if op.flop else 0.0
    memory_s = (op.read_bytes + op.write_bytes) / accelerator.memory_bytes_per_s
    return (compute_s, "arithmetic") if compute_s > memory_s else (memory_s, "memory")


def _agreed_s(op: Operator, first: Measured, *, accelerator: Accelerator, ladder: Ladder) -> float:
    """
    What a table says, of 16-bit experts one that two other engines' tables of the same part may contradict. [s]

    Where it is more than `SLOWER` times the slower of both, its kernel was not tuned for that shape: TensorRT-LLM's 16
    experts of 14,336 x 4,096 take 2.9 times their bytes on H100, eight of them 1.1 times (aiconfigurator-core 0.12.0).
    """
    grid, seconds = first[0], read(op, first, accelerator=accelerator, ladder=ladder)
    if grid.origin is None or seconds <= SLOWER * op.read_bytes / accelerator.memory_bytes_per_s:
        return seconds
    times = [
        read(op, (other, *first[1:]), accelerator=accelerator, ladder=ladder)
        for end in WITNESSES
        if (other := ladder.grids.get(grid.origin.key + end))
    ]
    return min(seconds, SLOWER * max(times)) if len(times) > 1 else seconds


def _second_witness(
    op: Operator, first: tuple[float, Rung, Grid], *, accelerator: Accelerator, ladder: Ladder
) -> tuple[float, Rung, Grid]:
    """
    A product in fewer bits, held to other kernels of the same shape; it never falls where its rows grow.

    A table that makes fewer bits slower than `SLOWER` times 16 bits is more often an untuned kernel than what an engine
    runs: so much is the most, on widened weights, unless all tables of the arithmetic were measured on this very
    accelerator and agree, where the fastest stands. Experts in FP8 with a scale for each tensor take no longer than
    with one for each block, which is the same product and more (vLLM's table on H100 has 438 us where the other has
    102, aiconfigurator-core 0.12.0). Tables of FP8 that stand in for INT8's are always asked for the fastest one, and
    never agree: they say nothing of its arithmetic, which Blackwell Ultra has little of.
    """
    stands_in = op.compute == "int8" and first[2].origin is not None and "/int8" not in first[2].origin.key
    names, stored = kernels(op.weights, op.compute)
    seen = [first]
    for name in names[1:]:
        if (other := find(op, ladder, names=(name,), stored=stored)) and other[0] is not first[2]:
            seen.append((read(op, other, accelerator=accelerator, ladder=ladder), other[0].rung, other[0]))
    best = min(seen, key=itemgetter(0))
    if stands_in or (op.weights == "fp8" and op.kind == "grouped_gemm"):
        first = best
    # No 16-bit kernel beats its datasheet: most tables need no look at another one.
    widened = op.n * op.k * max(op.groups, 1.0) * 2.0 / accelerator.memory_bytes_per_s
    half = "fp16" if "bf16" not in accelerator.peaks and "fp16" in accelerator.peaks else "bf16"
    if not stands_in and first[0] <= SLOWER * max(widened, op.flop / peak_flop_per_s(accelerator, half)):
        return first
    sixteen = find(op, ladder, names=("bf16",), stored=2.0)
    if sixteen is None:
        return first
    wide = msgspec.structs.replace(op, weights=half, compute=half)
    most = SLOWER * _agreed_s(wide, sixteen, accelerator=accelerator, ladder=ladder)
    if first[0] <= most:
        return first
    if best[0] > most and not stands_in and len(seen) > 1 and all(found[1] == "own" for found in seen):
        return best
    return most, weakest_rung((first[1], sixteen[0].rung)), sixteen[0]


def has_skewed_table(op: Operator, ladder: Ladder) -> bool:
    """Whether the grid that answers for these experts was timed with a popularity that falls by a power law."""
    keys = (f"{op.kind}/{name}" for name in kernels(op.weights, op.compute)[0])
    first = next((key for key in keys if key in ladder.grids or key + "/skewed" in ladder.grids), None)
    return first is not None and first + "/skewed" in ladder.grids


def timed_with_experts(op: Operator, ladder: Ladder) -> bool:
    """Whether choosing experts was timed with them: the grid that answers for these experts begins at the logits."""
    names, stored = kernels(op.weights, op.compute)
    found = find(msgspec.structs.replace(op, kind="grouped_gemm", skewed=True), ladder, names=names, stored=stored)
    return found is not None and found[0].routes


def _roofline(op: Operator, accelerator: Accelerator, ladder: Ladder, compute: float, memory: float) -> float:
    peak = peak_flop_per_s(accelerator, op.compute) * ladder.sustained * compute if op.flop else 1.0
    compute_s = op.flop / peak
    memory_s = (op.read_bytes + op.write_bytes) / (accelerator.memory_bytes_per_s * memory)
    return smooth_max(compute_s=compute_s, memory_s=memory_s) if ladder.curve.overlaps else compute_s + memory_s


def _gemm(op: Operator, accelerator: Accelerator, ladder: Ladder) -> float:
    """
    A product by the generic curve. [s]

    Few rows reach less of the peak, weights that are widened to 16 bits on the way less still.
    """
    curve = ladder.curve
    compute, memory, m0 = curve.gemm.get(op.compute, curve.gemm["bf16"])
    known = number_format(op.weights)
    widened = op.kind == "grouped_gemm" and known.bits < 8 and op.compute in {"bf16", "fp16"}
    if widened:
        compute *= curve.widened_experts
    elif known.weight_only:
        compute *= curve.dequantize
    rows = op.m / op.groups if op.kind == "grouped_gemm" and op.groups > 1 else op.m
    if rows > 0 and op.n > 0:
        compute /= 1.0 + m0 / sqrt(max(rows, 1.0) * op.n * max(op.groups, 1.0))
    launch_s = curve.narrow_launch_s if op.compute in {"fp8", "int8", "fp4"} else curve.launch_s
    if op.kind == "grouped_gemm":
        launch_s = curve.grouped_launch_s
    taken = _roofline(op, accelerator, ladder, compute, memory)
    if widened and curve.widened_cycles:
        lanes_s = curve.widened_cycles * op.read_bytes * cycle_s(accelerator)
        taken = smooth_max(compute_s=lanes_s, memory_s=taken)
    return launch_s + taken


def _prefill(op: Operator, accelerator: Accelerator, ladder: Ladder) -> float:
    """Attention of prompts by the generic curve: short ones reach less of the peak. [s]"""
    curve = ladder.curve
    width = max(op.heads * op.head_dim * max(op.batch, 1.0), 1.0)
    # Query tokens of a causal prompt with the same FLOP: one number for chunks, windows and encoders.
    q = sqrt(max(op.flop, 1.0) / (2.0 * width))
    compute = curve.prefill_limit * q / (q + curve.prefill_half)
    # Short prompts are bound by latency, which the launch carries; below this the curve would double-count it.
    compute = max(compute, 0.02)
    return curve.prefill_launch_s + _roofline(op, accelerator, ladder, compute, curve.elementwise_memory)


def _decode(op: Operator, accelerator: Accelerator, ladder: Ladder) -> float:
    """Attention of decodes by the generic curve: little cached work leaves multiprocessors idle. [s]"""
    curve = ladder.curve
    context = min(op.context, op.window) if op.window else op.context
    units = max(op.batch, 1.0) * max(op.kv_heads, 1.0) * max(context, 1.0) / (256.0 * (ladder.multiprocessors or 100.0))
    occupancy = 1.0 + curve.decode_occupancy / max(units, 0.05)
    return curve.decode_launch_s + occupancy * _roofline(
        op, accelerator, ladder, curve.prefill_limit, curve.decode_memory
    )


def _elementwise(op: Operator, accelerator: Accelerator, ladder: Ladder) -> float:
    return _pass(op, accelerator, ladder, ladder.curve.elementwise_memory)


def _embedding(op: Operator, accelerator: Accelerator, ladder: Ladder) -> float:
    return _pass(op, accelerator, ladder, ladder.curve.gather_memory)


def _pass(op: Operator, accelerator: Accelerator, ladder: Ladder, memory: float) -> float:
    return ladder.curve.launch_s + (op.read_bytes + op.write_bytes) / (accelerator.memory_bytes_per_s * memory)


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
    "routing": _elementwise,
}
"""The generic curve of every kind that computes."""
