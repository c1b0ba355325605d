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
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from tonnage.physics.cache import cache_bytes_per_sequence
from tonnage.physics.operators import operator_s
from tonnage.physics.work import Operator
from tonnage.simulation.capacity import (
    LONE,
    MOST_BUSY,
    Point,
    ReplicaLoad,
    ReplicaTimes,
    Steady,
    decode_step_s,
    first_broken,
    quantile_factor,
)
from tonnage.simulation.step_parts import Placement

if TYPE_CHECKING:
    from tonnage.simulation.encoder import Encoders


TURNS: Final = 12
"""Of the fixed point of a step and the prompts that gather during it."""
PRECISE: Final = 1.005
"""A capacity is narrowed to this factor. [-]"""


class Unit(NamedTuple):
    """Workers of both kinds, all of one configuration, and what arrives at them."""

    one: Steady
    """A worker, and what arrives at the unit."""
    prefill: int
    decode: int
    transfer_s: float
    """Until the cache of a mean prompt is on the decode worker. [s]"""
    leaves_node: bool = False
    """Caches move over the network: the unit is larger than an instance."""
    encoders: Encoders | None = None
    """Workers that encode images before prompts start."""

    @property
    def times(self) -> ReplicaTimes:
        """Of a worker."""
        return self.one.times

    @property
    def load(self) -> ReplicaLoad:
        """What arrives at the unit."""
        return self.one.load

    @property
    def most(self) -> float:
        """The largest concurrency of a decode worker that both sides keep up with. [requests]"""
        top = self.one.most
        least = self._most_prompts() if self.prefill else math.inf
        if self.encoders is not None:
            least = min(least, MOST_BUSY * self.encoders.most)
        if self._rate(top) <= least:
            return top
        low, high = LONE, top
        while high / low > PRECISE:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self._rate(middle) <= least else (low, middle)
        return low

    def at(self, concurrency: float) -> Point:
        """The steady state in which each decode worker has so many requests."""
        point = self._apart(concurrency) if self.prefill else self._together(concurrency)
        if self.encoders is None:
            return point
        share = self.load.slo.percentile / 100.0
        delay, beyond = self.encoders.first_s(point.rate_per_s, dispersion=self.load.dispersion, share=share)
        mean = point.ttft_mean_s + delay
        tail = mean + math.hypot(point.ttft_tail_s - point.ttft_mean_s, beyond)
        later = tail - point.ttft_tail_s
        return replace(point, ttft_mean_s=mean, ttft_tail_s=tail, e2e_tail_s=point.e2e_tail_s + later)

    def _together(self, concurrency: float) -> Point:
        """Workers that compute prompts and answers, as replicas do."""
        one = self.one.at(concurrency)
        return replace(one, rate_per_s=one.rate_per_s * self.decode, concurrency=concurrency * self.decode)

    def _apart(self, concurrency: float) -> Point:
        """Prompts on workers of their own."""
        step_s, rate = decode_step_s(self.times, concurrency), self._rate(concurrency)
        z, load = quantile_factor(self.load.slo.percentile), self.load
        crowded = decode_step_s(self.times, concurrency + z * math.sqrt(concurrency * load.dispersion))
        own_s, wait_s, beyond_s = self._first(rate / self.prefill)
        share = load.slo.percentile / 100.0
        mean = self.times.request_s + own_s + wait_s + self.transfer_s + step_s / 2.0
        longer = self.times.prefill_tail_s - self.times.prefill_s
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

    def at_rate(self, rate_per_s: float) -> tuple[Point, bool]:
        """What requests see at a rate of the unit, and whether it is more than the unit takes: then at its most."""
        most = self.most
        if self._rate(most) <= rate_per_s:
            return self.at(most), True
        low, high = min(LONE, most) / 10.0, most
        while high / low > PRECISE:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self._rate(middle) < rate_per_s else (low, middle)
        return self.at(high), False

    def largest(self) -> tuple[Point, str] | tuple[None, str]:
        """The highest load that meets every objective, and what stops it; none = not even a lone request does."""
        broken = first_broken(self.at(LONE), self.load.slo)
        if broken:
            return None, broken
        low, high = LONE, self.most
        limit = first_broken(self.at(high), self.load.slo)
        if limit is None:
            return self.at(high), "kv" if high >= min(self.load.max_concurrency, self.times.batches[-1]) else "prefill"
        while high / low > PRECISE:
            middle = math.sqrt(low * high)
            broken = first_broken(self.at(middle), self.load.slo)
            low, high, limit = (low, middle, broken) if broken else (middle, high, limit)
        return self.at(low), limit

    def _rate(self, concurrency: float) -> float:
        """Requests that leave the decode workers. [1/s]"""
        if not self.prefill:
            return self._together(concurrency).rate_per_s
        tokens = max(1.0, self.load.output_tokens - 1.0)
        return self.decode * concurrency / (tokens * decode_step_s(self.times, concurrency))

    def _step(self) -> tuple[float, float, float]:
        """A prompt alone, one more in its step, and how many a step holds. [s, s, prompts]"""
        alone = self.times.prefill_s - self.times.request_s
        return alone, min(alone, self.times.prefill_work_s), max(1.0, 1.0 / self.times.step_share)

    def _uneven(self) -> float:
        """Standard deviation of a prompt's time over its mean, of lengths whose logarithm is normal. [-]"""
        z = quantile_factor(self.load.slo.percentile)
        ratio = self.times.prefill_tail_s / self.times.prefill_s
        sigma = z - math.sqrt(max(0.0, z * z - 2.0 * math.log(max(1.0, ratio))))
        return math.sqrt(math.expm1(sigma * sigma))

    def _most_prompts(self) -> float:
        """What the prefill workers keep up with. [1/s]"""
        alone, more, room = self._step()
        return MOST_BUSY * self.prefill * room / (alone + (room - 1.0) * more)

    def _first(self, rate: float) -> tuple[float, float, float]:
        """Own step, mean wait before it, and how far the percentile of the wait lies beyond its mean. [s]"""
        alone, more, room = self._step()
        longest = alone + (room - 1.0) * more
        step = alone
        for _ in range(TURNS):
            gathered = rate * step
            step = min(longest, alone + more * (gathered - 1.0 + math.exp(-gathered)))
        gathered = rate * step
        busy = step / (step + math.exp(-gathered) / max(rate, 1e-12))
        share, uneven = self.load.slo.percentile / 100.0, self._uneven()
        each = longest / room
        used = min(MOST_BUSY, rate * each)
        waits = math.pow(used, math.sqrt(2.0 * (self.prefill + 1.0)) - 1.0) / (self.prefill * (1.0 - used))
        queue = each * waits * (self.load.dispersion + uneven * uneven) / 2.0
        rest = busy * step / 2.0 if room > 1.0 else 0.0
        wait = rest + queue
        # What is left of a running step is spread evenly, a queue of prompts exponentially.
        tail = rest * (2.0 * share - 1.0) + queue * (math.log(1.0 / (1.0 - share)) - 1.0)
        return alone + busy * more * min(gathered, room - 1.0), wait, tail


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
