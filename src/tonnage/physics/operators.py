"""How many seconds does one operator take on one accelerator?

`operator_s` looks the operator's shape up in the ladder's measured grids and falls back to the generic
curve, t = launch + smooth_max(FLOP / (peak e_c), bytes / (bandwidth e_m)), with what is special to each
kind; `operator_evidence` gives the same seconds with what they rest on. The operator says what it does
(FLOP, bytes, shape, formats); the accelerator says what it could do; the ladder says how much of it such
kernels reach.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import log2, sqrt
from typing import Final, Literal

import msgspec

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.breakdown import Evidence, Tier
from tonnage.domain.efficiency import WITNESSES, Grid, Ladder, Machine, Rung
from tonnage.domain.precision import FORMATS, number_format
from tonnage.physics.collectives import collective_timed, level_bytes, link_rate, network_rate, ring_traffic
from tonnage.physics.efficiency import GENERIC, Point, grid_s, peak_flop_per_s, weakest_rung
from tonnage.physics.work import Operator, Work

__all__ = ["operator_evidence", "operator_s", "roofline_of", "work_s"]

SLOWER: Final = 1.3
"""How much longer than the 16-bit kernel of its shape a product in fewer bits may take on the word of one table. [-]"""
EXPERT_SKEW: Final = 1.2
"""Exponent by which the popularity of experts falls with their rank in skewed tables (aiconfigurator-core). [-]"""
_PRODUCTS: Final = frozenset({"gemm", "grouped_gemm"})
_FROM_MEMORY: Final = frozenset({"gemm", "grouped_gemm", "attention_decode", "mla_decode", "state_space"})
"""Kinds that read weights or states anew in each layer, however large the cache that a benchmark repeats them from."""
_COLLECTIVES: Final = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "point_to_point"})


def operator_s(op: Operator, *, accelerator: Accelerator, ladder: Ladder, eager: bool = False) -> tuple[float, Rung]:
    """
    Seconds of ONE execution of `op` on one rank, and the rung of the ladder that says so.

    `op.count` is not applied: `work_s` does. `eager` adds what a launch outside a captured graph costs.
    Products in narrow formats include quantising their input; grouped products include permuting
    rows to experts, the activation between them and the weighted sum after.
    """
    seconds, rung, _ = _operator_seconds(op, accelerator, ladder, eager)
    return seconds, rung


def operator_evidence(
    op: Operator, *, accelerator: Accelerator, ladder: Ladder, eager: bool = False
) -> tuple[float, Evidence]:
    """The seconds of `operator_s`, and what they rest on: grid, donor, file, date, and the share of the roofline."""
    seconds, rung, grid = _operator_seconds(op, accelerator, ladder, eager)
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
        return "latency and bandwidth (physics.collectives)" if collective else "generic curve (nouns.efficiency.Curve)"
    return f"{grid.source} ({grid.origin.package})" if grid.origin else grid.source


def roofline_of(
    op: Operator, *, accelerator: Accelerator, ladder: Ladder
) -> tuple[float, Literal["", "arithmetic", "memory", "link"]]:
    """One execution at the datasheet's rates, and which of its limits takes the longer. [s]"""
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


def _operator_seconds(
    op: Operator, accelerator: Accelerator, ladder: Ladder, eager: bool
) -> tuple[float, Rung, Grid | None]:
    """Seconds, rung, and the grid they were read from; no grid where a curve or a formula answers."""
    kind = op.kind
    if kind in _COLLECTIVES:
        return collective_timed(op, accelerator=accelerator, ladder=ladder, eager=eager)
    grid: Grid | None = None
    rung: Rung = "generic"
    measured = _MEASURED[kind](op, ladder) if ladder.grids and kind in _MEASURED else None
    if measured is None:
        seconds = GENERIC[kind](op, accelerator, ladder)
    else:
        grid = measured[0]
        seconds, rung = _read(op, measured, accelerator=accelerator, ladder=ladder), grid.rung
        if kind in _PRODUCTS and measured[2] < 2.0:
            seconds, rung, grid = _second_witness(op, (seconds, rung, grid), accelerator=accelerator, ladder=ladder)
        elif kind == "grouped_gemm":
            seconds = _agreed_s(op, measured, seconds, accelerator=accelerator, ladder=ladder)
    if eager:
        seconds += ladder.curve.eager_launch_s - ladder.curve.launch_s
    return seconds, rung, grid


