"""A fleet request with what can be had for it becomes the programme of `tonnage.optimize.fleet`, and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from tonnage.core.host import serving_processes
from tonnage.domain.layout import Layout
from tonnage.optimize.fleet import Fleet, FleetProblem, Pool, Way
from tonnage.pricing.bills import HOURS_PER_MONTH
from tonnage.questions.fleet.answer import FleetCheck, FleetRequest, FleetWorkload
from tonnage.questions.fleet.candidate import Candidate, fits_machine
from tonnage.questions.fleet.hours import WEEK, Hours, draw_for_workload, paces_of
from tonnage.questions.fleet.stock import Stock, machine_of, quotas_on
from tonnage.record import Record
from tonnage.simulation.simulated import Requests

SECONDS_PER_HOUR: Final = 3600.0
LEAST: Final = 0.5
MOST: Final = 0.99
"""Confidences that are priced beside the one asked for. [-]"""


class FleetContext(Record, kw_only=True):
    """
    The request with its hours, its machines (`held`), its candidates (`chances`), and what is known of how they turn
    out.
    """

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
    drawn: dict[int, tuple[Requests, Any]] = {}
    """Of each workload that was played: its requests, and the bucket of each."""

    @property
    def usable(self) -> Sequence[int]:
        """Places of the machines that may be used."""
        return range(len(self.held)) if self.kept is None else self.kept

    def only(self, test: Callable[[Stock], bool]) -> FleetContext:
        """The same with those of the machines alone that pass a test."""
        return replace(self, kept=tuple(m for m in self.usable if test(self.held[m])))

    def of_kinds(self, kinds: Collection[str]) -> FleetContext:
        """The same with some kinds of accelerator alone, and hosts without any."""
        return self.only(lambda held: held.host_only or held.site.accelerator.id in kinds)

    def without_kind(self, kind: str) -> FleetContext:
        """The same without one kind of accelerator."""
        return self.only(lambda held: held.site.accelerator.id != kind)

    def requests_of(self, number: int) -> tuple[Requests, Any]:
        """The requests of a workload, drawn once, and the bucket of each."""
        if number not in self.drawn:
            self.drawn[number] = draw_for_workload(self.request.workloads[number])
        return self.drawn[number]


class Solution(NamedTuple):
    """The fleet that the programme picked, with what it was picked for."""

    asked: FleetContext
    problem: FleetProblem
    behind: tuple[Candidate | None, ...]
    """The candidate of each way of the problem."""
    fleet: Fleet
    checks: tuple[FleetCheck, ...] = ()
    """Its simulations in the hardest hours."""

    @property
    def missed(self) -> dict[str, None]:
        """Workloads whose objectives a check misses, in their order."""
        return dict.fromkeys(check.workload for check in self.checks if not check.meets)

    def running(self, number: int | None = None) -> Iterator[tuple[int, Candidate]]:
        """The ways in use and their candidates, of all workloads or of one."""
        for w, _ in self.fleet.replicas:
            candidate = self.behind[w]
            if candidate is not None and number in {None, candidate.workload}:
                yield w, candidate

    def hours(self, counts: Iterable[float]) -> float:
        """Hours that counts of each period stand for together. [h]"""
        return math.fsum(count * span for count, span in zip(counts, self.problem.hours, strict=True))

    def usd_per_month(self, cost: float) -> float:
        """A cost of the period of the plan in a month. [USD]"""
        return cost / sum(self.problem.hours) * HOURS_PER_MONTH


def problem_of(asked: FleetContext) -> tuple[FleetProblem, tuple[Candidate | None, ...]]:
    """The programme, and the candidate behind each of its ways; None for work of host cores."""
    request, hours = asked.request, asked.hours
    ways: list[Way] = []
    behind: list[Candidate | None] = []
    weights: dict[int, float] = {}
    for m in asked.usable:
        held = asked.held[m]
        for candidate in asked.chances:
            if not fits_machine(candidate, held):
                continue
            ways.append(
                Way(
                    pool=candidate.workload,
                    machine=m,
                    charge=_slots_taken(candidate, held),
                    whole=not held.passing,
                    slices=1 if candidate.piece is None else candidate.piece.most,
                    rates=tuple(rate * asked.speed for rate in _planned_rates(asked, candidate)),
                    cores=cores_of(candidate),
                )
            )
            behind.append(candidate)
            if candidate.option is not None:
                continue
            weights[m] = max(weights.get(m, 0.0), candidate.memory.weights * candidate.ranks)
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
        quotas=quotas_on(request, asked.held),
        follows=hours.follows,
        zones=request.zones,
        lost_zones=request.lost_zones,
    )
    return problem, tuple(behind)


def _planned_rates(asked: FleetContext, candidate: Candidate) -> tuple[float, ...]:
    """
    Rates of each bucket at the workload's confidence and the context's `more`; the headroom is in the demand. [1/s]
    """
    workload = asked.request.workloads[candidate.workload]
    at = moved_confidence(workload, asked.more)
    return candidate.rates if at == workload.confidence else candidate.planned(workload, at)


def moved_confidence(workload: FleetWorkload, more: float) -> float:
    """
    The confidence of a workload plus `more`, at most `MOST`, or with a negative `more` at least half; one beyond these
    already stays. [-]
    """
    asked = workload.confidence
    moved = min(max(asked, MOST), asked + more) if more >= 0.0 else max(min(asked, LEAST), asked + more)
    return round(moved, 4) if more else asked


def _slots_taken(candidate: Candidate, held: Stock) -> float:
    """Slots (accelerators) that a replica takes; a run by itself pays for whole instances."""
    whole = held.offer.count if held.passing else 1.0
    return math.ceil(candidate.ranks / whole) * whole


def cores_of(candidate: Candidate) -> float:
    """Virtual cores of the host that a replica keeps busy."""
    layout = candidate.configuration.layout
    return float(serving_processes(layout)) if isinstance(layout, Layout) else 0.0


def _pool(asked: FleetContext, number: int, workload: FleetWorkload) -> Pool:
    """
    A workload as the programme takes it. Of deferred work an amount (items or tokens per second, times hours); of
    others the demand by bucket and period with headroom [1/s], of host cores in cores.
    """
    loads, raised = asked.hours.loads[number], asked.raised[number]
    when = tuple(t for t, load in enumerate(loads) if load > 0)
    if workload.kind == "batch":
        days = asked.hours.total_h / 24.0
        work = (workload.items_per_day or 0.0) * days * raised / SECONDS_PER_HOUR
        return Pool(id=workload.name, work=work, loose=workload.spot_share, when=when)
    if workload.run is not None:
        each = max((one.run_tokens for one in asked.chances if one.workload == number), default=0.0)
        tokens = each * asked.hours.total_h * SECONDS_PER_HOUR / workload.every_s if workload.every_s else 0.0
        work = tokens * raised / SECONDS_PER_HOUR
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
