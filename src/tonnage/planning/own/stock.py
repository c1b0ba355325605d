"""
What is there already as a place for any plan: `--own "8 x A100 80GB, 4 x L40S"` leaves nothing to rent.

A kind becomes one site. Its machines can be used in part, so that each usual size is offered at its share of what a
full machine's power costs; of one part there are never more than are owned (`Offer.stock`). How machines of one's own
are joined is not known: parts with a fast link among them are taken to have an adapter each, as rented ones have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.money import Offer, Price
from tonnage.domain.requests.common import Filters
from tonnage.errors import BadRequest
from tonnage.planning.own.names import read_owned
from tonnage.planning.own.power import USUAL_TARIFF, power_of
from tonnage.pricing.bills import HOURS_PER_MONTH

__all__ = ["SIZES", "OwnedOffers", "machine_size", "owned_counts", "owned_offers"]

SIZES: Final = (8, 4, 2, 1)
"""Accelerators of usual machines, and of the parts of one that a replica takes."""


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
    filters: Filters, prices: Mapping[str, float], *, provider: str, additions: Additions = catalog.NOTHING
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


def _parts(filters: Filters, additions: Additions) -> list[tuple[Accelerator, int]]:
    found: dict[str, tuple[Accelerator, int]] = {}
    for text in filters.owned:
        for group in read_owned(text, additions=additions):
            if group.part is None:
                raise BadRequest("own: name the processor, such as 'Ryzen 9 9950X'; 'CPU' alone is none")
            before = found.get(group.part.id)
            found[group.part.id] = (group.part, group.count + (before[1] if before else 0))
    return list(found.values())


def _offered(filters: Filters, part: Accelerator, *, count: int, price: float | None, provider: str) -> OwnedOffers:
    size = machine_size(count, part.max_per_node or 1)
    each, source = (price, "your price") if price is not None else _power_usd_per_hour(part, count=count)
    offers = tuple(
        Offer(
            provider=provider,
            instance_type=f"{held} x {part.name}" if held > 1 else part.name,
            accelerator=part.id,
            count=float(held),
            prices=tuple(Price(term=term, usd_per_hour=each * held) for term in filters.terms[:1]),
            as_of="today",
            as_of_kind="exact",
            source=source,
            licence="own",
            stock=count,
        )
        for held in SIZES
        if held <= size
    )
    return OwnedOffers(part, size, offers)


def _power_usd_per_hour(part: Accelerator, *, count: int) -> tuple[float, str]:
    """What an hour of one accelerator at work costs in power, with its share of the machine and of cooling. [USD/h]"""
    power = power_of(part, count=count, usd_per_kwh=catalog.parameter(*USUAL_TARIFF).value)
    if power is None:
        raise BadRequest(
            f"own: what {part.name} draws is not published; say what an hour costs you: --price '{part.id}=$0.10/h'"
        )
    return power.usd_per_month / HOURS_PER_MONTH / count, f"power at work: {power.source}"
