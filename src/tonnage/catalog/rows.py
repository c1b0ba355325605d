"""
How is a shipped table read? CSV with a header row; an empty cell is an absent fact, never zero.

Loaders name a column once and get a number in the base unit or nothing. What is wrong in a table is a
BadFact that names file, row and column: the shipped tables are tested, but people edit copies of them.
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tonnage.errors import BadFact, echo

__all__ = ["DATA", "data_version", "number", "table", "yes_no"]

DATA: Final = Path(__file__).parent / "data"

Row = dict[str, str]


@cache
def data_version() -> str:
    """
    Which data answers are made of: twelve digits over the name and content of every shipped table.

    Two installations that give the same have the same prices, models, parts and fits, byte for byte; 15 ms.
    """
    digest = hashlib.sha256()
    for path in sorted(path for path in DATA.rglob("*") if path.is_file()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(DATA).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:12]


def table(path: Path) -> Iterator[Row]:
    """The rows of one file, in order, by column name."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = csv.reader(file)
        header = next(lines, [])
        for number_of_row, cells in enumerate(lines, start=2):
            if len(cells) != len(header):
                raise BadFact(f"{path.name}, row {number_of_row}: {len(cells)} cells, but {len(header)} columns")
            yield dict(zip(header, cells, strict=True))


def number(row: Row, column: str, *, factor: float = 1.0) -> float | None:
    """A cell times its column's factor to the base unit; absent when empty."""
    text = row[column]
    if not text:
        return None
    try:
        value = float(text) * factor
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadFact(f"{next(iter(row.values()))}: {column} is '{echo(text)}', but a number is expected")
    return value


def yes_no(row: Row, column: str) -> bool | None:
    """A cell that holds 1 or 0; absent when empty."""
    return None if not row[column] else row[column] == "1"
