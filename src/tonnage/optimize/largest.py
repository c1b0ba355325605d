"""The largest x that still fits, by doubling and halving."""

from __future__ import annotations

from collections.abc import Callable


def largest_whole(fits: Callable[[int], bool], *, most: int) -> int:
    """The largest whole number from 1 to `most` for which `fits` holds; 0 when not even 1 does. Fits is monotone."""
    if not fits(1):
        return 0
    low, high = 1, 2
    while high < most and fits(high):
        low, high = high, high * 2
    if high >= most and fits(most):
        return most
    high = min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
