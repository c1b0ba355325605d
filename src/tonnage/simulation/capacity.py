"""How much load one replica takes within its latency objectives, without simulating.

The steady state of a replica follows from the number of requests that decode together (`mean_step`), so capacity is
one bisection over it. Here are its tails (runs of prompts interrupt answers, short ones most: `_tail_step_s`), the
objectives, and what clients who wait for their answers bring about: N = lam (time to first token + n t) in flight.

Against the request-level simulator, at 30 to 90 % of capacity, half of all tails lie within 20 % and nine tenths within
a factor of 1.7 (log, 2026-11-23). The search prunes and ranks with it; the simulator refines it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from tonnage.domain.requests.common import Slo
from tonnage.record import Record
from tonnage.simulation.mean_step import (
    CLOSE_RATE,
    LEAST,
    MOST_BUSY,
    TURNS,
    MeanStep,
    ReplicaLoad,
    ReplicaTimes,
    decode_step_s,
    flow_at_rate,
    mean_step,
)

if TYPE_CHECKING:
    from tonnage.simulation.disaggregated import Unit

CLOSE: Final = 1e-3
"""Of those among clients who decode, when they are found. [-]"""
_QUEUED: Final = 0.01
"""Of the clients: more that neither decode nor wait in a queue that has an end wait in one that has none. [-]"""
_FULL: Final = (1.0, 0.75, 0.5, 0.25)
"""Of the slots: clients among whom the most is looked for. [-]"""
LONE: Final = 0.01
"""In flight where a request is as good as alone. [requests]"""
WINDOW_REQUESTS: Final = 5.0
"""Of the second over which burstiness is counted, at the rate where it is published. [requests]"""
PRECISE: Final = 1.005
"""A capacity is narrowed to this factor. [-]"""
_STEEP: Final = 1.0
"""Beyond a limit by more than this factor's logarithm, how far says nothing of where the limit is met. [-]"""


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

    def tails(self) -> dict[str, float]:
        """Latencies at the percentile of the objectives, by name. [s]"""
        return {"ttft_s": self.ttft_tail_s, "tpot_s": self.tpot_tail_s, "e2e_s": self.e2e_tail_s}

    def means(self, output_tokens: float) -> dict[str, float]:
        """Mean latencies of answers of so many tokens, by name. [s]"""
        ttft, tpot = self.ttft_mean_s, self.tpot_mean_s
        return {"ttft_s": ttft, "tpot_s": tpot, "e2e_s": ttft + max(0.0, output_tokens - 1.0) * tpot}


def _pace(times: ReplicaTimes, concurrency: float) -> float:
    """Factor on steps at a load by what the user measured. [-]"""
    return interpolated(times.batches, times.pace, concurrency=concurrency) if times.pace else 1.0


def at_concurrency(times: ReplicaTimes, load: ReplicaLoad, *, concurrency: float) -> Point:
    """The steady state in which `concurrency` requests decode together, arrivals being what brings them."""
    return _point(times, load, mean_step(times, load, concurrency=concurrency), concurrency)


def of_clients(times: ReplicaTimes, load: ReplicaLoad, *, clients: float) -> Point:
    """
    The steady state of so many clients that each wait for their answer before they send again, and not in step.

    Who does not decode waits for the first token, as long as Little's law says; those beyond the slots, too.
    `Point.concurrency` is the clients that have a slot.
    """
    seated, decoding, step = step_of_clients(times, load, clients=clients)
    point = _point(times, load, step, decoding)
    missing = seated - decoding - step.rate_per_s * (step.wait_s + step.own_s)
    longer = (clients - seated + (missing if missing > _QUEUED * seated else 0.0)) / point.rate_per_s
    later = {name: getattr(point, name) + longer for name in ("ttft_mean_s", "ttft_tail_s", "e2e_tail_s")}
    point = msgspec.structs.replace(point, concurrency=seated, **later)
    return msgspec.structs.replace(point, rate_per_s=clients / point.means(load.output_tokens)["e2e_s"])


def step_of_clients(times: ReplicaTimes, load: ReplicaLoad, *, clients: float) -> tuple[float, float, MeanStep]:
    """Clients that have a slot, those among them that decode, and the mean step that they bring about. [requests]"""
    seated = min(clients, load.max_concurrency, times.batches[-1])
    low, high, step = 0.0, seated, None
    # Clients beyond those seated, at both ends; the second as if a twentieth waited. And which end moved last.
    fewer, more, last = -seated, seated / 19.0, 0.0
    while high - low > CLOSE * high:
        # Where the line between both ends crosses zero, and never nearer to an end than a fiftieth (Illinois rule).
        decoding = low + (high - low) * min(0.98, max(0.02, fewer / (fewer - more)))
        step = mean_step(times, load, concurrency=decoding, clients=seated, near=step)
        beyond = step.rate_per_s * (step.wait_s + step.own_s) + decoding - seated
        if abs(beyond) < CLOSE * seated and not step.endless:
            break
        # Prompts that come as fast as they go queue as long as clients are left.
        if step.endless or beyond > 0.0:
            high, more = decoding, max(beyond, CLOSE * seated)
            fewer, last = fewer / (2.0 if last > 0.0 else 1.0), 1.0
        else:
            low, fewer = decoding, beyond
            more, last = more / (2.0 if last < 0.0 else 1.0), -1.0
    assert step is not None
    return seated, decoding, step