@lru_cache(maxsize=256)
def _machine(peak_flop_per_s: float, memory_bytes_per_s: float) -> Machine:
    return Machine(peak_flop_per_s=peak_flop_per_s, memory_bytes_per_s=memory_bytes_per_s)


def _read(op: Operator, measured: Measured, *, accelerator: Accelerator, ladder: Ladder) -> float:
    """Seconds that a grid says of an operator on this accelerator."""
    grid, point, weights_bytes, width = measured
    peak = peak_flop_per_s(accelerator, op.compute) * ladder.sustained
    machine = _machine(peak * grid.arithmetic, accelerator.memory_bytes_per_s * grid.memory)
    seconds = grid_s(grid, point, machine=machine, weights_bytes=weights_bytes, width=width)
    if grid.arithmetic > 1.0:  # some shapes reach more of the measured part's peak than its large ones usually do
        seconds = max(seconds, op.flop / peak)
    if grid.memory > 1.0 or op.kind in _FROM_MEMORY:
        reached = _reached_experts(round(op.groups, 2), round(op.m)) if op.skewed else 1.0
        seconds = max(seconds, reached * op.read_bytes / accelerator.memory_bytes_per_s)
    return seconds


@lru_cache(maxsize=1024)
def _reached_experts(groups: float, rows: float) -> float:
    """Share of the experts that even routing hits, which so many rows reach at least under the tables' power law."""
    if rows <= groups * (1.0 + 1e-9) or groups <= 1.0:
        return 1.0
    low, high = groups, 64.0 * groups
    while (middle := (low + high) / 2.0) < high - 0.005:  # even routing hits N (1 - (1 - 1/N)^rows) of N experts
        low, high = (middle, high) if middle * (1.0 - (1.0 - 1.0 / middle) ** rows) < groups else (low, middle)
    popular = [float(rank) ** -EXPERT_SKEW for rank in range(1, round(high) + 1)]
    total = sum(popular)
    hit: float = sum(1.0 - (1.0 - one / total) ** rows for one in popular)
    return min(1.0, hit / groups)


def _agreed_s(op: Operator, first: Measured, seconds: float, *, accelerator: Accelerator, ladder: Ladder) -> float:
    """
    16-bit experts, by a table that two other engines' tables of the same part may contradict. [s]

    Where it is more than `SLOWER` times the slower of both, its kernel was not tuned for that shape: TensorRT-LLM's 16
    experts of 14,336 x 4,096 take 2.9 times their bytes on H100, eight of them 1.1 times (aiconfigurator-core 0.12.0).
    """
    grid = first[0]
    if (
        grid.origin is None
        or op.kind != "grouped_gemm"
        or seconds <= SLOWER * op.read_bytes / accelerator.memory_bytes_per_s
    ):
        return seconds
    others = [other for end in WITNESSES if (other := ladder.grids.get(grid.origin.key + end))]
    if len(others) < 2:
        return seconds
    times = [_read(op, (other, *first[1:]), accelerator=accelerator, ladder=ladder) for other in others]
    return min(seconds, SLOWER * max(times))


def _second_witness(
    op: Operator, first: tuple[float, Rung, Grid], *, accelerator: Accelerator, ladder: Ladder
) -> tuple[float, Rung, Grid]:
    """
    A product in fewer bits, checked against the 16-bit kernel of the same shape.

    A table that makes fewer bits slower than `SLOWER` times 16 bits is more often an untuned kernel than what an engine
    runs: it needs a second witness, another table of the same arithmetic. If that one is faster, it is taken. If both
    were measured on this very accelerator and agree, the faster stands. Otherwise the engine is taken to run the 16-bit
    kernel at worst, on widened weights.
    """
    seconds, rung, grid = first
    # No 16-bit kernel beats its datasheet: most tables need no look at another one.
    widened = op.n * op.k * max(op.groups, 1.0) * 2.0 / accelerator.memory_bytes_per_s
    if seconds <= SLOWER * max(widened, op.flop / peak_flop_per_s(accelerator, "bf16")):
        return first
    sixteen = _find(op, ladder, ("bf16",), 2.0)
    if sixteen is None:
        return first
    wide = msgspec.structs.replace(op, weights="bf16", compute="bf16")
    most = _read(wide, sixteen, accelerator=accelerator, ladder=ladder)
    most = SLOWER * _agreed_s(wide, sixteen, most, accelerator=accelerator, ladder=ladder)
    if seconds <= most:
        return first
    names, stored = _kernels(op.weights, op.compute)
    seen = [(seconds, rung, grid)]
    for name in names:
        other = _find(op, ladder, (name,), stored)
        if other is not None and other[0] is not grid:
            seen.append((_read(op, other, accelerator=accelerator, ladder=ladder), other[0].rung, other[0]))
    best = min(seen, key=lambda found: found[0])
    agreed = len(seen) > 1 and all(found[1] == "own" for found in seen)
    if best[0] <= most or agreed:
        return best
    return most, weakest_rung((rung, sixteen[0].rung)), sixteen[0]


