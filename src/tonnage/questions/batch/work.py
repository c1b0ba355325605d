"""A configuration at work on some instances of an offer: how long a job takes, what it costs, and what the plan says.

Items are independent, so that any number of instances that is up does useful work: spot capacity stretches the time
by its availability and wastes, at each reclaim, a start and the answers that were half done.
"""

from __future__ import annotations

import math
from datetime import date
from functools import cache
from typing import Final

from tonnage import catalog
from tonnage.catalog import part_name
from tonnage.catalog.failures import spot_uptime
from tonnage.core.board_power import predicted_load
from tonnage.core.cold_start import ColdStart, cold_start
from tonnage.core.deployment import Deployment
from tonnage.core.host import energy_of_run, energy_use, serving_needs
from tonnage.core.replica import MOST_CACHE
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Basis, Quantity, Spread
from tonnage.domain.batch_plan import BatchOption
from tonnage.domain.cost import BillingRules
from tonnage.domain.money import Offer
from tonnage.domain.plan import Bill, Configuration
from tonnage.pricing.bills import bill, hourly_usd
from tonnage.pricing.terms import billing_rules, charged_hours, run_lines, useful_share
from tonnage.questions.cost.rents import between_reclaims_s
from tonnage.record import Record
from tonnage.simulation.simulated import Served
from tonnage.units import percent

SECONDS_PER_HOUR: Final = 3600.0
MILLION: Final = 1e6


class Work(Record, kw_only=True):
    """A configuration that can do the job, and how fast one full replica of it works."""

    configuration: Configuration
    items: float
    at: Deployment
    served: Served
    """One replica, always full; its requests are the items."""
    error: Spread
    """Of their rate."""
    basis: Basis
    weight_bytes: float

    @property
    def ranks(self) -> int:
        """Accelerators of a replica."""
        return self.configuration.layout.ranks

    @property
    def items_per_s(self) -> float:
        """Of one replica. [1/s]"""
        return self.served.requests_per_s

    @property
    def binds(self) -> str:
        """What keeps a replica from holding more."""
        return "batch" if self.served.running >= self.at.max_num_seqs else "kv"


