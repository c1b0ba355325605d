"""A configuration over time: what is simulated, and what was seen.

A simulation is a serving case (one model on one accelerator in one layout under one engine) and its
traffic: how requests come, how long they are, what they must meet.
"""

from __future__ import annotations

from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.case import Latency
from tonnage.domain.requests.simulate import AutoScaling, Simulation, SimulationTraffic
from tonnage.record import Record, SparseRecord

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
