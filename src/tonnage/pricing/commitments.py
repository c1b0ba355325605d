"""
Does a price that is held for a term pay, when on-demand prices move meanwhile?

Whoever commits pays c in every hour of T years; whoever does not pays p e^(-g t) at time t, in the mean p f with
f = (1 - e^(-g T)) / (g T). A commitment is compared with other prices by c / f, the on-demand price of today that costs
as much over the term; of a longer term and a shorter one that is renewed at prices which fall as fast, the one with the
lower c / f costs less over the longer. It stops paying where f = c / p.
"""

from __future__ import annotations

from math import expm1, log
from typing import Final

from msgspec.structs import replace

from tonnage.domain.money import Commitment, PriceFall
from tonnage.pricing.owning import mean_price_factor
from tonnage.pricing.terms import TERM_HOURS

TERM_YEARS: Final = {term: hours / 8760.0 for term, hours in TERM_HOURS.items() if hours >= 8760.0}
"""Listed terms long enough for prices to move. [years]"""
NEAR_NOTHING: Final = 1e-12
"""|g T| that is no change. [-]"""
NEWTON_STEPS: Final = 50


def fall_until(per_year: float, *, years: float) -> float:
    """
    By how much a price has fallen after some years at a steady rate.

    F = 1 - e^(-g t)

    Parameters
    ----------
    per_year : number
        g, continuous rate; below 0 = it rises. [1/year]
    years : number
        t. [years]

    Returns
    -------
    number
        Share of today's price; below 0 = above it. [-]

    Valid
    -----
    A steady rate; new generations come in steps.

    Source
    ------
    Definition of a continuous rate.

    Examples
    --------
    >>> round(fall_until(0.2, years=1), 3), round(fall_until(-0.2, years=1), 3)
    (0.181, -0.221)
    """
    return -expm1(-per_year * years)


def break_even_fall(*, committed_usd: float, on_demand_usd: float, years: float) -> float:
    """
    Rate of falling prices from which on-demand rent costs less over a term than a committed price.

    g with (1 - e^(-g T)) / (g T) = c / p, by Newton's method on its logarithm.

    Parameters
    ----------
    committed_usd : number
        c, paid in every hour of the term. [USD/h]
    on_demand_usd : number
        p, today's. [USD/h]
    years : number
        T, length of the term. [years]

    Returns
    -------
    number
        g; below 0 = the commitment pays only if prices rise faster than that. [1/year]

    Valid
    -----
    Capacity used in every hour of the term; prices within a factor of e^300 of each other.

    Source
    ------
    Derived: the mean of a falling price over the term equals the committed one.

    Examples
    --------
    >>> round(break_even_fall(committed_usd=0.688, on_demand_usd=1.0, years=4), 3)
    0.2
    >>> round(break_even_fall(committed_usd=2.0, on_demand_usd=2.0, years=1), 9) + 0.0
    0.0
    """
    wanted = log(committed_usd / on_demand_usd)
    # ln f is convex and above its tangent -x / 2 at 0, so that Newton's steps from there come from one side.
    x = -2.0 * wanted
    for _ in range(NEWTON_STEPS):
        if abs(x) < NEAR_NOTHING:
            break
        step = (log(-expm1(-x) / x) - wanted) / (1.0 / expm1(x) - 1.0 / x if abs(x) > 1e-4 else x / 12.0 - 0.5)
        x -= step
        if abs(step) <= 1e-13 * abs(x):
            break
    return x / years


def weigh(
    *,
    term: str,
    years: float,
    usd_per_hour: float,
    on_demand_usd_per_hour: float | None,
    fall: PriceFall,
    against: str = "",
) -> Commitment:
    """
    A committed price of one instance against on-demand prices that move over its term.

    Parameters
    ----------
    term : str
        Its name.
    years : float
        Its length. [years]
    usd_per_hour : float
        Paid in every hour of it. [USD/h]
    on_demand_usd_per_hour : float or None
        Of the same capacity today; None = nobody states one. [USD/h]
    fall : PriceFall
        How fast on-demand prices fall, with their spread.
    against : str
        Whose on-demand price it is; empty = the same instance's.
    """
    mean = mean_price_factor(decline_per_year=fall.per_year, years=years)
    found = Commitment(
        term=term,
        years=years,
        usd_per_hour=usd_per_hour,
        compared_usd_per_hour=usd_per_hour / mean,
        falls=fall_until(fall.per_year, years=years),
        falls_low=fall_until(fall.low, years=years),
        falls_high=fall_until(fall.high, years=years),
        whose=fall.whose,
    )
    if on_demand_usd_per_hour is None:
        return found

    def saved(rate: float) -> float:
        return 1.0 - usd_per_hour / (on_demand_usd_per_hour * mean_price_factor(decline_per_year=rate, years=years))

    even = break_even_fall(committed_usd=usd_per_hour, on_demand_usd=on_demand_usd_per_hour, years=years)
    return replace(
        found,
        on_demand_usd_per_hour=on_demand_usd_per_hour,
        against=against,
        stops_paying=fall_until(even, years=years),
        saves=saved(fall.per_year),
        saves_low=saved(fall.high),
        saves_high=saved(fall.low),
        pays_with=(sum(rate < even for rate in fall.rates), len(fall.rates)) if fall.rates else None,
    )
