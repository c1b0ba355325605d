"""One configuration of one workload at one kind of site: what a replica carries, and where it may stand."""

from __future__ import annotations

import math

import msgspec

from tonnage.catalog.hardware import Slice
from tonnage.domain.answer import Quantity
from tonnage.domain.fleet_plan import FleetWorkload
from tonnage.domain.plan import Configuration
from tonnage.planning.fleet.stock import Stock
from tonnage.planning.predict.inference import Times
from tonnage.planning.replica import Replica
from tonnage.planning.sites import Site
from tonnage.simulation.capacity import Point

__all__ = ["Candidate", "cost_per_unit", "needless", "usable"]


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration of one workload's model at one kind of site."""

    workload: int
    site: Site
    configuration: Configuration
    memory: Quantity
    """Of the fullest accelerator of a replica. [bytes]"""
    rate_factor: float
    """The 90 % factor of what a replica carries. [-]"""
    replica: Replica | None = None
    """For the mean lengths of all requests; samples have none."""
    points: tuple[Point | None, ...]
    """Of each bucket alone, at capacity; absent = it cannot."""
    rates: tuple[float, ...]
    """To plan with. [1/s]"""
    simulated: bool = False
    piece: Slice | None = None
    """The slice of an accelerator that it runs on, if not on whole ones."""
    batches: tuple[Times, ...] = ()
    """Of samples: the batches its server may collect, the last the largest."""

    @property
    def share(self) -> float:
        """Accelerators that a replica takes: of a sliced one, its part. [-]"""
        return float(self.ranks) if self.piece is None else 1.0 / self.piece.most

    @property
    def ranks(self) -> int:
        """Accelerators of a replica."""
        return self.configuration.layout.ranks

    @property
    def name(self) -> str:
        """What its speed depends on."""
        return f"{self.workload} {self.configuration.label()} {self.site.intra_link or ''}"

    def mix_per_s(self, workload: FleetWorkload) -> float:
        """Requests of all buckets it can carry, in their proportions, per second. [1/s]"""
        able = [(b.share, rate) for b, rate in zip(workload.buckets, self.rates, strict=True) if rate > 0]
        return sum(share for share, _ in able) / sum(share / rate for share, rate in able) if able else 0.0


def usable(chance: Candidate, held: Stock) -> bool:
    """Whether replicas of a chance fit on machines of a kind."""
    count = held.offer.count
    whole = count >= chance.ranks or (count == chance.site.per_node and chance.ranks % count == 0)
    return held.site is chance.site and chance.workload in held.users and whole


def cost_per_unit(chance: Candidate, held: Stock, *, bucket: int) -> float:
    """The least that a request of a bucket costs there at full load; the rest of the machine is used. [USD]"""
    rate = chance.rates[bucket]
    prices = [price for term in held.terms if (price := held.offer.usd_per_hour(term)) is not None]
    if rate <= 0 or not prices:
        return math.inf
    return min(prices) / held.offer.count * chance.share / (rate * 3600.0)


def needless(one: Stock, machines: list[Stock], *, found: list[Candidate]) -> bool:
    """Whether a smaller instance of the same kind holds the same replicas at no higher price of each accelerator."""
    if one.own or one.host_only:
        return False
    mine = {chance.name for chance in found if usable(chance, one)}
    return not mine or any(
        other.site is one.site
        and not other.own
        and other.offer.count < one.offer.count
        and other.users >= one.users
        and mine <= {chance.name for chance in found if usable(chance, other)}
        and all(_each(other, term) <= _each(one, term) * (1.0 + 1e-3) for term in one.terms)
        for other in machines
    )


def _each(held: Stock, term: str) -> float:
    """Price of one accelerator; infinite where the term is not offered. [USD/h]"""
    price = held.offer.usd_per_hour(term)
    return math.inf if price is None else price / held.offer.count
