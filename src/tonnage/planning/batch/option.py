"""One way to finish a job becomes an option of the plan: its bill, its intervals, its electricity."""

from __future__ import annotations

from datetime import date
from typing import Final

import msgspec

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.batch_plan import BatchOption
from tonnage.domain.plan import Bill, Configuration
from tonnage.domain.requests.common import Lengths
from tonnage.planning.batch.runs import Job, JobRun, Place, run_on
from tonnage.planning.host import LoadShare, energy_use, serving_needs
from tonnage.pricing.bills import bill
from tonnage.pricing.energy import carbon_kg, energy_kwh

__all__ = ["Found", "Work", "option_of"]

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


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A work at a place, on the instances it needs."""

    work: Work
    place: Place
    run: JobRun
    chance: float | None
    sure: bool
    step: int
    """Instances of one replica, or one that holds several."""
    fastest: int
    """Most instances that may be taken there."""


def option_of(found: Found, *, accelerator: Accelerator, today: date) -> BatchOption:
    """The option with its intervals: the rate's own, and what time and cost become at both of its ends."""
    work, place, run, job = found.work, found.place, found.run, found.work.job
    basis = work.basis
    ends = [run_on(job, place, instances=run.instances, speed=speed) for speed in (job.factor, 1.0 / job.factor)]
    quick, slow = ends
    made = bill(place.offer, replicas=run.replicas, ranks=job.ranks, term=place.term, today=today)
    assert isinstance(made, Bill)
    accelerators = round(run.instances * place.offer.count)
    energy = energy_use(accelerator, count=float(accelerators), busy=1.0, bill=made, load=work.load)
    hours = run.running_s / SECONDS_PER_HOUR
    kwh = energy_kwh(power_w=energy.power_w, hours=hours) if energy is not None else None
    grid = energy.grams_per_kwh if energy is not None else None
    lengths = work.lengths
    return BatchOption(
        configuration=work.configuration,
        replicas=run.replicas,
        accelerators=accelerators,
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
        kg_co2=carbon_kg(kwh=kwh, grams_per_kwh=grid) if kwh is not None and grid is not None else None,
        basis=str(basis),
        chance=found.chance,
        sure=found.sure,
        sources=place.sources,
        needs=serving_needs(work.configuration.layout, weight_bytes=job.weight_bytes, offer=place.offer),
    )


def _weaker(place: Place, basis: Basis) -> Basis:
    """Spot times rest on old traces, whatever the rate rests on."""
    return Basis.ASSUMED if place.term == "spot" else basis
