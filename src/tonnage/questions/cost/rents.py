"""What renting the same accelerator costs, provider by provider and term by term, against owning it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.failures import run_fact, spot_uptime
from tonnage.catalog.providers import is_community
from tonnage.domain.cost import OwnedMachine, Rent, RentOrBuyRequest
from tonnage.domain.money import Offer, is_stale
from tonnage.pricing.owning import (
    HOURS_PER_YEAR,
    availability,
    break_even_utilisation,
    mean_price_factor,
    owned_usd,
    payback_years,
)
from tonnage.pricing.terms import PREPAID, mean_between_reclaims_s, useful_share
from tonnage.record import Record

UPFRONT: Final = ("purchase", "network", "storage", "spares")
YEARLY: Final = ("support", "insurance", "energy", "hosting", "staff")


class Meeting(Record, kw_only=True):
    """Owning one machine against one rental price, for the same work."""

    rent_usd: float
    owned_usd: float
    break_even: float | None
    """Share of hours; above 1 = not even at full use. [-]"""
    payback_years: float | None


def listed_rents(request: RentOrBuyRequest, *, additions: Additions, today: date) -> tuple[Rent, ...]:
    """
    The cheapest offer of each provider and term, per accelerator; or the one price that the request gives. Prices that
    sellers state, without serverless workers; others only where there are none.
    """
    if request.rent_usd_per_hour is not None:
        return (
            Rent(
                provider="your price",
                term="on-demand",
                usd_per_accelerator_hour=request.rent_usd_per_hour,
                paid="used",
                as_of=today.isoformat(),
            ),
        )
    best: dict[tuple[str, str], Rent] = {}
    every = [
        offer
        for offer in catalog.offers(additions=additions)
        if offer.accelerator == request.accelerator and not offer.history and offer.count >= 1
        if _passes_filters(request, offer)
    ]
    for offer in [one for one in every if one.trust == "primary" and one.kind != "serverless worker"] or every:
        for price in offer.prices:
            if request.terms and price.term not in request.terms:
                continue
            found = _rent(offer, price.term, usd=price.usd_per_hour / offer.count, today=today)
            key = (offer.provider, price.term)
            if key not in best or found.usd_per_accelerator_hour < best[key].usd_per_accelerator_hour:
                best[key] = found
    return tuple(best.values())


def meeting_point(machine: OwnedMachine, rent: Rent, *, utilisation: float, decline: float = 0.0) -> Meeting:
    """
    Where owning a machine and renting the same work meet.

    Work is what the machine gets done: hours of its life x utilisation x availability. Rented by the hour it costs
    that many hours over the share that is useful; prepaid terms cost every hour of the life.
    """
    idle, full = (owned_usd(machine, utilisation=share).value for share in (0.0, 1.0))
    hours = machine.accelerators * HOURS_PER_YEAR * machine.years
    mean_price = rent.usd_per_accelerator_hour * mean_price_factor(decline_per_year=decline, years=machine.years)
    whole_life = mean_price * hours
    owned = owned_usd(machine, utilisation=utilisation)
    if rent.paid == "always":
        rented = whole_life
        # A prepaid price does not depend on use, and owning hardly: the comparison is the same at any use.
        break_even = 0.0 if whole_life >= full else None
    else:
        by_use = whole_life * availability(machine) / rent.useful
        rented = by_use * utilisation
        break_even = break_even_utilisation(fixed_usd=idle, full_use_usd=full - idle, rent_usd=by_use)
    pays = payback_years(
        upfront_usd=sum(owned.part(name) for name in UPFRONT),
        running_usd_per_year=sum(owned.part(name) for name in YEARLY) / machine.years,
        interest_usd_per_year=machine.purchase * machine.interest,
        rent_usd_per_year=rented / machine.years,
        years=machine.years,
    )
    return Meeting(rent_usd=rented, owned_usd=owned.value, break_even=break_even, payback_years=pays)


def price_rents(
    rents: Iterable[Rent], machine: OwnedMachine, *, request: RentOrBuyRequest, band: Iterable[OwnedMachine]
) -> tuple[Rent, ...]:
    """Each rent with its meeting point and the interval it has over the band of machines, cheapest price first."""
    swings = tuple(band)
    done = []
    for rent in sorted(rents, key=lambda rent: (rent.usd_per_accelerator_hour / rent.useful, rent.provider)):
        at = meeting_point(machine, rent, utilisation=request.utilisation, decline=request.rent_decline)
        low, high = _interval(rent, at.break_even, swings, request)
        hours = HOURS_PER_YEAR * machine.years * availability(machine)
        done.append(
            replace(
                rent,
                lifetime_usd=at.rent_usd,
                break_even_utilisation=at.break_even,
                break_even_low=low,
                break_even_high=high,
                break_even_hours=at.break_even * hours if at.break_even is not None and rent.paid == "used" else None,
                payback_months=at.payback_years * 12.0 if at.payback_years is not None else None,
                owning_wins=at.owned_usd <= at.rent_usd,
            )
        )
    return tuple(done)


def _interval(
    rent: Rent, middle: float | None, band: tuple[OwnedMachine, ...], request: RentOrBuyRequest
) -> tuple[float | None, float | None]:
    """
    The interval of the break-even as shares of hours [-]; open above where one of the machines never breaks even, and
    absent for prepaid prices and a rent that owning never meets.
    """
    if middle is None or rent.paid == "always":
        return None, None
    ends = [
        meeting_point(machine, rent, utilisation=request.utilisation, decline=request.rent_decline).break_even
        for machine in band
    ]
    low, high = one_at_a_time(middle, (end for end in ends if end is not None))
    return low, None if None in ends else high


def one_at_a_time(middle: float, ends: Iterable[float]) -> tuple[float, float]:
    """An interval from what each input alone makes of a number: deviations to either side, added in squares."""
    moved = [end - middle for end in ends]
    below, above = (sum(max(0.0, sign * change) ** 2 for change in moved) ** 0.5 for sign in (-1.0, 1.0))
    return max(0.0, middle - below), middle + above


def relaxations(request: RentOrBuyRequest, *, additions: Additions, today: date) -> tuple[str, ...]:
    """When no price is left: what dropping one constraint at a time would bring back."""
    wider = {
        "without --provider": replace(request, providers=()),
        "without --rent-country": replace(request, countries=()),
        "without --eu": replace(request, eu=None),
        "without --term": replace(request, terms=()),
        "with --community": replace(request, community=True),
    }
    found = []
    for change, wide in wider.items():
        prices = [r.usd_per_accelerator_hour for r in listed_rents(wide, additions=additions, today=today)]
        if prices:
            found.append(f"{change} {len(prices)} prices are left, from ${min(prices):,.2f}/h")
    return tuple(found)


def _passes_filters(request: RentOrBuyRequest, offer: Offer) -> bool:
    provider = catalog.providers().get(offer.provider)
    strangers = provider is not None and is_community(provider)
    return (
        (not request.providers or offer.provider in request.providers)
        and (request.community or bool(request.providers) or not strangers)
        and (not request.countries or offer.country in request.countries)
        and (request.eu is None or offer.eu is request.eu)
    )


def _rent(offer: Offer, term: str, *, usd: float, today: date) -> Rent:
    """A price of one accelerator by an offer's term; spot has the share of its hours that is useful."""
    provider = catalog.providers().get(offer.provider)
    useful, note = _useful(offer) if term == "spot" else (1.0, "")
    return Rent(
        provider=offer.provider,
        term=term,
        usd_per_accelerator_hour=usd,
        paid="always" if term in PREPAID else "used",
        instance_type=offer.instance_type,
        region=offer.region,
        kind=provider.kind if provider is not None else "",
        as_of=offer.as_of,
        stale=is_stale(offer.as_of, today=today),
        useful=useful,
        note=note,
    )


def _useful(offer: Offer) -> tuple[float, str]:
    """
    Share of spot hours that do useful work, and its source: each reclaim costs a restart and half a checkpoint's
    interval.
    """
    between, source = between_reclaims_s(offer)
    lost = run_fact("detect_and_restart").value + run_fact("start_up").value
    # Work saved every quarter of an hour, as long-running jobs on spot do at most.
    return useful_share(between_s=between, lost_s=lost + 450.0), source


def between_reclaims_s(offer: Offer) -> tuple[float, str]:
    """How long spot capacity of this offer stays, and who says so: the provider's own record, else old traces. [s]"""
    for record in catalog.spot_records():
        if (record.provider, record.instance_type, record.region) == (
            offer.provider,
            offer.instance_type,
            offer.region,
        ):
            own = mean_between_reclaims_s(monthly_fraction=record.interruption_fraction_max)
            if own is not None:
                return own, f"interrupted {record.interruption_band} a month ({record.source}, {record.as_of})"
    up = spot_uptime(instances=1)
    return up.mean_up_s, f"stays {up.mean_up_s / 3600:.1f} h on average: {up.source}"
