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
from collections.abc import Iterator, Mapping

from tonnage.optimize.fleet_problem import FleetProblem, Key, Machine, Pool, Way, classes_of
from tonnage.optimize.highs import UNLIMITED, Column

Terms = tuple[Mapping[Key, float], float, float, bool]
"""A row: factor of each variable, lower and upper end of their sum, and whether a variable of its own makes it hold."""


def at_most(terms: Mapping[Key, float], most: float = 0.0) -> Terms:
    """The row that a sum does not exceed."""
    return terms, -math.inf, most, False


def at_least(terms: Mapping[Key, float], least: float) -> Terms:
    """The row that a sum does not fall below."""
    return terms, least, math.inf, False


def zone_columns(problem: FleetProblem) -> Iterator[tuple[Key, Column]]:
    """Replicas, slots that are split, and instances of each zone."""
    ways = list(_spread(problem))
    for t in range(len(problem.hours)):
        for k in _spreads(problem):
            for m in sorted({n for _, way in ways for n in problem.alike(way.machine)}):
                yield ("each", m, k, t), Column(0.0, period=t)
            for m, slices in sorted({(way.machine, way.slices) for _, way in ways if way.slices > 1}):
                yield ("split each", m, k, t, slices), Column(0.0, period=t)
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
            there = {term.standing(m, t): 1.0 for term in problem.machines[m].terms if term.firm}
            yield at_least({**there, **{("each", m, k, t): -float(k) for k in _spreads(problem)}}, 0.0)
        for k in _spreads(problem):
            users = {("in each", w, k, t): way for w, way in ways if way.machine == kind}
            each = {("each", n, k, t): problem.machines[n] for n in problem.alike(kind)}
            yield from room_rows(users, each, split=("split each", kind, k, t))
    for w, _ in ways:
        spread: dict[Key, float] = {("in each", w, k, t): -float(k) for k in _spreads(problem)}
        yield at_least({("runs", w, True, t): 1.0, **spread}, 0.0)
    for p, pool in enumerate(problem.pools):
        mine = [(w, way) for w, way in ways if way.pool == p]
        if mine:
            left = {k: float(k - problem.lost_zones) for k in _spreads(problem)}
            left_of = {w: {("in each", w, k, t): times for k, times in left.items()} for w, _ in mine}
            yield from carrying_rows(mine, pool, flow=("flow each",), there=left_of, t=t)


def room_rows(users: dict[Key, Way], there: dict[Key, Machine], *, split: Key) -> Iterator[Terms]:
    """Replicas fit the slots and the cores of instances; `split` and so many slices: the slots that are cut so."""
    slots = {key: way.charge for key, way in users.items() if way.slices == 1 and way.charge > 0}
    for slices in dict.fromkeys(way.slices for way in users.values() if way.slices > 1):
        parts = {key: 1.0 for key, way in users.items() if way.slices == slices}
        yield at_most({**parts, (*split, slices): -float(slices)})
        slots[*split, slices] = 1.0
    yield from _slot_rows(slots, {key: machine.slots for key, machine in there.items()})
    cores = {key: way.cores for key, way in users.items() if way.cores > 0}
    if cores and any(machine.cores is not None for machine in there.values()):
        yield at_most({**cores, **{key: -(machine.cores or 0.0) for key, machine in there.items()}})


def _slot_rows(users: dict[Key, float], standing: dict[Key, float]) -> Iterator[Terms]:
    """Of every charge, what takes as much or more fits the slots of the instances that are large enough."""
    if users and len(set(standing.values())) <= 1:
        yield at_most({**users, **{key: -slots for key, slots in standing.items()}})
        return
    before = 0
    for charge in sorted(set(users.values())):
        able = {key: -slots for key, slots in standing.items() if slots >= charge}
        if len(able) != before:  # else the row before says it
            yield at_most({**{key: each for key, each in users.items() if each >= charge}, **able})
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


def carrying_rows(
    ways: list[tuple[int, Way]], pool: Pool, *, flow: Key, there: dict[int, dict[Key, float]], t: int
) -> Iterator[Terms]:
    """
    The share that survives is carried by what is left of each way: `there`, so many times some of its variables.

    Of several buckets each way's time is divided between its flows, the variables `flow`, w, b, t.
    """
    several = len(pool.demand) > 1
    for b, load in enumerate(pool.demand):
        if load[t] <= 0:
            continue
        carried: dict[Key, float] = {}
        for w, way in ways:
            if way.rates[b] <= 0:
                continue
            if several:
                carried[*flow, w, b, t] = 1.0 / load[t]
                continue
            # What could carry more than the share counts for all of it: the tighter row.
            carried |= {key: min(pool.survives, times * way.rates[b] / load[t]) for key, times in there[w].items()}
        yield at_least(carried, pool.survives)
    for w, way in ways if several else ():
        used = {(*flow, w, b, t): 1.0 / rate for b, rate in enumerate(way.rates) if rate > 0}
        yield at_most({**used, **{key: -times for key, times in there[w].items()}})
