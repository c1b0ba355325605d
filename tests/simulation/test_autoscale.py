"""Spares, idle time and days of replicas: known values, and answers that move the right way."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.simulation.router import fleet_of, idle_of_bursts, idle_of_poisson, replicas_of_day


@given(st.integers(1, 50), st.integers(2, 5))
def test_a_zone_can_be_lost(needed: int, zones: int) -> None:
    total = fleet_of(needed, zones=zones)
    assert total - math.ceil(total / zones) >= needed
    assert total == needed + 1 or total - 1 - math.ceil((total - 1) / zones) < needed


def test_idle_replicas() -> None:
    poisson = idle_of_poisson(rate_per_s=1 / 600, timeout_s=600)
    assert poisson.cold_share == pytest.approx(math.exp(-1))


def test_idle_between_bursts_is_what_drawn_bursts_leave() -> None:
    on_s, off_s, rate, timeout = 300.0, 1500.0, 0.2, 120.0
    rng, at, sent = np.random.default_rng(5), 0.0, []
    for _ in range(4000):
        length = rng.exponential(on_s)
        sent.append(at + np.sort(rng.uniform(0.0, length, rng.poisson(rate * length))))
        at += length + rng.exponential(off_s)
    gaps = np.diff(np.concatenate(sent))
    found = idle_of_bursts(on_s=on_s, off_s=off_s, rate_on_per_s=rate, timeout_s=timeout, start_s=0.0)
    assert found.cold_share == pytest.approx((gaps > timeout).mean(), rel=0.05)
    assert found.on_share == pytest.approx(np.minimum(gaps, timeout).sum() / gaps.sum(), rel=0.05)


def test_a_day() -> None:
    rates = [2.0] * 12 + [10.0] * 12
    found = replicas_of_day(rates, interval_s=3600, capacity_per_s=2.5, lead_s=600)
    # An hour before the rise (and before the day repeats, none) replicas are started.
    assert found == (1,) * 11 + (4,) * 13


@given(st.lists(st.floats(0.0, 50.0), min_size=2, max_size=48), st.floats(0.0, 7200.0))
def test_longer_leads_never_cost_less(rates: list[float], lead: float) -> None:
    def of(lead_s: float) -> int:
        return sum(replicas_of_day(rates, interval_s=3600, capacity_per_s=3.0, lead_s=lead_s))

    assert of(lead) <= of(lead + 3600)
