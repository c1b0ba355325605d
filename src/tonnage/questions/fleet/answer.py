"""
Several workloads on one mixed fleet: what is asked, which instances stand when, what they cost and what binds.

`tonnage plan fleet` returns a `FleetPlan`.
"""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal

from tonnage.catalog import part_name
from tonnage.domain.accelerator import HostNeed
from tonnage.domain.answer import Quantity
from tonnage.domain.infer_plan import Infer
from tonnage.domain.money import Commitment
from tonnage.domain.plan import Configuration, PlanHeader
from tonnage.domain.requests.common import TERMS, Confidence, Filters, Lengths, LoadShape
from tonnage.domain.requests.field import (
    MAY_BE_NOTHING,
    Field,
    Group,
    accelerator_field,
    objective_field,
    offer_field,
    reliability_field,
    search_field,
    training_field,
)
from tonnage.domain.requests.serve import Serve
from tonnage.domain.train_plan import FineTune, Train, TrainConfiguration
from tonnage.record import SparseRecord

MAX_BUCKETS: Final = 8
_USUAL_TERMS: Final = ("on-demand", "spot", "reserved-1y")
_ALONE: Final = frozenset({
    "concurrency", "zones", "budget", "quick", "max_accelerators", "term", "on_for", "off_for", "idle_timeout",
    "start_from", "cold_start", "own", "adapters", "adapter_rank", "adapter_skew", "adapter_targets",
})  # fmt: skip
"""Fields of a serving request that say nothing about one workload among others."""
SAMPLES: Final = frozenset({
    "streams", "fps", "every", "frame", "codec", "decode", "audio", "latency", "resolution", "seq_len", "steps",
    "frames", "beams",
})  # fmt: skip
"""Fields that mean something for networks that decode no text."""
RUNS: Final = frozenset({"train", "finetune"})
"""Kinds of workload that are runs of training."""
RUN_FIELDS: Final = frozenset({
    "tokens", "global_batch", "method", "objective", "reference", "examples", "epochs", "tokens_per_example", "packed",
    "lora_rank", "deadline", "optimizer", "framework", "checkpoint", "validation", "extend_context", "count", "spares",
})  # fmt: skip
"""Fields that mean something for those alone."""
_SLICES: Final = accelerator_field("replicas may run on slices of an accelerator (MIG)", "flag", name="slices")


class Bucket(SparseRecord, kw_only=True):
    """Requests of like lengths."""

    share: Annotated[float, Field("of the requests", "fraction", high=1.0)]
    """Of all requests. [-]"""
    lengths: Annotated[Lengths, Group(without=frozenset({"traffic"}))]
    edges: tuple[float, float] | None = None
    """Prompt plus answer, from and below; absent = every request has the mean lengths. [tokens]"""


class FleetWorkload(SparseRecord, kw_only=True):
    """One of several loads: answers within objectives, a pile to be worked off, samples, runs of training, or work for
    host cores."""

    name: Annotated[str, Field("what the answer calls it")]
    kind: Annotated[
        Literal["serve", "batch", "infer", "train", "finetune", "cpu"],
        Field(
            "serve: within objectives; batch: so many items a day; infer: samples through a network that decodes "
            "no text; train, finetune: runs of training, one every so often; cpu: work for host cores"
        ),
    ] = "serve"
    serve: Annotated[Serve | None, Group(without=_ALONE)] = None
    """Model, objectives, formats and filters of a model that decodes text."""
    infer: Annotated[Infer | None, Group(only=SAMPLES)] = None
    """infer: samples through a model that does not: frames, images, texts to embed, audio."""
    run: Annotated[FineTune | Train | None, Group(of=FineTune, only=RUN_FIELDS)] = None
    """train, finetune: one of the runs; its deadline is from start to end, pauses counted."""
    every_s: Annotated[
        float | None,
        training_field(
            "train, finetune: time from the start of a run to that of the next: 7 days; otherwise the deadline",
            "s",
            name="every_run",
            high=8760 * 3600.0,
        ),
    ] = None
    """train, finetune: from the start of a run to that of the next. [s]"""
    rate_per_s: float = 0.0
    """Mean arrivals. [1/s]"""
    shape: LoadShape = LoadShape()
    buckets: Annotated[
        tuple[Bucket, ...],
        Field("number of buckets of like lengths, or each of them", "integer", high=MAX_BUCKETS),
        Group(name="buckets", many=True),
    ] = ()
    items_per_day: Annotated[float | None, Field("batch: to be done every day", name="items", high=1e13)] = None
    """batch: to be done every day."""
    window: Annotated[tuple[int, int] | None, Field("deferred work: hours of the day it may run in, 22-6")] = None
    """batch: hours of the day from and until which it may run; absent = any."""
    cpu_s: Annotated[
        float | None, Field("cpu: time of one virtual core that a request takes", "s", name="cpu_time", high=1e5)
    ] = None
    """cpu: seconds of one virtual core that a request takes. [s]"""
    spot_share: Annotated[
        float, reliability_field("share that may run on spot capacity", "fraction", low=MAY_BE_NOTHING, high=1.0)
    ] = 0.0
    """May run on capacity that is taken back. [-]"""
    survives: Annotated[
        float,
        reliability_field(
            "share still carried when one failure domain is lost", "fraction", low=MAY_BE_NOTHING, high=1.0
        ),
    ] = 0.0
    """Share of the load still carried when any one failure domain is lost. [-]"""
    spare_replicas: int = 0
    """Replicas, any so many of which may fail while the rest carry the load (N+k)."""
    slices: Annotated[bool, _SLICES] = False
    """Replicas may run on slices of an accelerator (MIG)."""

    @property
    def filters(self) -> Filters | None:
        """Constraints of its own; absent for work that host cores do."""
        asked = self.serve or self.infer or self.run
        return None if asked is None else asked.filters

    @property
    def headroom(self) -> float:
        """Share of capacity kept free. [-]"""
        asked = self.serve or self.infer
        return 0.0 if asked is None else asked.headroom

    @property
    def confidence(self) -> float:
        """Least chance of its objectives; of work that host cores do, none is known. [-]"""
        asked = self.serve or self.infer or self.run
        return 0.5 if asked is None else asked.confidence


