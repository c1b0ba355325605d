"""
Offers that are no list prices: what sellers offered to the user, and terms that are held for a year or more.

`core.sites` passes the offers of every plan through `weigh_terms`, so that a bill knows what its term means and
options are compared by it (`Bill.compared_usd_per_hour`). A service is there every hour: it compares commitments by the
price of today that costs as much over the term. A run is charged for its whole term, however short it is, so that
commitments lose there by themselves.

A quote without a term is a price by the hour of use. One with a term is a contract: `pricing.bills` charges what is
used, or the committed share where that is more; until a ramp has come as far as is needed the rest is rented on demand
at the cheapest price that its seller states. Offers of this kind pass every filter on offers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date
from functools import lru_cache
from itertools import pairwise
from math import log
from typing import Any, Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, parts_name
from tonnage.catalog.price_history import expected_fall
from tonnage.core.files import read_text, read_written
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.money import Commitment, Contract, Offer, Price, PriceFall
from tonnage.domain.requests.common import Filters, Quote
from tonnage.errors import BadRequest, UnknownName, echo
from tonnage.pricing.commitments import TERM_YEARS, weigh
from tonnage.pricing.owning import HOURS_PER_YEAR
from tonnage.units import percent

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
        """The offer with its committed prices weighed; a contract counts by its own term beside those asked for."""
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
        return _commitment(price.term, years, price.usd_per_hour, own, fall, "")
    each, who = elsewhere or (None, "")
    return _commitment(price.term, years, price.usd_per_hour, None if each is None else each * offer.count, fall, who)


@lru_cache(maxsize=4096)
def _commitment(
    term: str, years: float, usd_per_hour: float, on_demand: float | None, fall: PriceFall, against: str
) -> Commitment:
    """A committed price against one on demand, both of an instance [USD/h]; many offers have the same two."""
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
    said = (
        f"fall by {percent(one.falls)}"
        if one.falls > 0
        else f"rise by {percent(-one.falls)}"
        if one.falls < 0
        else "stay"
    )
    if one.falls_low == one.falls_high:
        return said
    return f"{said} ({percent(-one.falls_high + 0.0, sign='+')} to {percent(-one.falls_low + 0.0, sign='+')})"


def _source(one: Commitment) -> str:
    if one.whose == "yours":
        return "your --price-fall"
    number = one.pays_with[1] if one.pays_with else 0
    return f"{number} sellers' dated list prices of {one.whose}" if number else "no dated prices"


CONTRACT: Final = "contract"
_STEP: Final = re.compile(r"\s*(\d{1,3})\s*=\s*(\d{1,7})\s*")
_DAY: Final = re.compile(r"20\d\d-[01]\d-[0-3]\d")
LONGEST_RAMP: Final = 120
"""Months."""


def quotes_of_file(path: str) -> list[Any]:
    """
    The entries of a file of quotes, YAML or JSON: a list, or one under the key `quotes`.

    Raises
    ------
    BadFact, BadRequest
        Not readable, malformed, or no list of entries.
    """
    value = read_written(read_text(path, what="file of quotes"), what=path)
    if isinstance(value, dict) and set(value) == {"quotes"}:
        value = value["quotes"]
    if not isinstance(value, list) or not value:
        raise BadRequest(
            f"quotes: '{echo(path)}' must hold a list of offers, each with accelerator and price: "
            "- {accelerator: H100, price: $1.95/h, term: 12 months}"
        )
    return value


def check_quotes(quotes: Iterable[Quote]) -> None:
    """
    Refuse quotes that contradict themselves.

    Raises
    ------
    BadRequest
        A date or a ramp that is none, a day of the offer that has not come, or a minimum above the maximum.
    """
    for number, quote in enumerate(quotes, start=1):
        where = f"quotes[{number}]."
        for name, text in (("start", quote.start), ("as_of", quote.as_of)):
            if text:
                _check_day(text, f"{where}{name}")
        if quote.as_of and quote.as_of > min(quote.start or quote.as_of, date.today().isoformat()):
            raise BadRequest(f"{where}as_of is '{quote.as_of}', after its start or a day that has not come")
        ramp = _ramp(quote, f"{where}ramp")
        if quote.term_s is None:
            asked = [name for name in ("minimum", "ramp", "upfront", "start") if getattr(quote, name)]
            if asked:
                raise BadRequest(f"{where}{asked[0]} needs a term: say how long it binds, for example term: 12 months")
        if ramp and quote.minimum:
            raise BadRequest(f"{where}minimum and ramp contradict: each step of a ramp is what is committed from then")
        if quote.maximum is not None and quote.minimum > quote.maximum:
            raise BadRequest(f"{where}minimum is {quote.minimum}, but at most {quote.maximum} may be had")
        if quote.country and quote.country.upper() not in catalog.countries():
            raise BadRequest(f"{where}country: {UnknownName('country', quote.country, known=catalog.countries())}")


def _check_day(text: str, field: str) -> None:
    try:
        date.fromisoformat(text if _DAY.fullmatch(text) else "")
    except ValueError:
        raise BadRequest(f"{field} is '{echo(text)}', but a day is expected: 2027-01-15") from None


def _ramp(quote: Quote, field: str) -> tuple[tuple[int, int], ...]:
    """Steps of a ramp: month from 1, accelerators that are there from then on; `field` names it in messages."""
    found: list[tuple[int, int]] = []
    for text in quote.ramp:
        step = _STEP.fullmatch(text)
        if step is None:
            raise BadRequest(f"{field}: '{echo(text)}' is no MONTH=COUNT; write for example 1=16, 4=32, 7=64")
        found.append((int(step[1]), int(step[2])))
    months, counts = [month for month, _ in found], [count for _, count in found]
    grows = all(a < b for a, b in pairwise(months)) and counts == sorted(counts)
    if found and not (months[0] >= 1 and months[-1] <= LONGEST_RAMP and grows and counts[-1] > 0):
        raise BadRequest(f"{field}: months must rise from 1 on and counts must not fall: 1=16, 4=32, 7=64")
    return tuple(found)


def quote_offers(filters: Filters, part: Accelerator, *, known: Iterable[Offer]) -> list[Offer]:
    """
    The quotes of an accelerator as offers.

    Parameters
    ----------
    known : iterable of Offer
        All that the book has of the accelerator: what a ramp lacks is rented there.
    """
    mine = [(number, quote) for number, quote in enumerate(filters.quotes, start=1) if quote.accelerator == part.id]
    if not mine:
        return []
    cheapest = min(on_demand_prices(known), default=(None, ""))
    return [_offer(filters, part, quote, number=number, bridge=cheapest) for number, quote in mine]


def _offer(
    filters: Filters, part: Accelerator, quote: Quote, *, number: int, bridge: tuple[float | None, str]
) -> Offer:
    """
    A quote as an offer of instances; one with a term has a contract, one without a price of the first term asked for.

    `bridge` is the cheapest on-demand price of one accelerator [USD/h] and its seller, who rents what a ramp lacks.
    """
    count = quote.count or part.max_per_node or 1
    ramp = _ramp(quote, "ramp")
    name = quote.name or f"quote {number}"
    held = None
    if quote.term_s is not None:
        held = Contract(
            name=name,
            hours=quote.term_s / 3600.0,
            minimum=quote.minimum,
            take_or_pay=quote.take_or_pay,
            ramp=ramp,
            upfront=quote.upfront,
            start=quote.start,
            bridge_usd_per_hour=bridge[0] if ramp else None,
            bridge=bridge[1] if ramp else "",
        )
    return Offer(
        provider=quote.provider,
        instance_type=parts_name(count, part.id),
        accelerator=part.id,
        count=float(count),
        prices=(Price(term=CONTRACT if held else filters.terms[0], usd_per_hour=quote.price * count),),
        region=quote.region,
        country=quote.country.upper(),
        network_bytes_per_s=quote.network,
        as_of=quote.as_of or "today",
        as_of_kind="exact",
        source=f"{name}, offered to you",
        licence="own",
        stock=quote.maximum or (ramp[-1][1] if ramp else None),
        contract=held,
    )
