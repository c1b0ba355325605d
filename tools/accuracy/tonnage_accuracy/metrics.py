"""
How is one prediction, or a set of them, judged? Errors, bias, quantiles and coverage as plain functions.

The error is |predicted - measured| / measured. Bias is the geometric mean of predicted over measured, less one: +0.10
says predictions are 10 % high, whichever way single rows err. Coverage is the share of measured values inside their
90 % interval; half-width the median of (high - low) / (2 predicted), so that 0.25 reads "give or take a quarter".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tonnage.record import Record


class Errors(Record, kw_only=True):
    """How a set of predictions compares with what was measured; absent = nothing to compare."""

    rows: int
    median_ape: float | None = None
    mean_ape: float | None = None
    p90_ape: float | None = None
    bias: float | None = None
    coverage_90: float | None = None
    half_width: float | None = None


def absolute_error_share(*, predicted: float, measured: float) -> float:
    """
    Absolute error as a share of the measured value; a measured zero is right or wholly wrong.

    Examples
    --------
    >>> absolute_error_share(predicted=1.5, measured=1.0)
    0.5
    """
    if measured == 0:
        return 0.0 if predicted == 0 else 1.0
    return abs(predicted - measured) / abs(measured)


def log_ratio(*, predicted: float, measured: float) -> float | None:
    """ln(predicted / measured); none where one of them is not positive."""
    return math.log(predicted / measured) if predicted > 0 and measured > 0 else None


def bias(pairs: Sequence[tuple[float, float]]) -> float | None:
    """
    Geometric mean of predicted / measured, less one, over (predicted, measured) pairs.

    Examples
    --------
    >>> bias([(2.0, 1.0), (1.0, 2.0)])
    0.0
    """
    ratios = [log_ratio(predicted=p, measured=m) for p, m in pairs]
    known = [ratio for ratio in ratios if ratio is not None]
    return math.expm1(sum(known) / len(known)) if known else None


def quantile(values: Sequence[float], share: float) -> float | None:
    """
    The value below which that share lies, between neighbours in a straight line.

    Examples
    --------
    >>> quantile([1.0, 2.0, 3.0], 0.75)
    2.5
    """
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def is_covered(*, measured: float, low: float | None, high: float | None) -> bool | None:
    """Whether the interval holds the measured value; none without an interval."""
    return None if low is None or high is None else low <= measured <= high


def half_width(*, predicted: float, low: float | None, high: float | None) -> float | None:
    """
    Half of the interval as a share of the predicted value; none without an interval.

    Examples
    --------
    >>> half_width(predicted=100.0, low=80.0, high=130.0)
    0.25
    """
    if low is None or high is None or predicted <= 0:
        return None
    return (high - low) / (2 * predicted)


def errors(pairs: Sequence[tuple[float, float]], intervals: Sequence[tuple[float | None, float | None]] = ()) -> Errors:
    """
    Every figure of a set of (predicted, measured) pairs.

    Parameters
    ----------
    pairs : sequence of (number, number)
        Predicted and measured.
    intervals : sequence of (number or None, number or None), optional
        Low and high of each pair, in the same order.
    """
    apes = [absolute_error_share(predicted=p, measured=m) for p, m in pairs]
    bounded = list(zip(pairs, intervals, strict=False))
    inside = [is_covered(measured=m, low=low, high=high) for (_, m), (low, high) in bounded]
    known = [held for held in inside if held is not None]
    widths = [half_width(predicted=p, low=low, high=high) for (p, _), (low, high) in bounded]
    return Errors(
        rows=len(pairs),
        median_ape=quantile(apes, 0.5),
        mean_ape=sum(apes) / len(apes) if apes else None,
        p90_ape=quantile(apes, 0.9),
        bias=bias(pairs),
        coverage_90=sum(known) / len(known) if known else None,
        half_width=quantile([width for width in widths if width is not None], 0.5),
    )