class OwnMachine(SparseRecord, kw_only=True):
    """Accelerators that are there already: bought, or reserved before."""

    name: Annotated[str, Field("what the answer calls it")]
    accelerator: Annotated[str, accelerator_field("kind of accelerator that is there", known="planned accelerators")]
    count: Annotated[int, accelerator_field("how many", high=1e6)]
    per_node: Annotated[int, accelerator_field("of one machine: 1, 2, 4, 8 or 16", high=16)]
    usd_per_hour: Annotated[
        float, offer_field("what one machine costs; 0 = it is paid for", "USD/h", low=MAY_BE_NOTHING, high=1e5)
    ] = 0.0
    """Of one node: electricity, or what the reservation costs. [USD/h]"""
    vcpus: Annotated[float | None, accelerator_field("virtual cores of one machine", high=1e5)] = None


class FleetQuota(SparseRecord, kw_only=True):
    """At most so many accelerators of whatever the other fields name."""

    most: Annotated[int, accelerator_field("accelerators at once; 0 = none", low=-1.0, high=1e7)]
    accelerator: Annotated[str | None, accelerator_field("only of this kind", known="accelerators")] = None
    provider: Annotated[str | None, offer_field("only at this provider", known="providers")] = None
    region: Annotated[str | None, offer_field("only in this region", known="regions")] = None
    term: Annotated[str | None, offer_field("only on this term", choices=TERMS)] = None

    def label(self) -> str:
        """A few words that name it: "16 x H100 SXM5 80 GB on-demand"."""
        part = part_name(self.accelerator) if self.accelerator else None
        named = [*filter(None, (part, self.provider, self.region, self.term))]
        return f"{self.most} x {' '.join(named)}" if named else f"{self.most} accelerators in all"


class FleetRequest(SparseRecord, kw_only=True):
    """Several workloads, and what may be had for them. Filters hold for all of them; a workload may narrow them."""

    workloads: Annotated[
        tuple[FleetWorkload, ...],
        Group(
            name="workloads",
            many=True,
            help="one entry a workload, with the fields of serving; a batch has items, infer a rate of samples or "
            "streams, train and finetune the time between runs, cpu that of a request",
        ),
        _SLICES,
    ]
    filters: Annotated[Filters, Group(usual={"term": _USUAL_TERMS}, without=frozenset({"own"}))] = Filters(
        terms=_USUAL_TERMS
    )
    own: Annotated[
        tuple[OwnMachine, ...],
        Group(name="own", many=True, help="machines that are there already: accelerator and count"),
    ] = ()
    quotas: Annotated[
        tuple[FleetQuota, ...],
        Group(name="quotas", many=True, help="most accelerators of a kind, provider, region or term: most, and whose"),
    ] = ()
    zones: Annotated[int, reliability_field("failure domains of a region, any one of which may be lost", high=16)] = 1
    """Failure domains of every region."""
    lost_zones: Annotated[int, reliability_field("zones that may be lost at once, if more than one", high=8)] = 1
    """Of them, how many may be lost at once."""
    budget_usd_per_h: Annotated[
        float | None,
        objective_field("most to spend, on average over the hours", "USD/h", name="budget", high=1e7),
    ] = None
    confidence: Confidence = 0.8
    """Of every workload that does not state its own."""
    max_kinds: Annotated[int | None, accelerator_field("most kinds of accelerator in the fleet", high=64)] = None
    """Hosts without accelerators do not count."""
    quick: Annotated[bool, search_field("by averages alone: nothing is simulated, other fleets are not looked for")] = (
        False
    )
    """By the mean-field approximation alone: nothing is simulated, other fleets are not looked for."""


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
    """Time that the fleet gives each run. [s]"""
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
    """A limit that is used up, and what loosening it would save."""

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
