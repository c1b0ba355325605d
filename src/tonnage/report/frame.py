"""The rows of an answer as a data frame, for those who go on in pandas or polars."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Final

import msgspec

from tonnage.domain.compare import Comparison
from tonnage.errors import BadRequest

__all__ = ["frame", "rows_of"]

ROWS: Final = ("options", "rows", "rents", "instances")
"""Fields that hold an answer's rows, by kind of answer."""
LIBRARIES: Final = ("pandas", "polars")


def frame(answer: Any) -> Any:
    """
    The answer's rows in pandas, else in polars.

    Raises
    ------
    BadRequest
        It has no rows, or neither library is installed.
    """
    rows = rows_of(answer)
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


def _flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested names joined by dots; lists stay out."""
    flat: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            flat |= _flat(item, f"{prefix}{key}.")
        elif not isinstance(item, list):
            flat[prefix + key] = item
    return flat
