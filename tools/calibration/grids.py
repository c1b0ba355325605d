"""Kernel tables -> regular grids of times that never fall with tokens.

Each builder takes one engine's table of one operator and says of which rows its grids are made, by ladder key. A row
counts for a node when its shape is the node's; nodes that nobody measured borrow the utilisation of their
neighbours; times are then made monotone (isotonic means). Rows between nodes are left for the check.
"""

from __future__ import annotations

import warnings
from array import array
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from tables import FORMATS

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.efficiency import LOG_STEP, Grid, Machine
from tonnage.domain.precision import number_format
from tonnage.physics.collectives import has_link, link_rate, ring_traffic
from tonnage.physics.efficiency import DEMANDS, peak_flop_per_s

GEMM_M = [1, 2, 4, 8, 12, 16, 32, 33, 48, 64, 65, 96, 128, 129, 160, 192, 224, 256, 257, 384, 512, 513, 768, 1024, 1025,
          1280, 1536, 1792, 2048, 2049, 2560, 3072, 3584, 4096, 8192, 16384, 32768]  # fmt: skip
CONTEXT = [2**p for p in range(1, 18)]
QUERY = [1, 16, 32, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 10240, 12288, 16384, 32768]
UNITS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
GROUPS = [1, 2, 4, 8, 16, 32, 64]
SHARERS = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96]
ABSORBED = ("flash_attention", "triton")
"""SGLang's kernels of `context_mla` that attend the latents: 190 TFLOP/s on an H200 where TensorRT-LLM's reach 610."""
LOCAL = 0.25  # of the slot's rate: below it, one server's sockets speak, not the cards; never lent to other parts
HOST_BOUND_S = 30e-6
OUTLIER = 0.25
WITNESSES = 3  # as many rows of one node, from different batches and heads, are believed whatever the neighbours say
REACHED = 0.8
FREE = {"attention_prefill": 1, "attention_decode": 1, "gemm": 2}
"""Leading axes along which times need not rise, by kind: heads that share a key, sides of a weight matrix."""


class Shape(NamedTuple):
    """What a grid is of: everything but the measured times."""

    kind: str
    axes: tuple[tuple[float, ...], ...]
    machine: Machine
    weights_bytes: float = 2.0
    width: float = 128.0


def machine_of(accelerator: Accelerator, compute: str) -> Machine:
    """The roofline of one dtype."""
    return Machine(
        peak_flop_per_s=peak_flop_per_s(accelerator, compute), memory_bytes_per_s=accelerator.memory_bytes_per_s
    )


def roofline(shape: Shape, points: list[np.ndarray]) -> np.ndarray:
    """Lower bound of the time at each point."""
    flop, moved, message = DEMANDS[shape.kind](tuple(points), shape.weights_bytes, shape.width)
    if shape.kind == "collective":
        return np.asarray(message / shape.machine.link_bytes_per_s)
    compute = flop / shape.machine.peak_flop_per_s
    memory = moved / shape.machine.memory_bytes_per_s
    return np.asarray((compute**4 + memory**4) ** 0.25)


def model(shape: Shape, points: list[np.ndarray], floor_s: float) -> np.ndarray:
    """`tonnage.physics.efficiency.model_s` on arrays."""
    return floor_s + roofline(shape, points) / REACHED


