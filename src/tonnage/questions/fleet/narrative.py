"""The fleet that the programme picked, as people read it: instances, replicas, bill lines, and the sentences."""

from __future__ import annotations

import math

from msgspec.structs import replace

from tonnage.catalog import parts_name
from tonnage.core.board_power import SUM, spread, steady_load, watts_of
from tonnage.core.host import sampling_needs, serving_needs
from tonnage.core.measure_first import (
    COMPETING,
    MINUTES,
    Rival,
    few_words,
    likelier,
    likeliest_to_overturn,
    narrows,
    smoothly,
)
from tonnage.core.replica import state_of
from tonnage.domain.accelerator import HostNeed
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.calibration import FirstMeasurement
from tonnage.domain.infer_plan import Infer
from tonnage.domain.plan import Configuration
from tonnage.optimize.fleet import Fleet
from tonnage.pricing.bills import HOURS_PER_MONTH, hourly_usd
from tonnage.pricing.energy import IDLE_DRAW
from tonnage.questions.fleet.answer import FleetPlan, FleetRequest, FleetWorkload, PoolInstances, PoolReplicas
from tonnage.questions.fleet.candidate import Candidate, fits_machine
from tonnage.questions.fleet.hours import Hours, ranges
from tonnage.questions.fleet.problem import FleetContext, Solution
from tonnage.questions.fleet.stock import Stock
from tonnage.units import percent, plural, show


def bill_of(
    solution: Solution, *, ends: tuple[float | None, float | None]
) -> tuple[Quantity, tuple[PoolInstances, ...]]:
    """
    What the fleet costs in a month of 730 hours, a part for each kind of instance on each term and for its starts
    [USD]; and these instances, dearest first.
    """
    asked, fleet = solution.asked, solution.fleet
    months = HOURS_PER_MONTH / asked.hours.total_h
    parts: list[Quantity] = []
    found: list[PoolInstances] = []
    for (m, name), counts in fleet.instances.items():
        held, machine = asked.held[m], solution.problem.machines[m]
        offer, hours = held.offer, solution.hours(counts)
        price = offer.usd_per_hour(name) or 0.0
        usd, told = hours * price, f"{hours * months:,.0f} instance hours at {price:,.4g} USD/h"
        if offer.contract is not None:
            usd = _contract_usd(held, name, counts, hours=asked.hours.total_h)
            told += _beside_use(usd - hours * price, months)
        parts.append(
            Quantity(
                name=f"{machine.id}, {name}",
                value=usd * months,
                basis=Basis.MEASURED if offer.as_of_kind == "exact" else Basis.ASSUMED,
                source=f"{told}: {offer.source}, {offer.as_of}" if offer.as_of else told,
            )
        )
        starts = fleet.starts.get((m, name), 0.0)
        if starts:
            parts.append(
                Quantity(
                    name=f"{machine.id}, {name}: starting",
                    value=starts * machine.start_h * price * months,
                    basis=Basis.ASSUMED,
                    source=f"{starts * months:,.0f} starts of {machine.start_h * 60:,.0f} min",
                )
            )
        found.append(
            PoolInstances(
                accelerator=held.site.accelerator.id,
                provider=offer.provider,
                instance_type=offer.instance_type,
                region=offer.region,
                term=name,
                accelerators_per_instance=offer.count,
                usd_per_instance_hour=price,
                hours=ranges(asked.hours, counts),
                instance_hours=hours,
                starts=starts,
                usd_per_month=(usd + starts * machine.start_h * price) * months,
                as_of=offer.as_of,
                commitment=offer.commitment(name),
            )
        )
    total = Quantity.of_parts("USD", parts)
    low, high = (None if end is None else end * months for end in ends)
    total = replace(
        total,
        low=None if low is None else min(total.value, low),
        high=None if high is None else max(total.value, high),
    )
    return total, tuple(sorted(found, key=lambda one: (-one.usd_per_month, one.instance_type, one.term)))


def _contract_usd(held: Stock, term: str, counts: tuple[float, ...], *, hours: float) -> float:
    """
    What a contract charges over the period for the most that stands at once, with what is due unused and what is rented
    until a ramp is there; infinite where it cannot. [USD]
    """
    made = hourly_usd(held.offer, instances=round(max(counts)), term=term)
    return made[0] * hours if made is not None else math.inf


def _beside_use(usd: float, months: float) -> str:
    """What is paid beside what stands, per month; empty where nothing is."""
    return f", and {usd * months:,.0f} USD due unused or rented until a ramp is there" if usd > 1e-6 else ""


