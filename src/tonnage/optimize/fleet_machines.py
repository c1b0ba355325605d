"""
Which machines can no cheapest fleet need, and which hold the same replicas as fast?

A catalogue lists one accelerator at many providers, in instances of one, two, four and eight. Replicas are as fast on
all of them, so that the programme need not say on which they stand: of every charge it is enough that the instances
which are large enough have the slots,

    sum of charge x replicas, charges >= c   <=   sum of slots x instances, slots >= c

for charges divide each other and the slots that they fit: the largest first, each where it fits, leaves no waste.
Afterwards they are put on instances one by one (`place_on_instances`). That is the same optimum with fewer and less
symmetric columns. A way is left out, too, where others of its pool do at least as much on the same slots.

A machine is not needed where another does the same at no higher price of a slot. Whatever stands on a machine can stand
on machines that divide it, hold the same replicas at least as fast, count against the same quotas and fail together
with the same others: replicas of one machine divide each other, so they fill the smaller ones without waste. Leaving
the more expensive one out changes no optimum.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from msgspec.structs import replace

from tonnage.optimize.fleet_problem import Fleet, FleetProblem, Machine, Way, classes_of

TOLERANCE: Final = 1e-9

Sign = tuple[int, float, int, tuple[float, ...], float, bool]
"""All of a way but the machine."""


def merge_machines(problem: FleetProblem) -> FleetProblem:
    """The problem with the ways of each kind of machine on its first one, and what kind each machine is of."""
    ways: list[dict[Sign, Way]] = [{} for _ in problem.machines]
    for way in problem.ways:
        if classes_of(problem, way):
            ways[way.machine].setdefault(_sign(way), way)
    kinds = list(range(len(problem.machines)))
    leaders: list[int] = []
    # The largest first: what fits a smaller one is among what fits it.
    for m in sorted(range(len(problem.machines)), key=lambda m: (-problem.machines[m].slots, m)):
        if not problem.machines[m].terms:
            continue
        first = next((k for k in leaders if _alike(problem, k, m, ways=ways)), None)
        if first is None:
            leaders.append(m)
        else:
            kinds[m] = first
    kept = tuple(way for k in sorted(leaders) for way in _useful_ways(problem, k, list(ways[k].values())))
    return replace(problem, ways=kept, kinds=tuple(kinds))


def place_on_instances(problem: FleetProblem, asked: FleetProblem, *, fleet: Fleet) -> Fleet:
    """
    The fleet with what runs on a kind of machine put on its single machines.

    `problem` is the merged one, of which the fleet is; ways of the result are numbered as in `asked`, before merging.
    """
    place: dict[tuple[int, Sign], int] = {}
    for w, way in enumerate(asked.ways):
        place.setdefault((way.machine, _sign(way)), w)
    members = defaultdict(list)
    for m, kind in enumerate(problem.kinds):
        members[kind].append(m)
    periods = len(problem.hours)
    replicas: dict[tuple[int, bool], list[float]] = defaultdict(lambda: [0.0] * periods)
    flows: dict[tuple[int, bool, int], list[float]] = defaultdict(lambda: [0.0] * periods)
    for firm in (True, False):
        for t in range(periods):
            for kind, those in members.items():
                running = {
                    w: counts[t]
                    for (w, is_firm), counts in fleet.replicas.items()
                    if is_firm is firm and counts[t] > 0 and problem.ways[w].machine == kind
                }
                standing = {m: _standing(problem, fleet, m, firm=firm, t=t) for m in those}
                for w, m, count in _put(problem, running, standing):
                    way = problem.ways[w]
                    own = place[m, _sign(way)]
                    replicas[own, firm][t] += count
                    for b in range(len(way.rates)):
                        if (w, firm, b) in fleet.flows:
                            flows[own, firm, b][t] += fleet.flows[w, firm, b][t] * count / running[w]
    return replace(
        fleet,
        replicas={key: tuple(counts) for key, counts in sorted(replicas.items())},
        flows={key: tuple(counts) for key, counts in sorted(flows.items())},
    )


def _sign(way: Way) -> Sign:
    """What two ways have in common that differ in the machine alone."""
    return way.pool, way.charge, way.slices, way.rates, way.cores, way.whole


def _alike(problem: FleetProblem, kind: int, m: int, *, ways: list[dict[Sign, Way]]) -> bool:
    """Whether all that stands on `m` may as well stand on `kind`, and the other way round as far as it fits."""
    one, other = problem.machines[kind], problem.machines[m]
    if not (one.whole and other.whole) or not ways[m] or _available(one) != _available(other):
        return False
    apart = one.domain != other.domain or (problem.zones > 1 and one.slots != other.slots)
    if apart and any(pool.survives > 0 for pool in problem.pools):
        return False  # what fails together stands together; room in each zone is that of instances of one size
    if one.domain != other.domain and any(problem.pools[sign[0]].single for sign in ways[m]):
        return False  # a run does not move between places
    if set(ways[m]) != {sign for sign, way in ways[kind].items() if _fits(way, other)}:
        return False
    tidy = all(_fills(way, one) for way in ways[kind].values()) and all(_fills(way, other) for way in ways[m].values())
    return tidy and _cores_to_spare(one, other, ways=list(ways[kind].values()))


def _fills(way: Way, machine: Machine) -> bool:
    """Whether as many as fit leave no slot over."""
    return way.charge == 0 or (_fits(way, machine) and machine.slots % way.charge == 0)


def _fits(way: Way, machine: Machine) -> bool:
    return way.charge <= machine.slots


def _available(machine: Machine) -> dict[bool, float]:
    """Of firm terms and of others, the share of time in which they are there."""
    return {
        firm: min(term.available for term in machine.terms if term.firm is firm)
        for firm in {term.firm for term in machine.terms}
    }


def _cores_to_spare(one: Machine, other: Machine, *, ways: list[Way]) -> bool:
    """Whether cores are not known of either, or of both so many that slots run out first."""
    if one.cores is None or other.cores is None:
        return one.cores is None and other.cores is None
    return all(
        way.cores * way.slices <= machine.cores / machine.slots * way.charge + TOLERANCE
        for machine in (one, other)
        for way in ways
        if way.whole and machine.cores is not None
    )


def _useful_ways(problem: FleetProblem, kind: int, ways: list[Way]) -> list[Way]:
    """The ways on a kind of machine without those that another way does the work of on the same slots."""
    roomy = _cores_to_spare(problem.machines[kind], problem.machines[kind], ways=ways)
    kept: list[Way] = []
    for way in sorted(ways, key=lambda way: (way.charge, tuple(-rate for rate in way.rates))):
        if not any(_does_for(other, way, roomy=roomy) for other in kept):
            kept.append(way)
    return kept


def _does_for(one: Way, other: Way, *, roomy: bool) -> bool:
    """
    Whether replicas of `one`, as many as stand on the slots of an `other`, do at least its work.

    They must need no more cores either, unless the machine is `roomy`: it then has cores for whatever its slots hold.
    """
    if (one.pool, one.slices, one.whole) != (other.pool, other.slices, other.whole) or not one.whole:
        return False
    if one.charge <= 0 or other.charge % one.charge:
        return False
    times = other.charge / one.charge
    cores = roomy or times * one.cores <= other.cores + TOLERANCE
    return cores and all(a * times >= b - TOLERANCE for a, b in zip(one.rates, other.rates, strict=True))


def _standing(problem: FleetProblem, fleet: Fleet, m: int, *, firm: bool, t: int) -> float:
    """Instances of a machine on terms that are firm, or not."""
    machine = problem.machines[m]
    return sum(
        fleet.instances[m, term.name][t]
        for term in machine.terms
        if term.firm is firm and (m, term.name) in fleet.instances
    )


def _put(problem: FleetProblem, running: dict[int, float], standing: dict[int, float]) -> list[tuple[int, int, float]]:
    """(way, machine, how many): the largest first, on the smallest instances that hold it; of slices, slot by slot."""
    only = next(iter(standing))
    if len(standing) == 1:
        return [(w, only, count) for w, count in running.items()]
    slots = {m: count * problem.machines[m].slots for m, count in standing.items()}
    cores = {m: count * (problem.machines[m].cores or 0.0) for m, count in standing.items()}
    parts: dict[tuple[int, int], float] = {}
    found = []
    for w in sorted(running, key=lambda w: (not problem.ways[w].whole, -problem.ways[w].charge, w)):
        way, left = problem.ways[w], running[w]
        for m in sorted(standing, key=lambda m: (problem.machines[m].slots, m)):
            if left <= TOLERANCE or not _fits(way, problem.machines[m]) or not standing[m]:
                continue
            if not way.whole:
                count = min(left, cores[m] / way.cores)
            elif way.charge == 0:
                count = left
            else:
                open_parts = parts.get((m, way.slices), 0.0)
                count = min(left, open_parts + slots[m] // way.charge * way.slices)
                taken = max(0.0, -(-(count - open_parts) // way.slices))
                slots[m] -= taken * way.charge
                parts[m, way.slices] = open_parts + taken * way.slices - count
            cores[m] -= count * way.cores
            left -= count
            if count > TOLERANCE:
                found.append((w, m, count))
        if left > TOLERANCE and found and not way.whole:
            # What rounding leaves of work that comes in fractions.
            found.append((w, next(m for m in standing if standing[m]), left))
    return found


def drop_dominated(problem: FleetProblem) -> FleetProblem:
    """The problem with neither ways nor terms on machines that others stand in for; machines keep their places."""
    ways: list[list[Way]] = [[] for _ in problem.machines]
    for way in problem.ways:
        ways[way.machine].append(way)
    counted = [
        frozenset(q for q, quota in enumerate(problem.quotas) if m in quota.machines)
        for m in range(len(problem.machines))
    ]

    def stands_in(one: int, other: int) -> bool:
        mine, theirs = problem.machines[one], problem.machines[other]
        return (
            counted[one] == counted[other]
            and _same_place(mine, theirs)
            and _as_cheap(mine, theirs)
            and _as_able(mine, ways[one], ways[other])
        )

    left: list[int] = []
    order = sorted(range(len(problem.machines)), key=lambda m: (problem.machines[m].slots, m))
    for m in order:
        if ways[m] and not any(stands_in(other, m) for other in left):
            # A cheaper one of the same size may come later: those it stands in for go.
            left = [*(other for other in left if not stands_in(m, other)), m]
    kept = set(left)
    machines = tuple(machine if m in kept else replace(machine, terms=()) for m, machine in enumerate(problem.machines))
    # Places of ways are what the answer speaks of: one without terms has no replicas.
    return replace(problem, machines=machines)


def _same_place(one: Machine, other: Machine) -> bool:
    """Whether `one` divides `other` and stands where it does, with as many cores for each slot."""
    if (
        other.slots % one.slots
        or one.whole is not other.whole
        or one.domain != other.domain
        or one.start_h > other.start_h + TOLERANCE
    ):
        return False
    if one.cores is None or other.cores is None:
        return one.cores is None
    return one.cores / one.slots >= other.cores / other.slots - TOLERANCE


def _as_cheap(one: Machine, other: Machine) -> bool:
    """Whether every term of `other` is to be had on `one` at no higher price of a slot; never of contracts in steps."""
    return all(
        any(
            mine.name == term.name
            and (mine.always, mine.firm) == (term.always, term.firm)
            and not (mine.steps or term.steps)
            and mine.available >= term.available - TOLERANCE
            and mine.cost_per_hour / one.slots <= term.cost_per_hour / other.slots * (1.0 + TOLERANCE)
            for mine in one.terms
        )
        for term in other.terms
    )


def _as_able(one: Machine, mine: list[Way], theirs: list[Way]) -> bool:
    """Whether every way of another machine (`theirs`) is on `one`, too, whose ways are `mine`, at least as fast."""
    return all(
        any(
            (way.pool, way.charge, way.slices, way.whole) == (their.pool, their.charge, their.slices, their.whole)
            and way.charge <= one.slots
            and (way.charge == 0 or one.slots % way.charge == 0)
            and way.cores <= their.cores + TOLERANCE
            and all(a >= b - TOLERANCE for a, b in zip(way.rates, their.rates, strict=True))
            for way in mine
        )
        for their in theirs
    )