def regular(shape: Shape, rows: pd.DataFrame, columns: list[str], *, source: str) -> Grid | None:
    """A grid from rows with coordinates `columns` and `seconds`; None when fewer than a tenth of the nodes were met."""
    if not all(shape.axes) or rows.empty:
        return None
    logs = [np.log(np.asarray(axis, float)) for axis in shape.axes]
    index, near = [], np.ones(len(rows), bool)
    for column, axis in zip(columns, logs, strict=True):
        value = np.log(rows[column].to_numpy(float))
        at = np.clip(np.searchsorted((axis[1:] + axis[:-1]) / 2, value), 0, len(axis) - 1)
        index.append(at)
        near &= np.abs(value - axis[at]) < 0.02
    sizes = tuple(len(axis) for axis in shape.axes)
    points = [rows[column].to_numpy(float)[near] for column in columns]
    seconds = rows["seconds"].to_numpy(float)[near]
    floor_s = float(np.quantile(seconds, 0.002))
    flat = np.ravel_multi_index([at[near] for at in index], sizes)
    widths = rows["width"].to_numpy(float)[near] if "width" in rows else shape.width
    excess = pd.Series(np.log(seconds) - np.log(model(shape._replace(width=widths), points, floor_s)))
    if "rank" in rows:  # of several rows at one node only those of the lowest rank count
        rank = pd.Series(rows["rank"].to_numpy(float)[near])
        first = rank == rank.groupby(flat).transform("min")
        excess, flat = excess[first], flat[first.to_numpy()]
    met = excess.groupby(flat).agg(["median", "size"])
    grid, counts = np.full(int(np.prod(sizes)), np.nan), np.zeros(int(np.prod(sizes)))
    grid[met.index.to_numpy()], counts[met.index.to_numpy()] = met["median"].to_numpy(), met["size"].to_numpy()
    if np.isfinite(grid).mean() < 0.1:
        return None
    grid, counts = grid.reshape(sizes), counts.reshape(sizes)
    if shape.kind == "gemm":
        grid = believed(grid, shape, floor_s)
    grid = fill(tame(grid) if shape.kind == "gemm" else np.where(counts < WITNESSES, spiked(grid, logs), grid), logs)
    mesh = np.meshgrid(*[np.asarray(axis, float) for axis in shape.axes], indexing="ij")
    across = 2.5 * np.sqrt(mesh[0]) if shape.kind == "grouped_gemm" else shape.width  # gated, hidden about inner
    ideal = np.log(model(shape._replace(width=across), mesh, floor_s))
    excess = monotone(ideal + grid, first=FREE.get(shape.kind, 0)) - ideal
    stored = np.clip(np.round(excess / LOG_STEP), -32767, 32767).astype("<i2")
    return Grid(
        kind=shape.kind,
        axes=tuple(tuple(float(v) for v in axis) for axis in logs),
        excess=array("h", stored.ravel().tobytes()),
        floor_s=floor_s,
        weights_bytes=shape.weights_bytes,
        width=shape.width,
        source=source,
    )


def believed(grid: np.ndarray, shape: Shape, floor_s: float) -> np.ndarray:
    """
    Measured nodes as the greatest times that never fall along the last axis.

    More rows are never done sooner, so a row slower than one after it was disturbed: on B200 one in eight of vLLM's
    FP8 products took two to three times what those of fewer and of more rows took.
    """
    mesh = np.meshgrid(*[np.asarray(axis, float) for axis in shape.axes], indexing="ij")
    ideal = np.log(model(shape, mesh, floor_s))
    times = np.where(np.isnan(grid), np.inf, ideal + grid)
    least = np.flip(np.minimum.accumulate(np.flip(times, -1), -1), -1)
    return np.where(np.isnan(grid), np.nan, least - ideal)


