"""Many small answers at once, cases predicted and points of a sweep: a line each, and what was refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final, NamedTuple

from tonnage.catalog import model_name, part_name, parts_name, product
from tonnage.domain.answer import BREAKDOWN_SCHEMA, Breakdown, Quantity, doubt
from tonnage.domain.case import Case, InferCase, Latency, Result, ServeResult, TrainCase, TrainResult
from tonnage.domain.metrics import METRICS, OBJECTIVES, Metric
from tonnage.domain.published import Near
from tonnage.domain.rl import RlCase, RlResult
from tonnage.engines.registry import engine_release
from tonnage.questions.explain.page import breakdown_document
from tonnage.report.document import (
    Block,
    Contents,
    Document,
    Headline,
    Meter,
    Meters,
    Note,
    Section,
    Table,
    blocks,
    grid,
    sections,
)
from tonnage.report.measured import HINT, with_measured
from tonnage.report.wording import plural, span
from tonnage.units import show

ROWS: Final = 12
"""Cases or points of a first screen."""
RANGES: Final = 3
"""Columns of a sweep whose range a first screen states."""
MOST_NOTES: Final = 2
MOST_NEAR: Final = 3
"""Published results of a first screen; the rest stands under why."""
MLPERF: Final = "mlcommons/"
UNVERIFIED: Final = "MLPerf: figures derived from results, and predictions beside them, are not verified by MLCommons."
"""What its rules ask of whoever shows other figures beside its results."""
NEAR_NUMBERS: Final = {
    **{f"{metric.name.removesuffix('_s')}_ms": (metric.title, " ms") for metric in OBJECTIVES},
    "output_tokens_per_s": ("output", " tokens/s"), "step_time_s": ("step", " s"), "samples_per_s": ("", " samples/s"),
    "tokens_per_s_per_accel": ("", " tokens/s each"), "peak_mem_gb": ("peak memory", " GB"),
}  # fmt: skip
"""Measured number of a published result -> what it is called, and its unit."""


SPARE: Final = (0, 4, 7, 8, 10, 11)
"""How soon the numbers of a line give way, in their order."""


class Predicted(NamedTuple):
    """A case with what was predicted of it."""

    case: Case
    result: Result
    near: tuple[Near, ...] = ()
    """Published results near the case, where they were asked for."""


def predictions_document(found: Sequence[Predicted | str], *, every: bool = False) -> Document:
    """
    Predictions as blocks: one with its numbers, several with a line each; under why the parts that are kept.

    In place of a prediction stands why there is none.
    """
    answered = [one for one in found if isinstance(one, Predicted)]
    refused = [f"case {place}: {one}" for place, one in enumerate(found, 1) if isinstance(one, str)]
    first = _single(answered[0]) if len(found) == 1 and answered else _several(found, refused, every=every)
    rest = "All that is known, as JSON: --json. Parts of each number: --why, or tonnage explain."
    why: list[Contents] = [sections({"Refused": refused})]
    if len(found) > 1:
        why += [_published_sections(one, of=_case(one.case)) for one in answered]
        rest = f"Published results near each case: --why. {rest}" if any(one.near for one in answered) else rest
    elif answered:
        first = (*first, *_published_sections(answered[0], most=MOST_NEAR))
        why += [_published_sections(answered[0])] if len(answered[0].near) > MOST_NEAR else []
    why += map(_open_prediction, answered)
    document = Document((*first, Note(hint=rest)), blocks(*why))
    uses = {use: None for one in answered for use in getattr(one.result, "calibrations", ())}
    return with_measured(document, None, uses=tuple(uses))


def prediction_document(result: Result, *, case: Case) -> Document:
    """One prediction as blocks."""
    return predictions_document([Predicted(case, result)])


def _single(one: Predicted) -> tuple[Block, ...]:
    """One prediction: the verdict, its numbers with intervals, and what they rest on."""
    result = one.result
    head = Headline("fits" if result.fits else f"does not fit: {result.why}", good=result.fits)
    meters = [
        Meter(name, _amount(value, unit), interval=_between(found, unit))
        for name, unit, value, found in _numbers(result)
    ]
    level = " ".join(part for part in result.level.split(":") if part != result.basis)
    told = f"Basis: {result.basis}{f' ({level})' if level else ''}."
    shown = Meters(tuple(meters)) if meters else None
    return blocks(_case(one.case), head, shown, told, _assumed(result), result.notes[:MOST_NOTES])


def _assumed(result: Result) -> tuple[str, ...]:
    """Each setting that the case leaves open, and the numbers under its other value."""
    return tuple(
        f"Assumed: {one.setting} {one.taken}; with {one.other}: "
        + ", ".join(
            f"{METRICS[name].title} {_amount(value, METRICS[name].unit)}" for name, value in one.numbers.items()
        )
        for one in getattr(result, "assumed", ())
    )


def _published_sections(one: Predicted, *, of: str = "this case", most: int | None = None) -> tuple[Section, ...]:
    """Published results near a case, the nearest first: what was measured, what is not as asked, and the source."""
    shown = one.near[:most]
    mark = (UNVERIFIED,) if any(near.result.source.startswith(MLPERF) for near in shown) else ()
    return sections({f"Published near {of}": (*map(near_text, shown), *mark)})


def near_text(near: Near) -> str:
    """A published result: what was measured, what is not as asked, and its source."""
    found = near.result
    numbers = numbers_text(found.measured)
    parts = f"{model_name(found.model)}, {parts_name(found.count, found.accelerator)}"
    return f"{parts}: {numbers or 'memory alone'}; differs in {', '.join(near.differs) or 'nothing'} ({found.source})"


def numbers_text(numbers: Mapping[str, float]) -> str:
    """Numbers of a published result by their names, in words; empty where none of them is a speed."""
    return ", ".join(
        f"{name} {_amount(value, '')}{unit}".strip()
        for field, (name, unit) in NEAR_NUMBERS.items()
        if (value := numbers.get(field)) is not None
    )


def _several(found: Sequence[Predicted | str], refused: Sequence[str], *, every: bool) -> tuple[Block, ...]:
    """
    Predictions in tables by kind of case, the first `ROWS` unless `every`; then the first few of the cases refused.
    """
    fitting = sum(isinstance(one, Predicted) and one.result.fits for one in found)
    counts = f"{plural(len(found), 'case')}: {fitting} fit, {len(found) - fitting - len(refused)} do not"
    shown = found if every else found[:ROWS]
    left = len(found) - len(shown)
    return blocks(
        Headline(counts + (f", {len(refused)} refused." if refused else "."), good=not refused),
        _tables([one for one in shown if isinstance(one, Predicted)]),
        refused[:MOST_NOTES],
        Note(hint=f"{plural(left, 'more case')}: --all.") if left else None,
    )


def _tables(found: Sequence[Predicted]) -> Iterator[Table]:
    """
    A table for each kind of case, in the order in which kinds come; columns are the numbers that some of them have.
    """
    for kind in dict.fromkeys(type(one.case) for one in found):
        rows = [(one, _cells(one.result)) for one in found if type(one.case) is kind]
        names = [name for name in map(_named, METRICS.values()) if any(name in cells for _, cells in rows)]
        numbers = (f"{name}>{spare}" for name, spare in zip(names, chain(SPARE, repeat(SPARE[-1])), strict=False))
        yield grid(
            ("case~", "accelerators~", "software<9", "load<6", *numbers, "basis<3"),
            [
                (
                    one.case.id or model,
                    *what,
                    *(cells.get(name, "") for name in names),
                    one.result.basis if one.result.fits else "does not fit",
                )
                for one, cells in rows
                for model, *what in (_describe_case(one.case, brief=True),)
            ],
        )


def _cells(result: Result) -> dict[str, str]:
    """Name of a number -> the number with its interval."""
    return {
        name: " ".join(filter(None, (_amount(value, unit), f"({between})" if between else "")))
        for name, unit, value, found in _numbers(result)
        for between in (_between(found, unit),)
    }


def _numbers(result: Result) -> Iterator[tuple[str, str, float, Quantity | Latency]]:
    """Name, unit, value and what bounds it."""
    for metric in METRICS.values():
        value = getattr(result, metric.name, None)
        if isinstance(value, Quantity):
            yield _named(metric), metric.unit, value.value, value
        elif isinstance(value, Latency) and metric.name != "itl_s":
            yield _named(metric), metric.unit, value.mean, value


def _named(metric: Metric) -> str:
    """A metric with its statistic: latencies of requests are means here, where plans have percentiles."""
    return f"mean {metric.title}" if metric in OBJECTIVES else metric.title


def _between(found: Quantity | Latency, unit: str) -> str:
    """The interval in words; empty where there is none."""
    low, high = found.low, found.high
    if low is None or high is None:
        return ""
    said = (
        span(low, high, unit=unit) if unit else f"{low:,.3g}-{high:,.3g}" if high < 1e3 else f"{low:,.0f}-{high:,.0f}"
    )
    return said + doubt(found.certified)


def _amount(value: float, unit: str) -> str:
    return show(value, unit) if unit else f"{value:,.3g}" if value < 1e3 else f"{value:,.0f}"


Asked = tuple[str, str, str, str]
"""A case in words: model, accelerators, software, load."""


def _describe_case(case: Case | RlCase, *, brief: bool = False) -> Asked:
    """A case in words: model, accelerators, software, load."""
    model = model_name(case.model) if isinstance(case.model, str) else str(getattr(case.model, "id", "own model"))
    part = part_name(case.accelerator) if brief else product(case.accelerator)
    if isinstance(case, RlCase):
        responses = f"{case.prompts_per_step} x {case.responses_per_prompt} responses of {case.response_tokens:,.0f}"
        split = f" ({case.rollout_count} for rollout)" if case.rollout_count else ""
        return (model, f"{case.count} x {part}{split}", case.framework or "", f"{case.algorithm}, {responses}")
    if isinstance(case, InferCase):
        return (model, f"{case.count} x {part}", case.engine, f"batch {case.batch}")
    if isinstance(case, TrainCase):
        batch = f"batch {case.global_batch}" if case.global_batch else ""
        return (model, f"{case.count} x {part}", case.framework or "", " ".join((case.method, batch)).strip())
    t, layout = case.traffic, case.layout
    degrees = " ".join(layout.degrees()).upper()
    load = (
        "saturated"
        if t.saturated
        else f"{t.concurrency:g} clients"
        if t.concurrency is not None
        else f"{t.rate_per_s:g} req/s"
        if t.rate_per_s is not None
        else f"the trace {t.trace}"
        if t.trace is not None
        else f"{'batch' if t.static else 'burst'} of {t.batch}"
    )
    where = f"{layout.ranks * case.replicas} x {part} {degrees}".strip()
    return (model, where, engine_release(case.engine), f"{load}, {case.isl:g} in / {case.osl:g} out")


def _case(case: Case) -> str:
    """What is predicted, in a line."""
    return " · ".join(filter(None, (case.id or "", *_describe_case(case))))


def _open_prediction(one: Predicted) -> tuple[Block, ...]:
    """Notes and parts of one prediction."""
    result, case = one.result, one.case
    numbers = result.opened if isinstance(result, ServeResult | TrainResult | RlResult) else ()
    if not numbers:
        return sections({_case(case): result.notes})
    kind = "serve" if isinstance(result, ServeResult) else "train"
    opened = Breakdown(schema=BREAKDOWN_SCHEMA, kind=kind, label=_case(case), numbers=numbers, notes=result.notes)  # type: ignore[arg-type]
    return breakdown_document(opened).blocks


def sweep_document(
    rows: Sequence[dict[str, Any]], *, ask: str, varied: Sequence[str], new: int, file: str, every: bool = False
) -> Document:
    """
    The table of a sweep as blocks.

    Parameters
    ----------
    rows : sequence of dict
        One a point, in the grid's order: what was varied, then what was taken, or `error`.
    ask : str
        What was asked of each point.
    varied : sequence of str
        Names of the grid.
    new : int
        Points that were asked now.
    file : str
        Where the answers are kept.
    """
    wrong = [row for row in rows if "error" in row]
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name != "error"]
    shown = rows if every else rows[:ROWS]
    number = {name: all(isinstance(row.get(name), int | float | None) for row in rows) for name in names}
    heads = [
        f"{name.replace('_', ' ')}{'>' if number[name] else '~'}{0 if name in varied else place}"
        for place, name in enumerate(names, 1)
    ]
    cells = [[_value(row.get(name)) for name in names] for row in shown]
    ranges = [_range(name, rows) for name in names if name not in varied and number[name]]
    left = len(rows) - len(shown)
    more = f"{plural(left, 'more point')}: --all. " if left else ""
    head = f"{plural(len(rows), 'point')} of {ask}: {len(rows) - len(wrong):,} answered, {len(wrong):,} refused"
    moved = sum("calibrations" in row for row in rows)
    first = blocks(
        Headline(f"{head}; {new:,} asked now, the rest known before.", good=not wrong),
        grid(heads, cells),
        [*filter(None, ranges)][:RANGES],
        f"Your measurements moved {moved:,} of {plural(len(rows), 'point')} (column calibrations). {HINT}"
        if moved
        else None,
        (f"Refused: {text}" for text in list(dict.fromkeys(row["error"] for row in wrong))[:MOST_NOTES]),
        Note(hint=f"{more}As a table: -o grid.csv, .jsonl or .parquet, or piped. Answers are kept in {file}."),
    )
    return Document(first)


def _value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _range(name: str, rows: Sequence[dict[str, Any]]) -> str:
    """Least and largest of a column in words; empty where all are the same or none is a number."""
    known = [row[name] for row in rows if isinstance(row.get(name), int | float)]
    if not known or min(known) == max(known):
        return ""
    return f"{name.replace('_', ' ')}: from {_value(float(min(known)))} to {_value(float(max(known)))}."
