"""What owned accelerators serve best, share and lack, and what they draw.

`tonnage plan own` returns an `OwnPlan`.
"""

from __future__ import annotations

from tonnage.domain.answer import Quantity
from tonnage.domain.plan import PlanHeader
from tonnage.questions.fleet.answer import FleetPlan
from tonnage.questions.own.request import Own
from tonnage.record import SparseRecord


class OwnRow(SparseRecord, kw_only=True):
    """One model on a group: the format and layout with the most output at the wanted speed."""

    model: str
    engine: str
    weights: str
    layout: str
    replicas: int
    concurrency: float
    """Requests in flight on the whole group at that output."""
    output_tokens_per_s: Quantity
    """Of the whole group. [tokens/s]"""
    per_request: float
    """Output of one request there. [tokens/s]"""
    quality: float | None = None
    """Published score of the released weights; absent = none in the catalogue."""
    moved_bytes: float = 0.0
    """Weights in host memory. [bytes]"""
    command: str = ""
    prompt_share: float = 0.0
    """Of the time at work, what prompts take. [-]"""
    tokens_per_joule: float | None = None
    """Output over `power_w`. [tokens/J]"""
    power_w: float | None = None
    """Of the whole group at that output, hosts and cooling included; absent = the part's power is not published. [W]"""
    board_w: float | None = None
    """Of that, one accelerator alone. [W]"""


class OwnedAnswer(SparseRecord, kw_only=True):
    """One group: what it serves best, what it draws and costs."""

    name: str
    accelerator: str
    count: int
    memory_bytes: float
    """Of all. [bytes]"""
    rows: tuple[OwnRow, ...] = ()
    """By published score, then by size."""
    none_because: str = ""
    """Why there are no rows."""
    power_w: float | None = None
    """
    Of its first row, hosts and cooling included; without a row as accelerators usually draw at work; absent = the
    part's power is not published. [W]
    """
    usd_per_month: float | None = None
    """Electricity, working all the time. [USD/month]"""
    rented_usd_per_month: float | None = None
    """What the cheapest offers of primary sources ask for as many; absent = nobody rents it. [USD/month]"""
    nodes_per_rack: int | None = None
    """That one rack can feed; absent = its power is not stated. [machines]"""


class MixedRow(SparseRecord, kw_only=True):
    """One model over all groups, by layers."""

    model: str
    weights: str
    layers: tuple[int, ...]
    """Of each device, in the order of `devices`; what is left lies in host memory."""
    devices: tuple[str, ...]
    host_layers: int
    decode_per_s: Quantity
    """One request, filled from the fastest device on. [tokens/s]"""
    pipeline_per_s: float
    """Output with as many requests in flight as devices, layers dealt out by speed. [tokens/s]"""
    alone: str = ""
    """The group that holds it by itself; empty = none does."""
    quality: float | None = None
    command: str = ""


class PowerCap(SparseRecord, kw_only=True):
    """All accelerators held below their limit, within the site's envelope."""

    share: float
    """Of the board limit. [-]"""
    accelerators: int
    """Of this kind that the site feeds."""
    tokens_per_s: float
    tokens_per_s_per_mw: float


class SiteAnswer(SparseRecord, kw_only=True):
    """The site's envelope, for the group with the most output."""

    site_power_w: float
    owned_power_w: float
    """Of everything owned, at work, hosts and cooling included. [W]"""
    group: str
    model: str
    caps: tuple[PowerCap, ...] = ()


class Beside(SparseRecord, kw_only=True):
    """What is rented beside, and what buying it instead would take."""

    accelerator: str
    accelerators: float
    provider: str
    term: str
    usd_per_month: float
    purchase_usd: float | None = None
    """Of as many, machines included where their price is known; absent = not known. [USD]"""
    months: float | None = None
    """Of rent, less the power of owning, that pay for the purchase. [months]"""


class OwnPlan(PlanHeader[Own], kw_only=True, tag_field="kind", tag="own"):
    """The answer to an inventory."""

    groups: tuple[OwnedAnswer, ...] = ()
    benchmark: str = ""
    mixed: tuple[MixedRow, ...] = ()
    """Models over all groups at once; empty = not asked for, or one group."""
    shared: FleetPlan | None = None
    """All workloads on what is owned, and on what is rented beside it."""
    rented: tuple[Beside, ...] = ()
    """Empty = what is owned carries everything."""
    site: SiteAnswer | None = None
    electricity: Quantity | None = None
    """Of all groups, working all the time, a part for each; absent = a part's power is not published. [USD/month]"""

    @property
    def able(self) -> tuple[OwnedAnswer, ...]:
        """Groups on which some model runs."""
        return tuple(group for group in self.groups if group.rows)
