"""
Who rents accelerators, on what terms, in which countries; what electricity, storage and owning one cost there.

Certifications and residency are the vendors' own statements, not verified. Where sources contradict each other the note
says so. Carbon intensities are annual averages of the grid, not marginal figures, and without a provider's own
contracts. Few providers publish a price of storage where it can be read.

Each parameter of owning has a band, a date and a confidence. Rows of confidence "claim" are figures of popular
articles, kept to be tested and never used as defaults; "low" ones are planning defaults that the user should replace.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from tonnage.catalog.rows import DATA, Row, number, read_rows, table
from tonnage.domain.cost import OwnedServer
from tonnage.domain.money import CarbonIntensity, OwnedParameter, Provider
from tonnage.errors import BadFact, UnknownName
from tonnage.record import Record

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
    return MappingProxyType({row["provider"]: _provider(row) for row in table(DATA / "providers" / "providers.csv")})


@cache
def countries() -> Mapping[str, Country]:
    """Every country that an offer or a tariff names, by its two-letter code."""
    return MappingProxyType(
        {
            row["country"]: Country(row["iso3"], row["eu"] == "1", row["eea"] == "1")
            for row in table(DATA / "providers" / "countries.csv")
        }
    )


def country_code(text: str) -> str:
    """
    The two letters of a country by its English name, its three letters or these; else the text as it is.

    Examples
    --------
    >>> country_code("Germany"), country_code("USA"), country_code("uk"), country_code("US-TX")
    ('DE', 'US', 'GB', 'US-TX')
    """
    wanted = text.strip().lower().removeprefix("the ")
    named = {one.country_iso3: one.name.lower() for one in carbon().values() if one.id == one.country_iso3}
    for code, country in countries().items():
        if wanted in (code.lower(), country.iso3.lower(), named.get(country.iso3)):
            return code
    return {"uk": "GB"}.get(wanted, text.strip())


def is_community(provider: Provider) -> bool:
    """Hosts of strangers, without a service level: marketplaces, auctions, brokers."""
    return any(word in provider.kind for word in ("marketplace", "broker"))


def _provider(row: Row) -> Provider:
    """A row of `providers.csv`; columns without a field of their own are kept as facts in words."""
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


@cache
def carbon() -> Mapping[str, CarbonIntensity]:
    """Every intensity by id: a country's three letters, or "provider:region"."""
    sources = {row["source"]: row["text"] for row in table(DATA / "carbon" / "sources.csv")}
    known = {}
    for row in table(DATA / "carbon" / "countries.csv"):
        known[row["iso3"]] = _intensity(row, id=row["iso3"], source=sources["countries"])
    for row in table(DATA / "carbon" / "regions.csv"):
        id = f"{row['provider']}:{row['region']}"
        known[id] = _intensity(row, id=id, source=sources["regions"])
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


def _intensity(row: Row, *, id: str, source: str) -> CarbonIntensity:
    grams = number(row, "gco2_per_kwh")
    if grams is None:
        raise BadFact(f"{id}: gco2_per_kwh is empty")
    return CarbonIntensity(
        id=id, country_iso3=row["iso3"], name=row["name"], grams_per_kwh=grams, source=source, as_of=row["as_of"]
    )


_STORAGE: Final = DATA / "providers" / "storage.csv"


class StoragePrice(Record, kw_only=True):
    """The list price of the tier that a running job reads and writes."""

    provider: str
    usd_per_gb_month: Annotated[float, Meta(gt=0)]
    tier: str
    source: str
    checked: str


@cache
def storage_prices() -> Mapping[str, StoragePrice]:
    """Prices by provider, of those that publish one."""
    return MappingProxyType({price.provider: price for price in read_rows(_STORAGE, StoragePrice)})


_BASE: Final = {"kW": ("W", 1e3), "MWh": ("Wh", 1e6)}
"""Units of the table that become base units; tariffs and rents stay as they are quoted (USD/kWh, USD/kW-month)."""


@cache
def tco() -> Mapping[tuple[str, str], OwnedParameter]:
    """Every parameter by (group, key)."""
    return MappingProxyType(
        {(row["group"], row["key"]): _owned_parameter(row) for row in table(DATA / "tco" / "tco.csv")}
    )


@cache
def servers() -> Mapping[str, OwnedServer]:
    """Every machine that can be bought, and which parameters describe it; the usual one of an accelerator first."""
    return MappingProxyType({one.server: one for one in read_rows(DATA / "tco" / "servers.csv", OwnedServer)})


def parameter(group: str, key: str) -> OwnedParameter:
    """
    One parameter of owning.

    Raises
    ------
    UnknownName
        No such parameter; suggests the nearest of the group.

    Examples
    --------
    >>> found = parameter("server_power_max", "dgx-h100-8gpu")
    >>> found.value, found.unit
    (10200.0, 'W')
    """
    found = tco().get((group, key))
    if found is None:
        groups = {known for known, _ in tco()}
        if group not in groups:
            raise UnknownName("group of ownership parameters", group, known=groups)
        raise UnknownName(group, key, known=[known for of, known in tco() if of == group])
    return found


def _owned_parameter(row: Row) -> OwnedParameter:
    """A number with its low and high ends in the base unit of what the row states; one without a value is refused."""
    unit, factor = _BASE.get(row["unit"], (row["unit"], 1.0))
    value = number(row, "value", factor=factor)
    if value is None:
        raise BadFact(f"{row['group']} {row['key']}: value is empty")
    return OwnedParameter(
        group=row["group"],
        key=row["key"],
        value=value,
        low=number(row, "low", factor=factor),
        high=number(row, "high", factor=factor),
        unit=unit,
        as_of=row["as_of"],
        confidence=row["confidence"],
        source=row["source"],
        notes=row["notes"],
    )
