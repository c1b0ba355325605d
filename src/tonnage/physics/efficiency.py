"""How much of an accelerator an operator uses, and how well that is known.

A `Ladder` holds, for one accelerator, the measured time grids of its kernels and the generic curve
that stands in where nothing was measured. Its rungs, best first: `own` (this accelerator was
measured), `architecture` (a part with the same compute capability was), `generation` (a part of the
same architecture name was), `generic` (a curve with a few efficiencies). A borrowed grid is rescaled
node by node: launch cost stays, the rest follows the ratio of the two rooflines.

Pure data and arithmetic; `tonnage.catalog.efficiency.ladder` reads the files. Thermal throttling
within a run and contention between streams are ignored; `Ladder.sustained` scales the compute peak of
power-capped parts.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from math import exp, log
from typing import Final, Literal

import msgspec

__all__ = [
    "DEMANDS",
    "LOG_STEP",
    "Curve",
    "Grid",
    "Ladder",
    "Machine",
    "Rung",
    "grid_s",
    "model_s",
    "roofline_s",
    "smooth_max",
    "weakest_rung",
]

Rung = Literal["own", "architecture", "generation", "generic"]

RUNGS: Final[tuple[Rung, ...]] = ("own", "architecture", "generation", "generic")


def weakest_rung(rungs: tuple[Rung, ...]) -> Rung:
    """The least founded of these rungs; `own` for none."""
    return max(rungs, key=RUNGS.index, default="own")


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What a roofline needs to know about an accelerator, for one compute dtype or one link."""

    peak_flop_per_s: float
    memory_bytes_per_s: float
    link_bytes_per_s: float = 0.0


class Grid(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """
    Measured times over a regular grid of shapes, compared by identity.

    `axes` are natural logarithms of the coordinates; the last is the one that grows with tokens,
    context or message size. `excess` holds, in C order and in steps of LOG_STEP, the logarithm of the
    measured time over `model_s` of the shape on the machine it was measured on.
    """

    kind: str
    """Which demand function the coordinates feed: see `DEMANDS`."""
    axes: tuple[tuple[float, ...], ...]
    excess: array[int]
    floor_s: float
    """Part of every time that no faster memory, arithmetic or link shortens. [s]"""
    weights_bytes: float = 2.0
    """Bytes of one stored value (weights, cached keys and values). [bytes]"""
    width: float = 128.0
    """Head size of attention; sum of both sides of an expert's matrix; 1 elsewhere."""
    rung: Rung = "own"
    source: str = ""
    crowding: float = 1.0
    """Multiprocessors of the measured part over those of the part it stands in for."""


LOG_STEP: Final = 1.0 / 2000.0
"""Resolution of the stored logarithms: 0.05 % of a time."""

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
    heads, q = point
    return 2.0 * heads * width * q * q, 8.0 * heads * width * q, 0.0


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
    "mla_prefill": 0,
    "mla_decode": 1,
    "state_space": 0,
}
"""The coordinate that spreads over multiprocessors: outputs, experts, heads of all sequences, sequences."""


def model_s(demand: Demand, machine: Machine, *, floor_s: float) -> float:
    """Launch and roofline of a demand on a machine, before what was measured corrects it. [s]"""
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
    """Index of the node below and how far towards the next one; below the first node -1."""
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


