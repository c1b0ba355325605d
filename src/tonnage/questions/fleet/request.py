"""The question of `tonnage plan fleet`: several workloads, and what may be had for them."""

from __future__ import annotations

from typing import Annotated, Final, Literal

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
from tonnage.domain.requests.infer import Infer
from tonnage.domain.requests.serve import Serve
from tonnage.domain.requests.train import FineTune, Train
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
        """A few words that name it: "16 h100-sxm5-80gb on-demand"."""
        named = [*filter(None, (self.accelerator, self.provider, self.region, self.term))]
        return f"{self.most} x {' '.join(named)}" if named else f"{self.most} accelerators in all"


class FleetRequest(SparseRecord, kw_only=True):
    """Several workloads, and what may be had for them. Filters hold for all of them; a workload may narrow them."""

    workloads: Annotated[
        tuple[FleetWorkload, ...],
        Group(
            name="workloads",
            many=True,
            help="one entry a workload, with the fields of serving; also kind: batch with items, kind: infer with a "
            "rate of samples or video streams, kind: train or finetune with every_run, or kind: cpu with cpu_time",
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
        objective_field("most to spend, on average over the hours", "USD/h", name="budget", bare=True, high=1e7),
    ] = None
    confidence: Confidence = 0.8
    """Of every workload that does not state its own."""
    max_kinds: Annotated[int | None, accelerator_field("most kinds of accelerator in the fleet", high=64)] = None
    """Hosts without accelerators do not count."""
    quick: Annotated[bool, search_field("by averages alone: nothing is simulated, other fleets are not looked for")] = (
        False
    )
    """By the mean-field approximation alone: nothing is simulated, other fleets are not looked for."""
