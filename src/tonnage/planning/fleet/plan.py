"""Plan a fleet: several workloads on a mix of accelerators and terms over the hours of a day or a week.

The path: filters leave machines; each workload's model gets the configurations worth having on them, the mean field
says what one replica carries of each bucket of lengths, the simulation corrects those near the least cost; an
integer programme picks instances, terms and hours; the fleet it picks is simulated, and where an objective is missed
the load is raised and the programme asked again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.rows import data_version
from tonnage.domain.answer import Verdict
from tonnage.domain.fleet_plan import FleetAlternative, FleetCheck, FleetPlan, FleetRequest
from tonnage.domain.plan import PLAN_SCHEMA, Provenance, Rejection
from tonnage.optimize.fleet import Fleet, FleetProblem, Way, cheapest_fleet, least_cost, takes_long
from tonnage.planning.commitments import commitments_assumed
from tonnage.planning.core.header import Loser, by_reason, quick_without_simulator
from tonnage.planning.core.stop import best_is_known, stop_asked
from tonnage.planning.fleet import alternatives, narrative, refusals
from tonnage.planning.fleet.alternatives import Solution
from tonnage.planning.fleet.candidate import Candidate, candidates, keep_near_least
from tonnage.planning.fleet.hours import hours_of
from tonnage.planning.fleet.narrative import bill_of, first_measurement, instances_of, kinds_of, replicas_of
from tonnage.planning.fleet.problem import FleetContext, problem_of
from tonnage.planning.fleet.refusals import BY_NEARNESS, Misses
from tonnage.planning.fleet.samples import sample_candidates
from tonnage.planning.fleet.simulated import simulate_chances
from tonnage.planning.fleet.stock import stock
from tonnage.planning.fleet.training import run_candidates, run_stock, runs_of
from tonnage.planning.fleet.verify import checks_of
from tonnage.pricing.bills import HOURS_PER_MONTH
from tonnage.simulation.simulated import Requests
from tonnage.version import __version__

__all__ = ["plan_fleet"]

GAP: Final = 0.01
LARGE_GAP: Final = 0.04
"""Of a problem whose fleets take seconds to find: near enough, and said. [-]"""
QUICK_GAP: Final = 0.1
"""Of a quick plan, which says how far it may be from the least cost. [-]"""
EQUAL: Final = 0.01
"""Share of the cost for which a kind of accelerator more is not worth its keep: what two searches differ by. [-]"""
ROUGH_GAP: Final = 0.2
"""Of a large problem's fleet that only says what is worth simulating. [-]"""
LOOKS: Final = 3
"""Such fleets, at most."""
ROUNDS: Final = 5
"""Times that what was picked unsimulated is simulated and the programme asked again."""
ADOPTED: Final = 4
"""Times that a cheaper fleet found beside the answer takes its place."""
RAISES: Final = 2
RAISE: Final = 1.12
"""Load over that before, where an objective is missed. [-]"""

_NAMED: Final = frozenset({"accelerator", "exclude", "vendor", "segment", "provider", "region", "country"})

Settled = tuple[FleetContext, Solution, tuple[FleetCheck, ...]]
Known = dict[int, tuple[Requests, Any]]
"""Requests drawn for each workload, and the bucket of each."""


def plan_fleet(
    request: FleetRequest, *, additions: Additions = catalog.NOTHING, today: date | None = None
) -> FleetPlan:
    """
    The cheapest fleet found for all workloads, simulated, with what binds and what else would do.

    Raises
    ------
    TonnageError
        A model or an accelerator is unknown, or the request contradicts itself. That nothing carries the load is an
        answer: `feasible` is False and `binding` says which limit stands in the way.
    """
    day = today or date.today()
    return quick_without_simulator(request, lambda asked: _plan_once(asked, additions=additions, today=day))


