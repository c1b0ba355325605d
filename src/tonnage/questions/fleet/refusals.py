"""What stands in the way of any fleet, by how much, and what would change it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from tonnage.catalog import Additions, part_name
from tonnage.catalog.hub.resolve import resolve
from tonnage.core.calibration_use import Run, each_once
from tonnage.core.driver import alone, moved_losers
from tonnage.core.header import Infeasible, Loser, nearness
from tonnage.core.sites import none_passes
from tonnage.domain.answer import Verdict
from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.plan import Configuration, Rejection
from tonnage.domain.refusal import refusal
from tonnage.engines.registry import engine_title
from tonnage.optimize.fleet import Fleet, FleetProblem, Machine, Quota, cheapest_fleet
from tonnage.questions.fleet.answer import FleetRequest, FleetWorkload
from tonnage.questions.fleet.candidate import Candidate, too_unsure
from tonnage.questions.fleet.narrative import kinds_of
from tonnage.questions.fleet.problem import LEAST, FleetContext, moved_confidence, problem_of
from tonnage.questions.train.option import measured_run
from tonnage.questions.train.places import InfeasibleRun
from tonnage.units import show

NODES: Final = 20
"""Of the search of what stops a fleet. [-]"""
STEP: Final = 0.1
"""Confidence less that is tried at a time. [-]"""
Misses = dict[int, Sequence[Loser]]
"""By workload, what cannot do it."""
BY_NEARNESS: Final = nearness({"confidence": -1, "tpot": 0, "ttft": 0, "e2e": 0, "offer": 1, "cache": 2, "memory": 3})


def over_budget(request: FleetRequest, usd_per_hour: float) -> Verdict | None:
    """The verdict when the fleet costs more than may be spent, on average over the hours; None where it does not."""
    budget = request.budget_usd_per_h
    if budget is None or usd_per_hour <= budget * (1.0 + 1e-9):
        return None
    return refusal(
        "budget",
        f"the cheapest fleet found costs {show(usd_per_hour, 'USD/h')} on average, the budget is "
        f"{show(budget, 'USD/h')}",
        short_by=usd_per_hour - budget,
        nearest=f"a budget of {show(usd_per_hour, 'USD/h')}",
        unit="USD/h",
    )


def over_kinds(asked: FleetContext, fleet: Fleet) -> Verdict | None:
    """
    The verdict when no fleet of so few kinds of accelerator was found; None where the fleet has no more than that.
    """
    kinds, most = kinds_of(asked, fleet), asked.request.max_kinds
    if most is None or len(kinds) <= most:
        return None
    return refusal(
        "max_kinds",
        f"no fleet of at most {most} kinds of accelerator carries the load: leaving out {part_name(kinds[-1])} as "
        "well, the least used, none does",
        short_by=float(len(kinds) - most),
        nearest=f"{len(kinds)} kinds: {', '.join(map(part_name, kinds))}",
    )


def nobody_serves(asked: FleetContext, missed: Misses, *, excluded: Iterable[Rejection]) -> Verdict | None:
    """
    The limit that stops what came closest for the first workload that nothing can serve, or that nothing serves in one
    bucket of lengths; None where each has something.
    """
    for number, workload in enumerate(asked.request.workloads):
        if workload.kind == "cpu":
            if not any(held.offer.vcpus and number in held.users for held in asked.held):
                reason = f"{workload.name}: no machine that passes the filters states its virtual cores"
                return refusal("cores", reason, nearest="widen the filters")
            continue
        mine = [candidate for candidate in asked.chances if candidate.workload == number]
        lacking = next((b for b in range(len(workload.buckets)) if not any(c.rates[b] for c in mine)), None)
        if mine and lacking is None:
            continue
        misses = missed.get(number, ())
        if mine and lacking is not None:
            verdict = _bucket_lacks(workload, mine, lacking)
        elif not misses:
            verdict = none_passes(excluded)
        else:
            verdict = min(misses, key=BY_NEARNESS).verdict
        return replace(verdict, reason=f"{workload.name}: {verdict.reason}")
    return None


def moved_tries(asked: FleetContext, missed: Misses, *, additions: Additions) -> tuple[CalibrationUse, ...]:
    """The measurements that moved what no fleet is made of: what could serve each workload, else what came nearest."""
    found: list[CalibrationUse] = []
    for number, workload in enumerate(asked.request.workloads):
        able = [_as_loser(one) for one in asked.chances if one.workload == number]
        runs = partial(_as_measured, workload, additions)
        found += moved_losers(able or missed.get(number, ()), runs, by=BY_NEARNESS, additions=additions)
    return each_once(found)


def _as_loser(candidate: Candidate) -> Loser:
    """A candidate as what could do it, were it not for the rest of the fleet."""
    here, verdict = candidate.configuration, Verdict(ok=True)
    if isinstance(here, Configuration):
        return Infeasible(configuration=here, verdict=verdict)
    return InfeasibleRun(
        what=here.label(part_name, engine_title), accelerator=here.accelerator, verdict=verdict, option=candidate.option
    )


def _as_measured(workload: FleetWorkload, additions: Additions, tried: Loser) -> Iterator[Run]:
    """What was tried as calibrations know it; nothing for samples and work of host cores."""
    if workload.serve is not None and isinstance(tried, Infeasible):
        yield from alone(workload.serve, tried)
    elif workload.run is not None and isinstance(tried, InfeasibleRun):
        name = workload.run.model
        yield from measured_run(tried, model=resolve(name, additions=additions), asked=name, additions=additions)


def _bucket_lacks(workload: FleetWorkload, mine: list[Candidate], bucket: int) -> Verdict:
    """Why nothing takes requests of one of several lengths, where something takes the others."""
    able = [one for one in mine if one.points[bucket] is not None]
    lengths = workload.buckets[bucket].lengths
    what = f"a request of {lengths.prompt_tokens:,.0f} tokens answered with {lengths.output_tokens:,.0f}"
    if not able:
        reason = f"{what} misses the objectives on every accelerator"
        return refusal("latency", reason, nearest="looser objectives")
    chance = max(one.likeliest(bucket) for one in able)
    return too_unsure(what, chance, asked=workload.confidence)


def what_stops(asked: FleetContext) -> Verdict:
    """
    The limit without which a fleet would carry the load, and by how much it is short: a quota, the loss of a domain,
    spot alone, the confidence, then all quotas together.
    """
    problem, _ = problem_of(asked)
    own = {f"{one.count} of {one.name}" for one in asked.request.own}
    rented = [quota for quota in problem.quotas if quota.name not in own]
    for quota in rented:
        left = replace(problem, quotas=tuple(one for one in problem.quotas if one is not quota))
        short = _fewest_slots(left, (quota,))
        if short is not None:
            return _quota_verdict(f"the quota of {quota.name}", quota.most, short)
    if asked.loss and any(pool.survives > 0 for pool in problem.pools):
        calm, _ = problem_of(replace(asked, loss=False))
        if cheapest_fleet(calm, gap=0.5, nodes=NODES).feasible:
            domains = len({machine.domain for machine in problem.machines})
            return refusal(
                "survives",
                f"the load cannot be carried without any one of {domains} failure domains",
                short_by=1.0,
                nearest="zones: 2, another region, or a lower share in survives",
            )
    pools = tuple(replace(pool, loose=1.0) for pool in problem.pools)
    if cheapest_fleet(replace(problem, pools=pools), gap=0.5, nodes=NODES).feasible:
        return refusal(
            "spot_share",
            "only spot capacity is allowed, and some load must not run on it",
            nearest="term: on-demand beside spot, or spot_share: 100 %",
        )
    unsure = _less_sure(asked)
    if unsure is not None:
        return unsure
    if len(rented) > 1:
        left = replace(problem, quotas=tuple(one for one in problem.quotas if one.name in own))
        short = _fewest_slots(left, tuple(rented))
        if short is not None:
            names = " and ".join(quota.name for quota in rented)
            return _quota_verdict(f"the quotas of {names} together", sum(q.most for q in rented), short)
    return refusal(
        "own" if own else "fleet",
        "what may be had does not carry the load, whatever it costs",
        nearest="allow more offers beside what is there",
    )


def _less_sure(asked: FleetContext) -> Verdict | None:
    """
    The verdict where what there is carries the load with less confidence, tens of points at a time; None where it does
    not even at half.
    """
    most = max(w.confidence for w in asked.request.workloads)
    for less in range(1, math.ceil((most - LEAST) / STEP + 1e-9) + 1):
        if cheapest_fleet(problem_of(replace(asked, more=-less * STEP))[0], gap=0.5, nodes=NODES).feasible:
            sure = max(moved_confidence(w, -less * STEP) for w in asked.request.workloads)
            return too_unsure("what may be had", sure, asked=most, does="carries the load")
    return None


def _quota_verdict(name: str, most: float, need: float) -> Verdict:
    return refusal(
        "quota",
        f"{name} is short by {need - most:g} accelerators: the load needs {need:g}",
        short_by=need - most,
        nearest=f"a quota of {need:g}",
    )


def _fewest_slots(problem: FleetProblem, quotas: tuple[Quota, ...]) -> float | None:
    """
    The fewest slots (accelerators) at once, of those that count against `quotas` (left out of `problem`), that carry
    the load; None where it cannot be carried.
    """
    counted = {
        (m, term.name)
        for q in quotas
        for m in q.machines
        for term in problem.machines[m].terms
        if q.term in {None, term.name}
    }

    def held(m: int, machine: Machine) -> Machine:
        # Paid in every hour, so that the least cost is the least that must be there at once.
        terms = tuple(
            replace(term, cost_per_hour=machine.slots if (m, term.name) in counted else 1e-6, always=True)
            for term in machine.terms
        )
        return replace(machine, terms=terms, start_h=0.0)

    machines = tuple(held(m, machine) for m, machine in enumerate(problem.machines))
    found = cheapest_fleet(replace(problem, machines=machines), gap=0.001, nodes=NODES)
    if not found.feasible:
        return None
    return sum(counts[0] * machines[m].slots for (m, name), counts in found.instances.items() if (m, name) in counted)
