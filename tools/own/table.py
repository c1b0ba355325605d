"""Tables under measurements/own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tonnage_accuracy.tables import read_table, write_cells

Row = dict[str, object]


def append(path: Path, rows: Sequence[Row], *, of: tuple[str, ...]) -> None:
    """Rows at the end of a table, in its columns; those that agree with a new one in the columns `of` are replaced."""
    known = list(read_table(path))
    again = {tuple(row[name] for name in of) for row in rows}
    kept = [row for row in known if tuple(row[name] for name in of) not in again]
    write_cells(path, list(known[0]), [*kept, *rows])