def _point(times: ReplicaTimes, load: ReplicaLoad, step: MeanStep, concurrency: float) -> Point:
    """What requests see of the steps in which so many decode, at the pace that was measured."""
    ttft_mean = step.wait_s + step.own_s
    ttft_tail = ttft_mean + math.hypot(step.wait_s * step.tail, times.prefill_tail_s - times.prefill_s)
    pace = _pace(times, concurrency)
    first = pace * interpolated(times.batches, times.first, concurrency=concurrency) if times.first else pace
    ttft_mean, ttft_tail, tpot_mean = ttft_mean * first, ttft_tail * first, step.token_s * pace
    tokens, long = (max(0.0, n - 1.0) for n in (load.output_tokens, load.output_tail_tokens))
    # Long answers meet the mean step, whatever short ones meet.
    e2e_tail = ttft_mean + tokens * tpot_mean + math.hypot(ttft_tail - ttft_mean, (long - tokens) * tpot_mean)
    return Point(
        rate_per_s=step.rate_per_s / pace,
        concurrency=concurrency,
        tpot_mean_s=tpot_mean,
        tpot_tail_s=_tail_step_s(times, load, step, concurrency) * pace,
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
    crowded = decode_step_s(times, concurrency + math.sqrt(concurrency * load.dispersion))
    crowded -= decode_step_s(times, concurrency)
    if added <= 0.0:
        return step.token_s + z * crowded
    each, bursts = times.prefill_work_s, load.dispersion - 1.0
    # Who comes in a burst sees that many times the mean rate.
    seen = 1.0 + bursts / WINDOW_REQUESTS
    piece = times.chunk_s or step.first_s
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
    return max(step.token_s, total + math.hypot(max(0.0, beyond), z * crowded))


def busy_at_rate(times: ReplicaTimes, load: ReplicaLoad, *, rate_per_s: float, most: float) -> float | None:
    """Requests that decode together where so many arrive in a second; none where they would be `most`, or more."""
    flow, busy, before = None, 0.0, 0.0
    for turn in range(TURNS):
        rate = rate_per_s * _pace(times, busy)
        flow = flow_at_rate(times, load, concurrency=busy, rate=rate, clients=None, before=flow)
        found = rate * load.later_tokens * flow.token_s
        if found >= most:
            return None
        grown, last = found - busy, busy - before
        if abs(grown) < CLOSE_RATE * found:
            return found
        before = busy
        # Each turn adds a share of what the one before added: every third goes to the end of that series.
        share = grown / last if last > 0.0 else 0.0
        busy = found if turn % 3 < 2 or not 0.0 < share < 0.9 else min(most, busy + grown / (1.0 - share))
    return busy


class Steady(Record):
    """A replica, or a unit of workers, and its load: the steady states that it may be in."""

    times: ReplicaTimes
    load: ReplicaLoad
    unit: Unit | None = None
    """Workers in the replica's place, whose times these are of one."""

    def means(self, point: Point) -> dict[str, float]:
        """Mean latencies of its answers at a point, by name. [s]"""
        return point.means(self.load.output_tokens)

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
        """
        The steady state in which so many requests decode together, on each worker of a unit; or in which so many are in
        flight, where the load states their number (`ReplicaLoad.in_flight`).
        """
        if self.unit is not None:
            return self.unit.at(self, concurrency)
        if self.load.in_flight:
            return of_clients(self.times, self.load, clients=concurrency)
        return at_concurrency(self.times, self.load, concurrency=concurrency)

    def search(self) -> Callable[[float], Point]:
        """`at`, for loads of which each is near the one before: it is searched from there."""
        if self.unit is not None or self.load.in_flight:
            return self.at
        step = None

        def at(concurrency: float) -> Point:
            nonlocal step
            step = mean_step(self.times, self.load, concurrency=concurrency, near=step)
            return _point(self.times, self.load, step, concurrency)

        return at

    @property
    def full(self) -> Point:
        """The most that it takes, of clients that leave no slot empty or of fewer; nobody's wait for one is counted."""
        if self.unit is not None:
            return self.at(self.most)
        # Answers that fill a step's budget leave prompts no room: fewer of them may bring more.
        loads = (of_clients(self.times, self.load, clients=max(LONE, share * self.most)) for share in _FULL)
        best = next(loads)
        for point in loads:
            if point.rate_per_s <= best.rate_per_s:
                break
            best = point
        return best

    def at_rate(self, rate_per_s: float) -> tuple[Point, bool]:
        """
        What requests see at a rate, and whether the rate is as much as the replica takes, or more.

        Where it is, the steady state is that of the full replica, at the lower rate that belongs to it.
        """
        most = self.most
        if self.unit is None:
            busy = busy_at_rate(self.times, self.load, rate_per_s=rate_per_s, most=most)
            if busy is None:
                return self.full, True
            busy = max(busy, LEAST)
            step = mean_step(self.times, self.load, concurrency=busy)
            if step.endless:
                return self.full, True
            point = _point(self.times, self.load, step, busy)
            return msgspec.structs.replace(point, rate_per_s=rate_per_s), False
        unit = self.unit
        if unit.rate(self, most) <= rate_per_s:
            return self.full, True
        _, busy = narrowed(LONE / 10.0, most, beyond=lambda load: math.log(unit.rate(self, load) / rate_per_s))
        return self.at(busy), False

    def largest(self, known: dict[float, Point] | None = None) -> tuple[Point, str] | tuple[None, str]:
        """
        The highest load that meets every objective, and what stops it.

        Parameters
        ----------
        known : dict of float to Point, optional
            Concurrency -> the steady state there, filled as it is computed: whoever asks again under other objectives,
            all else alike, keeps it, and the search begins between those that are known.

        Returns
        -------
        (Point, str)
            The steady state at capacity and the limit that binds there: "kv" (the concurrency limit), "prefill" (of a
            unit, its workers for prompts), "ttft", "tpot" or "e2e". (None, limit) when even a single request misses an
            objective.
        """
        seen, found = {} if known is None else known, self.search()

        def at(concurrency: float) -> Point:
            if concurrency not in seen:
                seen[concurrency] = found(concurrency)
            return seen[concurrency]

        broken = first_broken(at(LONE), self.load.slo)
        if broken:
            return None, broken
        limits, most = stated(self.load.slo), self.most
        if first_broken(at(most), self.load.slo) is None:
            return self.full, "kv" if most >= self.room else "prefill"

        def beyond(concurrency: float) -> float:
            tails = at(concurrency).tails()
            return max(math.log(tails[name] / limit) for name, limit in limits.items())

        failing = min(load for load, point in seen.items() if first_broken(point, self.load.slo))
        passing = max(load for load in seen if load < failing)
        low, high = narrowed(passing, failing, beyond=beyond)
        # At the very edge a state that is found from another one nearby may come out a hair within.
        limit = first_broken(at(high), self.load.slo) or first_broken(at(failing), self.load.slo)
        assert limit is not None
        return at(low), limit


def narrowed(low: float, high: float, *, beyond: Callable[[float], float]) -> tuple[float, float]:
    """
    Loads within `PRECISE` of each other of which the first is not beyond a limit, and the second is.

    `beyond` is not positive at `low` (which comes twice where it is), and positive at `high`: the logarithm of what is
    found over its limit. In the
    logarithm of the load, by interpolation, truncation and projection (Oliveira and Takahashi, ACM Trans. Math. Softw.
    47, 2020): at most one look more than halving takes, and a third of them where the curve is smooth.

    Examples
    --------
    >>> [round(load, 1) for load in narrowed(0.01, 1000.0, beyond=lambda load: math.log(load / 40.0))]
    [40.0, 40.1]
    >>> narrowed(0.01, 1000.0, beyond=lambda load: math.log(load / 0.005))
    (0.01, 0.01)
    """
    a, b, width = math.log(low), math.log(high), math.log(PRECISE)
    under, over = (min(_STEEP, max(-_STEEP, beyond(end))) for end in (low, high))
    if under > 0.0:
        return low, low
    slack = width * 2.0 ** math.ceil(math.log2(max(1.0, (b - a) / width)))
    first = b - a
    while b - a > width:
        middle, straight = (a + b) / 2.0, (b * under - a * over) / (under - over)
        toward = math.copysign(1.0, middle - straight)
        cut = 0.2 * (b - a) ** 2 / first
        tried = straight + toward * cut if cut <= abs(middle - straight) else middle
        room = max(0.0, slack - (b - a) / 2.0)
        tried = tried if abs(tried - middle) <= room else middle - toward * room
        value = min(_STEEP, max(-_STEEP, beyond(math.exp(tried))))
        (a, under), (b, over) = ((tried, value), (b, over)) if value <= 0.0 else ((a, under), (tried, value))
        slack /= 2.0
    return math.exp(a), math.exp(b)


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
