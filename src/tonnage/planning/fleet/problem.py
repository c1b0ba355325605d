"""A fleet request with what can be had for it becomes the programme of `tonnage.optimize.fleet`, and back."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from tonnage.domain.fleet_plan import FleetRequest, FleetWorkload
from tonnage.domain.layout import Layout
from tonnage.optimize.fleet import FleetProblem, Pool, Way
from tonnage.planning.fleet.candidate import Candidate, fits_machine
from tonnage.planning.fleet.hours import WEEK, Hours, paces_of
from tonnage.planning.fleet.stock import Stock, machine_of, quotas_on
from tonnage.planning.fleet.training import work_tokens
from tonnage.planning.host import serving_processes

__all__ = ["FleetContext", "moved_confidence", "problem_of"]

SECONDS_PER_HOUR: Final = 3600.0
LEAST: Final = 0.5
MOST: Final = 0.99
"""Confidences that are priced beside the one asked for. [-]"""


class FleetContext(msgspec.Struct, frozen=True, kw_only=True):
    """The request with its hours, its machines, its chances, and what is known of how they turn out."""

    request: FleetRequest
    hours: Hours
    held: tuple[Stock, ...]
    chances: tuple[Candidate, ...]
    raised: tuple[float, ...]
    """Load that each workload is planned for over the one asked. [-]"""
    more: float = 0.0
    """Confidence of every workload over the one asked for, negative where less is. [-]"""
    speed: float = 1.0
    """All capacities over those predicted, for the interval. [-]"""
    kept: tuple[int, ...] | None = None
    """Machines that may be used; absent = all."""
    loss: bool = True
    """Whether the loss of a failure domain is planned for."""
    free: tuple[str, ...] = ()
    """Quotas left out."""


def problem_of(asked: FleetContext) -> tuple[FleetProblem, tuple[Candidate | None, ...]]:
    """The programme, and the chance behind each of its ways; none for work of host cores."""
    request, hours = asked.request, asked.hours
    keep = set(range(len(asked.held)) if asked.kept is None else asked.kept)
    ways: list[Way] = []
    behind: list[Candidate | None] = []
    weights: dict[int, float] = {}
    for m, held in enumerate(asked.held):
        if m not in keep:
            continue
        for chance in asked.chances:
            if not fits_machine(chance, held):
                continue
            ways.append(
                Way(
                    pool=chance.workload,
                    machine=m,
                    charge=_charge(chance, held),
                    whole=not held.passing,
                    slices=1 if chance.piece is None else chance.piece.most,
                    rates=tuple(rate * asked.speed for rate in _planned(asked, chance)),
                    cores=cores_of(chance),
                )
            )
            behind.append(chance)
            if chance.option is not None:
                continue
            held_bytes = sum(p.value for p in chance.memory.parts if p.name.startswith("weights"))
            weights[m] = max(weights.get(m, 0.0), held_bytes * chance.ranks)
        if held.offer.vcpus:
            for p, workload in enumerate(request.workloads):
                if workload.kind == "cpu" and p in held.users:
                    ways.append(Way(pool=p, machine=m, charge=0.0, rates=(1.0,), cores=1.0, whole=False))
                    behind.append(None)
    machines = tuple(machine_of(held, weight_bytes=weights.get(m, 0.0)) for m, held in enumerate(asked.held))
    problem = FleetProblem(
        hours=hours.spans,
        machines=machines,
        pools=tuple(_pool(asked, p, workload) for p, workload in enumerate(request.workloads)),
        ways=tuple(ways),
        quotas=tuple(quota for quota in quotas_on(request, asked.held) if quota.name not in asked.free),
        follows=hours.follows,
        zones=request.zones,
        lost_zones=request.lost_zones,
    )
    return problem, tuple(behind)


def _planned(asked: FleetContext, chance: Candidate) -> tuple[float, ...]:
    workload = asked.request.workloads[chance.workload]
    at = moved_confidence(workload, asked.more)
    return chance.rates if at == workload.confidence else chance.planned(workload, at)


def moved_confidence(workload: FleetWorkload, more: float) -> float:
    """The confidence of a workload and so much more, at most `MOST`; less is no less than half. [-]"""
    asked = workload.confidence
    moved = min(max(asked, MOST), asked + more) if more >= 0.0 else max(min(asked, LEAST), asked + more)
    return round(moved, 4) if more else asked


def _charge(chance: Candidate, held: Stock) -> float:
    """Slots that a replica takes; a run by itself pays for whole instances."""
    whole = held.offer.count if held.passing else 1.0
    return math.ceil(chance.ranks / whole) * whole


def cores_of(chance: Candidate) -> float:
    """Virtual cores of the host that a replica keeps busy."""
    layout = chance.configuration.layout
    return float(serving_processes(layout)) if isinstance(layout, Layout) else 0.0


def _pool(asked: FleetContext, number: int, workload: FleetWorkload) -> Pool:
    loads = asked.hours.loads[number]
    raised = asked.raised[number]
    if workload.kind == "batch":
        days = asked.hours.total_h / 24.0
        work = (workload.items_per_day or 0.0) * days * raised / SECONDS_PER_HOUR
        when = tuple(t for t, load in enumerate(loads) if load > 0)
        return Pool(id=workload.name, work=work, loose=workload.spot_share, when=when)
    if workload.run is not None:
        mine = tuple(chance for chance in asked.chances if chance.workload == number)
        work = work_tokens(workload, mine, hours=asked.hours.total_h) * raised / SECONDS_PER_HOUR
        when = tuple(t for t, load in enumerate(loads) if load > 0)
        paces = paces_of(asked.hours, number) if (workload.every_s or math.inf) < WEEK * SECONDS_PER_HOUR else ()
        return Pool(id=workload.name, work=work, when=when, single=True, paces=paces)
    if workload.kind == "cpu":
        demand: tuple[tuple[float, ...], ...] = (tuple(load * raised * (workload.cpu_s or 0.0) for load in loads),)
    else:
        room = raised / (1.0 - workload.headroom)
        demand = tuple(tuple(load * bucket.share * room for load in loads) for bucket in workload.buckets)
    survives = workload.survives if asked.loss else 0.0
    return Pool(
        id=workload.name, demand=demand, loose=workload.spot_share, survives=survives, spares=workload.spare_replicas
    )
