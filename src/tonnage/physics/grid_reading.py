"""Where does an operator find its measured grid, and how many seconds does that say on this accelerator?

Each kind has a row in `MEASURED` that names the grid of a ladder and the operator's coordinates in it; `read` takes the
seconds from it, on the rooflines of the accelerator in hand. Kernels of attention have many grids: what queries and the
cache were in, the size of a head, windows; latent attention in two forms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import log2, sqrt
from typing import Final

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.efficiency import Grid, Ladder, Machine
from tonnage.domain.precision import number_format
from tonnage.physics.efficiency import Point, grid_s, peak_flop_per_s
from tonnage.physics.work import Operator

EXPERT_SKEW: Final = 1.2
"""Exponent by which the popularity of experts falls with their rank in skewed tables (aiconfigurator-core). [-]"""
_FROM_MEMORY: Final = frozenset({"gemm", "grouped_gemm", "attention_decode", "mla_decode", "state_space"})
"""Kinds that read weights or states anew in each layer, however large the cache that a benchmark repeats them from."""

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
    ("int8", "int8"): ("int8", "fp8", "fp8_block"),
    ("nvfp4", "fp4"): ("nvfp4",),
    ("mxfp4", "fp4"): ("nvfp4",),
    ("mxfp4", "fp8"): ("mxfp4", "nvfp4"),
    ("mxfp4", "bf16"): ("mxfp4/bf16", "int4/bf16", "int4"),
}
"""Grids that hold the kernel of a stored format and a compute dtype, best first."""


@lru_cache(maxsize=256)
def kernels(weights: str, compute: str) -> tuple[tuple[str, ...], float]:
    """Names of the grids that fit, and the bytes of a stored value."""
    known = number_format(weights)
    names = _KERNELS.get((known.name, compute))
    if names is None and compute in {"bf16", "fp16"} and known.bits < 16:
        # Weight-only kernels: what counts is how many bits they widen.
        names = ("int4", "int4/bf16", "int8_weight") if known.bits < 6 else ("int8_weight", "int4", "int4/bf16")
    return names or (), known.bytes


def _product(op: Operator, ladder: Ladder) -> Measured | None:
    names, stored = kernels(op.weights, op.compute)
    return find(op, ladder, names=names, stored=stored)


def find(op: Operator, ladder: Ladder, *, names: tuple[str, ...], stored: float) -> Measured | None:
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


ATTENTION: Final = frozenset({"attention_prefill", "attention_decode", "mla_prefill", "mla_decode"})
_PROMPTS_IN_FP8: Final = (["attention_prefill", "fp8"], ["windowed_prefill", "fp8"])
"""Starts of the keys of grids of prompts whose queries were in FP8."""


def stored_over(op: Operator, grid: Grid) -> str:
    """The arithmetic whose roofline the excess of a grid is over: attention's 16 bits, but for prompts timed in FP8."""
    if op.compute != "fp8" or op.kind not in ATTENTION:
        return op.compute
    narrow = grid.origin is not None and grid.origin.key.split("/")[:2] in _PROMPTS_IN_FP8
    return "fp8" if narrow else "bf16"


def _nearest_width(ladder: Ladder, prefix: str, width: float) -> Grid | None:
    """The grid of a head size, else that of the nearest one that was measured; none without any."""
    found = ladder.grids.get(f"{prefix}/{width:.0f}")
    if found is not None:
        return found
    near = [ladder.grids[key] for key in ladder.grids if key.startswith(prefix + "/")]
    return min(near, key=lambda grid: abs(grid.width - width), default=None)


def _stored_bytes(op: Operator) -> float:
    return number_format(op.weights).bytes


def _cached_format(op: Operator) -> str:
    return "fp8" if _stored_bytes(op) < 1.5 else "bf16"


def _causal_query(op: Operator, width: float) -> tuple[float, float]:
    """Heads of all sequences, and the query tokens of a whole causal prompt with the same FLOP."""
    heads = max(op.heads * max(op.batch, 1.0), 1.0)
    return heads, sqrt(max(op.flop, 1.0) / (2.0 * heads * width))


def prompt(op: Operator, ladder: Ladder) -> Measured | None:
    """Where the attention of a prompt is; absent where nothing of its kind was measured."""
    if op.compute not in {"bf16", "fp16", "fp8"}:
        return None
    group = max(op.heads / max(op.kv_heads, 1.0), 1.0)
    for prefix, grid in _prompt_grids(op, ladder):
        heads, q = _causal_query(op, op.head_dim)
        query = op.m / max(op.batch, 1.0)
        if op.window and op.window < query:
            near = _nearest_window(ladder, f"windowed_prefill/{prefix}/{grid.width:.0f}", op.window)
            if near is not None:
                return near, (group, heads, query), near.weights_bytes, op.head_dim
        return grid, (group, heads, q), grid.weights_bytes, op.head_dim
    return None


