"""Where is the knee, and which load is tried next? Decided from the points so far, and from nothing else.

A level is bad when it fails, misses an objective, or is not sustained: in an open loop a server that keeps up would
have been done in less than 90 % of the time; in a closed loop more concurrency brings less than 5 % more requests per
doubling. Levels double until one is bad, then the gap is halved three times. The same points give the same next level,
which is what resuming rests on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

from tonnage.domain.measurement import Knee, Point, turning_point
from tonnage.domain.metrics import objectives
from tonnage.domain.requests.common import Slo
from tonnage.units import percent

By = Literal["rate", "concurrency"]

SUSTAINED_SHARE: Final = 0.90
"""Time of a server that keeps up over the time it took, below which a rate is not sustained. [-]"""
MIN_GAIN: Final = 0.05
"""Gain of requests per second that a doubling of concurrency must bring. [-]"""
MAX_FAILING_SHARE: Final = 0.05
HALVINGS: Final = 3


def objective_missed(point: Point, slo: Slo) -> str | None:
    """The objective that a point misses at its percentile, by name; nothing when it meets all."""
    missed = _missed(point, slo)
    return missed and missed[0]


def _missed(point: Point, slo: Slo) -> tuple[str, float] | None:
    """The same with its value. [s]"""
    for metric, limit in objectives(slo):
        value = point.seen(metric.name, slo.percentile)
        if value is not None and value > limit:
            return metric.name.removesuffix("_s"), value
    return None


def why_not_sustained(
    point: Point, below: Point | None, *, by: By, slo: Slo, calm: Point | None = None
) -> tuple[str, str] | None:
    """
    Why a level is not sustained: the limit and a sentence; nothing when it is.

    `below` is the level measured before it, without which a closed loop's gain is not judged; `calm` is the lowest
    one, whose latency holds no queue.
    """
    if point.failed > MAX_FAILING_SHARE * (point.requests or point.completed) or point.completed == 0:
        kinds = ", ".join(f"{count} x {kind}" for kind, count in point.failures.items())
        return "errors", f"{point.failed} of {point.requests} requests fail ({kinds})"
    if point.stopped is not None:
        return "queue", point.stopped
    if missed := _missed(point, slo):
        name, value = missed
        return name, f"p{slo.percentile:g} {name.upper()} is {value * 1e3:.3g} ms"
    served = point.requests_per_s or 0.0
    if by == "rate":
        late = _catching_up(point, calm or below)
        if late is not None and late < SUSTAINED_SHARE:
            return "queue", f"{served:.3g} requests/s are answered of {_arriving(point):.3g} arriving"
    if by == "concurrency" and below is not None and below.requests_per_s:
        gain = served / below.requests_per_s - 1.0
        doublings = math.log2(point.level / below.level)
        if gain < MIN_GAIN * doublings:
            return "throughput", f"{point.level:g} at once bring {served:.3g} requests/s, {percent(gain, 1, sign='+')}"
    return None


def _arriving(point: Point) -> float:
    """The rate that the schedule came to in this stage, chance included."""
    return (point.requests or 1) / point.arrivals_s if point.arrivals_s else point.rate_per_s or 0.0


def _catching_up(point: Point, calm: Point | None) -> float | None:
    """
    The time that a server which keeps up would have taken, over the time it took.

    Keeping up means answering the last request as fast as the lowest load is answered.
    """
    alone = (calm or point).seen("e2e_s", 50.0)
    if point.arrivals_s is None or not point.duration_s or alone is None:
        return None
    return (point.arrivals_s + alone) / point.duration_s


def _bracket(points: Sequence[Point], *, by: By, slo: Slo) -> tuple[Point | None, tuple[Point, str, str] | None]:
    """The highest good level, and the lowest bad one above it."""
    good: Point | None = None
    calm: Point | None = None
    for point in sorted(points, key=lambda point: point.level):
        bad = why_not_sustained(point, good, by=by, slo=slo, calm=calm)
        if bad is not None:
            return good, (point, *bad)
        good, calm = point, calm or point
    return good, None


def next_level(points: Sequence[Point], *, by: By, slo: Slo, first: float, most: float) -> float | None:
    """
    The level to try next; nothing when the knee is found or the bound reached.

    `first` is the level that the sweep begins with, `most` the highest it may try. Where even the first is bad, half of
    it is tried, half of that, three times at most.
    """
    if not points:
        return first
    good, bad = _bracket(points, by=by, slo=slo)
    if bad is None:
        assert good is not None
        return min(good.level * 2, most) if good.level < most else None
    if good is None:
        lower = bad[0].level / 2
        tried = len(points) > HALVINGS or (by == "concurrency" and lower < 1)
        return None if tried or bad[1] == "errors" else (lower if by == "rate" else float(int(lower)))
    inside = sum(1 for point in points if not _is_doubling(point.level, first, most))
    middle = (good.level + bad[0].level) / 2
    if by == "concurrency":
        middle = float(int(middle))
    if inside >= HALVINGS or bad[1] == "errors" or middle in (good.level, bad[0].level):
        return None
    return middle


def _is_doubling(level: float, first: float, most: float) -> bool:
    exponent = math.log2(level / first)
    return abs(exponent - round(exponent)) < 1e-9 or level == most


def knee_of(points: Sequence[Point], *, by: By, slo: Slo) -> Knee | None:
    """The highest sustained level of a sweep and what binds above it; nothing when no level is sustained."""
    good, bad = _bracket(points, by=by, slo=slo)
    if good is None or good.requests_per_s is None:
        return None
    return Knee(
        by=by,
        level=good.level,
        requests_per_s=good.requests_per_s,
        output_tokens_per_s=good.output_tokens_per_s,
        turns_at=turning_point(points) if by == "concurrency" else None,
        first_bad=bad[0].level if bad else None,
        limit=bad[1] if bad else "none",
        reason=bad[2] if bad else "no load that was tried is too much",
    )
