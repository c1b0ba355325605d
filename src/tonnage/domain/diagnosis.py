"""What limits a running system: what was seen of it, the verdicts that follow, and what is not known.

`Reading` is one look at a metrics page in our words, `Evidence` all that is known of a system over a window,
`Diagnosis` (`"schema": "tonnage.diagnosis/1"`) the answer. What no source states is absent, never 0: a rule that
needs it gives no verdict, and the answer says how to make it known.
"""

from __future__ import annotations

from typing import Literal

from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.train_measurement import StepTimes
from tonnage.record import Record, SparseRecord

DIAGNOSIS_SCHEMA = "tonnage.diagnosis/1"

Remedy = Literal["code", "settings", "capacity", "accelerator", "measure"]
"""What to change: the user's code, settings of what runs, the number of accelerators, their kind, the measurement."""


class Histogram(Record, kw_only=True):
    """A cumulative histogram since its server started."""

    count: float
    total: float
    """Sum of the values."""
    buckets: tuple[tuple[float, float], ...] = ()
    """Upper bound, and how many values are at most that; without the last, endless one."""


class Reading(SparseRecord, kw_only=True):
    """One look at one page or time, in our words: see `tonnage.measure.metrics` for what each name means."""

    at_s: float
    """On one clock for all readings that belong together. [s]"""
    engine: str | None = None
    values: dict[str, float] = {}
    histograms: dict[str, Histogram] = {}
    names: dict[str, str] = {}
    """What a page says in words: the accelerator, the model, the format of the cache."""


class LoadLevel(SparseRecord, kw_only=True):
    """One load of a sweep, or one part of a window: what went in, what came out, and how long it took."""

    level: float
    """Requests in the system, or offered per second. [requests or requests/s]"""
    requests_per_s: float
    p95_s: float
    """Of the whole answer. [s]"""
    requests: float
    """That this rests on. [requests]"""


class Evidence(SparseRecord, kw_only=True):
    """All that is known of a system over a window. A share is of 1; absent = no source states it."""

    kinds: tuple[Literal["serving", "training", "accelerator", "host"], ...] = ()
    """What the sources look at; a rule for another kind is not asked."""
    sources: tuple[str, ...] = ()
    engine: str | None = None
    accelerator: str | None = None
    """As its driver, or the user, names it."""
    model: str | None = None
    window_s: float | None = None
    samples: int | None = None
    """Readings of the window. [-]"""

    # serving
    requests: float | None = None
    """Finished in the window. [requests]"""
    failed_share: float | None = None
    requests_per_s: float | None = None
    prompt_tokens: float | None = None
    """Mean of a request. [tokens]"""
    output_tokens: float | None = None
    """Mean of a request. [tokens]"""
    running: float | None = None
    """Mean in the batch. [requests]"""
    running_most: float | None = None
    running_limit: float | None = None
    """The most that the engine runs at once. [requests]"""
    waiting: float | None = None
    """Mean in the queue. [requests]"""
    waiting_most: float | None = None
    idle_share: float | None = None
    """Of the readings in which nothing ran or waited."""
    cached_share: float | None = None
    """Of prompt tokens, those that a prefix cache had, in the window. [-]"""
    kv: str | None = None
    """Format of the cache, in the engine's word for it."""
    kv_used: float | None = None
    """Mean share of the cache in use."""
    kv_used_most: float | None = None
    preemptions: float | None = None
    """In the window. [-]"""
    queue_s: float | None = None
    """Mean of a request. [s]"""
    prefill_s: float | None = None
    ttft_s: float | None = None
    """Mean. [s]"""
    ttft_p95_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    e2e_p95_s: float | None = None
    first_s: float | None = None
    """Latency of the first requests: time to first token. [s]"""
    later_s: float | None = None
    """Median of the same, of those after them. [s]"""
    levels: tuple[LoadLevel, ...] = ()
    slo_missed: tuple[str, ...] = ()
    """Objectives that the highest sustained load misses."""
    client_delay_s: float | None = None
    """The measuring client's own, p99. [s]"""

    # accelerator
    utilisation: float | None = None
    """As the driver samples it: some kernel ran. No verdict rests on it alone."""
    sm_active: float | None = None
    """Mean share of processors with work."""
    tensor_active: float | None = None
    """Mean share of cycles in which matrix units work."""
    dram_active: float | None = None
    """Mean share of cycles in which memory moves data."""
    link_bytes_per_s: float | None = None
    """Between accelerators, of one of them, one direction. [bytes/s]"""
    link_peak_bytes_per_s: float | None = None
    memory_used_share: float | None = None
    power_throttled_share: float | None = None
    """Of the window in which power held the clock down."""
    thermal_throttled_share: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    temperature_c: float | None = None
    power_w: float | None = None
    flop_per_s: float | None = None
    """Of the work done, on one accelerator. [FLOP/s]"""
    memory_bytes_per_s: float | None = None
    """Read by the work done, on one accelerator. [bytes/s]"""
    peak_flop_per_s: float | None = None
    """Dense, bfloat16. [FLOP/s]"""
    peak_memory_bytes_per_s: float | None = None

    # host
    cpu_busy: float | None = None
    """Mean share of all processors."""
    cpu_iowait: float | None = None
    disk_busy: float | None = None
    """Mean share of time of the busiest disk."""

    # training
    step_s: float | None = None
    parts: StepTimes | None = None
    hidden_communication_s: float | None = None
    busy_s: float | None = None
    """Of a step in which a kernel runs. [s]"""
    kernel_s: float | None = None
    """Mean kernel. [s]"""
    copies_s: float | None = None
    devices: int | None = None
    scaling_efficiency: float | None = None
    slowest_share: float | None = None
    """Computing time of the slowest rank over the median one, less 1."""
    memory_peak_bytes: float | None = None
    memory_reserved_bytes: float | None = None
    memory_capacity_bytes: float | None = None
    alloc_retries: float | None = None

    # against an earlier measurement of the same thing
    baseline: tuple[Fact, ...] = ()


class Fact(SparseRecord, kw_only=True):
    """A number that a verdict rests on, and what it is held against."""

    name: str
    value: float
    unit: str
    """s, share, requests, requests/s, bytes, bytes/s, count, degC, W or tokens."""
    limit: float | None = None
    """The threshold, in the same unit."""
    why: str | None = None
    """Where the threshold comes from."""


class Verdict(SparseRecord, kw_only=True):
    """One thing that limits the system, what shows it, and what to do."""

    name: str
    sentence: str
    facts: tuple[Fact, ...]
    remedy: Remedy
    next_step: str
    gain: float | None = None
    """The most that removing it brings, as a share of time or cost; what orders verdicts."""


class Missing(Record, kw_only=True):
    """A question that nothing in the sources answers, and how to make it answerable."""

    verdict: str
    needs: str
    how: str


class Diagnosis(SparseRecord, kw_only=True):
    """The answer: verdicts, the one that matters most first."""

    schema: str
    sentence: str
    sources: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    missing: tuple[Missing, ...] = ()
    plan: str | None = None
    """What would do instead, where model and load are known."""
    plan_command: str | None = None
    calibrations: tuple[CalibrationUse, ...] = ()
    """Measurements that moved these numbers: the user's own, or published ones that were asked for."""
    evidence: Evidence
