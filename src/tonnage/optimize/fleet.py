"""Which machines, on which terms, for how long, carry several workloads at the least cost? An integer programme.

A *pool* is the replicas of one workload; its load comes in *buckets* (requests of like lengths) and *periods* (hours
of the week). A *machine* is something that can be had in any number on one or more *terms*: always (reserved) or by
the hour, firm or not. A *way* is a replica of a pool on a machine: the slots it takes, and what it finishes of each
bucket. Then, for every period,

    work of a bucket       sum of its flows over ways  >=  demand
    time of a replica      sum over buckets of flow / rate  <=  replicas
    slots of a machine     sum of charge x replicas  <=  slots x instances          (and cores likewise)
                           of machines that are alike together, for every charge (`fleet_machines`)
    quota                  sum of slots x instances  <=  most
    loss of one domain     the same work without its machines, for the share that must survive
    loss of zones          the same work from what stands in each of the zones that are left (`fleet_problem`)
    loss of k replicas     the same work without the k fastest that are in use

and cost = always-terms x all hours + hourly terms x their hours + starts. Slots pack exactly: charges of one machine
divide each other (the caller sees to that), so the largest first fills instances without waste. A slice is a share
of one slot: all slices of a slot are equal, and pools share them.

What a cost is measured in is the caller's: this file knows no money.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tonnage.optimize.fleet_machines import drop_dominated, merge_machines, place_on_instances
from tonnage.optimize.fleet_problem import (
    Fleet,
    FleetProblem,
    Key,
    Machine,
    Pool,
    Quota,
    Step,
    Term,
    Terms,
    Way,
    at_least,
    at_most,
    carrying_rows,
    classes_of,
    room_rows,
    zone_columns,
    zone_rows,
)
from tonnage.optimize.highs import UNLIMITED, Column, Row
from tonnage.optimize.programme import Programme, Solved, is_large, lower_bound, solve, trim

__all__ = ["Fleet", "FleetProblem", "Machine", "Pool", "Quota", "Step", "Term", "Way"]


MOST_SIGNED: float = 4096.0
"""Instances of a contract without a maximum, at most. [-]"""
TRIMMED: float = 0.01
"""Gap beyond which what a search found is looked through for what is idle. [-]"""


def cheapest_fleet(problem: FleetProblem, *, gap: float = 0.01, nodes: int | None = None, near: bool = False) -> Fleet:
    """
    The cheapest fleet that carries every pool, to within a relative gap where so many nodes of the search reach it.

    Its machines and ways are numbered as in the problem; it is not feasible where nothing carries every pool. With
    `near` a good fleet will do, found sooner, whose bound may be far below it.
    """
    asked, problem = problem, merge_machines(drop_dominated(problem))
    programme, at = _programme(problem)
    solved = solve(programme, gap=gap, nodes=nodes, near=near)
    if solved.gap > TRIMMED:
        solved = trim(programme, solved)
    return place_on_instances(problem, asked, fleet=_build_fleet(problem, at, solved))


def least_cost(problem: FleetProblem) -> float | None:
    """A lower bound on the cost of any fleet, from the tightened relaxation; none where no fleet carries the pools."""
    return lower_bound(_programme(merge_machines(drop_dominated(problem)))[0])


def takes_long(problem: FleetProblem) -> bool:
    """Whether a fleet for the problem takes seconds to find, and so is not sought for every variant of it."""
    return is_large(_programme(merge_machines(drop_dominated(problem)))[0])


def _programme(problem: FleetProblem) -> tuple[Programme, dict[Key, int]]:
    """The problem as a programme, and where each variable stands in it."""
    columns = dict(_columns(problem))
    at = {key: i for i, key in enumerate(columns)}
    rows = [
        Row({at[key]: factor for key, factor in terms.items()}, lower, upper, elastic)
        for terms, lower, upper, elastic in _rows(problem, columns)
    ]
    return Programme(list(columns.values()), rows, len(problem.hours)), at


# One loop for each family of variables, in the order in which the solver numbers them.
def _columns(problem: FleetProblem) -> Iterator[tuple[Key, Column]]:  # noqa: C901 - families of variables, one by one
    """Every variable of the programme, with its cost over all hours and its largest value."""
    hours, all_hours = problem.hours, sum(problem.hours)
    for m, machine in enumerate(problem.machines):
        for term in machine.terms:
            if term.steps:
                yield from _contract_columns(m, term, hours=all_hours)
                continue
            if term.always:
                yield ("held", m, term.name), Column(term.cost_per_hour * all_hours)
                continue
            for t, span in enumerate(hours):
                yield ("hired", m, term.name, t), Column(term.cost_per_hour * span, whole=machine.whole, period=t)
            if machine.start_h > 0:
                for n, (_, then, times) in enumerate(problem.follows):
                    cost = term.cost_per_hour * machine.start_h * times
                    yield ("starts", m, term.name, n), Column(cost, whole=False, period=then)
    split = {(way.machine, way.slices, firm) for way in problem.ways if way.slices > 1 for firm in (True, False)}
    for m, slices, firm in sorted(split):
        for t in range(len(hours)):
            yield ("split", m, firm, t, slices), Column(0.0, period=t)
    for w, way in enumerate(problem.ways):
        pool = problem.pools[way.pool]
        if pool.spares or pool.single:
            yield ("used", w), Column(0.0, upper=1.0)
        for firm in classes_of(problem, way):
            for t in range(len(hours)):
                yield ("runs", w, firm, t), Column(0.0, whole=way.whole, period=t, upper=_most(pool, way, t))
                if len(pool.demand) > 1:
                    for b in range(len(pool.demand)):
                        yield ("flow", w, firm, b, t), Column(0.0, whole=False, period=t, upper=pool.demand[b][t])
        if pool.survives > 0 and len(pool.demand) > 1 and problem.zones == 1:
            for lost in _domains(problem, way.pool):
                if problem.machines[way.machine].domain != lost:
                    for t in range(len(hours)):
                        for b in range(len(pool.demand)):
                            yield ("kept", lost, w, b, t), Column(0.0, whole=False, period=t)

    yield from zone_columns(problem)


def _contract_columns(m: int, term: Term, *, hours: float) -> Iterator[tuple[Key, Column]]:
    """Whether it is signed, what stands, and of each step what of that is used, bought beside it, and paid unused."""
    # Next to nothing, so that what is due unused does not stand.
    yield ("held", m, term.name), Column(1e-7 * term.cost_per_hour * hours)
    yield ("signed", m, term.name), Column(0.0, upper=1.0)
    for n, step in enumerate(term.steps):
        usd = term.cost_per_hour * hours * step.share
        yield ("of step", m, term.name, n), Column(usd, whole=False)
        yield ("unused", m, term.name, n), Column(usd, whole=False)
        if term.bridge_per_hour is not None:
            yield ("lacking", m, term.name, n), Column(term.bridge_per_hour * hours * step.share, whole=False)


def _contract_rows(problem: FleetProblem, m: int, term: Term) -> Iterator[Terms]:
    """
    What a contract binds to: instances stand only if it is signed, and of each step those that stand are its own or
    rented until it brings them; its own and those paid unused are at least what is due, its own at most what is there.
    """
    held, signed = ("held", m, term.name), ("signed", m, term.name)
    limits = [quota.most / problem.machines[m].slots for quota in problem.quotas if quota.counts(m, term)]
    yield at_most({held: 1.0, signed: -min([MOST_SIGNED, *limits])})
    for n, step in enumerate(term.steps):
        used, unused = ("of step", m, term.name, n), ("unused", m, term.name, n)
        lacking: dict[Key, float] = {("lacking", m, term.name, n): 1.0} if term.bridge_per_hour is not None else {}
        yield {held: -1.0, used: 1.0, **lacking}, 0.0, 0.0, False
        yield at_least({used: 1.0, unused: 1.0, signed: -step.due}, 0.0)
        if math.isfinite(step.most):
            yield at_most({used: 1.0, signed: -step.most})


def _most(pool: Pool, way: Way, t: int) -> float:
    """
    Replicas of a way beyond which more are of no use in a period; 0 in a period in which the pool may not run.

    Four times what would carry all of the load alone, and a few more: room for spares and for what survives a loss.
    """
    if pool.work is not None:
        if pool.when and t not in pool.when:
            return 0.0
        return 1.0 if pool.single else UNLIMITED
    if not way.whole:
        return UNLIMITED
    able = [load[t] / rate for load, rate in zip(pool.demand, way.rates, strict=True) if rate > 0]
    return 0.0 if not able else min(UNLIMITED, 4.0 * math.ceil(sum(able) + len(able)) + 4.0)


def _rows(problem: FleetProblem, columns: dict[Key, Column]) -> Iterator[Terms]:
    """Every row of the programme over these variables."""
    for t in range(len(problem.hours)):
        yield from _room(problem, columns, t)
        yield from _quotas(problem, t)
        yield from zone_rows(problem, t)
        for p in range(len(problem.pools)):
            yield from _demand_terms(problem, p, t)
            yield from _surviving(problem, p, t)
            yield from _spare_terms(problem, p, t)
    for m, machine in enumerate(problem.machines):
        for term in machine.terms:
            if term.steps:
                yield from _contract_rows(problem, m, term)
    for p, pool in enumerate(problem.pools):
        if pool.work is not None:
            yield from _deferred_terms(problem, p)
        if pool.single:
            yield from _single_terms(problem, p)
    for key in columns:
        if key[0] == "starts":
            _, m, name, n = key
            before, then, _ = problem.follows[n]
            terms = {key: 1.0, ("hired", m, name, then): -1.0, ("hired", m, name, before): 1.0}
            yield terms, 0.0, math.inf, True


def _room(problem: FleetProblem, columns: dict[Key, Column], t: int) -> Iterator[Terms]:
    """Replicas fit the slots and the cores of the instances that stand."""
    for m in sorted({way.machine for way in problem.ways}):
        for firm in (True, False):
            there = {
                term.standing(n, t): problem.machines[n]
                for n in problem.alike(m)
                for term in problem.machines[n].terms
                if term.firm is firm
            }
            users = {("runs", w, firm, t): way for w, way in enumerate(problem.ways) if way.machine == m}
            users = {key: way for key, way in users.items() if key in columns}
            yield from room_rows(users, there, split=("split", m, firm, t))


def _quotas(problem: FleetProblem, t: int) -> Iterator[Terms]:
    """Slots of the machines of a quota that stand in a period are at most what it allows."""
    for quota in problem.quotas:
        terms: dict[Key, float] = {
            term.standing(m, t): problem.machines[m].slots
            for m in quota.machines
            for term in problem.machines[m].terms
            if quota.counts(m, term) and problem.machines[m].whole
        }
        # What a run has for part of a period may stand beside all else of that period.
        terms |= {
            ("used", w): way.charge
            for w, way in enumerate(problem.ways)
            if not problem.machines[way.machine].whole
            if any(quota.counts(way.machine, term) for term in problem.machines[way.machine].terms)
        }
        if terms:
            yield at_most(terms, quota.most)


def _demand_terms(problem: FleetProblem, p: int, t: int) -> Iterator[Terms]:
    """Each bucket's demand in a period is carried, and the firm share of it on firm terms; none of deferred work."""
    pool = problem.pools[p]
    ways = problem.ways_of(p)
    if pool.work is not None:
        return
    several = len(pool.demand) > 1
    for b, load in enumerate(pool.demand):
        if load[t] <= 0:
            continue
        for classes, share in _shares(pool):
            terms: dict[Key, float] = {}
            for w, way in ways:
                for firm in classes_of(problem, way):
                    if firm not in classes or way.rates[b] <= 0:
                        continue
                    if several:
                        terms["flow", w, firm, b, t] = 1.0 / load[t]
                    else:
                        # A replica that could carry more than all of it counts for all of it: the tighter row.
                        does = way.rates[b] * _useful(problem, way, firm=firm)
                        terms["runs", w, firm, t] = min(share, does / load[t])
            yield at_least(terms, share)
    if several:
        yield from _time_terms(problem, pool, ways, t)


