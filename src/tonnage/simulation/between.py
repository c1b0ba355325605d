"""How is a step's table read between the shapes that it holds? Times by rows, and lines over the context by batch.

Times of products grow as powers of their rows between two of them, so rows are read in logarithms; decode attention is
a fixed time and one for each token of context, both of which grow evenly with the batch. Beyond the last shape an
engine runs several steps of that size: times are proportional there.
"""

from __future__ import annotations

from bisect import bisect_left
from math import exp, log


def value_at(xs: tuple[float, ...], ys: tuple[float, ...], *, x: float) -> float:
    """Log-log interpolation, flat below the first point and proportional above the last."""
    if x <= xs[0]:
        return ys[0]
    if x >= xs[-1]:
        return ys[-1] * x / xs[-1]
    i = bisect_left(xs, x)
    if xs[i] == x:
        return ys[i]
    share = log(x / xs[i - 1]) / log(xs[i] / xs[i - 1])
    low, high = ys[i - 1], ys[i]
    if low <= 0.0 or high <= 0.0:
        return low + share * (high - low)
    return exp(log(low) + share * log(high / low))


def affine_at(xs: tuple[float, ...], ys: tuple[tuple[float, float], ...], *, x: float) -> tuple[float, float]:
    """Linear interpolation of (fixed, slope), proportional above the last point."""
    if x <= xs[0]:
        return ys[0]
    if x >= xs[-1]:
        over = x / xs[-1]
        return ys[-1][0] * over, ys[-1][1] * over
    i = bisect_left(xs, x)
    share = (x - xs[i - 1]) / (xs[i] - xs[i - 1])
    (f0, s0), (f1, s1) = ys[i - 1], ys[i]
    return f0 + share * (f1 - f0), s0 + share * (s1 - s0)
