"""
Who rents accelerators, on what terms, and which countries lie in the EU and the EEA?

Certifications and residency are the vendors' own statements, not verified. Where sources contradict each other
the note says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

from tonnage.catalog.rows import DATA, Row, number, table
from tonnage.domain.money import Provider

__all__ = ["CERTIFICATIONS", "Country", "countries", "providers"]

CERTIFICATIONS: Final = ("gdpr", "iso27001", "soc2", "hipaa")
"""Columns that hold a vendor's statement: yes, no, DPA, on request …"""

_OWN_FIELDS: Final = ("provider", "kind", "egress_usd_per_gb", "spot_offered", "spot_notice_s", "regions_eu", "source")


class Country(NamedTuple):
    """A country as ISO 3166-1 names it, and the unions it is in; CH and GB are in neither."""

    iso3: str
    eu: bool
    eea: bool


@cache
def providers() -> Mapping[str, Provider]:
    """Every provider by the name its offers carry."""
    return MappingProxyType({row["provider"]: _from_row(row) for row in table(DATA / "providers" / "providers.csv")})


@cache
def countries() -> Mapping[str, Country]:
    """Every country that an offer or a tariff names, by its two-letter code."""
    return MappingProxyType(
        {
            row["country"]: Country(row["iso3"], row["eu"] == "1", row["eea"] == "1")
            for row in table(DATA / "providers" / "countries.csv")
        }
    )


def _from_row(row: Row) -> Provider:
    return Provider(
        id=row["provider"],
        kind=row["kind"],
        egress_usd_per_gb=number(row, "egress_usd_per_gb"),
        spot_offered={"yes": True, "no": False}.get(row["spot_offered"]),
        spot_notice_s=number(row, "spot_notice_s"),
        certifications=tuple(name for name in CERTIFICATIONS if row[name] == "yes"),
        regions_eu=row["regions_eu"],
        source=row["source"],
        facts={column: text for column, text in row.items() if text and column not in _OWN_FIELDS},
    )
