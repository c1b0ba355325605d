"""Several workloads on one mixed fleet: what is asked, which instances stand when, what they cost and what binds.

`tonnage plan fleet` returns a `FleetPlan`.
"""

from __future__ import annotations

import math

from tonnage.domain.accelerator import HostNeed
from tonnage.domain.answer import Quantity
from tonnage.domain.money import Commitment
from tonnage.domain.plan import Configuration, PlanHeader
from tonnage.domain.train_plan import TrainConfiguration
from tonnage.questions.fleet.request import Bucket, FleetQuota, FleetRequest, FleetWorkload, OwnMachine
from tonnage.record import SparseRecord

__all__ = ["Bucket", "FleetQuota", "FleetRequest", "FleetWorkload", "OwnMachine"]


class HourRange(SparseRecord, kw_only=True):
    """A count that holds over some hours of the day or the week."""

    start: int
    stop: int
    """Exclusive. [h]"""
    count: float


class PoolInstances(SparseRecord, kw_only=True):
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


class PoolReplicas(SparseRecord, kw_only=True):
    """Replicas of one workload in one configuration on the instances of one kind."""

    workload: str
    where: str
    firm: bool
    """On capacity that stays; otherwise on spot."""
    hours: tuple[HourRange, ...]
    capacity_per_s: tuple[float, ...] = ()
    """
    What one replica is planned with, for each bucket alone: its capacity, or what it carries with the confidence asked
    for where that, less the headroom, is less; 0 = it cannot. [1/s]
    """
    carries: tuple[float, ...] = ()
    """Share of each bucket's requests over the whole period. [-]"""
    configuration: Configuration | None = None
    """Absent for work that host cores do, and for training, whose arrangement `runs` of the plan has."""
    simulated: bool = False
    """Its capacity is simulated; otherwise the mean field's."""
    needs: tuple[HostNeed, ...] = ()
    """What one accelerator host must bring for them."""
    board_w: Quantity | None = None
    """
    Mean draw of one accelerator while its replica stands, at the mean rate that such a replica gets, its host not in
    it; absent for slices, for samples and training, and where its limit is not published. [W]
    """
    slice: str = ""
    """The profile, for replicas on slices of an accelerator: "1g.10gb"."""


class FleetRun(SparseRecord, kw_only=True):
    """One workload of training: how one of its runs is done, and how surely it ends in the hours that it has."""

    workload: str
    accelerators: int
    configuration: TrainConfiguration
    wall_s: Quantity
    """Of one run, pauses aside. [s]"""
    allowed_s: float
    """Hours that the fleet gives each run. [s]"""
    every_s: float
    """From the start of a run to that of the next. [s]"""
    chance: float
    """That memory fits and that a run needs no more than those hours. [-]"""
    passing: bool = False
    """On hourly instances of its own, had for just that time; else on what others leave."""


class FleetCheck(SparseRecord, kw_only=True):
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
    chance: float | None = None
    """That replicas carry that load within the objectives, by the error of what one carries; absent of samples. [-]"""
    lost: str = ""
    """What is gone in this check: a failure domain, or spare replicas."""


class FleetAlternative(SparseRecord, kw_only=True):
    """The cheapest fleet under one more condition."""

    name: str
    usd_per_month: float | None = None
    """Absent = no such fleet carries the load."""
    more: float | None = None
    """Over the plan's cost; absent = the plan costs nothing. [-]"""
    what: str = ""


class SurerFleet(SparseRecord, kw_only=True):
    """What more confidence in every workload's objectives costs."""

    more: float
    """Confidence over the one asked for. [-]"""
    usd_per_month: float | None = None
    """Of the cheapest fleet with it; absent = none has it."""
    sought: bool = True
    """Such a fleet was sought; otherwise told by the bounds of both problems."""


class FleetLimit(SparseRecord, kw_only=True):
    """A limit that is used up, and what less of it would save."""

    name: str
    relaxed: str
    """What was changed to find out."""
    saves_usd_per_month: float


class FleetPlan(PlanHeader[FleetRequest], kw_only=True, tag_field="kind", tag="fleet"):
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
    runs: tuple[FleetRun, ...] = ()
    alternatives: tuple[FleetAlternative, ...] = ()
    surer: SurerFleet | None = None
    """Absent of quick plans, and where no workload has a chance to raise."""
    binds: tuple[FleetLimit, ...] = ()

    def most_accelerators(self, pool: PoolInstances) -> float:
        """
        Accelerators that stand at once at most: instances are whole, and a run has all of its own. [accelerators]

        A count is a mean over each hour: four instances for a quarter of an hour count as one.
        """
        counts = [one.count for one in pool.hours]
        each, most = pool.accelerators_per_instance, math.ceil(max(counts) - 1e-9)
        if any(abs(count - round(count)) > 1e-6 for count in counts):
            runs = (r for r in self.runs if r.passing and r.configuration.accelerator == pool.accelerator)
            most = max(most, *(math.ceil(run.accelerators / each) for run in runs), 1)
        return most * each
