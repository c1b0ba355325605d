"""A batch plan: the cheapest ways to finish a number of items, by a deadline, and what more speed costs.

`tonnage plan batch` returns one; its JSON is of the same schema as other plans, `kind` is "batch".
"""

from __future__ import annotations

from collections.abc import Sequence

from tonnage.domain.answer import Quantity
from tonnage.domain.plan import Configuration, RankedOption, RankedPlan
from tonnage.domain.requests.serve import Batch
from tonnage.record import SparseRecord


class BatchOption(RankedOption[Configuration], kw_only=True):
    """One configuration until all items are done; its cost opens into work, start, lost work and rounding of hours."""

    replicas: int
    items_per_s: Quantity
    """Of one replica, always full. [1/s]"""
    concurrency: float
    """Requests in flight on one replica."""
    binds: str
    """What keeps it from holding more: kv, batch."""
    kv_tokens: float
    wall_s: Quantity
    """From the order to the last answer: start, work, interruptions. [s]"""
    start_s: float
    """Until the first token. [s]"""
    billed_hours: float
    """Of each instance. [h]"""
    usd_per_thousand_items: float
    usd_per_million_output_tokens: float
    usd_per_million_tokens: float
    """Prompts and answers alike. [USD/1M tokens]"""
    useful: float = 1.0
    """Share of rented time that does useful work. [-]"""
    available: float = 1.0
    """Share of time in which the capacity is there. [-]"""
    kwh: float | None = None
    """Of the whole job. [kWh]"""
    kg_co2: float | None = None
    sources: tuple[str, ...] = ()


class TradeOff(SparseRecord, kw_only=True):
    """One point of cost against time that no other beats in both."""

    label: str
    accelerators: int
    term: str
    wall_s: float
    usd: float
    times_the_price: float
    """Over the cheapest point. [-]"""
    times_faster: float
    """Than the cheapest point. [-]"""


class BatchPlan(RankedPlan[Batch, BatchOption], kw_only=True, tag_field="kind", tag="batch"):
    """The answer to a batch request."""

    frontier: tuple[TradeOff, ...] = ()
    """Cheapest first, each faster than the one before."""
    card_for_card: tuple[str, ...] = ()
    """Each more expensive kind of accelerator against the cheapest by the hour: times the price, times the speed."""
    spot_against: str = ""
    """What interruptible capacity saves, and what it risks."""


def cheapest_on(term: str, options: Sequence[BatchOption]) -> BatchOption | None:
    """The cheapest option on a term; None where none is on it."""
    return min((one for one in options if one.bill.term == term), key=lambda one: one.cost.value, default=None)
