"""
What was measured: a serving endpoint under one or several loads, or one device by microbenchmarks, and the history.

`tonnage measure serve` and `tonnage measure import` both return a `Measurement` (`"schema": "tonnage.measurement/1"`).
TTFT, TPOT, ITL, E2E and goodput mean what `tonnage.simulation.metrics` says; a report of another tool is mapped by
definition, and what it does not state in these words is absent. `tonnage measure device` writes a `DeviceMeasurement`
as the user's own accelerator. An `Entry` of the history says when, where and by which versions something was measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from tonnage.domain.requests.common import Slo
from tonnage.errors import BadRequest, echo
from tonnage.record import Record, SparseRecord

MEASUREMENT_SCHEMA = "tonnage.measurement/1"
CAPACITY_SCHEMA = "tonnage.capacity/1"
UNUSABLE: Final = "Not to be used"
"""How a note begins that forbids the numbers it stands under."""
LONGEST: Final = 400
"""Of a note that is repeated. [characters]"""
MAX_CACHED_SHARE: Final = 0.2
"""Of prompt tokens, that a prefix cache may give: new prompts share no more than a chat template (assumed). [-]"""


def forbidden(notes: Iterable[str]) -> str | None:
    """The first note that forbids the numbers that it stands beside; None where none does."""
    return next((note for note in notes if note.lower().startswith(UNUSABLE.lower())), None)


class Latency(SparseRecord, kw_only=True):
    """A latency over many requests or gaps; a statistic that was not reported is absent. [s]"""

    count: int | None = None
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    most: float | None = None

    def at_least(self, percentile: float) -> float | None:
        """The reported percentile at or next above the wanted one; None where none is reported. [s]"""
        ladder = ((50.0, self.p50), (90.0, self.p90), (95.0, self.p95), (99.0, self.p99), (100.0, self.most))
        return next((value for rank, value in ladder if rank >= percentile and value is not None), None)


class Load(SparseRecord, kw_only=True):
    """
    What is asked of a server: requests at a rate whatever it answers (open loop), or so many at once (closed).

    Bounded by requests and by time, whichever ends first.
    """

    rate_per_s: float | None = None
    concurrency: int | None = None
    arrivals: Literal["constant", "poisson", "gamma"] = "poisson"
    burstiness: float = 1.0
    """Shape of gamma arrivals: 1 = Poisson, below 1 = bursts; 1 / (coefficient of variation)². [-]"""
    requests: int = 200
    """Requests that count. [requests]"""
    warmup: int = 0
    """Requests sent before them, which do not count. [requests]"""
    duration_s: float = 60.0
    """No request is sent after this time. [s]"""

    @property
    def level(self) -> float:
        """Rate or concurrency, whichever is set."""
        return self.rate_per_s if self.rate_per_s is not None else float(self.concurrency or 0)


class ServerState(SparseRecord, kw_only=True):
    """What the server said of itself while it was measured; what it does not export is absent."""

    engine: str
    running: float | None = None
    """Requests in its batch, the most seen. [requests]"""
    waiting: float | None = None
    """Requests in its queue, the most seen. [requests]"""
    kv_used: float | None = None
    """Share of its cache in use, the most seen. [-]"""
    prompt_tokens: float | None = None
    """Read during the measurement, by its own counter. [tokens]"""
    output_tokens: float | None = None
    """Written during the measurement, by its own counter. [tokens]"""
    preemptions: float | None = None
    cached_share: float | None = None
    """Of the prompt tokens that came during the measurement, those in its prefix cache, by its own counters. [-]"""


class Point(SparseRecord, kw_only=True):
    """One load and what came of it; warm-up is left out, failures count in nothing but their own number."""

    rate_per_s: float | None = None
    """Offered, in an open loop. [requests/s]"""
    concurrency: float | None = None
    """Held, in a closed loop. [requests]"""
    requests: int | None = None
    """Sent. [requests]"""
    completed: int
    failures: dict[str, int] = {}
    """Requests that failed, by kind."""
    duration_s: float | None = None
    """From the first request to the last token. [s]"""
    arrivals_s: float | None = None
    """From the first request to the last one sent. [s]"""
    prompt_tokens: float | None = None
    """Mean of a request. [tokens]"""
    output_tokens: float | None = None
    """Mean of a request. [tokens]"""
    output_least: float | None = None
    """Shortest answer. [tokens]"""
    output_most: float | None = None
    """Longest answer. [tokens]"""
    requests_per_s: float | None = None
    output_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    goodput_per_s: float | None = None
    """Requests per second that met every objective. [requests/s]"""
    ttft_s: Latency | None = None
    tpot_s: Latency | None = None
    itl_s: Latency | None = None
    e2e_s: Latency | None = None
    client_delay_s: float | None = None
    """The measuring client's own delay, p99. [s]"""
    cached_share: float | None = None
    """Of the prompt tokens, those that the server took from its prefix cache; absent = it does not say. [-]"""
    stopped: str | None = None
    """Why it ended before its bounds."""
    server: ServerState | None = None

    @property
    def level(self) -> float:
        """Offered rate or held concurrency, whichever is known."""
        return self.rate_per_s if self.rate_per_s is not None else (self.concurrency or 0.0)

    @property
    def computed_tokens(self) -> float | None:
        """Mean prompt without what a prefix cache had of it. [tokens]"""
        return None if self.prompt_tokens is None else self.prompt_tokens * (1.0 - (self.cached_share or 0.0))

    @property
    def failed(self) -> int:
        """Requests that failed. [requests]"""
        return sum(self.failures.values())

    def seen(self, latency: str, percentile: float) -> float | None:
        """A latency by its field's name, at the reported percentile at or next above the wanted one. [s]"""
        found: Latency | None = getattr(self, latency)
        return None if found is None else found.at_least(percentile)