_GEMM: Final[dict[str, tuple[float, float, float]]] = {
    "fp32": (0.83, 0.81, 620.0),
    "tf32": (0.83, 0.81, 620.0),
    "fp16": (0.83, 0.81, 620.0),
    "bf16": (0.83, 0.81, 620.0),
    "fp8": (0.66, 0.73, 1200.0),
    "int8": (0.66, 0.73, 1200.0),
    "fp4": (0.61, 0.63, 2800.0),
}


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """
    The generic curve: efficiencies of kernels where no grid applies.

    Fits of calibration/curve.py over all measured accelerators, each with equal weight; fp32 and tf32
    take bf16's shares, int8 takes fp8's. State-space, convolution and gather shares are assumptions.
    """

    launch_s: float = 3.1e-6
    """One kernel inside a captured graph. [s]"""
    eager_launch_s: float = 6e-6
    """One kernel launched from Python. [s]"""
    narrow_launch_s: float = 7.5e-6
    """A product of 8 bits or less, with the kernel that quantises its input. [s]"""
    gemm: dict[str, tuple[float, float, float]] = msgspec.field(default_factory=lambda: dict(_GEMM))
    """By compute dtype: compute efficiency, memory efficiency, m0 of the small-shape penalty."""
    dequantize: float = 0.95
    """Compute efficiency of weight-only products over that of 16-bit ones, above 64 rows."""
    prefill_launch_s: float = 17e-6
    prefill_limit: float = 0.46
    prefill_half: float = 720.0
    """Query tokens at which prefill attention reaches half of its limit."""
    decode_memory: float = 0.74
    decode_occupancy: float = 0.05
    decode_launch_s: float = 14e-6
    elementwise_memory: float = 0.75
    gather_memory: float = 0.5
    state_space_compute: float = 0.25
    state_space_memory: float = 0.65
    convolution_compute: float = 0.6
    convolution_memory: float = 0.7
    link: float = 0.8
    """Bus bandwidth of large collectives over the link rate, inside a node."""
    link_small: float = 0.45
    """The same for messages of a few hundred KiB: the second regime."""
    network: float = 0.8
    """Bus bandwidth of large collectives over the network rate, between nodes."""
    host_link: float = 0.42
    """Collectives over PCIe with peer access, over the PCIe rate of one direction."""
    host_link_no_peer: float = 0.22
    """The same through host memory: no peer access between cards."""
    hop_s: float = 1.0e-6
    collective_launch_s: float = 4e-6
    network_hop_s: float = 8e-6


class Ladder(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """
    Everything measured that helps to predict one accelerator, for one family of kernels.

    `grids` is keyed by operator kind, format and variant ("gemm/bf16", "all_reduce/8"). Compared by
    identity, so results can be cached by it. `Ladder()` is the generic curve alone.
    """

    accelerator: str = ""
    family: str = ""
    """Whose kernels: vllm, sglang, trtllm …"""
    grids: dict[str, Grid] = {}
    curve: Curve = Curve()
    multiprocessors: float | None = None
    """Streaming multiprocessors, compute units or cores. [units]"""
    sustained: float = 1.0
    """Clock under sustained load over the clock that the peaks assume; below 1 on power-capped parts."""
    peer_access: bool | None = None
    """Whether cards read each other's memory over PCIe; absent = only data-centre parts."""
    inter_node_bytes_per_s: float | None = None
    """Network between nodes, one accelerator, one direction; absent = 50 GB/s (400 Gb/s). [bytes/s]"""
    spread: dict[str, dict[str, float]] = {}
    """By operator kind and rung: the 90 % quantile of |log(measured / predicted)| on left-out shapes and parts."""
    notes: tuple[str, ...] = ()

    def half_width(self, kind: str, rung: Rung) -> float:
        """90 % of measurements lie within exp(±this) of the prediction. [log ratio]"""
        known = self.spread.get(kind) or self.spread.get("gemm") or {}
        return known.get(rung, _SEED_SPREAD[rung])


_SEED_SPREAD: Final[dict[Rung, float]] = {"own": 0.15, "architecture": 0.35, "generation": 0.5, "generic": 0.7}


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
    williams-2009-roofline, with the exponent 4 fitted on public kernel tables (docs/log.md).

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


def roofline_s(*, flop: float, moved_bytes: float, peak_flop_per_s: float, memory_bytes_per_s: float) -> float:
    """
    Lower bound of an operation's time, with a rounded knee.

    t = smooth_max(F / p, Q / b)

    Parameters
    ----------
    flop : number
        F, multiply-add = 2. [FLOP]
    moved_bytes : number
        Q, read and written. [bytes]
    peak_flop_per_s : number
        p, dense peak of the dtype that multiplies. [FLOP/s]
    memory_bytes_per_s : number
        b, peak memory bandwidth. [bytes/s]

    Returns
    -------
    number
        Time at full use of the binding limit. [s]

    Valid
    -----
    Any operation whose data passes through device memory once.

    Source
    ------
    williams-2009-roofline.

    Examples
    --------
    >>> print(f"{roofline_s(flop=2e12, moved_bytes=1e8, peak_flop_per_s=1e15, memory_bytes_per_s=3e12) * 1e3:.2f} ms")
    2.00 ms
    """
    return smooth_max(compute_s=flop / peak_flop_per_s, memory_s=moved_bytes / memory_bytes_per_s)
