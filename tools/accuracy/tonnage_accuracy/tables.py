"""Small CSV tables of a checkout, plain or gzipped, a dictionary of text a row."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tonnage.errors import BadFact, echo


def read_table(path: Path) -> Iterator[dict[str, str]]:
    """Its rows, as they are asked for."""
    packed = path.suffix == ".gz"
    with (gzip.open if packed else open)(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def read_checked(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """
    Its rows, which have at least these columns; none where there is no such file.

    Raises
    ------
    BadFact
        A row lacks one of them.
    """
    lines = list(read_table(path)) if path.exists() else []
    if any(line.get(column) is None for line in lines for column in columns):
        raise BadFact(f"'{echo(path.name)}' must have the columns {', '.join(columns)}")
    return lines


def write_table(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Header and rows; gzipped where the name says so, with bytes that follow from the rows alone."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        if path.suffix == ".gz":
            with gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
                packed.write(text.getvalue().encode())
        else:
            file.write(text.getvalue().encode())


def write_cells(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """The same of rows by column; what a row lacks stays empty."""
    write_table(path, [columns, *([row.get(name, "") for name in columns] for row in rows)])
