"""
What was said of a table of measurements before anybody looked at it? Predictions first, their errors later.

    python -m tonnage_accuracy.first_contact predict WAVE FILE...   of one wave's rows, without what was measured
    python -m tonnage_accuracy.first_contact score [FILE...]        errors, by measurements/ and by these tables
    python -m tonnage_accuracy.first_contact                        means over groups, every release beside the goals

A delivery is opened in `WAVES` waves of whole sources, in the order of the SHA-256 of their names: nobody chose which
come first. Predictions are committed before a wave's rows are; the error of wave k under the release that knew the
waves before it is the prequential curve. `measurements/first_contact.csv` gains lines and loses none: a release that
does better later gets a line of its own.
"""

from __future__ import annotations

import datetime
import hashlib
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tonnage.record import Record
from tonnage_accuracy.grouping import group_by, read_grouping
from tonnage_accuracy.metrics import errors, quantile
from tonnage_accuracy.quantities import measured_numbers
from tonnage_accuracy.rows import Row, read_rows, text, usable_rows
from tonnage_accuracy.scoring import Score, score
from tonnage_accuracy.sheets import align_columns
from tonnage_accuracy.tables import read_table, write_cells, write_table

ROOT: Final = Path(__file__).parents[3]
LINES: Final = ROOT / "measurements" / "first_contact.csv"
PREDICTIONS: Final = ROOT / "measurements" / "first_contact"
COLUMNS: Final = (
    "delivery", "wave", "release", "date", "source", "quantity", "rows", "median_error", "bias", "covered", "how",
)  # fmt: skip
HOW: Final = "first prediction"
DELIVERY: Final = 3
WAVES: Final = 3
OPENED: Final = {"1": "8d8b0634", "2": "25c1b2f6", "3": "8d75bb03"}
"""Wave of the third delivery -> the release that predicted it last before it was opened."""
FEWEST: Final = 5
"""Numbers of a group below which its median says little."""
FIGURES: Final = {
    "TPOT": ("tpot_ms",),
    "TTFT": ("ttft_ms",),
    "rate": ("output_tokens_per_s", "total_tokens_per_s"),
    "step": ("step_time_s",),
    "memory": ("peak_mem_gb",),
}
"""What the goals name, and the quantity of a group that stands for it: the first that it measured."""
GOALS: Final = {"TPOT": 0.15, "TTFT": 0.28, "rate": 0.13, "step": 0.13, "memory": 0.15}


