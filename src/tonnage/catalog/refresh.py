"""
Live prices through gpuhunt and models through the hub: fetched, checked against what is known, and only then kept.

Each provider stands alone: one that fails, or whose prices look wrong, keeps what it had, and says why. An instance
whose accelerator is not in the catalogue is counted and left out; a country comes from the shipped regions, or is
unknown. `GPUHUNT_CATALOG_URL` names another place than gpuhunt's.

Each model stands alone as well. One that the catalogue lacks is known offline afterwards; one that it has stays as the
catalogue says, for those facts were checked, and the fields in which the hub differs are named.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import logging
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, Final

from tonnage.catalog.accelerators import accelerator
from tonnage.catalog.hub import online
from tonnage.catalog.hub.resolve import read_repository
from tonnage.catalog.models import model
from tonnage.catalog.offers import keep_prices, offers
from tonnage.domain.listing import Refresh, Refreshed, RefreshedModel, RefreshedModels
from tonnage.domain.model import Model
from tonnage.domain.money import Offer
from tonnage.errors import BadFact, BadRequest, TonnageError, UnknownName, echo
from tonnage.fetch import open_url
from tonnage.foreign import plain_text
from tonnage.units import GB

PROVIDERS: Final = {"lambdalabs": "lambda"}
"""Our name of a provider, where gpuhunt has another."""
WITHIN_S: Final = 300.0
"""For each file of a provider. [s]"""
MAX_VERSION_BYTES: Final = 100
MAX_ZIP_BYTES: Final = 64 << 20
MAX_CSV_BYTES: Final = 256 << 20
"""Of a provider; the largest that is published has a few MB."""
Fetched = tuple[str, list[Any]]
MIN_USD, MOST_USD = 0.01, 200.0
"""An accelerator-hour costs more than a cent and less than this anywhere; what is outside is a mistake. [USD/h]"""
MOST_PARTS: Final = 10_000
"""Accelerators of an instance."""
MAX_CHANGE: Final = 3.0
"""By more than this, up or down, the middle price of a provider does not move between two looks."""
MAX_BROKEN_SHARE: Final = 0.3
"""Share of rows without a sane price from which on nothing of a provider is believed."""
MEMORY_SLACK: Final = 0.15
"""Clouds state memory in GB or GiB, before or after what is reserved."""


def refresh(
    providers: Iterable[str] = (),
    *,
    folder: Path | None = None,
    today: date | None = None,
    watch: Callable[[str], None] = lambda _: None,
) -> Refreshed:
    """
    Fetch the prices of these providers, or of all that gpuhunt publishes.

    Raises
    ------
    BadRequest
        gpuhunt is not installed.
    UnknownName
        gpuhunt does not publish that provider.
    BadFact
        Nothing could be fetched at all.
    """
    _need_gpuhunt()
    names = tuple(_names(providers, known=_published_providers()))
    fetched = _load(names)
    at = today or datetime.now(UTC).date()
    told = []
    for name in names:
        watch(name)
        told.append(_refresh_provider(name, fetched[name], folder=folder, at=at))
    if not any(one.kept for one in told):
        reasons = "; ".join(dict.fromkeys(f"{one.provider}: {one.why}" for one in told))
        raise BadFact(f"no prices were refreshed, and those known stay: {reasons}")
    return Refreshed(refreshed=tuple(told), source="dstackai/gpuhunt (MPL-2.0)")


def _need_gpuhunt() -> None:
    if importlib.util.find_spec("gpuhunt") is None:
        raise BadRequest("refreshing prices needs gpuhunt: pip install 'tonnage[prices]'")


def _published_providers() -> tuple[str, ...]:
    from gpuhunt._internal.catalog import OFFLINE_PROVIDERS

    return tuple(OFFLINE_PROVIDERS)


def _load(names: tuple[str, ...]) -> dict[str, Fetched | str]:
    """Version and rows of each provider, by gpuhunt's name, or why there are none."""
    logging.getLogger("gpuhunt").setLevel(logging.CRITICAL)  # rows that it cannot read
    with ThreadPoolExecutor(max(1, len(names))) as pool:
        return dict(zip(names, pool.map(_load_provider, names), strict=True))


