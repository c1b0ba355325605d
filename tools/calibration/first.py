"""
Keep what is predicted of rows before anybody has looked at them: how far off Tonnage is at first contact.

    python -m tools.calibration.first FILE.csv.gz… [--blocks A,B]      -> tools/calibration/first_predictions.csv.gz

Run it on a new delivery before its rows are read, before a fit or a formula is changed for them. What is kept stays: a
row that has a prediction is never predicted again, and a publisher that other measurements already taught is no first
contact. Rows that teach no width (`widths.doubtful`) are left out. `widths` fits with these predictions how much
further off first contact is than a source left out.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tools.calibration.widths import ROOT, doubtful

from tonnage.version import __version__
from tonnage_accuracy.grouping import read_grouping
from tonnage_accuracy.left_out import FIRST, FIRST_COLUMNS
from tonnage_accuracy.quantities import QUANTITY_OF
from tonnage_accuracy.rows import Row, read_rows, usable_rows
from tonnage_accuracy.scoring import Score, score
from tonnage_accuracy.tables import read_table, write_table

DIGITS: Final = 6


def main() -> None:
    """Predict what has no prediction yet, and add it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--blocks", default="")
    asked = parser.parse_args()
    kept = [tuple(line.values()) for line in read_table(ROOT / FIRST)] if (ROOT / FIRST).exists() else []
    rows = fresh(asked.files, blocks=set(filter(None, asked.blocks.split(","))), known={line[0] for line in kept})
    added = [line_of(one) for one in score(rows) if one.predicted and (one.kind, one.quantity) in QUANTITY_OF]
    write_table(ROOT / FIRST, [FIRST_COLUMNS, *kept, *added])
    print(f"{len(added):,} numbers of {len({line[1] for line in added})} sources added to {len(kept):,}")


def fresh(files: Iterable[Path], *, blocks: set[str], known: set[str]) -> list[Row]:
    """Rows of those blocks (none = all) that have no prediction yet, of publishers that taught nothing so far."""
    grouping = read_grouping(ROOT)
    taught = {grouping.leaves_with(row) for row in usable_rows(ROOT)}
    rows = [
        row
        for path in files
        for row in read_rows(path)
        if row.usable
        and (not blocks or row.block in blocks)
        and row.id not in known
        and grouping.leaves_with(row) not in taught
    ]
    passed = doubtful(rows)
    return [row for row in rows if row.id not in passed]


def line_of(one: Score) -> tuple[str, ...]:
    """A prediction as the table keeps it."""
    numbers = (f"{value:.{DIGITS}g}" for value in (one.measured or 0.0, one.predicted or 0.0))
    day = datetime.date.today().isoformat()
    return (one.id, one.block, one.kind, one.quantity, *numbers, one.level, f"{__version__} {day}")


if __name__ == "__main__":
    main()
