"""Plan a fleet: several workloads on a mix of accelerators and terms over the hours of a day or a week.

The path: filters leave machines; each workload's model gets the configurations worth having on them, the mean field
says what one replica carries of each bucket of lengths, the simulation corrects those near the least cost; an
integer programme picks instances, terms and hours; the fleet it picks is simulated, and where an objective is missed
the load is raised and the programme asked again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from functools import partial
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, part_name
from tonnage.catalog.rows import data_version
from tonnage.core.calibration_use import Run, TrainRun, at_once
from tonnage.core.header import Loser, as_asked, by_reason, quick_without_simulator
from tonnage.core.quotes import commitments_assumed
from tonnage.core.stop import best_is_known, stop_asked
from tonnage.domain.answer import Verdict
from tonnage.domain.plan import PLAN_SCHEMA, Provenance, Rejection
from tonnage.domain.refusal import none_works
from tonnage.optimize.fleet import Fleet, FleetProblem, Way, cheapest_fleet, least_cost, takes_long
from tonnage.pricing.bills import HOURS_PER_MONTH
from tonnage.questions.fleet import alternatives, narrative, refusals
from tonnage.questions.fleet.answer import FleetAlternative, FleetPlan, FleetRequest
from tonnage.questions.fleet.candidate import Candidate, candidates
from tonnage.questions.fleet.capacities import simulate
from tonnage.questions.fleet.hours import hours_of
from tonnage.questions.fleet.narrative import bill_of, first_measurement, kinds_of, replicas_of
from tonnage.questions.fleet.near_least import keep_near_least
from tonnage.questions.fleet.other_workloads import run_candidates, run_stock, runs_of, sample_candidates
from tonnage.questions.fleet.problem import FleetContext, Solution, problem_of
from tonnage.questions.fleet.refusals import BY_NEARNESS, Misses
from tonnage.questions.fleet.stock import stock
from tonnage.questions.fleet.verify import checks_of
from tonnage.version import __version__

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
    made = _plan_once(quick_without_simulator(request), additions=additions, today=today or date.today())
    return as_asked(made, request)


def _plan_once(request: FleetRequest, *, additions: Additions, today: date) -> FleetPlan:
    """
    The plan with the request as it is: machines, candidates, the fleet picked and simulated, and other fleets beside
    it.
    """
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
        mine, missed[number], looked = looking(request, number, held=held, additions=additions)
        found += mine
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

    def refused(binding: Verdict, asked: FleetContext) -> FleetPlan:
        moved = refusals.moved_tries(asked, missed, additions=additions)
        sentence = none_works("No feasible fleet", binding)
        return replace(base, binding=binding, sentence=sentence, calibrations=moved, simulated=_simulations(asked))

    nothing = refusals.nobody_serves(asked, missed, excluded=excluded)
    if nothing is not None:
        return refused(nothing, asked)
    if not request.quick:
        asked = simulate(asked, names=near)
    solution = _simplest(_settle(asked))
    if not solution.fleet.feasible:
        return refused(refusals.what_stops(solution.asked), solution.asked)
    over = refusals.over_kinds(solution.asked, solution.fleet)
    if over is not None:
        if stop_asked():  # none of so few kinds was found yet
            raise KeyboardInterrupt
        return refused(over, solution.asked)
    solution, beside = (solution, ()) if request.quick else _add_alternatives(solution)
    return _answer(base, solution, beside=beside)


def _simulations(asked: FleetContext) -> int:
    return len({candidate.name for candidate in asked.chances if candidate.simulated})


def _add_alternatives(solution: Solution) -> tuple[Solution, tuple[FleetAlternative, ...]]:
    """
    The answer, and rows of other fleets, none of which does the same for less.

    The programme ends within a gap. Under one more condition it ends elsewhere, at times at a cheaper fleet: that is
    then the answer, unless its simulation misses an objective that the answer's meets.
    """
    tried: dict[str, Fleet] = {}
    refused: dict[str, str] = {}
    found = _other_fleets(solution, tried)
    for _ in range(0 if stop_asked() else ADOPTED):
        better = alternatives.cheaper_alternative([one for one in found if one.row.name not in refused], solution.fleet)
        if better is None or better.fleet is None:
            break
        before = solution.problem
        solution, why = _adopt_cheaper(solution, better.fleet)
        refused |= {better.row.name: why} if why else {}
        # What needs more than it is now known to have is looked for again.
        tried = {name: one for name, one in tried.items() if _stands(one, solution.problem, before=before)}
        found = _other_fleets(solution, tried)
    return solution, tuple(
        replace(row, what=f"{row.what}; {refused.get(row.name, 'not simulated')}")
        if could is not None and row.more is not None and row.more < 0
        else row
        for row, could in found
    )


def _other_fleets(solution: Solution, tried: dict[str, Fleet]) -> tuple[alternatives.Other, ...]:
    """Fleets under one more condition; those in `tried` are not sought again."""
    scale = alternatives.bound_scale(solution)
    return alternatives.alternatives(alternatives.Beside(solution, tried, scale))


def _adopt_cheaper(solution: Solution, fleet: Fleet) -> tuple[Solution, str]:
    """
    The answer with a cheaper fleet in its place once that is simulated, and ""; the answer as it was, and why, where
    the other misses objectives in simulation. Where the other is no longer cheaper with simulated capacities, the old
    fleet stays, without a reason.
    """
    cheaper, old = solution, solution.fleet
    unsure = _unsure(solution._replace(fleet=fleet))
    if unsure:
        # Cheaper by what is only reckoned.
        before = solution.problem
        asked = simulate(solution.asked, names=unsure)
        problem, behind = problem_of(asked)
        cheaper = solution._replace(asked=asked, problem=problem, behind=behind)
        if any(_rises(one, was) for one, was in zip(cheaper.problem.ways, before.ways, strict=True)):
            # What nothing undercut with less capacity may be undercut now.
            cheaper = _solve(cheaper.asked)
            again = cheaper.fleet
            stands = _stands(fleet, cheaper.problem, before=before) and fleet.cost <= again.cost
            fleet = replace(fleet if stands else again, bound=again.bound)
            old = replace(old, bound=min(again.bound, old.cost))
        elif not _stands(fleet, cheaper.problem, before=before):
            fleet = old
    if fleet.cost >= old.cost:
        return cheaper._replace(fleet=old, checks=solution.checks), ""
    cheaper = cheaper._replace(fleet=replace(fleet, bound=min(old.bound, fleet.cost)))
    cheaper = cheaper._replace(checks=checks_of(cheaper))
    if not cheaper.missed.keys() <= solution.missed.keys():
        return solution, f"simulated, {next(iter(cheaper.missed))} may miss the objectives"
    return cheaper, ""


def _stands(fleet: Fleet, problem: FleetProblem, *, before: FleetProblem) -> bool:
    """Whether no way in use of a fleet carries less in `problem` than in the one before."""
    return not any(_rises(before.ways[w], problem.ways[w]) for w, _ in fleet.replicas)


def _rises(one: Way, was: Way) -> bool:
    """Whether a way carries more of any bucket than it did."""
    return any(rate > before for rate, before in zip(one.rates, was.rates, strict=True))


def _settle(asked: FleetContext) -> Solution:
    """
    The cheapest fleet with its checks; where an objective is missed, the loads of those workloads are raised and a
    fleet is sought again, a few times. The last feasible one, whether or not all objectives hold.
    """
    solution = _solve(asked)
    for again in range(RAISES + 1):
        if asked.request.quick or not solution.fleet.feasible or stop_asked():
            break
        solution = solution._replace(checks=checks_of(solution))
        if not solution.missed or again == RAISES or stop_asked():
            break
        raised = tuple(
            up * (RAISE if w.name in solution.missed else 1.0)
            for up, w in zip(solution.asked.raised, asked.request.workloads, strict=True)
        )
        higher = _solve(replace(solution.asked, raised=raised))
        if not higher.fleet.feasible:
            break
        solution = higher._replace(checks=solution.checks)
    return solution


def _simplest(solution: Solution) -> Solution:
    """
    The fleet without its least used kinds of accelerator: those beyond `max_kinds`, and those that save nearly nothing.

    Kinds are left out one after the other, the least used first: a fleet of fewer may be found otherwise, and none that
    costs much less. What a bound shows to cost more is not looked for. Where that ends above `max_kinds`, every choice
    of so many of the kinds in use on the way is looked at: a part of few hours may carry everything alone.
    """
    start, seen = solution.asked, dict[str, None]()
    while solution.fleet.feasible and not stop_asked():
        fleet, most = solution.fleet, start.request.max_kinds
        kinds = kinds_of(solution.asked, fleet)
        seen |= dict.fromkeys(kinds)
        must = most is not None and len(kinds) > most
        # Where a fleet takes seconds to find, the alternatives say what a kind less costs.
        if len(kinds) < 2 or (not must and (start.request.quick or takes_long(solution.problem))):
            break
        narrowed = solution.asked.without_kind(kinds[-1])
        least = least_cost(problem_of(narrowed)[0])
        if least is None or (not must and least > fleet.cost * (1.0 + EQUAL)):
            break
        other = _settle(narrowed)
        if stop_asked():
            break
        worse = _order(other)[0] > _order(solution)[0]
        if not other.fleet.feasible or (not must and (worse or other.fleet.cost > fleet.cost * (1.0 + EQUAL))):
            break
        bound = other.fleet.bound if must else min(fleet.bound, other.fleet.cost)
        solution = other._replace(fleet=replace(other.fleet, bound=bound))
    over = solution.fleet.feasible and refusals.over_kinds(solution.asked, solution.fleet) is not None
    return (_of_these_kinds(start, seen) or solution) if over else solution


def _order(solution: Solution) -> tuple[int, float]:
    """Fewest checks missed, then the cheapest."""
    return sum(not one.meets for one in solution.checks), solution.fleet.cost


def _of_these_kinds(asked: FleetContext, kinds: Iterable[str]) -> Solution | None:
    """
    The best fleet of `max_kinds` of some kinds of accelerator: fewest objectives missed, then the cheapest; None where
    none carries the load.
    """
    choices: list[tuple[float, FleetContext]] = []
    for few in itertools.combinations(kinds, asked.request.max_kinds or 0):
        narrowed = asked.of_kinds(few)
        least = least_cost(problem_of(narrowed)[0])
        if least is not None:
            choices.append((least, narrowed))
    best: Solution | None = None
    for least, narrowed in sorted(choices, key=lambda choice: choice[0]):
        if stop_asked() or (best is not None and _order(best) <= (0, least)):
            break
        other = _settle(narrowed)
        if other.fleet.feasible and (best is None or _order(other) < _order(best)):
            best = other
    return best


def _solve(asked: FleetContext) -> Solution:
    """
    The cheapest fleet, all of whose replicas are simulated: what it runs unsimulated is simulated and the programme
    solved again, a few times at most. A quick plan simulates nothing.
    """
    earlier: Solution | None = None
    quick, looking = asked.request.quick, True
    for again in range(ROUNDS):
        problem, behind = problem_of(asked)
        # The first rounds only say what is worth simulating; a large problem is content with a good fleet throughout.
        large = takes_long(problem)
        rough = large and looking and again < ROUNDS - 1
        enough = QUICK_GAP if quick else ROUGH_GAP if rough else LARGE_GAP if large else GAP
        fleet = cheapest_fleet(problem, gap=enough, near=large or not again)
        # A further search may end at a dearer one.
        if earlier and earlier.fleet.cost < fleet.cost and _stands(earlier.fleet, problem, before=earlier.problem):
            fleet = replace(earlier.fleet, bound=min(fleet.bound, earlier.fleet.cost))
        earlier = Solution(asked, problem, behind, fleet)
        if fleet.feasible:
            best_is_known()
        if quick or again == ROUNDS - 1 or stop_asked():
            break
        unsure = _unsure(earlier)
        if unsure:
            asked = simulate(asked, names=unsure)
            if stop_asked():
                break
        elif (again and not rough) or fleet.gap <= (LARGE_GAP if large else GAP):
            break
        looking = looking and bool(unsure) and again + 1 < LOOKS
    assert earlier is not None
    return earlier._replace(asked=asked)


def _unsure(solution: Solution) -> set[str]:
    """Names of what a fleet runs that could be simulated and is not."""
    workloads = solution.asked.request.workloads
    return {
        candidate.name
        for _, candidate in solution.running()
        if not candidate.simulated and workloads[candidate.workload].kind in {"serve", "batch"}
    }


def _answer(base: FleetPlan, solution: Solution, *, beside: tuple[FleetAlternative, ...]) -> FleetPlan:
    """
    The plan of a fleet: bill, replicas, other fleets, limits. It is not feasible where the bill is beyond the budget.
    """
    request, fleet = solution.asked.request, solution.fleet
    by_bounds = request.quick or stop_asked()
    scale = None if by_bounds else alternatives.bound_scale(solution)
    bill, instances = bill_of(solution, ends=alternatives.cost_range(solution, scale=scale))
    over = refusals.over_budget(request, bill.value / HOURS_PER_MONTH)
    weighed = commitments_assumed(one.commitment for one in instances)
    made = base.provenance
    plan = replace(
        base,
        feasible=over is None,
        bill=bill,
        gap=fleet.gap,
        instances=instances,
        provenance=replace(made, assumed=(*made.assumed, *weighed)),
        replicas=replicas_of(solution),
        checks=solution.checks,
        runs=runs_of(solution),
        measure_first=first_measurement(solution),
        alternatives=beside,
        surer=alternatives.surer_fleet(solution, scale=scale),
        binds=() if by_bounds else alternatives.binding_limits(solution, scale=scale),
        binding=over,
        simulated=_simulations(solution.asked),
    )
    return replace(plan, sentence=narrative.sentence(plan) if over is None else none_works("No feasible fleet", over))


def _rejections(
    request: FleetRequest, missed: Misses, found: list[Candidate], excluded: tuple[Rejection, ...]
) -> tuple[Rejection, ...]:
    """
    One line for each workload and accelerator that serves it in no configuration, with the nearest miss; then what the
    filters exclude, but for names that the request gives.
    """
    lines: list[Rejection] = []
    for number, misses in missed.items():
        able = {candidate.site.accelerator.id for candidate in found if candidate.workload == number}
        nearest: dict[str, Loser] = {}
        for miss in misses:
            name = miss.accelerator.partition(":")[0]
            if name not in able and (name not in nearest or BY_NEARNESS(miss) < BY_NEARNESS(nearest[name])):
                nearest[name] = miss
        lines += [
            Rejection(what=f"{request.workloads[number].name} on {part_name(name)}", verdict=miss.verdict)
            for name, miss in nearest.items()
        ]
    # What the request itself rules out by name is no news.
    return (*lines, *(one for one in excluded if one.verdict.limit not in _NAMED))


def runs(plan: FleetPlan, _: Additions) -> Iterator[Run]:
    """
    The configurations that its numbers rest on, as calibrations know them: replicas in the plan's order, at a chosen
    number of requests in flight, then runs of training.
    """
    asked = {workload.name: workload for workload in plan.request.workloads}
    for replica in plan.replicas:
        serve = asked[replica.workload].serve
        if serve is not None and replica.configuration is not None:
            yield at_once(replica.configuration, model=serve.model, lengths=serve.lengths, concurrency=_FLEET_LOAD)
    for found in plan.runs:
        run = asked[found.workload].run
        if run is not None:
            yield TrainRun(run.model, found.configuration)


_FLEET_LOAD: Final = 16.0
"""Requests in flight at which a replica of a fleet is looked at, whose load changes by the hour. Chosen."""
