"""
Prefill and decode on separate workers: how much a unit takes within its objectives, and a closed loop of clients.

Prompts and answers do not share steps, so that each side is a queue of its own. On a prefill worker a step of k prompts
takes a + (k - 1) e; while it runs x more arrive per second, so that the next one is longer (a fixed point), and the
worker rests e^(-x T) / x between two of them. A first token waits for what is left of the running step, in the queue of
all prefill workers (Sakasegawa's approximation, with lengths whose logarithm is normal), for its own step, for its
cache to move, and for the next decode step, which shows it. On a decode worker R requests take D(R) per token:
lam = R / (n D(R)). Workers are of tensor parallelism alone: ranks that step together hold each other up.

Against the request-level simulator, up to six tenths of what a unit takes, mean TTFT is within a factor of 2 and TPOT
within 20 % (`tests/simulation/test_pool_capacity.py`). What `capacity` is for replicas, this is for units: it prunes
and ranks.

In the closed loop all clients start together and each sends several requests, as in `closed_loop`. A prefill worker
takes whole prompts in order of arrival, as many as its budget holds, and is busy until that step ends; the cache is
moved; a decode worker admits the request when it has a seat and gives all that it runs one token per step. The first
token is seen once the decode worker has the request: who waits for a seat waits for the first token. Requests go to
workers in turn.

Answers of unequal length bring the clients back unevenly, so that prompts queue again in the rounds after the start;
a formula of the steady state and a share of the start leaves out half of the mean time to first token.

Up to a few dozen clients are simulated one by one. More are simulated as cohorts of equal weight on one worker of each
pool, which then stands for all of them: it gets its share of each cohort.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count, cycle
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from tonnage.physics.cache import cache_bytes_per_sequence
from tonnage.physics.operators import operator_s
from tonnage.physics.work import Operator
from tonnage.record import Record
from tonnage.simulation.capacity import LONE, Point, Steady, at_concurrency, narrowed, quantile_factor
from tonnage.simulation.closed_loop import RequestSeen, drawn_lengths, served_means, weighted_requests
from tonnage.simulation.mean_step import MOST_BUSY, ReplicaTimes, decode_step_s
from tonnage.simulation.simulated import Served
from tonnage.simulation.step_parts import Placement
from tonnage.simulation.steps import MixedStep, StepTable

if TYPE_CHECKING:
    from tonnage.simulation.encoder import Encoders

TURNS: Final = 12
"""Of the fixed point of a step and the prompts that gather during it."""


class Unit(Record):
    """Workers of both kinds, all of one configuration. `one` has the step times of one worker, and the unit's load."""

    prefill: int
    """Workers for prompts; 0 = each of `decode` computes prompts and answers, as replicas do."""
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
        return narrowed(LONE, top, beyond=lambda load: math.log(self.rate(one, load) / least))[0]

    def at(self, one: Steady, concurrency: float) -> Point:
        """The unit's steady state in which each decode worker has so many requests, encoding of images included."""
        point = self._separated(one, concurrency) if self.prefill else self._aggregated(one, concurrency)
        if self.encoders is None:
            return point
        share = one.load.slo.percentile / 100.0
        delay, beyond = self.encoders.first_s(point.rate_per_s, dispersion=one.load.dispersion, share=share)
        mean = point.ttft_mean_s + delay
        tail = mean + math.hypot(point.ttft_tail_s - point.ttft_mean_s, beyond)
        later = tail - point.ttft_tail_s
        return replace(point, ttft_mean_s=mean, ttft_tail_s=tail, e2e_tail_s=point.e2e_tail_s + later)

    def _aggregated(self, one: Steady, concurrency: float) -> Point:
        """The unit's steady state where each worker computes prompts and answers, as replicas do."""
        point = at_concurrency(one.times, one.load, concurrency=concurrency)
        return replace(point, rate_per_s=point.rate_per_s * self.decode, concurrency=concurrency * self.decode)

    def _separated(self, one: Steady, concurrency: float) -> Point:
        """The unit's steady state with prompts on workers of their own and so many requests on each decode worker."""
        times, load = one.times, one.load
        step_s, rate = decode_step_s(times, concurrency), self.rate(one, concurrency)
        z = quantile_factor(load.slo.percentile)
        crowded = decode_step_s(times, concurrency + z * math.sqrt(concurrency * load.dispersion))
        own_s, wait_s, beyond_s = self._prefill_worker_s(one, rate / self.prefill)
        share = load.slo.percentile / 100.0
        # Who comes to a worker that decodes waits for the end of its step, and of those prepared.
        joins = (0.5 + times.ahead) * step_s
        mean = times.request_s + own_s + wait_s + self.transfer_s + joins
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
        """Requests that leave all decode workers together. [1/s]"""
        if not self.prefill:
            return self._aggregated(one, concurrency).rate_per_s
        tokens = max(1.0, one.load.output_tokens - 1.0)
        return self.decode * concurrency / (tokens * decode_step_s(one.times, concurrency))

    def _most_prompts(self, times: ReplicaTimes) -> float:
        """Requests that all prefill workers together keep up with. [1/s]"""
        alone, more, room = _prefill_step(times)
        return MOST_BUSY * self.prefill * room / (alone + (room - 1.0) * more)

    def _prefill_worker_s(self, one: Steady, rate: float) -> tuple[float, float, float]:
        """
        A prompt's step, its mean wait before it, and how far the percentile of the wait lies beyond its mean. [s]

        `rate` is what arrives at each prefill worker. [1/s]
        """
        alone, more, room = _prefill_step(one.times)
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


