"""How much load a unit of prefill and decode workers takes within its latency objectives, without simulating.

Prompts and answers do not share steps, so that each side is a queue of its own. On a prefill worker a step of k prompts
takes a + (k - 1) e; while it runs x more arrive per second, so that the next one is longer (a fixed point), and the
worker rests e^(-x T) / x between two of them. A first token waits for what is left of the running step, in the queue of
all prefill workers (Sakasegawa's approximation, with lengths whose logarithm is normal), for its own step, for its
cache to move, and for the next decode step, which shows it. On a decode worker R requests take D(R) per token:
lam = R / (n D(R)). Workers are of tensor parallelism alone: ranks that step together hold each other up.

Against the request-level simulator, up to six tenths of what a unit takes, mean TTFT is within a factor of 2 and TPOT
within 20 % (`tests/simulation/test_pool_capacity.py`). What `capacity` is for replicas, this is for units: it prunes
and ranks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from tonnage.physics.cache import cache_bytes_per_sequence
from tonnage.physics.operators import operator_s
from tonnage.physics.work import Operator
from tonnage.record import Record
from tonnage.simulation.capacity import (
    LONE,
    MOST_BUSY,
    PRECISE,
    Point,
    ReplicaTimes,
    Steady,
    at_concurrency,
    decode_step_s,
    quantile_factor,
)
from tonnage.simulation.step_parts import Placement

if TYPE_CHECKING:
    from tonnage.simulation.encoder import Encoders


TURNS: Final = 12
"""Of the fixed point of a step and the prompts that gather during it."""


class Unit(Record):
    """Workers of both kinds, all of one configuration; `one` is the state of one, under what arrives at all."""

    prefill: int
    decode: int
    transfer_s: float
    """Until the cache of a mean prompt is on the decode worker. [s]"""
    leaves_node: bool = False
    """Caches move over the network: the unit is larger than an instance."""
    encoders: Encoders | None = None
    """Workers that encode images before prompts start."""

    def most(self, one: Steady, top: float) -> float:
        """The largest concurrency of a decode worker that both sides keep up with. [requests]"""
        least = self._most_prompts(one.times) if self.prefill else math.inf
        if self.encoders is not None:
            least = min(least, MOST_BUSY * self.encoders.most)
        if self.rate(one, top) <= least:
            return top
        low, high = LONE, top
        while high / low > PRECISE:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.rate(one, middle) <= least else (low, middle)
        return low

    def at(self, one: Steady, concurrency: float) -> Point:
        """The steady state in which each decode worker has so many requests."""
        point = self._apart(one, concurrency) if self.prefill else self._together(one, concurrency)
        if self.encoders is None:
            return point
        share = one.load.slo.percentile / 100.0
        delay, beyond = self.encoders.first_s(point.rate_per_s, dispersion=one.load.dispersion, share=share)
        mean = point.ttft_mean_s + delay
        tail = mean + math.hypot(point.ttft_tail_s - point.ttft_mean_s, beyond)
        later = tail - point.ttft_tail_s
        return replace(point, ttft_mean_s=mean, ttft_tail_s=tail, e2e_tail_s=point.e2e_tail_s + later)

    def _together(self, one: Steady, concurrency: float) -> Point:
        """Workers that compute prompts and answers, as replicas do."""
        point = at_concurrency(one.times, one.load, concurrency=concurrency)
        return replace(point, rate_per_s=point.rate_per_s * self.decode, concurrency=concurrency * self.decode)

    def _apart(self, one: Steady, concurrency: float) -> Point:
        """Prompts on workers of their own."""
        times, load = one.times, one.load
        step_s, rate = decode_step_s(times, concurrency), self.rate(one, concurrency)
        z = quantile_factor(load.slo.percentile)
        crowded = decode_step_s(times, concurrency + z * math.sqrt(concurrency * load.dispersion))
        own_s, wait_s, beyond_s = self._first(one, rate / self.prefill)
        share = load.slo.percentile / 100.0
        mean = times.request_s + own_s + wait_s + self.transfer_s + step_s / 2.0
        longer = times.prefill_tail_s - times.prefill_s
        tail = mean + math.hypot(beyond_s, longer, step_s * (share - 0.5))
        return Point(
            rate_per_s=rate,
            concurrency=concurrency * self.decode,
            tpot_mean_s=step_s,
            tpot_tail_s=crowded,
            ttft_mean_s=mean,
            ttft_tail_s=tail,
            e2e_tail_s=tail + crowded * max(0.0, load.output_tail_tokens - 1.0),
        )

    def rate(self, one: Steady, concurrency: float) -> float:
        """Requests that leave the decode workers. [1/s]"""
        if not self.prefill:
            return self._together(one, concurrency).rate_per_s
        tokens = max(1.0, one.load.output_tokens - 1.0)
        return self.decode * concurrency / (tokens * decode_step_s(one.times, concurrency))

    def _most_prompts(self, times: ReplicaTimes) -> float:
        """What the prefill workers keep up with. [1/s]"""
        alone, more, room = _step(times)
        return MOST_BUSY * self.prefill * room / (alone + (room - 1.0) * more)

    def _first(self, one: Steady, rate: float) -> tuple[float, float, float]:
        """Own step, mean wait before it, and how far the percentile of the wait lies beyond its mean. [s]"""
        alone, more, room = _step(one.times)
        longest = alone + (room - 1.0) * more
        step = alone
        for _ in range(TURNS):
            gathered = rate * step
            step = min(longest, alone + more * (gathered - 1.0 + math.exp(-gathered)))
        gathered = rate * step
        busy = step / (step + math.exp(-gathered) / max(rate, 1e-12))
        share, uneven = one.load.slo.percentile / 100.0, _uneven(one)
        each = longest / room
        used = min(MOST_BUSY, rate * each)
        waits = math.pow(used, math.sqrt(2.0 * (self.prefill + 1.0)) - 1.0) / (self.prefill * (1.0 - used))
        queue = each * waits * (one.load.dispersion + uneven * uneven) / 2.0
        rest = busy * step / 2.0 if room > 1.0 else 0.0
        wait = rest + queue
        # What is left of a running step is spread evenly, a queue of prompts exponentially.
        tail = rest * (2.0 * share - 1.0) + queue * (math.log(1.0 / (1.0 - share)) - 1.0)
        return alone + busy * more * min(gathered, room - 1.0), wait, tail


def _step(times: ReplicaTimes) -> tuple[float, float, float]:
    """A prompt alone, one more in its step, and how many a step holds. [s, s, prompts]"""
    alone = times.prefill_s - times.request_s
    return alone, min(alone, times.prefill_work_s), max(1.0, 1.0 / times.step_share)


def _uneven(one: Steady) -> float:
    """Standard deviation of a prompt's time over its mean, of lengths whose logarithm is normal. [-]"""
    z = quantile_factor(one.load.slo.percentile)
    ratio = one.times.prefill_tail_s / one.times.prefill_s
    sigma = z - math.sqrt(max(0.0, z * z - 2.0 * math.log(max(1.0, ratio))))
    return math.sqrt(math.expm1(sigma * sigma))


def one_transfer_s(placement: Placement, tokens: float, *, leaves_node: bool = True) -> float:
    """Seconds for the cache of so many tokens from the ranks that made it to their peers."""
    p = placement
    kept = cache_bytes_per_sequence(p.model, p.precision.kv, layout=p.layout, context=tokens)
    move = Operator(kind="point_to_point", name="cache", message_bytes=kept, ranks=2, inter_node=leaves_node)
    return operator_s(move, accelerator=p.accelerator, ladder=p.ladder)[0]


def cache_transfer_s(placement: Placement, prompt: Any, *, leaves_node: bool = True) -> Any:
    """
    Seconds for each prompt's cache from the ranks that made it to their peers: affine in its length.

    Over the network, unless both pools lie within one node.
    """
    mean = max(1.0, float(prompt.mean()))
    own = one_transfer_s(placement, mean, leaves_node=leaves_node)
    slope = (one_transfer_s(placement, 2.0 * mean, leaves_node=leaves_node) - own) / mean
    return own + slope * (prompt - mean)
