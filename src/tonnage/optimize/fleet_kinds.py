"""Which machines hold the same replicas as fast? What runs on them is then counted once, not once for each offer.

A catalogue lists one accelerator at many providers, in instances of one, two, four and eight. Replicas are as fast on
all of them, so that the programme need not say on which they stand: of every charge it is enough that the instances
which are large enough have the slots,

    sum of charge x replicas, charges >= c   <=   sum of slots x instances, slots >= c

for charges divide each other and the slots that they fit: the largest first, each where it fits, leaves no waste.
Afterwards they are put on instances one by one (`put_apart`). That is the same optimum with fewer and less symmetric
columns. A way is left out, too, where others of its pool do at least as much on the same slots.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from msgspec.structs import replace

from tonnage.optimize.fleet_problem import Fleet, FleetProblem, Machine, Way, classes_of

__all__ = ["merged", "put_apart"]

EXACT: Final = 1e-9

Sign = tuple[int, float, int, tuple[float, ...], float, bool]
"""All of a way but the machine."""


def merged(problem: FleetProblem) -> FleetProblem:
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
    kept = tuple(way for k in sorted(leaders) for way in _worth(problem, k, list(ways[k].values())))
    return replace(problem, ways=kept, kinds=tuple(kinds))


def put_apart(problem: FleetProblem, asked: FleetProblem, *, fleet: Fleet) -> Fleet:
    """What runs on a kind, put on the machines of the problem as it was asked; ways as they are counted there."""
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
    return way.pool, way.charge, way.slices, way.rates, way.cores, way.whole


def _alike(problem: FleetProblem, kind: int, m: int, *, ways: list[dict[Sign, Way]]) -> bool:
    """Whether all that stands on `m` may as well stand on `kind`, and the other way round as far as it fits."""
    one, other = problem.machines[kind], problem.machines[m]
    if not ways[m] or _available(one) != _available(other):
        return False
    apart = one.domain != other.domain or (problem.zones > 1 and one.slots != other.slots)
    if apart and any(pool.survives > 0 for pool in problem.pools):
        return False  # what fails together stands together; room in each zone is that of instances of one size
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
        way.cores * way.slices <= machine.cores / machine.slots * way.charge + EXACT
        for machine in (one, other)
        for way in ways
        if way.whole and machine.cores is not None
    )


def _worth(problem: FleetProblem, kind: int, ways: list[Way]) -> list[Way]:
    """Without those that as many of another on the same slots do the work of."""
    roomy = _cores_to_spare(problem.machines[kind], problem.machines[kind], ways=ways)
    kept: list[Way] = []
    for way in sorted(ways, key=lambda way: (way.charge, tuple(-rate for rate in way.rates))):
        if not any(_does_for(other, way, roomy=roomy) for other in kept):
            kept.append(way)
    return kept


def _does_for(one: Way, other: Way, *, roomy: bool) -> bool:
    if (one.pool, one.slices, one.whole) != (other.pool, other.slices, other.whole) or not one.whole:
        return False
    if one.charge <= 0 or other.charge % one.charge:
        return False
    times = other.charge / one.charge
    cores = roomy or times * one.cores <= other.cores + EXACT
    return cores and all(a * times >= b - EXACT for a, b in zip(one.rates, other.rates, strict=True))


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
            if left <= EXACT or not _fits(way, problem.machines[m]) or not standing[m]:
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
            if count > EXACT:
                found.append((w, m, count))
        if left > EXACT and found and not way.whole:
            # What rounding leaves of work that comes in fractions.
            found.append((w, next(m for m in standing if standing[m]), left))
    return found
