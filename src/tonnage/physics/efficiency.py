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
from typing import Final, Literal

import msgspec

__all__ = ["Curve", "Grid", "Ladder", "Machine", "Rung", "roofline_s", "smooth_max", "weakest_rung"]

Rung = Literal["own", "architecture", "generation", "generic"]

RUNGS: Final[tuple[Rung, ...]] = ("own", "architecture", "generation", "generic")


def weakest_rung(rungs: tuple[Rung, ...]) -> Rung:
    """The least founded of these rungs; `own` for none."""
    return max(rungs, key=RUNGS.index, default="own")


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What a roofline needs to know about an accelerator, for one compute dtype."""

    peak_flop_per_s: float
    memory_bytes_per_s: float


class Grid(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """
    Measured times over a regular grid of shapes, compared by identity.

    `axes` are natural logarithms of the coordinates, the first one the tokens; `log_s` are natural
    logarithms of seconds in C order. Along the first axis they never fall.
    """

    axes: tuple[tuple[float, ...], ...]
    log_s: array[float]
    floor_s: float
    """Time of the smallest shape: launch and fixed work. [s]"""
    machine: Machine
    """Where it was measured."""
    rung: Rung = "own"
    source: str = ""


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
