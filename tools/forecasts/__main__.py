"""
Dated predictions with intervals of what nobody has published yet, and their score once somebody has.

    python -m tools.forecasts make 2026-11-22      writes forecasts/2026-11-22.jsonl and its hash; refuses a second time
    python -m tools.forecasts check                every file still has the hash that it was made with
    python -m tools.forecasts score ROWS.csv.gz    forecasts that rows of the layouts of measurements/ have answered

A file holds one case a line with its predictions as they were on its day. It is never edited: a better model makes a
new file. `forecasts/SHA256SUMS` holds the hashes (`sha256sum -c` reads it). A row answers a forecast of the same model,
part, number of accelerators, formats, engine and load (lengths within a tenth); a format or batch that the row leaves
open is no difference.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec
from tools.forecasts.cases import COUNT, cases

from tonnage.domain.case import Case, ServeCase, TrainCase
from tonnage.errors import TonnageError
from tonnage.questions.predict.predict import predict
from tonnage_accuracy.cases import case_of
from tonnage_accuracy.quantities import Measured, measured_numbers, predicted_number
from tonnage_accuracy.rows import Row, read_rows

FOLDER = Path(__file__).parents[2] / "forecasts"
SUMS = "SHA256SUMS"
ASKED = {
    "serve": ("ttft_ms", "tpot_ms", "output_tokens_per_s"),
    "train": ("step_time_s", "tokens_per_s_per_accel", "peak_mem_gb"),
}
NEAR = 0.1
"""Lengths count as the same within this share. [-]"""


class Forecast(NamedTuple):
    """One line of a file."""

    day: str
    name: str
    case: Case
    numbers: dict[str, dict[str, float]]
    """Value, low and high by quantity."""


class Outcome(NamedTuple):
    """A number that was forecast, and what was measured."""

    forecast: Forecast
    row: str
    quantity: str
    measured: float

    @property
    def error(self) -> float:
        """|predicted - measured| / measured. [-]"""
        return abs(self.forecast.numbers[self.quantity]["value"] / self.measured - 1.0)

    @property
    def covered(self) -> bool:
        """Whether the measurement lies inside the 90 % interval."""
        given = self.forecast.numbers[self.quantity]
        return given["low"] <= self.measured <= given["high"]


def make(day: str, folder: Path) -> list[str]:
    """
    Write the file of a day and its hash; the sentences say what could not be forecast.

    Raises
    ------
    FileExistsError
        The day has its file already.
    """
    path, problems = folder / f"{day}.jsonl", list[str]()
    if path.exists():
        raise FileExistsError(f"{path.name} exists, and a forecast is never edited; give another day")
    lines = [_line(name, case) for name, case in cases(problems)]
    if len(lines) < COUNT:
        problems.append(f"{len(lines)} forecasts, and a file should have {COUNT}")
    folder.mkdir(exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines))
    with (folder / SUMS).open("a") as sums:
        sums.write(f"{_hash(path)}  {path.name}\n")
    return problems


def _line(name: str, case: Case) -> str:
    result = predict(case)
    numbers = {}
    for quantity in ASKED["serve" if isinstance(case, ServeCase) else "train"]:
        found = predicted_number(result, Measured(quantity=quantity, value=None, statistic="mean"), case=case)
        if found is not None and found.low is not None and found.high is not None:
            numbers[quantity] = {"value": _short(found.value), "low": _short(found.low), "high": _short(found.high)}
    return json.dumps({"name": name, "case": msgspec.to_builtins(case), "predicted": numbers}, sort_keys=True)


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def check(folder: Path) -> list[str]:
    """A sentence for every file whose hash differs, is missing, or was never written down."""
    known = dict(reversed(line.split("  ", 1)) for line in (folder / SUMS).read_text().splitlines())
    there = {path.name for path in folder.glob("*.jsonl")}
    wrong = [f"{name}: has no hash in {SUMS}" for name in sorted(there - known.keys())]
    wrong += [f"{name}: is gone" for name in sorted(known.keys() - there)]
    wrong += [f"{name}: was edited" for name in sorted(there & known.keys()) if _hash(folder / name) != known[name]]
    return wrong


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def forecasts(folder: Path) -> Iterator[Forecast]:
    """Every line of every file."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            found: dict[str, Any] = json.loads(line)
            yield Forecast(path.stem, found["name"], msgspec.convert(found["case"], Case), found["predicted"])


