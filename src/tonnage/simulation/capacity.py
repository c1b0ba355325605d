"""How much load one replica takes within its latency objectives, without simulating.

A mean field in closed form. In steady state R requests decode together, each for n steps, so that a
step finds R / n new prompts on average (Little's law: T being the mean step, R = lam n T), in Poisson
numbers. With D(R) the decode step and X(k) what k prompts add to it (at least X(1)):

    time per token   T = D(R) + E[X(K)],  K ~ Poisson(R / n)
    arrival rate     lam = R / (n T)

so the rate follows from R without iteration, and capacity is one bisection. A first token waits for
what is left of the running step, E[T^2] / 2 E[T], then for its own step, which carries the prompts that
came in the meantime too; a long step gathers more prompts for the next, so that variance grows by
1 / (1 - rho^2). Where a step's budget holds few prompts they queue for it (Sakasegawa's approximation).
Prompts of different lengths add their variance to that of their number. Per-request TPOT spreads because runs of
prompts interrupt it, short answers most (`_tail_step_s`).

Against the request-level simulator, at 30 to 90 % of capacity, half of all tails lie within 20 % and nine tenths within
a factor of 1.7 (log, 2026-11-23); mean TTFT is within 15 % and TPOT within 20 % below 70 %
(`tests/core/test_replica.py`). The search prunes and ranks with it; the simulator refines it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from tonnage.domain.requests.common import Slo
from tonnage.record import Record

if TYPE_CHECKING:
    from tonnage.simulation.disaggregated import Unit

LONE: Final = 0.01
"""In flight where a request is as good as alone. [requests]"""
_FEW: Final = 64
"""Prompts of a step up to which their numbers are looked at one by one. [-]"""
WINDOW_REQUESTS: Final = 5.0
"""Of the second over which burstiness is counted, at the rate where it is published. [requests]"""
MOST_BUSY: Final = 0.999
"""Share of time that prompts may take at most: beyond it queues have no end. [-]"""
PRECISE: Final = 1.005
"""A capacity is narrowed to this factor. [-]"""


class ReplicaTimes(Record, kw_only=True):
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
    """What one more mean prompt adds to a step that many share. [s]"""
    prefill_first_s: float = 0.0
    """The least that prompts add to a step: one alone, which may wait for its launch or for the weights. [s]"""
    free_s: float = 0.0
    """Of the prompts of a step: what a decode step of few requests has left over, as it waits for memory. [s]"""
    free_batch: float = 0.0
    """Decodes that use this up. [requests]"""
    request_s: float = 0.0
    """Of a prompt alone: what it waits for before it enters a step. [s]"""
    ahead: float = 0.0
    """Steps that were prepared before a request came, behind the one that runs. [steps]"""
    separate: bool = False
    """Prompts have steps of their own, and decodes wait for them."""
    step_share: float = 1.0
    """Steps' token budgets that one mean prompt fills: below 1, several prompts ride on one decode step. [-]"""
    prefill_uneven: float = 0.0
    """Variance of a prompt's work over the square of its mean: lengths that spread. [-]"""
    chunk_s: float = 0.0
    """What a step with a piece of a prompt adds, each weighted with its time; 0 = a mean prompt's. [s]"""
    pace: tuple[float, ...] = ()
    """At the batches: factor on all times, as measured; empty = 1. [-]"""
    first: tuple[float, ...] = ()
    """At the batches: further factor on the time to the first token. [-]"""


class ReplicaLoad(Record, kw_only=True):
    """What arrives and what is allowed: lengths, burstiness, objectives, the most requests at once."""

    output_tokens: float
    """Of a mean request. [tokens]"""
    output_tail_tokens: float
    """Of a request at the objectives' percentile. [tokens]"""
    answers: tuple[tuple[float, float], ...] = ()
    """How answers spread: share of the requests, and tokens after the first; empty = all alike. [-, tokens]"""
    dispersion: float = 1.0
    """Variance over mean of arrivals in a second; 1 = Poisson. [-]"""
    slo: Slo = Slo()
    max_concurrency: float = math.inf
    """KV cache and batch limits. [requests]"""


class Point(Record, kw_only=True):
    """The steady state at one load: means over requests, and tails, which are at the percentile of the objectives."""

    rate_per_s: float
    """Requests that arrive, and are answered. [1/s]"""
    concurrency: float
    """Requests that decode together. [requests]"""
    tpot_mean_s: float
    tpot_tail_s: float
    ttft_mean_s: float
    ttft_tail_s: float
    e2e_tail_s: float

    def means(self, output_tokens: float) -> dict[str, float]:
        """Mean latencies of answers of so many tokens, by name. [s]"""
        ttft, tpot = self.ttft_mean_s, self.tpot_mean_s
        return {"ttft_s": ttft, "tpot_s": tpot, "e2e_s": ttft + max(0.0, output_tokens - 1.0) * tpot}


