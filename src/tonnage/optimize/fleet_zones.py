"""What stands in several zones alike, so that a workload survives the loss of some of them.

Zones have the same machines at the same prices. To plan each by itself would multiply the programme by their number
and make it symmetric. Instead a pool that survives has, on each machine, so many replicas in each of k zones, on so
many instances in each of them, for k all zones or one more than may be lost; what it has beyond that may stand anywhere
and is not counted on in a loss:

    replicas of a way          >=  sum over k of k x those in each of k
    instances of a machine     >=  sum over k of k x those in each of k
    slots in a zone            charge x replicas there  <=  slots x instances there
    loss                       sum over k of (k - lost) x rate x replicas in each  >=  share x demand
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tonnage.optimize.fleet_problem import FleetProblem, Machine, Way, classes_of
from tonnage.optimize.highs import UNLIMITED, Column

__all__ = ["slot_rows", "zone_columns", "zone_rows"]

Key = tuple[Any, ...]
Terms = tuple[dict[Key, float], float, float, bool]


def zone_columns(problem: FleetProblem) -> Iterator[tuple[Key, Column]]:
    """Replicas, slots that are split, and instances of each zone."""
    ways = list(_spread(problem))
    for t in range(len(problem.hours)):
        for k in _spreads(problem):
            for m in sorted({n for _, way in ways for n in problem.alike(way.machine)}):
                yield ("each", m, k, t), Column(0.0, period=t)
            for m, slices in sorted({(way.machine, way.slices) for _, way in ways if way.slices > 1}):
                yield ("split each", m, slices, k, t), Column(0.0, period=t)
            for w, way in ways:
                yield ("in each", w, k, t), Column(0.0, whole=way.whole, period=t, upper=UNLIMITED)
        for w, way in ways:
            demand = problem.pools[way.pool].demand
            for b in range(len(demand) if len(demand) > 1 else 0):
                yield ("flow each", w, b, t), Column(0.0, whole=False, period=t)


def zone_rows(problem: FleetProblem, t: int) -> Iterator[Terms]:
    """What stands in each zone, stands; it has room there; and the zones left carry the share that survives."""
    ways = list(_spread(problem))
    for kind in sorted({way.machine for _, way in ways}):
        for m in problem.alike(kind):
            standing: dict[Key, float] = {
                ("held", m, term.name) if term.always else ("hired", m, term.name, t): 1.0
                for term in problem.machines[m].terms
                if term.firm
            }
            yield {**standing, **{("each", m, k, t): -float(k) for k in _spreads(problem)}}, 0.0, math.inf, False
        for k in _spreads(problem):
            yield from _room(problem, [(w, way) for w, way in ways if way.machine == kind], k=k, t=t)
    for w, _ in ways:
        spread: dict[Key, float] = {("in each", w, k, t): -float(k) for k in _spreads(problem)}
        yield {("runs", w, True, t): 1.0, **spread}, 0.0, math.inf, False
    for p, pool in enumerate(problem.pools):
        mine = [(w, way) for w, way in ways if way.pool == p]
        if mine:
            yield from _outage_terms(problem, mine, share=pool.survives, t=t)


def slot_rows(users: dict[Key, float], standing: dict[Key, float]) -> Iterator[Terms]:
    """Of every charge, what takes as much or more fits the slots of the instances that are large enough."""
    if users and len(set(standing.values())) <= 1:
        yield {**users, **{key: -slots for key, slots in standing.items()}}, -math.inf, 0.0, False
        return
    before = 0
    for charge in sorted(set(users.values())):
        able = {key: -slots for key, slots in standing.items() if slots >= charge}
        if len(able) != before:  # else the row before says it
            yield {**{key: each for key, each in users.items() if each >= charge}, **able}, -math.inf, 0.0, False
        before = len(able)


def _spread(problem: FleetProblem) -> Iterator[tuple[int, Way]]:
    """Ways of pools that survive, on capacity that stays."""
    for w, way in enumerate(problem.ways if problem.zones > 1 else ()):
        pool = problem.pools[way.pool]
        if pool.survives > 0 and pool.work is None and True in classes_of(problem, way):
            yield w, way


def _spreads(problem: FleetProblem) -> list[int]:
    """Over how many zones something may stand alike: all, or one more than may be lost."""
    return sorted({problem.lost_zones + 1, problem.zones})


def _room(problem: FleetProblem, ways: list[tuple[int, Way]], *, k: int, t: int) -> Iterator[Terms]:
    m = ways[0][1].machine
    machine = problem.machines[m]
    slots: dict[Key, float] = {
        ("in each", w, k, t): way.charge for w, way in ways if way.slices == 1 and way.charge > 0
    }
    parts: dict[int, dict[Key, float]] = defaultdict(dict)
    for w, way in ways:
        if way.slices > 1:
            parts[way.slices]["in each", w, k, t] = 1.0
    for slices, users in parts.items():
        whole: Key = ("split each", m, slices, k, t)
        yield {**users, whole: -float(slices)}, -math.inf, 0.0, False
        slots[whole] = 1.0
    each: dict[Key, Machine] = {("each", n, k, t): problem.machines[n] for n in problem.alike(m)}
    yield from slot_rows(slots, {key: one.slots for key, one in each.items()})
    cores: dict[Key, float] = {("in each", w, k, t): way.cores for w, way in ways if way.cores > 0}
    if cores and machine.cores is not None:
        yield {**cores, **{key: -(one.cores or 0.0) for key, one in each.items()}}, -math.inf, 0.0, False


def _outage_terms(problem: FleetProblem, ways: list[tuple[int, Way]], *, share: float, t: int) -> Iterator[Terms]:
    demand = problem.pools[ways[0][1].pool].demand
    left = {k: float(k - problem.lost_zones) for k in _spreads(problem)}
    several = len(demand) > 1
    for b, load in enumerate(demand):
        carried: dict[Key, float] = {}
        for w, way in ways:
            if way.rates[b] <= 0 or load[t] <= 0:
                continue
            if several:
                carried["flow each", w, b, t] = 1.0 / load[t]
            else:
                # What could carry more than the share counts for all of it: the tighter row.
                for k, times in left.items():
                    carried["in each", w, k, t] = min(share, times * way.rates[b] / load[t])
        if load[t] > 0:
            yield carried, share, math.inf, False
    for w, way in ways if several else ():
        used: dict[Key, float] = {("flow each", w, b, t): 1.0 / rate for b, rate in enumerate(way.rates) if rate > 0}
        yield {**used, **{("in each", w, k, t): -times for k, times in left.items()}}, -math.inf, 0.0, False