def outcomes(rows: Sequence[Row], known: Sequence[Forecast]) -> Iterator[Outcome]:
    """Every number of a usable row that some forecast said before."""
    for row in rows:
        if not row.usable:
            continue
        try:
            case, cells = case_of(row), measured_numbers(row)
        except TonnageError:
            continue
        for forecast in known:
            if _answers(case, forecast.case):
                for cell in cells:
                    if cell.value is not None and cell.quantity in forecast.numbers:
                        yield Outcome(forecast, row.id, cell.quantity, cell.value)


def _answers(row: Case, asked: Case) -> bool:
    """Whether a measured case is the one that was forecast."""
    if isinstance(row, ServeCase) and isinstance(asked, ServeCase):
        same = (row.model, row.accelerator, row.engine) == (asked.model, asked.accelerator, asked.engine)
        ranks = row.layout.tp * row.layout.pp == asked.layout.tp * asked.layout.pp
        formats = row.precision is None or asked.precision is None or row.precision.weights == asked.precision.weights
        lengths = _near(row.isl, asked.isl) and _near(row.osl, asked.osl)
        return same and ranks and formats and lengths and row.traffic.concurrency == asked.traffic.concurrency
    if isinstance(row, TrainCase) and isinstance(asked, TrainCase):
        same = (row.model, row.accelerator, row.count, row.precision, row.method) == (
            asked.model,
            asked.accelerator,
            asked.count,
            asked.precision,
            asked.method,
        )
        lengths = row.seq_len is not None and asked.seq_len is not None and _near(row.seq_len, asked.seq_len)
        return same and lengths and row.global_batch in {None, asked.global_batch}
    return False


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= NEAR * other


def report(found: Sequence[Outcome]) -> str:
    """One line a number, then the medians by quantity."""
    lines = [
        f"{each.forecast.day} {each.forecast.name} {each.quantity}: forecast"
        f" {each.forecast.numbers[each.quantity]['value']:g}, measured {each.measured:g} ({each.row}),"
        f" {100 * each.error:.0f} % off, {'inside' if each.covered else 'outside'} its interval"
        for each in found
    ]
    for quantity in sorted({each.quantity for each in found}):
        mine = [each for each in found if each.quantity == quantity]
        inside = sum(each.covered for each in mine)
        middle = median(each.error for each in mine)
        lines.append(f"{quantity}: {len(mine)} numbers, median error {100 * middle:.1f} %, {inside} inside")
    return "\n".join(lines) or "No forecast is answered by these rows."


def main() -> int:
    """Make, check or score."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    ways = parser.add_subparsers(dest="way", required=True)
    ways.add_parser("make").add_argument("day")
    ways.add_parser("check")
    ways.add_parser("score").add_argument("rows", nargs="+", type=Path)
    given = parser.parse_args()
    if given.way == "make":
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", given.day):
            print(f"day: {given.day!r} is no date; give one like 2026-11-22", file=sys.stderr)
            return 2
        try:
            problems = make(given.day, FOLDER)
        except FileExistsError as error:
            print(error, file=sys.stderr)
            return 2
        print("\n".join(problems))
    elif given.way == "check":
        wrong = check(FOLDER)
        print("\n".join(wrong))
        return 1 if wrong else 0
    else:
        rows = [row for path in given.rows for row in read_rows(path)]
        print(report(list(outcomes(rows, list(forecasts(FOLDER))))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