def _shares(pool: Pool) -> Iterator[tuple[tuple[bool, ...], float]]:
    """The share of a pool's work that is done on firm and loose terms together, and that on firm ones alone."""
    yield (True, False), 1.0
    if 0.0 < pool.loose < 1.0:
        yield (True,), 1.0 - pool.loose


def _time_terms(problem: FleetProblem, pool: Pool, ways: list[tuple[int, Way]], t: int) -> Iterator[Terms]:
    """A replica that serves several buckets divides its time between them."""
    for w, way in ways:
        for firm in classes_of(problem, way):
            useful = _useful(problem, way, firm=firm)
            terms: dict[Key, float] = {
                ("flow", w, firm, b, t): 1.0 / (rate * useful) for b, rate in enumerate(way.rates) if rate > 0
            }
            spare: dict[Key, float] = {("used", w): float(pool.spares)} if pool.spares and firm else {}
            yield at_most({**terms, **spare, ("runs", w, firm, t): -1.0})
            for b, rate in enumerate(way.rates):
                if rate <= 0:
                    yield at_most({("flow", w, firm, b, t): 1.0})
                elif rate * useful > (load := problem.pools[way.pool].demand[b][t]) > 0:
                    yield at_most({("flow", w, firm, b, t): 1.0, ("runs", w, firm, t): -load})


