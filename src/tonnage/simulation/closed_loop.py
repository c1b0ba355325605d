"""
Clients that each send the next request when one ends, and one batch that starts together: compact simulations.

All clients start together, as benchmarks do; each sends several requests. Prompts take the step's
token budget in order of arrival, decodes go on beside them (or wait, where an engine gives prompts
steps of their own). Runs of decode steps in which nothing changes are jumped. Many clients are
simulated as fewer cohorts of equal weight. What a benchmark reports as mean time to first token
holds the start, when all prompts queue behind each other; the rounds after it are spread by the
lengths. A client's next request reaches the engine while the next step already runs.

Lengths come from a low-discrepancy sequence over the spread, so that the result is deterministic
and smooth in its inputs.

A static batch is prefilled whole (in steps of at most the token budget), then decodes while its context
grows by a token a step. A burst larger than the batch limit runs in waves, which continuous
batching overlaps: the queue drains as slots free up.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections import Counter, deque
from itertools import accumulate
from typing import NamedTuple

import msgspec

from tonnage.domain.metrics import METRICS
from tonnage.record import Record
from tonnage.simulation.simulated import Served
from tonnage.simulation.steps import MixedStep, StepTable

_COHORTS = 32
_COHORTS_IN_COMPANY = 64
"""The same where prompts wait for each other: how many have come decides, so cohorts are smaller."""
_ROUNDS = 3
_REQUESTS = 20
"""Requests simulated at least: a few clients' draw of lengths, and who meets whom, is not what they are on average."""
_USUAL_REQUESTS = 10
"""Requests per client of a benchmark run that does not say (InferenceMAX: ten times the concurrency in all)."""
_MOST_DEALT = 256
"""Slots whose end of a run is counted one by one; of more, each stands for several."""
_DEALT = 1000
"""Requests over which that is averaged, at least: one draw says little of which answers are the last."""
_RATIOS = (0.7548776662466927, 0.5698402909980532)
"""Of the two-dimensional golden sequence (Roberts 2018): even cover of prompt and output lengths."""


class Load(Record, kw_only=True):
    """What arrives, and the engine's limits on what runs together."""

    prompt_tokens: float
    output_tokens: float
    budget: float
    """Tokens of a step: prompt tokens beside decodes, or of one prefill step. [tokens]"""
    slots: float
    """Most requests that run together: KV cache and the engine's own limit. [requests]"""
    spread: tuple[float, float] = (1.0, 1.0)
    """Uniform lengths between these fractions of nominal; the means are given above."""
    mixed: bool = True
    """Prompts share steps with decodes; otherwise they get steps of their own."""
    company: float = 1.0
    """Prompts that wait for each other beside running decodes, to be dealt out evenly over data-parallel ranks."""
    patience: float = 0.0
    """Decode steps after which they no longer wait. [steps]"""
    together: bool = False
    """Whoever has a seat is computed, in passes of the budget, before anybody's first token (not beside decodes)."""
    one_first: bool = False
    """An idle engine begins with the first request that reaches it; those sent at the same time join its next step."""


class RequestSeen(NamedTuple):
    """One request of a cohort: the mean of its members."""

    round: int
    sent_s: float
    begun_s: float
    """Its first member entered a step."""
    first_s: float
    ended_s: float
    output_tokens: float

    @property
    def ttft_s(self) -> float:
        """Time to first token. [s]"""
        return self.first_s - self.sent_s

    @property
    def tpot_s(self) -> float:
        """Time per token after the first. [s]"""
        return (self.ended_s - self.first_s) / max(1.0, self.output_tokens - 1.0)

    @property
    def e2e_s(self) -> float:
        """End-to-end latency. [s]"""
        return self.ended_s - self.sent_s


Weighted = list[tuple[float, RequestSeen]]
"""Requests with their shares of the mean."""


class LoopLog(NamedTuple):
    """What a simulation did, kept for whoever asks where the time went."""

    steps: list[tuple[float, float, int, MixedStep]]
    """When it began, how long it took, how many such steps followed each other, and what each carried. [s]"""
    requests: Weighted