def work_s(work: Work, *, accelerator: Accelerator, ladder: Ladder, eager: bool = False) -> tuple[float, Rung]:
    """Seconds of a whole phase run back to back, and the weakest rung in it."""
    total, rungs = 0.0, set[Rung]()
    for op in work:
        seconds, rung = operator_s(op, accelerator=accelerator, ladder=ladder, eager=eager)
        total += seconds * op.count
        rungs.add(rung)
    return total, weakest_rung(tuple(rungs))


Measured = tuple[Grid, Point, float, float]
"""A grid, the coordinates in it, bytes of a stored value, and the width its demand needs."""

_KERNELS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("bf16", "bf16"): ("bf16",),
    ("fp16", "fp16"): ("bf16",),
    ("fp16", "bf16"): ("bf16",),
    ("bf16", "fp16"): ("bf16",),
    ("fp8", "fp8"): ("fp8", "fp8_block"),
    ("fp8_block", "fp8"): ("fp8_block", "fp8"),
    ("mxfp8", "fp8"): ("fp8_block", "fp8"),
    ("int8", "int8"): ("int8", "fp8"),
    ("nvfp4", "fp4"): ("nvfp4",),
    ("mxfp4", "fp4"): ("nvfp4",),
    ("mxfp4", "fp8"): ("mxfp4", "nvfp4"),
    ("mxfp4", "bf16"): ("mxfp4/bf16", "int4/bf16", "int4"),
}
"""Grids that hold the kernel of a stored format and a compute dtype, best first."""


@lru_cache(maxsize=256)
def _kernels(weights: str, compute: str) -> tuple[tuple[str, ...], float]:
    """Names of the grids that fit, and the bytes of a stored value."""
    known = FORMATS.get(weights) or number_format(weights)
    names = _KERNELS.get((known.name, compute))
    if names is None and compute in {"bf16", "fp16"} and known.bits < 16:
        # Weight-only kernels: what counts is how many bits they widen.
        names = ("int4", "int4/bf16", "int8_weight") if known.bits < 6 else ("int8_weight", "int4", "int4/bf16")
    return names or (), known.bytes


def _product(op: Operator, ladder: Ladder) -> Measured | None:
    names, stored = _kernels(op.weights, op.compute)
    return _find(op, ladder, names, stored)


def _find(op: Operator, ladder: Ladder, names: tuple[str, ...], stored: float) -> Measured | None:
    """The first of the named grids that the ladder has, and the product's place in it."""
    for name in names:
        key = f"{op.kind}/{name}"
        if op.kind == "gemm":
            grid = ladder.grids.get(key)
            if grid is not None:
                return grid, (op.n, op.k, op.m), stored, 1.0
            continue
        grid = (ladder.grids.get(key + "/skewed") if op.skewed else None) or ladder.grids.get(key)
        if grid is not None:
            return grid, (op.n * op.k, op.groups, op.m / max(op.groups, 1e-9)), stored, op.n + op.k
    return None


def _nearest_width(ladder: Ladder, prefix: str, width: float) -> Grid | None:
    found = ladder.grids.get(f"{prefix}/{width:.0f}")
    if found is not None:
        return found
    near = [ladder.grids[key] for key in ladder.grids if key.startswith(prefix + "/")]
    return min(near, key=lambda grid: abs(grid.width - width), default=None)


def _stored_bytes(op: Operator) -> float:
    return (FORMATS.get(op.weights) or number_format(op.weights)).bytes


def _cached_format(op: Operator) -> str:
    return "fp8" if _stored_bytes(op) < 1.5 else "bf16"


def _causal_query(op: Operator, width: float) -> tuple[float, float]:
    """Heads of all sequences, and the query tokens of a whole causal prompt with the same FLOP."""
    heads = max(op.heads * max(op.batch, 1.0), 1.0)
    return heads, sqrt(max(op.flop, 1.0) / (2.0 * heads * width))


