"""
Is it cheaper to buy the tokens than to rent what makes them? APIs that serve the model, against the plan's own bill.

An API charges for each token and a machine for each hour, so that there is a load from which renting wins, unless a
full replica makes tokens at more than the API's price. No prompt is taken as cached, for a request does not say what
share repeats; an API's price of cached input stands beside the others. What an API promises of latency and weight
formats is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tonnage.catalog import part_name, parts_name, provider_name
from tonnage.catalog.tokens import token_prices
from tonnage.domain.cost import BoughtTokens, TokensInstead
from tonnage.domain.money import TokenPrice
from tonnage.domain.plan import ServeOption
from tonnage.domain.requests.serve import Serve
from tonnage.engines.registry import engine_title
from tonnage.errors import UnknownName
from tonnage.pricing.bills import usd_per_hour_of
from tonnage.units import show

SHOWN: Final = 3
"""Providers that are listed."""
TUNED: Final = ("distill", "hermes", "nemotron", "guard", "uncensored", "abliterated", "coder")
"""Words in an API's name of a model that another's weights of the same shape carry."""
LARGEST: Final = 4096
"""Replicas up to which renting is looked at."""


def tokens_instead(request: Serve, options: Sequence[ServeOption], *, model: str) -> TokensInstead | None:
    """
    The cheapest APIs for the load of a plan, and the load from which one of its options costs less.

    Parameters
    ----------
    request : Serve
    options : sequence of ServeOption
        With their unit costs, the answer of the plan first.
    model : str
        Id of the model. APIs are known for models of the catalogue alone.

    Returns
    -------
    TokensInstead or None
        None where no provider states a price of this model's tokens, or the first option has no unit costs.
    """
    if not options or options[0].unit_costs is None:
        return None
    own = options[0].unit_costs.usd_per_request
    per_hour = options[0].bill.usd_per_hour / own
    sold: dict[str, BoughtTokens] = {}
    for price in _known_prices(model):
        each = _per_request(request, price)
        if each is not None and (price.provider not in sold or each < sold[price.provider].usd_per_request):
            sold[price.provider] = _token_bill(price, each, per_hour=per_hour)
    if not sold:
        return None
    ranked = tuple(sorted(sold.values(), key=lambda one: (one.usd_per_request, one.provider)))[:SHOWN]
    cheapest = ranked[0]
    found = [(_wins_from(request, option, usd_per_request=cheapest.usd_per_request), option) for option in options]
    wins, winner = min(((rate, option) for rate, option in found if rate is not None), key=_rate, default=(None, None))
    times = own / cheapest.usd_per_request
    return TokensInstead(
        options=ranked,
        times=times,
        wins_from_per_s=wins,
        wins_with=winner.configuration.label(part_name, engine_title) if winner is not None else "",
        sentence=_sentence(cheapest, times=times, wins_from_per_s=wins, winner=winner),
    )


def _rate(found: tuple[float, ServeOption]) -> float:
    return found[0]


def _known_prices(model: str) -> list[TokenPrice]:
    """
    Prices for chat that a page of the provider backs, of this very model and no other's tune of it; empty for a model
    that the catalogue does not know.
    """
    try:
        prices = token_prices(model)
    except UnknownName:
        return []
    strange = [word for word in TUNED if word not in model.lower()]
    return [
        price
        for price in prices
        if price.trusted and price.mode == "chat" and not any(word in price.name.lower() for word in strange)
    ]


def _per_request(request: Serve, price: TokenPrice) -> float | None:
    """What a mean request costs there; None where a price is missing or zero. [USD]"""
    given, out = price.input_usd_per_million_tokens, price.output_usd_per_million_tokens
    if not given or not out:
        return None
    return (given * request.lengths.prompt_tokens + out * request.lengths.output_tokens) / 1e6


def _token_bill(price: TokenPrice, each: float, *, per_hour: float) -> BoughtTokens:
    """What an API charges for a mean request (`each`, USD) and an hour of `per_hour` requests."""
    assert price.input_usd_per_million_tokens is not None and price.output_usd_per_million_tokens is not None
    return BoughtTokens(
        provider=price.provider,
        name=price.name,
        usd_per_million_input=price.input_usd_per_million_tokens,
        usd_per_million_cached_input=price.cached_input_usd_per_million_tokens,
        usd_per_million_output=price.output_usd_per_million_tokens,
        usd_per_request=each,
        usd_per_hour=each * per_hour,
        page=price.page,
        as_of=price.as_of,
        source=price.source,
    )


def _carried_rate(request: Serve, option: ServeOption) -> float:
    """Mean rate that one replica carries at the plan's headroom and peak. [1/s]"""
    return option.capacity.max_rate_per_s.value * (1.0 - request.headroom) / request.shape.peak_to_mean


def _wins_from(request: Serve, option: ServeOption, *, usd_per_request: float) -> float | None:
    """
    The least mean rate from which an option's machines, spares among them, cost no more than the tokens; None = none up
    to `LARGEST` replicas. [1/s]

    n replicas cost H(n) an hour and carry n times what one does: they win from H(n) / 3600 c on, where they carry that.
    Beyond 64 replicas n grows in steps of a 64th.
    """
    ranks, each = option.configuration.ranks, _carried_rate(request, option)
    n = 1
    while n <= LARGEST:
        hourly = usd_per_hour_of(option.bill, replicas=n + request.spare_replicas, ranks=ranks)
        rate = hourly / 3600.0 / usd_per_request
        if rate <= n * each:
            return max(rate, (n - 1) * each)
        n += 1 if n < 64 else n // 64
    return None


def _sentence(
    cheapest: BoughtTokens, *, times: float, wins_from_per_s: float | None, winner: ServeOption | None
) -> str:
    """The comparison in words, the same in every interface."""
    cached = cheapest.usd_per_million_cached_input
    prices = (
        f"${cheapest.usd_per_million_input:.3g} in{'' if cached is None else f' (${cached:.3g} cached)'} / "
        f"${cheapest.usd_per_million_output:.3g} out per 1M tokens"
    )
    load = f"${show(cheapest.usd_per_hour, 'count')}/h for this load"
    against = (
        f"{show(times, 'count')}x less than renting"
        if times >= 1
        else f"{show(1 / times, 'count')}x what renting costs"
    )
    wins = "renting wins at no load"
    if wins_from_per_s is not None and winner is not None:
        run = winner.configuration
        wins = f"renting wins from {show(wins_from_per_s, '1/s')} ({parts_name(run.ranks, run.accelerator)})"
    return f"Buy tokens instead: {provider_name(cheapest.provider)} at {prices}, {load}, {against}; {wins}."