class _Cohort(msgspec.Struct):
    """Clients that stay together through their requests."""

    length: float = 0.0
    """Prompt tokens of the running request."""
    prompt: float = 0.0
    """Of them, those still to prefill, per member."""
    total: float = 0.0
    """Output tokens of the running request."""
    left: float = 0.0
    sent: float = 0.0
    begun: float = -1.0
    """When the first member entered a step; -1 before."""
    first: float = 0.0
    round: int = 0


def closed_loop(
    table: StepTable, load: Load, *, clients: float, requests_per_client: int | None = None, log: LoopLog | None = None
) -> Served:
    """
    Mean latencies and throughput of `clients` in a closed loop.

    The mean is over a run in which each client sends `requests_per_client` requests, the start
    included; ten when it is not said, as public benchmarks do. Clients beyond the engine's slots wait. The rate is that
    of the whole run, its end included, and so below what latencies say by Little's law. A `log` is filled with what
    happened.
    """
    total = requests_per_client or _USUAL_REQUESTS
    rounds = min(max(_ROUNDS, math.ceil(_REQUESTS / max(1.0, clients))), total)
    requests = weighted_requests(_simulate(table, load, clients, rounds=rounds, log=log), rounds=rounds, total=total)
    if log is not None:
        log.requests.extend(requests)
    # Who is alone finds no step prepared.
    waited_s = table.overheads.ahead * sum(weight * one.tpot_s for weight, one in requests) * (clients > 1.0)
    found = served_means(requests, clients=clients, request_s=table.overheads.request_s + waited_s)
    busy = _busy_share(table, load, clients=clients, total=total, head=found.ttft_s / max(found.tpot_s, 1e-12))
    # The first round waits for half a queue: of clients that queue, slots by the time in them is the rate.
    held_s = sum(weight * (one.ended_s - one.begun_s) for weight, one in requests)
    rate = min(found.requests_per_s, min(clients, load.slots) / held_s)
    return msgspec.structs.replace(found, saturated=clients > load.slots, requests_per_s=rate * busy)


def _busy_share(table: StepTable, load: Load, *, clients: float, total: int, head: float) -> float:
    """
    Rate of a whole run over that of its middle: at its end slots stay empty, since answers differ in length.

    Requests are dealt to whichever slot is free first, in time counted by tokens, for all that run get one a step;
    `head` is what a first token takes, in these. With fewer running a step takes less. [-]
    """
    held = min(clients, load.slots)
    size = max(1, min(_MOST_DEALT, round(held)))
    dealt = round(size * max(1.0, total * clients / held))
    context, shares = load.prompt_tokens + load.output_tokens / 2.0, list[float]()
    full = table.decode_s(max(1.0, held), context)
    for run in range(math.ceil(_DEALT / dealt)):
        ends = [0.0] * size
        begun = work = 0.0
        for serial in range(run * dealt, (run + 1) * dealt):
            begun = ends[0]
            answer = drawn_lengths(serial, load.spread, prompt_tokens=1.0, output_tokens=load.output_tokens)[1]
            heapq.heapreplace(ends, begun + head + answer)
            work += head + answer
        rest = max(ends) - begun
        running = min(held, held * sum(end - begun for end in ends) / (size * rest))  # a sum may round up
        quicker = table.decode_s(max(1.0, running), context) / full
        shares.append(work / size / (begun + rest * quicker))
    return min(1.0, sum(shares) / len(shares))


def weighted_requests(seen: list[RequestSeen], *, rounds: int, total: int) -> Weighted:
    """Requests of the rounds that were simulated, of `total` a client: the last round stands for all that follow it."""
    counts = Counter(one.round for one in seen)
    last = total - rounds + 1.0
    return [((last if one.round == rounds - 1 else 1.0) / counts[one.round] / total, one) for one in seen]