def _prompt_grids(op: Operator, ladder: Ladder) -> list[tuple[str, Grid]]:
    """
    Grids of prompts that may answer, best first: of this arithmetic and cache, of this cache, of 16 bits.

    For a cache in FP8 an engine's own grid comes before another's, whatever its queries were in: it timed the kernel
    that the engine runs for such a cache (vLLM's on Hopper is one of FP8 queries under the name of 16-bit ones).
    """
    cache = _cached_format(op)
    prefixes = [f"bf16/{cache}", "bf16/bf16"] if cache != "bf16" else ["bf16/bf16"]
    if op.compute == "fp8":
        prefixes.insert(0, f"fp8/{cache}")
    found = [(prefix, _nearest_width(ladder, f"attention_prefill/{prefix}", op.head_dim)) for prefix in prefixes]
    known = [(prefix, grid) for prefix, grid in found if grid is not None]
    if op.compute == "fp8":
        own = f".{ladder.family}.grids"
        known.sort(key=lambda at: at[0] == "bf16/bf16" or not (at[1].origin and at[1].origin.file.endswith(own)))
    return known


def _nearest_window(ladder: Ladder, prefix: str, window: float) -> Grid | None:
    """The grid of a window within a factor of two."""
    for octave in (0, 1, -1):
        grid = ladder.grids.get(f"{prefix}/{round(log2(window)) + octave}")
        if grid is not None:
            return grid
    return None


def _step(op: Operator, ladder: Ladder) -> Measured | None:
    """
    Where the attention of a decode step is: in the grid of its cache's format, else in that of 16 bits.

    A window that has no grid of its own is read as a context of its length.
    """
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
    """Where the latent attention of a prompt is, in the form that engines run it in."""
    # Prompts whose queries choose their keys, or attend folded entries, are attended in the latent space.
    latent = op.window is not None or op.head_dim >= 500
    for form in ("mla_absorbed/", "mla_prefill/") if latent else ("mla_prefill/",):
        grid = ladder.grids.get(form + _cached_format(op)) or ladder.grids.get(form + "bf16")
        if grid is not None:
            _, query = _causal_query(op, grid.width)
            return grid, (max(op.heads, 1.0), max(op.batch, 1.0), query), grid.weights_bytes, grid.width
    return None


def _latent_step(op: Operator, ladder: Ladder) -> Measured | None:
    """Where the latent attention of a decode step is."""
    if op.head_dim < 500:  # an indexer or another latent size: its own roofline is the better guess
        return None
    grid = ladder.grids.get("mla_decode/" + _cached_format(op)) or ladder.grids.get("mla_decode/bf16")
    return (
        None
        if grid is None
        else (grid, (op.heads, max(op.batch, 1.0), max(op.context, 1.0)), _stored_bytes(op), grid.width)
    )


def _recurrent(op: Operator, ladder: Ladder) -> Measured | None:
    """Where a pass over recurrent states is: in the grid of decodes up to four rows of a sequence, else of prompts."""
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


MEASURED: Final[dict[str, Callable[[Operator, Ladder], Measured | None]]] = {
    "gemm": _product,
    "grouped_gemm": _product,
    "attention_prefill": prompt,
    "attention_decode": _step,
    "mla_prefill": _latent_prompt,
    "mla_decode": _latent_step,
    "state_space": _recurrent,
    "elementwise": _stream,
    "embedding": _stream,
    "routing": _stream,
}
"""Where each kind finds its grid and its coordinates in it."""


@lru_cache(maxsize=256)
def _machine(peak_flop_per_s: float, memory_bytes_per_s: float) -> Machine:
    return Machine(peak_flop_per_s=peak_flop_per_s, memory_bytes_per_s=memory_bytes_per_s)


def read(op: Operator, measured: Measured, *, accelerator: Accelerator, ladder: Ladder) -> float:
    """
    Seconds that a grid says of an operator on this accelerator.

    What reads weights or states anew takes no less than their bytes at the listed bandwidth.
    """
    grid, point, weights_bytes, width = measured
    peak = peak_flop_per_s(accelerator, op.compute) * ladder.sustained
    over = peak if op.compute == (at := stored_over(op, grid)) else peak_flop_per_s(accelerator, at) * ladder.sustained
    machine = _machine(over * grid.arithmetic, accelerator.memory_bytes_per_s * grid.memory)
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
