"""
What differs between two releases of the data? Rows by their key: new, gone, changed; prices by how much.

A table's key is its shortest row of leading columns that is unique in both; what is no CSV is the same or another.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from statistics import median
from typing import Final

from tonnage.catalog.rows import LIVING, files_of
from tonnage.record import SparseRecord

PRICED: Final = "_usd_per_"
NAMED: Final = 8
"""Rows of each kind that a table names."""


class TableDiff(SparseRecord, kw_only=True):
    """One table that differs."""

    name: str
    new: int = 0
    gone: int = 0
    changed: int = 0
    rows: tuple[str, ...] = ()
    """The first of them: a sign (+ - ~), the key, and what changed."""
    moved: float | None = None
    """Middle ratio of the prices that are another. [-]"""


class DataDiff(SparseRecord, kw_only=True):
    """Two releases side by side."""

    before: str
    now: str
    tables: tuple[TableDiff, ...] = ()


def tables_of(release: Path | None) -> dict[str, bytes]:
    """The living tables of a release, or of what ships, by name."""
    return {name: path.read_bytes() for name, path in files_of(release) if name.partition("/")[0] in LIVING}


def diff_of(before: dict[str, bytes], now: dict[str, bytes]) -> tuple[TableDiff, ...]:
    """Every table that differs."""
    found = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if old is None or new is None or not name.endswith(".csv"):
            gone, new_one = int(now.get(name) is None), int(name not in before)
            found.append(TableDiff(name=name, new=new_one, gone=gone, changed=1 - gone - new_one))
        else:
            found.append(_compare_tables(name, _rows(old), _rows(new)))
    return tuple(found)


Row = dict[str, str]


def _rows(data: bytes) -> list[Row]:
    return list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline="")))


def _compare_tables(name: str, before: list[Row], now: list[Row]) -> TableDiff:
    columns = list(before[0] if before else now[0] if now else {})
    width = next(
        (n for n in range(1, len(columns)) if _unique(before, columns[:n]) and _unique(now, columns[:n])), None
    )
    key = columns[:width]
    old, new = ({tuple(row.get(column, "") for column in key): row for row in rows} for rows in (before, now))
    changed = [at for at in new if at in old and new[at] != old[at]]
    gone, added = [at for at in old if at not in new], [at for at in new if at not in old]
    told = [*(f"- {_text(at)}" for at in gone[:NAMED]), *(f"+ {_text(at)}" for at in added[:NAMED])]
    told += [f"~ {_text(at)}: {_changes(old[at], new[at])}" for at in changed[:NAMED]]
    ratios = [
        float(new[at][column]) / float(old[at][column])
        for at in changed
        for column in columns
        if PRICED in column
        and _has_price(old[at])
        and new[at].get(column)
        and float(old[at].get(column) or 0) > 0
        and new[at][column] != old[at][column]
    ]
    return TableDiff(
        name=name,
        new=len(added),
        gone=len(gone),
        changed=len(changed),
        rows=tuple(told),
        moved=median(ratios) if ratios else None,
    )


def _unique(rows: list[Row], columns: list[str]) -> bool:
    return len({tuple(row.get(column, "") for column in columns) for row in rows}) == len(rows)


def _has_price(row: Row) -> bool:
    return any(PRICED in column for column in row)


def _text(key: tuple[str, ...]) -> str:
    return " ".join(filter(None, key))


def _changes(before: Row, now: Row) -> str:
    named = [column for column in {**before, **now} if before.get(column) != now.get(column)]
    return ", ".join(f"{column} {before.get(column) or '-'} -> {now.get(column) or '-'}" for column in named[:4])
