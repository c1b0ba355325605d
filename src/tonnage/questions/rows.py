"""An answer's rows for those who go on with them: a data frame of pandas or polars, and simulated requests as files."""

from __future__ import annotations

import csv
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from math import isnan
from pathlib import Path
from typing import Any, Final

import msgspec

from tonnage.domain.answer import Breakdown, Quantity
from tonnage.errors import BadRequest, UnknownName, echo
from tonnage.questions.compare.answer import Comparison

ROWS: Final = ("options", "rows", "rents", "instances")
"""Fields that hold an answer's rows, by kind of answer."""
LIBRARIES: Final = ("pandas", "polars")


def frame(answer: Any, what: str = "rows") -> Any:
    """
    The answer's rows in pandas, else in polars.

    Raises
    ------
    BadRequest
        It has no rows, or neither library is installed.
    UnknownName
        `what` is none of `WHAT`.
    """
    if what not in WHAT:
        raise UnknownName("kind of rows", what, known=WHAT)
    rows = WHAT[what](answer)
    for name in LIBRARIES:
        if importlib.util.find_spec(name) is not None:
            return importlib.import_module(name).DataFrame(rows)
    raise BadRequest("a data frame needs pandas or polars; install one, or use to_dict")


def rows_of(answer: Any) -> list[dict[str, Any]]:
    """
    One flat dictionary a row, all with the same keys: of a comparison, one a side with its figures.

    Raises
    ------
    BadRequest
        This kind of answer has no rows.
    """
    if isinstance(answer, Comparison):
        return [
            {"side": side, **{figure.what: figure.values[at] for figure in answer.figures}}
            for at, side in enumerate(answer.sides)
        ]
    name = next((name for name in ROWS if hasattr(answer, name)), None)
    if name is None:
        raise BadRequest(f"{type(answer).__name__} has no rows; use to_dict")
    rows = [_flat(msgspec.to_builtins(row)) for row in getattr(answer, name)]
    keys = dict.fromkeys(key for row in rows for key in row)
    return [{key: row.get(key) for key in keys} for row in rows]


def break_even_rows(answer: Any) -> list[dict[str, Any]]:
    """
    What would change a plan: an input, from which value on, and what the answer becomes.

    Raises
    ------
    BadRequest
        This kind of answer looks for none.
    """
    if not hasattr(answer, "break_even"):
        raise BadRequest(
            f"{type(answer).__name__} has no break-even points; plans to serve, batch, train and fine-tune have"
        )
    return [{name: getattr(point, name) for name in point.__struct_fields__} for point in answer.break_even]


def tree_rows(answer: Any) -> list[dict[str, Any]]:
    """
    An opened answer (`tonnage.explain`), a row each node: its path, depth, value, share of its number, and evidence.

    Raises
    ------
    BadRequest
        It is not opened.
    """
    if not isinstance(answer, Breakdown):
        raise BadRequest(f"{type(answer).__name__} is not opened; give what tonnage.explain returns")
    rows: list[dict[str, Any]] = []

    def add(node: Quantity, path: tuple[str, ...], whole: float) -> None:
        """Appends the node's row and those below it; `whole` is the number that shares are of, 0 = none."""
        evidence = node.evidence
        rows.append(
            {
                "number": path[0],
                "path": " > ".join(path),
                "depth": len(path) - 1,
                "value": node.value,
                "unit": node.unit,
                "share": node.value / whole if whole and node.unit == "s" else None,
                "leaf": not node.parts,
                "tier": evidence.tier if evidence else None,
                "source": evidence.source if evidence else None,
            }
        )
        for part in node.parts:
            add(part, (*path, part.name), whole)

    for number in answer.numbers:
        add(number, (number.name,), number.value if number.unit == "s" else 0.0)
    return rows


def _flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested names joined by dots; lists stay out."""
    flat: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            flat |= _flat(item, f"{prefix}{key}.")
        elif not isinstance(item, list):
            flat[prefix + key] = item
    return flat


WHAT: Final[dict[str, Callable[[Any], list[dict[str, Any]]]]] = {
    "rows": rows_of,
    "break_even": break_even_rows,
    "tree": tree_rows,
}
"""What a data frame can hold of an answer."""
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
    """Write columns as Parquet; not a number becomes a null."""
    import duckdb

    table = dict(columns)
    wanted = ", ".join(
        f"nullif({name}, 'nan'::double) as {name}" if column.dtype.kind == "f" else name
        for name, column in columns.items()
    )
    with duckdb.connect() as own:
        own.register("simulated", table)
        own.sql(f"select {wanted} from simulated").write_parquet(path)
