"""The hours of a fleet: which of them are alike, how much of each load falls into them, and what follows what.

Hours in which every load is nearly the same are planned as one period, for the highest of each load: the programme
gets smaller and the fleet is never too small. A day or a week repeats.
"""

from __future__ import annotations

import itertools
import math
from typing import Final

import msgspec

from tonnage.questions.fleet.answer import FleetRequest, FleetWorkload, HourRange
from tonnage.record import Record

MAX_PERIODS: Final = 6
RUN_PERIODS: Final = 2
"""More of them for each workload of runs, whose nights and days divide those of the others."""
LARGEST_PERIODS: Final = 12
DAY: Final = 24
WEEK: Final = 168
DEFERRED: Final = frozenset({"batch", "train", "finetune"})
"""Kinds of workload whose work may wait."""


class Hours(Record, kw_only=True):
    """Periods of like hours."""

    spans: tuple[float, ...]
    """Of each period. [h]"""
    period_of: tuple[int, ...]
    """Of each hour of the day or week."""
    loads: tuple[tuple[float, ...], ...]
    """Of each workload in each period: arrivals, or 1 where a batch may run. [1/s]"""
    follows: tuple[tuple[int, int, float], ...]
    """(period, next period, how often in the day or week)."""

    @property
    def total_h(self) -> float:
        """Hours that repeat. [h]"""
        return sum(self.spans)


def hours_of(request: FleetRequest) -> Hours:
    """The hours of all workloads together."""
    lengths = [len(w.shape.hours) for w in request.workloads if w.shape.hours]
    days = [WEEK for w in request.workloads if _days(w) < WEEK // DAY]
    n = max([DAY, *lengths, *days])
    by_hour = [tuple(_load(w, hour) for w in request.workloads) for hour in range(n)]
    groups = _merge_hours(by_hour, request.workloads)
    # In the order of the day, so that the answer reads like one.
    groups.sort(key=min)
    period_of = [0] * n
    for period, group in enumerate(groups):
        for hour in group:
            period_of[hour] = period
    steps: dict[tuple[int, int], float] = {}
    for before, after in itertools.pairwise([*period_of, period_of[0]]):
        if before != after:
            steps[before, after] = steps.get((before, after), 0.0) + 1.0
    return Hours(
        spans=tuple(float(len(group)) for group in groups),
        period_of=tuple(period_of),
        loads=tuple(
            tuple(max(by_hour[hour][w] for hour in group) for group in groups) for w in range(len(request.workloads))
        ),
        follows=tuple((a, b, times) for (a, b), times in steps.items()),
    )


def paces_of(hours: Hours, number: int) -> tuple[tuple[tuple[float, ...], float], ...]:
    """
    Days of a week that are alike, among those in which work of a workload is under way: hours of each period in them,
    and their share of the work, so that none of it waits for another day.
    """
    days: dict[tuple[int, ...], int] = {}
    for start in range(0, len(hours.period_of), DAY):
        of_day = hours.period_of[start : start + DAY]
        if any(hours.loads[number][period] > 0 for period in of_day):
            days[of_day] = days.get(of_day, 0) + 1
    if len(days) < 2:
        return ()
    return tuple(
        (tuple(float(times * of_day.count(period)) for period in range(len(hours.spans))), times / sum(days.values()))
        for of_day, times in days.items()
    )


def ranges(hours: Hours, counts: tuple[float, ...]) -> tuple[HourRange, ...]:
    """A count of each period as runs of hours."""
    found: list[HourRange] = []
    for hour, period in enumerate(hours.period_of):
        count = counts[period]
        if found and found[-1].count == count:
            found[-1] = msgspec.structs.replace(found[-1], stop=hour + 1)
        else:
            found.append(HourRange(start=hour, stop=hour + 1, count=count))
    return tuple(found)


def _load(workload: FleetWorkload, hour: int) -> float:
    if workload.kind in DEFERRED:
        return float(_in_window(workload, hour % DAY) and hour // DAY < _days(workload))
    shape = workload.shape
    if shape.hours:
        return workload.rate_per_s * shape.hours[hour % len(shape.hours)]
    return workload.rate_per_s * shape.peak_to_mean


def _in_window(workload: FleetWorkload, of_day: int) -> bool:
    if workload.window is None:
        return True
    start, stop = workload.window
    return start <= of_day < stop if start < stop else of_day >= start or of_day < stop


def _days(workload: FleetWorkload) -> int:
    """Days of a week in which work is under way: of runs that end well before the next starts, their share of seven."""
    if workload.run is None or workload.run.deadline_s is None or workload.every_s is None:
        return WEEK // DAY
    return max(1, min(WEEK // DAY, math.floor(WEEK // DAY * workload.run.deadline_s / workload.every_s)))


def allowed_share(workload: FleetWorkload) -> float:
    """Share of a day in which deferred work may run. [-]"""
    return sum(_in_window(workload, hour) for hour in range(DAY)) / DAY


def _merge_hours(by_hour: list[tuple[float, ...]], workloads: tuple[FleetWorkload, ...]) -> list[list[int]]:
    """Groups of hours: those with equal loads, then the pair whose highest loads add least, until few are left."""
    batch = [i for i, w in enumerate(workloads) if w.kind in DEFERRED]
    peaks = [max(loads) or 1.0 for loads in zip(*by_hour, strict=True)]
    equal: dict[tuple[float, ...], list[int]] = {}
    for hour, loads in enumerate(by_hour):
        equal.setdefault(loads, []).append(hour)
    groups = [(loads, hours) for loads, hours in equal.items()]

    def excess(pair: tuple[int, int]) -> float:
        (a, these), (b, those) = groups[pair[0]], groups[pair[1]]
        top = [max(x, y) for x, y in zip(a, b, strict=True)]
        return sum(
            ((t - x) * len(these) + (t - y) * len(those)) / peak for t, x, y, peak in zip(top, a, b, peaks, strict=True)
        )

    most = MAX_PERIODS + RUN_PERIODS * sum(workload.run is not None for workload in workloads)
    while len(groups) > min(most, LARGEST_PERIODS):
        pairs = [
            (i, j)
            for i, j in itertools.combinations(range(len(groups)), 2)
            if all(groups[i][0][w] == groups[j][0][w] for w in batch)
        ]
        if not pairs:
            break
        i, j = min(pairs, key=excess)
        (a, these), (b, those) = groups[i], groups[j]
        joined = (tuple(map(max, a, b)), [*these, *those])
        groups = [group for k, group in enumerate(groups) if k not in {i, j}] + [joined]
    return [hours for _, hours in groups]
