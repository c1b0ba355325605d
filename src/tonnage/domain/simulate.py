"""
A configuration over time: the question of `tonnage simulate`, what is simulated, and what was seen.

A simulation is a serving case (one model on one accelerator in one layout under one engine) and its
traffic: how requests come, how long they are, what they must meet.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.case import Latency
from tonnage.domain.layout import SERVING_ENGINE, Disaggregation, Layout
from tonnage.domain.precision import Precision
from tonnage.domain.requests.common import MODEL, Slo
from tonnage.domain.requests.field import (
    MAY_BE_NOTHING,
    Field,
    Group,
    accelerator_field,
    engine_field,
    layout_field,
    reliability_field,
    search_field,
)
from tonnage.record import Record, SparseRecord

Process = Literal["poisson", "gamma", "wandering", "on-off", "even"]
Router = Literal["round-robin", "least-loaded", "prefix-aware"]


class SimulationTraffic(SparseRecord, kw_only=True):
    """How requests come and how long they are."""

    profile: Annotated[
        str | None, Field("length profile: chat, code, rag, summarise, reasoning, agent", known="profiles")
    ] = None
    """Named profile the lengths come from, and how much its rate wanders."""
    trace: Annotated[str | None, Field("a request log to play: times, lengths, prefix blocks")] = None
    """A request log: times, lengths, and prefix blocks where it has them."""
    prompt_tokens: Annotated[
        float | None, Field("prompt length, instead of a profile", "tokens", low=MAY_BE_NOTHING)
    ] = None
    output_tokens: Annotated[
        float | None, Field("answer length, instead of a profile", "tokens", low=MAY_BE_NOTHING)
    ] = None
    length_spread: tuple[float, float] | None = None
    """Even draw between these fractions of the lengths above; absent = fixed."""
    rate_per_s: Annotated[
        float | None, Field("requests that arrive, on average: 6/s", "1/s", name="rate", low=MAY_BE_NOTHING)
    ] = None
    """Mean arrivals over all replicas; a log is stretched to it, absent = as recorded. [1/s]"""
    concurrency: Annotated[int | None, Field("clients that wait for their answer, instead of a rate")] = None
    """Clients that wait for their answer before they send again, instead of a rate."""
    start: Annotated[
        Literal["spread", "together"],
        Field("clients: spread, as of a service, or all at once and counted from the first request, as in a benchmark"),
    ] = "spread"
    """Spread clients begin at random within one request's time, answers differ by a tenth so that they do not fall into
    step, and what is told is of the time between the last one's start and the first one's end."""
    think_s: Annotated[
        float, Field("clients: from an answer to their next request", "s", name="think", low=MAY_BE_NOTHING)
    ] = 0.0
    process: Annotated[Process, Field("how arrivals are drawn")] = "poisson"
    variation: Annotated[float, Field("gamma: standard deviation over mean of the gaps", low=MAY_BE_NOTHING)] = 1.0
    """gamma: standard deviation over mean of the gaps. [-]"""
    dispersion: Annotated[
        float | None, Field("wandering: variance over mean of the requests in a window", low=MAY_BE_NOTHING)
    ] = None
    """wandering: variance over mean of the requests in a window; absent = the profile's. [-]"""
    window_s: Annotated[float, Field("wandering: length of that window", "s", name="window", low=MAY_BE_NOTHING)] = 60.0
    on_s: Annotated[float, Field("on-off: mean length of a burst", "s", name="on_for", low=MAY_BE_NOTHING)] = 60.0
    off_s: Annotated[float, Field("on-off: mean pause between bursts", "s", name="off_for", low=MAY_BE_NOTHING)] = 540.0
    shape: Annotated[str | None, Field("load by the hour: consumer, reasoning-week, …")] = None
    """Named shape of a day or a week of the catalogue, instead of `hours`."""
    hours: tuple[float, ...] = ()
    """Rate of each hour of a day (24) or a week (168) relative to the mean; empty = even."""
    num_requests: Annotated[int | None, Field("requests to play; 20,000 settle a 99th percentile", name="requests")] = (
        None
    )
    """Absent = 20,000 drawn ones, or the whole log."""
    seed: Annotated[int, Field("of what is drawn", low=-1.0)] = 0
    reuse: Annotated[bool, Field("prompts of a profile with sessions find the cache of the turn before")] = True
    cached_share: Annotated[
        float, Field("share of each prompt whose cache is there", "fraction", low=MAY_BE_NOTHING)
    ] = 0.0
    """Share of each prompt whose cache is there: a common beginning. [-]"""


