"""
What the fleet programme is asked and answers: machines on terms, pools, ways, quotas; what stands in zones alike.

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
from typing import Any

from tonnage.optimize.highs import UNLIMITED, Column
from tonnage.record import Record

Key = tuple[Any, ...]
"""Of a variable of the programme: its family, and what it is of."""


class Step(Record, kw_only=True):
    """A part of a contract's time, in which so much of it is there and so much of it is due."""

    share: float
    """Of its time. [-]"""
    due: float = 0.0
    """Instances paid, used or not."""
    most: float = math.inf
    """Instances that are there."""


class Term(Record, kw_only=True):
    """One way to have a machine."""

    name: str
    cost_per_hour: float
    always: bool = False
    """Paid in every hour; else only while it runs."""
    firm: bool = True
    """Stays until it is given back."""
    available: float = 1.0
    """Share of the time in which it does useful work. [-]"""
    steps: tuple[Step, ...] = ()
    """Of a contract that is due used or not, or comes by and by; empty = what stands is paid."""
    bridge_per_hour: float | None = None
    """Paid for an instance that a step has not brought; absent = there is none."""

    def standing(self, m: int, t: int) -> Key:
        """The variable that counts the instances of a machine on it in a period."""
        return ("held", m, self.name) if self.always else ("hired", m, self.name, t)


class Machine(Record, kw_only=True):
    """Something that can be had in any number."""

    id: str
    slots: float
    terms: tuple[Term, ...]
    domain: str = ""
    """What fails together."""
    start_h: float = 0.0
    """Paid before an hourly instance is of use. [h]"""
    cores: float | None = None
    """Of the host; absent = not known, and nothing is held against it."""
    whole: bool = True
    """Stands for whole periods, in whole numbers; else a run has it to itself for just the hours that it takes."""


class Way(Record, kw_only=True):
    """A replica of a pool on a machine."""

    pool: int
    machine: int
    charge: float
    """Slots it takes; for a slice, one slot holds `slices` of them."""
    rates: tuple[float, ...]
    """Of each bucket, when it does nothing else; 0 = it cannot."""
    slices: int = 1
    cores: float = 0.0
    whole: bool = True
    """Comes in whole numbers; cores of a host do not, nor parts of a period in which a run has its own instances."""


class Pool(Record, kw_only=True):
    """One workload's load."""

    id: str
    demand: tuple[tuple[float, ...], ...] = ()
    """Of each bucket in each period."""
    work: float | None = None
    """Instead of demand: to be done in all periods together, whenever that is cheapest. [rate x h]"""
    when: tuple[int, ...] = ()
    """Periods in which work may be done; empty = all."""
    single: bool = False
    """All work is done by one replica of one way, in as many hours as it takes: a run keeps its arrangement."""
    paces: tuple[tuple[tuple[float, ...], float], ...] = ()
    """(hours of each period, share of the work to be done in them): of work that comes anew every few days."""
    loose: float = 0.0
    """Share that may run on terms that are not firm. [-]"""
    survives: float = 0.0
    """Share of the demand still served when any one domain, or the zones that may be lost, are gone. [-]"""
    spares: int = 0
    """Replicas, any so many of which may fail while the rest serve the demand; of several buckets, of each way."""


class Quota(Record, kw_only=True):
    """At most so many slots of some machines at once."""

    name: str
    machines: tuple[int, ...]
    most: float
    """Slots of all of them together. [slots]"""
    term: str | None = None
    """The one term that counts; absent = all do."""

    def counts(self, m: int, term: Term) -> bool:
        """Whether instances of a machine on a term count."""
        return m in self.machines and self.term in {None, term.name}


