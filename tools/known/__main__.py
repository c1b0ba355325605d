"""
Predict every known operating point and say which predictions lie outside its published range.

    python -m tools.known            writes docs/known.md and prints the points that are wrong, a minute

`points.toml` holds the points. One that names a `row` of measurements/ is that row: its load, its source, and the
value that it printed, taken within a factor (`within`), or a range and source of its own where the row is no usual run;
the others state case, range and source themselves. What lies outside is listed as wrong, whatever the reason, with its
`cause` where that is known; a point that cannot be predicted is wrong as well. `runs.py` plans published training runs
with their layout withheld, which the page lists by source.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from tools.known.runs import Planned, planned_runs, summary

from tonnage.domain.case import Case
from tonnage.errors import TonnageError
from tonnage.questions.predict.predict import predict
from tonnage_accuracy.cases import case_of
from tonnage_accuracy.quantities import Measured, measured_numbers, predicted_number
from tonnage_accuracy.rows import Row, read_rows, text

ROOT = Path(__file__).parents[2]
POINTS = Path(__file__).parent / "points.toml"
PAGE = ROOT / "docs" / "known.md"

SILICON = "ai-dynamo/aiconfigurator, silicon_sample.csv"
"""Source of the table that names none in its rows."""

PLANNED = {
    "training runs": (
        "Of each source, model, accelerator, method and format the run on the most accelerators, eight or more, asked",
        "of `plan` with its layout withheld: model, accelerators, batch, length, format, software. *Off by* is the",
        "median of how far the speed of the plan is from the published one (its time and cost are as far off),",
        "*inside* how often the published lies in the plan's interval, *as fast as predicted* how often the plan is at",
        "least 0.9 times as fast as the published layout is predicted to be. [Every run](known/planned-runs.csv).",
    ),
    "servers": (
        "Of each source, model, accelerator and format the full server whose accelerators each give most, asked of",
        "`plan batch` with layout and format of the cache withheld: model, part, lengths, format, engine. The release",
        "is today's, and lengths spread where those that were published are all alike.",
    ),
}
"""The heads of the tables of planned runs: what of, and how they were asked."""
UNITS = {
    "tpot_ms": "ms a token", "ttft_ms": "ms to the first token", "output_tokens_per_s": "output tokens/s",
    "total_tokens_per_s": "tokens/s",
    "samples_per_s": "samples/s", "tokens_per_s_per_accel": "tokens/s each",
    "samples_per_s_per_accel": "samples/s each",
    "step_time_s": "s a step", "tflops_per_accel": "TFLOP/s each", "peak_mem_gb": "GB at the peak", "e2e_ms": "ms",
}  # fmt: skip
"""How the page names a quantity's unit."""


class Point(NamedTuple):
    """One operating point: a case, what is asked of it, and the range it is known to lie in."""

    id: str
    kind: str
    """serving, training or local."""
    what: str
    case: Case
    wanted: Measured
    low: float
    high: float
    source: str
    cause: str = ""
    """Why the prediction lies outside, where that is known."""


class Answered(NamedTuple):
    """A point with its prediction; none where it cannot be predicted, and why."""

    point: Point
    value: float | None
    reason: str

    @property
    def right(self) -> bool:
        """Whether the prediction lies inside the range."""
        return self.value is not None and self.point.low <= self.value <= self.point.high


def points() -> Iterator[Point]:
    """Every point of the file."""
    for entry in tomllib.loads(POINTS.read_text())["point"]:
        yield _from_row(entry) if "row" in entry else _stated(entry)


def _from_row(entry: dict[str, Any]) -> Point:
    table, _, name = entry["row"].partition(":")
    row = _rows(table)[name]
    wanted = next(cell for cell in measured_numbers(row) if cell.quantity == entry["quantity"])
    if wanted.value is None:
        raise ValueError(f"{name} prints no {entry['quantity']}")
    within = float(entry.get("within", 1.0))
    source = f"{text(row, 'source') or SILICON} ({table})"
    known = {"id": name, "low": wanted.value / within, "high": wanted.value * within, "source": source}
    return _point(known | entry, case_of(row), wanted)


def _stated(entry: dict[str, Any]) -> Point:
    wanted = Measured(quantity=entry["quantity"], value=None, statistic="mean")
    return _point(entry, msgspec.convert(entry["case"], Case), wanted)


def _point(entry: dict[str, Any], case: Case, wanted: Measured) -> Point:
    return Point(
        id=entry["id"],
        kind=entry["kind"],
        what=entry["what"],
        case=case,
        wanted=wanted,
        low=float(entry["low"]),
        high=float(entry["high"]),
        source=entry["source"],
        cause=entry.get("cause", ""),
    )


@cache
def _rows(table: str) -> dict[str, Row]:
    return {row.id: row for row in read_rows(ROOT / "measurements" / f"{table}.csv.gz")}


def answered(point: Point) -> Answered:
    """The point with its prediction."""
    try:
        found = predicted_number(predict(point.case), point.wanted, case=point.case)
    except TonnageError as error:
        return Answered(point, None, str(error))
    return Answered(point, None, "not predicted") if found is None else Answered(point, found.value, "")


def page(found: Iterable[Answered], planned: Sequence[Planned] = ()) -> str:
    """The document: how many are right, those that are wrong, published runs as planned, then all points."""
    rows = list(found)
    wrong = [each for each in rows if not each.right]
    lines = [
        "# Operating points that everybody knows",
        "",
        "Generated by `python -m tools.known`; do not edit. Points that people of the field know by heart, or can look",
        "up in a minute: models on parts under engines, with the published source and a range around what it says.",
        "Each is predicted as a user's case would be. What lies outside its range is wrong, whatever the reason.",
        "",
        f"{len(rows) - len(wrong)} of {len(rows)} lie inside their range.",
        "",
        "## Wrong",
        "",
        *(_table(wrong) if wrong else ["None."]),
        "",
        *(f"- {each.point.what}: {each.point.cause}." for each in wrong if each.point.cause),
    ]
    for what, told in PLANNED.items():
        own = [one for one in planned if (one.method == "serve") is (what == "servers")]
        if own:
            lines += ["", f"## Published {what}, planned", "", *told, "", *summary(own)]
    for kind in ("serving", "training", "local"):
        lines += ["", f"## All of {kind}", "", *_table([each for each in rows if each.point.kind == kind])]
    return "\n".join(lines) + "\n"


def _table(rows: Iterable[Answered]) -> list[str]:
    head = ["| point | known range | predicted | | source |", "| --- | --- | --- | --- | --- |"]
    return head + [
        f"| {point.what} | {point.low:.4g} to {point.high:.4g} {UNITS[point.wanted.quantity]} |"
        f" {'-' if each.value is None else f'{each.value:.4g}'} | {_verdict(each)} | {point.source} |"
        for each in rows
        for point in (each.point,)
    ]


def _verdict(each: Answered) -> str:
    if each.right:
        return "inside"
    if each.value is None:
        return f"no answer: {each.reason}"
    edge = each.point.low if each.value < each.point.low else each.point.high
    return f"{'below' if each.value < each.point.low else 'above'}, {each.value / edge:.2f} of its end"


def main() -> None:
    """Predict all points, write the page or print them."""
    found = [answered(point) for point in points()]
    PAGE.write_text(page(found, planned_runs()))
    for each in found:
        if not each.right:
            print(f"{each.point.id}: {each.point.what}: {_verdict(each)}")


if __name__ == "__main__":
    main()