def _load_provider(name: str) -> Fetched | str:
    """Version and rows of one provider, or why there are none: gpuhunt's reader, but not its client."""
    from gpuhunt._internal.catalog import CATALOG_URL
    from gpuhunt._internal.storage import load

    url = f"{os.environ.get('GPUHUNT_CATALOG_URL') or CATALOG_URL}".rstrip("/") + f"/{name}"
    try:
        version = _get(f"{url}/version", most=MAX_VERSION_BYTES).decode("ascii").strip()
        if not re.fullmatch(r"[\w.-]+", version):
            return f"'{echo(version)}' is no version of prices"
        with zipfile.ZipFile(io.BytesIO(_get(f"{url}/{version}/catalog.zip", most=MAX_ZIP_BYTES))) as file:
            rows = file.open(f"{name}.csv").read(MAX_CSV_BYTES + 1)
        if len(rows) > MAX_CSV_BYTES:
            return f"its table has more than {MAX_CSV_BYTES} bytes"
        return version, list(load(io.StringIO(rows.decode("utf-8"), newline=""), provider=name))
    except BadFact as wrong:
        return f"could not be fetched: {wrong}"
    except (zipfile.BadZipFile, zlib.error, csv.Error, KeyError, ValueError, EOFError, RuntimeError) as wrong:
        return f"what was fetched is no table of prices: {echo(wrong)}"


def _get(url: str, *, most: int) -> bytes:
    with open_url(url, within_s=WITHIN_S, headers={"User-Agent": "tonnage"}) as answer:
        found = answer.read(most + 1)
    if len(found) > most:
        raise BadFact(f"'{echo(url)}' sends more than {most} bytes")
    return found


def _names(named: Iterable[str], *, known: tuple[str, ...]) -> Iterable[str]:
    """gpuhunt's names of providers given by our name or by its own; of all where none is given."""
    theirs = {PROVIDERS.get(name, name): name for name in known}
    wanted = tuple(named) or tuple(theirs)
    for name in wanted:
        if name not in theirs and name not in known:
            raise UnknownName("provider", name, known=theirs)
    return (theirs.get(name, name) for name in wanted)


def _refresh_provider(name: str, fetched: Fetched | str, *, folder: Path | None, at: date) -> Refresh:
    """Keep the prices of one provider, by gpuhunt's name, or say why not."""
    ours = PROVIDERS.get(name, name)
    if isinstance(fetched, str):
        return Refresh(provider=ours, why=fetched)
    version, items = fetched
    as_of = _date_of(version, at)
    try:
        rows, left_out = _rows(ours, items, as_of=as_of, version=version)
        moved = _check_prices(ours, rows)
    except BadFact as wrong:
        return Refresh(provider=ours, as_of=as_of, why=str(wrong))
    keep_prices(ours, rows, as_of=as_of, folder=folder)
    return Refresh(provider=ours, as_of=as_of, kept=len(rows), left_out=left_out, moved=moved)


def _date_of(version: str, at: date) -> str:
    """The day of a version such as 20261120-71; else today."""
    found = re.match(r"(20\d\d)(\d\d)(\d\d)", version)
    try:
        told = date(*map(int, found.groups())) if found else at
    except ValueError:
        told = at
    return min(told, at).isoformat()


def _rows(provider: str, items: list[Any], *, as_of: str, version: str) -> tuple[list[dict[str, str]], int]:
    """
    A row of each instance and region with its lowest prices, and how many kinds of instances were left out.

    An instance has the accelerators of the shipped offer of that type, else those that gpuhunt's name means.
    """
    parts = {offer.instance_type: (offer.accelerator, offer.count) for offer in _shipped_offers(provider)}
    countries = {offer.region: offer.country for offer in _shipped_offers(provider) if offer.country}
    found: dict[tuple[str, str], dict[str, str]] = {}
    unknown: set[str] = set()
    with_accelerator = [item for item in items if item.gpu_count and item.gpu_name]
    broken = 0
    for item in with_accelerator:
        if not (0 < item.gpu_count <= MOST_PARTS and MIN_USD <= item.price / item.gpu_count <= MOST_USD):
            broken += 1
            continue
        plain_text(f"{item.instance_name} {item.location}", where="an instance")
        part = parts.get(item.instance_name, (_part_of(item), float(item.gpu_count)))
        if part[0] is None:
            unknown.add(item.instance_name)
            continue
        row = found.setdefault(
            (item.instance_name, item.location),
            {
                "provider": provider,
                "instance_type": item.instance_name,
                "accelerator": str(part[0]),
                "count": f"{part[1]:g}",
                "vcpus": str(item.cpu or ""),
                "ram_gb": f"{item.memory * 1.073741824:g}" if 0 <= item.memory < inf else "",
                "region": item.location,
                "country": countries.get(item.location, ""),
                "on_demand_usd_per_hour": "",
                "spot_usd_per_hour": "",
                "as_of": as_of,
                "source": f"dstackai/gpuhunt catalogue v3 {version} (MPL-2.0)",
            },
        )
        column = "spot_usd_per_hour" if item.spot else "on_demand_usd_per_hour"
        row[column] = min(row[column] or f"{item.price:g}", f"{item.price:g}", key=float)
    if broken > MAX_BROKEN_SHARE * max(len(with_accelerator), 1):
        raise BadFact(f"{broken} of {len(with_accelerator)} prices are outside of {MIN_USD} to {MOST_USD:g} USD/h")
    return list(found.values()), len(unknown)