def _prompt(op: Operator, ladder: Ladder) -> Measured | None:
    if op.compute not in {"bf16", "fp16", "fp8"}:
        return None
    compute, cache = "fp8" if op.compute == "fp8" else "bf16", _cached_format(op)
    group = max(op.heads / max(op.kv_heads, 1.0), 1.0)
    for prefix in (f"{compute}/{cache}", f"bf16/{cache}", "bf16/bf16"):
        grid = _nearest_width(ladder, "attention_prefill/" + prefix, op.head_dim)
        if grid is None:
            continue
        heads, q = _causal_query(op, op.head_dim)
        query = op.m / max(op.batch, 1.0)
        if op.window and op.window < query:
            near = _nearest_window(ladder, f"windowed_prefill/{prefix}/{grid.width:.0f}", op.window)
            if near is not None:
                return near, (group, heads, query), near.weights_bytes, op.head_dim
        return grid, (group, heads, q), grid.weights_bytes, op.head_dim
    return None


def _nearest_window(ladder: Ladder, prefix: str, window: float) -> Grid | None:
    """The grid of a window within a factor of two."""
    for octave in (0, 1, -1):
        grid = ladder.grids.get(f"{prefix}/{round(log2(window)) + octave}")
        if grid is not None:
            return grid
    return None


def _step(op: Operator, ladder: Ladder) -> Measured | None:
    if op.compute not in {"bf16", "fp16", "fp8"}:
        return None
    for cache in (_cached_format(op), "bf16"):
        grid = _nearest_width(ladder, "attention_decode/" + cache, op.head_dim)
        if grid is not None:
            kv_heads = max(op.kv_heads, 1.0)
            # Speculative tokens of one sequence share its keys, as query heads of one group do.
            drafted = max(op.m / op.batch, 1.0) if op.m and op.batch else 1.0
            leading = (max(op.heads / kv_heads, 1.0) * drafted, max(op.batch, 1.0) * kv_heads)
            context = max(op.context, 1.0)
            if op.window and op.window <= context:
                near = _nearest_window(ladder, f"windowed_decode/{cache}/{grid.width:.0f}", op.window)
                if near is not None:
                    return near, (*leading, context), _stored_bytes(op), op.head_dim
                context = op.window
            return grid, (*leading, context), _stored_bytes(op), op.head_dim
    return None


def _latent_prompt(op: Operator, ladder: Ladder) -> Measured | None:
    # Prompts whose queries choose their keys, or attend folded entries, are attended in the latent space.
    latent = op.window is not None or op.head_dim >= 500
    for form in ("mla_absorbed/", "mla_prefill/") if latent else ("mla_prefill/",):
        grid = ladder.grids.get(form + _cached_format(op)) or ladder.grids.get(form + "bf16")
        if grid is not None:
            _, query = _causal_query(op, grid.width)
            return grid, (max(op.heads, 1.0), max(op.batch, 1.0), query), grid.weights_bytes, grid.width
    return None


def _latent_step(op: Operator, ladder: Ladder) -> Measured | None:
    if op.head_dim < 500:  # an indexer or another latent size: its own roofline is the better guess
        return None
    grid = ladder.grids.get("mla_decode/" + _cached_format(op)) or ladder.grids.get("mla_decode/bf16")
    return (
        None
        if grid is None
        else (grid, (op.heads, max(op.batch, 1.0), max(op.context, 1.0)), _stored_bytes(op), grid.width)
    )


def _recurrent(op: Operator, ladder: Ladder) -> Measured | None:
    batch = max(op.batch, 1.0)
    states = op.heads * op.head_dim * max(op.k, 1.0) / (128.0 * 128.0)  # of the measured size
    if op.m <= 4.0 * batch:
        grid = ladder.grids.get("state_space/decode")
        return None if grid is None else (grid, (1.0, states * op.m), grid.weights_bytes, grid.width)
    grid = ladder.grids.get("state_space/prefill")
    return None if grid is None else (grid, (states * batch, op.m / batch), grid.weights_bytes, grid.width)


def _stream(op: Operator, ladder: Ladder) -> Measured | None:
    grid = ladder.grids.get("elementwise")
    return None if grid is None else (grid, (op.read_bytes + op.write_bytes,), 1.0, 1.0)


_MEASURED: Final[dict[str, Callable[[Operator, Ladder], Measured | None]]] = {
    "gemm": _product,
    "grouped_gemm": _product,
    "attention_prefill": _prompt,
    "attention_decode": _step,
    "mla_prefill": _latent_prompt,
    "mla_decode": _latent_step,
    "state_space": _recurrent,
    "elementwise": _stream,
    "embedding": _stream,
}
"""Where each kind finds its grid and its coordinates in it."""
