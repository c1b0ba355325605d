"""
What sellers offered to the user, as offers of any plan: `quotes` of a request, or `--quotes FILE` on the command line.

A quote without a term is a price by the hour of use. One with a term is a contract: `pricing.bills` charges what is
used, or the committed share where that is more; until a ramp has come as far as is needed the rest is rented on demand
at the cheapest price that its seller states. Offers of this kind pass every filter on offers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from itertools import pairwise
from typing import Any, Final

from tonnage import catalog
from tonnage.core.commitments import on_demand_prices
from tonnage.core.files import read_text, read_written
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.money import Contract, Offer, Price
from tonnage.domain.requests.common import Filters, Quote
from tonnage.errors import BadRequest, UnknownName, echo

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
        instance_type=f"{count} x {part.id}",
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
