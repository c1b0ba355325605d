"""A configuration over time: what is simulated, and what was seen.

A simulation is a serving case (one model on one accelerator in one layout under one engine) and its
traffic: how requests come, how long they are, what they must meet.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tonnage.domain.answer import Basis
from tonnage.domain.case import Latency
from tonnage.domain.layout import SERVING_ENGINE, Disaggregation, Layout
from tonnage.domain.precision import Precision
from tonnage.domain.workload import Slo

__all__ = [
    "SIMULATE_SCHEMA",
    "AutoScaling",
    "CapacityFound",
    "FleetSeen",
    "Occupancy",
    "Simulated",
    "Simulation",
    "SimulationTraffic",
]

SIMULATE_SCHEMA = "tonnage.simulate/1"

Process = Literal["poisson", "gamma", "wandering", "on-off", "even"]
Router = Literal["round-robin", "least-loaded", "prefix-aware"]


class SimulationTraffic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How requests come and how long they are."""

    profile: str | None = None
    """Named profile the lengths come from, and how much its rate wanders."""
    trace: str | None = None
    """A request log: times, lengths, and prefix blocks where it has them."""
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    length_spread: tuple[float, float] | None = None
    """Even draw between these fractions of the lengths above; absent = fixed."""
    rate_per_s: float | None = None
    """Mean arrivals over all replicas; a log is stretched to it, absent = as recorded. [1/s]"""
    concurrency: int | None = None
    """Clients that wait for their answer before they send again, instead of a rate."""
    think_s: float = 0.0
    process: Process = "poisson"
    variation: float = 1.0
    """gamma: standard deviation over mean of the gaps. [-]"""
    dispersion: float | None = None
    """wandering: variance over mean of the requests in a window; absent = the profile's. [-]"""
    window_s: float = 60.0
    on_s: float = 60.0
    off_s: float = 540.0
    shape: str | None = None
    """Named shape of a day or a week of the catalogue, instead of `hours`."""
    hours: tuple[float, ...] = ()
    """Rate of each hour of a day (24) or a week (168) relative to the mean; empty = even."""
    num_requests: int | None = None
    """Absent = 20,000 drawn ones, or the whole log."""
    seed: int = 0
    cached_share: float = 0.0
    """Share of each prompt whose cache is there: a common beginning. [-]"""


class AutoScaling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An autoscaler: how much load it wants per replica, and how fast it acts."""

    in_flight: float
    """Requests in flight wanted per replica. [requests]"""
    cold_start_s: float | None = None
    """From the decision to the first step; absent = the machine, the weights and the engine's warm-up. [s]"""
    start_from: Literal["network", "disk", "cached"] = "network"
    """Where weights and compiled code are when a replica starts: fetched; weights on the node; compiled code, too."""
    provider: str = ""
    """Whose machine is waited for; empty = one that states nothing."""
    fewest: int = 1
    """0 = scale to zero."""
    every_s: float = 15.0
    keep_s: float = 300.0
    """Too little load for this long takes one replica away. [s]"""


class Simulation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One configuration and its traffic."""

    model: Any
    accelerator: str
    traffic: SimulationTraffic
    layout: Layout = Layout()
    precision: Precision | None = None
    engine: str = SERVING_ENGINE
    engine_version: str | None = None
    engine_options: dict[str, Any] = {}
    scheduler: dict[str, Any] = {}
    """Rules beyond the engine's settings: guaranteed_no_evict, max_utilization, priority, whole_prompt …"""
    slo: Slo | None = None
    replicas: int = 1
    """Most replicas behind the router."""
    router: Router = "least-loaded"
    disaggregation: Disaggregation | None = None
    """Prompts on one pool of workers, answers on another, instead of replicas; each with its layout."""
    scaling: AutoScaling | None = None
    """Starts and stops replicas with the load; absent = all of them are on."""
    capacity: bool = False
    """Also look for the largest rate within the objectives."""


class Occupancy(msgspec.Struct, frozen=True, kw_only=True):
    """The replicas together at even times; columns of equal length."""

    at_s: tuple[float, ...]
    running: tuple[float, ...]
    waiting: tuple[float, ...]
    cache_share: tuple[float, ...]
    output_tokens_per_s: tuple[float, ...]


class FleetSeen(msgspec.Struct, frozen=True, kw_only=True):
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


class CapacityFound(msgspec.Struct, frozen=True, kw_only=True):
    """The largest rate of one replica within the objectives. [1/s]"""

    rate_per_s: float
    low_per_s: float
    """Value to plan with: 5th percentile."""
    high_per_s: float
    binding: str | None
    why: str
    knee_per_s: float
    simulations: int


class Simulated(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    slo_met: bool | None = None
    cached_share: float | None = None
    """Prompt tokens found in the cache. [-]"""
    occupancy: Occupancy | None = None
    capacity: CapacityFound | None = None
    fleet: FleetSeen | None = None
    steps: int = 0
    assumed: tuple[str, ...] = ()
    licence: str = ""
    """Of the request log, with whom to cite."""
