"""What can be had for a fleet: offers as machines with their terms, machines of one's own, quotas on them.

The catalogue lists the same instance in many regions and at many providers. Of those alike in accelerator, size and
the quotas they count against, only the cheapest on some term can be of use; where a failure domain may be lost and a
region has no zones, those of a second place are kept too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, provider_name
from tonnage.catalog.failures import spot_uptime
from tonnage.core.cold_start import cold_start
from tonnage.core.quotes import CONTRACT
from tonnage.core.sites import Site, sites
from tonnage.domain.money import Offer, Price
from tonnage.domain.plan import Rejection
from tonnage.optimize.fleet import Machine, Quota, Step, Term
from tonnage.pricing.bills import months_of
from tonnage.pricing.terms import PREPAID, useful_share
from tonnage.questions.cost.rents import between_reclaims_s
from tonnage.questions.fleet.answer import FleetQuota, FleetRequest
from tonnage.record import Record

OWNED: Final = "own"
SIZES: Final = frozenset({1, 2, 4, 8, 16})
"""Accelerators of an instance that replicas of 1, 2, 4, … fill without waste."""


class Stock(Record, kw_only=True):
    """One kind of machine that can be had."""

    site: Site
    offer: Offer
    terms: tuple[str, ...]
    own: str = ""
    """The name it has in the request, for what is there already."""
    users: frozenset[int] = frozenset()
    """Workloads whose filters it passes."""
    passing: bool = False
    """Had by a run of training for just the hours that it takes."""

    @property
    def host_only(self) -> bool:
        """No accelerator: cores alone."""
        return self.site.accelerator.segment == "cpu"

    @property
    def domain(self) -> str:
        """What fails together."""
        return " ".join(filter(None, (self.offer.provider, self.offer.region)))


def stock(request: FleetRequest, *, additions: Additions) -> tuple[tuple[Stock, ...], tuple[Rejection, ...]]:
    """
    Every kind of machine worth looking at, own machines first, and the accelerators that the filters leave nothing of.
    """
    open_sites, users, excluded = _open_sites(request, additions)
    cores = any(w.kind == "cpu" for w in request.workloads)
    runs = any(w.run is not None for w in request.workloads)
    apart = request.zones == 1 and any(w.survives > 0 for w in request.workloads)
    found: list[Stock] = []
    for site in open_sites:
        host = site.accelerator.segment == "cpu"
        if host and not cores:
            continue
        groups: dict[object, list[Offer]] = {}
        for offer in site.offers:
            if offer.vcpus if host else offer.count in SIZES:
                counted = tuple(_counts(quota, offer) for quota in request.quotas)
                joins = runs and bool(offer.network_bytes_per_s)
                groups.setdefault((offer.count, counted, users[offer], joins), []).append(offer)
        for group in groups.values():
            for offer in _cheapest(group, request.filters.terms, places=2 if apart else 1):
                terms = tuple(term for term in request.filters.terms if offer.usd_per_hour(term) is not None)
                found.append(Stock(site=site, offer=offer, terms=terms, users=users[offer]))
    found = _primary_only(found)
    return (*_owned_stock(request, additions), *_hosts(found, request.filters.terms)), excluded


def _open_sites(
    request: FleetRequest, additions: Additions
) -> tuple[list[Site], dict[Offer, frozenset[int]], tuple[Rejection, ...]]:
    """Sites that any workload's filters leave, who may use each of their offers, and what no filter leaves."""
    asked = [w.filters or request.filters for w in request.workloads]
    users: dict[Offer, set[int]] = {}
    merged: dict[tuple[str, str | None], Site] = {}
    excluded: dict[str, Rejection] = {}
    for filters in dict.fromkeys(asked):
        open_sites, left_out = sites(filters, additions=additions)
        for site in open_sites:
            for offer in site.offers:
                users.setdefault(offer, set()).update(i for i, own in enumerate(asked) if own == filters)
            key = (site.accelerator.id, site.intra_link)
            known = merged.get(key)
            merged[key] = (
                site
                if known is None
                else replace(
                    known,
                    offers=tuple(dict.fromkeys((*known.offers, *site.offers))),
                    per_node=max(known.per_node, site.per_node),
                )
            )
        excluded |= {one.what: one for one in left_out}
    served = {accelerator for accelerator, _ in merged}
    left = tuple(one for name, one in excluded.items() if name not in served)
    return list(merged.values()), {offer: frozenset(who) for offer, who in users.items()}, left


def _primary_only(found: list[Stock]) -> list[Stock]:
    """Without prices of no primary source, but for workloads that have no other machine."""
    served = {user for held in found if held.offer.trust == "primary" for user in held.users}
    return [held for held in found if held.offer.trust == "primary" or not held.users <= served]


def sites_for(held: Iterable[Stock], number: int) -> list[Site]:
    """The sites of accelerators that a workload may use."""
    return list({id(one.site): one.site for one in held if not one.host_only and number in one.users}.values())


def machine_of(held: Stock, *, weight_bytes: float) -> Machine:
    """
    The machine as the programme takes it; it is paid from the order to the first token of weights of that size, own
    machines without a start.
    """
    offer = held.offer
    start_s = 0.0 if held.own else cold_start(weight_bytes=weight_bytes, provider=offer.provider).total_s
    terms = (
        Term(
            name=name,
            cost_per_hour=price,
            always=name == OWNED or name in PREPAID,
            firm=name != "spot",
            available=spot_useful(offer, start_s) if name == "spot" else 1.0,
            steps=_steps(offer) if name == CONTRACT else (),
            bridge_per_hour=_bridge(offer, name),
        )
        for name in held.terms
        if (price := offer.compared_usd_per_hour(name)) is not None
    )
    return Machine(
        id=held.own or f"{offer.provider} {offer.instance_type} {offer.region}".strip(),
        slots=1.0 if held.host_only else offer.count,
        terms=tuple(terms),
        domain=held.domain,
        # A run's own start is part of its time.
        start_h=0.0 if held.passing else start_s / 3600.0,
        whole=not held.passing,
        cores=offer.vcpus,
    )


