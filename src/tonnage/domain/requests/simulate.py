"""The question of `tonnage simulate`: one configuration and its traffic, request by request."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from tonnage.domain.layout import SERVING_ENGINE, Disaggregation, Layout
from tonnage.domain.precision import Precision
from tonnage.domain.requests.common import MODEL, Slo
from tonnage.domain.requests.field import MAY_BE_NOTHING, Field, Group

__all__ = ["AutoScaling", "Process", "Router", "Simulation", "SimulationTraffic"]

Process = Literal["poisson", "gamma", "wandering", "on-off", "even"]
Router = Literal["round-robin", "least-loaded", "prefix-aware"]


class SimulationTraffic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How requests come and how long they are."""

    profile: Annotated[
        str | None, Field(known="profiles", help="length profile: chat, code, rag, summarise, reasoning, agent")
    ] = None
    """Named profile the lengths come from, and how much its rate wanders."""
    trace: Annotated[str | None, Field(help="a request log to play: times, lengths, prefix blocks")] = None
    """A request log: times, lengths, and prefix blocks where it has them."""
    prompt_tokens: Annotated[
        float | None, Field(reads="tokens", low=MAY_BE_NOTHING, help="prompt length, instead of a profile")
    ] = None
    output_tokens: Annotated[
        float | None, Field(reads="tokens", low=MAY_BE_NOTHING, help="answer length, instead of a profile")
    ] = None
    length_spread: tuple[float, float] | None = None
    """Even draw between these fractions of the lengths above; absent = fixed."""
    rate_per_s: Annotated[
        float | None, Field(name="rate", reads="1/s", low=MAY_BE_NOTHING, help="requests that arrive, on average: 6/s")
    ] = None
    """Mean arrivals over all replicas; a log is stretched to it, absent = as recorded. [1/s]"""
    concurrency: Annotated[
        int | None, Field(reads="integer", help="clients that wait for their answer, instead of a rate")
    ] = None
    """Clients that wait for their answer before they send again, instead of a rate."""
    think_s: Annotated[
        float, Field(name="think", reads="s", low=MAY_BE_NOTHING, help="clients: from an answer to their next request")
    ] = 0.0
    process: Annotated[Process, Field(help="how arrivals are drawn")] = "poisson"
    variation: Annotated[
        float, Field(reads="count", low=MAY_BE_NOTHING, help="gamma: standard deviation over mean of the gaps")
    ] = 1.0
    """gamma: standard deviation over mean of the gaps. [-]"""
    dispersion: Annotated[
        float | None,
        Field(reads="count", low=MAY_BE_NOTHING, help="wandering: variance over mean of the requests in a window"),
    ] = None
    """wandering: variance over mean of the requests in a window; absent = the profile's. [-]"""
    window_s: Annotated[
        float, Field(name="window", reads="s", low=MAY_BE_NOTHING, help="wandering: length of that window")
    ] = 60.0
    on_s: Annotated[
        float, Field(name="on_for", reads="s", low=MAY_BE_NOTHING, help="on-off: mean length of a burst")
    ] = 60.0
    off_s: Annotated[
        float, Field(name="off_for", reads="s", low=MAY_BE_NOTHING, help="on-off: mean pause between bursts")
    ] = 540.0
    shape: Annotated[str | None, Field(help="load by the hour: consumer, reasoning-week, …")] = None
    """Named shape of a day or a week of the catalogue, instead of `hours`."""
    hours: tuple[float, ...] = ()
    """Rate of each hour of a day (24) or a week (168) relative to the mean; empty = even."""
    num_requests: Annotated[
        int | None, Field(name="requests", reads="integer", help="requests to play; 20,000 settle a 99th percentile")
    ] = None
    """Absent = 20,000 drawn ones, or the whole log."""
    seed: Annotated[int, Field(reads="integer", low=-1.0, help="of what is drawn")] = 0
    reuse: Annotated[
        bool, Field(reads="flag", help="prompts of a profile with sessions find the cache of the turn before")
    ] = True
    cached_share: Annotated[
        float, Field(reads="fraction", low=MAY_BE_NOTHING, help="share of each prompt whose cache is there")
    ] = 0.0
    """Share of each prompt whose cache is there: a common beginning. [-]"""


class AutoScaling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An autoscaler: how much load it wants per replica, and how fast it acts."""

    in_flight: Annotated[float, Field(reads="count", group="Reliability", help="requests in flight wanted per replica")]
    """Requests in flight wanted per replica. [requests]"""
    cold_start_s: Annotated[
        float | None,
        Field(
            name="cold_start",
            reads="s",
            group="Reliability",
            low=MAY_BE_NOTHING,
            help="from the decision to start a replica to its first step",
        ),
    ] = None
    """From the decision to the first step; absent = the machine, the weights and the engine's warm-up. [s]"""
    start_from: Annotated[
        Literal["network", "disk", "cached"],
        Field(group="Reliability", help="weights of a new replica: network, disk, or cached with compiled code"),
    ] = "network"
    """Where weights and compiled code are when a replica starts: fetched; weights on the node; compiled code, too."""
    provider: Annotated[str, Field(group="Reliability", help="whose machine is waited for")] = ""
    """Whose machine is waited for; empty = one that states nothing."""
    fewest: Annotated[
        int, Field(reads="integer", group="Reliability", low=-1.0, help="replicas that stay on; 0 = scale to zero")
    ] = 1
    """0 = scale to zero."""
    every_s: Annotated[
        float,
        Field(name="every", reads="s", group="Reliability", low=MAY_BE_NOTHING, help="between two looks at the load"),
    ] = 15.0
    keep_s: Annotated[
        float,
        Field(
            name="keep",
            reads="s",
            group="Reliability",
            low=MAY_BE_NOTHING,
            help="too little load for this long takes one replica away",
        ),
    ] = 300.0
    """Too little load for this long takes one replica away. [s]"""


class Simulation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One configuration and its traffic."""

    model: Annotated[Any, MODEL]
    accelerator: Annotated[
        str, Field(group="Accelerators", known="names of accelerators", help="what one replica runs on")
    ]
    traffic: Annotated[SimulationTraffic, Group(name="traffic")]
    layout: Annotated[Layout, Group(name="layout")] = Layout()
    precision: Precision | None = None
    engine: Annotated[str, Field(group="Model and engine", known="engines", help="serving engine")] = SERVING_ENGINE
    engine_version: Annotated[str | None, Field(group="Model and engine", help="release or month: 0.19.0, 2025-07")] = (
        None
    )
    engine_options: dict[str, Any] = {}
    scheduler: dict[str, Any] = {}
    """Rules beyond the engine's settings: guaranteed_no_evict, max_utilization, priority, whole_prompt …"""
    slo: Annotated[Slo | None, Group(name="slo")] = None
    replicas: Annotated[int, Field(reads="integer", group="Layout", help="replicas behind the router")] = 1
    """Most replicas behind the router."""
    router: Annotated[Router, Field(group="Layout", help="which replica a request goes to")] = "least-loaded"
    disaggregation: Disaggregation | None = None
    """Prompts on one pool of workers, answers on another, instead of replicas; each with its layout."""
    scaling: Annotated[AutoScaling | None, Group(name="scaling")] = None
    """Starts and stops replicas with the load; absent = all of them are on."""
    capacity: Annotated[
        bool, Field(reads="flag", group="Search", help="also look for the largest rate within the objectives")
    ] = False
    """Also look for the largest rate within the objectives."""
