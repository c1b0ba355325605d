"""
The mean step of a replica in its steady state, and what a new request waits for: one queue for rates and for clients.

In a steady state R requests decode together, each for n steps after its first token, so that R = lam n t (Little's law;
t the time per token, lam the rate). What decides t is when prompts come:

- *Runs.* Steps carry prompts or none. Those that come during a step are carried by the next one, so that a long step
  gathers more: a run of steps with prompts begins after an empty step with 1 - e^(-lam D) and after a run of length L
  with 1 - e^(-lam L). D is the decode step; a run of k prompts takes what so many add (`ReplicaTimes.together`), beside
  decodes, or by itself where prompts have steps of their own. A prompt longer than a step's budget is a run of several
  steps, and the next prompt waits for its end.
- *Bunching.* Requests that run are those whose prompts came lately: in a busy time more of them gather, and each sees
  the others and itself. Their number has a variance over its mean of (t / D)^2 / (1 - lam n D' t / D), D' being what
  one more adds to a step. `_seen` gives the batch as a running request sees it, at two points.
- *The start of an answer* follows its own prompt, where further prompts are likelier than on average: short answers see
  more of them.
- *Slots.* Where those are few (slots of llama.cpp, a cache that holds few requests), a request waits for one: Erlang's
  formula with lengths that are no more spread than an even answer's (half of the wait, with Cosmetatos' correction).

Clients that wait for their answers are as many slots that are never empty: each sees the others' prompts alone, and
their number in the batch varies as a binomial does.

Against the request-level simulator on random cases: `python -m tools.benchmarks.agreement`.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import Final, NamedTuple

from tonnage.domain.requests.common import Slo
from tonnage.record import Record

MOST_BUSY: Final = 0.999
"""Share of time that prompts may take at most: beyond it queues have no end. [-]"""
FEW_SLOTS: Final = 128.0
"""Slots up to which waits for one are summed state by state; of more, Sakasegawa's approximation. [requests]"""
NO_WAIT: Final = 1e-6
"""Of a service: a wait by that approximation for which no states are summed. [-]"""
IN_ORDER: Final = 30.0
"""
Clients whose prompts come half as unevenly as at random. Who has waited for another stays behind it: answers that
differ by a tenth (standard deviation 0.058) shift one of N clients by 0.058 N places a turn, and two places are random.
Of the request-level simulator, 2 to 180 clients. [requests]
"""
MOST_BEHIND: Final = 1000
"""Clients that are looked at in a queue. [requests]"""
TURNS: Final = 40
FEW_TURNS: Final = 8
_NEAR: Final = 1e-3
"""Of a rate, the last of Newton's steps: what is left is a fifth of it or so. [-]"""
CLOSE_RATE: Final = 3e-4
"""Of a rate, when it is found. [-]"""
LEAST: Final = 1e-9


class ReplicaTimes(Record, kw_only=True):
    """Step times of one replica: decode steps at a few batch sizes, and what prompts add to them."""

    batches: tuple[float, ...]
    """Increasing batch sizes at which the decode step is known. [requests]"""
    decode_s: tuple[float, ...]
    """Decode step at those sizes and the mean context. [s]"""
    prefill_s: float
    """One mean prompt alone, first token included. [s]"""
    prefill_tail_s: float
    """One prompt of the objectives' percentile. [s]"""
    prefill_work_s: float
    """What one more mean prompt adds where many queue: a full step's share. [s]"""
    first_s: tuple[float, ...] = ()
    """At the batches: what one prompt adds to the steps that carry it and nobody else; empty = `prefill_work_s`. [s]"""
    pieces: float = 1.0
    """Steps of a prompt alone. [steps]"""
    together: tuple[tuple[float, float, float], ...] = ()
    """Rising numbers of prompts in a run, what they add beyond the first, and the run's steps; empty = one step, each
    further prompt adds `prefill_work_s`. [prompts, s, steps]"""
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

    @property
    def held(self) -> float:
        """Mean prompts that a step's budget holds. [prompts]"""
        return max(1.0, 1.0 / self.step_share)


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
    """KV cache and batch limits: slots. [requests]"""
    in_flight: bool = False
    """The number of requests in flight is stated, and not their rate: clients who wait for their answers."""

    @property
    def later_tokens(self) -> float:
        """Of a mean answer, after the first. [tokens]"""
        return max(1.0, self.output_tokens - 1.0)


