"""Which machines can no cheapest fleet need, because another does the same at no higher price of a slot?

A catalogue lists the same accelerator at many providers and in several sizes. Whatever stands on a machine can stand
on machines that divide it, hold the same replicas at least as fast, count against the same quotas and fail together
with the same others: replicas of one machine divide each other, so they fill the smaller ones without waste. Leaving
the dearer one out changes no optimum.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tonnage.optimize.fleet_problem import FleetProblem, Machine, Way

__all__ = ["undominated"]

EXACT: Final = 1e-9


def undominated(problem: FleetProblem) -> FleetProblem:
    """The problem with neither ways nor terms on machines that others stand in for; machines keep their places."""
    ways: list[list[Way]] = [[] for _ in problem.machines]
    for way in problem.ways:
        ways[way.machine].append(way)
    counted = [
        frozenset(q for q, quota in enumerate(problem.quotas) if m in quota.machines)
        for m in range(len(problem.machines))
    ]
    left: list[int] = []
    order = sorted(range(len(problem.machines)), key=lambda m: (problem.machines[m].slots, m))
    for m in order:
        mine = problem.machines[m]
        if ways[m] and not any(
            counted[other] == counted[m]
            and _same_place(problem.machines[other], mine)
            and _as_cheap(problem.machines[other], mine)
            and _as_able(problem.machines[other], ways[other], ways[m])
            for other in left
        ):
            # A cheaper one of the same size may come later: those it stands in for go.
            left = [
                other
                for other in left
                if not (
                    counted[other] == counted[m]
                    and _same_place(mine, problem.machines[other])
                    and _as_cheap(mine, problem.machines[other])
                    and _as_able(mine, ways[m], ways[other])
                )
            ]
            left.append(m)
    kept = set(left)
    machines = tuple(machine if m in kept else replace(machine, terms=()) for m, machine in enumerate(problem.machines))
    # Places of ways are what the answer speaks of: one without terms has no replicas.
    return replace(problem, machines=machines)


def _same_place(one: Machine, other: Machine) -> bool:
    """Whether `one` divides `other` and stands where it does, with as many cores for each slot."""
    if other.slots % one.slots or one.domain != other.domain or one.start_h > other.start_h + EXACT:
        return False
    if one.cores is None or other.cores is None:
        return one.cores is None
    return one.cores / one.slots >= other.cores / other.slots - EXACT


def _as_cheap(one: Machine, other: Machine) -> bool:
    """Whether every term of `other` is to be had on `one` at no higher price of a slot."""
    return all(
        any(
            mine.name == term.name
            and (mine.always, mine.firm) == (term.always, term.firm)
            and mine.available >= term.available - EXACT
            and mine.cost_per_hour / one.slots <= term.cost_per_hour / other.slots * (1.0 + EXACT)
            for mine in one.terms
        )
        for term in other.terms
    )


def _as_able(one: Machine, mine: list[Way], theirs: list[Way]) -> bool:
    """Whether every replica that stands there can stand on `one`, at least as fast."""
    return all(
        any(
            (way.pool, way.charge, way.slices, way.whole) == (their.pool, their.charge, their.slices, their.whole)
            and way.charge <= one.slots
            and (way.charge == 0 or one.slots % way.charge == 0)
            and way.cores <= their.cores + EXACT
            and all(a >= b - EXACT for a, b in zip(way.rates, their.rates, strict=True))
            for way in mine
        )
        for their in theirs
    )