def _prefill_step(times: ReplicaTimes) -> tuple[float, float, float]:
    """A prompt alone, one more in its step, and how many a step holds. [s, s, prompts]"""
    alone, room = times.prefill_s - times.request_s, max(1.0, 1.0 / times.step_share)
    # A full step is known: ranks that had no prompt while one was alone take theirs beside it.
    more = (room * times.prefill_work_s - alone) / max(room - 1.0, 1.0)
    return alone, min(alone, max(0.0, more)), room


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


_COHORTS = 32
_COHORTS_APART = 256
"""The same of clients that do not march in step: a cohort's prompts come at once, which theirs do not."""
_ROUNDS = 5
_SETTLED = 2
"""Rounds before those that are counted of clients that did not start together."""
_USUAL_REQUESTS = 5
"""Requests per client of a benchmark of separate pools that does not say (NVIDIA's and SGLang's scripts of 2025)."""
_SMALL = 1e-9
_TOKEN = 1e-6
"""Of a token: rounding when answers end together."""


class Pools(Record, kw_only=True):
    """The two pools: step times of one worker of each, and how many there are."""

    prefill: StepTable
    prefill_workers: int
    decode: StepTable
    decode_workers: int
    slots: float
    """Most requests that one decode worker runs together. [requests]"""
    budget: float
    """Prompt tokens of one prefill step. [tokens]"""
    transfer_s: float
    """Moving one prompt's cache to the decode worker. [s]"""
    found: float = 0.0
    """Of a prompt, in the prefill worker's own cache; the whole cache is moved all the same. [-]"""
    spread: tuple[float, float] = (1.0, 1.0)
    """Uniform lengths between these fractions of nominal; the means are given with the load."""


class _Request(NamedTuple):
    """One request of every member of a cohort."""

    round: int
    sent: float
    prompt: float
    """To compute. [tokens]"""
    output: float


class _Prefill(msgspec.Struct):
    """A worker that computes prompts."""

    queue: deque[tuple[_Request, float, float]]
    """Prompts: members left, and for those done the sum of their times."""
    free: bool = True


class _Decode(msgspec.Struct):
    """A worker that answers."""

    seats: deque[tuple[_Request, float]]
    """Who waits for it, and how much before the last its members came on average. [s]"""
    running: list[tuple[float, int, _Request, float, float]]
    """Nearest end first: tokens given by then, serial number, admitted, members' lead."""
    due: int = -1
    """Serial number of the next end that still holds."""
    said: float = 0.0
    """Tokens that it has given to whom it always ran."""
    told: float = 0.0
    """When `said` was brought up to date. [s]"""