class MeanStep(NamedTuple):
    """The mean step of a steady state, and what a new request waits for."""

    decode_s: float
    """Without prompts. [s]"""
    total_s: float
    """With what prompts add: the time per token. [s]"""
    rate_per_s: float
    wait_s: float
    """To the end of the running step and of those prepared, and for the prompts that came with it. [s]"""
    own_s: float
    """From entering a step to the first token, and what comes before the engine's queue. [s]"""
    tail: float
    """How far the percentile of the wait lies above its mean, over the mean. [-]"""


def mean_step(times: ReplicaTimes, load: ReplicaLoad, *, concurrency: float) -> MeanStep:
    """The mean step in which `concurrency` requests decode together, and the wait for it (see above)."""
    decode_s = decode_step_s(times, concurrency)
    prompts = concurrency / max(1.0, load.output_tokens - 1.0)
    first, added, square = _prompts_beside(times, concurrency, prompts=prompts, dispersion=load.dispersion)
    total = decode_s + added
    rate = prompts / total
    busy = min(rate * times.prefill_work_s, MOST_BUSY)
    variance = max(0.0, square - added * added) / (1.0 - busy * busy)
    seen = total + variance / total
    wait = (
        seen * (0.5 + busy)
        + decode_s * times.ahead
        + total * _wait_for_budget(prompts, times.step_share, load.dispersion)
    )
    beside = 0.0 if times.separate else decode_s * max(1.0, times.step_share)
    own = max(times.prefill_s, times.request_s + first + beside)
    share = load.slo.percentile / 100.0
    uneven = min(1.0, variance / (total * total))
    # What is left of equal steps is spread evenly; of very different ones, exponentially, and of these only those who
    # come while prompts are computed wait for more than a step of answers.
    late = 1.0 - share
    pieces = -math.expm1(-prompts * max(1.0, times.step_share))
    met = min(1.0, max(late, pieces * (decode_s + (times.chunk_s or first)) / total))
    tail = (1.0 - uneven) * (2.0 * share - 1.0) + uneven * (math.log(met / late) / met - 1.0)
    return MeanStep(decode_s, total, rate, wait, own, tail)


def _prompts_beside(
    times: ReplicaTimes, concurrency: float, *, prompts: float, dispersion: float
) -> tuple[float, float, float]:
    """What one prompt adds to a step, and the mean and mean square of what they all add. [s, s, s^2]"""
    each = times.prefill_work_s
    free = times.free_s * max(0.0, 1.0 - concurrency / times.free_batch) if times.free_batch else 0.0
    first = max(times.prefill_first_s, each - free)
    none = math.exp(-prompts)
    mean = each * prompts - free * (1.0 - none)
    square = free * free * (1.0 - none) - 2.0 * free * each * prompts
    square += each * each * (prompts * (dispersion + times.prefill_uneven) + prompts * prompts)
    # Steps of so few prompts that they take no less than one alone.
    chance, k = none * prompts, 1
    while (less := each * k - free) < first and k < _FEW:
        mean += chance * (first - less)
        square += chance * (first * first - less * less)
        k += 1
        chance *= prompts / k
    return first, mean, square


def _wait_for_budget(prompts: float, step_share: float, dispersion: float) -> float:
    """Steps that a prompt waits because earlier ones fill the token budget: Sakasegawa's approximation. [steps]"""
    servers = max(1.0, 1.0 / step_share)
    used = min(prompts * step_share, MOST_BUSY)
    return dispersion / 2.0 * math.pow(used, math.sqrt(2.0 * (servers + 1.0)) - 1.0) / (servers * (1.0 - used))


def _pace(times: ReplicaTimes, concurrency: float) -> float:
    """Factor on steps at a load by what the user measured. [-]"""
    return interpolated(times.batches, times.pace, concurrency=concurrency) if times.pace else 1.0


