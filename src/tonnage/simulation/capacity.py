"""How much load one replica takes within its latency objectives, without simulating.

A mean field in closed form. In steady state R requests decode together; while they do, prompts
arrive at rate lam and each takes S seconds of the replica away from decoding. With D(R) the
decode step of R requests and n output tokens per request:

    time per token   T = D(R) / (1 - lam S)
    Little's law     R = lam n T        =>     lam = R / (n D(R) + R S)

so the arrival rate follows from R without iteration, and every latency grows with R: capacity is
one bisection. First tokens wait for the running step and for prompts ahead of them (M/G/1 with
Kingman's factor for burstiness); per-request TPOT spreads because prompts interrupt it a Poisson
number of times.

Good to 5-10 % on TPOT away from saturation and crude on the tail of TTFT: the search prunes and
ranks with it; the request-level simulator refines it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import msgspec

__all__ = [
    "LONE",
    "MOST_BUSY",
    "Point",
    "ReplicaLoad",
    "ReplicaTimes",
    "at_concurrency",
    "at_rate",
    "largest_concurrency",
    "quantile_factor",
]


LONE: Final = 0.01
"""In flight where a request is as good as alone. [requests]"""
MOST_BUSY: Final = 0.999
"""Share of time that prompts may take at most: beyond it queues have no end. [-]"""


class ReplicaTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Step times of one replica: decode steps at a few batch sizes, and the prompt's own time."""

    batches: tuple[float, ...]
    """Increasing batch sizes at which the decode step is known. [requests]"""
    decode_s: tuple[float, ...]
    """Decode step at those sizes and the mean context. [s]"""
    prefill_s: float
    """One mean prompt alone, first token included. [s]"""
    prefill_tail_s: float
    """One prompt of the objectives' percentile. [s]"""
    prefill_work_s: float
    """What one mean prompt takes away from decoding when it shares steps. [s]"""
    step_share: float = 1.0
    """Steps' token budgets that one mean prompt fills: below 1, several prompts ride on one decode step. [-]"""


class ReplicaLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What arrives and what is allowed: lengths, burstiness, objectives, the most requests at once."""

    output_tokens: float
    output_tail_tokens: float
    dispersion: float = 1.0
    """Variance over mean of arrivals in a second; 1 = Poisson. [-]"""
    percentile: float = 95.0
    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    max_concurrency: float = math.inf
    """KV cache and batch limits. [requests]"""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """The steady state at one load."""

    rate_per_s: float
    concurrency: float
    tpot_mean_s: float
    tpot_tail_s: float
    ttft_mean_s: float
    ttft_tail_s: float
    e2e_tail_s: float


def at_concurrency(times: ReplicaTimes, load: ReplicaLoad, *, concurrency: float) -> Point:
    """The steady state in which `concurrency` requests decode together."""
    decode_s = _interpolate(times, concurrency)
    tokens = max(1.0, load.output_tokens - 1.0)
    rate = concurrency / (tokens * decode_s + concurrency * times.prefill_work_s)
    busy = min(rate * times.prefill_work_s, MOST_BUSY)
    tpot = decode_s / (1.0 - busy)
    spread = quantile_factor(load.percentile)
    interruptions = rate * tokens * tpot
    tpot_tail = tpot + spread * math.sqrt(interruptions * load.dispersion) * times.prefill_work_s / tokens
    # Prompts are the queue; the decode step they ride on is their overhead, shared by all that fill its budget.
    service = times.prefill_work_s + decode_s * times.step_share
    prompts_busy = min(rate * service, MOST_BUSY)
    queue_mean = (load.dispersion + 1.0) / 2.0 * prompts_busy / (1.0 - prompts_busy) * service
    queue_tail = _tail_of_wait(queue_mean, prompts_busy, load.percentile)
    ttft_mean = decode_s / 2.0 + queue_mean + times.prefill_s
    variation = math.hypot(queue_tail - queue_mean, times.prefill_tail_s - times.prefill_s)
    ttft_tail = ttft_mean + max(0.0, variation)
    e2e_tail = ttft_tail + tpot_tail * max(0.0, load.output_tail_tokens - 1.0)
    return Point(
        rate_per_s=rate,
        concurrency=concurrency,
        tpot_mean_s=tpot,
        tpot_tail_s=tpot_tail,
        ttft_mean_s=ttft_mean,
        ttft_tail_s=ttft_tail,
        e2e_tail_s=e2e_tail,
    )


def largest_concurrency(
    times: ReplicaTimes, load: ReplicaLoad, *, known: dict[float, Point] | None = None
) -> tuple[Point, str] | tuple[None, str]:
    """
    The highest load that meets every objective, and what stops it.

    Parameters
    ----------
    times : ReplicaTimes
    load : ReplicaLoad
    known : dict of float to Point, optional
        Concurrency -> the steady state there, filled as it is computed: whoever asks again under other objectives, all
        else alike, keeps it, because the bisection halves the same interval.

    Returns
    -------
    (Point, str)
        The steady state at capacity and the limit that binds there: "kv" (the concurrency limit),
        "ttft", "tpot" or "e2e". (None, limit) when even a single request misses an objective.
    """
    seen = {} if known is None else known

    def at(concurrency: float) -> Point:
        if concurrency not in seen:
            seen[concurrency] = at_concurrency(times, load, concurrency=concurrency)
        return seen[concurrency]

    broken = _broken(at(LONE), load)
    if broken:
        return None, broken
    top = min(load.max_concurrency, times.batches[-1])
    point = at(max(top, LONE))
    limit = _broken(point, load)
    if limit is None:
        return point, "kv"
    low, high = LONE, top
    for _ in range(24):
        middle = math.sqrt(low * high)
        broken = _broken(at(middle), load)
        low, high, limit = (low, middle, broken) if broken else (middle, high, limit)
        if high / low < 1.005:
            break
    return at(low), limit


def at_rate(times: ReplicaTimes, load: ReplicaLoad, *, rate_per_s: float) -> Point:
    """The steady state at an arrival rate below capacity, by bisection on concurrency."""
    low, high = 1e-3, min(load.max_concurrency, times.batches[-1])
    for _ in range(30):
        middle = math.sqrt(low * high)
        if at_concurrency(times, load, concurrency=middle).rate_per_s < rate_per_s:
            low = middle
        else:
            high = middle
        if high / low < 1.002:
            break
    point = at_concurrency(times, load, concurrency=high)
    return msgspec.structs.replace(point, rate_per_s=min(rate_per_s, point.rate_per_s))


@lru_cache(maxsize=64)
def quantile_factor(percentile: float) -> float:
    """
    Standard deviations from the mean to a percentile of the normal distribution.

    Rational approximation 26.2.23 of Abramowitz and Stegun, error below 4.5e-4, for 50 <= p < 100.

    Examples
    --------
    >>> round(quantile_factor(95.0), 2)
    1.65
    """
    tail = 1.0 - percentile / 100.0
    t = math.sqrt(-2.0 * math.log(tail))
    numerator = 2.515517 + t * (0.802853 + t * 0.010328)
    denominator = 1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    return t - numerator / denominator


def _tail_of_wait(mean: float, probability: float, percentile: float) -> float:
    """Delayed customers wait roughly exponentially: p95 = (W / P_wait) ln(P_wait / 0.05), 0 when few wait."""
    tail = 1.0 - percentile / 100.0
    if probability <= tail or mean == 0.0:
        return mean
    return mean / probability * math.log(probability / tail)


def _broken(point: Point, load: ReplicaLoad) -> str | None:
    if load.tpot_s is not None and point.tpot_tail_s > load.tpot_s:
        return "tpot"
    if load.ttft_s is not None and point.ttft_tail_s > load.ttft_s:
        return "ttft"
    if load.e2e_s is not None and point.e2e_tail_s > load.e2e_s:
        return "e2e"
    return None


def _interpolate(times: ReplicaTimes, batch: float) -> float:
    """Decode step at a batch size, linear between the known ones: steps are affine in the batch piecewise."""
    sizes, seconds = times.batches, times.decode_s
    if batch <= sizes[0]:
        return seconds[0]
    for i in range(1, len(sizes)):
        if batch <= sizes[i]:
            share = (batch - sizes[i - 1]) / (sizes[i] - sizes[i - 1])
            return seconds[i - 1] + share * (seconds[i] - seconds[i - 1])
    return seconds[-1] * batch / sizes[-1]
