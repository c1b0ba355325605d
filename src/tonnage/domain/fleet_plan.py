"""Several workloads on one mixed fleet: what is asked, which instances stand when, what they cost and what binds.

`tonnage plan fleet` returns a `FleetPlan`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tonnage.domain.accelerator import HostNeed
from tonnage.domain.answer import Quantity
from tonnage.domain.infer_plan import Infer
from tonnage.domain.plan import Configuration, PlanHeader
from tonnage.domain.workload import Filters, Lengths, LoadShape, Serve

__all__ = [
    "Bucket",
    "FleetAlternative",
    "FleetCheck",
    "FleetLimit",
    "FleetPlan",
    "FleetQuota",
    "FleetRequest",
    "FleetWorkload",
    "HourRange",
    "OwnMachine",
    "PoolInstances",
    "PoolReplicas",
]


class Bucket(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Requests of like lengths."""

    share: float
    """Of all requests. [-]"""
    lengths: Lengths
    edges: tuple[float, float] | None = None
    """Prompt plus answer, from and below; absent = every request has the mean lengths. [tokens]"""


class FleetWorkload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of several loads: answers within objectives, a pile to be worked off, samples, or work for host cores."""

    name: str
    kind: Literal["serve", "batch", "infer", "cpu"] = "serve"
    serve: Serve | None = None
    """Model, objectives, formats and filters of a model that decodes text."""
    infer: Infer | None = None
    """infer: samples through a model that does not: frames, images, texts to embed, audio."""
    rate_per_s: float = 0.0
    """Mean arrivals. [1/s]"""
    shape: LoadShape = LoadShape()
    buckets: tuple[Bucket, ...] = ()
    items_per_day: float | None = None
    """batch: to be done every day."""
    window: tuple[int, int] | None = None
    """batch: hours of the day from and until which it may run; absent = any."""
    cpu_s: float | None = None
    """cpu: seconds of one virtual core that a request takes. [s]"""
    spot_share: float = 0.0
    """May run on capacity that is taken back. [-]"""
    survives: float = 0.0
    """Share of the load still carried when any one failure domain is lost. [-]"""
    spare_replicas: int = 0
    """Replicas, any so many of which may fail while the rest carry the load (N+k)."""
    slices: bool = False
    """Replicas may run on slices of an accelerator (MIG)."""

    @property
    def filters(self) -> Filters | None:
        """Constraints of its own; absent for work that host cores do."""
        asked = self.serve or self.infer
        return None if asked is None else asked.filters

    @property
    def headroom(self) -> float:
        """Share of capacity kept free. [-]"""
        asked = self.serve or self.infer
        return 0.0 if asked is None else asked.headroom


class OwnMachine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Accelerators that are there already: bought, or reserved before."""

    name: str
    accelerator: str
    count: int
    per_node: int
    usd_per_hour: float = 0.0
    """Of one node: electricity, or what the reservation costs. [USD/h]"""
    vcpus: float | None = None


class FleetQuota(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """At most so many accelerators of whatever the other fields name."""

    most: int
    accelerator: str | None = None
    provider: str | None = None
    region: str | None = None
    term: str | None = None

    def label(self) -> str:
        """A few words that name it: "16 h100-sxm5-80gb on-demand"."""
        named = [name for name in (self.accelerator, self.provider, self.region, self.term) if name]
        return f"{self.most} x {' '.join(named)}" if named else f"{self.most} accelerators in all"


class FleetRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Several workloads, and what may be had for them."""

    workloads: tuple[FleetWorkload, ...]
    filters: Filters = Filters(terms=("on-demand", "spot", "reserved-1y"))
    own: tuple[OwnMachine, ...] = ()
    quotas: tuple[FleetQuota, ...] = ()
    zones: int = 1
    """Failure domains of every region."""
    lost_zones: int = 1
    """Of them, how many may be lost at once."""
    budget_usd_per_h: float | None = None
    quick: bool = False
    """By the mean field alone: nothing is simulated, other fleets are not looked for."""


class HourRange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A count that holds over some hours of the day or the week."""

    start: int
    stop: int
    """Exclusive. [h]"""
    count: float


class PoolInstances(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Instances of one offer on one term."""

    accelerator: str
    provider: str
    instance_type: str
    region: str
    term: str
    accelerators_per_instance: float
    usd_per_instance_hour: float
    hours: tuple[HourRange, ...]
    instance_hours: float
    """Over the period of the plan. [h]"""
    starts: float
    """Times an instance is started over that period."""
    usd_per_month: float
    as_of: str = ""


class PoolReplicas(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Replicas of one workload in one configuration on the instances of one kind."""

    workload: str
    where: str
    firm: bool
    """On capacity that stays; otherwise on spot."""
    hours: tuple[HourRange, ...]
    capacity_per_s: tuple[float, ...] = ()
    """Of one replica, for each bucket alone; 0 = it cannot. [1/s]"""
    carries: tuple[float, ...] = ()
    """Share of each bucket's requests over the whole period. [-]"""
    configuration: Configuration | None = None
    """Absent for work that host cores do."""
    simulated: bool = False
    """Its capacity is simulated; otherwise the mean field's."""
    needs: tuple[HostNeed, ...] = ()
    """What one accelerator host must bring for them."""
    slice: str = ""
    """The profile, for replicas on slices of an accelerator: "1g.10gb"."""


class FleetCheck(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One workload in its hardest hour, simulated request by request on the fleet."""

    workload: str
    hour: int
    rate_per_s: float
    replicas: int
    requests: int
    """Simulated."""
    percentile: float
    meets: bool
    ttft_s: float | None = None
    """At the percentile. [s]"""
    tpot_s: float | None = None
    e2e_s: float | None = None
    raised: float = 1.0
    """Load that the fleet was sized for, over the one asked, so that this holds. [-]"""
    lost: str = ""
    """What is gone in this check: a failure domain, or spare replicas."""


class FleetAlternative(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cheapest fleet under one more condition."""

    name: str
    usd_per_month: float | None = None
    """Absent = no such fleet carries the load."""
    more: float | None = None
    """Over the plan's cost; absent = the plan costs nothing. [-]"""
    what: str = ""


class FleetLimit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A limit that is used up, and what less of it would save."""

    name: str
    relaxed: str
    """What was changed to find out."""
    saves_usd_per_month: float


class FleetPlan(PlanHeader[FleetRequest], frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="fleet"):
    """The answer to a fleet request."""

    period_h: float
    """Hours that repeat: a day or a week. [h]"""
    bill: Quantity | None = None
    """Per month, a part for each line. [USD]"""
    gap: float = 0.0
    """What may be left to gain by another choice of the same ways, over the cost. [-]"""
    instances: tuple[PoolInstances, ...] = ()
    replicas: tuple[PoolReplicas, ...] = ()
    checks: tuple[FleetCheck, ...] = ()
    alternatives: tuple[FleetAlternative, ...] = ()
    binds: tuple[FleetLimit, ...] = ()