def _surviving(problem: FleetProblem, p: int, t: int) -> Iterator[Terms]:
    """The share that must survive is carried on firm terms without any one domain; with zones, `zone_rows` say it."""
    pool = problem.pools[p]
    if pool.survives <= 0 or pool.work is not None or problem.zones > 1:
        return
    for lost in _domains(problem, p):
        left = [(w, way) for w, way in problem.ways_of(p) if problem.machines[way.machine].domain != lost]
        firm = {w: {("runs", w, True, t): 1.0} if True in classes_of(problem, way) else {} for w, way in left}
        yield from carrying_rows(left, pool, flow=("kept", lost), there=firm, t=t)


def _spare_terms(problem: FleetProblem, p: int, t: int) -> Iterator[Terms]:
    """The demand is carried without any so many replicas: the fastest ones in use are the ones to lose."""
    pool = problem.pools[p]
    if not pool.spares or pool.work is not None:
        return
    ways = [(w, way) for w, way in problem.ways_of(p) if way.whole]
    for w, way in ways:
        for firm in classes_of(problem, way):
            yield at_most({("runs", w, firm, t): 1.0, ("used", w): -_most(pool, way, t)})
        if len(pool.demand) > 1:
            continue  # `_time_terms` keeps them free
        load = pool.demand[0][t]
        if load <= 0 or way.rates[0] <= 0:
            continue
        terms: dict[Key, float] = {
            ("runs", v, firm, t): other.rates[0] * _useful(problem, other, firm=firm) / load
            for v, other in ways
            for firm in classes_of(problem, other)
        }
        yield at_least({**terms, ("used", w): -pool.spares * way.rates[0] / load}, 1.0)