class FleetProblem(Record, kw_only=True):
    """Everything that is asked."""

    hours: tuple[float, ...]
    """Of each period. [h]"""
    machines: tuple[Machine, ...]
    pools: tuple[Pool, ...]
    ways: tuple[Way, ...]
    quotas: tuple[Quota, ...] = ()
    follows: tuple[tuple[int, int, float], ...] = ()
    """(period, next period, how often it follows): where instances start."""
    zones: int = 1
    """Failure domains within each machine's own, with the same prices; a pool that survives stands in all of them."""
    lost_zones: int = 1
    """Of them, how many may be lost at once."""
    kinds: tuple[int, ...] = ()
    """Of each machine, the first that holds the same replicas as fast, which ways name; empty = each for itself."""

    def ways_of(self, pool: int) -> list[tuple[int, Way]]:
        """The ways of a pool with their places."""
        return [(w, way) for w, way in enumerate(self.ways) if way.pool == pool]

    def alike(self, m: int) -> tuple[int, ...]:
        """The machines of a kind, by its first."""
        return tuple(n for n, kind in enumerate(self.kinds) if kind == m) if self.kinds else (m,)


class Fleet(Record, kw_only=True):
    """The cheapest fleet found, and how much cheaper one may still be."""

    feasible: bool
    cost: float = math.inf
    bound: float = math.inf
    """No fleet costs less."""
    instances: dict[tuple[int, str], tuple[float, ...]] = {}
    """(machine, term) -> number in each period."""
    replicas: dict[tuple[int, bool], tuple[float, ...]] = {}
    """(way, firm) -> number in each period."""
    flows: dict[tuple[int, bool, int], tuple[float, ...]] = {}
    """(way, firm, bucket) -> what it carries in each period; of a pool with several buckets."""
    starts: dict[tuple[int, str], float] = {}
    """(machine, term) -> instances started in all periods together."""

    @property
    def gap(self) -> float:
        """What may be left to gain, over the cost. [-]"""
        return 0.0 if self.cost <= self.bound else (self.cost - self.bound) / self.cost


def classes_of(problem: FleetProblem, way: Way) -> list[bool]:
    """Firm and loose, as far as the machine is had so and the pool allows it."""
    terms = problem.machines[way.machine].terms
    allowed = [True, False] if problem.pools[way.pool].loose > 0 else [True]
    return [firm for firm in allowed if any(term.firm is firm for term in terms)]


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
    ways = list(_zoned_ways(problem))
    for t in range(len(problem.hours)):
        for k in _zone_counts(problem):
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
    """
    The rows of the module's docstring for a period: what stands in each zone is part of what stands in all, it has room
    there, and the zones that are left carry the share that survives.
    """
    ways = list(_zoned_ways(problem))
    for kind in sorted({way.machine for _, way in ways}):
        for m in problem.alike(kind):
            there = {term.standing(m, t): 1.0 for term in problem.machines[m].terms if term.firm}
            yield at_least({**there, **{("each", m, k, t): -float(k) for k in _zone_counts(problem)}}, 0.0)
        for k in _zone_counts(problem):
            users = {("in each", w, k, t): way for w, way in ways if way.machine == kind}
            each = {("each", n, k, t): problem.machines[n] for n in problem.alike(kind)}
            yield from room_rows(users, each, split=("split each", kind, k, t))
    for w, _ in ways:
        spread: dict[Key, float] = {("in each", w, k, t): -float(k) for k in _zone_counts(problem)}
        yield at_least({("runs", w, True, t): 1.0, **spread}, 0.0)
    for p, pool in enumerate(problem.pools):
        mine = [(w, way) for w, way in ways if way.pool == p]
        if mine:
            left = {k: float(k - problem.lost_zones) for k in _zone_counts(problem)}
            left_of = {w: {("in each", w, k, t): times for k, times in left.items()} for w, _ in mine}
            yield from carrying_rows(mine, pool, flow=("flow each",), there=left_of, t=t)


def room_rows(users: dict[Key, Way], there: dict[Key, Machine], *, split: Key) -> Iterator[Terms]:
    """
    Replicas (`users`) fit the slots and the cores of instances (`there`).

    The variable (*split, n) counts the slots that are cut into n slices. Cores count only where a machine's are known.
    """
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


def _zoned_ways(problem: FleetProblem) -> Iterator[tuple[int, Way]]:
    """Ways on firm terms of pools that must survive the loss of zones, with their places; none without zones."""
    for w, way in enumerate(problem.ways if problem.zones > 1 else ()):
        pool = problem.pools[way.pool]
        if pool.survives > 0 and pool.work is None and True in classes_of(problem, way):
            yield w, way


def _zone_counts(problem: FleetProblem) -> list[int]:
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
