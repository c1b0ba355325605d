"""
Which prices of the book should nobody count on? Outliers, contradictions, old prices, and who is missing.

The market price of an accelerator is the median over providers of the cheapest that each lists on demand, by sellers'
own statements; with fewer than four of them there is no market to be far from. Nothing here changes a price: what is
found is shown, and a row that is wrong gets its tier in the notes and sources of the book.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from itertools import groupby
from statistics import median
from typing import Any, Final

from tonnage.catalog.accelerators import accelerators
from tonnage.catalog.additions import NOTHING, Additions
from tonnage.catalog.filters import per_accelerator
from tonnage.catalog.offers import offers
from tonnage.catalog.providers import providers
from tonnage.domain.listing import Column, Listing
from tonnage.domain.money import STALE_AFTER_DAYS, Offer, is_stale

OUTLIER: Final = 2.0
"""Times the market price, or below it, from which a price is shown as an outlier. [-]"""
SELLERS: Final = 4
"""Providers that make a market."""
APART: Final = 0.10
"""Two prices of one thing that differ by more contradict each other. [-]"""

COLUMNS: Final = tuple(
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
    return Listing(kind="findings", columns=COLUMNS, rows=tuple(rows), notes=notes, today=today.isoformat())


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
            **dict.fromkeys(column.name for column in COLUMNS),
            "finding": "unlisted",
            "provider": name,
            "why": f"{kind}: terms known, no price in the book",
        }