class Flow(NamedTuple):
    """Steps at a rate: what was found, and where the next search begins."""

    decode_s: float
    total_s: float
    token_s: float
    first_s: float
    """What a prompt that nobody joins adds. [s]"""
    prompts: float
    """In a run. [prompts]"""
    run_s: float
    """A run with its decodes. [s]"""
    carried: float
    """Share of time in such runs. [-]"""
    spread: float
    """Variance over mean of the requests that decode. [-]"""


class MeanStep(NamedTuple):
    """The mean step of a steady state, and what a new request waits for."""

    decode_s: float
    """Without prompts, as a running request sees it. [s]"""
    total_s: float
    """With what prompts add. [s]"""
    token_s: float
    """The time per token of a mean request, whose answer begins where prompts are likelier. [s]"""
    rate_per_s: float
    wait_s: float
    """To the end of the running step and of those prepared, for a slot, and for the prompts that came before. [s]"""
    own_s: float
    """From entering a step to the first token, and what comes before the engine's queue. [s]"""
    first_s: float
    """What a prompt that nobody joins adds to its steps. [s]"""
    tail: float
    """How far the percentile of the wait lies above its mean, over the mean. [-]"""
    endless: bool
    """Prompts, or requests for a slot, come as fast as they go, or faster."""
    flow: Flow
    """Where a search at a load nearby begins."""


def mean_step(
    times: ReplicaTimes,
    load: ReplicaLoad,
    *,
    concurrency: float,
    clients: float | None = None,
    near: MeanStep | None = None,
) -> MeanStep:
    """
    The mean step in which so many requests decode together: arrivals at a rate, or of so many `clients`; searched from
    that of a load `near`.
    """
    flow, rate = _flow_at(times, load, concurrency, clients=clients, before=near and near.flow)
    others = max(0.0, (clients - 1.0) / clients) if clients else 1.0
    coming, long = rate * others, times.step_share > 1.0
    beside = 0.0 if times.separate else flow.decode_s
    alone = times.prefill_s - times.request_s
    none = (
        math.pow(1.0 - min(1.0, concurrency / clients), max(0.0, clients - 1.0)) if clients else math.exp(-concurrency)
    )
    idle = none * max(0.0, 1.0 - coming * alone)
    carried = min(MOST_BUSY, coming * flow.run_s / flow.prompts)
    added = max(LEAST, flow.run_s - beside)
    uneven = load.dispersion - 1.0 + times.prefill_uneven
    variance = times.prefill_work_s**2 * (max(0.0, flow.prompts - 1.0) + flow.prompts * uneven)
    rest = carried * (flow.run_s + variance / flow.run_s) / 2.0
    rest += (1.0 - carried) * (1.0 - idle) * flow.decode_s / 2.0
    gathered = coming * (carried * flow.run_s + (1.0 - carried) * (1.0 - idle) * flow.decode_s)
    if long:
        own, full = flow.run_s, flow.run_s
    else:
        own = beside + flow.first_s + _more_s(times, min(times.held, 1.0 + gathered))[0]
        full = beside + flow.first_s + _more_s(times, times.held)[0]
    own = idle * alone + (1.0 - idle) * own
    used = min(MOST_BUSY, coming * full / times.held)
    # Beyond what is left of a running step, which was counted.
    queued = full * used * _waiting(times.held, used) * (load.dispersion + times.prefill_uneven)
    if clients:
        random = clients / (clients + IN_ORDER)
        queued *= (1.0 - used) * _behind(used, clients - 1.0) * random
        rest -= (1.0 - random) * carried * flow.run_s / 2.0
        # An answer ends with a step: the next request joins the one that follows, or comes early in it.
        rest *= max(1.0, 2.0 * (1.0 - times.request_s / flow.total_s)) if times.request_s else 0.0
    prepared = (1.0 - idle) * times.ahead * flow.total_s
    if times.separate:  # of prompts or of answers
        prepared /= 1.0 + coming * flow.total_s / flow.prompts
    wait, endless = rest + queued + prepared, rate * full >= MOST_BUSY * times.held
    if clients is None and math.isfinite(load.max_concurrency):
        decoding, slots = load.later_tokens * flow.token_s, load.max_concurrency
        endless = endless or rate * (own + decoding) >= MOST_BUSY * slots
        wait += load.dispersion * _wait_for_slot(times, rate, own=own, decoding=decoding, slots=slots, flow=flow)
    return MeanStep(
        flow.decode_s,
        flow.total_s,
        flow.token_s,
        rate,
        wait,
        times.request_s + own,
        flow.first_s,
        # Of prepared steps one is as long as the other.
        max(0.0, 1.0 - prepared / max(wait, LEAST))
        * _tail(times, load, flow, prompts=coming * flow.total_s, added=added, variance=variance),
        endless,
        flow,
    )