class Knee(SparseRecord, kw_only=True):
    """Where more load stops paying."""

    by: Literal["rate", "concurrency"]
    level: float
    """The highest load that is still sustained and meets the objectives. [requests/s or requests]"""
    requests_per_s: float
    output_tokens_per_s: float | None = None
    turns_at: float | None = None
    """Of a closed loop: requests at once where latency stops setting the rate and the server does. [requests]"""
    first_bad: float | None = None
    """The lowest load above it that was tried and is not sustained; absent when none was reached."""
    limit: str
    """What binds above it: "throughput", "queue", "ttft", "tpot", "e2e", "errors"; "none" when nothing did."""
    reason: str


def turning_point(points: Iterable[Point]) -> float | None:
    """
    Requests at once where a closed loop's two bounds meet: N* = X_max N_1 / X_1. [requests]

    Up to there each client adds its own rate, X_1 / N_1 of the lowest level; beyond, the server's most, X_max, is
    shared (asymptotic bounds: Lazowska and others, Quantitative System Performance, 1984, chapter 5). It lies between
    levels, and a level more or less moves it little. Nothing without two levels.
    """
    rates = sorted((point.level, point.requests_per_s) for point in points if point.requests_per_s)
    if len({level for level, _ in rates}) < 2:
        return None
    lowest, alone = rates[0]
    return max(rate for _, rate in rates) * lowest / alone


class Measurement(SparseRecord, kw_only=True):
    """A measurement of a serving endpoint, by whichever tool."""

    schema: str
    tool: str
    tool_version: str | None = None
    model: str | None = None
    url: str | None = None
    date: str | None = None
    slo: Slo = Slo()
    points: tuple[Point, ...]
    knee: Knee | None = None
    stopped: str | None = None
    """Why the whole run ended early."""
    notes: tuple[str, ...] = ()

    @property
    def disowned(self) -> str | None:
        """The note of the run itself that forbids its numbers; nothing where there is none."""
        return forbidden(self.notes)