def _plan_once(request: FleetRequest, *, additions: Additions, today: date) -> FleetPlan:
    held, excluded = stock(request, additions=additions)
    held = run_stock(held, request)
    found: list[Candidate] = []
    missed: Misses = {}
    evaluated = 0
    for number, workload in enumerate(request.workloads):
        if workload.kind == "cpu":
            continue
        looking: Callable[..., tuple[list[Candidate], Sequence[Loser], int]]
        looking = sample_candidates if workload.kind == "infer" else candidates
        if workload.run is not None:
            looking = partial(run_candidates, today=today)
        mine, misses, looked = looking(request, number, held=held, additions=additions)
        found += mine
        missed[number] = misses
        evaluated += looked
    machines, found, near = keep_near_least(request, held, found=found)
    asked = FleetContext(
        request=request,
        hours=hours_of(request),
        held=machines,
        chances=tuple(found),
        raised=(1.0,) * len(request.workloads),
    )
    rejected = _rejections(request, missed, found, excluded)
    base = FleetPlan(
        schema=PLAN_SCHEMA,
        feasible=False,
        sentence="",
        request=request,
        period_h=asked.hours.total_h,
        rejected=rejected,
        rejected_by_reason=by_reason(rejected),
        evaluated=evaluated,
        provenance=Provenance(
            version=__version__,
            catalogue={**narrative.dates(machines), "data": data_version()},
            made=today.isoformat(),
            assumed=narrative.assumptions(request, asked.hours),
        ),
    )

    def refused(binding: Verdict) -> FleetPlan:
        moved = refusals.moved_tries(asked, missed, additions=additions)
        return replace(base, binding=binding, sentence=narrative.refusal(binding), calibrations=moved)

    nothing = refusals.nobody_serves(asked, missed, excluded=excluded)
    if nothing is not None:
        return refused(nothing)
    known: Known = {}
    if not request.quick:
        asked = replace(asked, chances=tuple(simulate_chances(request, found, names=near, known=known)))
    asked, solution, checks = _simplest(_settle(asked, known), known)
    if not solution[2].feasible:
        return replace(refused(refusals.what_stops(asked)), simulated=_simulations(asked))
    settled: Settled = (asked, solution, checks)
    over = refusals.over_kinds(asked, solution[2])
    if over is not None:
        if stop_asked():  # none of so few kinds was found yet
            raise KeyboardInterrupt
        return replace(refused(over), simulated=_simulations(asked))
    if request.quick:
        return _answer(base, settled, beside=())
    settled, beside = _add_alternatives(settled, known)
    return _answer(replace(base, simulated=_simulations(settled[0])), settled, beside=beside)


def _simulations(asked: FleetContext) -> int:
    return len({chance.name for chance in asked.chances if chance.simulated})


def _add_alternatives(settled: Settled, known: Known) -> tuple[Settled, tuple[FleetAlternative, ...]]:
    """
    The answer with other fleets beside it, none of which does the same for less.

    The programme ends within a gap. Under one more condition it ends elsewhere, at times at a cheaper fleet: that is
    then the answer.
    """
    tried: dict[str, Fleet] = {}
    refused: dict[str, str] = {}
    found = _beside(settled, tried)
    for _ in range(0 if stop_asked() else ADOPTED):
        better = alternatives.cheaper_alternative([one for one in found if one.row.name not in refused], settled[1][2])
        if better is None or better.fleet is None:
            break
        before = settled[1][0]
        settled, why = _adopt_cheaper(settled, better.fleet, known=known)
        refused |= {better.row.name: why} if why else {}
        # What needs more than it is now known to have is looked for again.
        tried = {name: one for name, one in tried.items() if _stands(one, settled[1][0], before=before)}
        found = _beside(settled, tried)
    return settled, tuple(
        replace(row, what=f"{row.what}; {refused.get(row.name, 'not simulated')}")
        if could is not None and row.more is not None and row.more < 0
        else row
        for row, could in found
    )


def _beside(settled: Settled, tried: dict[str, Fleet]) -> tuple[alternatives.Other, ...]:
    asked, (problem, _, fleet), _ = settled
    scale = alternatives.bound_scale(problem, fleet)
    return alternatives.alternatives(alternatives.Beside(asked, problem, fleet, tried, scale))


def _adopt_cheaper(settled: Settled, fleet: Fleet, *, known: Known) -> tuple[Settled, str]:
    """The answer with a cheaper fleet in its place, or why that is none."""
    asked, (problem, behind, old), checks = settled
    unsure = _unsure(asked, behind, fleet)
    if unsure:
        # Cheaper by what is only reckoned.
        before, asked = problem, _surer(asked, unsure, known)
        problem, behind = problem_of(asked)
        if any(_rises(one, was) for one, was in zip(problem.ways, before.ways, strict=True)):
            # What nothing undercut with less capacity may be undercut now.
            asked, (problem, behind, again) = _solve(asked, known)
            stands = _stands(fleet, problem, before=before) and fleet.cost <= again.cost
            fleet = replace(fleet if stands else again, bound=again.bound)
            old = replace(old, bound=min(again.bound, old.cost))
        elif not _stands(fleet, problem, before=before):
            fleet = old
    if fleet.cost >= old.cost:
        return (asked, (problem, behind, old), checks), ""
    seen = checks_of(asked, problem, behind=behind, fleet=fleet, known=known)
    missing = [one.workload for one in seen if not one.meets]
    if not set(missing) <= {one.workload for one in checks if not one.meets}:
        return settled, f"simulated, {missing[0]} may miss the objectives"
    return (asked, (problem, behind, replace(fleet, bound=min(old.bound, fleet.cost))), seen), ""


