"""Errors, bias, quantiles and coverage against numbers worked out by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage_accuracy.metrics import absolute_error_share, bias, errors, half_width, is_covered, log_ratio, quantile

positive = st.floats(1e-3, 1e6)


def test_errors_of_a_small_set_by_hand() -> None:
    found = errors([(110.0, 100.0), (80.0, 100.0), (100.0, 100.0)], [(90.0, 130.0), (75.0, 85.0), (None, None)])
    assert found.rows == 3
    assert found.median_ape == pytest.approx(0.1)
    assert found.mean_ape == pytest.approx(0.1)
    assert found.p90_ape == pytest.approx(0.18)
    assert found.bias == pytest.approx((1.1 * 0.8) ** (1 / 3) - 1)
    assert found.coverage_90 == pytest.approx(0.5)
    assert found.half_width == pytest.approx((40 / 220 + 10 / 160) / 2)


def test_nothing_to_compare_is_absent_and_not_zero() -> None:
    found = errors([])
    assert (found.rows, found.median_ape, found.bias, found.coverage_90) == (0, None, None, None)
    assert quantile([], 0.5) is None
    assert bias([(0.0, 1.0)]) is None


def test_a_verdict_is_right_or_wholly_wrong() -> None:
    assert [absolute_error_share(predicted=p, measured=m) for p, m in [(1, 1), (0, 1), (1, 0), (0, 0)]] == [0, 1, 1, 0]
    assert log_ratio(predicted=0, measured=1) is None


def test_an_interval_holds_its_ends() -> None:
    assert is_covered(measured=1.0, low=1.0, high=2.0) is True
    assert is_covered(measured=2.1, low=1.0, high=2.0) is False
    assert is_covered(measured=1.0, low=None, high=2.0) is None
    assert half_width(predicted=0.0, low=0.0, high=1.0) is None


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=30), st.floats(0.5, 2.0))
def test_bias_moves_with_the_predictions_and_ignores_the_unit(pairs: list[tuple[float, float]], factor: float) -> None:
    moved = bias([(p * factor, m) for p, m in pairs])
    scaled = bias([(p * 1e3, m * 1e3) for p, m in pairs])
    base = bias(pairs)
    assert moved is not None
    assert base is not None
    assert math.log1p(moved) - math.log1p(base) == pytest.approx(math.log(factor), abs=1e-6)
    assert scaled == pytest.approx(base, rel=1e-6, abs=1e-9)


@given(st.lists(positive, min_size=1, max_size=30), st.floats(0, 1))
def test_a_quantile_lies_within_and_rises_with_its_share(values: list[float], share: float) -> None:
    found, more = quantile(values, share), quantile(values, 1.0)
    assert found is not None
    assert more is not None
    assert min(values) <= found * (1 + 1e-12)
    assert found <= more * (1 + 1e-12)
