"""
Offers whose price is held for a year or more, weighed against on-demand prices that move meanwhile: once, for every
kind of plan.

`planning.sites` passes the offers of every plan through `weigh_terms`, so that a bill knows what its term means and
options are compared by it (`Bill.compared_usd_per_hour`). A service is there every hour: it compares commitments by the
price of today that costs as much over the term. A run is charged for its whole term, however short it is, so that
commitments lose there by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import log
from typing import Final

from msgspec.structs import replace

from tonnage.catalog import Additions
from tonnage.catalog.price_history import expected_fall
from tonnage.domain.money import Commitment, Offer, Price, PriceFall
from tonnage.domain.requests.common import Filters
from tonnage.pricing.commitments import TERM_YEARS, weigh
from tonnage.pricing.owning import HOURS_PER_YEAR

SHORTEST: Final = 1.0 / 12.0
"""Of a contract that prices are held against; in less they hardly move. [years]"""
TEXTS: Final = {1.0: "a year", 3.0: "three years"}


def price_fall_of(filters: Filters, accelerator: str, *, additions: Additions) -> PriceFall:
    """How fast on-demand prices of an accelerator are taken to fall: the user's view, else dated prices."""
    if filters.price_fall is None:
        return expected_fall(accelerator, additions)
    rate = -log(1.0 - filters.price_fall)
    return PriceFall(per_year=rate, low=rate, high=rate, whose="yours")


def weigh_terms(
    offers: Sequence[Offer], *, filters: Filters, known: Iterable[Offer], additions: Additions
) -> Sequence[Offer]:
    """
    Offers of one accelerator with what their committed prices mean; those of other terms as they are.

    Parameters
    ----------
    offers : sequence of Offer
        That pass the filters.
    known : iterable of Offer
        All of the accelerator: the cheapest that its seller states on demand is what a commitment without a price of
        its own on demand is held against.
    """
    years = {term: TERM_YEARS[term] for term in filters.terms if term in TERM_YEARS}
    if not offers or not (years or filters.quotes):
        return offers
    fall = price_fall_of(filters, offers[0].accelerator, additions=additions)
    elsewhere = min(on_demand_prices(known), default=None)

    def held(offer: Offer) -> Offer:
        own = {offer.prices[0].term: offer.contract.hours / HOURS_PER_YEAR} if offer.contract else {}
        terms = {**years, **{term: span for term, span in own.items() if span >= SHORTEST}}
        if not any(price.term in terms for price in offer.prices):
            return offer
        prices = tuple(
            replace(price, commitment=_weighed(offer, price, terms[price.term], fall, elsewhere))
            if price.term in terms
            else price
            for price in offer.prices
        )
        return replace(offer, prices=prices)

    return [held(offer) for offer in offers]


def on_demand_prices(known: Iterable[Offer]) -> Iterable[tuple[float, str]]:
    """On-demand prices of one accelerator that their sellers state, with the seller. [USD/h]"""
    for offer in known:
        price = offer.usd_per_hour("on-demand")
        if price is not None and offer.trust == "primary" and offer.kind == "instance" and offer.count >= 1:
            yield price / offer.count, offer.provider


def _weighed(
    offer: Offer, price: Price, years: float, fall: PriceFall, elsewhere: tuple[float, str] | None
) -> Commitment:
    own = offer.usd_per_hour("on-demand")
    if own is not None:
        return _cached(price.term, years, price.usd_per_hour, own, fall, "")
    each, who = elsewhere or (None, "")
    return _cached(price.term, years, price.usd_per_hour, None if each is None else each * offer.count, fall, who)


@lru_cache(maxsize=4096)
def _cached(
    term: str, years: float, usd_per_hour: float, on_demand: float | None, fall: PriceFall, against: str
) -> Commitment:
    return weigh(
        term=term,
        years=years,
        usd_per_hour=usd_per_hour,
        on_demand_usd_per_hour=on_demand,
        fall=fall,
        against=against,
    )


def commitments_assumed(commitments: Iterable[Commitment | None]) -> tuple[str, ...]:
    """How committed prices were weighed, a sentence for each kind of them."""
    held = dict.fromkeys(one for one in commitments if one is not None)
    said = dict.fromkeys(
        f"{one.term} is compared by the on-demand price of today that costs as much over {_span(one.years)}: on-demand "
        f"prices are taken to {move_text(one)} until then, by {_source(one)}"
        for one in held
    )
    return tuple(said)


def _span(years: float) -> str:
    return TEXTS.get(years, f"{years:.2g} years")


def move_text(one: Commitment) -> str:
    """By how much on-demand prices are expected to move over a term, with the spread."""
    said = f"fall by {one.falls:.0%}" if one.falls > 0 else f"rise by {-one.falls:.0%}" if one.falls < 0 else "stay"
    if one.falls_low == one.falls_high:
        return said
    return f"{said} ({-one.falls_high + 0.0:+.0%} to {-one.falls_low + 0.0:+.0%})"


def _source(one: Commitment) -> str:
    if one.whose == "yours":
        return "your --price-fall"
    number = one.pays_with[1] if one.pays_with else 0
    return f"{number} sellers' dated list prices of {one.whose}" if number else "no dated prices"
