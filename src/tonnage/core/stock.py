"""
What do owned accelerators draw and cost, what would a site's power feed, and what are they as a place for any plan?

`--own "8 x A100 80GB, 4 x L40S"` leaves nothing to rent. A kind becomes one site. Its machines can be used in part, so
that each usual size is offered at its share of what a full machine's power costs; of one part there are never more than
are owned (`Offer.stock`). How machines of one's own are joined is not known: parts with a fast link among them are
taken to have an adapter each, as rented ones have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.host import USUAL_LOAD, LoadShare, machine_draw, machine_power
from tonnage.core.machine import read_owned
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.money import Offer, Price
from tonnage.domain.requests.common import Filters
from tonnage.errors import BadRequest, Unmeasured
from tonnage.pricing.bills import HOURS_PER_MONTH
from tonnage.pricing.energy import energy_kwh
from tonnage.pricing.owning import HOURS_PER_YEAR
from tonnage.record import Record
from tonnage.units import percent

AT_HOME: Final = frozenset({"consumer", "apple", "edge"})
"""Segments without a cooled room around them."""


class GroupPower(Record, kw_only=True):
    """Of a group at work."""

    machine_watts: float
    """What its machines are rated for. [W]"""
    watts: float
    """On average under its load, cooling included. [W]"""
    board_watts: float
    """Of that, the boards alone. [W]"""
    usd_per_month: float
    source: str


def tariff(stated: float | None = None) -> float:
    """What power costs: as stated, or the planning value for the United States. [USD/kWh]"""
    return stated or catalog.parameter("electricity_default", "US").value


def power_of(
    part: Accelerator, *, count: int, usd_per_kwh: float, load: LoadShare = USUAL_LOAD, busy: float = 1.0
) -> GroupPower | None:
    """
    What so many accelerators draw with their hosts and cooling; None where the part's power is not published.

    Parameters
    ----------
    load : LoadShare, optional
        Of the boards while they work; absent = nobody has said at what.
    busy : float, optional
        Share of time at work. [-]
    """
    try:
        machine = machine_power(part, count=count)
    except Unmeasured:
        return None
    drawn = machine_draw(machine, load=load, busy=busy)
    watts = drawn.watts * pue_of(part)
    month = energy_kwh(power_w=watts, hours=HOURS_PER_MONTH) * usd_per_kwh
    return GroupPower(
        machine_watts=machine.watts,
        watts=watts,
        board_watts=drawn.board_watts,
        usd_per_month=month,
        source=machine.source,
    )


def pue_of(part: Accelerator) -> float:
    """Power of the building over that of the machines in it. [-]"""
    return catalog.parameter("pue", "office_workstation" if part.segment in AT_HOME else "modern_ai_dc").value


SIZES: Final = (8, 4, 2, 1)
"""Accelerators of usual machines, and of the parts of one that a replica takes."""


USEFUL_LIFE: Final = ("depreciation", "useful_life_years")


class OwnedOffers(NamedTuple):
    """One part, the size of its machines, and what a share of one costs."""

    part: Accelerator
    per_node: int
    offers: tuple[Offer, ...]


def machine_size(count: int, most: int) -> int:
    """The largest usual machine that so many fill; what is left over sits in smaller ones."""
    return next(size for size in SIZES if size <= count and size <= max(1, most))


def owned_counts(filters: Filters, *, additions: Additions = catalog.NOTHING) -> dict[str, int]:
    """How many of each part are there, by its name in the catalogue."""
    return {part.id: count for part, count in _parts(filters, additions)}


def owned_offers(
    filters: Filters, prices: Mapping[str, float], *, provider: str, additions: Additions
) -> tuple[OwnedOffers, ...]:
    """
    What is there, by kind; `prices` are the user's own [USD/h], and `provider` the name that offers get.

    Raises
    ------
    TonnageError
        A name is unknown, or a part's power is not published and no price is given.
    """
    return tuple(
        _offered(filters, part, count=count, price=prices.get(part.id), provider=provider)
        for part, count in _parts(filters, additions)
    )


def unpriced_offers(filters: Filters, part: Accelerator, *, provider: str) -> tuple[Offer, ...]:
    """
    A part that nobody in the book rents, at what it costs whoever has it: power at work, and its price over its life.

    So that parts announced, sold and not rented can be sized and compared by power and purchase. No rent: the bill
    says that its price is unknown, and stands after all that have one. Empty where nothing is known of its power.
    """
    drawn, like = _with_power(part)
    power = power_of(drawn, count=1, usd_per_kwh=tariff())
    if power is None:
        return ()
    bought, years = part.street_price_usd or part.launch_price_usd, catalog.parameter(*USEFUL_LIFE).value
    each = power.usd_per_month / HOURS_PER_MONTH + (bought or 0.0) / (years * HOURS_PER_YEAR)
    basis = f"its power ({power.watts / 1e3:.2g} kW each, at {percent(USUAL_LOAD.value)} of its limit{like})"
    basis += f" and its purchase (${bought:,.0f} each over {years:g} years)" if bought else ""
    sizes = (held for held in SIZES if held <= (part.max_per_node or 1))
    return tuple(
        replace(
            _sized(filters, part, held=held, each=each, source=basis, provider=provider), trust="unknown", notes=basis
        )
        for held in sizes
    )


def _with_power(part: Accelerator) -> tuple[Accelerator, str]:
    """
    The part with a power limit, and the words that say whose that is where its own is not published.

    It is then the largest of its maker's released parts for the same use; where none is known there is none.
    """
    if part.power_w is not None:
        return part, ""
    sold = (
        other
        for other in catalog.accelerators().values()
        if other.vendor == part.vendor and other.segment == part.segment and other.status == "released"
    )
    most = max((other for other in sold if other.power_w), key=lambda other: other.power_w or 0.0, default=None)
    return (part, "") if most is None else (replace(part, power_w=most.power_w), f", as {most.name} draws")


def _parts(filters: Filters, additions: Additions) -> list[tuple[Accelerator, int]]:
    """Owned parts with their counts, each once, however often the request lists it."""
    found: dict[str, tuple[Accelerator, int]] = {}
    for text in filters.owned:
        for group in read_owned(text, additions=additions):
            if group.part is None:
                raise BadRequest("own: name the processor, such as 'Ryzen 9 9950X'; 'CPU' alone is none")
            before = found.get(group.part.id)
            if before is not None and before[0].memory_bytes != group.part.memory_bytes:
                raise BadRequest(
                    f"own: {group.part.name} is listed with two sizes of memory; a plan counts one, ask for each apart"
                )
            found[group.part.id] = (group.part, group.count + (before[1] if before else 0))
    return list(found.values())


def _offered(filters: Filters, part: Accelerator, *, count: int, price: float | None, provider: str) -> OwnedOffers:
    """Machines of owned parts and their shares, at the user's price of one accelerator [USD/h], else at their power."""
    size = machine_size(count, part.max_per_node or 1)
    each, source = (price, "your price") if price is not None else _power_usd_per_hour(part, count=count)
    offers = tuple(
        replace(_sized(filters, part, held=held, each=each, source=source, provider=provider), stock=count)
        for held in SIZES
        if held <= size
    )
    return OwnedOffers(part, size, offers)


def _sized(filters: Filters, part: Accelerator, *, held: int, each: float, source: str, provider: str) -> Offer:
    """A machine, or the share of one, that holds so many; `each` accelerator costs so much. [USD/h]"""
    return Offer(
        provider=provider,
        instance_type=f"{held} x {part.name}" if held > 1 else part.name,
        accelerator=part.id,
        count=float(held),
        prices=tuple(Price(term=term, usd_per_hour=each * held) for term in filters.terms[:1]),
        as_of="today",
        as_of_kind="exact",
        source=source,
        licence="own",
    )


def _power_usd_per_hour(part: Accelerator, *, count: int) -> tuple[float, str]:
    """What an hour of one accelerator at work costs in power, with its share of the machine and of cooling. [USD/h]"""
    power = power_of(part, count=count, usd_per_kwh=tariff())
    if power is None:
        raise BadRequest(
            f"own: what {part.name} draws is not published; say what an hour costs you: --price '{part.id}=$0.10/h'"
        )
    return (
        power.usd_per_month / HOURS_PER_MONTH / count,
        f"power of accelerators at {percent(USUAL_LOAD.value)} of their limit: {power.source}",
    )
