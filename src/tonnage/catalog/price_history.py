"""
How did prices of accelerators move, and which of the book should nobody count on?

A point is what a provider asked for one accelerator-hour on a day: the least of its instances, superseded prices and
those of earlier years and releases (`prices/history.csv`, to which each release adds its day) included. The market on
a day is the median over the providers' last prices until then; its spread their tenth and ninetieth percentiles.

The fall is that of sellers, not of the mix of sellers: from each provider with two prices at least ninety days apart
the logarithm of last over first by the years between; of an accelerator the median of those, where there are three. All
accelerators together say how fast the market falls where one has too few. These are list prices of one seller each:
that a newcomer asks less than all before is in the market's path, and not in the fall.

Audited, the market price of an accelerator is the median over providers of the cheapest that each lists on demand, by
sellers' own statements; with fewer than four of them there is no market to be far from. Nothing here changes a price:
what is found is shown, and a row that is wrong gets its tier in the notes and sources of the book.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import lru_cache
from itertools import groupby
from statistics import median, quantiles
from typing import Any, Final, NamedTuple

from tonnage.catalog.accelerators import accelerators
from tonnage.catalog.additions import NOTHING, Additions
from tonnage.catalog.filters import Order, per_accelerator
from tonnage.catalog.offers import offers
from tonnage.catalog.providers import providers
from tonnage.catalog.rows import DATA, table
from tonnage.domain.listing import Column, Listing
from tonnage.domain.money import STALE_AFTER_DAYS, Offer, PriceFall, is_stale
from tonnage.errors import UnknownName
from tonnage.units import percent

LEAST_DAYS: Final = 90
"""Between two prices of one seller, for their ratio to say anything."""
PAIRS: Final = 3
"""Sellers with such prices, for an accelerator to have a fall of its own."""
FORGOTTEN_DAYS: Final = 400
"""A price that old no longer belongs to the market of a day."""
FILE: Final = ("prices", "history.csv")
HISTORY_COLUMNS: Final = tuple(
    Column(name=name, unit=unit)
    for name, unit in (
        ("accelerator", "text"),
        ("date", "date"),
        ("market", "USD/h"),
        ("low", "USD/h"),
        ("high", "USD/h"),
        ("sellers", "count"),
        ("fall", "1/year"),
        ("pairs", "count"),
    )
)


class PricePoint(NamedTuple):
    """What a provider asked for one accelerator-hour."""

    date: str
    provider: str
    accelerator: str
    term: str
    usd_per_hour: float
    source: str = ""


class Fall(NamedTuple):
    """How fast prices fall."""

    per_year: float
    """-d ln(price) / dt: 0.2 = 18 % a year; below 0 they rise. [1/year]"""
    pairs: int
    """Sellers behind it."""
    low: float
    high: float
    """Least and most of them. [1/year]"""
    rates: tuple[float, ...] = ()
    """Each of them. [1/year]"""


class MarketDay(NamedTuple):
    """The market of an accelerator on a day."""

    date: str
    usd_per_hour: float
    low: float
    high: float
    sellers: int


SPREAD_TEXT: Final = (
    "low and high are the 10th and 90th percentile over sellers of their newest on-demand price: one seller may ask"
    " less, and plans take it (`tonnage catalog offers`)"
)


def price_points(additions: Additions = NOTHING) -> tuple[PricePoint, ...]:
    """Every dated on-demand price, the oldest first; the cheapest of a seller's instances on a day."""
    return _points(offers(additions=additions))


@lru_cache(maxsize=4)
def _points(book: tuple[Any, ...]) -> tuple[PricePoint, ...]:
    least: dict[tuple[str, str, str, str], PricePoint] = {}
    for point in (*_of_book(book), *_of_releases()):
        known = least.get(point[:4])
        if known is None or point.usd_per_hour < known.usd_per_hour:
            least[point[:4]] = point
    return tuple(sorted(least.values()))


def _of_book(book: Iterable[Any]) -> Iterator[PricePoint]:
    parts = {id for id in accelerators() if not id.startswith("cpu-")}
    for offer in book:
        price = offer.usd_per_hour("on-demand")
        sold = offer.kind == "instance" and offer.trust == "primary" and offer.count >= 1 and offer.as_of
        if price is not None and sold and offer.accelerator in parts:
            each = price / offer.count
            yield PricePoint(offer.as_of, offer.provider, offer.accelerator, "on-demand", each, offer.source)


