"""
Plan every published training run, and every full server, with its layout withheld; compare its speed with what was
published.

    python -m tools.known      two minutes -> docs/known/planned-runs.csv, and a table by source in docs/known.md

*Training.* Of each source, model, accelerator, method and format the run on the most accelerators is taken, the fastest
where there are several: rows that state a layout, a sequence length and a rate, on eight accelerators or more, of a
model that the catalogue holds, but for masked models and batches grouped by length, of which a plan is not told. A plan
is told what its row says of the model, accelerators and their number, batch, length, format, software and optimizer;
degrees, sharding, recomputation and micro-batches it finds by itself, at even chances, as the run that was published is
the one that worked. With accelerators and their number given the cheapest option is the fastest, so that its time and
cost are to those of the published run as the inverse of their speeds.

*Serving.* Of each source, model, accelerator and format the server whose accelerators each give most, of those that
always have requests waiting and search no beams: a batch of such items is planned on that part, format and engine, of
today's release. Layout, and the format of the cache, it finds by itself; how alike lengths are it is not told.

Two ratios: the plan's speed over the published one, and over what `predict` says of the published layout; below 0.9
there, the search missed what prediction knows, or the row has a setting that a plan is not asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import tonnage
from tonnage.domain.case import ServeCase, ServeResult, TrainCase, TrainResult
from tonnage.errors import TonnageError
from tonnage.questions.predict.predict import predict
from tonnage_accuracy.cases import case_of, kind_of
from tonnage_accuracy.grouping import group_by
from tonnage_accuracy.quantities import measured_numbers
from tonnage_accuracy.rows import Row, number, text, usable_rows
from tonnage_accuracy.tables import read_checked, write_table

ROOT: Final = Path(__file__).parents[2]
TABLE: Final = ROOT / "docs" / "known" / "planned-runs.csv"
RATE: Final = "tokens_per_s_per_accel"
FEWEST: Final = 8
"""Accelerators of a run that is asked about."""
STEPS: Final = 2000
"""Optimizer steps that a plan is asked for: enough for their time to be that of the run."""
ITEMS: Final = 10_000_000
"""Of a batch that is asked for in a full server's place: starts are nothing beside them."""
COLUMNS: Final = (
    "row", "source", "model", "accelerator", "count", "method", "precision", "published", "planned", "low", "high",
    "predicted", "layout",
)  # fmt: skip


class Planned(NamedTuple):
    """A published run beside its plan, in tokens per second of one accelerator: trained, or answered."""

    row: Row
    accelerator: str
    count: int
    method: str
    precision: str
    published: float
    planned: float
    low: float
    high: float
    predicted: float
    """Of the published layout."""
    layout: str

    @property
    def inside(self) -> bool:
        """Whether the published speed lies in the plan's interval."""
        return self.low <= self.published <= self.high


def published_runs() -> list[tuple[Row, TrainCase, float]]:
    """The runs that are asked about, each with its case and its published rate."""
    found: dict[tuple[str, ...], tuple[tuple[int, float], Row, TrainCase]] = {}
    for row in usable_rows(ROOT):
        if kind_of(row) != "train" or not text(row, "model_id") or (number(row, "num_accel") or 0) < FEWEST:
            continue
        rate = next((cell.value for cell in measured_numbers(row) if cell.quantity == RATE), None)
        try:
            case = case_of(row)
        except TonnageError:
            continue
        assert isinstance(case, TrainCase)
        stated = case.layout != type(case.layout)() and case.seq_len and (case.global_batch or case.micro_batch)
        if rate is None or not stated or case.predicted_share < 1.0 or case.mean_seq_len:
            continue
        key = (row.block, text(row, "model_id"), str(case.accelerator), case.method, case.precision)
        best = (case.count, rate)
        if key not in found or best > found[key][0]:
            found[key] = best, row, case
    return [(row, case, best[1]) for _, (best, row, case) in sorted(found.items())]


