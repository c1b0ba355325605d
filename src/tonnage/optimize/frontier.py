"""
Which of many options no other beats in everything at once.

And the largest x that still fits, by doubling and halving.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["frontier", "largest_whole"]

T = TypeVar("T")


def frontier(options: Sequence[T], *, objectives: Sequence[Callable[[T], float]]) -> tuple[int, ...]:
    """
    Indices of options that are not dominated, in the given order; smaller is better in every objective.

    One option dominates another when it is no worse in all objectives and better in one. Cost is
    O(n f) for f options on the frontier.
    """
    points = [tuple(objective(option) for objective in objectives) for option in options]
    kept: list[int] = []
    for index in sorted(range(len(points)), key=points.__getitem__):
        if not any(_dominates(points[other], points[index]) for other in kept):
            kept.append(index)
    return tuple(sorted(kept))


def _dominates(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a != b and all(x <= y for x, y in zip(a, b, strict=True))


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