def _shipped_offers(provider: str) -> Iterable[Offer]:
    return (offer for offer in offers() if offer.provider == provider)


def _part_of(item: Any) -> str | None:
    """The accelerator that gpuhunt's name and memory mean; none when that is not certain."""
    memory = float(item.gpu_memory or 0)
    for name in (f"{item.gpu_name} {memory:g}GB", str(item.gpu_name)):
        try:
            part = accelerator(name)
        except TonnageError:
            continue
        if not memory or abs(part.memory_bytes / (memory * GB) - 1) <= MEMORY_SLACK:
            return part.id
    return None


def _check_prices(provider: str, rows: list[Mapping[str, str]] | list[dict[str, str]]) -> float | None:
    """
    Median ratio of the on-demand prices to those shipped; None where they have no instance in common.

    Raises
    ------
    BadFact
        There are no rows, or the ratio is none that a market moves by.
    """
    if not rows:
        raise BadFact("none of its instances has an accelerator that the catalogue knows")
    before = {
        (offer.instance_type, offer.region): price.usd_per_hour
        for offer in _shipped_offers(provider)
        for price in offer.prices
        if price.term == "on-demand"
    }
    ratios = [
        float(row["on_demand_usd_per_hour"]) / before[key]
        for row in rows
        if row["on_demand_usd_per_hour"] and (key := (row["instance_type"], row["region"])) in before
    ]
    if not ratios:
        return None
    moved = median(ratios)
    if not 1 / MAX_CHANGE <= moved <= MAX_CHANGE:
        raise BadFact(f"its prices moved to {moved:.2g} times those known; {echo(provider)} changed units, or is wrong")
    return moved


NAMED: Final = frozenset(
    ("id", "family", "kind", "licence", "source", "notes", "assumed", "published_parameters",
     "published_active_parameters", "stored_weight_bytes", "mtp_layers"),
)  # fmt: skip
"""What a config.json does not say, or says by another name than the catalogue."""


def refresh_models(names: Iterable[str], *, watch: Callable[[str], None] = lambda _: None) -> RefreshedModels:
    """
    Ask the hub for these models anew.

    Raises
    ------
    BadRequest
        A name is no name of a model on a hub, or the environment forbids asking.
    BadFact
        Nothing could be fetched at all.
    """
    if online.offline_by_choice():
        raise BadRequest("HF_HUB_OFFLINE or TONNAGE_OFFLINE is set: refreshing models asks a hub; unset it")
    told = []
    for name, repo in [(name, _repository(name)) for name in dict.fromkeys(names)]:
        watch(name)
        told.append(_refreshed_model(name, repo))
    if all(one.why for one in told):
        raise BadFact("no model was refreshed, and what is known stays: " + "; ".join(one.why for one in told))
    return RefreshedModels(refreshed=tuple(told), source=online.host())


def _repository(name: str) -> online.Repository:
    repo = online.repository(name)
    if repo is None:
        raise BadRequest(f"model '{echo(name)}' names no model on a hub; expected OWNER/NAME")
    return repo


def _refreshed_model(name: str, repo: online.Repository) -> RefreshedModel:
    """What the hub says of a model now; where it cannot be fetched or read, why."""
    known = _find_model(name)
    try:
        online.fetch(repo, "config.json", or_cached=False)
        found = read_repository(repo)
    except TonnageError as wrong:
        return RefreshedModel(model=name, why=str(wrong))
    return RefreshedModel(
        model=name, known=known is not None, differs=() if known is None else _differing_fields(known, found)
    )


def _find_model(name: str) -> Model | None:
    try:
        return model(name)
    except UnknownName:
        return None


def _differing_fields(known: Model, found: Model) -> tuple[str, ...]:
    """The fields that the two tell differently, of those that a config.json says."""
    return tuple(
        field
        for field in known.__struct_fields__
        if field not in NAMED and getattr(known, field) != getattr(found, field)
    )
