"""A committed price against falling ones: the arithmetic, its inverse, and what a plan may never do with it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.domain.money import Commitment, PriceFall
from tonnage.pricing.commitments import break_even_fall, fall_until, weigh
from tonnage.pricing.owning import mean_price_factor

RATES = st.floats(-1.5, 1.5, allow_nan=False)
YEARS = st.floats(0.1, 6.0, allow_nan=False)


@given(rate=RATES, years=YEARS)
def test_the_break_even_is_the_rate_whose_mean_price_is_the_committed_one(rate: float, years: float) -> None:
    committed = 3.0 * mean_price_factor(decline_per_year=rate, years=years)
    found = break_even_fall(committed_usd=committed, on_demand_usd=3.0, years=years)
    assert found == pytest.approx(rate, abs=1e-7)


@given(ratio=st.floats(0.01, 50.0, allow_nan=False), years=YEARS)
def test_any_two_prices_meet_at_some_rate(ratio: float, years: float) -> None:
    rate = break_even_fall(committed_usd=ratio, on_demand_usd=1.0, years=years)
    assert mean_price_factor(decline_per_year=rate, years=years) == pytest.approx(ratio, rel=1e-9)


def seen(rate: float, *, committed: float = 2.0, years: float = 1.0, asked: float | None = 3.0) -> Commitment:
    fall = PriceFall(per_year=rate, low=rate - 0.2, high=rate + 0.2, rates=(rate - 0.3, rate, rate + 2.0), whose="x")
    return weigh(term="reserved-1y", years=years, usd_per_hour=committed, on_demand_usd_per_hour=asked, fall=fall)


def test_a_commitment_is_weighed_with_its_spread() -> None:
    still, falling = seen(0.0), seen(0.5)
    assert still.compared_usd_per_hour == 2.0 and still.saves == pytest.approx(1 / 3)
    assert falling.compared_usd_per_hour > 2.0 and falling.saves < still.saves  # prices fall: it is worth less
    assert falling.saves_low < falling.saves < falling.saves_high
    assert falling.falls == pytest.approx(1 - math.exp(-0.5)) and falling.falls_low < falling.falls < falling.falls_high
    assert still.stops_paying == falling.stops_paying  # what it takes does not hang on what is expected
    assert still.stops_paying == pytest.approx(fall_until(0.874, years=1.0), abs=1e-3)
    assert still.pays_with == (2, 3)


def test_no_price_on_demand_leaves_only_the_comparison() -> None:
    alone = seen(0.2, asked=None)
    assert alone.stops_paying is None and alone.pays_with is None and alone.compared_usd_per_hour > 2.0


@given(rate=st.floats(0.0, 0.8), one=st.floats(0.5, 2.0), three=st.floats(0.5, 2.0))
def test_the_lower_compared_price_costs_less_over_the_longer_term(rate: float, one: float, three: float) -> None:
    """A year renewed twice at prices that fall as fast, against three years at once."""
    renewed = one * (1.0 + math.exp(-rate) + math.exp(-2.0 * rate)) / 3.0
    by_price = (
        seen(rate, committed=one).compared_usd_per_hour - seen(rate, committed=three, years=3.0).compared_usd_per_hour
    )
    if abs(renewed - three) > 1e-6:
        assert (by_price < 0) is (renewed < three)
