"""Fleets beside the one picked: with one more condition, with one limit less, with more confidence."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage.catalog import part_name, provider_name
from tonnage.core.stop import stop_asked
from tonnage.optimize.fleet import Fleet, FleetProblem, Quota, cheapest_fleet, least_cost, takes_long
from tonnage.questions.fleet.answer import FleetAlternative, FleetLimit, FleetWorkload, SurerFleet
from tonnage.questions.fleet.narrative import kinds_of
from tonnage.questions.fleet.problem import FleetContext, Solution, moved_confidence, problem_of
from tonnage.questions.fleet.stock import Stock
from tonnage.questions.serve.option import has_objectives
from tonnage.units import percent, show

GAP: Final = 0.02
MAX_KINDS: Final = 3
MAX_LIMITS: Final = 5
WITHOUT_SPOT: Final = "without spot"
SAME: Final = 1e-6
"""Difference of two costs that is none. [-]"""
SURER: Final = 0.1
"""Confidence more, of which the cost is told. [-]"""
MORE: Final = 0.25
"""A limit that binds is tried with so much more. [-]"""


def cost_range(solution: Solution, *, scale: float | None) -> tuple[float | None, float | None]:
    """
    What the fleet costs when every replica does as much more, or less, than predicted as one may; None, None where no
    candidate runs. [USD over the plan's period]

    A quick plan looks for no other fleets: the one picked then costs as much less, or more.
    """
    errors = [candidate.rate_error for _, candidate in solution.running()]
    if not errors:
        return None, None
    asked, cost = solution.asked, solution.fleet.cost
    quick, slow = (math.exp(sum(math.log(one.at(end)) for one in errors) / len(errors)) for end in (1.0, -1.0))
    if asked.request.quick or stop_asked():
        return cost / quick, cost / slow
    low, high = (_cost(problem_of(replace(asked, speed=speed))[0], scale) for speed in (quick, slow))
    return low, high


def surer_fleet(solution: Solution, *, scale: float | None) -> SurerFleet | None:
    """
    What ten more points of confidence in every workload cost; never less than the fleet itself. None in a quick or
    stopped plan, and where no workload's confidence can be raised by so much.
    """
    asked = solution.asked
    moved = [moved_confidence(w, SURER) - w.confidence for w in asked.request.workloads if _has_chance(w)]
    if asked.request.quick or stop_asked() or not moved or max(moved) < SURER - SAME:
        return None
    cost = _cost(problem_of(replace(asked, more=SURER))[0], scale)
    usd = None if cost is None else solution.usd_per_month(max(cost, solution.fleet.cost))
    return SurerFleet(more=SURER, usd_per_month=usd, sought=scale is None)


def _has_chance(workload: FleetWorkload) -> bool:
    """Whether its capacity depends on the confidence: not of work of host cores, nor without objectives."""
    return workload.kind != "cpu" and (workload.kind != "serve" or not workload.serve or has_objectives(workload.serve))


def bound_scale(solution: Solution) -> float | None:
    """
    Cost of the answer over its problem's bound where another fleet would take seconds to find; None = fleets are
    sought. [-]
    """
    least = least_cost(solution.problem) if takes_long(solution.problem) else None
    return solution.fleet.cost / least if least else None


def _cost(problem: FleetProblem, scale: float | None) -> float | None:
    """
    What the cheapest fleet of a variant costs, or with `scale` its bound times that; None where none carries the load.
    [USD over the plan's period]
    """
    if scale is None:
        other = cheapest_fleet(problem, gap=GAP, near=True)
        return other.cost if other.feasible else None
    least = least_cost(problem)
    return None if least is None else least * scale


class Other(NamedTuple):
    """A fleet beside the answer, and whether it could be the answer."""

    row: FleetAlternative
    fleet: Fleet | None = None
    """As the answer's problem counts it; absent where there is none or it need not do all that the answer must."""


class Beside(NamedTuple):
    """The answer (`found`) that other fleets are compared with."""

    found: Solution
    tried: dict[str, Fleet]
    """Those found before, by the condition that they keep."""
    scale: float | None = None
    """`bound_scale` of the answer."""


def alternatives(beside: Beside) -> tuple[Other, ...]:
    """
    The cheapest fleets of one kind of accelerator, without the least used kind, at one provider, without spot, without
    commitments, and without the loss of a failure domain: each only where the answer has what it leaves out.
    """
    asked, fleet = beside.found.asked, beside.found.fleet
    kinds = kinds_of(asked, fleet)
    found: list[Other | None] = [_of_one_kind(beside, kinds)]
    if len(kinds) > 1:
        rare = kinds[-1]
        found.append(
            _fleet_under(beside, f"without {part_name(rare)}, the least used kind", narrowed=asked.without_kind(rare))
        )
    found.append(_at_one_provider(beside))
    used = sorted({name for _, name in fleet.instances})
    if "spot" in used or WITHOUT_SPOT in beside.tried:
        found.append(_fleet_under(beside, WITHOUT_SPOT, narrowed=_without_terms(asked, ("spot",))))
    committed = tuple(name for name in used if name.startswith(("reserved", "block")))
    if committed:
        found.append(_fleet_under(beside, f"without {', '.join(committed)}", narrowed=_without_terms(asked, committed)))
    if asked.loss and any(w.survives > 0 for w in asked.request.workloads):
        found.append(_fleet_under(beside, "if no failure domain need be lost", narrowed=replace(asked, loss=False)))
    return tuple(one for one in found if one is not None)


def cheaper_alternative(found: Iterable[Other], fleet: Fleet) -> Other | None:
    """
    The cheapest of other fleets that costs less than the answer and does all that the answer must.

    Fewer choices are searched further with the same effort: what they give is a fleet for the wider question, too.
    """
    costs = [(one.fleet.cost, n, one) for n, one in enumerate(found) if one.fleet is not None]
    cost, _, least = min(costs, default=(math.inf, 0, None))
    return least if cost < fleet.cost * (1.0 - SAME) else None


def _fleet_under(beside: Beside, name: str, *, narrowed: FleetContext) -> Other:
    """
    The cheapest fleet under a condition; by the bounds of both problems where it would take seconds to find, and not at
    all once stopped. A fleet that need not survive a loss stands in the row, but cannot be the answer.
    """
    answer, fleet = beside.found.fleet, beside.tried.get(name)
    kept = all(m in narrowed.usable and term in narrowed.held[m].terms for m, term in answer.instances)
    if fleet is None and stop_asked():
        return Other(FleetAlternative(name=name, what="not looked for: stopped"))
    if fleet is None and beside.scale is not None:
        same = kept and narrowed.loss == beside.found.asked.loss
        cost = answer.cost if same else _cost(problem_of(narrowed)[0], beside.scale)
        what = "this fleet" if cost == answer.cost else "by the bounds of both: no fleet was sought"
        return Other(_row(beside, name, cost=cost, what=what))
    if fleet is None:
        fleet = beside.tried[name] = _solve_condition(beside, narrowed)
    # What survives a loss carries the load without one.
    if kept and fleet.cost >= answer.cost * (1.0 - SAME):
        fleet = answer
    if not fleet.feasible:
        return Other(_row(beside, name, cost=None))
    kinds = ", ".join(map(part_name, kinds_of(beside.found.asked, fleet))) or "hosts alone"
    row = _row(beside, name, cost=fleet.cost, what="this fleet" if fleet is answer else f"on {kinds}")
    return Other(row, fleet if narrowed.loss else None)


def _row(beside: Beside, name: str, *, cost: float | None, what: str = "") -> FleetAlternative:
    """
    A row for a fleet of that cost over the plan's period [USD]; `more` is the share beyond the answer's cost, None
    where that is nothing, and without a cost nothing carries the load.
    """
    if cost is None:
        return FleetAlternative(name=name, what="no such fleet carries the load")
    usd, least = beside.found.usd_per_month(cost), beside.found.usd_per_month(beside.found.fleet.cost)
    # Beside what costs nothing, anything is dearer by no share of it.
    more = usd / least - 1.0 if least > 0 else 0.0 if usd <= 0 else None
    if more is not None and abs(more) <= SAME:
        more = 0.0
    return FleetAlternative(name=name, usd_per_month=usd, more=more, what=what)


def _solve_condition(beside: Beside, narrowed: FleetContext) -> Fleet:
    """The cheapest fleet under a condition, its ways counted as in the answer's problem."""
    fleet = cheapest_fleet(problem_of(narrowed)[0], gap=GAP, near=True)
    place = [w for w, way in enumerate(beside.found.problem.ways) if way.machine in narrowed.usable]
    return replace(
        fleet,
        replicas={(place[w], firm): counts for (w, firm), counts in fleet.replicas.items()},
        flows={(place[w], firm, b): counts for (w, firm, b), counts in fleet.flows.items()},
    )


def _of_one_kind(beside: Beside, used: list[str]) -> Other:
    """
    The cheapest fleet with one kind of accelerator, of a few kinds looked at; hosts without any may stand beside it.
    Its row says what the next kinds cost.
    """
    asked = beside.found.asked
    served: dict[str, set[int]] = {}
    for candidate in asked.chances:
        served.setdefault(candidate.site.accelerator.id, set()).add(candidate.workload)
    needed = {i for i, w in enumerate(asked.request.workloads) if w.kind != "cpu"}
    able = [kind for kind, who in served.items() if who >= needed]
    able.sort(key=lambda kind: used.index(kind) if kind in used else len(used))
    ranked = _cheapest_first(
        beside, {f"one kind alone: {part_name(kind)}": asked.of_kinds({kind}) for kind in able[:MAX_KINDS]}
    )
    if not ranked:
        what = "none serves every workload within limits and objectives"
        return Other(FleetAlternative(name="one kind of accelerator alone", what=what))
    rest = [f"{one.row.name.rpartition(': ')[2]} {_difference(one.row)}" for one in ranked[1:4]]
    what = "the best; " + ", ".join(rest) if rest else "the only one that can"
    return ranked[0]._replace(row=replace(ranked[0].row, what=what))


def _cheapest_first(beside: Beside, conditions: dict[str, FleetContext]) -> list[Other]:
    """Those fleets under some conditions that carry the load, the cheapest first."""
    found = [_fleet_under(beside, name, narrowed=narrowed) for name, narrowed in conditions.items()]
    able = (one for one in found if one.row.usd_per_month is not None)
    return sorted(able, key=lambda one: one.row.usd_per_month or math.inf)


def _difference(one: FleetAlternative) -> str:
    """A fleet's cost against the answer's: a share, or dollars where that costs nothing."""
    return percent(one.more, sign="+") if one.more is not None else show(one.usd_per_month or 0.0, "USD")


def _at_one_provider(beside: Beside) -> Other | None:
    """The cheapest fleet from one of the providers in use; None where fewer than two are, or once stopped."""
    asked = beside.found.asked
    providers = {asked.held[m].offer.provider for m, _ in beside.found.fleet.instances if not asked.held[m].own}
    if len(providers) < 2:
        return None
    conditions = {
        f"one provider alone: {provider_name(provider)}": asked.only(partial(_is_sold_by, provider))
        for provider in sorted(providers)
    }
    able = _cheapest_first(beside, conditions)
    if able:
        return able[0]
    if stop_asked():
        return None
    return Other(FleetAlternative(name="one provider alone", what="none of those in use carries the load"))


def _is_sold_by(provider: str, held: Stock) -> bool:
    """Whether a provider, or nobody for it is one's own, sells a machine."""
    return bool(held.own) or held.offer.provider == provider


def _without_terms(asked: FleetContext, terms: tuple[str, ...]) -> FleetContext:
    """The same machines on fewer terms; a machine without any cannot be had."""
    held = tuple(replace(one, terms=tuple(name for name in one.terms if name not in terms)) for one in asked.held)
    # The same machines on fewer terms: their chances stay theirs.
    return replace(asked, held=held)


def binding_limits(solution: Solution, *, scale: float | None) -> tuple[FleetLimit, ...]:
    """
    Limits that are used up (quotas, spot shares, windows, deadlines; the first few of them), and what loosening each
    alone would save in a month, the most first; what saves less than the solver's gap is left out.
    """
    asked, problem, _, fleet, _ = solution
    cost = fleet.cost
    trials: list[tuple[str, str, FleetProblem]] = []
    for q, quota in enumerate(problem.quotas):
        sizes = [problem.machines[m].slots for m in quota.machines]
        if not sizes or _quota_use(solution, quota) + min(sizes) <= quota.most + 1e-9:
            continue
        more = max(min(sizes), math.ceil(quota.most * MORE))
        wider = tuple(replace(one, most=one.most + more) if i == q else one for i, one in enumerate(problem.quotas))
        trials.append((f"quota of {quota.name}", f"{more:g} more", replace(problem, quotas=wider)))
    for p, pool in enumerate(problem.pools):
        changes = []
        if (
            0 <= pool.loose < 1
            and not pool.single
            and any(not term.firm for machine in problem.machines for term in machine.terms)
        ):
            changes.append((f"spot_share of {pool.id}", "all of it on spot", replace(pool, loose=1.0)))
        if pool.when:
            run = asked.request.workloads[p].run is not None and asked.request.workloads[p].window is None
            changes.append((f"{'deadline' if run else 'window'} of {pool.id}", "any hour", replace(pool, when=())))
        for name, what, wider_pool in changes:
            pools = tuple(wider_pool if i == p else one for i, one in enumerate(problem.pools))
            trials.append((name, what, replace(problem, pools=pools)))
    found = []
    for name, what, other in trials[:MAX_LIMITS]:
        better = _cost(other, scale)
        # Less than the gap of the two is no saving that can be told from none.
        if better is not None and cost - better > GAP / 2.0 * cost:
            found.append(FleetLimit(name=name, relaxed=what, saves_usd_per_month=solution.usd_per_month(cost - better)))
    return tuple(sorted(found, key=lambda limit: -limit.saves_usd_per_month))


def _quota_use(solution: Solution, quota: Quota) -> float:
    """Slots that count against a quota in the hour in which they are most."""
    at: list[float] = [0.0] * len(solution.problem.hours)
    for (m, name), counts in solution.fleet.instances.items():
        if m in quota.machines and quota.term in {None, name}:
            slots = solution.problem.machines[m].slots
            at = [used + count * slots for used, count in zip(at, counts, strict=True)]
    return max(at)
