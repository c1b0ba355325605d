"""
What can be rented, where, at what listed price, how old is that price; shipped, and as the user fetched it.

Each sheet under data/offers is a folder of small tables, so that a fact stands once: prices point to the
instance type, the region, the source and a note. `listed` holds prices whose source states a licence;
`marketplace` holds those whose source states none and can be left out by a flag, or deleted. The user's own
offers come last. A price is of the whole instance, without VAT.

A snapshot, in the user's own folder, takes the place of the shipped on-demand and spot prices of its provider; shipped
terms that it does not know (reserved, blocks) stay, with their own date. A file that does not match its checksum
counts as absent.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import date
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from tonnage.catalog.accelerators import accelerator
from tonnage.catalog.additions import NOTHING, Additions, FileStates, file_states, tables
from tonnage.catalog.providers import Country, countries, is_community, providers
from tonnage.catalog.rows import DATA, Row, number, table, write_whole, yes_no
from tonnage.domain.money import Offer, OfferKind, Price, SpotRecord, Trust
from tonnage.errors import BadFact, BadRequest, UnknownName, echo
from tonnage.units import GB, read

_PRICES: Final = {
    "on_demand_usd_per_hour": "on-demand",
    "spot_usd_per_hour": "spot",
    "reserved_1y_usd_per_hour": "reserved-1y",
    "reserved_3y_usd_per_hour": "reserved-3y",
    "block_usd_per_hour": "block",
}
TERMS: Final = tuple(_PRICES.values())
"""Terms that an offer may list a price for."""

_GBIT: Final = 1e9 / 8
"""Bytes/s of one Gbit/s: networks are quoted in bits, per direction."""

# Upper edges of the advisor's bands as its feed codes them, in percent of instances a month.
_BANDS: Final = {"<5%": 5, "5-10%": 11, "10-15%": 16, "15-20%": 22, ">20%": 100}

_OWN_PRICES: Final = {
    "on_demand": "on-demand",
    "spot": "spot",
    "reserved_1y": "reserved-1y",
    "reserved_3y": "reserved-3y",
}
_OWN_QUANTITIES: Final = {
    "count": "count",
    "vcpus": "count",
    "ram": "bytes",
    "local_nvme": "bytes",
    "network": "bytes/s",
    **dict.fromkeys(_OWN_PRICES, "USD/h"),
}
_OWN_TEXTS: Final = ("provider", "instance_type", "accelerator", "region", "country", "source", "notes", "as_of")
_DATE: Final = re.compile(r"20\d\d-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?")
_OWN_NEEDED: Final = ("provider", "accelerator", "as_of", "source")


def offers(*, additions: Additions = NOTHING, marketplace: bool = True) -> tuple[Offer, ...]:
    """
    Every offer: listed prices, marketplace snapshots unless left out, and the user's own.

    Rows with `history` set are superseded or of retiring series: they show where prices came from and are not
    to be offered as today's.
    """
    return _all_offers(additions, file_states(additions), (marketplace, state()))


def date_remark(today: date, *, additions: Additions) -> str | None:
    """What there is to say about a day before the newest listed price: prices of that day are not known here."""
    newest = max(
        (offer.as_of for offer in offers(additions=additions, marketplace=False) if not offer.history), default=""
    )
    if today.isoformat()[: len(newest)] >= newest:
        return None
    day = today.isoformat()
    return f"{day} is before the newest listed price ({newest}); prices are of their own dates, not of that day"


@cache
def spot_records() -> tuple[SpotRecord, ...]:
    """What AWS says about spot capacity by instance type and region: 30-day averages, no forecast."""
    (source,) = table(DATA / "spot" / "sources.csv")
    return tuple(
        SpotRecord(
            provider=row["provider"],
            instance_type=row["instance_type"],
            accelerator=row["accelerator"],
            count=_positive(row, "count"),
            region=row["region"],
            savings_fraction=(number(row, "savings_percent") or 0.0) / 100,
            interruption_band=row["interruption_band"],
            interruption_fraction_max=_BANDS[row["interruption_band"]] / 100,
            as_of=source["as_of"],
            source=source["text"],
        )
        for row in table(DATA / "spot" / "advisor.csv")
    )


@lru_cache(maxsize=8)
def _all_offers(additions: Additions, _stamp: FileStates, which: tuple[bool, State]) -> tuple[Offer, ...]:
    marketplace, fetched = which
    own = tuple(_own(given, where=where, additions=additions) for where, given in tables(additions, "offer"))
    shipped = (*_sheet("listed"), *(_sheet("marketplace") if marketplace else ()))
    newest: dict[str, Snapshot] = {}
    for found in (*snapshots(DATA / "offers" / "fetched"), *(snapshots() if fetched else ())):
        if found.provider not in newest or newest[found.provider].as_of <= found.as_of:
            newest[found.provider] = found
    return (*(_with_fetched(shipped, tuple(newest.values())) if newest else shipped), *own)


def _with_fetched(shipped: tuple[Offer, ...], found: tuple[Snapshot, ...]) -> tuple[Offer, ...]:
    """
    The shipped offers, with fetched on-demand and spot prices in the place of a provider's own.

    Fetched by a release of the data, or by the user: the later day of a provider counts.
    """
    fetched = {snapshot.provider for snapshot in found}
    rest = (_without_hourly(offer) if offer.provider in fetched else offer for offer in shipped)
    return (*(offer for offer in rest if offer.prices), *(_offer_of_row(row) for each in found for row in each.rows))


def _without_hourly(offer: Offer) -> Offer:
    kept = tuple(price for price in offer.prices if price.term not in ("on-demand", "spot"))
    return msgspec.structs.replace(offer, prices=kept)


def _offer_of_row(row: Mapping[str, str]) -> Offer:
    """The offer that one row of a snapshot describes; the rows were checked before they were kept."""
    hourly = {"on_demand_usd_per_hour": "on-demand", "spot_usd_per_hour": "spot"}
    union = _unions(countries().get(row["country"]))
    return Offer(
        provider=row["provider"],
        instance_type=row["instance_type"],
        accelerator=row["accelerator"],
        count=float(row["count"]),
        prices=tuple(Price(term=term, usd_per_hour=float(row[name])) for name, term in hourly.items() if row[name]),
        region=row["region"],
        country=row["country"],
        eu=union["eu"],
        eea=union["eea"],
        vcpus=float(row["vcpus"]) if row["vcpus"] else None,
        ram_bytes=float(row["ram_gb"]) * GB if row["ram_gb"] else None,
        as_of=row["as_of"],
        as_of_kind="exact",
        source=row["source"],
        licence="MPL-2.0",
    )


@cache
def _sheet(name: str) -> tuple[Offer, ...]:
    """Offers of one folder of price tables, prices joined with their instance, place, source and note."""
    folder = DATA / "offers" / name
    if not folder.is_dir():  # a distribution may leave the marketplace snapshots out
        return ()
    instances = {(row["provider"], row["instance_type"]): _instance(row) for row in table(folder / "instances.csv")}
    places = {(row["provider"], row["region"]): _place(row) for row in table(folder / "regions.csv")}
    sources = _by_first_column(folder / "sources.csv")
    notes = _by_first_column(folder / "notes.csv")
    found = []
    for row in table(folder / "prices.csv"):
        note, source = notes.get(row["note"], {}), sources[row["source"]]
        estimated = ("spot",) if note.get("spot_estimated") else ()
        offer = Offer(
            provider=row["provider"],
            instance_type=row["instance_type"],
            region=row["region"],
            prices=tuple(
                Price(term=term, usd_per_hour=float(row[column]), estimated=term in estimated)
                for column, term in _PRICES.items()
                if row[column]
            ),
            as_of=source["as_of"],
            as_of_kind=source["as_of_kind"],
            source=source["text"],
            licence=source["licence"],
            notes=note.get("text", ""),
            history=note.get("history") == "1",
            marketplace=name == "marketplace",
            trust=_worse(source["trust"], note.get("trust", "")),
            kind=_KINDS.get(note.get("kind", "")) or _kind_of(row["provider"]),
            **instances[row["provider"], row["instance_type"]],
            **places[row["provider"], row["region"]],
        )
        found.append(offer)
    return tuple(found)


_TRUST: Final[dict[str, Trust]] = {"primary": "primary", "secondary": "secondary", "contradicted": "contradicted"}
_KINDS: Final[dict[str, OfferKind]] = {"serverless worker": "serverless worker", "marketplace": "marketplace"}


def _worse(source: str, note: str) -> Trust:
    """The lesser trust of a source and of a note on the row."""
    order = [*_TRUST]
    return _TRUST[max(source, note or source, key=order.index)]


@cache
def _kind_of(provider: str) -> OfferKind:
    known = providers().get(provider)
    return "marketplace" if known is not None and is_community(known) else "instance"


def _instance(row: Row) -> dict[str, Any]:
    """Fields of an offer that its instance type says, whatever the region: all numbers are of the whole machine."""
    return {
        "accelerator": row["accelerator"],
        "count": _positive(row, "count"),
        # A vCPU is a hyperthread on x86 clouds and a core on Graviton and some hosts: compare within a provider.
        "vcpus": number(row, "vcpus"),
        "ram_bytes": number(row, "ram_gb", factor=GB),
        "local_nvme_bytes": number(row, "local_nvme_gb", factor=GB),
        "nvlink": yes_no(row, "nvlink"),
        "network_bytes_per_s": number(row, "network_gbit_per_s", factor=_GBIT),
    }


def _place(row: Row) -> dict[str, Any]:
    country = countries().get(row["country"])
    if row["country"] and country is None:
        raise BadFact(f"{row['provider']} {row['region']}: country '{row['country']}' is not in countries.csv")
    return {"country": row["country"], **_unions(country)}


def _unions(country: Country | None) -> dict[str, bool | None]:
    return {"eu": None, "eea": None} if country is None else {"eu": country.eu, "eea": country.eea}


def _by_first_column(path: Path) -> dict[str, Row]:
    return {next(iter(row.values())): row for row in table(path)}


def _positive(row: Row, column: str) -> float:
    value = number(row, column)
    if value is None or value <= 0:
        raise BadFact(f"{row['provider']} {row['instance_type']}: {column} is '{row[column]}', but must be above zero")
    return value


def _own(given: Mapping[str, Any], *, where: str, additions: Additions) -> Offer:
    """The offer that one [[offer]] table of the user describes."""
    allowed = (*_OWN_TEXTS, *_OWN_QUANTITIES, "nvlink")
    for field in given:
        if field not in allowed:
            raise BadFact(f"{where}: {UnknownName('field', field, known=allowed)}")
    for field in _OWN_NEEDED:
        if not str(given.get(field, "")).strip():
            raise BadFact(f"{where}: {field} is missing; `tonnage catalog offers --template` shows a whole file")
    texts = {field: str(given[field]).strip() for field in _OWN_TEXTS if field in given}
    if not _DATE.fullmatch(texts["as_of"]):
        raise BadFact(f"{where}: as_of is '{echo(texts['as_of'])}', but a date is expected: 2026-11-21 or \"2026-11\"")
    try:
        part = accelerator(texts["accelerator"], additions)
        values = {field: _above_zero(field, given[field]) for field in _OWN_QUANTITIES if field in given}
    except BadRequest as error:
        raise BadFact(f"{where}: {error}") from None
    prices = tuple(Price(term=term, usd_per_hour=values[f]) for f, term in _OWN_PRICES.items() if f in values)
    if not prices:
        raise BadFact(f'{where}: no price is given; write at least one, such as on_demand = "$9.60/h"')
    nvlink = given.get("nvlink")
    if nvlink is not None and not isinstance(nvlink, bool):
        raise BadFact(f"{where}: nvlink is '{echo(nvlink)}', but true or false is expected")
    count = values.get("count", 1.0)
    country = texts.get("country", "").upper()
    if country and country not in countries():
        raise BadFact(f"{where}: {UnknownName('country', country, known=countries())}")
    union = _unions(countries().get(country))
    return Offer(
        provider=texts["provider"],
        instance_type=texts.get("instance_type", f"{count:g}x {part.id}"),
        accelerator=part.id,
        count=count,
        prices=prices,
        region=texts.get("region", ""),
        country=country,
        eu=union["eu"],
        eea=union["eea"],
        vcpus=values.get("vcpus"),
        ram_bytes=values.get("ram"),
        local_nvme_bytes=values.get("local_nvme"),
        nvlink=nvlink,
        network_bytes_per_s=values.get("network"),
        as_of=texts["as_of"],
        as_of_kind="exact",
        source=texts["source"],
        licence="own",
        notes=texts.get("notes", ""),
    )


def _above_zero(field: str, text: Any) -> float:
    value = read(text, _OWN_QUANTITIES[field], field=field)
    if value <= 0:
        raise BadRequest(f"{field}: '{echo(text)}' must be above zero; leave out what is not known")
    return value


COLUMNS: Final = ("provider", "instance_type", "accelerator", "count", "vcpus", "ram_gb", "region", "country",
                  "on_demand_usd_per_hour", "spot_usd_per_hour", "as_of", "source")  # fmt: skip
INDEX: Final = "index.json"
SCHEMA: Final = "tonnage.prices/1"
State = tuple[tuple[str, int, int], ...]
"""What tells whether the folder has changed: names, times and sizes of its files."""


class Snapshot(NamedTuple):
    """Prices of one provider."""

    provider: str
    as_of: str
    rows: tuple[Mapping[str, str], ...]


def snapshot_folder() -> Path:
    """Where snapshots are kept; it need not exist."""
    from platformdirs import user_data_path

    return user_data_path("tonnage", appauthor=False) / "prices"


def state(folder: Path | None = None) -> State:
    """The state of the folder, cheap to ask."""
    place = folder or snapshot_folder()
    try:
        found = [(entry.name, entry.stat().st_mtime_ns, entry.stat().st_size) for entry in os.scandir(place)]
    except OSError:
        return ()
    return tuple(sorted(found))


def index_entries(folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """What the index says of each provider: file, checksum, date, rows; of the one before, too."""
    try:
        index = json.loads(((folder or snapshot_folder()) / INDEX).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    providers = index.get("providers") if isinstance(index, dict) and index.get("schema") == SCHEMA else None
    return providers if isinstance(providers, dict) else {}


def snapshots(folder: Path | None = None) -> tuple[Snapshot, ...]:
    """Every whole snapshot of the folder."""
    place = folder or snapshot_folder()
    found = (_read(place, provider, told) for provider, told in sorted(index_entries(place).items()))
    return tuple(snapshot for snapshot in found if snapshot is not None)


def _read(place: Path, provider: str, told: Mapping[str, Any]) -> Snapshot | None:
    try:
        data = (place / Path(str(told["file"])).name).read_bytes()
        if hashlib.sha256(data).hexdigest() != told["sha256"]:
            return None
        rows = tuple(csv.DictReader(io.StringIO(data.decode("utf-8"))))
    except (OSError, KeyError, TypeError, ValueError, csv.Error):
        return None
    whole = all(set(COLUMNS) <= set(row) and None not in row.values() for row in rows)
    return Snapshot(provider, str(told.get("as_of", "")), rows) if whole and rows else None


def keep_prices(provider: str, rows: Iterable[Mapping[str, str]], *, as_of: str, folder: Path | None) -> None:
    """
    Keep the prices of a provider; those before stay for `roll_back`. All or, when it fails, none.

    Raises
    ------
    BadFact
        The folder cannot be written.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    data = text.getvalue().encode()
    checksum = hashlib.sha256(data).hexdigest()
    name = f"{provider}-{checksum[:12]}.csv"
    with _written(folder) as (place, index):
        write_whole(place / name, data)
        before = {key: value for key, value in index.get(provider, {}).items() if key != "before"}
        told = {"file": name, "sha256": checksum, "as_of": as_of, "rows": data.count(b"\n") - 1}
        again = before.get("sha256") == checksum
        index[provider] = told | ({"before": index[provider].get("before")} if again else {"before": before or None})


