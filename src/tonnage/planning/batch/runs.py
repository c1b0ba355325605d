"""How long a job takes on some instances of an offer, and what it costs, interruptions and billing steps included.

Items are independent, so that any number of instances that is up does useful work: spot capacity stretches the time
by its availability and wastes, at each reclaim, a start and the answers that were half done.
"""

from __future__ import annotations

import math
from functools import cache

import msgspec

from tonnage import catalog
from tonnage.catalog.failures import spot_uptime
from tonnage.domain.answer import Quantity
from tonnage.domain.cost import BillingRules
from tonnage.domain.money import Offer
from tonnage.planning.cold_start import ColdStart, cold_start
from tonnage.planning.cost.rents import between_reclaims_s
from tonnage.pricing.bills import hourly_usd
from tonnage.pricing.terms import billing_rules, charged_hours, run_lines, useful_share

__all__ = ["Job", "JobRun", "Place", "instances_by", "place_of", "run_on"]


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
    side_by_side = int(place.offer.count // job.ranks)
    if side_by_side >= 1:
        return math.ceil(replicas / side_by_side)
    return replicas * math.ceil(job.ranks / place.offer.count)


def _replicas(job: Job, place: Place, instances: int) -> int:
    """All that fit: accelerators that are paid for are used."""
    side_by_side = int(place.offer.count // job.ranks)
    if side_by_side >= 1:
        return instances * side_by_side
    return instances // math.ceil(job.ranks / place.offer.count)


@cache
def _stays(offer: Offer) -> tuple[float, str]:
    return between_reclaims_s(offer)
