"""How far predictions are from measured kernels: shapes left out, accelerators left out.

    python tools/calibration/check.py PACKAGE_FOLDER [--write] [SYSTEM ...]

Left-out shapes: every third class of shapes (columns of TESTED) is removed before the grids are built and
predicted from the rest. Left-out accelerators: each system's own files are hidden and its rows are
predicted from its kin. Generic: the curve alone. Rows become `Operator`s and go through `operator_s`, as
in a prediction. --write stores the 90 % quantiles of |log(measured / predicted)| as spread.json.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import grids
import msgspec
import numpy as np
import pandas as pd
from build import TABLES
from tables import FAMILIES, FORMATS, SYSTEMS, newest

from tonnage import catalog
from tonnage.catalog import efficiency
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.efficiency import Ladder
from tonnage.domain.precision import number_format
from tonnage.physics.operators import operator_s
from tonnage.physics.work import Operator

SAMPLE = 1200
"""Rows scored of each table; drawn with a fixed seed."""


def gemm_operator(row: pd.Series) -> Operator:
    weights, compute = FORMATS[row.gemm_dtype]
    return Operator(
        kind="gemm",
        name="gemm",
        weights=weights,
        compute=compute,
        flop=2.0 * row.m * row.n * row.k,
        read_bytes=number_format(weights).bytes * row.n * row.k + 2.0 * row.m * row.k,
        write_bytes=2.0 * row.m * row.n,
        m=row.m,
        n=row.n,
        k=row.k,
    )


def prefill_operator(row: pd.Series) -> Operator:
    window = getattr(row, "window_size", 0) or None
    seen = row.isl / 2 if not window or window >= row.isl else window - window**2 / 2 / row.isl
    kv_heads = row.num_key_value_heads or row.num_heads
    cache = FORMATS[row.kv_cache_dtype][0]
    width = row.batch_size * row.isl * row.head_dim
    return Operator(
        kind="attention_prefill",
        name="prefill",
        weights=cache,
        compute=FORMATS[row.attn_dtype][1],
        flop=4.0 * row.num_heads * width * seen,
        read_bytes=2.0 * width * (row.num_heads + 2 * kv_heads),
        write_bytes=2.0 * width * row.num_heads,
        m=row.batch_size * row.isl,
        batch=row.batch_size,
        heads=row.num_heads,
        kv_heads=kv_heads,
        head_dim=row.head_dim,
        window=window,
    )


def decode_operator(row: pd.Series) -> Operator:
    window = getattr(row, "window_size", 0) or None
    context = row.step + row.isl
    kv_heads = row.num_key_value_heads or row.num_heads
    seen = min(context, window) if window else context
    cache = FORMATS[row.kv_cache_dtype][0]
    return Operator(
        kind="attention_decode",
        name="decode",
        weights=cache,
        compute="bf16",
        flop=4.0 * row.num_heads * row.head_dim * row.batch_size * seen,
        read_bytes=2.0 * number_format(cache).bytes * kv_heads * row.head_dim * row.batch_size * seen,
        m=row.batch_size,
        batch=row.batch_size,
        context=context,
        heads=row.num_heads,
        kv_heads=kv_heads,
        head_dim=row.head_dim,
        window=window,
    )


def mla_prefill_operator(row: pd.Series) -> Operator:
    width = row.batch_size * row.isl * row.num_heads
    return Operator(
        kind="mla_prefill",
        name="prefill",
        weights=FORMATS[row.kv_cache_dtype][0],
        compute="bf16",
        flop=width * row.isl * 320.0,
        read_bytes=2.0 * width * 512,
        write_bytes=2.0 * width * 128,
        m=row.batch_size * row.isl,
        batch=row.batch_size,
        heads=row.num_heads,
        kv_heads=row.num_heads,
        head_dim=192,
        window=row.isl if row.kernel_source in grids.ABSORBED else None,
    )


def mla_decode_operator(row: pd.Series) -> Operator:
    context = row.step + row.isl
    cache = FORMATS[row.kv_cache_dtype][0]
    return Operator(
        kind="mla_decode",
        name="decode",
        weights=cache,
        compute="bf16",
        flop=2.0 * row.batch_size * row.num_heads * context * 1088,
        read_bytes=number_format(cache).bytes * 576 * row.batch_size * context,
        m=row.batch_size,
        batch=row.batch_size,
        context=context,
        heads=row.num_heads,
        kv_heads=1,
        head_dim=576,
    )


def moe_operators(row: pd.Series) -> tuple[Operator, ...]:
    """The up and the down product of one fused layer (every table's activation is gated or counted so)."""
    weights, compute = FORMATS[row.moe_dtype]
    rows = row.num_tokens * row.topk / row.moe_ep_size
    hit = max(min(row.num_experts, row.num_tokens * row.topk) / row.moe_ep_size, 1.0)
    inner = row.inter_size / row.moe_tp_size
    stored = number_format(weights).bytes
    return tuple(
        Operator(
            kind="grouped_gemm",
            name="experts",
            weights=weights,
            compute=compute,
            flop=2.0 * rows * n * k,
            read_bytes=stored * hit * n * k + 2.0 * rows * k,
            write_bytes=2.0 * rows * n,
            m=rows,
            n=n,
            k=k,
            groups=hit,
        )
        for n, k in ((2 * inner, row.hidden_size), (row.hidden_size, inner))
    )


def state_operator(row: pd.Series) -> Operator:
    tokens = row.num_tokens if row.phase == "context" else row.batch_size
    states = row.num_v_heads * 128.0 * 128.0
    return Operator(
        kind="state_space",
        name="state",
        weights="fp32",
        flop=6.0 * tokens * states,
        read_bytes=4.0 * row.batch_size * states,
        write_bytes=4.0 * row.batch_size * states,
        m=tokens,
        batch=row.batch_size,
        heads=row.num_v_heads,
        head_dim=128,
        k=128,
    )


def stream_operator(row: pd.Series) -> Operator:
    return Operator(
        kind="elementwise", name="quantise", read_bytes=2.0 * row.m * row.k, write_bytes=1.0 * row.m * row.k
    )


def message_operator(row: pd.Series) -> Operator:
    dtype = getattr(row, "nccl_dtype", None) or getattr(row, "oneccl_dtype", None) or "bfloat16"
    kind = {"alltoall": "all_to_all"}.get(row.op_name, row.op_name)
    width = {"int8": 1, "half": 2, "float": 4}.get(dtype, 2)
    return Operator(kind=kind, name="collective", message_bytes=float(row.message_size * width), ranks=row.num_gpus)


class Tested(NamedTuple):
    """How the predictions of one kind of table are tried."""

    operator: Callable[[Any], Operator | tuple[Operator, ...]]
    """What a row of it timed."""
    held: tuple[str, ...]
    """Columns whose values class its shapes."""
    kinds: tuple[str, ...]
    """Operator kinds that it speaks for."""


TESTED = {
    "gemm": Tested(gemm_operator, ("n", "k"), ("gemm",)),
    "context_attention": Tested(prefill_operator, ("num_heads", "isl"), ("attention_prefill",)),
    "generation_attention": Tested(decode_operator, ("num_heads", "step"), ("attention_decode",)),
    "context_mla": Tested(mla_prefill_operator, ("isl",), ("mla_prefill",)),
    "generation_mla": Tested(mla_decode_operator, ("step",), ("mla_decode",)),
    "moe": Tested(moe_operators, ("hidden_size", "inter_size", "topk"), ("grouped_gemm",)),
    "gdn": Tested(state_operator, ("batch_size", "seq_len"), ("state_space",)),
    "scale_matrix": Tested(stream_operator, ("k",), ("elementwise", "embedding")),
    "custom_allreduce": Tested(message_operator, ("message_size",), ("all_reduce",)),
    "nccl": Tested(
        message_operator, ("message_size",), ("all_gather", "reduce_scatter", "all_to_all", "point_to_point")
    ),
    "oneccl": Tested(message_operator, ("message_size",), ()),
}


def sources(root: Path, system: str, family: str) -> list[tuple[str, pd.DataFrame]]:
    """Every table of one family (`library`: the vendor's collectives)."""
    wanted = [(operation, family, name) for operation, name, _ in TABLES] + [("comm", family, "custom_allreduce")]
    if family == "library":
        wanted = [("comm", "nccl", "nccl"), ("comm", "oneccl", "oneccl")]
    found = []
    for operation, engine, name in wanted:
        if (engine, name) == ("sglang", "scale_matrix"):  # 8 us at any size: the host's pace, never predicted with
            continue
        table = newest(root, system, operation, engine, name)
        if table is not None:
            found.append((name, scored(name, table[1])))
    return found


def scored(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """Rows that an operator can express."""
    if name == "gemm":  # formats timed at the host's pace are left out of the grids, and of the score
        least = table.groupby("gemm_dtype")["latency"].transform(lambda t: t.quantile(0.002))
        return table[least < grids.HOST_BOUND_S * 1e3]
    if name == "context_attention":
        return grids.of_one_kernel(table, grids.PREFILL_FORMATS)
    if name == "generation_attention":
        return grids.of_one_kernel(table, grids.DECODE_FORMATS)
    if name == "moe":
        table = table[(table["distribution"] == "balanced") & (table["moe_ep_size"] <= 8)]
        common = table.groupby("moe_dtype")["kernel_source"].transform(lambda names: names.value_counts().index[0])
        return table[table["kernel_source"] == common]
    if name == "gdn":  # a prompt of up to four tokens is, to an operator, a draft being verified
        short = (table["phase"] == "context") & (table["seq_len"] <= 4)
        return table[~table["kernel_source"].str.contains("conv") & ~short]
    if name == "custom_allreduce" and "kernel_source" in table:
        return table[~table["kernel_source"].str.contains("eager")]
    return table


def third(table: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """Every third class of shapes: the ranks of the columns' values add up to 1 modulo 3; edges are kept."""
    rank = sum((table[column].rank(method="dense") for column in columns), start=pd.Series(0.0, table.index))
    inner = pd.Series(True, table.index)
    for column in columns:
        inner &= table[column].between(table[column].min(), table[column].max(), inclusive="neither")
    return (rank % 3 == 1) & inner


def score(name: str, rows: pd.DataFrame, ladder: Ladder, accelerator: Accelerator) -> pd.DataFrame:
    """Log ratios measured / predicted of a sample, with the rung they rest on."""
    rows = rows if len(rows) <= SAMPLE else rows.sample(SAMPLE, random_state=7)
    ratios, rungs = [], []
    for row in rows.itertuples():
        made = TESTED[name].operator(row)
        total, rung = 0.0, "own"
        for op in made if isinstance(made, tuple) else (made,):
            seconds, rung, _ = operator_s(op, accelerator=accelerator, ladder=ladder)
            total += seconds
        ratios.append(np.log(row.latency / 1e3 / total))
        rungs.append(rung)
    return pd.DataFrame({"ratio": ratios, "rung": rungs}, index=rows.index)


Split = Callable[[str, pd.DataFrame, Accelerator, str], tuple[pd.DataFrame, Ladder]]
"""From a table by its name, of one accelerator and family, the rows to predict and what they are predicted from."""


def errors(root: Path, systems: Iterable[str], split: Split) -> pd.DataFrame:
    """Of every table of some systems."""
    found = []
    for system in systems:
        accelerator = catalog.accelerator(SYSTEMS[system])
        for family in (*FAMILIES, "library"):
            for name, table in sources(root, system, family):
                part = score(name, *split(name, table, accelerator, family), accelerator)
                found.append(part.assign(table=name, system=system))
    return pd.concat(found)


def left_shapes(name: str, table: pd.DataFrame, accelerator: Accelerator, _: str) -> tuple[pd.DataFrame, Ladder]:
    """A third of the shapes, from grids of the others."""
    left = third(table, TESTED[name].held)
    build = next((build for _, each, build in TABLES if each == name), grids.collectives)
    return table[left], Ladder(grids=grids.grids_of(build, table[~left], accelerator, source=name))


def by_kin(name: str, table: pd.DataFrame, accelerator: Accelerator, family: str) -> tuple[pd.DataFrame, Ladder]:
    """Every row, from the grids that are to be seen."""
    return table, efficiency.ladder(accelerator, family=family)


def by_curve(name: str, table: pd.DataFrame, accelerator: Accelerator, _: str) -> tuple[pd.DataFrame, Ladder]:
    """Every row, from the curve without any grid."""
    return table, Ladder(multiprocessors=efficiency.ladder(accelerator).multiprocessors)


def left_accelerators(root: Path, systems: list[str]) -> pd.DataFrame:
    """Errors on accelerators whose own grids are hidden."""
    everything, found = efficiency.grids_by_accelerator(), []
    for system in systems:
        hidden = {name: families for name, families in everything.items() if name != SYSTEMS[system]}
        with patch.object(efficiency, "grids_by_accelerator", lambda hidden=hidden: hidden):
            forget()
            found.append(errors(root, [system], by_kin))
    forget()
    return pd.concat(found)


def forget() -> None:
    """Look again which accelerators have grids."""
    efficiency._read_measured.cache_clear()
    efficiency._grids.cache_clear()


def report(found: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Median and 90 % quantile of the absolute error and the median ratio."""
    error = np.abs(np.expm1(-found["ratio"]))
    return (
        found.assign(error=error)
        .groupby(by)
        .agg(
            rows=("error", "size"),
            median=("error", "median"),
            p90=("error", lambda e: e.quantile(0.9)),
            bias=("ratio", lambda r: float(np.expm1(-r.median()))),
            q90=("ratio", lambda r: r.abs().quantile(0.9)),
        )
    )


def spread(parts: dict[str, pd.DataFrame]) -> dict[str, dict[str, float]]:
    """90 % quantile of the absolute log ratio by operator kind and rung."""
    found: dict[str, dict[str, float]] = {}
    for rung, errors in parts.items():
        for table, rows in errors.groupby("table"):
            for kind in TESTED[str(table)].kinds:
                found.setdefault(kind, {})[rung] = round(float(rows["ratio"].abs().quantile(0.9)), 3)
    return found


def main(arguments: list[str]) -> None:
    """Print three tables."""
    root = Path(arguments[0])
    systems = [a for a in arguments[1:] if not a.startswith("--")] or list(SYSTEMS)
    own, left = errors(root, systems, left_shapes), left_accelerators(root, systems)
    curve = errors(root, systems, by_curve)
    for title, table in (
        ("left-out shapes", report(own, ["table"])),
        ("left-out accelerators", report(left, ["table", "rung"])),
        ("left-out accelerators, all tables", report(left, ["system", "rung"])),
        ("generic curve", report(curve, ["table"])),
    ):
        print(f"{title}\n{table.round(3).to_string()}\n")
    if "--write" in arguments:
        parts = {"own": own, "generic": curve}
        parts |= {rung: left[left["rung"] == rung] for rung in ("architecture", "generation")}
        efficiency.FOLDER.joinpath("spread.json").write_bytes(
            msgspec.json.format(msgspec.json.encode(spread(parts), order="sorted"), indent=2) + b"\n"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