def roll_back(providers: Iterable[str] = (), *, folder: Path | None = None) -> tuple[str, ...]:
    """Go back to the prices before, of these providers or of all; returns those that had any."""
    with _written(folder) as (_, index):
        selected = tuple(providers) or tuple(index)
        back = tuple(name for name in selected if name in index and index[name].get("before"))
        for name in back:
            index[name] = {**index[name]["before"], "before": None}
    return back


def drop(providers: Iterable[str] = (), *, folder: Path | None = None) -> tuple[str, ...]:
    """Go back to the shipped prices, of these providers or of all; returns those that had a snapshot."""
    with _written(folder) as (_, index):
        return tuple(name for name in (tuple(providers) or tuple(index)) if index.pop(name, None) is not None)


@contextmanager
def _written(folder: Path | None) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The folder and its index, kept after the block; others wait (a lock of SQLite's, which ends with its holder)."""
    import sqlite3

    place = folder or snapshot_folder()
    try:
        place.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(place / "lock", timeout=60)) as lock:
            lock.execute("BEGIN EXCLUSIVE")
            index = index_entries(place)
            yield place, index
            write_whole(place / INDEX, json.dumps({"schema": SCHEMA, "providers": index}, indent=1).encode())
            kept = {told["file"] for now in index.values() for told in (now, now.get("before")) if told}
            for path in place.glob("*.csv"):
                if path.name not in kept:
                    path.unlink(missing_ok=True)
    except (OSError, sqlite3.Error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadFact(f"prices cannot be kept in '{echo(place)}': {why.lower()}") from None
