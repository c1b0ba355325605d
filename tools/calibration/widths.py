"""
How wide would intervals be without a source, or a model family, that nobody had measured?

    python tools/calibration/left_out.py      first: what fits say that never saw the row's group
    python tools/calibration/widths.py        about three minutes

For each source and each family of measurements/groups.toml the 90 % factors are fitted again (`accuracy.intervals`) on
the residuals of all other rows, and written to tools/calibration/left_out_widths.csv.gz. With the predictions of
left_out.csv.gz a source is then left out of everything that is fitted: overheads, coefficients and widths. Structure
that was set by hand with the rows in view stays; nothing can take it back.
"""

from __future__ import annotations

import time
from pathlib import Path

from intervals import left_out, unfit

from tonnage_accuracy.cases import kind_of
from tonnage_accuracy.grouping import group_by, read_grouping
from tonnage_accuracy.intervals import QUANTITY_OF, widths
from tonnage_accuracy.left_out import WIDTH_COLUMNS, WIDTHS
from tonnage_accuracy.quantities import measured_numbers
from tonnage_accuracy.rows import Row, usable_rows
from tonnage_accuracy.tables import write_table

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Fit without each group and write."""
    start, grouping, every = time.process_time(), read_grouping(ROOT), usable_rows(ROOT)
    taught = [row for row in every if row.table not in grouping.unseen]
    doubtful = unfit(taught)
    scores = [item for item in left_out(taught) if item.id not in doubtful]
    lines: list[tuple[str, ...]] = []
    for kind, name in (("source", grouping.leaves_with), ("family", grouping.family)):
        group = {row.id: name(row) for row in every}
        asked = group_by(((group[row.id], key) for row in every for key in numbers(row)), lambda pair: pair[0])
        for hidden in dict.fromkeys(group[row.id] for row in taught):
            own = {key for _, key in asked[hidden]}
            rest = (s for s in scores if _named(s.kind, s.quantity) in own and group[s.id] != hidden)
            kept = widths(rest, source=grouping.publisher)
            lines += [(kind, hidden, *key, f"{value:.4g}") for key, value in kept.items()]
    write_table(ROOT / WIDTHS, [WIDTH_COLUMNS, *lines])
    print(f"{len(lines)} factors in {time.process_time() - start:.0f} CPU s")


def numbers(row: Row) -> set[tuple[str, str]]:
    """Kind of case and quantity of every number of a row that has an interval."""
    return {_named(kind_of(row), item.quantity) for item in measured_numbers(row)}


def _named(kind: str, quantity: str) -> tuple[str, str]:
    """The quantity whose width a scored one takes: rates of training take that of the step."""
    return kind, QUANTITY_OF.get((kind, quantity), "")


if __name__ == "__main__":
    main()