def _of_releases() -> Iterator[PricePoint]:
    path = DATA / FILE[0] / FILE[1]
    if path.is_file():
        for row in table(path):
            price, source = float(row["usd_per_hour"]), row.get("source") or ""
            yield PricePoint(row["date"], row["provider"], row["accelerator"], row["term"], price, source)


def market_path(points: Iterable[PricePoint], accelerator: str) -> tuple[MarketDay, ...]:
    """The market on every day that some seller's price is of, from points of which the oldest come first. [USD/h]"""
    mine = [point for point in points if point.accelerator == accelerator]
    found = []
    for day in sorted({point.date for point in mine}):
        last: dict[str, float] = {}
        for point in mine:
            if point.date <= day and _days(point.date, day) <= FORGOTTEN_DAYS:
                last[point.provider] = point.usd_per_hour
        low, high = _spread(list(last.values()))
        found.append(MarketDay(day, median(last.values()), low, high, len(last)))
    return tuple(found)


def _spread(prices: list[float]) -> tuple[float, float]:
    if len(prices) < 2:
        return prices[0], prices[0]
    cuts = quantiles(prices, n=10, method="inclusive")
    return cuts[0], cuts[-1]


def price_fall(points: Iterable[PricePoint], accelerator: str | None = None) -> Fall | None:
    """
    How fast sellers lowered their prices, of one accelerator or of all; None where fewer than three show it.

    The oldest of the points come first.
    """
    sellers: dict[tuple[str, str], list[PricePoint]] = {}
    for point in points:
        if accelerator in (None, point.accelerator):
            sellers.setdefault((point.provider, point.accelerator), []).append(point)
    falls = [fall for path in sellers.values() if (fall := seller_fall(path)) is not None]
    if len(falls) < PAIRS:
        return None
    return Fall(median(falls), len(falls), min(falls), max(falls), tuple(sorted(falls)))


def seller_fall(path: Sequence[PricePoint]) -> float | None:
    """How fast one seller's price of one accelerator fell between its first and last day; absent of a short time."""
    days = _days(path[0].date, path[-1].date)
    if days < LEAST_DAYS:
        return None
    return math.log(path[0].usd_per_hour / path[-1].usd_per_hour) / (days / 365.25)


def expected_fall(part: str, additions: Additions = NOTHING) -> PriceFall:
    """
    How fast on-demand prices of an accelerator are taken to fall: by its own sellers where three say, else by all.

    The middle seller's rate, and the tenth and ninetieth percentile; without any, no fall and no spread.
    """
    return _expected(offers(additions=additions), part)


@lru_cache(maxsize=256)
def _expected(book: tuple[Any, ...], part: str) -> PriceFall:
    points = _points(book)
    own = price_fall(points, part)
    fall, whose = (own, part) if own is not None else (price_fall(points), "all accelerators")
    if fall is None:
        return PriceFall(per_year=0.0, low=0.0, high=0.0, whose="nobody")
    low, high = _spread(list(fall.rates))
    return PriceFall(per_year=fall.per_year, low=low, high=high, rates=fall.rates, whose=whose)


def _days(before: str, now: str) -> int:
    return (_day(now) - _day(before)).days


def _day(text: str) -> date:
    """A month without a day counts from its middle."""
    return date.fromisoformat(text if len(text) == 10 else f"{text}-15")


def prices_listing(
    names: Iterable[str] = (),
    *,
    every: bool,
    today: date,
    additions: Additions = NOTHING,
    order: Order | None = None,
) -> Listing:
    """The market of each accelerator on its last day, or on all its days, and how fast sellers lower its price."""
    from tonnage.catalog.accelerators import accelerator

    points = price_points(additions)
    named = [accelerator(name, additions=additions).id for name in names]
    rows = []
    for part in named or sorted({point.accelerator for point in points}):
        fall = price_fall(points, part)
        path = market_path(points, part)
        for day in path if every else path[-1:]:
            rows.append(
                {
                    "accelerator": part,
                    "date": day.date,
                    "market": day.usd_per_hour,
                    "low": day.low,
                    "high": day.high,
                    "sellers": float(day.sellers),
                    "fall": fall.per_year if fall else None,
                    "pairs": float(fall.pairs) if fall else None,
                }
            )
    kept = _sort_rows(rows, order or Order())
    return Listing(
        kind="prices",
        columns=HISTORY_COLUMNS,
        rows=kept,
        notes=(fall_text(price_fall(points)), SPREAD_TEXT),
        today=today.isoformat(),
    )


