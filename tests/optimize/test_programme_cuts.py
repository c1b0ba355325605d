"""Rows by rounding keep every whole-number solution, and break the relaxation's."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.optimize.test_fleet import brute_force, instance

from tonnage.optimize import programme
from tonnage.optimize.fleet import cheapest_fleet
from tonnage.optimize.highs import Column
from tonnage.optimize.programme_cuts import (
    Cover,
    Point,
    Room,
    broken_facet,
    rounding_cut,
    violated_cuts,
    whole_over_parts,
)

FACTORS = st.lists(st.floats(0.1, 5.0), min_size=1, max_size=3)


@settings(max_examples=100, deadline=None)
@given(FACTORS, st.floats(0.3, 9.0), st.floats(0.2, 5.0))
def test_rounding_keeps_every_whole_solution(factors: list[float], least: float, scale: float) -> None:
    cut = rounding_cut(Cover(dict(enumerate(factors)), least), scale=scale, whole=[True] * len(factors))
    if cut is None:
        return
    for counts in itertools.product(range(6), repeat=len(factors)):
        if sum(f * n for f, n in zip(factors, counts, strict=True)) >= least:
            assert sum(f * counts[i] for i, f in cut.terms.items()) >= cut.least - 1e-6


def test_a_quarter_of_an_instance_is_made_a_whole_one() -> None:
    """One replica of two slots on machines of eight: the relaxation stands 0.25 of one up."""
    found = violated_cuts(
        [Cover({0: 1.0}, 1.0)], [], rooms=[Room({0: 2.0}, {1: 8.0})], point=Point((1.0, 0.25), (True, True))
    )
    assert any(cut.terms.keys() == {1} and cut.least / cut.terms[1] == pytest.approx(1.0) for cut in found)


def test_replicas_are_rounded_up() -> None:
    found = violated_cuts([Cover({0: 1.0}, 2.3)], [], rooms=[], point=Point((2.3,), (True,)))
    assert any(cut.least / cut.terms[0] == pytest.approx(3.0) for cut in found)


def test_period_by_period_the_bound_stays_below_the_optimum_and_the_solution_above(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(programme, "WHOLE_AT_MOST", 0)
    monkeypatch.setattr(programme, "WHOLE_AT_ONCE", 0)
    for seed in range(1, 80, 2):
        problem = instance(seed, periods=2)
        found, best = cheapest_fleet(problem, gap=0.0), brute_force(problem)
        assert found.feasible == math.isfinite(best), seed
        if found.feasible:
            assert found.bound <= best * (1 + 1e-6), seed
            assert found.cost >= best * (1 - 1e-6), seed


@settings(max_examples=60, deadline=None)
@given(FACTORS, st.floats(0.3, 9.0), st.lists(st.floats(0.0, 3.0), min_size=3, max_size=3))
def test_a_facet_keeps_every_whole_solution_and_breaks_the_point(
    factors: list[float], least: float, values: list[float]
) -> None:
    cut = broken_facet(Cover(dict(enumerate(factors)), least), values)
    if cut is None:
        return
    assert sum(f * values[i] for i, f in cut.terms.items()) < cut.least
    for counts in itertools.product(range(8), repeat=len(factors)):
        if sum(f * n for f, n in zip(factors, counts, strict=True)) >= least:
            assert sum(f * counts[i] for i, f in cut.terms.items()) >= cut.least - 1e-6


def test_a_facet_counts_what_a_point_does_not_take_as_far_as_every_cover_allows() -> None:
    """5 x + 3 y >= 11 takes three of any kind, of which 2.2 of the large alone are too few."""
    cut = broken_facet(Cover({0: 5.0, 1: 3.0}, 11.0), (2.2, 0.0))
    assert [factor / cut.least for factor in cut.terms.values()] == pytest.approx([1.0 / 3.0, 1.0 / 3.0])


def test_whole_instances_by_the_hour_cost_more_than_their_parts() -> None:
    columns = [Column(10.0), Column(1.0, period=0), Column(2.0, whole=False, period=0)]
    assert whole_over_parts(columns, (0.5, 0.25, 0.5)) == pytest.approx(2.5)  # one for a quarter, and half of that
    assert whole_over_parts(columns, (0.5, 8.0, 0.5)) == 1.0
    assert whole_over_parts(columns, (0.5, 0.0, 0.5)) == 1.0
