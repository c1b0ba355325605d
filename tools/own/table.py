"""Tables under measurements/own."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

Row = dict[str, object]


def append(path: Path, rows: Sequence[Row], *, of: tuple[str, ...]) -> None:
    """Rows at the end of a table, in its columns; those that agree with a new one in the columns `of` are replaced."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        columns = list(reader.fieldnames or ())
        again = {tuple(row[name] for name in of) for row in rows}
        kept = [row for row in reader if tuple(row[name] for name in of) not in again]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows([*kept, *rows])