def served_means(requests: Weighted, *, clients: float, request_s: float) -> Served:
    """
    What clients see on average, of requests with weights that sum to 1.

    `request_s` is added to the first token and so to the whole: reading and tokenising, which no step has.
    """
    ttft, tpot = sum(w * one.ttft_s for w, one in requests), sum(w * one.tpot_s for w, one in requests)
    e2e = sum(w * one.e2e_s for w, one in requests)
    ttft_p50, ttft_p95, ttft_p99 = _quantiles([(r.ttft_s, w) for w, r in requests])
    return Served(
        ttft_s=ttft + request_s,
        tpot_s=tpot,
        e2e_s=e2e + request_s,
        requests_per_s=clients / (e2e + request_s),
        running=clients * (e2e - ttft) / e2e,
        ttft_tail_s=(ttft_p50 + request_s, ttft_p95 + request_s, ttft_p99 + request_s),
        tpot_tail_s=_quantiles([(r.tpot_s, w) for w, r in requests]),
    )


def _quantiles(values: list[tuple[float, float]]) -> tuple[float, float, float]:
    """Median, 95th and 99th percentile of weighted values."""
    ordered = sorted(values)
    reached = list(accumulate(w for _, w in ordered))
    p50, p95, p99 = (
        ordered[min(len(ordered) - 1, bisect_left(reached, share * reached[-1] - 1e-10))][0]
        for share in (0.5, 0.95, 0.99)
    )
    return p50, p95, p99


def _simulate(table: StepTable, load: Load, clients: float, *, rounds: int, log: LoopLog | None) -> list[RequestSeen]:
    """Every cohort's requests of these rounds, as they end; all clients go on until each has ended its own."""
    size = _cohorts(load, clients)
    weight = clients / size
    room = max(1, math.floor(load.slots / weight + 1e-9))
    waiting = deque(_Cohort() for _ in range(size))
    running: list[_Cohort] = []
    for serial, one in enumerate(waiting):
        _send(one, load, serial=serial, now=0.0)
    seen: list[RequestSeen] = []
    now, serial, held = 0.0, size, 0.0
    while len(seen) < size * rounds:
        prompts = _take(waiting, load, running=len(running), weight=weight, room=room, now=now)
        alone = bool(prompts and running) and waiting[0].begun < 0 and (len(waiting) + 0.5) * weight < load.company
        if holds := alone and held < load.patience:
            prompts = []
        if not prompts and not running:
            now = max(now, waiting[0].sent)
            continue
        asked, count = _step(load, running=running, prompts=prompts, weight=weight)
        step = table.seconds_of(asked)
        if not prompts and waiting and len(running) < room:
            count = min(count, max(1, math.ceil((waiting[0].sent - now) / step)))
        if holds:
            count = min(count, math.ceil(load.patience - held))
        held = held + count if holds else 0.0
        started, now = now, now + step * count
        if log is not None:
            log.steps.append((started, step, count, asked))
        done = _advance(running, count) if load.mixed or not prompts else []
        for one, tokens in prompts:
            one.begun = started if one.begun < 0 else one.begun
            one.prompt -= tokens * (1 if load.together else count)
            if one.prompt <= 1e-9:
                waiting.popleft()
                one.first = _first_token(one, now=now, step=step * count if load.together else step, weight=weight)
                one.left -= 1.0
                (running if one.left > 0 else done).append(one)
        for one in done:
            if one.round < rounds:
                seen.append(RequestSeen(one.round, one.sent, one.begun, one.sent + one.first, now, one.total))
            one.round += 1
            _send(one, load, serial=serial, now=now)
            serial += 1
            waiting.append(one)
    return seen


def _cohorts(load: Load, clients: float) -> int:
    return max(1, min(_COHORTS if load.company <= 1.0 else _COHORTS_IN_COMPANY, round(clients)))


def _send(one: _Cohort, load: Load, *, serial: int, now: float) -> None:
    """A cohort's next request, its lengths drawn by its serial number."""
    prompt, output = drawn_lengths(
        serial, load.spread, prompt_tokens=load.prompt_tokens, output_tokens=load.output_tokens
    )
    one.length = one.prompt = prompt
    one.total = one.left = output
    one.sent, one.begun = now, -1.0