def refuse_disowned(found: Measurement) -> None:
    """
    Nothing, where a measurement stands by its numbers.

    Raises
    ------
    BadRequest
        Its own note forbids them.
    """
    if found.disowned:
        said = " ".join(map(echo, found.disowned.rstrip(".").split()))[:LONGEST]
        raise BadRequest(f"measure again, since the measurement's own note forbids its numbers: {said}")


class Capacity(SparseRecord, kw_only=True):
    """Replicas for a load, from what one replica was measured to sustain."""

    schema: str
    replicas: int
    needed: int
    """Replicas the peak needs; the rest are spare."""
    spare: int
    peak_per_s: float
    """[requests/s]"""
    usable_per_s: float
    """Of one replica, with the headroom kept free. [requests/s]"""
    sustained_per_s: float
    """Of one replica, as measured. [requests/s]"""
    level: float
    """The measured load that this is taken from, rate or concurrency."""
    headroom: float
    reasons: tuple[str, ...] = ()


HISTORY_SCHEMA = "tonnage.history/1"


class Entry(SparseRecord, kw_only=True):
    """One measurement that was kept."""

    id: int
    kind: str
    """serve, train, device: what its schema names."""
    date: str
    machine: str
    """That measured."""
    model: str | None = None
    subject: str | None = None
    """What was measured: an address, a command, a device."""
    versions: dict[str, str] = {}
    document: msgspec.Raw | None = None
    """The measurement itself, as JSON; absent in a list."""


class History(Record, kw_only=True):
    """Entries, the latest first."""

    place: str
    """Where they are kept, without anything secret."""
    entries: tuple[Entry, ...]
    damaged: tuple[str, ...] = ()
    """What is wrong with rows that cannot be read."""
    schema: str = HISTORY_SCHEMA


class LoadPair(SparseRecord, kw_only=True):
    """One load of two runs: a number of each, and the second over the first."""

    load: str
    name: str
    """ttft_s, tpot_s, output_tokens_per_s; cached_share has no ratio."""
    first: float | None = None
    second: float | None = None
    ratio: float | None = None


class HistoryComparison(SparseRecord, kw_only=True):
    """Two measurements of servers beside each other."""

    schema: str
    sentence: str
    first: Entry
    second: Entry
    differs: tuple[tuple[str, str, str], ...] = ()
    """What was another: its name, and what it was in each."""
    pairs: tuple[LoadPair, ...] = ()
    notes: tuple[str, ...] = ()


COMPARISON_SCHEMA: Final = "tonnage.history_comparison/1"
DEVICE_SCHEMA: Final = "tonnage.device/1"


class Rate(SparseRecord, kw_only=True):
    """One microbenchmark: the best of its repetitions."""

    name: str
    """product, convolution, depthwise, attention, pass, function, pooling, copy, upload, peer copy, start."""
    value: float
    unit: str
    """FLOP/s of products, convolutions and attention; s of `start`, for one operation; bytes/s of all others."""
    dtype: str = ""
    shape: str = ""
    """What ran, as text."""
    repetitions: int = 1


class DeviceMeasurement(SparseRecord, kw_only=True):
    """Every microbenchmark of one device, and what the device says of itself."""

    schema: str
    id: str
    name: str
    kind: str
    """cpu, cuda, rocm, mps, xpu."""
    rates: tuple[Rate, ...]
    memory_bytes: float
    power_w: float | None = None
    threads: int | None = None
    """Of a processor. [threads]"""
    library: str = ""
    """What ran the benchmarks."""
    date: str = ""
    notes: tuple[str, ...] = ()

    @property
    def disowned(self) -> str | None:
        """The note that forbids its rates; nothing where there is none."""
        return forbidden(self.notes)

    def best(self, name: str, dtype: str = "") -> float | None:
        """The highest rate of that name (for one format); absent = not measured."""
        return max((r.value for r in self.rates if r.name == name and dtype in {"", r.dtype}), default=None)
