"""
How much carbon dioxide does a kilowatt-hour carry, in a country or in a cloud region?

Annual averages of the grid, not marginal figures, and without a provider's own contracts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tonnage.catalog.providers import countries
from tonnage.catalog.rows import DATA, Row, number, table
from tonnage.domain.money import CarbonIntensity
from tonnage.errors import BadFact

__all__ = ["carbon", "carbon_of"]


@cache
def carbon() -> Mapping[str, CarbonIntensity]:
    """Every intensity by id: a country's three letters, or "provider:region"."""
    sources = {row["source"]: row["text"] for row in table(DATA / "carbon" / "sources.csv")}
    known = {}
    for row in table(DATA / "carbon" / "countries.csv"):
        known[row["iso3"]] = _from_row(row, id=row["iso3"], source=sources["countries"])
    for row in table(DATA / "carbon" / "regions.csv"):
        id = f"{row['provider']}:{row['region']}"
        known[id] = _from_row(row, id=id, source=sources["regions"])
    return MappingProxyType(known)


def carbon_of(*, country: str, provider: str = "", region: str = "") -> CarbonIntensity | None:
    """
    The figure of a cloud region, else of its country (two or three letters); absent when neither is known.

    Examples
    --------
    >>> found = carbon_of(country="FR", provider="gcp", region="europe-west9")
    >>> found.id, found.grams_per_kwh
    ('gcp:europe-west9', 34.0)
    >>> carbon_of(country="DE").id
    'DEU'
    """
    listed = carbon()
    found = listed.get(f"{provider}:{region}")
    if found is not None:
        return found
    known = countries().get(country.upper())
    return listed.get(known.iso3 if known is not None else country.upper())


def _from_row(row: Row, *, id: str, source: str) -> CarbonIntensity:
    grams = number(row, "gco2_per_kwh")
    if grams is None:
        raise BadFact(f"{id}: gco2_per_kwh is empty")
    return CarbonIntensity(
        id=id, country_iso3=row["iso3"], name=row["name"], grams_per_kwh=grams, source=source, as_of=row["as_of"]
    )
