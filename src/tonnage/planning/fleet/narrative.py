"""Sentences of a fleet plan."""

from __future__ import annotations

from tonnage.domain.answer import Verdict
from tonnage.domain.fleet_plan import FleetPlan, FleetRequest
from tonnage.planning.fleet.hours import Hours
from tonnage.planning.fleet.stock import Stock
from tonnage.pricing.bills import HOURS_PER_MONTH
from tonnage.units import show

__all__ = ["assumptions", "dates", "refusal", "sentence"]


def sentence(plan: FleetPlan) -> str:
    """What to take, what it costs, and whether the objectives hold."""
    assert plan.bill is not None
    kinds: dict[str, float] = {}
    for one in plan.instances:
        top = max(run.count for run in one.hours) * one.accelerators_per_instance
        kinds[one.accelerator] = kinds.get(one.accelerator, 0.0) + top
    what = " + ".join(f"{count:g} x {name}" for name, count in kinds.items() if not name.startswith("cpu-"))
    hosts = sum(1 for name in kinds if name.startswith("cpu-"))
    what += " + hosts" * bool(hosts and what) or "hosts alone" * (not what)
    number = len(plan.request.workloads)
    plural = "s" if number > 1 else ""
    low, high = plan.bill.low, plan.bill.high
    between = f" ({show(low, 'USD')}-{show(high, 'USD')})" if low is not None and high is not None else ""
    return (
        f"{number} workload{plural} on up to {what}: {show(plan.bill.value, 'USD')} a month{between},"
        f" {show(plan.bill.value / HOURS_PER_MONTH, 'USD/h')} on average; {_held(plan)}."
    )


def _held(plan: FleetPlan) -> str:
    if plan.request.quick:
        return "not simulated"
    missing = list(dict.fromkeys(check.workload for check in plan.checks if not check.meets))
    if missing:
        return f"simulation: {' and '.join(missing)} may miss the objectives"
    if not plan.checks:
        return "no workload states an objective"
    raised = max(check.raised for check in plan.checks)
    more = f", sized for {raised - 1:.0%} more load than asked" if raised > 1 else ""
    return f"every objective holds in the hardest hour, simulated{more}"


def refusal(verdict: Verdict) -> str:
    """Why there is no fleet."""
    nearest = f" Nearest: {verdict.nearest}." if verdict.nearest else ""
    return f"No feasible fleet: {verdict.reason or verdict.limit}.{nearest}"


def dates(held: tuple[Stock, ...]) -> dict[str, str]:
    """Dates of the prices looked at."""
    stamps = sorted(one.offer.as_of for one in held if one.offer.as_of)
    return {"prices": f"{stamps[0]} to {stamps[-1]}"} if stamps else {}


def assumptions(request: FleetRequest, hours: Hours) -> tuple[str, ...]:
    """What the plan takes as given."""
    found = ["a month is 730 hours; prices exclude VAT, egress and storage; list prices are no stock"]
    found.append("requests of one bucket take their share of a replica's time; the simulation checks the mix")
    if len(hours.spans) < len(hours.period_of):
        number = "one period" if len(hours.spans) == 1 else f"{len(hours.spans)} periods"
        found.append(f"{len(hours.period_of)} hours planned as {number} of like load, each at its top")
    if any(w.kind == "batch" for w in request.workloads):
        found.append("items of a batch are spread over all days of the week")
    if "spot" in request.filters.terms:
        found.append("spot capacity counts for the time it is there and useful, by published interruptions")
    if any(name.startswith("reserved") for name in request.filters.terms):
        found.append("reserved instances are paid in every hour of their year")
    if any(w.slices for w in request.workloads):
        found.append(
            "an accelerator is split into slices of one kind; each has its share of multiprocessors and bandwidth, as "
            "NVIDIA states, and is reckoned like a part of that size, not measured"
        )
    if any(w.kind == "infer" for w in request.workloads):
        found.append("what carries samples is reckoned as by plan infer: mean times, not simulated")
    if request.zones > 1:
        found.append(f"every region has {request.zones} zones with the same prices")
    return tuple(found)