def _stands(fleet: Fleet, problem: FleetProblem, *, before: FleetProblem) -> bool:
    """Whether replicas carry at least what they were picked for."""
    return not any(_rises(before.ways[w], problem.ways[w]) for w, _ in fleet.replicas)


def _rises(one: Way, was: Way) -> bool:
    return any(rate > before for rate, before in zip(one.rates, was.rates, strict=True))


def _settle(asked: FleetContext, known: Known) -> Settled:
    """The fleet whose replicas are simulated, as often raised as its objectives need; the last one when none does."""
    asked, solution = _solve(asked, known)
    checks: tuple[FleetCheck, ...] = ()
    for again in range(RAISES + 1):
        if asked.request.quick or not solution[2].feasible or stop_asked():
            break
        problem, behind, fleet = solution
        checks = checks_of(asked, problem, behind=behind, fleet=fleet, known=known)
        missing = {check.workload for check in checks if not check.meets}
        if not missing or again == RAISES or stop_asked():
            break
        raised = tuple(
            up * (RAISE if w.name in missing else 1.0)
            for up, w in zip(asked.raised, asked.request.workloads, strict=True)
        )
        higher, better = _solve(replace(asked, raised=raised), known)
        if not better[2].feasible:
            break
        asked, solution = higher, better
    return asked, solution, checks


def _simplest(settled: Settled, known: Known) -> Settled:
    """
    The fleet without its least used kinds of accelerator: those beyond `max_kinds`, and those that save nearly nothing.

    Kinds are left out one after the other, the least used first: a fleet of fewer may be found otherwise, and none that
    costs much less. What a bound shows to cost more is not looked for. Where that ends above `max_kinds`, every choice
    of so many of the kinds in use on the way is looked at: a part of few hours may carry everything alone.
    """
    start, seen = settled, dict[str, None]()
    while settled[1][2].feasible and not stop_asked():
        asked, (problem, _, fleet), checks = settled
        kinds = kinds_of(asked, fleet)
        seen |= dict.fromkeys(kinds)
        most = asked.request.max_kinds
        must = most is not None and len(kinds) > most
        # Where a fleet takes seconds to find, the alternatives say what a kind less costs.
        if len(kinds) < 2 or (not must and (asked.request.quick or takes_long(problem))):
            break
        every = range(len(asked.held)) if asked.kept is None else asked.kept
        kept = tuple(m for m in every if asked.held[m].site.accelerator.id != kinds[-1])
        narrowed = replace(asked, kept=kept)
        least = least_cost(problem_of(narrowed)[0])
        if least is None or (not must and least > fleet.cost * (1.0 + EQUAL)):
            break
        other = _settle(narrowed, known)
        if stop_asked():
            break
        again = other[1][2]
        worse = sum(not one.meets for one in other[2]) > sum(not one.meets for one in checks)
        if not again.feasible or (not must and (worse or again.cost > fleet.cost * (1.0 + EQUAL))):
            break
        bound = again.bound if must else min(fleet.bound, again.cost)
        settled = other[0], (other[1][0], other[1][1], replace(again, bound=bound)), other[2]
    asked, (_, _, fleet), _ = settled
    over = fleet.feasible and refusals.over_kinds(asked, fleet) is not None
    return (_of_these_kinds(start[0], seen, known) or settled) if over else settled


def _of_these_kinds(asked: FleetContext, kinds: Iterable[str], known: Known) -> Settled | None:
    """The best fleet of `max_kinds` of some kinds of accelerator: fewest objectives missed, then the cheapest."""
    choices: list[tuple[float, FleetContext]] = []
    every = range(len(asked.held)) if asked.kept is None else asked.kept
    for few in itertools.combinations(kinds, asked.request.max_kinds or 0):
        kept = tuple(m for m in every if asked.held[m].host_only or asked.held[m].site.accelerator.id in few)
        narrowed = replace(asked, kept=kept)
        least = least_cost(problem_of(narrowed)[0])
        if least is not None:
            choices.append((least, narrowed))
    best: Settled | None = None
    missed, cost = len(asked.request.workloads) + 1, math.inf
    for least, narrowed in sorted(choices, key=lambda choice: choice[0]):
        if stop_asked() or (not missed and least >= cost):
            break
        other = _settle(narrowed, known)
        fleet, late = other[1][2], sum(not one.meets for one in other[2])
        if fleet.feasible and (late, fleet.cost) < (missed, cost):
            best, missed, cost = other, late, fleet.cost
    return best


