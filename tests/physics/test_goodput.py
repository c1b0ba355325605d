"""Goodput formulas: limits, optimality, and agreement with a simulation of exponential interruptions."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.physics.goodput import (
    checkpoint_interval_s,
    gamma_quantile,
    gamma_shape,
    poisson_quantile,
    time_between_interruptions_s,
    useful_time_fraction,
)


def simulated_share(*, interval: float, blocking: float, between: float, recovery: float, segments: int) -> float:
    """Share of wall time that is kept work, with interruptions drawn one by one."""
    draw = random.Random(7).expovariate
    clock = 0.0
    for _ in range(segments):
        while True:
            strikes = draw(1.0 / between)
            if strikes >= interval + blocking:
                clock += interval + blocking
                break
            clock += strikes
            while (again := draw(1.0 / between)) < recovery:  # struck while recovering
                clock += again
            clock += recovery
    return segments * interval / clock


@pytest.mark.parametrize(("between", "blocking", "recovery"), [(11124, 30, 300), (3600, 60, 600), (2000, 40, 900)])
def test_the_useful_share_is_that_of_a_simulation(between: float, blocking: float, recovery: float) -> None:
    interval = checkpoint_interval_s(blocking_s=blocking, between_s=between)
    predicted = useful_time_fraction(interval_s=interval, blocking_s=blocking, between_s=between, recovery_s=recovery)
    seen = simulated_share(interval=interval, blocking=blocking, between=between, recovery=recovery, segments=20000)
    assert predicted == pytest.approx(seen, rel=0.02)


@pytest.mark.parametrize(("between", "blocking"), [(11124, 30), (3600, 120), (168 * 3600, 40)])
def test_no_other_interval_does_better_in_the_simulation(between: float, blocking: float) -> None:
    best = checkpoint_interval_s(blocking_s=blocking, between_s=between)

    def share(interval: float) -> float:
        wanted = max(4000, int(40 * between / interval))
        return simulated_share(
            interval=interval, blocking=blocking, between=between, recovery=300.0, segments=min(40000, wanted)
        )

    assert share(best) > share(best / 4)
    assert share(best) > share(best * 4)


@given(st.floats(1, 600), st.floats(3600, 1e7), st.floats(0, 3600))
def test_the_chosen_interval_is_near_the_optimum(blocking: float, between: float, recovery: float) -> None:
    best = checkpoint_interval_s(blocking_s=blocking, between_s=between)

    def share(interval: float) -> float:
        return useful_time_fraction(interval_s=interval, blocking_s=blocking, between_s=between, recovery_s=recovery)

    others = max(share(best * factor) for factor in (0.5, 0.8, 0.9, 1.1, 1.25, 2.0))
    assert share(best) >= others * 0.999


@given(st.floats(1, 600), st.floats(3600, 1e7), st.floats(0, 3600), st.floats(1.1, 10))
def test_rarer_interruptions_never_hurt(blocking: float, between: float, recovery: float, rarer: float) -> None:
    share = [
        useful_time_fraction(interval_s=600, blocking_s=blocking, between_s=m, recovery_s=recovery)
        for m in (between, between * rarer)
    ]
    assert share[0] <= share[1] * (1 + 1e-12)
    assert 0 <= share[0] <= 1


def test_daly_tends_to_young_where_checkpoints_are_cheap() -> None:
    young = math.sqrt(2 * 1e6)
    assert checkpoint_interval_s(blocking_s=1, between_s=1e6) == pytest.approx(young, rel=1e-3)
    assert checkpoint_interval_s(blocking_s=100, between_s=50) == 50  # nothing longer than one interruption apart
    assert checkpoint_interval_s(blocking_s=1, between_s=100, least_s=60) == 60  # the write must end first


def test_spot_and_nodes_add_their_rates() -> None:
    alone = time_between_interruptions_s(nodes=8, per_node_day=0.01)
    assert alone == pytest.approx(86400 / 0.08)
    both = time_between_interruptions_s(nodes=8, per_node_day=0.01, spot_s=3600)
    assert 1 / both == pytest.approx(1 / alone + 1 / 3600)


@given(st.floats(1.2, 25))
def test_a_gamma_shape_reproduces_the_ratio_it_came_from(ratio: float) -> None:
    shape = gamma_shape(low=1.0, high=ratio)
    low, high = (gamma_quantile(shape=shape, z=z) for z in (-1.6449, 1.6449))
    assert high / low == pytest.approx(ratio, rel=1e-3)


@given(st.floats(0, 400), st.sampled_from([0.05, 0.1, 0.5, 0.9, 0.95]))
def test_a_poisson_quantile_is_the_first_count_that_suffices(mean: float, p: float) -> None:
    count = poisson_quantile(mean=mean, p=p)
    below = sum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(count)) if mean > 0 else 0.0
    assert below < p + 1e-9


@pytest.mark.parametrize("mean", [501.0, 700.0, 1500.0, 8000.0])
def test_the_normal_branch_is_within_one_count_of_the_exact_one(mean: float) -> None:
    for p in (0.05, 0.1, 0.5, 0.9, 0.95, 0.99):
        total, count = 0.0, -1
        while total < p:
            count += 1
            total += math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))
        assert abs(poisson_quantile(mean=mean, p=p) - count) <= 1