def wave_of(sources: Iterable[str]) -> dict[str, int]:
    """
    The wave of every source of a delivery, from 1.

    Examples
    --------
    >>> wave_of(["QSERVE", "SIL", "fmsacc"])
    {'QSERVE': 1, 'SIL': 2, 'fmsacc': 3}
    """
    order = sorted(set(sources), key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return {name: 1 + place * WAVES // len(order) for place, name in enumerate(order)}


def predict(wave: int, files: Sequence[str]) -> Path:
    """
    Write what the committed code says of a wave's usable rows, and nothing of what was measured.

    Raises
    ------
    SystemExit
        The package differs from its last commit, so that no release could be named.
    """
    if _git("status", "--porcelain", "--", "src", "tools/accuracy"):
        sys.exit("commit src and tools/accuracy first: a prediction is that of a release")
    rows = [row for file in files for row in read_rows(file)]
    waves = wave_of(row.block for row in rows if row.usable)
    own = [row for row in rows if row.usable and waves[row.block] == wave]
    path = PREDICTIONS / f"{_git('rev-parse', '--short=8', 'HEAD')}-wave-{wave}.csv.gz"
    said = [(item.id, item.quantity, *map(_digits, (item.predicted, item.low, item.high)), item.reason)
            for item in score(own)]  # fmt: skip
    write_table(path, [("id", "quantity", "predicted", "low", "high", "reason"), *said])
    return path


def scored(path: Path, rows: Sequence[Row]) -> Iterator[dict[str, object]]:
    """The lines of one file of predictions: one for each group and quantity with enough numbers."""
    release, _, wave = path.name.removesuffix(".csv.gz").rpartition("-wave-")
    known = {(row.id, item.quantity): (row, item.value) for row in rows for item in measured_numbers(row)}
    pairs = [(known[key], line) for line in read_table(path) if (key := (line["id"], line["quantity"])) in known]
    for (source, quantity), own in group_by(pairs, lambda pair: (group_name(pair[0][0]), pair[1]["quantity"])).items():
        done = [(value, line) for (_, value), line in own if line["predicted"] and value]
        if len(done) < FEWEST:
            continue
        found = errors(
            [(float(line["predicted"]), value) for value, line in done],
            [(_number(line["low"]), _number(line["high"])) for _, line in done],
        )
        yield {
            "delivery": DELIVERY, "wave": wave, "release": release, "source": source, "quantity": quantity,
            "rows": len(done), "median_error": _digits(found.median_ape), "bias": _digits(found.bias),
            "covered": _digits(found.coverage_90), "how": HOW,
        }  # fmt: skip


@cache
def first_scores() -> tuple[Score, ...]:
    """
    What the last release before a wave was opened said of its rows, with the levels that they have today.

    Rows of publishers that other tables had taught are left out: of these nothing was met for the first time.
    """
    files = [PREDICTIONS / f"{release}-wave-{wave}.csv.gz" for wave, release in OPENED.items()]
    said = {(line["id"], line["quantity"]): line["predicted"] for path in files for line in read_table(path)}
    grouping, met = read_grouping(ROOT), {row for row, _ in said}
    rows = usable_rows(ROOT)
    taught = {grouping.leaves_with(row) for row in rows if row.id not in met}
    own = [row for row in rows if row.id in met and grouping.leaves_with(row) not in taught]
    return tuple(
        replace(one, predicted=float(found))
        for one in score(own)
        if one.predicted and (found := said.get((one.id, one.quantity)))
    )


def group_name(row: Row) -> str:
    """The source; of runs that one publisher collects by model and engine, those as well."""
    model = text(row, "model_path") or text(row, "model_id")
    return f"{row.block}:{model.rpartition('/')[2]}/{text(row, 'backend')}" if row.layout == "serving" else row.block


def add_lines(tables: Sequence[str]) -> int:
    """Append the lines of files of predictions that have none yet, by rows of `tables` as well; how many."""
    kept = list(read_table(LINES))
    known = {(line["release"], line["wave"]) for line in kept}
    rows = [*usable_rows(ROOT), *(row for table in tables for row in read_rows(table) if row.usable)]
    today = datetime.date.today().isoformat()
    files = sorted(PREDICTIONS.glob("*.csv.gz"))
    fresh = [{**line, "date": today} for path in files for line in scored(path, rows)
             if (line["release"], line["wave"]) not in known]  # fmt: skip
    write_cells(LINES, COLUMNS, [*kept, *fresh])
    return len(fresh)


class Mean(Record):
    """A figure of one release: over groups, the mean and the median of their medians, and their mean coverage."""

    groups: int
    error: float
    median: float
    covered: float | None

    def __str__(self) -> str:
        holds = "-" if self.covered is None else f"{self.covered:.0%}"
        return f"{self.error:.1%}/{self.median:.0%}/{holds}/{self.groups}"


def means(lines: Iterable[dict[str, str]]) -> Iterator[tuple[tuple[str, str, str], dict[str, Mean]]]:
    """Every figure by delivery, wave and release."""
    of = group_by(lines, lambda line: (line["delivery"], line["wave"], line["release"]))
    for release, own in of.items():
        found = {}
        for figure, names in FIGURES.items():
            groups = group_by((line for line in own if line["quantity"] in names), lambda line: line["source"])
            first = [min(group, key=lambda line: names.index(line["quantity"])) for group in groups.values()]
            shares = [float(line["covered"]) for line in first if line["covered"]]
            medians = [float(line["median_error"]) for line in first]
            if medians:
                covered = sum(shares) / len(shares) if shares else None
                found[figure] = Mean(len(medians), sum(medians) / len(medians), quantile(medians, 0.5) or 0.0, covered)
        yield release, found


def prequential(lines: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """Those of whole deliveries, and of each wave those of the release that predicted it last before it was opened."""
    return [line for line in lines if not line["wave"] or OPENED[line["wave"]] == line["release"]]


SHOWN: Final = {"TTFT": "TTFT", "TPOT": "TPOT", "rate": "output rate", "step": "training step", "memory": "peak memory"}
"""Figure -> the word of the table of standings for it."""


def shown() -> list[tuple[str, ...]]:
    """Rows of `sheets.STANDINGS`: the first contact with the last whole delivery, by the release of that day."""
    lines = [line for line in read_table(LINES) if not line["wave"]]
    (_, _, release), found = list(means(lines))[-1]
    rows: list[tuple[str, ...]] = []
    for name, word in SHOWN.items():
        one = found[name]
        counted = sum(int(line["rows"]) for line in lines
                      if line["release"] == release and line["quantity"] in FIGURES[name])  # fmt: skip
        held = "-" if one.covered is None else f"{one.covered:.0%}".replace("%", " %")
        error, median = (f"{share:.0%}".replace("%", " %") for share in (one.error, one.median))
        rows.append((word, "first contact", f"{one.groups}", f"{counted:,}", error, median, "-", held, "-", "-"))
    return rows


def curve(lines: Iterable[dict[str, str]]) -> list[tuple[str, ...]]:
    """A header, and a row for each release and wave: every figure in words; the goals last."""
    cells = [("delivery", "wave", "release", *FIGURES)]
    for release, found in means(lines):
        cells.append((*(word or "-" for word in release), *(str(found.get(figure, "-")) for figure in FIGURES)))
    return [*cells, ("", "", "goal", *(f"{goal:.0%}" for goal in GOALS.values()))]


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _number(cell: str) -> float | None:
    return float(cell) if cell else None


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout.strip()


def main(words: Sequence[str]) -> None:
    """Answer the command line."""
    match words:
        case ["predict", wave, *files] if files and wave.isdigit():
            print(predict(int(wave), files).relative_to(ROOT))
        case ["score", *tables]:
            print(f"{add_lines(tables)} lines")
        case []:
            print(align_columns(curve(read_table(LINES))))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
