"""The questions of `tonnage plan serve`, requests as they come, and of `tonnage plan batch`, items by a deadline."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tonnage.domain.layout import SERVING_ENGINE
from tonnage.domain.requests.adapters import AdapterFields
from tonnage.domain.requests.common import (
    CONFIDENCE,
    ENGINES,
    FORMATS,
    MODEL,
    QUALITY,
    Filters,
    Lengths,
    LoadShape,
    Slo,
)
from tonnage.domain.requests.field import Field, Group
from tonnage.domain.requests.images import ImageFields
from tonnage.domain.requests.sessions import SessionFields

__all__ = ["Batch", "Serve"]


class Serve(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="serve"):
    """Answer requests as they come, under latency objectives."""

    model: Annotated[str, MODEL]
    lengths: Annotated[Lengths, Group()]
    rate_per_s: Annotated[
        float | None, Field(name="rate", reads="1/s", high=1e7, help="requests that arrive, on average: 4/s, 240/min")
    ] = None
    concurrency: Annotated[float | None, Field(reads="count", high=1e7, help="requests in flight at once")] = None
    users: Annotated[
        float | None,
        Field(reads="count", high=1e9, help="people using it at once"),
        Field(name="think_time", reads="s", high=86400.0 * 7, help="seconds between two requests of one user"),
    ] = None
    sessions: Annotated[SessionFields, Group()] = SessionFields()
    images: Annotated[ImageFields, Group()] = ImageFields()
    """As written; what the model makes of them is in `lengths`."""
    slo: Annotated[Slo, Group()] = Slo()
    confidence: Annotated[float, CONFIDENCE] = 0.8
    """The plan is the cheapest option that meets every objective at once with at least this chance. [-]"""
    shape: Annotated[LoadShape, Group()] = LoadShape()
    precisions: Annotated[tuple[str, ...], FORMATS] = ()
    """Weight formats that may be used; empty = the checkpoint's own and FP8 where the part multiplies it."""
    quality_floor: Annotated[float | None, QUALITY] = None
    """Share of the score as released that other formats must keep by published evaluations. [-]"""
    kv_precision: Annotated[
        str | None, Field(group="Model and engine", known="formats", help="format of the KV cache")
    ] = None
    draft_acceptance: Annotated[
        float | None,
        Field(
            reads="fraction",
            group="Model and engine",
            high=1.0,
            help="share of drafted tokens that are kept, as you measured it: speculative decoding is tried with it",
        ),
    ] = None
    """Absent = what is published of the checkpoint's own layers, if anything is. [-]"""
    draft_tokens: Annotated[
        int,
        Field(reads="integer", group="Model and engine", high=16, help="tokens drafted a step where you state a share"),
    ] = 1
    adapters: Annotated[AdapterFields, Group()] = AdapterFields()
    engines: Annotated[tuple[str, ...], ENGINES] = (SERVING_ENGINE,)
    filters: Annotated[Filters, Group()] = Filters()
    headroom: Annotated[
        float,
        Field(reads="fraction", group="Reliability", low=-1e-9, high=0.9, help="share of capacity kept free at peak"),
    ] = 0.25
    """Share of capacity kept free at peak. [-]"""
    spare_replicas: Annotated[
        int, Field(reads="integer", group="Reliability", low=-1.0, high=1e4, help="replicas beyond the load (N+k)")
    ] = 0
    zones: Annotated[
        int, Field(reads="integer", group="Reliability", high=64, help="zones to spread over, one of which may be lost")
    ] = 1
    """Zones that replicas are spread over evenly; from two on, the load survives the loss of one."""
    idle_timeout_s: Annotated[
        float,
        Field(
            name="idle_timeout",
            reads="s",
            group="Reliability",
            high=86400.0 * 30,
            help="scale to zero switches off after so long",
        ),
    ] = 900.0
    """Scale to zero switches off so long after the last request. [s]"""
    start_from: Annotated[
        Literal["network", "disk", "cached"],
        Field(group="Reliability", help="weights of a new replica: network, disk, or cached with compiled code"),
    ] = "network"
    """Where a new replica finds its weights, and compiled code."""
    cold_start_s: Annotated[
        float | None,
        Field(
            name="cold_start",
            reads="s",
            group="Reliability",
            high=86400.0,
            help="from the decision to start a replica to its first token",
        ),
    ] = None
    """From the decision to start a replica until its first token; absent = computed. [s]"""
    budget_usd_per_h: Annotated[
        float | None, Field(name="budget", reads="USD/h", bare=True, group="Objectives", high=1e7, help="most to spend")
    ] = None
    max_context: Annotated[
        int | None, Field(name="context", reads="tokens", high=1e8, help="longest context that must fit")
    ] = None
    quick: Annotated[bool, Field(reads="flag", group="Search", help="rank by averages alone, without simulating")] = (
        False
    )
    """Rank by the mean-field approximation alone, without simulating."""
    pools: Annotated[
        bool, Field(reads="flag", group="Search", help="also look for separate workers for prompts and for answers")
    ] = False


class Batch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="batch"):
    """Finish N items by a deadline. They are independent, so that spot prices are looked at, too."""

    model: Annotated[str, MODEL]
    items: Annotated[float, Field(reads="count", high=1e13, help="prompts to answer: 50M")]
    lengths: Annotated[Lengths, Group(usual={"traffic": "batch"})]
    deadline_s: Annotated[
        float | None,
        Field(
            name="deadline",
            reads="s",
            group="Objectives",
            high=1e8,
            help="all answers by then: 8 h; without it the cheapest is taken",
        ),
    ] = None
    confidence: Annotated[float, CONFIDENCE] = 0.8
    """The plan is the cheapest option that keeps deadline and budget with at least this chance. [-]"""
    precisions: Annotated[tuple[str, ...], FORMATS] = ()
    quality_floor: Annotated[float | None, QUALITY] = None
    """Share of the score as released that other formats must keep by published evaluations. [-]"""
    engines: Annotated[tuple[str, ...], ENGINES] = (SERVING_ENGINE,)
    filters: Annotated[Filters, Group(usual={"term": ("on-demand", "spot")})] = Filters()
    budget_usd: Annotated[
        float | None,
        Field(name="budget", reads="USD", group="Objectives", high=1e12, help="most to spend on the whole job"),
    ] = None