def at_concurrency(times: ReplicaTimes, load: ReplicaLoad, *, concurrency: float) -> Point:
    """The steady state in which `concurrency` requests decode together."""
    step = mean_step(times, load, concurrency=concurrency)
    tpot_tail = _tail_step_s(times, load, step, concurrency)
    ttft_mean = step.wait_s + step.own_s
    variation = math.hypot(step.wait_s * step.tail, times.prefill_tail_s - times.prefill_s)
    ttft_tail = ttft_mean + max(0.0, variation)
    pace = _pace(times, concurrency)
    first = pace * interpolated(times.batches, times.first, concurrency=concurrency) if times.first else pace
    tpot_tail, ttft_mean, ttft_tail = tpot_tail * pace, ttft_mean * first, ttft_tail * first
    tpot_mean = step.total_s * pace
    tokens, long = (max(0.0, n - 1.0) for n in (load.output_tokens, load.output_tail_tokens))
    # Long answers meet the mean step, whatever short ones meet.
    e2e_tail = ttft_mean + tokens * tpot_mean + math.hypot(ttft_tail - ttft_mean, (long - tokens) * tpot_mean)
    return Point(
        rate_per_s=step.rate_per_s / pace,
        concurrency=concurrency,
        tpot_mean_s=tpot_mean,
        tpot_tail_s=tpot_tail,
        ttft_mean_s=ttft_mean,
        ttft_tail_s=ttft_tail,
        e2e_tail_s=e2e_tail,
    )


def _tail_step_s(times: ReplicaTimes, load: ReplicaLoad, step: MeanStep, concurrency: float) -> float:
    """
    The percentile, over requests, of their mean time per token after the first. [s]

    Prompts that share steps come in runs: pieces of one, and those that queued behind it. An answer begins where its
    own prompt ended, so that a short one meets such a run more often than its share of steps, and is made of it; a long
    one meets many and comes near the mean. Of answers of n tokens: mean m = a + (h - a) (1 - e^(-n / r)) r / n, a being
    what a mean step adds, h the first one after a prompt and r the steps of a run; variance between that of a step that
    adds everything or nothing, m (x - m), and that of many runs, s^2 T^3 / (D^2 n) of a compound Poisson process.
    Over all answers the logarithm is taken as normal, and no step adds more than a full budget.
    """
    decode_s, total, rate = step.decode_s, step.total_s, step.rate_per_s
    z, added = quantile_factor(load.slo.percentile), total - decode_s
    crowded = decode_step_s(times, concurrency + math.sqrt(concurrency * load.dispersion)) - decode_s
    if added <= 0.0:
        return total + z * crowded
    each, bursts = times.prefill_work_s, load.dispersion - 1.0
    # Who comes in a burst sees that many times the mean rate.
    seen = 1.0 + bursts / WINDOW_REQUESTS
    piece = times.chunk_s or times.prefill_first_s or each
    full = max(piece, each / times.step_share, added)
    most = max(1.001 * added, min(full, piece + each * rate * seen * (decode_s + piece)))
    runs = each * each * (load.dispersion + times.prefill_uneven) * rate * total * (total / decode_s) ** 2
    used = min(MOST_BUSY, seen * added / total)
    start = min(most, decode_s * used / (1.0 - used) * (decode_s + most) / total)
    turn = max(0.5, runs / (2.0 * added * (most - added)))
    wandering = bursts / (bursts + WINDOW_REQUESTS)
    mean = square = 0.0
    for share, tokens in load.answers or ((1.0, max(1.0, load.output_tokens - 1.0)),):
        x = tokens / turn
        mine = min(0.999 * most, added + (start - added) * (1.0 - math.exp(-x)) / x)
        mean += share * mine
        square += share * (mine * mine * (1.0 + wandering) + 1.0 / (1.0 / (mine * (most - mine)) + tokens / runs))
    spread = math.log(square / (mean * mean))
    beyond = min(most, mean * math.exp(z * math.sqrt(spread) - spread / 2.0)) - added
    return total + math.hypot(max(0.0, beyond), z * crowded)


def interpolated(batches: tuple[float, ...], factors: tuple[float, ...], *, concurrency: float) -> float:
    """
    A factor at a load, straight in the logarithms of the load, and that of the nearest end beyond.

    Examples
    --------
    >>> [interpolated((1.0, 4.0), (1.0, 1.2), concurrency=load) for load in (2.0, 9.0)]
    [1.1, 1.2]
    """
    i = min(bisect_left(batches, concurrency), len(batches) - 1)
    if i == 0 or concurrency >= batches[i]:
        return factors[i]
    share = math.log(concurrency / batches[i - 1]) / math.log(batches[i] / batches[i - 1])
    return factors[i - 1] + share * (factors[i] - factors[i - 1])


