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
from math import exp, inf, log
from typing import Final, Literal

import msgspec

__all__ = [
    "LOG_STEP",
    "Curve",
    "Grid",
    "Ladder",
    "Machine",
    "Rung",
    "demand_s",
    "grid_s",
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
    context or message size, and along it times never fall. `log_s` holds natural logarithms of
    seconds in C order, in steps of LOG_STEP.
    """

    kind: str
    """Which demand function the coordinates feed: see `DEMANDS`."""
    axes: tuple[tuple[float, ...], ...]
    log_s: array[int]
    floor_s: float
    """Part of every time that no faster memory, arithmetic or link shortens. [s]"""
    machine: Machine
    """Where it was measured."""
    weights_bytes: float = 2.0
    """Bytes of one stored value (weights, cached keys and values). [bytes]"""
    width: float = 128.0
    """Head size of attention; 1 elsewhere."""
    rung: Rung = "own"
    source: str = ""


LOG_STEP: Final = 1.0 / 2000.0
"""Resolution of the stored logarithms: 0.05 % of a time."""

Demand = tuple[float, float, float]
"""FLOP, bytes through memory, bytes over the link."""


def _gemm_demand(point: tuple[float, ...], grid: Grid) -> Demand:
    n, k, m = point
    return 2.0 * m * n * k, grid.weights_bytes * n * k + 2.0 * m * (n + k), 0.0


def _grouped_demand(point: tuple[float, ...], grid: Grid) -> Demand:
    size, groups, rows = point
    # Activations of one expert: rows x (n + k), with n k = size and n about k.
    return 2.0 * groups * rows * size, groups * (grid.weights_bytes * size + 4.0 * rows * size**0.5), 0.0


def _prefill_demand(point: tuple[float, ...], grid: Grid) -> Demand:
    heads, q = point
    return 2.0 * heads * grid.width * q * q, 6.0 * heads * grid.width * q, 0.0


def _decode_demand(point: tuple[float, ...], grid: Grid) -> Demand:
    group, units, context = point
    return (
        4.0 * units * group * grid.width * context,
        units * grid.width * (2.0 * grid.weights_bytes * context + 4.0 * group),
        0.0,
    )


def _mla_decode_demand(point: tuple[float, ...], grid: Grid) -> Demand:
    heads, batch, context = point
    # The latent of DeepSeek V2/V3: 512 + 64 values a token, shared by all heads.
    return 2.0 * batch * heads * context * 1088.0, batch * (grid.weights_bytes * 576.0 * context + 2176.0 * heads), 0.0


def _state_demand(point: tuple[float, ...], grid: Grid) -> Demand:
    heads, m = point
    return 4.0 * heads * m * grid.width * grid.width, heads * m * grid.weights_bytes, 0.0


def _bytes_demand(point: tuple[float, ...], grid: Grid) -> Demand:
    return 0.0, point[0], 0.0


def _message_demand(point: tuple[float, ...], grid: Grid) -> Demand:
    return 0.0, 0.0, point[0]


DEMANDS: Final[dict[str, Callable[[tuple[float, ...], Grid], Demand]]] = {
    "gemm": _gemm_demand,
    "grouped_gemm": _grouped_demand,
    "attention_prefill": _prefill_demand,
    "attention_decode": _decode_demand,
    "mla_prefill": _prefill_demand,
    "mla_decode": _mla_decode_demand,
    "state_space": _state_demand,
    "elementwise": _bytes_demand,
    "collective": _message_demand,
}
"""What a shape asks of the machine, by kind of grid; coordinates in the order of the grid's axes."""


def demand_s(demand: Demand, machine: Machine) -> float:
    """Lower bound of the time of a demand on a machine. [s]"""
    flop, moved_bytes, message_bytes = demand
    if message_bytes:
        return message_bytes / machine.link_bytes_per_s
    return smooth_max(compute_s=flop / machine.peak_flop_per_s, memory_s=moved_bytes / machine.memory_bytes_per_s)


def grid_s(grid: Grid, point: tuple[float, ...], machine: Machine) -> float:
    """
    Seconds at a point of a grid (coordinates, not logarithms), on the machine given.

    Inside, times are interpolated in log-log; outside, what is not floor follows the roofline. On
    another machine than the grid's own, every node is rescaled first.
    """
    inside, clamped = [], False
    for value, axis in zip(point, grid.axes, strict=True):
        position = log(value) if value > 0 else axis[0]
        if position < axis[0]:
            position, clamped = axis[0], True
        elif position > axis[-1]:
            position, clamped = axis[-1], True
        inside.append(position)
    seconds = exp(_interpolate(grid, inside, machine))
    if not clamped:
        return seconds
    demand = DEMANDS[grid.kind]
    edge = demand_s(demand(tuple(map(exp, inside)), grid), machine)
    floor = min(grid.floor_s, seconds)
    return floor + (seconds - floor) * demand_s(demand(point, grid), machine) / edge


def _interpolate(grid: Grid, inside: list[float], machine: Machine) -> float:
    corners, weights = [0], [1.0]
    for axis, position in zip(grid.axes[:-1], inside[:-1], strict=True):
        low, share = _bracket(axis, position)
        size = len(axis)
        if share == 0.0:
            corners = [corner * size + low for corner in corners]
        else:
            corners = [corner * size + low + step for corner in corners for step in (0, 1)]
            weights = [weight * part for weight in weights for part in (1.0 - share, share)]
    low, share = _bracket(grid.axes[-1], inside[-1])
    total = 0.0
    for corner, weight in zip(corners, weights, strict=True):
        column = _column(grid, corner, machine)
        value = column[low]
        if share:
            value += share * (column[low + 1] - value)
        total += weight * value
    return total


def _bracket(axis: tuple[float, ...], position: float) -> tuple[int, float]:
    """Index of the node below, and how far towards the next one."""
    low = bisect_right(axis, position) - 1
    if low >= len(axis) - 1:
        return len(axis) - 1, 0.0
    return low, (position - axis[low]) / (axis[low + 1] - axis[low])


@lru_cache(maxsize=16384)
def _column(grid: Grid, corner: int, machine: Machine) -> tuple[float, ...]:
    """Logarithms of the times along the last axis at one combination of the others."""
    last = grid.axes[-1]
    stored = grid.log_s[corner * len(last) : (corner + 1) * len(last)]
    if machine == grid.machine:
        return tuple(value * LOG_STEP for value in stored)
    fixed: list[float] = []
    rest = corner
    for axis in reversed(grid.axes[:-1]):
        rest, index = divmod(rest, len(axis))
        fixed.append(exp(axis[index]))
    leading = tuple(reversed(fixed))
    demand, slowest, column = DEMANDS[grid.kind], -inf, []
    for position, value in zip(last, stored, strict=True):
        needs = demand((*leading, exp(position)), grid)
        seconds = exp(value * LOG_STEP)
        floor = min(grid.floor_s, seconds)
        seconds = floor + (seconds - floor) * demand_s(needs, machine) / demand_s(needs, grid.machine)
        slowest = max(slowest, log(seconds))
        column.append(slowest)
    return tuple(column)


_GEMM: Final[dict[str, tuple[float, float, float]]] = {
    "fp32": (0.82, 0.80, 170.0),
    "tf32": (0.75, 0.80, 170.0),
    "fp16": (0.82, 0.80, 170.0),
    "bf16": (0.82, 0.80, 170.0),
    "fp8": (0.68, 0.68, 900.0),
    "int8": (0.68, 0.68, 900.0),
    "fp4": (0.55, 0.60, 1800.0),
}


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """
    The generic curve: efficiencies of kernels where no grid applies.

    Seeds are the fits of public kernel tables over several accelerators; the calibration scripts
    rewrite them.
    """

    launch_s: float = 3.3e-6
    """One kernel inside a captured graph. [s]"""
    eager_launch_s: float = 6e-6
    """One kernel launched from Python. [s]"""
    gemm: dict[str, tuple[float, float, float]] = msgspec.field(default_factory=lambda: dict(_GEMM))
    """By compute dtype: compute efficiency, memory efficiency, m0 of the small-shape penalty."""
    dequantize: float = 0.75
    """Compute efficiency of weight-only products over that of 16-bit ones, above 64 rows."""
    prefill_limit: float = 0.62
    prefill_half: float = 1000.0
    """Query tokens at which prefill attention reaches half of its limit."""
    decode_memory: float = 0.82
    decode_occupancy: float = 0.8
    decode_launch_s: float = 8e-6
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