class _Event(NamedTuple):
    """What happens next; the serial number keeps events of the same time in the order they were made."""

    at: float
    serial: int
    worker: _Prefill | _Decode | None
    """Whom it happens to: a prefill worker's step ends or a prompt comes, an answer ends; none: a cache has moved."""
    request: _Request | None = None
    mean: float = 0.0
    """When the members of the cohort had their prompts done, on average. [s]"""


class _World(NamedTuple):
    """What the simulation reads and changes."""

    pools: Pools
    shape: tuple[float, float]
    """Mean prompt and answer. [tokens]"""
    members: tuple[float, float]
    """Of one cohort, on a prefill and on a decode worker. [requests]"""
    ahead: list[_Event]
    serial: Iterator[int]
    drawn: Iterator[int]
    steps: dict[float, float]


def disaggregated_loop(
    pools: Pools,
    *,
    clients: float,
    prompt_tokens: float,
    output_tokens: float,
    together: bool,
    requests_per_client: int | None = None,
) -> Served:
    """
    Means over a run in which each of `clients` sends so many requests, the start included; five when unsaid.

    Clients that do not start `together` begin at random within one request's time, and what follows their second
    request is counted.
    """
    total = requests_per_client or _USUAL_REQUESTS
    shape, added = (prompt_tokens, output_tokens), pools.prefill.overheads.request_s
    rounds = min(_ROUNDS, total) if together else _ROUNDS
    seen = _simulate(pools, clients, shape=shape, rounds=rounds, together=together)
    weighted = weighted_requests(seen, rounds=rounds, total=total)
    if not together:
        settled = [one for one in seen if one.round >= _SETTLED]
        weighted = [(1.0 / len(settled), one) for one in settled]
    found = served_means(weighted, clients=clients, request_s=added)
    last = [one.e2e_s for one in seen if one.round == rounds - 1]
    # Who has come to a decode worker where others run waits for its next step, and for those prepared.
    others = min(1.0, max(0.0, clients / pools.decode_workers - 1.0))
    joins = others * found.tpot_s * (0.5 + pools.decode.overheads.ahead)
    steady = sum(last) / len(last) + joins
    tails = found.ttft_tail_s or (None, None, None)
    return msgspec.structs.replace(
        found,
        ttft_s=found.ttft_s + joins,
        e2e_s=found.e2e_s + joins,
        ttft_tail_s=tuple(None if tail is None else tail + joins for tail in tails),
        requests_per_s=clients / (steady + added),
        saturated=found.running >= 0.98 * pools.slots * pools.decode_workers,
    )


def _simulate(
    pools: Pools, clients: float, *, shape: tuple[float, float], rounds: int, together: bool
) -> list[RequestSeen]:
    """Every cohort's requests of these rounds, as they end."""
    size = max(1, min(_COHORTS if together else _COHORTS_APART, round(clients)))
    weight = clients / size
    single = weight <= 1.0
    ways = (pools.prefill_workers, pools.decode_workers) if single else (1, 1)
    members = (1.0, 1.0) if single else (weight / pools.prefill_workers, weight / pools.decode_workers)
    w = _World(pools, shape, members, [], count(), count(), {})
    seen: list[RequestSeen] = []
    arriving = cycle([_Prefill(deque()) for _ in range(ways[0])])
    moving = cycle([_Decode(deque(), []) for _ in range(ways[1])])
    life, starts = 0.0 if together else _life_s(w, clients), Random(0)
    for _ in range(size):
        _send(w, life * starts.random(), worker=next(arriving), round_=0)
    while len(seen) < size * rounds:
        event = heappop(w.ahead)
        now, at, request = event.at, event.worker, event.request
        if isinstance(at, _Prefill):
            if request is not None:
                at.queue.append((request, members[0], 0.0))
            else:
                at.free = True
            _prefill(w, at, now)
        elif request is not None:
            at = next(moving)
            _advance(w, at, now)
            at.seats.append((request, now - pools.transfer_s - event.mean))
            _seat(w, at, now)
        elif at is not None and event.serial == at.due:
            _advance(w, at, now)
            while at.running and at.running[0][0] <= at.said + _TOKEN:
                _, _, ended, admitted, lead = heappop(at.running)
                if ended.round < rounds:
                    first, last = admitted - lead, now - lead
                    seen.append(RequestSeen(ended.round, ended.sent, ended.sent, first, last, ended.output))
                _send(w, now, worker=next(arriving), round_=ended.round + 1)
            _seat(w, at, now)
    return seen


