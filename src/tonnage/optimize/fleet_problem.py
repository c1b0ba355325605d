"""What the fleet programme is asked and what it answers: machines on terms, pools of replicas, ways, quotas."""

from __future__ import annotations

import math
from typing import Any

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
    term: str | None = None

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