class Candidate(Record, kw_only=True):
    """A work on an offer at one term, whether it is in time now or not."""

    work: Work
    offer: Offer
    term: str
    usd_per_hour: float
    start: ColdStart
    rules: BillingRules
    """How hours are charged."""
    useful: float
    """Share of the hours that does useful work. [-]"""
    available: float
    """Share of time in which the capacity is there. [-]"""
    sources: tuple[str, ...]
    fastest: int = 0
    """Most instances that may be taken, in whole replicas."""

    @property
    def name(self) -> str:
        """Accelerator and term: what a choice is called by."""
        return part_name(self.work.configuration.accelerator) + ("" if self.term == "on-demand" else f", {self.term}")

    @property
    def step(self) -> int:
        """Instances that one replica takes, or 1 where an instance holds one or several."""
        return max(1, -(-self.work.ranks // int(self.offer.count)))

    @property
    def side_by_side(self) -> int:
        """Replicas on `step` instances: accelerators that are paid for are used."""
        return max(1, int(self.offer.count // self.work.ranks))

    @property
    def usd_per_item(self) -> float:
        """Of work alone, start and rounding left out. [USD]"""
        rate = self.side_by_side * self.work.items_per_s * self.useful
        return self.step * self.usd_per_hour / rate / SECONDS_PER_HOUR

    @property
    def items_per_s(self) -> float:
        """Of the largest fleet. [1/s]"""
        return self.work.items / self.run(self.fastest).wall_s

    def run(self, instances: int, *, speed: float = 1.0) -> JobRun:
        """
        The job on that many instances, if replicas work at `speed` times what is predicted. Time counts hours without
        capacity, charges do not.
        """
        replicas = instances // self.step * self.side_by_side
        work_s = self.work.items / (replicas * self.work.items_per_s * speed)
        start_s = self.start.total_s
        running_s = (start_s + work_s) / self.useful
        hours = charged_hours(running_s, rules=self.rules, term=self.term, contract=self.offer.contract)
        usd_per_hour, _ = hourly_usd(self.offer, instances=instances, term=self.term) or (math.inf, 0.0)
        return JobRun(
            at=self,
            instances=instances,
            replicas=replicas,
            work_s=work_s,
            wall_s=start_s + work_s / (self.useful * self.available),
            running_s=running_s,
            billed_hours=hours,
            usd=usd_per_hour * hours,
        )

    def instances_by(self, deadline_s: float, *, speed: float) -> int | None:
        """
        Fewest instances that finish by then at that speed, whatever limits there are; None when not even the start
        leaves time.
        """
        return self._instances_in((deadline_s - self.start.total_s) * self.useful * self.available, speed=speed)

    def _instances_in(self, work_s: float, *, speed: float = 1.0) -> int | None:
        """Fewest instances whose work takes so long at most, None where that is no time."""
        if work_s <= 0:
            return None
        replicas = max(1, math.ceil(self.work.items / (work_s * self.work.items_per_s * speed) - 1e-9))
        return math.ceil(replicas / self.side_by_side) * self.step

    def cheapest_from(self, fewest: int) -> JobRun:
        """
        The job on the number of instances that costs least, from the `fewest` on: with more of them less time may be
        lost to the provider's rounding than their starts take, so that a later deadline is never dearer.
        """
        run = best = self.run(fewest)
        # Time on all instances together only grows with their number.
        while run.usd / run.billed_hours * run.running_s / SECONDS_PER_HOUR < best.usd:
            less_s = run.billed_hours * SECONDS_PER_HOUR - self.rules.step_s
            more = self._instances_in(less_s * self.useful - self.start.total_s)
            if more is None or not run.instances < more <= self.fastest:
                break
            run = self.run(more)
            best = min(best, run, key=lambda one: one.usd)
        return best


class JobRun(Record, kw_only=True):
    """The job on a number of instances."""

    at: Candidate
    instances: int
    replicas: int
    work_s: float
    wall_s: float
    running_s: float
    """An instance stands, waiting for capacity left out. [s]"""
    billed_hours: float
    usd: float
    chance: float | None = None
    """Of keeping deadline and budget. [-]"""
    sure: bool = True

    @property
    def parts(self) -> tuple[Quantity, ...]:
        """What the money is spent on. [USD]"""
        start_s = self.at.start.total_s
        lost_s = self.running_s - start_s - self.work_s
        return run_lines(
            {"work": self.work_s, "start": start_s, "lost to spot preemptions": lost_s},
            charged_h=self.billed_hours,
            usd_per_hour=self.usd / self.billed_hours,
            told=f"{self.instances} x {self.at.usd_per_hour:,.4g} USD/h",
        )

    @property
    def accelerators(self) -> int:
        """Rented, whole instances."""
        return round(self.instances * self.at.offer.count)

    @property
    def ends(self) -> tuple[JobRun, JobRun]:
        """What it becomes at the fast and at the slow end of the rate's interval."""
        quick, slow = (self.at.run(self.instances, speed=self.at.work.error.at(end)) for end in (1.0, -1.0))
        return quick, slow


def candidate_of(work: Work, offer: Offer, *, term: str) -> Candidate | None:
    """The work on that offer at that term; None when it lists no such price. Limits of the request are the caller's."""
    price = offer.usd_per_hour(term)
    if price is None:
        return None
    start = cold_start(weight_bytes=work.weight_bytes, provider=offer.provider)
    rules = billing_rules(catalog.providers().get(offer.provider))
    useful, available, sources = 1.0, 1.0, [start.source, f"billing: {rules.stated} ({rules.source})"]
    if term == "spot":
        between, said = _stays(offer)
        up = spot_uptime(instances=1)
        useful = useful_share(between_s=between, lost_s=start.total_s + work.served.e2e_s / 2.0)
        available = up.availability
        sources += [said, f"capacity is there {percent(available)} of the time: {up.source}"]
    return Candidate(
        work=work,
        offer=offer,
        term=term,
        usd_per_hour=price,
        start=start,
        rules=rules,
        useful=useful,
        available=available,
        sources=tuple(sources),
    )


@cache
def _stays(offer: Offer) -> tuple[float, str]:
    """Time between two reclaims of a spot instance [s], and its source."""
    return between_reclaims_s(offer)


def option_of(run: JobRun, *, accelerator: Accelerator, today: date) -> BatchOption:
    """The option with its intervals: the rate's own, and what time and cost become at both of its ends."""
    at, work, pool, case = run.at, run.at.work, run.at.work.at.pool, run.at.work.at.case
    # Spot times rest on old traces, whatever the rate rests on.
    weaker = Basis.ASSUMED if at.term == "spot" else work.basis
    quick, slow = run.ends
    made = bill(at.offer, replicas=run.replicas, ranks=work.ranks, term=at.term, today=today)
    assert isinstance(made, Bill)
    load = predicted_load(work.at, work.served, arrivals=False)
    energy = energy_use(accelerator, count=float(run.accelerators), busy=1.0, bill=made, load=load)
    kwh, kg = energy_of_run(energy, seconds=run.running_s) if energy is not None else (None, None)
    spent = run.parts
    usd = sum(part.value for part in spent)
    return BatchOption(
        configuration=work.configuration,
        replicas=run.replicas,
        accelerators=run.accelerators,
        items_per_s=Quantity(value=work.items_per_s, unit="1/s", basis=work.basis).spread(work.error),
        concurrency=work.served.running,
        binds=work.binds,
        memory=pool.memory,
        kv_tokens=min(pool.tokens, MOST_CACHE),
        limit_bytes=pool.limit_bytes,
        bill=made,
        wall_s=Quantity(value=run.wall_s, unit="s", low=quick.wall_s, high=slow.wall_s, basis=weaker),
        start_s=at.start.total_s,
        billed_hours=run.billed_hours,
        cost=Quantity(value=usd, unit="USD", low=quick.usd, high=slow.usd, basis=weaker, parts=spent),
        usd_per_thousand_items=usd / work.items * 1000.0,
        usd_per_million_output_tokens=usd / (work.items * case.osl) * MILLION,
        usd_per_million_tokens=usd / (work.items * (case.isl + case.osl)) * MILLION,
        useful=at.useful,
        available=at.available,
        energy=energy,
        kwh=kwh,
        kg_co2=kg,
        basis=str(work.basis),
        chance=run.chance,
        sure=run.sure,
        sources=at.sources,
        needs=serving_needs(work.configuration.layout, weight_bytes=work.weight_bytes, offer=at.offer),
    )
