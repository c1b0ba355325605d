"""What a number of replicas costs on one offer: instances x listed price, line by line.

Replicas that fit side by side share an instance; a replica larger than an instance takes several.
Nothing is rounded: the bill is the sum of its lines, a month is 730 hours. How many hours a run is
charged for is the business of `tonnage.pricing.terms`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date
from typing import NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from tonnage.domain.answer import Basis, Quantity, Verdict
from tonnage.domain.money import Contract, Offer, is_stale
from tonnage.domain.plan import Bill
from tonnage.domain.refusal import refusal
from tonnage.units import percent

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


def hourly_usd(offer: Offer, *, instances: int, term: str) -> tuple[float, float] | None:
    """
    What so many instances cost in an hour, on average over a contract, and the figure to compare offers by. [USD/h]

    The second is the first unless the term is a commitment, which is compared at the on-demand price of today that
    costs as much over it. None where the term has no price, or where a ramp has not brought all instances yet and the
    rest cannot be rented on demand.
    """
    price = offer.usd_per_hour(term)
    if price is None:
        return None
    usd = instances * price
    if offer.contract is not None:
        charged = contract_hours(offer.contract, used=instances * offer.count)
        bridge = offer.contract.bridge_usd_per_hour
        if charged.lacking and bridge is None:
            return None
        usd = charged.paid * price / offer.count + charged.lacking * (bridge or 0.0)
    held = offer.commitment(term)
    return usd, usd * (held.times_compared if held is not None else 1.0)


class Charged(NamedTuple):
    """Accelerators that a contract charges in an hour, on average over its months."""

    used: float
    paid: float
    """Those used, or the committed share where that is more."""
    lacking: float
    """Needed beyond what a ramp has brought."""


def contract_hours(contract: Contract, *, used: float) -> Charged:
    """
    What a contract charges where so many accelerators are used in every hour.

    In each month the larger of what is used and of the share s of what is committed: max(min(N, m), s m); of a minimum
    M without a ramp max(N, s M).

    Examples
    --------
    >>> contract_hours(Contract(name="", hours=730, minimum=64, take_or_pay=0.75), used=32)
    Charged(used=32.0, paid=48.0, lacking=0.0)
    >>> contract_hours(Contract(name="", hours=1460, ramp=((1, 8), (2, 32))), used=16)
    Charged(used=12.0, paid=20.0, lacking=4.0)
    """
    if not contract.ramp:
        return Charged(float(used), max(used, contract.take_or_pay * contract.minimum), 0.0)
    there = months_of(contract)
    months = len(there)
    taken = [min(used, most) for most in there]
    paid = [max(mine, contract.take_or_pay * most) for mine, most in zip(taken, there, strict=True)]
    mean = sum(taken) / months
    return Charged(mean, sum(paid) / months, used - mean)


def months_of(contract: Contract) -> list[int]:
    """Accelerators that a ramp has brought in each month of the contract."""
    months = max(1, math.ceil(contract.hours / HOURS_PER_MONTH - 1e-9))
    return [max((count for at, count in contract.ramp if at <= month), default=0) for month in range(1, months + 1)]


def bill(offer: Offer, *, replicas: int, ranks: int, term: str, today: date) -> Bill | Verdict:
    """
    The hourly bill of running `replicas` of `ranks` accelerators each on this offer; spares are the caller's.

    A verdict says why there is none: the term has no price, the stock is too small, or a ramp lacks instances that
    cannot be rented on demand.
    """
    price = offer.usd_per_hour(term)
    name = f"{offer.provider} {offer.instance_type} {offer.region}".strip()
    if price is None:
        terms = ", ".join(listed.term for listed in offer.prices) or "no price"
        return refusal("term", f"{name} lists no {term} price", nearest=terms)
    instances = instances_needed(replicas=replicas, ranks=ranks, per_instance=offer.count)
    if offer.stock is not None and instances * offer.count > offer.stock:
        need = int(instances * offer.count)
        return refusal("count", f"needs {need} of {name}, and {offer.stock} are there")
    if hourly_usd(offer, instances=instances, term=term) is None:
        reason = f"{name} has not all {int(instances * offer.count)} from the start, and no price on demand is known"
        return refusal("count", reason, nearest=f"--price '{offer.accelerator}=$2.50/h'")
    priced = Quantity(
        value=price,
        basis=Basis.MEASURED if offer.as_of_kind == "exact" else Basis.ASSUMED,
        source=f"{offer.source}, {offer.as_of}",
    )
    made = Bill(
        provider=offer.provider,
        instance_type=offer.instance_type,
        region=offer.region,
        country=offer.country,
        term=term,
        instances=instances,
        accelerators_per_instance=offer.count,
        usd_per_instance_hour=price,
        lines=(priced,),
        as_of=offer.as_of,
        as_of_kind=offer.as_of_kind,
        stale=offer.as_of != "today" and is_stale(offer.as_of, today=today),
        notes=offer.notes,
        trust=offer.trust_of(term),
        kind=offer.kind,
        stock=offer.stock,
        commitment=offer.commitment(term),
        contract=offer.contract,
    )
    return with_instances(made, instances)


def contract_lines(contract: Contract, line: Quantity, *, used: float, each: float) -> tuple[Quantity, ...]:
    """
    The hourly lines of a contract, on average over its months.

    Parameters
    ----------
    line : Quantity
        All instances at the contract's price.
    used : float
        Accelerators of them.
    each : float
        The contract's price of one. [USD/h]
    """
    charged = contract_hours(contract, used=used)
    found = [replace(line, value=charged.used * each)]
    unused = charged.paid - charged.used
    if unused > 0:
        said = f"{percent(contract.take_or_pay)} of what is committed is paid, used or not"
        found.append(Quantity(name=f"{unused:,.3g} paid unused", value=unused * each, basis=line.basis, source=said))
    if charged.lacking > 0:
        said = f"on average over the ramp, at {contract.bridge}, ${contract.bridge_usd_per_hour or 0.0:,.2f}/h each"
        bridge = charged.lacking * (contract.bridge_usd_per_hour or 0.0)
        name = f"{charged.lacking:,.3g} on demand until then"
        found.append(Quantity(name=name, value=bridge, basis=Basis.ASSUMED, source=said))
    return tuple(found)


def with_instances(made: Bill, instances: int) -> Bill:
    """
    The same bill for another number of instances: these, what a contract charges unused, and what is rented until a
    ramp is there.
    """
    line = replace(
        made.lines[0], name=f"{instances} x {made.instance_type}", value=instances * made.usd_per_instance_hour
    )
    lines: tuple[Quantity, ...] = (line,)
    if made.contract is not None:
        used = instances * made.accelerators_per_instance
        each = made.usd_per_instance_hour / made.accelerators_per_instance
        lines = contract_lines(made.contract, line, used=used, each=each)
    return replace(made, instances=instances, lines=lines)


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
    return with_instances(made, instances).usd_per_hour


def with_spares(made: Bill, *, spares: int) -> Bill:
    """The same bill with so many instances (not replicas) that stand by, each at the full price."""
    if not spares:
        return made
    line = Quantity(
        name=f"{spares} x {made.instance_type} spare",
        value=spares * made.usd_per_instance_hour,
        basis=Basis.ASSUMED,
        source="kept for failures",
    )
    return replace(made, instances=made.instances + spares, lines=(*made.lines, line))