def _flow_at(
    times: ReplicaTimes, load: ReplicaLoad, concurrency: float, *, clients: float | None, before: Flow | None
) -> tuple[Flow, float]:
    """The steps in which so many requests decode, and their rate: by Newton's steps (the slope is nearly t / D)."""
    ideal = concurrency / load.later_tokens
    low, high = 0.0, ideal / decode_step_s(times, 1.0)
    rate, flow = ideal / (decode_step_s(times, concurrency) + ideal * times.prefill_work_s), before
    if before is not None:
        rate = min(rate, ideal / before.token_s)
    for _ in range(TURNS):
        flow = flow_at_rate(times, load, concurrency=concurrency, rate=rate, clients=clients, before=flow)
        found = ideal / flow.token_s
        if 0.5 < found / rate < 2.0:
            off = (found / rate) ** (flow.decode_s / flow.total_s)
            rate *= off
            if abs(off - 1.0) < _NEAR:
                break
        else:  # nearby, what the turn before left of runs and bunching moves a rate by more than what is left to find
            low, high = (low, rate) if found < rate else (rate, high)
            rate = (low + high) / 2.0
    assert flow is not None
    return flow._replace(token_s=ideal / rate), rate


def flow_at_rate(
    times: ReplicaTimes,
    load: ReplicaLoad,
    *,
    concurrency: float,
    rate: float,
    clients: float | None,
    before: Flow | None,
) -> Flow:
    """Steps at a rate with so many that decode, from what the search found `before`."""
    slots = clients or load.max_concurrency
    used = min(1.0, concurrency / slots)
    spread = 1.0 if clients or before is None else before.spread
    (batch, share), (larger, rest) = _seen(concurrency, slots=slots, spread=spread)
    (decode, each, first), (slow, more, longer) = _beside(times, batch), _beside(times, larger)
    decode, each, first = share * decode + rest * slow, share * each + rest * more, share * first + rest * longer
    # A request sees no prompts of its own slot; beside a single one there are none.
    coming = rate * max(0.0, 1.0 - 1.0 / clients if clients else min(1.0 - used / slots, slots - 1.0))
    later, beside = load.later_tokens, 0.0 if times.separate else decode
    starts = max(LEAST, -math.expm1(-coming * decode))
    if times.step_share > 1.0:
        run = first + times.pieces * beside
        busy = min(MOST_BUSY, coming * run)
        work = (1.0 - busy) * first + busy * times.prefill_work_s
        run = work + times.pieces * beside
        busy = min(MOST_BUSY, coming * run)
        total = decode / max(1.0 - coming * work, 1.0 - MOST_BUSY)
        if times.separate:
            left = busy + busy * busy * (1.0 + times.prefill_uneven) / (2.0 * (1.0 - busy))
            token = total + left * run / (1.0 - busy) / later
        else:
            ends = (1.0 - busy) / times.pieces
            carrying = min(1.0, coming * total * times.pieces)
            token = total + max(0.0, busy - carrying) * _early(1.0 - starts - ends, later) * work / times.pieces
        prompts, carried = 1.0, busy
    else:
        prompts, total = (before.prompts, before.total_s) if before else (1.0, decode)
        most = 8.0 * times.held
        for _ in range(FEW_TURNS):
            more, steps, longer, further = _more_s(times, prompts)
            added = first + more
            run = added + steps * beside
            ends = max(1.0 - MOST_BUSY, math.exp(-coming * run))
            # Runs to an empty step: each of these is followed by one with its chance, and runs by runs.
            runs = starts / ends
            # Each prompt of a run brings more while it is computed: Newton's step, convex and from below.
            slope = coming * (longer + further * beside) * (1.0 - coming * decode / runs) - 1.0
            found = prompts - (coming * (decode / runs + run) - prompts) / min(slope, -LEAST)
            if clients and times.separate:
                # While prompts have steps of their own no answer ends, and no client sends the next: one run a step.
                ends, runs = 1.0, max(LEAST, -math.expm1(-coming * total))
                found = (prompts + coming * total / runs) / 2.0
                total = decode + runs * added
            found = min(most, max(1.0, found))
            if abs(found / prompts - 1.0) < CLOSE_RATE:
                break
            prompts = found
        if not (clients and times.separate):
            total = decode / max(1.0 - coming * added / prompts, 1.0 - MOST_BUSY)
        if times.separate:
            token = total + (1.0 - ends) / ends * added / later
        else:
            carrying = min(1.0, coming * total * steps / prompts)
            excess = max(0.0, 1.0 - ends - carrying)
            token = total + excess * _early(1.0 - starts - ends / steps, later) * added / steps
        carried = min(MOST_BUSY, coming * run / prompts)
    slower = total / decode
    slowed = min(0.8, rate * later * each * slower) if concurrency + 2.0 < slots else 0.0
    bunched = min(slots, 10.0, slower * slower / (1.0 - slowed))
    return Flow(decode, total, token, first, prompts, run, carried, bunched)


