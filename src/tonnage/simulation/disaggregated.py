"""Prefill and decode on separate workers, in a closed loop of clients: a compact simulation of both pools.

All clients start together and each sends several requests, as in `closed_loop`. A prefill worker takes whole prompts
in order of arrival, as many as its budget holds, and is busy until that step ends; the cache is moved; a decode worker
admits the request when it has a seat and gives all that it runs one token per step. The first token is seen once the
decode worker has the request: who waits for a seat waits for the first token. Requests go to workers in turn.

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
from typing import NamedTuple

import msgspec

from tonnage.record import Record
from tonnage.simulation.closed_loop import RequestSeen, drawn_lengths, served_means, weighted_requests
from tonnage.simulation.served import Served
from tonnage.simulation.steps import MixedStep, StepTable

_COHORTS = 32
_ROUNDS = 5
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
    pools: Pools, *, clients: float, prompt_tokens: float, output_tokens: float, requests_per_client: int | None = None
) -> Served:
    """Means over a run in which each of `clients` sends so many requests, the start included; five when unsaid."""
    total = requests_per_client or _USUAL_REQUESTS
    rounds = min(_ROUNDS, total)
    seen = _simulate(pools, clients, shape=(prompt_tokens, output_tokens), rounds=rounds)
    added = pools.prefill.overheads.request_s
    found = served_means(weighted_requests(seen, rounds=rounds, total=total), clients=clients, request_s=added)
    last = [one.e2e_s for one in seen if one.round == rounds - 1]
    steady = sum(last) / len(last)
    return msgspec.structs.replace(
        found,
        requests_per_s=clients / (steady + added),
        saturated=found.running >= 0.98 * pools.slots * pools.decode_workers,
    )


def _simulate(pools: Pools, clients: float, *, shape: tuple[float, float], rounds: int) -> list[RequestSeen]:
    """Every cohort's requests of these rounds, as they end."""
    size = max(1, min(_COHORTS, round(clients)))
    weight = clients / size
    single = weight <= 1.0
    ways = (pools.prefill_workers, pools.decode_workers) if single else (1, 1)
    members = (1.0, 1.0) if single else (weight / pools.prefill_workers, weight / pools.decode_workers)
    w = _World(pools, shape, members, [], count(), count(), {})
    seen: list[RequestSeen] = []
    arriving = cycle([_Prefill(deque()) for _ in range(ways[0])])
    moving = cycle([_Decode(deque(), []) for _ in range(ways[1])])
    for _ in range(size):
        _send(w, 0.0, worker=next(arriving), round_=0)
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