def replicas_of(solution: Solution) -> tuple[PoolReplicas, ...]:
    """
    Replicas of each workload on each kind of instance, in the order of the workloads: when they stand, what one
    carries, and what they get.
    """
    asked, problem = solution.asked, solution.problem
    found = []
    for (w, firm), counts in solution.fleet.replicas.items():
        way, candidate = problem.ways[w], solution.behind[w]
        workload = asked.request.workloads[way.pool]
        carries = _carries(solution, w=w, firm=firm)
        requests = [share * bucket.share for share, bucket in zip(carries, workload.buckets, strict=False)]
        rate = math.fsum(requests) * _requests(solution, way.pool) / max(1e-9, solution.hours(counts))
        found.append(
            PoolReplicas(
                workload=workload.name,
                where=problem.machines[way.machine].id,
                firm=firm,
                hours=ranges(asked.hours, counts),
                capacity_per_s=way.rates if candidate is not None else (),
                carries=carries,
                configuration=_serving(candidate),
                board_w=_board_w(workload, candidate, rate_per_s=rate),
                simulated=candidate is not None and candidate.simulated,
                slice=candidate.piece.profile if candidate is not None and candidate.piece is not None else "",
                needs=_needs(candidate, asked.held[way.machine], infer=workload.infer) if candidate is not None else (),
            )
        )
    order = {workload.name: i for i, workload in enumerate(asked.request.workloads)}
    return tuple(sorted(found, key=lambda one: (order[one.workload], one.where, not one.firm)))


def _requests(solution: Solution, pool: int) -> float:
    """
    Requests of a workload over the period, divided by 3,600; at the mean rate where its hours are not told apart.
    [requests/s x h]
    """
    shape = solution.asked.request.workloads[pool].shape
    return solution.hours(solution.asked.hours.loads[pool]) / (1.0 if shape.hours else shape.peak_to_mean)


def _board_w(workload: FleetWorkload, candidate: Candidate | None, *, rate_per_s: float) -> Quantity | None:
    """
    What one accelerator of a replica draws on average; the idle share of its hours is in it. None for slices, for work
    that serves no text, and without a load. [W]
    """
    if candidate is None or candidate.replica is None or candidate.piece is not None or workload.serve is None:
        return None
    if candidate.replica.times is None or rate_per_s <= 0.0:
        return None
    point, _ = state_of(workload.serve, candidate.replica).at_rate(rate_per_s)
    load, busy = steady_load(candidate.replica, point)
    mean = spread(busy * load.value + (1.0 - busy) * IDLE_DRAW, SUM)
    return watts_of(mean, candidate.site.accelerator)


def first_measurement(solution: Solution) -> FirstMeasurement | None:
    """
    Of every workload, what would most likely make another way of serving it cheaper by the request; None where nothing
    is served that way.
    """
    asked, found = solution.asked, []
    for number, workload in enumerate(asked.request.workloads):
        used = [candidate for _, candidate in solution.running(number)]
        if not used or workload.run is not None:
            continue
        mine = [one for one in asked.chances if one.workload == number]
        price = {id(one): _cheapest_request(asked, one, workload) for one in (*mine, *used)}
        lead = min(used, key=lambda one: price[id(one)])
        if not math.isfinite(price[id(lead)]):
            found.append(narrows(_rival(lead, workload, 0, usd=1.0)._replace(usd=None), "it runs on what is owned"))
            continue
        rentable = [one for one in mine if math.isfinite(price[id(one)]) and one.configuration != lead.configuration]
        others = sorted(rentable, key=lambda one: price[id(one)])[: COMPETING - 1]
        # What the programme took for reasons beside a request's price is not overturned by that price alone.
        least = min(price[id(one)] for one in (lead, *others))
        rivals = [
            _rival(candidate, workload, place, usd=least if place == 0 else price[id(candidate)])
            for place, candidate in enumerate((lead, *others))
        ]
        found.append(likeliest_to_overturn(rivals, confidence=0.5))
    best = likelier(found)
    return None if best is None else replace(best, option=None)


def _cheapest_request(asked: FleetContext, candidate: Candidate, workload: FleetWorkload) -> float:
    """
    The least that a request a second of the workload's mix costs there as predicted, by rent; infinite where nothing is
    rented for it or it carries none. [USD/h]
    """
    rate = candidate.mix_per_s(workload, predicted=True)
    prices = [
        price / held.offer.count
        for held in asked.held
        if fits_machine(candidate, held)
        for term in held.terms
        if (price := held.offer.usd_per_hour(term)) is not None
    ]
    return min(prices) * candidate.share / rate if prices and rate > 0.0 else math.inf


def _rival(candidate: Candidate, workload: FleetWorkload, place: int, *, usd: float) -> Rival:
    """A candidate as a rival for the first measurement, at `usd` for a request a second of the mix. [USD/h]"""
    rate = Quantity(value=candidate.mix_per_s(workload, predicted=True), unit="1/s").spread(candidate.rate_error)
    return Rival(
        place=place,
        configuration=candidate.configuration,
        cost=smoothly(Quantity(value=usd, unit="USD/h").spread(candidate.rate_error)),
        margin=math.inf,
        measured=rate,
        name="requests/s",
        what=few_words(candidate.configuration, ranks=candidate.ranks),
        load=f"{workload.name} at its objectives",
        usd=usd * rate.value * MINUTES / 60.0 or None,
    )


def _serving(candidate: Candidate | None) -> Configuration | None:
    """The configuration of what serves; None for training and work of host cores."""
    made = None if candidate is None else candidate.configuration
    return made if isinstance(made, Configuration) else None