def _deferred_terms(problem: FleetProblem, p: int) -> Iterator[Terms]:
    """
    A pool's work that may wait is done: all of it over all periods, or its share of each pace in the hours of that
    pace, the firm share of each on firm terms. Rates are of a second, so that work is in [1/s x h].
    """
    pool = problem.pools[p]
    parts = [
        (hours, due * share, classes)
        for hours, due in pool.paces or ((problem.hours, 1.0),)
        for classes, share in _shares(pool)
    ]
    for hours, share, classes in parts:
        terms: dict[Key, float] = {
            ("runs", w, firm, t): span * way.rates[0] * _useful(problem, way, firm=firm)
            for w, way in problem.ways_of(p)
            for firm in classes_of(problem, way)
            if firm in classes
            for t, span in enumerate(hours)
            if span > 0
        }
        yield at_least(terms, share * (pool.work or 0.0))


def _single_terms(problem: FleetProblem, p: int) -> Iterator[Terms]:
    """One way does all of the work."""
    ways = problem.ways_of(p)
    yield {("used", w): 1.0 for w, _ in ways}, 1.0, 1.0, False
    for w, way in ways:
        for firm in classes_of(problem, way):
            for t in range(len(problem.hours)):
                yield at_most({("runs", w, firm, t): 1.0, ("used", w): -1.0})


def _useful(problem: FleetProblem, way: Way, *, firm: bool) -> float:
    """Share of the time in which a replica does useful work, on the worst such term of its machine. [-]"""
    return min(term.available for term in problem.machines[way.machine].terms if term.firm is firm)


def _domains(problem: FleetProblem, p: int) -> list[str]:
    return sorted({problem.machines[way.machine].domain for _, way in problem.ways_of(p)})


def _build_fleet(problem: FleetProblem, at: dict[Key, int], solved: Solved) -> Fleet:
    """The fleet that a solution says, numbered as in the merged problem; what it has none of is left out."""
    if solved.values is None:
        return Fleet(feasible=False)
    values, periods = solved.values, range(len(problem.hours))
    instances: dict[tuple[int, str], tuple[float, ...]] = {}
    starts: dict[tuple[int, str], float] = {}
    for m, machine in enumerate(problem.machines):
        for term in machine.terms:
            if term.always:
                found = (values[at["held", m, term.name]],) * len(problem.hours)
            else:
                found = tuple(values[at["hired", m, term.name, t]] for t in periods)
                begun = [
                    times * values[at["starts", m, term.name, n]]
                    for n, (_, _, times) in enumerate(problem.follows)
                    if ("starts", m, term.name, n) in at
                ]
                if any(begun):
                    starts[m, term.name] = math.fsum(begun)
            if any(found):
                instances[m, term.name] = found
    replicas: dict[tuple[int, bool], tuple[float, ...]] = {}
    flows: dict[tuple[int, bool, int], tuple[float, ...]] = {}
    for w, way in enumerate(problem.ways):
        for firm in classes_of(problem, way):
            runs = tuple(values[at["runs", w, firm, t]] for t in periods)
            if not any(runs):
                continue
            replicas[w, firm] = runs
            if len(problem.pools[way.pool].demand) > 1:
                for b in range(len(way.rates)):
                    flows[w, firm, b] = tuple(values[at["flow", w, firm, b, t]] for t in periods)
    return Fleet(
        feasible=True,
        cost=solved.cost,
        bound=solved.bound,
        instances=instances,
        replicas=replicas,
        flows=flows,
        starts=starts,
    )
