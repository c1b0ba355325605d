"""How long does one replica take to generate a batch of responses whose lengths have a long tail?

All requests are there at the start (or every batch right after the one before), each decodes one token a step, and a
free slot takes the next one waiting. Between two events, the next end and the next admission, the number of running
requests is constant, so that the time of that stretch is steps x the time of one step at its concurrency and mean
context: the replica drains in as many stretches as it has requests, whatever their length.

Lengths are quantiles of a published distribution, scaled to the mean that is asked for and cut at the longest allowed:
the batch's longest response, which every synchronous step waits for, follows from them.

Left out: preemption (slots are what the cache holds of whole requests) and responses of one prompt being alike.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Sequence
from typing import Final

from tonnage.errors import BadRequest
from tonnage.record import Record
from tonnage.simulation.closed_loop import prefill_s
from tonnage.simulation.steps import StepTable

MAX_REQUESTS: Final = 512
"""Requests that are told apart; beyond them each stands for several of its length."""
MEAN_TOLERANCE: Final = 1e-9
CUT: Final = 0.995
"""Share of the longest response beyond which a mean cannot be: nearly all would be cut off. [-]"""


class RolloutLoad(Record, kw_only=True):
    """What one replica generates of a step."""

    lengths: tuple[float, ...]
    """Response tokens of each request, in the order they start. [tokens]"""
    prompt_tokens: float
    """Of one prompt, shared by its group. [tokens]"""
    prompts: float
    """Distinct prompts that are prefilled. [requests]"""
    slots: float
    """Requests that run together. [requests]"""
    budget: float
    """Prompt tokens of one step. [tokens]"""
    weight: float = 1.0
    """Requests that each of the lengths stands for."""


class Rollout(Record, kw_only=True):
    """The generation of one replica."""

    prefill_s: float
    decode_s: float
    tail_s: float
    """Of the decoding, the time in which less than half of the slots first filled are busy: stragglers. [s]"""
    steps: float
    """Decode steps. [steps]"""
    tokens: float
    """Generated. [tokens]"""
    running: float
    """Mean concurrency over the decoding. [requests]"""
    longest: float
    """The longest response. [tokens]"""

    @property
    def total_s(self) -> float:
        """From the first prompt to the last token. [s]"""
        return self.prefill_s + self.decode_s


def fullest_share(lengths: Sequence[float], *, shares: int, seed: int = 0) -> tuple[float, ...]:
    """
    Lengths of the replica that gets most tokens when they are dealt out at random among `shares` replicas.

    Each is handed as many responses, and nobody knows their lengths before; the others wait for this one.
    """
    each = math.ceil(len(lengths) / shares)
    dealt = list(lengths)
    random.Random(seed).shuffle(dealt)
    return tuple(max((dealt[i : i + each] for i in range(0, len(dealt), each)), key=sum))


def response_lengths(
    quantiles: Sequence[tuple[float, float]], *, mean: float, longest: float, count: int
) -> tuple[float, ...]:
    """
    So many lengths of the distribution's shape, with this mean, none beyond `longest`, in an order without a trend.

    Parameters
    ----------
    quantiles : sequence of (share, tokens)
        A published distribution, rising; between them the logarithm of the length is linear in the share.
    mean, longest : float
        Of the responses as generated, cut ones included. [tokens]
    count : int
        How many.

    Raises
    ------
    BadRequest
        The mean is not below the longest.
    """
    if not 0 < mean <= CUT * longest:
        raise BadRequest(
            f"response_tokens: a mean of {mean:,.0f} needs max_response_tokens above it, and {longest:,.0f} are given; "
            f"raise max_response_tokens beyond {mean / CUT:,.0f}"
        )
    count = max(1, count)
    drawn = [_at(quantiles, (i + 0.5) / count) for i in range(count)]
    low, high = 0.0, longest / min(drawn)
    while high - low > MEAN_TOLERANCE * high:
        middle = (low + high) / 2.0
        if sum(min(longest, middle * x) for x in drawn) < mean * count:
            low = middle
        else:
            high = middle
    scaled = [max(1.0, min(longest, high * x)) for x in drawn]
    # Multiples of the golden ratio visit the quantiles evenly: every stretch of the order has the same mix.
    order = sorted(range(count), key=lambda i: (i * 0.6180339887498949) % 1.0)
    return tuple(scaled[i] for i in order)


def _at(quantiles: Sequence[tuple[float, float]], share: float) -> float:
    """Length at a share of the distribution. [tokens]"""
    first = quantiles[0]
    if share <= first[0]:
        return first[1]
    for (s0, x0), (s1, x1) in itertools.pairwise(quantiles):
        if share <= s1:
            part = (share - s0) / (s1 - s0)
            return math.exp(math.log(x0) + part * math.log(x1 / x0))
    return quantiles[-1][1]


def rollout(table: StepTable, load: RolloutLoad) -> Rollout:
    """
    One replica generates its share of a step, from the first prompt to the last token.

    All prompts are computed before the first response begins.
    """
    slots = max(1, math.floor(load.slots / load.weight)) if math.isfinite(load.slots) else len(load.lengths)
    waiting = iter(load.lengths)
    running: list[tuple[float, float, float]] = []  # (steps at its end, at its start, length)
    steps = decode = busy = tail = started = 0.0

    def admit() -> None:
        nonlocal started
        while len(running) < slots and (length := next(waiting, None)) is not None:
            heapq.heappush(running, (steps + length, steps, length))
            started += steps

    admit()
    full = len(running)
    while running:
        n, end = len(running), running[0][0]
        ahead = end - steps
        context = load.prompt_tokens + (steps - started / n) + ahead / 2.0
        taken = ahead * table.decode_s(n * load.weight, context)
        decode += taken
        busy += taken * n
        if n < full / 2.0:
            tail += taken
        steps = end
        while running and running[0][0] <= steps:
            started -= heapq.heappop(running)[1]
        admit()
    first = prefill_s(table, prompts=load.prompts, prompt_tokens=load.prompt_tokens, budget=load.budget)
    return Rollout(
        prefill_s=first,
        decode_s=decode,
        tail_s=tail,
        steps=steps,
        tokens=sum(load.lengths) * load.weight,
        running=busy * load.weight / decode if decode else 0.0,
        longest=max(load.lengths, default=0.0),
    )
