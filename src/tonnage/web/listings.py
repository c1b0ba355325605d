"""Catalogue pages: accelerators, models, prices and accuracy as tables that are searched, filtered and sorted.

The address holds it all: q (words), sort, page, and one field for each filter. The same address gives CSV and JSON.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec

from tonnage import catalog
from tonnage.catalog import model_name, part_name, provider_name
from tonnage.catalog.listings import accelerators_listing, models_listing, offers_listing
from tonnage.catalog.rows import DATA, table
from tonnage.domain.listing import Listing
from tonnage.errors import UnknownName
from tonnage.record import Record
from tonnage.report.listing import cell_text, unit_text

PAGE: Final = 100
"""Rows of one page."""
MOST_VALUES: Final = 16
"""Values of a filter that are listed; rarer ones are found by searching."""


class _Kind(NamedTuple):
    title: str
    about: str
    columns: tuple[str, ...]
    filters: tuple[str, ...]
    name: str
    """The column that names a row."""
    say: Callable[[str], str]
    sort: str
    read: Callable[[catalog.Additions], Listing]


def today() -> date:
    """The day in UTC, which prices are told old or new on."""
    return datetime.now(UTC).date()


LISTINGS: Final[dict[str, _Kind]] = {
    "accelerators": _Kind(
        "Accelerators", "Memory, bandwidth, peaks, power and the lowest price of one; marketplaces counted in.",
        ("id", "price", "provider", "memory", "bandwidth", "bf16", "fp8", "power", "link", "as_of"),
        ("vendor", "segment", "status", "memory_type"), "id", part_name, "price",
        lambda additions: accelerators_listing(today=today(), additions=additions),
    ),
    "models": _Kind(
        "Models", "Counts as their publishers state them, absent where no source gives any.",
        ("id", "family", "kind", "parameters", "active", "layers", "context", "native_dtype", "licence"),
        ("kind", "family", "licence", "native_dtype"), "id", model_name, "id",
        lambda additions: models_listing(catalog.models(additions), today=today()),
    ),
    "prices": _Kind(
        "Prices", "Offers by the price of one accelerator-hour, each with its date.",
        ("accelerator", "price", "provider", "instance_type", "count", "region", "spot", "reserved_1y", "as_of"),
        ("provider", "country", "marketplace", "accelerator"), "accelerator", part_name, "price",
        lambda additions: offers_listing(today=today(), additions=additions),
    ),
}  # fmt: skip
"""Path -> the table that it shows."""


class Facet(Record, kw_only=True):
    """A value of a filter: how many rows have it, the address with it set or taken back; none of rarer ones."""

    text: str
    rows: int
    href: str
    on: bool


class ListingView(Record, kw_only=True):
    """What the template fills in."""

    path: str
    title: str
    about: str
    q: str
    heads: tuple[Mapping[str, Any], ...]
    rows: tuple[tuple[str, ...], ...]
    links: tuple[str, ...]
    """Where the name of each row leads."""
    facets: tuple[tuple[str, tuple[Facet, ...]], ...]
    kept: tuple[tuple[str, str], ...]
    """Filters that are set, as hidden fields of the search."""
    total: int
    """Rows of the whole table."""
    found: int
    """Rows that the search and the filters leave."""
    more: str
    """Address of the next page; empty on the last."""
    query: str


def listing_view(path: str, given: Mapping[str, str], *, additions: catalog.Additions) -> ListingView:
    """
    A table of the catalogue as the address asks for it.

    Raises
    ------
    UnknownName
        The address names a filter or column that the table has not.
    """
    kind = LISTINGS[path]
    listing = kind.read(additions)
    rows = _find_rows(kind, listing, given)
    page = max(1, int(given["page"])) if given.get("page", "").isdecimal() else 1
    shown = rows[(page - 1) * PAGE : page * PAGE]
    units = {column.name: column.unit for column in listing.columns}
    day = today()
    asked = {name: value for name, value in given.items() if name != "page" and value}
    sort = asked.get("sort", kind.sort)
    heads = tuple(
        {
            "name": name,
            "text": name.replace("_", " ").replace("id", path[:-1] if name == "id" else "id"),
            "unit": unit_text(units[name]),
            "number": units[name] not in ("text", "date", "yes/no"),
            "sorted": "descending" if sort == f"-{name}" else "ascending" if sort == name else "",
            "href": _address(path, {**asked, "sort": f"-{name}" if sort == name else name}),
        }
        for name in kind.columns
    )
    cells = tuple(
        tuple(
            kind.say(row[name])
            if name == kind.name
            else provider_name(row[name])
            if name == "provider" and row[name]
            else cell_text(row[name], units[name], today=day)
            for name in kind.columns
        )
        for row in shown
    )
    more = _address(path, {**asked, "page": str(page + 1)}) if page * PAGE < len(rows) else ""
    return ListingView(
        path=path,
        title=kind.title,
        about=kind.about,
        q=asked.get("q", ""),
        heads=heads,
        rows=cells,
        links=tuple(_leads(path, row) for row in shown),
        facets=_facets(path, kind, listing, asked),
        kept=tuple((name, value) for name, value in asked.items() if name != "q"),
        total=len(listing.rows),
        found=len(rows),
        more=more,
        query=urlencode(asked),
    )


def listing_csv(path: str, given: Mapping[str, str], *, additions: catalog.Additions) -> str:
    """All rows that the address asks for, every column, in base units."""
    kind = LISTINGS[path]
    listing = kind.read(additions)
    held = io.StringIO()
    names = [column.name for column in listing.columns]
    writer = csv.writer(held, lineterminator="\n")
    writer.writerow(
        f"{c.name} [{c.unit}]" if c.unit not in ("text", "date", "yes/no") else c.name for c in listing.columns
    )
    writer.writerows([_plain(row[name]) for name in names] for row in _find_rows(kind, listing, given))
    return held.getvalue()


def listing_json(path: str, given: Mapping[str, str], *, additions: catalog.Additions) -> bytes:
    """The same rows as JSON, as `tonnage catalog --json` writes them."""
    kind = LISTINGS[path]
    listing = kind.read(additions)
    return msgspec.json.encode(msgspec.structs.replace(listing, rows=tuple(_find_rows(kind, listing, given))))


def accuracy_rows() -> list[dict[str, str]]:
    """Errors of predictions on what no fit had seen, a row each figure and group left out."""
    return list(table(DATA / "accuracy.csv"))


def counts(additions: catalog.Additions) -> list[tuple[str, str, str, str]]:
    """Path, number, name and a remark of each table, for the front page."""
    accelerators, models, offers = (LISTINGS[name].read(additions).rows for name in LISTINGS)
    priced = sum(row["price"] is not None for row in accelerators)
    vendors = len({row["vendor"] for row in accelerators})
    newest = max((row["as_of"] for row in offers if row["as_of"]), default="")
    sellers = len({row["provider"] for row in offers})
    return [
        ("accelerators", f"{len(accelerators):,}", "accelerators", f"{vendors} vendors, {priced} with a price"),
        ("models", f"{len(models):,}", "models", "with size, licence, context"),
        ("prices", f"{len(offers):,}", "prices", f"{sellers} providers, to {newest}"),
    ]


def cheapest_rows(additions: catalog.Additions, names: Sequence[str]) -> list[tuple[str, str, str, str]]:
    """Name, memory, bandwidth and lowest on-demand price of some accelerators, the highest of those first."""
    found = accelerators_listing(catalog.filters.Wanted(accelerators=tuple(names)), today=today(), additions=additions)
    return [
        (
            part_name(row["id"]),
            f"{row['memory'] / 2**30:,.0f} GiB",
            f"{row['bandwidth'] / 1e12:.1f} TB/s",
            "–" if row["price"] is None else f"${row['price']:,.2f}",
        )
        for row in sorted(found.rows, key=lambda row: -(row["price"] or 0.0))
    ]


def _find_rows(kind: _Kind, listing: Listing, given: Mapping[str, str]) -> list[dict[str, Any]]:
    """Rows that hold every word and filter of the address, sorted as it says; unknown values last."""
    for name in given:
        if name not in ("q", "sort", "page", "format", *kind.filters):
            raise UnknownName("filter", name, known=("q", "sort", "page", *kind.filters))
    sort = given.get("sort") or kind.sort
    by = sort.removeprefix("-")
    if by not in {column.name for column in listing.columns}:
        raise UnknownName("column", by, known=[column.name for column in listing.columns])
    words = given.get("q", "").lower().split()
    wanted = {name: given[name] for name in kind.filters if given.get(name)}
    rows = [
        row
        for row in listing.rows
        if all(_plain(row[name]) == value for name, value in wanted.items())
        and all(word in _search_text(row, kind) for word in words)
    ]
    known = [row for row in rows if row[by] is not None]
    known.sort(key=lambda row: row[by], reverse=sort.startswith("-"))
    return [*known, *(row for row in rows if row[by] is None)]


def _search_text(row: Mapping[str, Any], kind: _Kind) -> str:
    texts = (*(value for value in row.values() if isinstance(value, str)), kind.say(row[kind.name]))
    return " ".join(texts).lower()


def _facets(
    path: str, kind: _Kind, listing: Listing, asked: Mapping[str, str]
) -> tuple[tuple[str, tuple[Facet, ...]], ...]:
    """Every filter with its most frequent values, counted under the other filters that are set."""
    found = []
    for name in kind.filters:
        others = {key: value for key, value in asked.items() if key != name}
        counted = Counter(_plain(row[name]) for row in _find_rows(kind, listing, others))
        values = []
        chosen = asked.get(name, "")
        for text, rows in {**dict(counted.most_common(MOST_VALUES)), chosen: counted[chosen]}.items():
            on = chosen == text
            if text:
                href = _address(path, others if on else {**others, name: text})
                values.append(Facet(text=_value_text(kind, name, text), rows=rows, href=href, on=on))
        if (rarer := sum(map(bool, counted)) - len(values)) > 0:
            values.append(Facet(text=f"{rarer} rarer: by search", rows=0, href="", on=False))
        found.append((name.replace("_", " "), tuple(values)))
    return tuple(found)


def _value_text(kind: _Kind, name: str, value: str) -> str:
    """A value of a filter as people write it."""
    return kind.say(value) if name == kind.name else provider_name(value) if name == "provider" else value


def _plain(value: Any) -> str:
    if value is None:
        return ""
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _address(path: str, asked: Mapping[str, str]) -> str:
    return f"/{path}?{urlencode(asked)}" if asked else f"/{path}"


def _leads(path: str, row: Mapping[str, Any]) -> str:
    """Where the name of a row leads: a model to its plan or fit, the others to the page of their accelerator."""
    if path == "models":
        return (
            f"/plan/serve?{urlencode({'model': row['id'], 'rate': '1/s', 'traffic': 'chat'})}"
            if row["kind"] == "llm"
            else f"/fit?{urlencode({'model': row['id'], 'accelerator': 'H100'})}"
        )
    return f"/accelerators/{row['id' if path == 'accelerators' else 'accelerator']}"
