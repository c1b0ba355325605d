"""
The load of a fleet: which hours are alike and what falls into them, and requests, drawn once and dealt to replicas.

Hours in which every load is nearly the same are planned as one period, for the highest of each load: the programme
gets smaller and the fleet is never too small. A day or a week repeats.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Final

import msgspec
import numpy as np

from tonnage.domain.requests.common import Lengths
from tonnage.domain.requests.serve import Serve
from tonnage.questions.fleet.answer import Bucket, FleetRequest, FleetWorkload, HourRange
from tonnage.record import Record
from tonnage.simulation.simulated import Requests

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
    """
    The hours of all workloads together: a day, or a week where a load differs by its days. Hours of like load are
    merged into periods, whose load is the largest of their hours'.
    """
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
    and their share of the work, so that none of it waits for another day. Empty where all such days are alike.
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
    """Arrivals in an hour [1/s], or 1 where deferred work may run and 0 where it may not."""
    if workload.kind in DEFERRED:
        return float(_in_window(workload, hour % DAY) and hour // DAY < _days(workload))
    shape = workload.shape
    if shape.hours:
        return workload.rate_per_s * shape.hours[hour % len(shape.hours)]
    return workload.rate_per_s * shape.peak_to_mean


def _in_window(workload: FleetWorkload, of_day: int) -> bool:
    """Whether deferred work may run in an hour of the day; a window may pass midnight."""
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


SEED = 20261121


def cut(serve: Serve, number: int) -> tuple[Bucket, ...]:
    """At most `number` buckets of a traffic profile that hold equal shares of its tokens, short requests first."""
    from tonnage.questions.serve.capacity_search import draw_requests

    requests = draw_requests(serve)
    whole = requests.prompt + requests.output
    ranked = np.sort(whole)
    passed = np.cumsum(ranked) / ranked.sum()
    inner = [float(ranked[np.searchsorted(passed, (i + 1) / number)]) for i in range(number - 1)]
    edges = [0.0, *sorted(set(inner)), float(whole.max()) + 1.0]
    found = []
    for low, high in itertools.pairwise(edges):
        mine = (whole >= low) & (whole < high)
        if not mine.any():
            continue
        prompt, output = requests.prompt[mine], requests.output[mine]
        found.append(
            Bucket(
                share=float(mine.mean()),
                lengths=Lengths(
                    prompt_tokens=float(prompt.mean()),
                    output_tokens=float(output.mean()),
                    prompt_p95=float(np.percentile(prompt, 95)),
                    output_p95=float(np.percentile(output, 95)),
                    profile=serve.lengths.profile,
                ),
                edges=(low, high),
            )
        )
    return tuple(found)


def draw_for_workload(workload: FleetWorkload) -> tuple[Requests, Any]:
    """
    The workload's requests at a nominal rate, and the index of the bucket each belongs to: by length where buckets are
    cut from a profile, else drawn by their shares.
    """
    from tonnage.questions.serve.capacity_search import draw_requests

    assert workload.serve is not None
    requests = draw_requests(workload.serve)
    n, buckets = len(requests.prompt), workload.buckets
    if len(buckets) == 1:
        return requests, np.zeros(n, np.int64)
    if buckets[0].edges is not None:
        inner = [bucket.edges[0] for bucket in buckets[1:] if bucket.edges is not None]
        return requests, np.searchsorted(np.array(inner), requests.prompt + requests.output, side="right")
    rng = np.random.Generator(np.random.PCG64(SEED))
    which = rng.choice(len(buckets), size=n, p=[bucket.share for bucket in buckets])
    return _with_lengths(requests, buckets, which), which


def _with_lengths(requests: Requests, buckets: tuple[Bucket, ...], which: Any) -> Requests:
    prompt = np.array([round(bucket.lengths.prompt_tokens) for bucket in buckets], np.int64)
    output = np.array([round(bucket.lengths.output_tokens) for bucket in buckets], np.int64)
    return requests._replace(prompt=prompt[which], output=output[which])


def of_bucket(requests: Requests, which: np.ndarray[Any, Any], *, bucket: int) -> Requests:
    """As many requests as there were, all with lengths of one bucket."""
    mine = np.flatnonzero(which == bucket)
    if len(mine) == len(which):
        return requests
    rows = mine[np.arange(len(which)) % len(mine)]
    return requests._replace(prompt=requests.prompt[rows], output=requests.output[rows])
