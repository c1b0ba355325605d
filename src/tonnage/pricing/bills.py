"""What a number of replicas costs on one offer: instances x listed price, line by line.

Replicas that fit side by side share an instance; a replica larger than an instance takes several.
Nothing is rounded: the bill is the sum of its lines, a month is 730 hours. How many hours a run is
charged for is the business of `tonnage.pricing.terms`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date
from typing import Protocol, TypeVar

import msgspec

from tonnage.domain.answer import Basis, Part, Verdict
from tonnage.domain.money import Offer, is_stale
from tonnage.domain.plan import Bill

__all__ = [
    "HOURS_PER_MONTH",
    "bill",
    "by_trust_and_cost",
    "instances_needed",
    "primary_first",
    "usd_per_hour_of",
    "with_spares",
]

HOURS_PER_MONTH = 730.0
"""8,760 hours a year over 12 months, as clouds bill. [h]"""


def instances_needed(*, replicas: int, ranks: int, per_instance: float) -> int:
    """
    Instances that hold `replicas` copies of `ranks` accelerators each, `per_instance` to an instance.

    Examples
    --------
    >>> instances_needed(replicas=3, ranks=2, per_instance=8)
    1
    >>> instances_needed(replicas=3, ranks=16, per_instance=8)
    6
    """
    side_by_side = int(per_instance // ranks)
    if side_by_side >= 1:
        return math.ceil(replicas / side_by_side)
    return replicas * math.ceil(ranks / per_instance)


def bill(offer: Offer, *, replicas: int, ranks: int, term: str, today: date) -> Bill | Verdict:
    """The hourly bill of running `replicas` on this offer, or why it cannot be bought so."""
    price = offer.usd_per_hour(term)
    name = f"{offer.provider} {offer.instance_type} {offer.region}".strip()
    if price is None:
        terms = ", ".join(listed.term for listed in offer.prices) or "no price"
        return Verdict(ok=False, limit="term", reason=f"{name} lists no {term} price", nearest=terms)
    instances = instances_needed(replicas=replicas, ranks=ranks, per_instance=offer.count)
    if offer.stock is not None and instances * offer.count > offer.stock:
        need = int(instances * offer.count)
        return Verdict(ok=False, limit="count", reason=f"needs {need} of {name}, and {offer.stock} are there")
    line = Part(
        name=f"{instances} x {offer.instance_type}",
        value=instances * price,
        basis=Basis.MEASURED if offer.as_of_kind == "exact" else Basis.ASSUMED,
        source=f"{offer.source}, {offer.as_of}",
    )
    return Bill(
        provider=offer.provider,
        instance_type=offer.instance_type,
        region=offer.region,
        country=offer.country,
        term=term,
        instances=instances,
        accelerators_per_instance=offer.count,
        usd_per_instance_hour=price,
        lines=(line,),
        as_of=offer.as_of,
        as_of_kind=offer.as_of_kind,
        stale=offer.as_of != "today" and is_stale(offer.as_of, today=today),
        notes=offer.notes,
        trust=offer.trust_of(term),
        kind=offer.kind,
        stock=offer.stock,
    )


def by_trust_and_cost(made: Bill) -> tuple[bool, float]:
    """Order of bills and of what they pay for: prices of primary sources first, then the cheapest."""
    return made.trust != "primary", made.usd_per_hour


class Billed(Protocol):
    """An option of any kind of plan with the bill that it is ranked by, if it is rented."""

    @property
    def bill(self) -> Bill | None: ...
    @property
    def sure(self) -> bool: ...


Option = TypeVar("Option", bound=Billed)


def primary_first(options: Iterable[Option]) -> list[Option]:
    """
    Ranked options, those with the confidence asked for first, of them those at a price that its seller states.
    """
    return sorted(options, key=lambda o: (not o.sure, o.bill is not None and o.bill.trust != "primary"))


def usd_per_hour_of(made: Bill, *, replicas: int, ranks: int) -> float:
    """What another number of replicas costs on the offer of a bill. [USD/h]"""
    instances = instances_needed(replicas=replicas, ranks=ranks, per_instance=made.accelerators_per_instance)
    return instances * made.usd_per_instance_hour


def with_spares(made: Bill, *, spares: int) -> Bill:
    """The same bill with instances that stand by."""
    if not spares:
        return made
    line = Part(
        name=f"{spares} x {made.instance_type} spare",
        value=spares * made.usd_per_instance_hour,
        basis=Basis.ASSUMED,
        source="kept for failures",
    )
    return msgspec.structs.replace(made, instances=made.instances + spares, lines=(*made.lines, line))