def _seen(concurrency: float, *, slots: float, spread: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """
    The batch that a running request is in, as two sizes with their chances: mean, variance and skewness of the number
    that decode, of which large ones are seen by more. [requests, -]
    """
    used, spread = min(1.0, concurrency / slots), min(spread, slots)
    free = 1.0 - used ** min(4.0, slots / spread)
    others = max(0.0, concurrency + spread * free - 1.0)
    variance, skew = spread * concurrency * free, spread * (1.0 - 2.0 * used)
    low = max(0.0, others + skew / 2.0 - math.sqrt(variance + skew * skew / 4.0))
    high = min(slots - 1.0, others + variance / max(others - low, LEAST))
    if high - low < LEAST:
        return (1.0 + others, 1.0), (1.0 + others, 0.0)
    rest = min(1.0, (others - low) / (high - low))
    return (1.0 + low, 1.0 - rest), (1.0 + high, rest)


def _early(stays: float, later: float) -> float:
    """Mean over an answer's tokens of what is left of its start, of which a step leaves the share `stays`. [-]"""
    stays = min(1.0 - LEAST, max(0.0, stays))
    return (1.0 - math.pow(stays, later)) / ((1.0 - stays) * later)


def _beside(times: ReplicaTimes, batch: float) -> tuple[float, float, float]:
    """The decode step of a batch (`decode_step_s`), what one more request adds to it, and what one prompt does. [s]"""
    sizes, steps, firsts = times.batches, times.decode_s, times.first_s
    i = bisect_left(sizes, batch)
    if i == len(sizes):
        each = steps[-1] / sizes[-1]
        return each * batch, each, firsts[-1] if firsts else times.prefill_work_s
    if i == 0:
        return steps[0], 0.0, firsts[0] if firsts else times.prefill_work_s
    low, more = sizes[i - 1], batch - sizes[i - 1]
    each = (steps[i] - steps[i - 1]) / (sizes[i] - low)
    first = firsts[i - 1] + more * (firsts[i] - firsts[i - 1]) / (sizes[i] - low) if firsts else times.prefill_work_s
    return steps[i - 1] + more * each, each, first


def _more_s(times: ReplicaTimes, prompts: float) -> tuple[float, float, float, float]:
    """What a run of so many prompts adds beyond the first, its steps, and both of one prompt more. [s, steps]"""
    known = times.together
    if not known:
        return (prompts - 1.0) * times.prefill_work_s, 1.0, times.prefill_work_s, 0.0
    i = min(max(1, bisect_right(known, prompts, key=itemgetter(0))), len(known) - 1)
    (k, added, steps), (m, most, ends) = known[i - 1], known[i]
    longer, further = (most - added) / (m - k), (ends - steps) / (m - k)
    return added + (prompts - k) * longer, steps + (prompts - k) * further, longer, further


def _behind(used: float, others: float) -> float:
    """The sum that 1 / (1 - used) is of endlessly many who may queue, of `others`: each that waits sends none. [-]"""
    total = term = 1.0
    for k in range(1, MOST_BEHIND):
        term *= used * max(0.0, 1.0 - k / others) if others else 0.0
        total += term
        if term < CLOSE_RATE:
            break
    return total


def _waiting(servers: float, used: float) -> float:
    """Half of the mean wait over a service, where arrivals are as spread as services even: Sakasegawa. [-]"""
    return math.pow(used, math.sqrt(2.0 * (servers + 1.0)) - 1.0) / (servers * (1.0 - used)) / 2.0


def _wait_for_slot(times: ReplicaTimes, rate: float, *, own: float, decoding: float, slots: float, flow: Flow) -> float:
    """
    Mean wait for one of few slots, which a request keeps for its `own` prompt and the `decoding` of its answer. [s]

    By Erlang's formula with the step of each batch, slots counted whole below and above a fraction; times the bunching
    of requests (`Flow.spread`).
    """
    each = own + decoding
    usual = each * _waiting(slots, min(MOST_BUSY, rate * each / slots))
    if slots > FEW_SLOTS or usual < NO_WAIT * each:
        return usual
    whole, waits = max(1, math.floor(slots)), list[float]()
    term = total = 1.0
    for k in range(1, whole + 2):
        each = own + decoding * decode_step_s(times, k) / flow.decode_s
        used = min(MOST_BUSY, rate * each / k)
        term *= rate * each / k
        total += term
        if k >= whole:
            # Half of the wait of exponential services, corrected for few of them that are all alike.
            queued = term * used / (1.0 - used)
            alike = 1.0 + (1.0 - used) * (k - 1.0) * (math.sqrt(4.0 + 5.0 * k) - 2.0) / (16.0 * used * k)
            waits.append((term + queued) / (total + queued) * each / (k * (1.0 - used)) / 2.0 * alike)
    return min(flow.spread, slots) * (waits[0] + (slots - whole) * (waits[1] - waits[0]))


def _tail(
    times: ReplicaTimes, load: ReplicaLoad, flow: Flow, *, prompts: float, added: float, variance: float
) -> float:
    """How far the objectives' percentile of a wait lies above its mean, over the mean. [-]"""
    share = load.slo.percentile / 100.0
    spread = flow.carried * (1.0 - flow.carried) * added * added + flow.carried * variance
    uneven = min(1.0, spread / (flow.total_s * flow.total_s))
    # What is left of equal steps is spread evenly; of very different ones, exponentially, and of these only those who
    # come while prompts are computed wait for more than a step of answers.
    late = 1.0 - share
    pieces = -math.expm1(-prompts * max(1.0, times.step_share))
    met = min(1.0, max(late, pieces * (flow.decode_s + (times.chunk_s or flow.first_s)) / flow.total_s))
    return (1.0 - uneven) * (2.0 * share - 1.0) + uneven * (math.log(met / late) / met - 1.0)


def decode_step_s(times: ReplicaTimes, batch: float) -> float:
    """
    Decode step at a batch size, linear between the known ones: steps are affine in the batch piecewise. [s]

    Below the smallest known batch a step is as long as there; beyond the largest it grows in proportion.
    """
    return _beside(times, batch)[0]