def _needs(candidate: Candidate, held: Stock, *, infer: Infer | None) -> tuple[HostNeed, ...]:
    """What one instance full of such replicas must bring; empty for training."""
    weights = candidate.memory.weights
    if infer is not None:
        per = held.offer.count / candidate.share
        link = candidate.site.accelerator.host_link.bytes_per_s
        return sampling_needs(
            infer,
            per=per,
            rate_per_s=candidate.rates[0] * per,
            weight_bytes=weights,
            # Slices share the bus of their accelerator.
            link_bytes_per_s=None if link is None else link * candidate.share,
            offer=held.offer,
        )
    made = _serving(candidate)
    if made is None:
        return ()
    return serving_needs(made.layout, weight_bytes=weights * candidate.ranks, offer=held.offer)


def kinds_of(asked: FleetContext, fleet: Fleet) -> list[str]:
    """Accelerators in use, the one with most instance hours first."""
    hours: dict[str, float] = {}
    for (m, _), counts in fleet.instances.items():
        held = asked.held[m]
        if not held.host_only:
            spent = sum(count * span for count, span in zip(counts, asked.hours.spans, strict=True))
            hours[held.site.accelerator.id] = hours.get(held.site.accelerator.id, 0.0) + spent * held.offer.count
    return sorted(hours, key=lambda name: (-hours[name], name))


def _carries(solution: Solution, *, w: int, firm: bool) -> tuple[float, ...]:
    """
    Of each bucket, the share [-] of the period's requests that one kind of replica (way `w`, firm or spot) gets among
    all replicas of its workload: by the solved flows, or by capacity where there are none.
    """
    problem, fleet, way = solution.problem, solution.fleet, solution.problem.ways[w]
    shares = []
    for bucket in range(len(way.rates)):
        mine, all_of = 0.0, 0.0
        for v, kind in fleet.replicas:
            other = problem.ways[v]
            if other.pool != way.pool:
                continue
            flows = fleet.flows.get((v, kind, bucket))
            counts = fleet.replicas[v, kind]
            for t, span in enumerate(problem.hours):
                amount = span * (flows[t] if flows is not None else counts[t] * other.rates[bucket])
                all_of += amount
                mine += amount if (v, kind) == (w, firm) else 0.0
        shares.append(mine / all_of if all_of > 0 else 0.0)
    return tuple(shares)


def sentence(plan: FleetPlan) -> str:
    """What to take, what it costs, and whether the objectives hold."""
    assert plan.bill is not None
    kinds: dict[str, float] = {}
    for one in plan.instances:
        kinds[one.accelerator] = kinds.get(one.accelerator, 0.0) + plan.most_accelerators(one)
    what = " + ".join(parts_name(count, name) for name, count in kinds.items() if not name.startswith("cpu-"))
    hosts = sum(1 for name in kinds if name.startswith("cpu-"))
    what += " + hosts" * bool(hosts and what) or "hosts alone" * (not what)
    low, high = plan.bill.low, plan.bill.high
    between = f" ({show(low, 'USD')}-{show(high, 'USD')})" if low is not None and high is not None else ""
    return (
        f"{plural(len(plan.request.workloads), 'workload')} on up to {what}: {show(plan.bill.value, 'USD')} a month"
        f"{between}, {show(plan.bill.value / HOURS_PER_MONTH, 'USD/h')} on average; {_objectives_kept(plan)}."
    )


def _objectives_kept(plan: FleetPlan) -> str:
    """Whether the objectives hold in simulation, and how much more load the fleet was sized for to that end."""
    if plan.request.quick:
        return "not simulated"
    missing = list(dict.fromkeys(check.workload for check in plan.checks if not check.meets))
    if missing:
        return f"simulation: {' and '.join(missing)} may miss the objectives"
    if not plan.checks:
        return "no workload states an objective"
    raised = max(check.raised for check in plan.checks)
    more = f", sized for {percent(raised - 1)} more load than asked" if raised > 1 else ""
    return f"every objective holds in the hardest hour, simulated{more}"


def dates(held: tuple[Stock, ...]) -> dict[str, str]:
    """Dates of the prices looked at; empty where none is dated."""
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
    if request.filters.quotes:
        found.append(
            "contracts offered to you are paid in every hour of their term, on average over it: what is due used or "
            "not, and what a ramp has not brought yet on demand"
        )
    if any(name.startswith("reserved") for name in request.filters.terms):
        found.append("reserved instances are paid in every hour of their year")
    if any(w.slices for w in request.workloads):
        found.append(
            "an accelerator is split into slices of one kind; each has its share of multiprocessors and bandwidth, as "
            "NVIDIA states, and is computed like a part of that size, not measured"
        )
    if any(w.run is not None for w in request.workloads):
        found.append(
            "a run of training keeps one arrangement, pauses with a checkpoint in hours that it is not given, "
            "takes no spot capacity; its time, without that of resuming, is that which it keeps "
            "with the confidence asked for"
        )
    if any(w.kind == "infer" for w in request.workloads):
        found.append("what carries samples is computed as by plan infer: mean times, not simulated")
    if request.zones > 1:
        found.append(f"every region has {request.zones} zones with the same prices")
    return tuple(found)
