"""
The published rows that ship as points of their model on their stack, and what they teach of what is left out.

    python -m tools.calibration.published_points     a minute -> src/tonnage/catalog/data/intervals/points.csv.gz

Run it after any change to a predictor of servers: a point is what this release's own fits leave of a row. Prints what
`tonnage accuracy` says of rows, runs, stacks, families and sources left out (`validation.published_points`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from tools.calibration.published import date_of, source_of

from tonnage.catalog.published import FILE
from tonnage.catalog.published import POINT_COLUMNS as COLUMNS
from tonnage_accuracy.cases import kind_of
from tonnage_accuracy.published_points import FARTHEST, PublishedNumber, published_numbers, taught_lines
from tonnage_accuracy.rows import Row, usable_rows
from tonnage_accuracy.scoring import score
from tonnage_accuracy.tables import write_table

ROOT: Final = Path(__file__).parents[2]


def main() -> None:
    """Write the table and print the errors."""
    rows = [row for row in usable_rows(ROOT) if kind_of(row) == "serve"]
    numbers = list(published_numbers(rows, score(rows), root=ROOT))
    write_table(FILE, lines_of(numbers, {row.id: row for row in rows}))
    print(f"{len(numbers):,} numbers, {FILE.stat().st_size / 1e3:.0f} kB")
    for line in taught_lines(numbers):
        print(*(f"{x:.4f}" if isinstance(x, float) else x for x in msgspec.structs.astuple(line)))


def lines_of(numbers: Iterable[PublishedNumber], rows: Mapping[str, Row]) -> Iterator[Sequence[str]]:
    """The numbers as `catalog.points` reads them."""
    yield COLUMNS
    for one in sorted(numbers, key=lambda one: (one.stack, one.model, one.id, one.quantity)):
        place = " ".join(f"{x:.4g}" for x in one.place)
        left = f"{float(np.clip(one.left['nothing'], -FARTHEST, FARTHEST)):.4f}"
        told = source_of(rows[one.id]), date_of(rows[one.id])
        yield [*one.stack, one.model, one.quantity, one.setting, place, left, one.id, *told]


if __name__ == "__main__":
    main()