def _sort_rows(rows: list[dict[str, Any]], order: Order) -> tuple[dict[str, Any], ...]:
    if order.sort:
        known = [column.name for column in HISTORY_COLUMNS]
        if order.sort not in known:
            raise UnknownName("column", order.sort, known=known)
        there = sorted((row for row in rows if row[order.sort] is not None), key=lambda row: row[order.sort])
        rows = [*there, *(row for row in rows if row[order.sort] is None)]
    rows = rows[::-1] if order.reverse else rows
    return tuple(rows[: order.limit] if order.limit else rows)


def fall_text(fall: Fall | None) -> str:
    """How fast the whole market falls, in words."""
    if fall is None:
        return "fewer than three sellers have two prices ninety days apart: how fast prices fall is not known"
    say = "fell" if fall.per_year >= 0 else "rose"
    return (
        f"of {fall.pairs} sellers with prices at least {LEAST_DAYS} days apart the middle one {say} by "
        f"{percent(abs(1 - math.exp(-fall.per_year)))} a year ({_change(fall.low)} to {_change(fall.high)})"
    )


def _change(per_year: float) -> str:
    return percent(math.exp(-per_year) - 1, sign="+")


OUTLIER: Final = 2.0
"""Times the market price, or below it, from which a price is shown as an outlier. [-]"""
SELLERS: Final = 4
"""Providers that make a market."""
APART: Final = 0.10
"""Two prices of one thing that differ by more contradict each other. [-]"""

AUDIT_COLUMNS: Final = tuple(
    Column(name=name, unit=unit)
    for name, unit in (
        ("finding", "text"),
        ("provider", "text"),
        ("accelerator", "text"),
        ("price", "USD/h"),
        ("market", "USD/h"),
        ("rows", "count"),
        ("as_of", "date"),
        ("trust", "text"),
        ("why", "text"),
    )
)
Row = dict[str, Any]


def offers_audit(*, today: date, additions: Additions = NOTHING) -> Listing:
    """What speaks against prices of the book, the gravest kind first; prices are of one accelerator and hour."""
    book = [offer for offer in offers(additions=additions) if not offer.history and offer.count >= 1]
    rented = [offer for offer in book if accelerators(additions)[offer.accelerator].segment != "cpu"]
    market = market_prices(rented)
    rows = [
        *_find_untrusted(rented, market),
        *_contradicting(rented, market),
        *_outliers(rented, market),
        *_without_primary(rented, market),
        *_stale(rented, today),
        *_find_unlisted(book),
    ]
    primary = sum(offer.trust == "primary" for offer in rented)
    fresh = sum(not is_stale(offer.as_of, today=today) for offer in rented)
    notes = (
        f"{len(rented):,} offers of accelerators: {primary:,} from their sellers, {len(rented) - primary:,} from third "
        f"parties, which lead no plan; {fresh:,} younger than {STALE_AFTER_DAYS} days",
    )
    return Listing(kind="findings", columns=AUDIT_COLUMNS, rows=tuple(rows), notes=notes, today=today.isoformat())


def market_prices(book: Iterable[Offer]) -> dict[str, float]:
    """
    Median over providers of the cheapest on-demand accelerator-hour that each states itself. [USD/h]

    Parameters
    ----------
    book : iterable of Offer
        Marketplaces, serverless workers and what is not primary do not count.

    Returns
    -------
    dict
        Accelerator -> price, of those that enough providers sell. [USD/h]
    """
    cheapest: dict[str, dict[str, float]] = {}
    for offer in book:
        price = per_accelerator(offer, "on-demand")
        if price is not None and offer.trust == "primary" and offer.kind == "instance":
            sellers = cheapest.setdefault(offer.accelerator, {})
            sellers[offer.provider] = min(price, sellers.get(offer.provider, price))
    return {part: median(sellers.values()) for part, sellers in cheapest.items() if len(sellers) >= SELLERS}