class AutoScaling(SparseRecord, kw_only=True):
    """An autoscaler: how much load it wants per replica, and how fast it acts."""

    in_flight: Annotated[float, reliability_field("requests in flight wanted per replica")]
    """Requests in flight wanted per replica. [requests]"""
    cold_start_s: Annotated[
        float | None,
        reliability_field(
            "from the decision to start a replica to its first step", "s", name="cold_start", low=MAY_BE_NOTHING
        ),
    ] = None
    """From the decision to the first step; absent = the machine, the weights and the engine's warm-up. [s]"""
    start_from: Annotated[
        Literal["network", "disk", "cached"],
        reliability_field("weights of a new replica: network, disk, or cached with compiled code"),
    ] = "network"
    """Where weights and compiled code are when a replica starts: fetched; weights on the node; compiled code, too."""
    provider: Annotated[str, reliability_field("whose machine is waited for")] = ""
    """Whose machine is waited for; empty = one that states nothing."""
    fewest: Annotated[int, reliability_field("replicas that stay on; 0 = scale to zero", low=-1.0)] = 1
    """0 = scale to zero."""
    every_s: Annotated[
        float, reliability_field("between two looks at the load", "s", name="every", low=MAY_BE_NOTHING)
    ] = 15.0
    keep_s: Annotated[
        float,
        reliability_field("too little load for this long takes one replica away", "s", name="keep", low=MAY_BE_NOTHING),
    ] = 300.0
    """Too little load for this long takes one replica away. [s]"""


class Simulation(SparseRecord, kw_only=True):
    """One configuration and its traffic."""

    model: Annotated[Any, MODEL]
    accelerator: Annotated[str, accelerator_field("what one replica runs on", known="names of accelerators")]
    traffic: Annotated[SimulationTraffic, Group(name="traffic")]
    layout: Annotated[Layout, Group(name="layout")] = Layout()
    precision: Precision | None = None
    engine: Annotated[str, engine_field("serving engine", known="engines")] = SERVING_ENGINE
    engine_version: Annotated[str | None, engine_field("release or month: 0.19.0, 2025-07")] = None
    engine_options: dict[str, Any] = {}
    scheduler: dict[str, Any] = {}
    """Rules beyond the engine's settings: guaranteed_no_evict, max_utilization, priority, whole_prompt …"""
    slo: Annotated[Slo | None, Group(name="slo")] = None
    replicas: Annotated[int, layout_field("replicas behind the router")] = 1
    """Most replicas behind the router."""
    router: Annotated[Router, layout_field("which replica a request goes to")] = "least-loaded"
    disaggregation: Disaggregation | None = None
    """Prompts on one pool of workers, answers on another, instead of replicas; each with its layout."""
    scaling: Annotated[AutoScaling | None, Group(name="scaling")] = None
    """Starts and stops replicas with the load; absent = all of them are on."""
    capacity: Annotated[bool, search_field("also look for the largest rate within the objectives")] = False
    """Also look for the largest rate within the objectives."""


__all__ = ["AutoScaling", "Simulation", "SimulationTraffic"]

SIMULATE_SCHEMA = "tonnage.simulate/1"


class Occupancy(Record, kw_only=True):
    """The replicas together at even times; columns of equal length."""

    at_s: tuple[float, ...]
    running: tuple[float, ...]
    waiting: tuple[float, ...]
    cache_share: tuple[float, ...]
    output_tokens_per_s: tuple[float, ...]


class FleetSeen(Record, kw_only=True):
    """What several replicas came to."""

    replicas: int
    """Most that could be on."""
    mean_replicas: float
    """Paid for, on average over the run, cold starts included."""
    paid_replica_hours: float
    wasted_share: float
    """Of a fleet that is always on, what this one did not pay for. [-]"""
    cold_hits: int
    """Requests that found no replica ready."""
    cold_share: float


class CapacityFound(Record, kw_only=True):
    """The largest rate of one replica within the objectives. [1/s]"""

    rate_per_s: float
    low_per_s: float
    """Value to plan with: 5th percentile."""
    high_per_s: float
    binding: str | None
    why: str
    knee_per_s: float
    simulations: int


class Simulated(SparseRecord, kw_only=True):
    """What the simulation saw; latencies are absent when nothing could run."""

    schema: str
    sentence: str
    fits: bool
    basis: Basis
    why: str = ""
    partial: bool = False
    """Broken off before the end: what is said holds for the requests that had ended."""
    requests: int = 0
    refused: int = 0
    """Longer than the cache; an engine turns them away."""
    preemptions: int = 0
    span_s: float | None = None
    ttft_s: Latency | None = None
    tpot_s: Latency | None = None
    itl_s: Latency | None = None
    e2e_s: Latency | None = None
    queue_s: Latency | None = None
    """The part of time to first token spent waiting."""
    requests_per_s: float | None = None
    output_tokens_per_s: float | None = None
    goodput_per_s: float | None = None
    board_w: Quantity | None = None
    """Mean draw of one accelerator over the run, its host not in it; absent = its limit is not published. [W]"""
    slo_met: bool | None = None
    cached_share: float | None = None
    """Prompt tokens found in the cache. [-]"""
    occupancy: Occupancy | None = None
    capacity: CapacityFound | None = None
    fleet: FleetSeen | None = None
    steps: int = 0
    calibrations: tuple[CalibrationUse, ...] = ()
    """Measurements that moved these numbers: the user's own, or published ones that were asked for."""
    assumed: tuple[str, ...] = ()
    licence: str = ""
    """Of the request log, with whom to cite."""
