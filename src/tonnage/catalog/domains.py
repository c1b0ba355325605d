"""Which fabric joins accelerators into one domain, and what did somebody publish of a part nothing is predicted for?"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Final

from tonnage.catalog.rows import DATA, Row, number, table
from tonnage.domain.accelerator import Fact, PublishedResult, ScaleUpDomain
from tonnage.errors import BadFact

__all__ = ["published_results", "scale_up_domains"]

SHAPES: Final = ("switched", "mesh", "torus")


def scale_up_domains(accelerator: str) -> tuple[ScaleUpDomain, ...]:
    """
    The fast domains that are built of the accelerator with this id, small ones first; none where nobody listed one.

    Examples
    --------
    >>> [(one.name, one.packages, one.dims) for one in scale_up_domains("trainium2")]
    [('trn2.48xlarge', 16, (4, 4)), ('Trn2 UltraServer', 64, (4, 4, 4))]
    """
    return tuple(sorted((one for one in _domains() if one.accelerator == accelerator), key=lambda one: one.packages))


def published_results(accelerator: str) -> tuple[PublishedResult, ...]:
    """Results that were published of the accelerator with this id, in the order of the table."""
    return tuple(one for one in _results() if one.accelerator == accelerator)


@cache
def _domains() -> tuple[ScaleUpDomain, ...]:
    return tuple(_domain(row) for row in table(DATA / "domains" / "domains.csv"))


def _domain(row: Row) -> ScaleUpDomain:
    packages, per_tray, trays = (_count(row, column) for column in ("packages", "packages_per_tray", "trays"))
    dims = _sides(row["dims"])
    if row["shape"] not in SHAPES:
        raise BadFact(f"{row['id']}: shape is '{row['shape']}', but one of {', '.join(SHAPES)} is expected")
    if per_tray * trays != packages or (dims and prod(dims) != packages):
        raise BadFact(f"{row['id']}: {packages} packages, but its trays or its sides hold another number")
    return ScaleUpDomain(
        id=row["id"],
        accelerator=row["accelerator"],
        name=row["name"],
        shape=row["shape"],
        packages=packages,
        packages_per_tray=per_tray,
        trays=trays,
        dims=dims,
        dies_per_package=_count(row, "dies_per_package"),
        spare_trays=_count(row, "spare_trays") if row["spare_trays"] else None,
        slices=tuple(_sides(text) for text in row["slices"].split(";") if text),
        fact=Fact(source=row["source"], notes=row["notes"], checked=row["checked"]),
    )


def _count(row: Row, column: str) -> int:
    value = number(row, column)
    if value is None or value < 1 or value != int(value):
        raise BadFact(f"{row['id']}: {column} is '{row[column]}', but a whole number above 0 is expected")
    return int(value)


def _sides(text: str) -> tuple[int, ...]:
    return tuple(int(side) for side in text.split("x") if side)


@cache
def _results() -> tuple[PublishedResult, ...]:
    return tuple(
        PublishedResult(
            accelerator=row["accelerator"],
            model=row["model"],
            metric=row["metric"],
            value=number(row, "value") or 0.0,
            unit=row["unit"],
            conditions=row["conditions"],
            source=row["source"],
            as_of=row["as_of"],
        )
        for row in table(DATA / "results" / "published.csv")
    )
