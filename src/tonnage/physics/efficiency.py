"""Seconds from grids: interpolation in what is left of a time beyond launch cost and roofline.

A grid (`tonnage.domain.efficiency`) stores the excess of each measured time over `model_s`, launch
cost plus the roofline; so knees, extrapolation and borrowing from a similar part come from one
expression. A borrowed grid is evaluated on the borrower's rooflines: launch cost stays, the rest
follows.

Thermal throttling within a run and contention between streams are ignored; `Ladder.sustained` scales
the compute peak of power-capped parts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from math import exp, log
from typing import Final

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.efficiency import LOG_STEP, RUNGS, Grid, Machine, Rung
from tonnage.errors import Unmeasured

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


def peak_flop_per_s(accelerator: Accelerator, dtype: str) -> float:
    """
    Peak at which a product in this dtype runs: its own unit's, else that of the dtype it is widened to. [FLOP/s]

    Pascal's GeForce multiplies 16 bits at a 64th of its rate in 32, in which libraries then multiply.

    Raises
    ------
    Unmeasured
        The accelerator has no published peak for any of them.
    """
    peaks = accelerator.peaks
    if dtype == "fp16" and accelerator.compute_capability == "6.1":
        dtype = "fp32"
    if dtype in peaks:
        return peaks[dtype]
    for other in _EMULATED.get(dtype, ("fp32",)):
        if other in peaks:
            return peaks[other]
    raise Unmeasured(
        f"{accelerator.id}: no published peak for {dtype}; add one with --set {accelerator.id}.peaks.{dtype}"
    )


_SMALL: Final = ("6.0", "7.", "8.0")
"""Compute capabilities of multiprocessors with 64 lanes; others have 128."""


def cycle_s(accelerator: Accelerator) -> float:
    """
    One cycle of one multiprocessor over their number; 0 where the part's rate in 32 bits is not known. [s]

    NVIDIA's run 64 or 128 lanes of one multiply-add. A compute unit of RDNA 3 and later has 64 and is listed with two
    instructions at once, which is 128 again; so is one of CDNA 3.
    """
    lanes = 64.0 if (accelerator.compute_capability or "").startswith(_SMALL) else 128.0
    peak = accelerator.peaks.get("fp32", 0.0)
    return 2.0 * lanes / peak if peak else 0.0


def weakest_rung(rungs: tuple[Rung, ...]) -> Rung:
    """The least founded of these rungs; `own` for none."""
    return max(rungs, key=RUNGS.index, default="own")


_REACHED: Final = 0.8  # share of the roofline that good kernels reach; sets where launch cost gives way to it

Demand = tuple[float, float, float]
"""FLOP, bytes through memory, bytes over the link."""

Point = tuple[float, ...]
"""Coordinates of a shape, in the order of a grid's axes."""


def _gemm_demand(point: Point, weights_bytes: float, width: float) -> Demand:
    n, k, m = point
    return 2.0 * m * n * k, weights_bytes * n * k + 2.0 * m * (n + k), 0.0


def _grouped_demand(point: Point, weights_bytes: float, width: float) -> Demand:
    size, groups, rows = point
    return 2.0 * groups * rows * size, groups * (weights_bytes * size + 2.0 * rows * width), 0.0


def _prefill_demand(point: Point, weights_bytes: float, width: float) -> Demand:
    group, heads, q = point
    return 2.0 * heads * width * q * q, heads * width * q * (4.0 + 4.0 / group), 0.0


def _mla_prefill_demand(point: Point, weights_bytes: float, width: float) -> Demand:
    heads, batch, q = point
    return 2.0 * batch * heads * width * q * q, 8.0 * batch * heads * width * q, 0.0


def _decode_demand(point: Point, weights_bytes: float, width: float) -> Demand:
    group, units, context = point
    return 4.0 * units * group * width * context, units * width * (2.0 * weights_bytes * context + 4.0 * group), 0.0


def _mla_decode_demand(point: Point, weights_bytes: float, width: float) -> Demand:
    heads, batch, context = point
    # The latent of DeepSeek V2/V3: 512 + 64 values a token, shared by all heads.
    return 2.0 * batch * heads * context * 1088.0, batch * (weights_bytes * 576.0 * context + 2176.0 * heads), 0.0


def _state_demand(point: Point, weights_bytes: float, width: float) -> Demand:
    states, tokens = point  # states of all sequences, each a width x width matrix; tokens of one sequence
    return 6.0 * states * tokens * width * width, states * tokens * weights_bytes, 0.0


def _bytes_demand(point: Point, weights_bytes: float, width: float) -> Demand:
    return 0.0, point[0], 0.0


def _message_demand(point: Point, weights_bytes: float, width: float) -> Demand:
    return 0.0, 0.0, point[0]


DEMANDS: Final[dict[str, Callable[[Point, float, float], Demand]]] = {
    "gemm": _gemm_demand,
    "grouped_gemm": _grouped_demand,
    "attention_prefill": _prefill_demand,
    "attention_decode": _decode_demand,
    "mla_prefill": _mla_prefill_demand,
    "mla_decode": _mla_decode_demand,
    "state_space": _state_demand,
    "elementwise": _bytes_demand,
    "collective": _message_demand,
}
"""What a shape asks of the machine, by kind of grid; coordinates in the order of the grid's axes."""