def _solve(asked: FleetContext, known: Known) -> tuple[FleetContext, Solution]:
    """The cheapest fleet, all of whose replicas are simulated."""
    earlier: tuple[FleetProblem, Fleet] | None = None
    quick, looking = asked.request.quick, True
    for again in range(ROUNDS):
        problem, behind = problem_of(asked)
        # The first rounds only say what is worth simulating; a large problem is content with a good fleet throughout.
        large = takes_long(problem)
        rough = large and looking and again < ROUNDS - 1
        enough = QUICK_GAP if quick else ROUGH_GAP if rough else LARGE_GAP if large else GAP
        fleet = cheapest_fleet(problem, gap=enough, near=large or not again)
        # A further search may end at a dearer one.
        if earlier and earlier[1].cost < fleet.cost and _stands(earlier[1], problem, before=earlier[0]):
            fleet = replace(earlier[1], bound=min(fleet.bound, earlier[1].cost))
        earlier = problem, fleet
        if fleet.feasible:
            best_is_known()
        if asked.request.quick or again == ROUNDS - 1 or stop_asked():
            break
        unsure = _unsure(asked, behind, fleet)
        if unsure:
            asked = _surer(asked, unsure, known)
            if stop_asked():
                break
        elif (again and not rough) or fleet.gap <= (LARGE_GAP if large else GAP):
            break
        looking = looking and bool(unsure) and again + 1 < LOOKS
    return asked, (problem, behind, fleet)


def _unsure(asked: FleetContext, behind: tuple[Candidate | None, ...], fleet: Fleet) -> set[str]:
    """Names of what a fleet runs that could be simulated and is not."""
    return {
        chance.name
        for w, _ in fleet.replicas
        if (chance := behind[w]) is not None
        and not chance.simulated
        and asked.request.workloads[chance.workload].kind in {"serve", "batch"}
    }


def _surer(asked: FleetContext, names: set[str], known: Known) -> FleetContext:
    return replace(asked, chances=tuple(simulate_chances(asked.request, list(asked.chances), names=names, known=known)))


def _answer(base: FleetPlan, settled: Settled, *, beside: tuple[FleetAlternative, ...]) -> FleetPlan:
    asked, solution, checks = settled
    problem, behind, fleet = solution
    scale = None if asked.request.quick or stop_asked() else alternatives.bound_scale(problem, fleet)
    bill = bill_of(asked, problem, fleet=fleet, ends=alternatives.cost_range(asked, solution, scale=scale))
    request = asked.request
    mean = bill.value / HOURS_PER_MONTH
    over = refusals.over_budget(request, mean)
    instances = instances_of(asked, problem, fleet=fleet)
    weighed = commitments_assumed(one.commitment for one in instances)
    made = base.provenance
    plan = replace(
        base,
        feasible=over is None,
        bill=bill,
        gap=fleet.gap,
        instances=instances,
        provenance=replace(made, assumed=(*made.assumed, *weighed)),
        replicas=replicas_of(asked, problem, behind=behind, fleet=fleet),
        checks=checks,
        runs=runs_of(request, asked.hours, problem=problem, behind=behind, fleet=fleet),
        measure_first=first_measurement(asked, behind=behind, fleet=fleet),
        alternatives=beside,
        surer=alternatives.surer_fleet(asked, solution, scale=scale),
        binds=() if request.quick or stop_asked() else alternatives.binding_limits(asked, solution, scale=scale),
        binding=over,
    )
    return replace(plan, sentence=narrative.sentence(plan) if over is None else narrative.refusal(over))


def _rejections(
    request: FleetRequest, missed: Misses, found: list[Candidate], excluded: tuple[Rejection, ...]
) -> tuple[Rejection, ...]:
    """One line for each workload and accelerator that serves it in no configuration."""
    lines: list[Rejection] = []
    for number, misses in missed.items():
        able = {chance.site.accelerator.id for chance in found if chance.workload == number}
        nearest: dict[str, Loser] = {}
        for miss in misses:
            name = miss.accelerator.partition(":")[0]
            if name not in able and (name not in nearest or BY_NEARNESS(miss) < BY_NEARNESS(nearest[name])):
                nearest[name] = miss
        lines += [
            Rejection(what=f"{request.workloads[number].name} on {name}", verdict=miss.verdict)
            for name, miss in nearest.items()
        ]
    # What the request itself rules out by name is no news.
    return (*lines, *(one for one in excluded if one.verdict.limit not in _NAMED))
