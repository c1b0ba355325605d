"""Spot against on-demand for the chosen place: what interruptions cost, and whether the deadline still holds (D2)."""

from __future__ import annotations

from typing import Final

from tonnage import catalog
from tonnage.catalog.failures import spot_uptime
from tonnage.domain.money import Offer
from tonnage.domain.train_plan import TrainOption
from tonnage.planning.sites import Site
from tonnage.planning.train.option import TrainContext
from tonnage.planning.train.scaling import rerun
from tonnage.pricing.bills import instances_needed
from tonnage.simulation.run import spot_mix
from tonnage.units import show

__all__ = ["spot_against_on_demand"]

NOWHERE: Final = 0.05
"""Useful share of the time below which spot is no way to run a job: at least twenty times the bill. Chosen. [-]"""


def spot_against_on_demand(asked: TrainContext, best: TrainOption, *, sites: tuple[Site, ...]) -> str:
    """One or two sentences; empty when nobody lists a spot price for this accelerator."""
    if not asked.request.restartable:
        return "Spot is no choice: the job is said not to restart."
    priced = _cheapest_spot(best, sites)
    if priced is None:
        return ""
    offer, usd_per_h = priced
    instances = instances_needed(replicas=1, ranks=best.accelerators, per_instance=offer.count)
    up = spot_uptime(instances=instances)
    run = rerun(asked, best, instances=instances, instance_size=offer.count, term="spot")
    name = f"{best.accelerators} x {best.configuration.accelerator} on spot at {offer.provider} {offer.region}"
    notice = catalog.providers()[offer.provider].spot_notice_s if offer.provider in catalog.providers() else None
    told = f" ({notice:.0f} s notice)" if notice else ""
    between, down = show(run.between_s, "s", digits=2), show(up.mean_down_s, "s", digits=2)
    each = f"a stop every {between} on traces of older parts, {down} until back"
    useful = run.useful_time_fraction.value
    if useful < NOWHERE:
        return f"{name}: {each}{told}; it would get nowhere."
    usd = instances * usd_per_h * run.billed_s / 3600
    ratio = usd / best.cost.value
    wall = show(run.wall_s.value, "s")
    told = f"{name}: {each}{told}, {useful:.0%} useful; {show(usd, 'USD')} ({ratio:.2f}x on-demand) in {wall}"
    deadline = asked.request.deadline_s
    if deadline is None or run.wall_s.value <= deadline:
        return told + "."
    mix = spot_mix(
        work_s=best.run.billed_s,
        deadline_s=deadline,
        spot_share=up.availability * useful,
        up_share=up.availability,
        spot_usd_per_h=instances * usd_per_h,
        on_demand_usd_per_h=best.bill.usd_per_hour,
    )
    if mix is None:
        return told + f", beyond the {show(deadline, 's')} allowed."
    return (
        f"{told}, beyond the {show(deadline, 's')} allowed; with a switch to on-demand in time "
        f"({show(mix.on_demand_s, 's')} of it) about {show(mix.usd, 'USD')}."
    )


def _cheapest_spot(best: TrainOption, sites: tuple[Site, ...]) -> tuple[Offer, float] | None:
    """The offer of the same accelerator that holds the job cheapest on spot, and its price per instance."""
    found: list[tuple[float, Offer, float]] = []
    for site in sites:
        same = (
            site.accelerator.id == best.configuration.accelerator and site.intra_link == best.configuration.intra_link
        )
        for offer in site.offers if same else ():
            price = offer.usd_per_hour("spot")
            holds = best.accelerators <= offer.count or (
                best.accelerators % offer.count == 0 and bool(offer.network_bytes_per_s)
            )
            if price is not None and holds:
                instances = instances_needed(replicas=1, ranks=best.accelerators, per_instance=offer.count)
                found.append((instances * price, offer, price))
    if not found:
        return None
    _, offer, price = min(found, key=lambda entry: entry[0])
    return offer, price
