"""A configuration at work on some instances of an offer: how long a job takes, what it costs, and what the plan says.

Items are independent, so that any number of instances that is up does useful work: spot capacity stretches the time
by its availability and wastes, at each reclaim, a start and the answers that were half done.
"""

from __future__ import annotations

import math
from datetime import date
from functools import cache
from typing import Final

import msgspec

from tonnage import catalog
from tonnage.catalog.failures import spot_uptime
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.batch_plan import BatchOption
from tonnage.domain.cost import BillingRules
from tonnage.domain.money import Offer
from tonnage.domain.plan import Bill, Configuration
from tonnage.domain.requests.common import Lengths
from tonnage.planning.cold_start import ColdStart, cold_start
from tonnage.planning.cost.rents import between_reclaims_s
from tonnage.planning.host import LoadShare, energy_of_run, energy_use, serving_needs
from tonnage.pricing.bills import bill, hourly_usd, instances_needed
from tonnage.pricing.terms import billing_rules, charged_hours, run_lines, useful_share


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What one configuration has to do, and how fast a replica of it does it."""

    items: float
    items_per_s: float
    """Of one replica, always full. [1/s]"""
    factor: float
    """90 % factor of that rate. [-]"""
    ranks: int
    weight_bytes: float
    item_s: float
    """One item from start to end in a full replica. [s]"""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """An offer at one term: price, start, how hours are charged, how much of them is useful and when it is there."""

    offer: Offer
    term: str
    usd_per_hour: float
    start: ColdStart
    rules: BillingRules
    useful: float
    available: float
    sources: tuple[str, ...]


class JobRun(msgspec.Struct, frozen=True, kw_only=True):
    """The job on a number of instances."""

    instances: int
    replicas: int
    wall_s: float
    running_s: float
    """An instance stands, waiting for capacity left out. [s]"""
    billed_hours: float
    parts: tuple[Quantity, ...]

    @property
    def usd(self) -> float:
        """Sum of the parts. [USD]"""
        return sum(part.value for part in self.parts)


def place_of(job: Job, offer: Offer, *, term: str) -> Place | None:
    """The offer at that term for this job; absent when it lists no such price."""
    price = offer.usd_per_hour(term)
    if price is None:
        return None
    start = cold_start(weight_bytes=job.weight_bytes, provider=offer.provider)
    rules = billing_rules(catalog.providers().get(offer.provider))
    useful, available, sources = 1.0, 1.0, [start.source, f"billing: {rules.stated} ({rules.source})"]
    if term == "spot":
        between, said = _stays(offer)
        up = spot_uptime(instances=1)
        useful = useful_share(between_s=between, lost_s=start.total_s + job.item_s / 2.0)
        available = up.availability
        sources += [said, f"capacity is there {available:.0%} of the time: {up.source}"]
    return Place(
        offer=offer,
        term=term,
        usd_per_hour=price,
        start=start,
        rules=rules,
        useful=useful,
        available=available,
        sources=tuple(sources),
    )


def run_on(job: Job, place: Place, *, instances: int, speed: float = 1.0) -> JobRun:
    """The job on that many instances, if replicas work at `speed` times what is predicted."""
    replicas = _replicas(job, place, instances)
    work_s = job.items / (replicas * job.items_per_s * speed)
    start_s = place.start.total_s
    running_s = (start_s + work_s) / place.useful
    hours = charged_hours(running_s, rules=place.rules, term=place.term, contract=place.offer.contract)
    spent = {"work": work_s, "start": start_s, "lost to spot preemptions": running_s - start_s - work_s}
    return JobRun(
        instances=instances,
        replicas=replicas,
        wall_s=start_s + work_s / (place.useful * place.available),
        running_s=running_s,
        billed_hours=hours,
        parts=run_lines(
            spent,
            charged_h=hours,
            usd_per_hour=(hourly_usd(place.offer, instances=instances, term=place.term) or (math.inf, 0.0))[0],
            told=f"{instances} x {place.usd_per_hour:,.4g} USD/h",
        ),
    )


def instances_by(job: Job, place: Place, *, deadline_s: float, speed: float) -> int | None:
    """Fewest instances that finish by the deadline at that speed; absent when not even the start leaves time."""
    left = (deadline_s - place.start.total_s) * place.useful * place.available
    if left <= 0:
        return None
    replicas = max(1, math.ceil(job.items / (left * job.items_per_s * speed) - 1e-9))
    return instances_needed(replicas=replicas, ranks=job.ranks, per_instance=place.offer.count)


def _replicas(job: Job, place: Place, instances: int) -> int:
    """All that fit: accelerators that are paid for are used."""
    side_by_side = int(place.offer.count // job.ranks)
    if side_by_side >= 1:
        return instances * side_by_side
    return instances // math.ceil(job.ranks / place.offer.count)


@cache
def _stays(offer: Offer) -> tuple[float, str]:
    return between_reclaims_s(offer)


SECONDS_PER_HOUR: Final = 3600.0
MILLION: Final = 1e6


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration that can do the job, and how fast one full replica of it works."""

    configuration: Configuration
    job: Job
    memory: Quantity
    kv_tokens: float
    limit_bytes: float
    basis: Basis
    lengths: Lengths
    concurrency: float
    binds: str
    load: LoadShare
    """What its boards draw of their limit while it works."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A work at a place, whether it is in time now or not."""

    work: Work
    place: Place
    fastest: int
    """Most instances that may be taken there, in whole replicas."""

    @property
    def name(self) -> str:
        """Accelerator and term: what a choice is called by."""
        term = self.place.term
        return self.work.configuration.accelerator + ("" if term == "on-demand" else f", {term}")

    @property
    def step(self) -> int:
        """Instances of one replica, or one that holds several."""
        return max(1, -(-self.work.job.ranks // int(self.place.offer.count)))

    @property
    def usd_per_item(self) -> float:
        """Of work alone, start and rounding left out. [USD]"""
        job, place = self.work.job, self.place
        replicas = max(1, int(place.offer.count // job.ranks))
        instances = max(1.0, job.ranks / place.offer.count)
        return instances * place.usd_per_hour / (replicas * job.items_per_s * place.useful) / SECONDS_PER_HOUR

    @property
    def items_per_s(self) -> float:
        """Of the largest fleet. [1/s]"""
        return self.work.job.items / self.run(self.fastest).wall_s

    def run(self, instances: int, *, speed: float = 1.0) -> JobRun:
        """The job on that many instances, if replicas work at `speed` times what is predicted."""
        return run_on(self.work.job, self.place, instances=instances, speed=speed)

    def ends(self, run: JobRun) -> tuple[JobRun, JobRun]:
        """What a run becomes at the fast and at the slow end of the rate's interval."""
        factor = self.work.job.factor
        return self.run(run.instances, speed=factor), self.run(run.instances, speed=1.0 / factor)


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate on the instances it needs."""

    at: Candidate
    run: JobRun
    chance: float | None
    sure: bool

    @property
    def accelerators(self) -> int:
        """That are rented."""
        return round(self.run.instances * self.at.place.offer.count)


def option_of(found: Found, *, accelerator: Accelerator, today: date) -> BatchOption:
    """The option with its intervals: the rate's own, and what time and cost become at both of its ends."""
    work, place, run, job = found.at.work, found.at.place, found.run, found.at.work.job
    basis = work.basis
    quick, slow = found.at.ends(run)
    made = bill(place.offer, replicas=run.replicas, ranks=job.ranks, term=place.term, today=today)
    assert isinstance(made, Bill)
    energy = energy_use(accelerator, count=float(found.accelerators), busy=1.0, bill=made, load=work.load)
    kwh, kg = energy_of_run(energy, seconds=run.running_s) if energy is not None else (None, None)
    lengths = work.lengths
    return BatchOption(
        configuration=work.configuration,
        replicas=run.replicas,
        accelerators=found.accelerators,
        items_per_s=Quantity(value=job.items_per_s, unit="1/s", basis=basis).within(job.factor),
        concurrency=work.concurrency,
        binds=work.binds,
        memory=work.memory,
        kv_tokens=work.kv_tokens,
        limit_bytes=work.limit_bytes,
        bill=made,
        wall_s=Quantity(value=run.wall_s, unit="s", low=quick.wall_s, high=slow.wall_s, basis=_weaker(place, basis)),
        start_s=place.start.total_s,
        billed_hours=run.billed_hours,
        cost=Quantity(
            value=run.usd, unit="USD", low=quick.usd, high=slow.usd, basis=_weaker(place, basis), parts=run.parts
        ),
        usd_per_thousand_items=run.usd / job.items * 1000.0,
        usd_per_million_output_tokens=run.usd / (job.items * lengths.output_tokens) * MILLION,
        usd_per_million_tokens=run.usd / (job.items * (lengths.prompt_tokens + lengths.output_tokens)) * MILLION,
        useful=place.useful,
        available=place.available,
        energy=energy,
        kwh=kwh,
        kg_co2=kg,
        basis=str(basis),
        chance=found.chance,
        sure=found.sure,
        sources=place.sources,
        needs=serving_needs(work.configuration.layout, weight_bytes=job.weight_bytes, offer=place.offer),
    )


def _weaker(place: Place, basis: Basis) -> Basis:
    """Spot times rest on old traces, whatever the rate rests on."""
    return Basis.ASSUMED if place.term == "spot" else basis