class Steady(Record):
    """A replica, or a unit of workers, and its load: the steady states that it may be in."""

    times: ReplicaTimes
    load: ReplicaLoad
    unit: Unit | None = None
    """Workers in the replica's place, whose times these are of one."""

    @property
    def room(self) -> float:
        """Requests that cache, engine and the batches that are known allow it. [requests]"""
        return min(self.load.max_concurrency, self.times.batches[-1])

    @property
    def most(self) -> float:
        """The largest concurrency that is looked at. [requests]"""
        top = max(LONE, self.room)
        return top if self.unit is None else self.unit.most(self, top)

    def at(self, concurrency: float) -> Point:
        """The steady state in which so many requests decode together, on each worker of a unit."""
        if self.unit is not None:
            return self.unit.at(self, concurrency)
        return at_concurrency(self.times, self.load, concurrency=concurrency)

    def rate(self, concurrency: float) -> float:
        """What it then takes; the rate of `at`, without its tails. [1/s]"""
        if self.unit is not None:
            return self.unit.rate(self, concurrency)
        step = mean_step(self.times, self.load, concurrency=concurrency)
        return step.rate_per_s / _pace(self.times, concurrency)

    def at_rate(self, rate_per_s: float) -> tuple[Point, bool]:
        """
        What requests see at a rate, and whether the rate is as much as the replica takes, or more.

        Where it is, the steady state is that of the largest concurrency, at the lower rate that belongs to it.
        """
        most = self.most
        if self.rate(most) <= rate_per_s:
            return self.at(most), True
        low, high = LONE / 10.0, most
        while high / low > (1.002 if self.unit is None else PRECISE):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.rate(middle) < rate_per_s else (low, middle)
        point = self.at(high)
        if self.unit is None:
            point = msgspec.structs.replace(point, rate_per_s=min(rate_per_s, point.rate_per_s))
        return point, False

    def largest(self, known: dict[float, Point] | None = None) -> tuple[Point, str] | tuple[None, str]:
        """
        The highest load that meets every objective, and what stops it.

        Parameters
        ----------
        known : dict of float to Point, optional
            Concurrency -> the steady state there, filled as it is computed: whoever asks again under other objectives,
            all else alike, keeps it, because the bisection halves the same interval.

        Returns
        -------
        (Point, str)
            The steady state at capacity and the limit that binds there: "kv" (the concurrency limit), "prefill" (of a
            unit, its workers for prompts), "ttft", "tpot" or "e2e". (None, limit) when even a single request misses an
            objective.
        """
        seen = {} if known is None else known

        def at(concurrency: float) -> Point:
            if concurrency not in seen:
                seen[concurrency] = self.at(concurrency)
            return seen[concurrency]

        broken = first_broken(at(LONE), self.load.slo)
        if broken:
            return None, broken
        low, high = LONE, self.most
        limit = first_broken(at(high), self.load.slo)
        if limit is None:
            return at(high), "kv" if high >= self.room else "prefill"
        while high / low > PRECISE:
            middle = math.sqrt(low * high)
            broken = first_broken(at(middle), self.load.slo)
            low, high, limit = (low, middle, broken) if broken else (middle, high, limit)
        return at(low), limit


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


def stated(slo: Slo) -> dict[str, float]:
    """The objectives that are given, by the latency that they limit. [s]"""
    named = (("ttft_s", slo.ttft_s), ("tpot_s", slo.tpot_s), ("e2e_s", slo.e2e_s))
    return {name: limit for name, limit in named if limit is not None}


def first_broken(point: Point, slo: Slo) -> str | None:
    """The objective that a point misses, TPOT first; none = it meets all."""
    if slo.tpot_s is not None and point.tpot_tail_s > slo.tpot_s:
        return "tpot"
    if slo.ttft_s is not None and point.ttft_tail_s > slo.ttft_s:
        return "ttft"
    if slo.e2e_s is not None and point.e2e_tail_s > slo.e2e_s:
        return "e2e"
    return None


def decode_step_s(times: ReplicaTimes, batch: float) -> float:
    """
    Decode step at a batch size, linear between the known ones: steps are affine in the batch piecewise. [s]

    Below the smallest known batch a step is as long as there; beyond the largest it grows in proportion.
    """
    sizes, seconds = times.batches, times.decode_s
    if batch <= sizes[0]:
        return seconds[0]
    for i in range(1, len(sizes)):
        if batch <= sizes[i]:
            share = (batch - sizes[i - 1]) / (sizes[i] - sizes[i - 1])
            return seconds[i - 1] + share * (seconds[i] - seconds[i - 1])
    return seconds[-1] * batch / sizes[-1]