def _steps(offer: Offer) -> tuple[Step, ...]:
    """What a contract brings and charges over its months; empty where it has neither a minimum nor a ramp."""
    held = offer.contract
    if held is None or not (held.minimum or held.ramp):
        return ()
    if not held.ramp:
        return (Step(share=1.0, due=held.take_or_pay * held.minimum / offer.count),)
    months: dict[int, int] = {}
    for there in months_of(held):
        months[there] = months.get(there, 0) + 1
    return tuple(
        Step(
            share=number / sum(months.values()),
            due=held.take_or_pay * there / offer.count,
            most=math.floor(there / offer.count),
        )
        for there, number in months.items()
    )


def _bridge(offer: Offer, term: str) -> float | None:
    """
    What an instance costs on demand until a ramp has brought it, compared as the contract is; None without a ramp or
    such a price. [USD/h]
    """
    held = offer.contract
    if held is None or term != CONTRACT or not held.ramp or held.bridge_usd_per_hour is None:
        return None
    price, compared = offer.usd_per_hour(term), offer.compared_usd_per_hour(term)
    return held.bridge_usd_per_hour * offer.count * (compared or 0.0) / price if price else None


def spot_useful(offer: Offer, start_s: float) -> float:
    """Of the time wanted, the share in which spot capacity is there and does something useful. [-]"""
    between, _ = between_reclaims_s(offer)
    return useful_share(between_s=between, lost_s=start_s) * spot_uptime(instances=1).availability


def quotas_on(request: FleetRequest, held: tuple[Stock, ...]) -> tuple[Quota, ...]:
    """The request's quotas, the stock of offers that state one, and the number of own machines."""
    found = [
        Quota(
            name=quota.label(),
            machines=tuple(
                m for m, one in enumerate(held) if not one.own and not one.host_only and _counts(quota, one.offer)
            ),
            most=float(quota.most),
            term=quota.term,
        )
        for quota in request.quotas
    ]
    for m, one in enumerate(held):
        if one.offer.stock is not None and not one.own:
            name = f"{one.offer.stock} of {provider_name(one.offer.provider)} {one.offer.instance_type}"
            found.append(Quota(name=name, machines=(m,), most=float(one.offer.stock)))
    for own in request.own:
        mine = tuple(m for m, one in enumerate(held) if one.own == own.name)
        found.append(Quota(name=f"{own.count} of {own.name}", machines=mine, most=float(own.count)))
    return tuple(found)


def _counts(quota: FleetQuota, offer: Offer) -> bool:
    """Whether an offer counts against a quota, whatever the term."""
    return (
        quota.accelerator in {None, offer.accelerator}
        and quota.provider in {None, offer.provider}
        and quota.region in {None, offer.region}
    )


def _cheapest(offers: list[Offer], terms: tuple[str, ...], *, places: int) -> list[Offer]:
    """The cheapest offers on each term, each in another place, in as many `places` as are wanted; all contracts."""
    # What a contract binds to beside its price is weighed by the programme.
    kept = [offer for offer in offers if offer.contract is not None]
    for term in terms:
        listed = [offer for offer in offers if offer.usd_per_hour(term) is not None]
        listed.sort(key=lambda o: (o.compared_usd_per_hour(term) or 0.0, o.provider, o.instance_type, o.region))
        seen: set[tuple[str, str]] = set()
        for offer in listed:
            place = (offer.provider, offer.region)
            if place not in seen and len(seen) < places:
                seen.add(place)
                if offer not in kept:
                    kept.append(offer)
    return kept


def _hosts(found: list[Stock], terms: tuple[str, ...]) -> list[Stock]:
    """
    The machines, those without an accelerator only where their cores are the cheapest on some term for each who may use
    them.
    """
    kept = [one for one in found if not one.host_only]
    hosts = [one for one in found if one.host_only]
    for users in dict.fromkeys(one.users for one in hosts):
        for term in terms:
            listed = [one for one in hosts if one.users == users and one.offer.usd_per_hour(term) is not None]
            if listed:
                best = min(listed, key=lambda one: (one.offer.usd_per_hour(term) or 0.0) / (one.offer.vcpus or 1.0))
                kept += [best] if best not in kept else []
    return kept


def _owned_stock(request: FleetRequest, additions: Additions) -> list[Stock]:
    """Own machines of the request, which every workload may use; their number is a quota of `quotas_on`."""
    found = []
    for own in request.own:
        accelerator = catalog.accelerator(own.accelerator, additions)
        offer = Offer(
            provider="own",
            instance_type=own.name,
            accelerator=own.accelerator,
            count=float(own.per_node),
            prices=(Price(term=OWNED, usd_per_hour=own.usd_per_hour),),
            vcpus=own.vcpus,
            source="yours",
            as_of_kind="exact",
        )
        site = Site(accelerator=accelerator, intra_link=None, per_node=own.per_node, offers=(offer,))
        found.append(
            Stock(site=site, offer=offer, terms=(OWNED,), own=own.name, users=frozenset(range(len(request.workloads))))
        )
    return found