def _row(finding: str, group: list[Offer], market: dict[str, float], *, why: str) -> Row:
    """One line for offers of one provider and accelerator that share a finding."""
    first = group[0]
    prices = [price for offer in group if (price := per_accelerator(offer, "on-demand")) is not None]
    return {
        "finding": finding,
        "provider": first.provider,
        "accelerator": first.accelerator,
        "price": min(prices, default=None),
        "market": market.get(first.accelerator),
        "rows": float(len(group)),
        "as_of": min(offer.as_of for offer in group),
        "trust": first.trust,
        "why": why,
    }


def _group_offers(book: Iterable[Offer], *names: str) -> Iterator[list[Offer]]:
    def key(offer: Offer) -> tuple[str, ...]:
        return tuple(str(getattr(offer, name)) for name in names)

    for _, group in groupby(sorted(book, key=key), key=key):
        yield list(group)


def _find_untrusted(book: list[Offer], market: dict[str, float]) -> Iterator[Row]:
    """Prices that no seller states, or that the seller's own list contradicts."""
    doubted = (offer for offer in book if offer.trust != "primary")
    for group in _group_offers(doubted, "trust", "provider", "accelerator", "source"):
        first = group[0]
        yield _row(first.trust, group, market, why=first.notes or first.source)


def _contradicting(book: list[Offer], market: dict[str, float]) -> Iterator[Row]:
    """Two statements of one provider about one instance in one region that differ."""
    same = ("provider", "accelerator", "count", "region", "kind")
    for group in _group_offers(book, *same):
        prices = {offer.source: price for offer in group if (price := per_accelerator(offer, "on-demand")) is not None}
        if len(prices) > 1 and max(prices.values()) > (1 + APART) * min(prices.values()):
            said = "; ".join(f"${price:.2f} by {source[:60]}" for source, price in sorted(prices.items()))
            yield _row("contradicting", group, market, why=said)


def _outliers(book: list[Offer], market: dict[str, float]) -> Iterator[Row]:
    """Sellers' own prices far from the market's."""
    stated = (offer for offer in book if offer.trust == "primary" and offer.kind == "instance")
    for group in _group_offers(stated, "provider", "accelerator"):
        usual = market.get(group[0].accelerator)
        prices = [price for offer in group if (price := per_accelerator(offer, "on-demand")) is not None]
        if usual is None or not prices:
            continue
        ratio = min(prices) / usual
        if not 1 / OUTLIER <= ratio <= OUTLIER:
            yield _row("outlier", group, market, why=f"{ratio:.2f}x the median of the cheapest of each seller")


def _without_primary(book: list[Offer], market: dict[str, float]) -> Iterator[Row]:
    """Accelerators that only third parties price: their plans come last and say so."""
    for group in _group_offers(book, "accelerator"):
        if all(offer.trust != "primary" or offer.kind != "instance" for offer in group):
            sellers = ", ".join(sorted({offer.provider for offer in group}))
            yield {
                **_row("no seller's price", group, market, why=f"only {sellers}; add yours with --additions"),
                "provider": "",
            }


def _stale(book: list[Offer], today: date) -> Iterator[Row]:
    """What is older than the book's limit, one line for each provider."""
    old = (offer for offer in book if is_stale(offer.as_of, today=today))
    for group in _group_offers(old, "provider"):
        dates = sorted({offer.as_of for offer in group})
        yield {
            **_row("stale", group, {}, why=f"{dates[0]} to {dates[-1]}; tonnage catalog refresh asks again"),
            "accelerator": f"{len({offer.accelerator for offer in group})} accelerators",
            "price": None,
        }


def _find_unlisted(book: list[Offer]) -> Iterator[Row]:
    """Providers whose terms are known and prices are not."""
    selling = {offer.provider for offer in book}
    for name in sorted(set(providers()) - selling):
        kind = providers()[name].kind
        yield {
            **dict.fromkeys(column.name for column in AUDIT_COLUMNS),
            "finding": "unlisted",
            "provider": name,
            "why": f"{kind}: terms known, no price in the book",
        }
