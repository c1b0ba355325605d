"""A row for each simulated request, as a file: CSV, or Parquet for those who load millions."""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Mapping
from math import isnan
from pathlib import Path
from typing import Any, Final

from tonnage.errors import BadRequest, echo

__all__ = ["SUFFIXES", "check_path", "write_requests"]

SUFFIXES: Final = (".csv", ".parquet")
AT_ONCE: Final = 50_000
"""Rows turned into text at a time, so that a million requests need no more memory than a few. [rows]"""


def check_path(path: str) -> None:
    """
    Refuse a file that could not be written later, before a long run is wasted on it.

    Raises
    ------
    BadRequest
        Another suffix, no such folder, or Parquet without the `traces` extra.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise BadRequest(f"--requests: '{echo(path)}' must end in {' or '.join(SUFFIXES)}")
    if not Path(path).resolve().parent.is_dir():
        raise BadRequest(f"--requests: the folder of '{echo(path)}' does not exist")
    if suffix == ".parquet" and importlib.util.find_spec("duckdb") is None:
        raise BadRequest("Parquet needs the 'traces' extra: pip install 'tonnage[traces]'; or write .csv")


def write_requests(path: str, columns: Mapping[str, Any]) -> None:
    """
    Write columns of equal length by the file's suffix.

    Not a number (never answered, or no second token) becomes an empty cell, in Parquet a null.
    """
    if Path(path).suffix.lower() == ".parquet":
        _parquet(path, columns)
        return
    rows = len(next(iter(columns.values())))
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for start in range(0, rows, AT_ONCE):
            parts = (column[start : start + AT_ONCE].tolist() for column in columns.values())
            writer.writerows(
                ["" if isinstance(x, float) and isnan(x) else x for x in row] for row in zip(*parts, strict=True)
            )


def _parquet(path: str, columns: Mapping[str, Any]) -> None:
    import duckdb

    table = dict(columns)
    wanted = ", ".join(
        f"nullif({name}, 'nan'::double) as {name}" if column.dtype.kind == "f" else name
        for name, column in columns.items()
    )
    with duckdb.connect() as own:
        own.register("simulated", table)
        own.sql(f"select {wanted} from simulated").write_parquet(path)