def _life_s(w: _World, clients: float) -> float:
    """About how long a request takes: its prompt, its cache's move and its answer. [s]"""
    step = _step_s(w, clients / w.pools.decode_workers)
    return w.pools.prefill.mixed_step_s(MixedStep(w.shape[0], 1.0)) + w.pools.transfer_s + w.shape[1] * step


def _send(w: _World, now: float, *, worker: _Prefill, round_: int) -> None:
    """The next request of a cohort, its lengths drawn evenly over their spread."""
    asked = (1.0 - w.pools.found) * w.shape[0]
    prompt, output = drawn_lengths(next(w.drawn), w.pools.spread, prompt_tokens=asked, output_tokens=w.shape[1])
    heappush(w.ahead, _Event(now, next(w.serial), worker, _Request(round_, now, prompt, output)))


def _prefill(w: _World, at: _Prefill, now: float) -> None:
    """The next step of a prefill worker: whole prompts within its budget, one at least."""
    queue, pools = at.queue, w.pools
    if not at.free or not queue:
        return
    taken: list[tuple[_Request, float, float, float]] = []
    tokens = prompts = 0.0
    while queue and (not prompts or tokens + queue[0][0].prompt * min(1.0, queue[0][1]) <= pools.budget):
        request, left, before = queue.popleft()
        part = min(left, max((pools.budget - tokens) / request.prompt, min(1.0, left)))
        tokens, prompts = tokens + part * request.prompt, prompts + part
        taken.append((request, part, left - part, before))
        if left - part > _SMALL:
            break
    whole = max(1.0, prompts)
    cached = tokens / prompts * pools.found / (1.0 - pools.found)
    step = pools.prefill.mixed_step_s(MixedStep(tokens * whole / prompts, whole, cached=cached, dealt=whole > 1.0))
    # A worker that stands for several gets fractions of prompts: it is busy for its share of a whole one's step.
    ends = now + step
    for request, part, left, before in taken:
        done = before + part * ends
        if left > _SMALL:
            queue.appendleft((request, left, done))
        else:
            mean = done / w.members[0]
            heappush(w.ahead, _Event(ends + pools.transfer_s, next(w.serial), None, request, mean))
    at.free = False
    heappush(w.ahead, _Event(now + step * prompts / whole, next(w.serial), at))


def _advance(w: _World, at: _Decode, now: float) -> None:
    """Gives everyone on a decode worker the tokens of the time since it was looked at last."""
    running = len(at.running) * w.members[1]
    if running:
        at.said += (now - at.told) / _step_s(w, running)
    at.told = now


def _step_s(w: _World, running: float) -> float:
    step = w.steps.get(running)
    if step is None:
        step = w.steps[running] = w.pools.decode.decode_s(max(1.0, running), w.shape[0] + w.shape[1] / 2.0)
    return step


def _seat(w: _World, at: _Decode, now: float) -> None:
    """Admits who waits while there are seats, and says when the next answer ends."""
    running, room = at.running, max(1, math.floor(w.pools.slots / w.members[1] + _SMALL))
    while at.seats and len(running) < room:
        request, lead = at.seats.popleft()
        heappush(running, (at.said + request.output - 1.0, next(w.serial), request, now, lead))
    if running:
        at.due = next(w.serial)
        ends = now + max(0.0, running[0][0] - at.said) * _step_s(w, len(running) * w.members[1])
        heappush(w.ahead, _Event(ends, at.due, at))
