"""Which of many options no other beats in everything at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["frontier"]

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
