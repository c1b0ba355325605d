"""How does load vary over a day or a week? Published rates by the hour, relative to their mean."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

from tonnage.errors import UnknownName

__all__ = ["Shape", "shape", "shapes"]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A row of hourly rates that repeats."""

    name: str
    what: str
    hours: tuple[float, ...]
    """Rate of each hour relative to the mean: 24 of a day or 168 of a week."""
    source: str


@cache
def shapes() -> Mapping[str, Shape]:
    """Every built-in shape by name."""
    text = (files("tonnage.catalog") / "data/traffic/shapes.csv").read_text(encoding="utf-8")
    return {
        row["shape"]: Shape(
            name=row["shape"],
            what=row["what"],
            hours=tuple(float(rate) for rate in row["rates"].split()),
            source=row["source"],
        )
        for row in csv.DictReader(text.splitlines())
    }


def shape(name: str) -> Shape:
    """
    The shape of that name.

    Raises
    ------
    UnknownName
        No such shape.
    """
    if name not in shapes():
        raise UnknownName("shape of load", name, known=shapes())
    return shapes()[name]