def drawn_lengths(
    serial: int, spread: tuple[float, float], *, prompt_tokens: float, output_tokens: float
) -> tuple[float, float]:
    """Prompt and answer of a request by its serial number, spread evenly around their means. [tokens]"""
    low, high = spread
    mean = (low + high) / 2.0
    u, v = ((serial * ratio + 0.5) % 1.0 for ratio in _RATIOS)
    prompt = max(1.0, prompt_tokens * (low + u * (high - low)) / mean)
    return prompt, max(1.0, float(round(output_tokens * (low + v * (high - low)) / mean)))


def _take(
    waiting: deque[_Cohort], load: Load, *, running: int, weight: float, room: int, now: float
) -> list[tuple[_Cohort, float]]:
    """
    Prompts of this step and the tokens each member gets, in order of arrival, while budget and `room` last.

    `running` and `room` count cohorts, of `weight` clients each. A request that is sent just now, beside running ones,
    waits for the step after this.
    """
    budget = max(load.budget - running * weight if load.mixed else load.budget, load.budget * 0.02)
    budget = math.inf if load.together else budget
    taken: list[tuple[_Cohort, float]] = []
    for one in waiting:
        fresh = running > 0 and one.sent >= now and one.round > 0
        if load.one_first and taken and not running and taken[0][0].begun < 0:
            break
        if budget <= 1e-6 or running + len(taken) >= room or fresh:
            break
        tokens = min(one.prompt, budget / weight)
        taken.append((one, tokens))
        budget -= tokens * weight
    return taken


def _step(
    load: Load, *, running: list[_Cohort], prompts: list[tuple[_Cohort, float]], weight: float
) -> tuple[MixedStep, int]:
    """The next step, and after how many such steps the first running request ends."""
    decodes = len(running) * weight
    context = sum(one.length + one.total - one.left for one in running) / len(running) if running else 0.0
    if not prompts:
        jump = max(1.0, min(one.left for one in running))
        return MixedStep(0.0, 0.0, decodes, context + jump / 2.0), int(jump)
    tokens = sum(t for _, t in prompts) * weight
    cached = sum(one.length - one.prompt for one, _ in prompts) / len(prompts)
    length = sum(one.length for one, _ in prompts) / len(prompts)
    # A step that takes a part of a cohort takes whole members, and a piece of the last one; where it holds no whole
    # one, it takes the pieces of one in turn.
    whole = sum(max(1.0, weight * t / one.length) if weight > 1.0 else 1.0 for one, t in prompts)
    passes = math.ceil(tokens / load.budget - 1e-9) if load.together else 1
    pieces = 1 if load.together else _alike(prompts, running if load.mixed else [])
    step = MixedStep(
        prompt_tokens=tokens / passes,
        prompts=whole / passes,
        sequences=decodes if load.mixed else 0.0,
        context=context + (pieces - 1) / 2.0,
        cached=cached + (pieces - 1) / 2.0 * prompts[0][1] if weight <= 1.0 else max(0.0, length - tokens) / 2.0,
        dealt=load.company > 1.0,
    )
    return step, max(passes, pieces)


def _alike(prompts: list[tuple[_Cohort, float]], running: list[_Cohort]) -> int:
    """
    Steps in a row that one prompt alone fills, its last piece not among them, until an answer beside it ends: each is
    longer than the one before by as much.
    """
    (one, tokens), *others = prompts
    if others or tokens >= one.prompt - 1e-9:
        return 1
    return max(1, min([math.ceil(one.prompt / tokens - 1e-9) - 1, *(int(each.left) for each in running)]))


def _advance(running: list[_Cohort], count: int) -> list[_Cohort]:
    """Every running cohort gains `count` tokens; those that are done leave."""
    for one in running:
        one.left -= count
    done = [one for one in running if one.left <= 0]
    if done:
        running[:] = [one for one in running if one.left > 0]
    return done


