"""The question of `tonnage plan fleet`: several workloads, and what may be had for them."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from tonnage.domain.requests.common import CONFIDENCE, TERMS, Filters, Lengths, LoadShape
from tonnage.domain.requests.field import Field, Group
from tonnage.domain.requests.infer import Infer
from tonnage.domain.requests.serve import Serve
from tonnage.domain.requests.train import FineTune, Train

__all__ = [
    "MAX_BUCKETS",
    "RUNS",
    "RUN_FIELDS",
    "SAMPLES",
    "Bucket",
    "FleetQuota",
    "FleetRequest",
    "FleetWorkload",
    "OwnMachine",
]

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
_SLICES: Final = Field(
    name="slices", reads="flag", group="Accelerators", help="replicas may run on slices of an accelerator (MIG)"
)


class Bucket(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Requests of like lengths."""

    share: Annotated[float, Field(reads="fraction", high=1.0, help="of the requests")]
    """Of all requests. [-]"""
    lengths: Annotated[Lengths, Group(without=frozenset({"traffic"}))]
    edges: tuple[float, float] | None = None
    """Prompt plus answer, from and below; absent = every request has the mean lengths. [tokens]"""


class FleetWorkload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of several loads: answers within objectives, a pile to be worked off, samples, runs of training, or work for
    host cores."""

    name: Annotated[str, Field(help="what the answer calls it")]
    kind: Annotated[
        Literal["serve", "batch", "infer", "train", "finetune", "cpu"],
        Field(
            help="serve: within objectives; batch: so many items a day; infer: samples through a network that decodes "
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
        Field(
            name="every_run",
            reads="s",
            group="Training",
            high=8760 * 3600.0,
            help="train, finetune: time from the start of a run to that of the next: 7 days; otherwise the deadline",
        ),
    ] = None
    """train, finetune: from the start of a run to that of the next. [s]"""
    rate_per_s: float = 0.0
    """Mean arrivals. [1/s]"""
    shape: LoadShape = LoadShape()
    buckets: Annotated[
        tuple[Bucket, ...],
        Field(reads="integer", high=MAX_BUCKETS, help="number of buckets of like lengths, or each of them"),
        Group(name="buckets", many=True),
    ] = ()
    items_per_day: Annotated[
        float | None, Field(name="items", reads="count", high=1e13, help="batch: to be done every day")
    ] = None
    """batch: to be done every day."""
    window: Annotated[tuple[int, int] | None, Field(help="deferred work: hours of the day it may run in, 22-6")] = None
    """batch: hours of the day from and until which it may run; absent = any."""
    cpu_s: Annotated[
        float | None,
        Field(name="cpu_time", reads="s", high=1e5, help="cpu: time of one virtual core that a request takes"),
    ] = None
    """cpu: seconds of one virtual core that a request takes. [s]"""
    spot_share: Annotated[
        float,
        Field(reads="fraction", group="Reliability", low=-1e-9, high=1.0, help="share that may run on spot capacity"),
    ] = 0.0
    """May run on capacity that is taken back. [-]"""
    survives: Annotated[
        float,
        Field(
            reads="fraction",
            group="Reliability",
            low=-1e-9,
            high=1.0,
            help="share still carried when one failure domain is lost",
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


class OwnMachine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Accelerators that are there already: bought, or reserved before."""

    name: Annotated[str, Field(help="what the answer calls it")]
    accelerator: Annotated[
        str, Field(group="Accelerators", known="planned accelerators", help="kind of accelerator that is there")
    ]
    count: Annotated[int, Field(reads="integer", group="Accelerators", high=1e6, help="how many")]
    per_node: Annotated[
        int, Field(reads="integer", group="Accelerators", high=16, help="of one machine: 1, 2, 4, 8 or 16")
    ]
    usd_per_hour: Annotated[
        float,
        Field(reads="USD/h", group="Offers", low=-1e-9, high=1e5, help="what one machine costs; 0 = it is paid for"),
    ] = 0.0
    """Of one node: electricity, or what the reservation costs. [USD/h]"""
    vcpus: Annotated[
        float | None, Field(reads="count", group="Accelerators", high=1e5, help="virtual cores of one machine")
    ] = None


class FleetQuota(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """At most so many accelerators of whatever the other fields name."""

    most: Annotated[
        int, Field(reads="integer", group="Accelerators", low=-1.0, high=1e7, help="accelerators at once; 0 = none")
    ]
    accelerator: Annotated[str | None, Field(group="Accelerators", known="accelerators", help="only of this kind")] = (
        None
    )
    provider: Annotated[str | None, Field(group="Offers", known="providers", help="only at this provider")] = None
    region: Annotated[str | None, Field(group="Offers", known="regions", help="only in this region")] = None
    term: Annotated[str | None, Field(group="Offers", choices=TERMS, help="only on this term")] = None

    def label(self) -> str:
        """A few words that name it: "16 h100-sxm5-80gb on-demand"."""
        named = [name for name in (self.accelerator, self.provider, self.region, self.term) if name]
        return f"{self.most} x {' '.join(named)}" if named else f"{self.most} accelerators in all"


class FleetRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    zones: Annotated[
        int,
        Field(
            reads="integer",
            group="Reliability",
            high=16,
            help="failure domains of a region, any one of which may be lost",
        ),
    ] = 1
    """Failure domains of every region."""
    lost_zones: Annotated[
        int,
        Field(reads="integer", group="Reliability", high=8, help="zones that may be lost at once, if more than one"),
    ] = 1
    """Of them, how many may be lost at once."""
    budget_usd_per_h: Annotated[
        float | None,
        Field(
            name="budget",
            reads="USD/h",
            bare=True,
            group="Objectives",
            high=1e7,
            help="most to spend, on average over the hours",
        ),
    ] = None
    confidence: Annotated[float, CONFIDENCE] = 0.8
    """Of every workload that does not state its own."""
    max_kinds: Annotated[
        int | None,
        Field(reads="integer", group="Accelerators", high=64, help="most kinds of accelerator in the fleet"),
    ] = None
    """Hosts without accelerators do not count."""
    quick: Annotated[
        bool,
        Field(
            reads="flag",
            group="Search",
            help="by averages alone: nothing is simulated, other fleets are not looked for",
        ),
    ] = False
    """By the mean-field approximation alone: nothing is simulated, other fleets are not looked for."""