def tame(grid: np.ndarray) -> np.ndarray:
    """Lone slow spikes, further than OUTLIER above the median of the measured 3^d nodes around, become that median.

    Nothing but a kernel makes a kernel fast, so a fast node is believed down to twice OUTLIER.
    """
    around = np.full((3**grid.ndim, *grid.shape), np.nan)
    padded = np.pad(grid, 1, constant_values=np.nan)
    for number, corner in enumerate(np.ndindex(*[3] * grid.ndim)):
        around[number] = padded[tuple(slice(c, c + n) for c, n in zip(corner, grid.shape, strict=True))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # nodes that nobody measured, nor any around
        middle = np.nanmedian(around, axis=0)
    return np.where((grid - middle > OUTLIER) | (middle - grid > 2 * OUTLIER), middle, grid)


def spiked(grid: np.ndarray, axes: list[np.ndarray]) -> np.ndarray:
    """Nodes further than OUTLIER above what every axis through them foretells take the highest of those."""
    guesses = [along(grid, axis, places)[0] for axis, places in enumerate(axes)]
    highest = np.fmax.reduce(guesses)
    return np.where(grid - highest > OUTLIER, highest, grid)


def along(grid: np.ndarray, axis: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Every node from the nearest known ones before and after it along one axis, itself unseen.

    The guess, from how many nodes, and over what distance.
    """
    values = np.moveaxis(grid, axis, -1)
    known = np.isfinite(values)
    size = values.shape[-1]
    index = np.arange(size)
    last = np.maximum.accumulate(np.where(known, index, -1), -1)
    first = np.flip(np.minimum.accumulate(np.flip(np.where(known, index, size), -1), -1), -1)
    before = np.concatenate([np.full((*last.shape[:-1], 1), -1), last[..., :-1]], -1)
    after = np.concatenate([first[..., 1:], np.full((*first.shape[:-1], 1), size)], -1)
    has_low, has_high = before >= 0, after < size
    before, after = np.clip(before, 0, size - 1), np.clip(after, 0, size - 1)
    low, high = np.take_along_axis(values, before, -1), np.take_along_axis(values, after, -1)
    back, ahead = places - places[before], places[after] - places
    both = low + back / np.maximum(back + ahead, 1e-9) * (high - low)
    guess = np.where(has_low & has_high, both, np.where(has_low, low, np.where(has_high, high, np.nan)))
    middle = 2 * back * ahead / np.maximum(back + ahead, 1e-9)
    distance = np.where(has_low & has_high, middle, np.where(has_low, back, ahead))
    sides = has_low.astype(int) + has_high
    return np.moveaxis(guess, -1, axis), np.moveaxis(sides, -1, axis), np.moveaxis(distance, -1, axis)


def fill(grid: np.ndarray, axes: list[np.ndarray]) -> np.ndarray:
    """
    Unmeasured nodes from measured ones along each axis, each axis weighing as much as it foretells known nodes.

    How well an axis does is the squared error of guessing each measured node from the others on its line, over the
    squared distance to them; apart for guesses between two nodes and beyond the last one.
    """
    while np.isnan(grid).any():
        total, weight = np.zeros_like(grid), np.zeros_like(grid)
        for axis, places in enumerate(axes):
            guess, sides, distance = along(grid, axis, places)
            error = np.minimum(np.abs(grid - guess), 1.0)
            for count in (1, 2):
                seen = np.isfinite(error) & (sides == count)
                slope = (np.sum(error[seen] ** 2) + 1e-3) / (np.sum(distance[seen] ** 2) + 1e-2)
                reach = np.isnan(grid) & (sides == count)
                trust = 1.0 / (slope * distance**2 + 1e-6)
                total += np.where(reach, trust * np.nan_to_num(guess), 0.0)
                weight += np.where(reach, trust, 0.0)
        grid = np.where(np.isnan(grid) & (weight > 0), total / np.maximum(weight, 1e-12), grid)
    return grid


def monotone(times: np.ndarray, first: int = 0) -> np.ndarray:
    """The mean of the least rising majorant and the greatest rising minorant along each axis, last axis exact."""
    for _ in range(4):
        for axis in range(first, times.ndim):
            above = np.maximum.accumulate(times, axis)
            below = np.flip(np.minimum.accumulate(np.flip(times, axis), axis), axis)
            times = (above + below) / 2
    return np.asarray(np.maximum.accumulate(times, times.ndim - 1))


def axis_of(values: pd.Series, wanted: list[int]) -> tuple[float, ...]:
    """The wanted nodes that the table has."""
    have = set(values.unique())
    return tuple(float(v) for v in wanted if v in have)


class Candidate(NamedTuple):
    """One grid to be made of rows, where they meet enough of its nodes."""

    key: str
    shape: Shape
    rows: pd.DataFrame
    columns: list[str]
    """Coordinates of the rows, an axis each."""


Builder = Callable[[pd.DataFrame, Accelerator], Iterator[Candidate]]
"""From one engine's table of one operator, with `seconds`."""


def grids_of(build: Builder, table: pd.DataFrame, accelerator: Accelerator, *, source: str) -> dict[str, Grid]:
    """The grids of one table by ladder key."""
    found = {}
    for key, shape, rows, columns in build(table.assign(seconds=table["latency"] / 1e3), accelerator):
        grid = regular(shape, rows, columns, source=source)
        # A smallest product of 60 to 180 us was timed at the host's pace, not the kernel's (vLLM block FP8).
        if grid is not None and not (shape.kind == "gemm" and grid.floor_s >= HOST_BOUND_S):
            found[key] = grid
    return found


def on_nodes(key: str, shape: Shape, rows: pd.DataFrame, nodes: dict[str, list[int]]) -> Candidate:
    """A grid over columns of the rows, on those of the wanted nodes that they have."""
    axes = tuple(axis_of(rows[column], wanted) for column, wanted in nodes.items())
    return Candidate(key, shape._replace(axes=axes), rows, list(nodes))


def format_shape(kind: str, accelerator: Accelerator, compute: str, stored: str, width: float) -> Shape:
    """What grids of one kind and format are of, their axes still open."""
    return Shape(kind, (), machine_of(accelerator, compute), number_format(stored).bytes, width)


def gemm(table: pd.DataFrame, accelerator: Accelerator) -> Iterator[Candidate]:
    """Dense products by stored format: n, k, rows."""
    for name, rows in table.groupby("gemm_dtype"):
        weights, compute = FORMATS[str(name)]
        n, k = (tuple(sorted(float(v) for v in rows[side].unique())) for side in ("n", "k"))
        if len(n) * len(k) >= 100:
            shape = format_shape("gemm", accelerator, compute, weights, 1.0)
            shape = shape._replace(axes=(n, k, axis_of(rows["m"], GEMM_M)))
            yield Candidate(f"gemm/{weights}", shape, rows, ["n", "k", "m"])


_ASIDE = frozenset({"latency", "seconds", "kernel_source", "framework", "version", "device", "op_name", "beam_width"})


def of_one_kernel(table: pd.DataFrame, formats: list[str]) -> pd.DataFrame:
    """
    Rows of the kernel that an engine runs, where its table timed rivals.

    In each class of `formats`, kernels that were timed at shapes of the commonest one too are rivals that a user must
    ask for (SGLang on Blackwell runs trtllm_mha; its table holds flashinfer and triton beside it, 0.35 to 67 times its
    time) and are left out; kernels of other shapes alone are what the engine runs there (one token of vLLM's prompts).
    """
    if "kernel_source" not in table or table["kernel_source"].nunique() < 2:
        return table
    formats = [column for column in formats if column in table]
    counts = table.groupby([*formats, "kernel_source"])["latency"].transform("size")
    commonest = counts == counts.groupby([table[column] for column in formats]).transform("max")
    shape = [column for column in table if column not in _ASIDE]
    shared = commonest.groupby([table[column] for column in shape]).transform("any") & ~commonest
    rival = shared.groupby([table[column] for column in [*formats, "kernel_source"]]).transform("any")
    return table[~rival]


PREFILL_FORMATS = ["head_dim", "attn_dtype", "kv_cache_dtype", "window_size"]
DECODE_FORMATS = ["head_dim", "kv_cache_dtype", "window_size"]


def by_heads(table: pd.DataFrame, formats: list[str]) -> pd.DataFrame:
    """Rows of the kernel that runs, with key heads, query heads of each, and a window: 0 where none is stated."""
    table = of_one_kernel(table, formats)
    heads = table["num_key_value_heads"].where(table["num_key_value_heads"] > 0, table["num_heads"])
    table = table.assign(kv_heads=heads, group=table["num_heads"] / heads)
    return table if "window_size" in table else table.assign(window_size=0)


def attention_key(phase: str, window: float, *formats: str) -> str:
    """The ladder key of a kind of attention: its phase, its formats and width, and what it looks back."""
    name, suffix = ("windowed", f"/{round(np.log2(window))}") if window else ("attention", "")
    return f"{name}_{phase}/{'/'.join(formats)}{suffix}"


def prefill(table: pd.DataFrame, accelerator: Accelerator) -> Iterator[Candidate]:
    """Causal attention of whole prompts: query heads per key head, heads of all sequences, query tokens."""
    table, nodes = by_heads(table, PREFILL_FORMATS), {"group": GROUPS, "units": UNITS, "isl": QUERY}
    table = table.assign(units=table["batch_size"] * table["num_heads"])
    for (width, dtype, kv, window), rows in table.groupby(PREFILL_FORMATS):
        compute, cache = FORMATS[dtype][1], FORMATS[kv][0]
        shape = format_shape("attention_prefill", accelerator, compute, cache, float(width))
        yield on_nodes(attention_key("prefill", window, compute, cache, str(width)), shape, rows, nodes)


def decode(table: pd.DataFrame, accelerator: Accelerator) -> Iterator[Candidate]:
    """Attention of one token a sequence: query heads per key head, key heads of all sequences, context."""
    table, nodes = by_heads(table, DECODE_FORMATS), {"group": SHARERS, "units": UNITS, "context": CONTEXT}
    table = table.assign(units=table["batch_size"] * table["kv_heads"], context=table["step"] + table["isl"])
    for (width, kv, window), rows in table.groupby(DECODE_FORMATS):
        cache = FORMATS[kv][0]
        shape = format_shape("attention_decode", accelerator, "bf16", cache, float(width))
        yield on_nodes(attention_key("decode", window, cache, str(width)), shape, rows, nodes)


def mla_prefill(table: pd.DataFrame, accelerator: Accelerator) -> Iterator[Candidate]:
    """
    Latent attention of prompts, by the expanded form's FLOP (heads of 192 and 128, together as one of 160).

    Kernels that work on the latents themselves do 3.4 times that and have grids of their own: engines run them
    where every query chooses its keys, and expand elsewhere. Heads and sequences are axes apart: the few heads of one
    sequence that share a latent fill a block badly.
    """
    nodes, absorbed = {"num_heads": UNITS, "batch_size": UNITS, "isl": QUERY}, table["kernel_source"].isin(ABSORBED)
    for (kv, latent), rows in table.groupby(["kv_cache_dtype", absorbed]):
        name, cache = "mla_absorbed" if latent else "mla_prefill", FORMATS[str(kv)][0]
        shape = format_shape("mla_prefill", accelerator, "bf16", cache, 160.0)
        yield on_nodes(f"{name}/{cache}", shape, rows, nodes)


def mla_decode(table: pd.DataFrame, accelerator: Accelerator) -> Iterator[Candidate]:
    """Latent attention in the absorbed form: heads, sequences, context."""
    nodes = {"num_heads": UNITS, "batch_size": UNITS, "context": CONTEXT}
    for kv, rows in table.assign(context=table["step"] + table["isl"]).groupby("kv_cache_dtype"):
        cache = FORMATS[str(kv)][0]
        yield on_nodes(
            f"mla_decode/{cache}", format_shape("mla_decode", accelerator, "bf16", cache, 576.0), rows, nodes
        )


def moe_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Fused expert layers as three products of one size: experts of this rank that are hit, rows each, n k."""
    tokens, experts, top = (table[c].to_numpy(float) for c in ("num_tokens", "num_experts", "topk"))
    ranks = table["moe_ep_size"].to_numpy(float)
    # The tables' balanced routing spreads tokens evenly: as many experts as there are rows, at most all.
    hit = np.minimum(experts, np.maximum(tokens * top, 1.0)) / ranks
    size = table["hidden_size"] * table["inter_size"] / table["moe_tp_size"]
    return table.assign(
        size=size * 1.5,
        groups=np.maximum(hit, 1.0),
        rows=tokens * top / ranks / np.maximum(hit, 1.0),
        seconds=table["seconds"] / 2.0,
        rank=ranks,
        width=table["hidden_size"] + 1.5 * table["inter_size"] / table["moe_tp_size"],
    )


def scatter(table: pd.DataFrame, columns: list[str], axes: list[list[float]]) -> pd.DataFrame:
    """Rows moved to the nearest node of each axis, utilisation kept (`seconds` scaled by `ideal`)."""
    moved = table.copy()
    for column, axis in zip(columns, axes, strict=True):
        nodes = np.log(np.asarray(axis))
        value = np.log(np.maximum(table[column].to_numpy(float), axis[0]))
        moved[column] = np.asarray(axis)[
            np.clip(np.searchsorted((nodes[1:] + nodes[:-1]) / 2, value), 0, len(nodes) - 1)
        ]
    return moved


def moe(table: pd.DataFrame, accelerator: Accelerator) -> Iterator[Candidate]:
    """Routed experts by format and routing: n k of an expert, experts hit, rows of each."""
    axes = {
        "size": [2.0**p for p in range(17, 28)],
        "groups": [2.0**p for p in range(10)],
        "rows": [2.0**p for p in range(15)],
    }
    columns, nodes = list(axes), list(axes.values())
    for (dtype, distribution), rows in moe_rows(table).groupby(["moe_dtype", "distribution"]):
        weights, compute = FORMATS[dtype]
        variant = {"balanced": "", "power_law_1.2": "/skewed"}.get(distribution)
        if variant is None:
            continue
        shape = format_shape("grouped_gemm", accelerator, compute, weights, 1.0)
        shape = shape._replace(axes=tuple(map(tuple, nodes)))
        same = rows[rows["kernel_source"] == rows["kernel_source"].value_counts().index[0]]
        wide = shape._replace(width=same["width"].to_numpy(float))
        moved = scatter(same, columns, nodes)
        before, after = (model(wide, [each[c].to_numpy(float) for c in columns], 2e-6) for each in (same, moved))
        moved["seconds"] = same["seconds"] * after / before
        suffix = "" if compute != "bf16" or weights == "bf16" else "/bf16"
        yield Candidate(f"grouped_gemm/{weights}{suffix}{variant}", shape, moved, columns)


def state_space(table: pd.DataFrame, accelerator: Accelerator) -> Iterator[Candidate]:
    """Gated delta rule: states (value heads of all sequences, 128 x 128 each), tokens of one sequence."""
    table = table[~table["kernel_source"].str.contains("conv")]
    table = table.assign(states=table["num_v_heads"] * table["batch_size"], one=1.0)
    # A prompt streams queries, keys, values and outputs; one step reads and writes the whole state.
    for phase, name, columns, moved in (
        ("context", "prefill", ["states", "seq_len"], 4 * 2.0 * 128),
        ("generation", "decode", ["one", "states"], 2 * 4.0 * 128 * 128),
    ):
        nodes = {column: [2**p for p in range(19)] for column in columns}
        shape = Shape("state_space", (), machine_of(accelerator, "bf16"), moved)
        yield on_nodes(f"state_space/{name}", shape, table[table["phase"] == phase], nodes)


def elementwise(table: pd.DataFrame, accelerator: Accelerator) -> Iterator[Candidate]:
    """Streaming kernels, by bytes: quantisation of activations with known scales reads 2 bytes and writes 1."""
    axis = [2.0**p for p in range(12, 33)]
    rows = table.assign(bytes=3.0 * table["m"] * table["k"])
    shape = Shape("elementwise", (tuple(axis),), machine_of(accelerator, "bf16"), 1.0, 1.0)
    near = scatter(rows, ["bytes"], [axis])
    before, after = (roofline(shape, [r["bytes"].to_numpy(float)]) for r in (rows, near))
    # Below 1 MiB the launch rules and time does not follow bytes.
    near["seconds"] = rows["seconds"] * np.where(rows["bytes"] > 2**20, after / before, 1.0)
    yield Candidate("elementwise", shape, near, ["bytes"])


def collectives(table: pd.DataFrame, accelerator: Accelerator) -> Iterator[Candidate]:
    """Messages by operation and ranks: bytes of the full message."""
    column = next(name for name in ("nccl_dtype", "oneccl_dtype", "allreduce_dtype") if name in table)
    names = {"alltoall": "all_to_all", "p2p": "point_to_point"}
    width = table[column].map({"int8": 1, "half": 2, "bfloat16": 2, "float16": 2, "float": 4})
    table = table.assign(bytes=table["message_size"] * width)
    for (operation, ranks), rows in table.groupby(["op_name", "num_gpus"]):
        kind = names.get(operation, operation)
        rate = link_rate(accelerator, ranks=int(ranks)) / ring_traffic(kind, int(ranks))
        machine = Machine(peak_flop_per_s=1.0, memory_bytes_per_s=1.0, link_bytes_per_s=rate)
        largest = rows.loc[rows["bytes"].idxmax()]
        reached = largest["bytes"] / largest["seconds"] / rate
        over = "" if has_link(accelerator, ranks=int(ranks)) else "/pcie/local" if reached < LOCAL else "/pcie"
        nodes = {"bytes": [2**p for p in range(8, 31)]}
        yield on_nodes(f"{kind}/{ranks}{over}", Shape("collective", (), machine, 1.0, 1.0), rows, nodes)