def _first_token(one: _Cohort, *, now: float, step: float, weight: float) -> float:
    """Mean time to first token of a cohort's members: evenly over the steps that prefilled them."""
    if weight <= 1.0:
        return now - one.sent
    return (one.begun + min(step, now - one.begun) + now) / 2.0 - one.sent


def prefill_s(table: StepTable, *, prompts: float, prompt_tokens: float, budget: float) -> float:
    """Seconds to prefill `prompts` whole prompts together, in steps of at most `budget` tokens."""
    steps = prefill_steps(prompts=prompts, prompt_tokens=prompt_tokens, budget=budget)
    return table.named("prefill", sum(times * table.mixed_step_s(step) for times, step in steps))


def prefill_steps(*, prompts: float, prompt_tokens: float, budget: float) -> list[tuple[float, MixedStep]]:
    """The steps that this takes, each with how often it runs: full ones, and what is left."""
    total, most = prompts * prompt_tokens, max(budget, 1.0)
    full = math.floor(total / most + 1e-9) if total > most else 0
    # An engine without a budget takes everything at once; nothing times infinity is not a number.
    rest = max(0.0, total - full * most) if full else total
    found, steps = [], full + (rest > total * 1e-9)
    # Steps are filled to the budget, as engines fill them; in equal shares a longer prompt could be faster.
    for tokens, times in ((most, full), (rest, steps - full)):
        if times:
            in_step = max(prompts * tokens / total, min(1.0, prompts))
            cached = max(0.0, prompt_tokens - tokens) / 2.0 if steps > prompts else 0.0
            found.append((float(times), MixedStep(tokens, in_step, cached=cached)))
    return found


def pipelined_share(*, pieces: float, largest: float, in_flight: float) -> float:
    """
    Share of a prompt's time that is left when its `pieces` follow each other through stages.

    The first piece passes all stages; each further one ends one interval later, which is the time of the stage with the
    `largest` share of the layers, or that of a whole piece over the pieces that may be `in_flight`.
    """
    if pieces <= 1.0:
        return 1.0
    return (1.0 + (pieces - 1.0) * max(largest, 1.0 / in_flight)) / pieces


def static_batch(table: StepTable, load: Load, *, batch: float, piped: float = 1.0) -> Served:
    """One batch prefilled together, then decoded together; `piped` is the share of its prompts' time that is left."""
    prompts_s = prefill_s(table, prompts=batch, prompt_tokens=load.prompt_tokens, budget=load.budget)
    first = table.request_s + piped * prompts_s
    steps = max(0.0, load.output_tokens - 1.0)
    step = table.decode_s(batch, load.prompt_tokens + (load.output_tokens + 1.0) / 2.0)
    total = table.named(METRICS["ttft_s"].title, first) + table.named("decode", steps * step)
    return Served(ttft_s=first, tpot_s=step, e2e_s=total, requests_per_s=batch / total, running=batch)


def burst(table: StepTable, load: Load, *, requests: float) -> Served:
    """
    Means of `requests` sent at once to an engine that runs no more than its slots: fill, steady refill, drain.

    One static batch where all have a slot.
    """
    together = min(requests, load.slots)
    wave = static_batch(table, load, batch=together)
    if requests <= load.slots:
        return wave
    waves = requests / together
    cost = prefill_s(table, prompts=together, prompt_tokens=load.prompt_tokens, budget=load.budget)
    decode = table.named("decode", max(0.0, load.output_tokens - 1.0) * wave.tpot_s)
    total = table.named("all waves", waves * (cost + decode), how="prefill and decode of each")
    ahead = table.named("waves ahead", (waves - 1.0) / 2.0 * (cost + decode), how="on average, those before")
    beside = table.named(
        "prefill of those that follow", cost / max(1.0, load.output_tokens - 1.0), how="over its tokens"
    )
    return Served(
        ttft_s=wave.ttft_s + ahead,
        tpot_s=wave.tpot_s + beside,
        e2e_s=wave.e2e_s + ahead,
        requests_per_s=requests / total,
        running=together,
        saturated=True,
    )
