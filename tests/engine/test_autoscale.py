"""Spares, idle time and days of replicas: known values, and answers that move the right way."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.engine.autoscale import (
    idle_of_gaps,
    idle_of_poisson,
    replicas_of_day,
    spares,
    survives_zone_loss,
)
from tonnage.errors import BadRequest


def test_spares_by_hand() -> None:
    assert spares(needed=1, availability=0.9, target=0.98) == 1  # 1 - 0.1^2 = 0.99
    assert spares(needed=1, availability=0.9, target=0.995) == 2
    assert spares(needed=5, availability=1.0, target=0.9999) == 0


@given(st.integers(1, 30), st.floats(0.9, 0.999), st.floats(0.9, 0.9999))
def test_better_targets_never_need_fewer(needed: int, availability: float, target: float) -> None:
    k = spares(needed=needed, availability=availability, target=target)
    assert k <= spares(needed=needed, availability=availability, target=(1 + target) / 2)
    assert k >= spares(needed=needed, availability=(1 + availability) / 2, target=target)


@given(st.integers(1, 50), st.integers(2, 5))
def test_a_zone_can_be_lost(needed: int, zones: int) -> None:
    total = survives_zone_loss(needed=needed, zones=zones)
    assert total - total // zones >= needed


def test_idle_replicas() -> None:
    poisson = idle_of_poisson(rate_per_s=1 / 600, timeout_s=600)
    assert poisson.cold_share == pytest.approx(math.exp(-1))
    recorded = idle_of_gaps([1.0] * 99 + [901.0], timeout_s=60.0)
    assert recorded.cold_share == 0.01
    assert recorded.on_share == pytest.approx((99 + 60) / 1000)


def test_a_day() -> None:
    rates = [2.0] * 12 + [10.0] * 12
    found = replicas_of_day(rates, interval_s=3600, capacity_per_s=2.5, lead_s=600)
    # An hour before the rise (and before the day repeats, none) replicas are started.
    assert found.static == 4 and found.autoscaled == (1,) * 11 + (4,) * 13
    assert found.wasted_share == pytest.approx(1 - (11 + 52) / 24 / 4)
    assert found.needed_mean == pytest.approx(6 / 2.5)


@given(st.lists(st.floats(0.0, 50.0), min_size=2, max_size=48), st.floats(0.0, 7200.0))
def test_longer_leads_and_spares_never_cost_less(rates: list[float], lead: float) -> None:
    def of(lead_s: float, spare: int) -> float:
        day = replicas_of_day(rates, interval_s=3600, capacity_per_s=3.0, lead_s=lead_s, spare=spare)
        assert day.autoscaled_mean <= day.static
        return day.autoscaled_mean

    assert of(lead, 0) <= of(lead + 3600, 0)
    assert of(lead, 0) + 1 == pytest.approx(of(lead, 1))


@pytest.mark.parametrize(
    "call",
    [
        lambda: spares(needed=0, availability=0.9, target=0.9),
        lambda: survives_zone_loss(needed=1, zones=1),
        lambda: idle_of_gaps([], timeout_s=1.0),
        lambda: replicas_of_day([], interval_s=1.0, capacity_per_s=1.0, lead_s=0.0),
    ],
)
def test_what_makes_no_sense(call: object) -> None:
    with pytest.raises(BadRequest):
        call()  # type: ignore[operator]
