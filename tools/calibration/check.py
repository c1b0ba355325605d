"""How far predictions are from measured kernels: shapes left out, accelerators left out.

    python tools/calibration/check.py PACKAGE_FOLDER [--write] [SYSTEM ...]

Left-out shapes: every third class of shapes (columns of HELD) is removed before the grids are built and
predicted from the rest. Left-out accelerators: each system's own files are hidden and its rows are
predicted from its kin. Generic: the curve alone. Rows become `Operator`s and go through `operator_s`, as
in a prediction. --write stores the 90 % quantiles of |log(measured / predicted)| as spread.json.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import grids
import msgspec
import numpy as np
import pandas as pd
from build import TABLES
from tables import FAMILIES, FORMATS, SYSTEMS, newest

from tonnage import catalog
from tonnage.catalog import efficiency
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.efficiency import Grid, Ladder
from tonnage.domain.precision import number_format
from tonnage.physics.operators import operator_s
from tonnage.physics.work import Operator

SAMPLE = 1200
"""Rows scored of each table; drawn with a fixed seed."""

HELD = {
    "gemm": ["n", "k"],
    "context_attention": ["num_heads", "isl"],
    "generation_attention": ["num_heads", "step"],
    "context_mla": ["isl"],
    "generation_mla": ["step"],
    "moe": ["hidden_size", "inter_size", "topk"],
    "gdn": ["batch_size", "seq_len"],
    "scale_matrix": ["k"],
    "custom_allreduce": ["message_size"],
    "nccl": ["message_size"],
    "oneccl": ["message_size"],
}


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


OPERATORS: dict[str, Callable[[pd.Series], Operator | tuple[Operator, ...]]] = {
    "gemm": gemm_operator,
    "context_attention": prefill_operator,
    "generation_attention": decode_operator,
    "context_mla": mla_prefill_operator,
    "generation_mla": mla_decode_operator,
    "moe": moe_operators,
    "gdn": state_operator,
    "scale_matrix": stream_operator,
    "custom_allreduce": message_operator,
    "nccl": message_operator,
    "oneccl": message_operator,
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


def third(table: pd.DataFrame, columns: list[str]) -> pd.Series:
    """Every third class of shapes: the ranks of the columns' values add up to 1 modulo 3; edges are kept."""
    rank = sum((table[column].rank(method="dense") for column in columns), start=pd.Series(0.0, table.index))
    inner = pd.Series(True, table.index)
    for column in columns:
        inner &= table[column].between(table[column].min(), table[column].max(), inclusive="neither")
    return (rank % 3 == 1) & inner


def score(name: str, rows: pd.DataFrame, accelerator: Accelerator, ladder: Ladder) -> pd.DataFrame:
    """Log ratios measured / predicted of a sample, with the rung they rest on."""
    rows = rows if len(rows) <= SAMPLE else rows.sample(SAMPLE, random_state=7)
    ratios, rungs = [], []
    for row in rows.itertuples():
        made = OPERATORS[name](row)  # type: ignore[arg-type]
        total, rung = 0.0, "own"
        for op in made if isinstance(made, tuple) else (made,):
            seconds, rung, _ = operator_s(op, accelerator=accelerator, ladder=ladder)
            total += seconds
        ratios.append(np.log(row.latency / 1e3 / total))
        rungs.append(rung)
    return pd.DataFrame({"ratio": ratios, "rung": rungs}, index=rows.index)


def built(name: str, table: pd.DataFrame, accelerator: Accelerator) -> dict[str, Grid]:
    """Grids of one table."""
    if name in {"custom_allreduce", "nccl", "oneccl"}:
        return grids.collectives(table, accelerator, name)
    build = next(build for _, each, build in TABLES if each == name)
    return build(table, accelerator, name)


def shapes(root: Path, systems: list[str]) -> pd.DataFrame:
    """Errors on left-out shapes."""
    found = []
    for system in systems:
        accelerator = catalog.accelerator(SYSTEMS[system])
        for family in (*FAMILIES, "library"):
            for name, table in sources(root, system, family):
                left = third(table, HELD[name])
                own = built(name, table[~left], accelerator)
                part = score(name, table[left], accelerator, Ladder(grids=own))
                found.append(part.assign(table=name, system=system, family=family, left=True))
    return pd.concat(found)


def left_accelerators(root: Path, systems: list[str]) -> pd.DataFrame:
    """Errors on accelerators whose own grids are hidden."""
    found = []
    everything = dict(efficiency.grids_by_accelerator())
    for system in systems:
        accelerator = catalog.accelerator(SYSTEMS[system])
        hidden = {name: families for name, families in everything.items() if name != accelerator.id}
        efficiency._grids.cache_clear()
        efficiency._read_measured.cache_clear()
        efficiency.grids_by_accelerator = lambda hidden=hidden: hidden  # type: ignore[assignment]
        for family in (*FAMILIES, "library"):
            ladder = efficiency.ladder(accelerator, family=family)
            for name, table in sources(root, system, family):
                part = score(name, table, accelerator, ladder)
                found.append(part.assign(table=name, system=system, family=family))
    efficiency.grids_by_accelerator = lambda: everything  # type: ignore[assignment]
    efficiency._read_measured.cache_clear()
    efficiency._grids.cache_clear()
    return pd.concat(found)


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


def generic(root: Path, systems: list[str]) -> pd.DataFrame:
    """Errors of the curve without any grid."""
    found = []
    for system in systems:
        accelerator = catalog.accelerator(SYSTEMS[system])
        bare = Ladder(multiprocessors=efficiency.ladder(accelerator).multiprocessors)
        for family in (*FAMILIES, "library"):
            for name, table in sources(root, system, family):
                found.append(score(name, table, accelerator, bare).assign(table=name, system=system, family=family))
    return pd.concat(found)


KINDS = {
    "gemm": ["gemm"],
    "context_attention": ["attention_prefill"],
    "generation_attention": ["attention_decode"],
    "context_mla": ["mla_prefill"],
    "generation_mla": ["mla_decode"],
    "moe": ["grouped_gemm"],
    "gdn": ["state_space"],
    "scale_matrix": ["elementwise", "embedding"],
    "custom_allreduce": ["all_reduce"],
    "nccl": ["all_gather", "reduce_scatter", "all_to_all", "point_to_point"],
}
"""Operator kinds that each table speaks for."""


def spread(parts: dict[str, pd.DataFrame]) -> dict[str, dict[str, float]]:
    """90 % quantile of the absolute log ratio by operator kind and rung."""
    found: dict[str, dict[str, float]] = {}
    for rung, errors in parts.items():
        for table, rows in errors.groupby("table"):
            for kind in KINDS.get(str(table), []):
                found.setdefault(kind, {})[rung] = round(float(rows["ratio"].abs().quantile(0.9)), 3)
    return found


def main(arguments: list[str]) -> None:
    """Print three tables."""
    root = Path(arguments[0])
    systems = [a for a in arguments[1:] if not a.startswith("--")] or list(SYSTEMS)
    own, left, curve = shapes(root, systems), left_accelerators(root, systems), generic(root, systems)
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
