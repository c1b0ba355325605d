"""Several workloads on one mixed fleet: what is asked, which instances stand when, what they cost and what binds.

`tonnage plan fleet` returns a `FleetPlan`.
"""

from __future__ import annotations

import msgspec

from tonnage.domain.accelerator import HostNeed
from tonnage.domain.answer import Quantity
from tonnage.domain.money import Commitment
from tonnage.domain.plan import Configuration, PlanHeader
from tonnage.domain.requests.fleet import Bucket, FleetQuota, FleetRequest, FleetWorkload, OwnMachine

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
    commitment: Commitment | None = None
    """Of one instance: the term weighed against on-demand prices that move; absent = nothing is committed."""


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