_PARALLEL: Final = {
    "gemm": 0,
    "grouped_gemm": 1,
    "attention_prefill": 1,
    "attention_decode": 1,
    "mla_prefill": 1,
    "mla_decode": 1,
    "state_space": 0,
}
"""The coordinate that spreads over multiprocessors: outputs, experts, heads of all sequences, sequences."""


def model_s(demand: Demand, machine: Machine, *, floor_s: float) -> float:
    """
    Launch and roofline of a demand on a machine, before what was measured corrects it. [s]

    A demand with a message takes the link alone; its FLOP and bytes do not count.
    """
    flop, moved_bytes, message_bytes = demand
    if message_bytes:
        return floor_s + message_bytes / (machine.link_bytes_per_s * _REACHED)
    ideal = smooth_max(compute_s=flop / machine.peak_flop_per_s, memory_s=moved_bytes / machine.memory_bytes_per_s)
    return floor_s + ideal / _REACHED


def grid_s(grid: Grid, point: Point, *, machine: Machine, weights_bytes: float, width: float) -> float:
    """
    Seconds of a shape (coordinates, not logarithms) on a machine.

    Between nodes the excess over `model_s` is interpolated in the logarithms; outside it stays that of
    the edge. Along the last axis times never fall: each is held between those of the nodes around it.
    """
    column = _column(grid, point[:-1], machine, weights_bytes, width)
    axis, last = grid.axes[-1], point[-1]
    low, share = _bracket(axis, log(last) if last > 0.0 else axis[0])
    excess, times = column
    model = model_s(DEMANDS[grid.kind](point, weights_bytes, width), machine, floor_s=grid.floor_s)
    if share <= 0.0:  # at a node, or outside
        seconds = model * exp(excess[low])
        if share < 0.0 or low < len(axis) - 1:
            return min(seconds, times[low]) if share < 0.0 else times[low]
        return max(seconds, times[low])
    seconds = model * exp(excess[low] + share * (excess[low + 1] - excess[low]))
    return min(max(seconds, times[low]), times[low + 1])


def _bracket(axis: tuple[float, ...], position: float) -> tuple[int, float]:
    """
    Index of the node below and the share of the way to the next one.

    (0, -1) below the first node, (last node, 0) at the last or beyond it.
    """
    if position < axis[0]:
        return 0, -1.0
    low = bisect_right(axis, position) - 1
    if low >= len(axis) - 1:
        return len(axis) - 1, 0.0
    return low, (position - axis[low]) / (axis[low + 1] - axis[low])


@lru_cache(maxsize=16384)
def _column(
    grid: Grid, leading: Point, machine: Machine, weights_bytes: float, width: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Excess and never falling times along the last axis at one combination of the others."""
    corners, weights = [0], [1.0]
    looked_up = leading
    if grid.crowding != 1.0 and grid.kind in _PARALLEL:
        # A smaller part is as busy with less to do at once.
        at = _PARALLEL[grid.kind]
        looked_up = (*leading[:at], leading[at] * grid.crowding, *leading[at + 1 :])
    for axis, value in zip(grid.axes, looked_up, strict=False):
        low, share = _bracket(axis, log(value) if value > 0.0 else axis[0])
        size = len(axis)
        if share <= 0.0:
            corners = [corner * size + low for corner in corners]
        else:
            corners = [corner * size + low + step for corner in corners for step in (0, 1)]
            weights = [weight * part for weight in weights for part in (1.0 - share, share)]
    last = grid.axes[-1]
    size = len(last)
    columns = [grid.excess[corner * size : corner * size + size] for corner in corners]
    demand, slowest, excess, times = DEMANDS[grid.kind], 0.0, [], []
    for position, values in zip(last, zip(*columns, strict=True), strict=True):
        mean = LOG_STEP * sum(weight * value for weight, value in zip(weights, values, strict=True))
        model = model_s(demand((*leading, exp(position)), weights_bytes, width), machine, floor_s=grid.floor_s)
        slowest = max(slowest, model * exp(mean))
        excess.append(mean)
        times.append(slowest)
    return tuple(excess), tuple(times)


def smooth_max(*, compute_s: float, memory_s: float) -> float:
    """
    Time of work that computes and moves data at once, with a rounded knee.

    t = (c^4 + m^4)^(1/4): the roofline's max, up to 19 % slower where both limits meet.

    Parameters
    ----------
    compute_s : number
        c, arithmetic alone. [s]
    memory_s : number
        m, memory traffic alone. [s]

    Returns
    -------
    number
        Both together. [s]

    Valid
    -----
    Non-negative times.

    Source
    ------
    williams-2009-roofline, with the exponent 4 fitted on public kernel tables (docs/log/).

    Examples
    --------
    >>> print(f"{smooth_max(compute_s=1e-3, memory_s=1e-3) * 1e3:.3f} ms")
    1.189 ms
    """
    high, low = (compute_s, memory_s) if compute_s >= memory_s else (memory_s, compute_s)
    if low <= high * 1e-3:
        return high
    ratio = low / high
    ratio *= ratio
    return float(high * (1.0 + ratio * ratio) ** 0.25)