def question(row: Row, case: TrainCase) -> tuple[str, dict[str, Any]]:
    """The kind of plan and its fields: what the row says of its run, but for how it was laid out."""
    batch = case.global_batch or (case.micro_batch or 1) * case.count
    tokens = batch * (case.seq_len or 0) * STEPS
    fields = {
        "model": text(row, "model_id"),
        "accelerator": case.accelerator,
        "count": case.count,
        "seq_len": case.seq_len,
        "global_batch": batch,
        "precision": case.precision,
        "framework": case.framework,
        "optimizer": case.optimizer,
        "extend_context": True,
        "confidence": 0.5,
    }
    if case.method == "pretrain":
        return "train", fields | {"tokens": tokens}
    # Documents that attention stays within are what examples are packed from.
    each = round(case.document_len or case.seq_len or 0)
    fields |= {"method": case.method, "examples": tokens // each, "tokens_per_example": each}
    return "finetune", fields


def planned(row: Row, case: TrainCase, published: float) -> Planned | str:
    """The run beside its plan, or why there is none."""
    kind, fields = question(row, case)
    try:
        plan = getattr(tonnage, f"plan_{kind}")(**{name: str(value) for name, value in fields.items() if value})
        result = predict(case)
    except TonnageError as error:
        return str(error)
    if not plan.options:
        return str(plan.sentence)
    assert isinstance(result, TrainResult) and result.tokens_per_s_per_accelerator is not None
    predicted = result.tokens_per_s_per_accelerator
    first = plan.options[0]
    said = first.tokens_per_s_per_accelerator
    label = first.configuration.label()
    about = str(case.accelerator), case.count, case.method, case.precision
    return Planned(row, *about, published, said.value, said.low, said.high, predicted.value, label)


def published_servers() -> list[tuple[Row, ServeCase, float]]:
    """The servers that are asked about, each with its case and its published rate of one accelerator."""
    found: dict[tuple[str, ...], tuple[Row, ServeCase, float]] = {}
    for row in usable_rows(ROOT):
        if kind_of(row) != "serve" or not text(row, "model_id"):
            continue
        rate = next((cell.value for cell in measured_numbers(row) if cell.quantity == "output_tokens_per_s"), None)
        try:
            case = case_of(row)
        except TonnageError:
            continue
        if rate is None or not isinstance(case, ServeCase) or not case.traffic.saturated or case.beams > 1:
            continue
        key = (row.block, text(row, "model_id"), str(case.accelerator), _format_of(case))
        each = rate / case.layout.ranks / case.replicas
        if key not in found or each > found[key][2]:
            found[key] = row, case, each
    return [one for _, one in sorted(found.items())]


def _format_of(case: ServeCase) -> str:
    return case.precision if isinstance(case.precision, str) else case.precision.experts or case.precision.weights


def planned_server(row: Row, case: ServeCase, published: float) -> Planned | str:
    """The server beside a plan of its items, or why there is none."""
    fields = {
        "model": text(row, "model_id"),
        "accelerator": case.accelerator,
        "engine": case.engine,
        "precision": _format_of(case),
        "prompt_tokens": case.isl,
        "output_tokens": case.osl,
        "items": ITEMS,
        "confidence": 0.5,
    }
    try:
        plan = tonnage.plan_batch(**{name: str(value) for name, value in fields.items()})
        result = predict(case)
    except TonnageError as error:
        return str(error)
    if not plan.options:
        return str(plan.sentence)
    assert isinstance(result, ServeResult) and result.output_tokens_per_s is not None
    first, count = plan.options[0], case.layout.ranks * case.replicas
    said = first.items_per_s
    planned, low, high = (each * case.osl / first.configuration.ranks for each in (said.value, said.low, said.high))
    about = str(case.accelerator), count, "serve", _format_of(case)
    label = first.configuration.label()
    return Planned(row, *about, published, planned, low, high, result.output_tokens_per_s.value / count, label)


def lines(found: Iterable[Planned]) -> Iterator[Sequence[str]]:
    """The table, a run a line."""
    yield COLUMNS
    for one in found:
        numbers = one.published, one.planned, one.low, one.high, one.predicted
        yield (
            one.row.id, one.row.block, text(one.row, "model_id"), one.accelerator, str(one.count), one.method,
            one.precision, *(f"{value:.4g}" for value in numbers), one.layout,
        )  # fmt: skip


def summary(found: Sequence[Planned]) -> list[str]:
    """A Markdown table: by source, then over all of them, runs alike and sources alike."""
    head = ("source", "runs", "off by", "bias", "inside", "as fast as predicted")
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    by_source = sorted(group_by(found, lambda one: one.row.block).items())
    named = read_checked(ROOT / "measurements" / "sources.csv", ("source", "name"))
    names = {line["source"]: line["name"] for line in named}
    lines += [_line(names[source], own, sum_of(own)) for source, own in by_source]
    lines.append(_line("all, runs alike", found, sum_of(found)))
    sums = [sum_of(own) for _, own in by_source]
    lines.append(_line("all, sources alike", found, [sum(cells) / len(sums) for cells in zip(*sums, strict=True)]))
    return lines


def sum_of(runs: Sequence[Planned]) -> tuple[float, ...]:
    """Median error and bias of the planned speeds, and shares: published inside, and at least 0.9 of predicted."""
    ratios = [one.planned / one.published for one in runs]
    fast = [one.planned >= 0.9 * one.predicted for one in runs]
    return (
        median(abs(ratio - 1.0) for ratio in ratios),
        median(ratios) - 1.0,
        sum(one.inside for one in runs) / len(runs),
        sum(fast) / len(runs),
    )


def _line(name: str, runs: Sequence[Planned], cells: Sequence[float]) -> str:
    error, bias, inside, fast = cells
    return f"| {name} | {len(runs)} | {error:.1%} | {bias:+.1%} | {inside:.0%} | {fast:.0%} |"


def planned_runs() -> list[Planned]:
    """All of them, the table written; what could not be planned is printed."""
    found = [(row, planned(row, case, rate)) for row, case, rate in published_runs()]
    found += [(row, planned_server(row, case, rate)) for row, case, rate in published_servers()]
    for row, one in found:
        if isinstance(one, str):
            print(f"{row.id}: {one}")
    runs = [one for _, one in found if isinstance(one, Planned)]
    write_table(TABLE, lines(runs))
    return runs
