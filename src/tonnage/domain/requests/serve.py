"""The questions of `tonnage plan serve`, requests as they come, and of `tonnage plan batch`, items by a deadline."""

from __future__ import annotations

from typing import Annotated, Literal

from tonnage.domain.layout import SERVING_ENGINE
from tonnage.domain.requests.common import (
    ENGINES,
    FORMATS,
    QUALITY,
    Confidence,
    Filters,
    Lengths,
    LoadShape,
    ModelName,
    Quick,
    Slo,
)
from tonnage.domain.requests.field import (
    MAY_BE_NOTHING,
    Field,
    Group,
    engine_field,
    objective_field,
    reliability_field,
    search_field,
)
from tonnage.domain.requests.groups import AdapterFields, ImageFields, SessionFields
from tonnage.record import SparseRecord


class Serve(SparseRecord, kw_only=True, tag="serve"):
    """Answer requests as they come, under latency objectives."""

    model: ModelName
    lengths: Annotated[Lengths, Group()]
    rate_per_s: Annotated[
        float | None, Field("requests that arrive, on average: 4/s, 240/min", "1/s", name="rate", high=1e7)
    ] = None
    concurrency: Annotated[float | None, Field("requests in flight at once", high=1e7)] = None
    users: Annotated[
        float | None,
        Field("people using it at once", high=1e9),
        Field("seconds between two requests of one user", "s", name="think_time", high=86400.0 * 7),
    ] = None
    sessions: Annotated[SessionFields, Group()] = SessionFields()
    images: Annotated[ImageFields, Group()] = ImageFields()
    """As written; what the model makes of them is in `lengths`."""
    slo: Annotated[Slo, Group()] = Slo()
    confidence: Confidence = 0.8
    """The plan is the cheapest option that meets every objective at once with at least this chance. [-]"""
    shape: Annotated[LoadShape, Group()] = LoadShape()
    precisions: Annotated[tuple[str, ...], FORMATS] = ()
    """Weight formats that may be used; empty = the checkpoint's own and FP8 where the part multiplies it."""
    quality_floor: Annotated[float | None, QUALITY] = None
    """Share of the score as released that other formats must keep by published evaluations. [-]"""
    kv_precision: Annotated[str | None, engine_field("format of the KV cache", known="formats")] = None
    draft_acceptance: Annotated[
        float | None,
        engine_field(
            "share of drafted tokens that are kept, as you measured it: speculative decoding is tried with it",
            "fraction",
            high=1.0,
        ),
    ] = None
    """Absent = what is published of the checkpoint's own layers, if anything is. [-]"""
    draft_tokens: Annotated[int, engine_field("tokens drafted a step where you state a share", high=16)] = 1
    adapters: Annotated[AdapterFields, Group()] = AdapterFields()
    engines: Annotated[tuple[str, ...], ENGINES] = (SERVING_ENGINE,)
    filters: Annotated[Filters, Group()] = Filters()
    headroom: Annotated[
        float, reliability_field("share of capacity kept free at peak", "fraction", low=MAY_BE_NOTHING, high=0.9)
    ] = 0.25
    """Share of capacity kept free at peak. [-]"""
    spare_replicas: Annotated[int, reliability_field("replicas beyond the load (N+k)", low=-1.0, high=1e4)] = 0
    zones: Annotated[int, reliability_field("zones to spread over, one of which may be lost", high=64)] = 1
    """Zones that replicas are spread over evenly; from two on, the load survives the loss of one."""
    idle_timeout_s: Annotated[
        float,
        reliability_field("scale to zero switches off after so long", "s", name="idle_timeout", high=86400.0 * 30),
    ] = 900.0
    """Scale to zero switches off so long after the last request. [s]"""
    start_from: Annotated[
        Literal["network", "disk", "cached"],
        reliability_field("weights of a new replica: network, disk, or cached with compiled code"),
    ] = "network"
    """Where a new replica finds its weights, and compiled code."""
    cold_start_s: Annotated[
        float | None,
        reliability_field(
            "from the decision to start a replica to its first token", "s", name="cold_start", high=86400.0
        ),
    ] = None
    """From the decision to start a replica until its first token; absent = computed. [s]"""
    budget_usd_per_h: Annotated[float | None, objective_field("most to spend", "USD/h", name="budget", high=1e7)] = None
    max_context: Annotated[int | None, Field("longest context that must fit", "tokens", name="context", high=1e8)] = (
        None
    )
    quick: Quick = False
    """Rank by the mean-field approximation alone, without simulating."""
    pools: Annotated[bool, search_field("also look for separate workers for prompts and for answers")] = False


class Batch(SparseRecord, kw_only=True, tag="batch"):
    """Finish N items by a deadline. They are independent, so that spot prices are looked at, too."""

    model: ModelName
    items: Annotated[float, Field("prompts to answer: 50M", high=1e13)]
    lengths: Annotated[Lengths, Group(usual={"traffic": "batch"})]
    deadline_s: Annotated[
        float | None,
        objective_field("all answers by then: 8 h; without it the cheapest is taken", "s", name="deadline", high=1e8),
    ] = None
    confidence: Confidence = 0.8
    """The plan is the cheapest option that keeps deadline and budget with at least this chance. [-]"""
    precisions: Annotated[tuple[str, ...], FORMATS] = ()
    quality_floor: Annotated[float | None, QUALITY] = None
    """Share of the score as released that other formats must keep by published evaluations. [-]"""
    engines: Annotated[tuple[str, ...], ENGINES] = (SERVING_ENGINE,)
    filters: Annotated[Filters, Group(usual={"term": ("on-demand", "spot")})] = Filters()
    budget_usd: Annotated[
        float | None, objective_field("most to spend on the whole job", "USD", name="budget", high=1e12)
    ] = None
