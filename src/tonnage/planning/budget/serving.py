"""
The largest rate that a budget serves, and the best model at a rate.

The serving plan says what a rate costs; the cheapest cost never falls as the rate rises. So the largest rate is found
by doubling until the budget is passed and halving the bracket in between, on the plan itself and not on an
approximation of it: steps of whole replicas, other accelerators at other rates, headroom and confidence all count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date
from typing import Final

from msgspec.structs import replace

from tonnage.catalog import Additions
from tonnage.catalog.downloads import downloads, published_score
from tonnage.domain.budget_plan import Affordable
from tonnage.domain.plan import ServeOption
from tonnage.domain.requests.budget import Budget
from tonnage.domain.requests.serve import Serve
from tonnage.errors import BadRequest
from tonnage.planning.serve.plan import serve_options

__all__ = ["TOLERANCE", "best_models", "largest_affordable", "largest_rate", "models_by_quality"]

FIRST: Final = 1.0
"""Rate looked at first. [1/s]"""
LEAST: Final = 1e-4
"""A service of fewer requests is none: nine a day. [1/s]"""
MOST: Final = 1e5
TOLERANCE: Final = 0.02
"""Width of the bracket that ends the search. [-]"""
SHOWN: Final = 5
"""Models of an answer."""

Price = Callable[[float], ServeOption | None]
"""Rate -> the cheapest option within objectives and budget; None = there is none."""


def largest_rate(price: Price, budget_usd_per_h: float = 0.0) -> tuple[ServeOption, float, float] | None:
    """
    The option at the largest rate that can be paid, that rate, and the least looked at that cannot; None = not any.

    `price` is monotone: what can be paid at a rate can be paid at any lower one. The budget only says how far to leap:
    cost grows about as the rate does.
    """
    low, option = FIRST, price(FIRST)
    high = FIRST
    if option is None:
        while option is None and low > LEAST:
            high, low = low, low / 4.0
            option = price(low)
        if option is None:
            return None
    else:
        while high < MOST:
            times = budget_usd_per_h / option.bill.usd_per_hour if budget_usd_per_h else 2.0
            high = min(low * max(2.0, times), MOST)
            more = price(high)
            if more is None:
                break
            low, option = high, more
    while high / low > 1.0 + TOLERANCE:
        middle = (low * high) ** 0.5
        more = price(middle)
        if more is None:
            high = middle
        else:
            low, option = middle, more
    return option, low, high


def _price_service(request: Budget, model: str, *, additions: Additions, today: date) -> tuple[Serve, Price, Price]:
    """The service of one model, and what a rate of it costs within the budget: as its seller states, or as anybody."""
    assert request.serve is not None
    serve = replace(request.serve, model=model, quick=True, budget_usd_per_h=request.usd_per_h)

    def anybody(rate: float) -> ServeOption | None:
        options = serve_options(replace(serve, rate_per_s=rate), additions=additions, today=today)
        return options[0] if options and options[0].sure else None

    def seller(rate: float) -> ServeOption | None:
        # Options at prices of sellers stand first: where the first has none, nothing at such a price is affordable.
        option = anybody(rate)
        return option if option is not None and option.bill.trust == "primary" else None

    return serve, seller, anybody


def largest_affordable(request: Budget, *, additions: Additions, today: date) -> tuple[Affordable, ...]:
    """The model of the request at its largest rate; empty where not even a few requests a day can be paid."""
    assert request.model is not None
    serve, seller, anybody = _price_service(request, request.model, additions=additions, today=today)
    budget = request.usd_per_h or 0.0
    found = largest_rate(seller, budget) or largest_rate(anybody, budget)
    if found is None:
        return ()
    option, rate, beyond = found
    more = serve_options(replace(serve, rate_per_s=beyond, budget_usd_per_h=None), additions=additions, today=today)
    sure = next((one.usd_per_month for one in more if one.sure), None)
    return (_affordable(serve, option, rate=rate, beyond=beyond, costs=sure),)


def best_models(request: Budget, *, additions: Additions, today: date) -> tuple[tuple[Affordable, ...], int]:
    """
    The best models by published score that carry the rate within the budget, and how many were looked at.

    Those that only a price of no seller's own page makes affordable stand last.
    """
    assert request.rate_per_s is not None
    found: list[Affordable] = []
    others: list[Affordable] = []
    looked = 0
    for model, _ in models_by_quality():
        looked += 1
        serve, _, anybody = _price_service(request, model, additions=additions, today=today)
        try:
            option = anybody(request.rate_per_s)
        except BadRequest:
            continue  # a context that this model does not take
        if option is not None:
            stated = option.bill.trust == "primary"
            (found if stated else others).append(_affordable(serve, option, rate=request.rate_per_s))
        if len(found) == SHOWN:
            break
    return (*found, *others)[:SHOWN], looked


def models_by_quality() -> tuple[tuple[str, float], ...]:
    """Models that people run today with a published score, best first."""
    scored = ((one.model, published_score(one.model)) for one in downloads())
    known: Iterable[tuple[str, float]] = ((model, score) for model, score in scored if score is not None)
    return tuple(sorted(known, key=lambda pair: -pair[1]))


def _affordable(
    serve: Serve, option: ServeOption, *, rate: float, beyond: float | None = None, costs: float | None = None
) -> Affordable:
    return Affordable(
        model=serve.model,
        rate_per_s=rate,
        output_tokens_per_s=rate * serve.lengths.output_tokens,
        usd_per_month=option.usd_per_month,
        option=option,
        quality=published_score(serve.model),
        next_rate_per_s=beyond,
        next_usd_per_month=costs,
    )
