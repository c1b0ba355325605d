"""One replica of a deployment: in the steady state under a load, and as the simulator takes it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from tonnage.core.deployment import Deployment
from tonnage.core.error_model import ErrorModel, load_class, load_ends
from tonnage.core.length_spread import LEAST_PREFILL, Beside, lasting_answer, later_tokens, long_answer, prompt_work
from tonnage.domain.requests.common import Lengths
from tonnage.domain.requests.serve import Serve
from tonnage.physics.known import Known
from tonnage.physics.memory import kv_bytes_per_token
from tonnage.simulation.capacity import Point, Steady, quantile_factor
from tonnage.simulation.mean_step import ReplicaLoad, ReplicaTimes
from tonnage.simulation.policies import Pool, limits_of
from tonnage.simulation.simulated import ReplicaArrays, step_arrays
from tonnage.simulation.steps import MixedStep, StepGrid, StepTable, step_grid, step_table

if TYPE_CHECKING:
    from tonnage.simulation.disaggregated import Unit

USUAL_BATCH: Final = 256.0
"""Where the engine sets no limit of its own. [requests]"""
MOST_QUEUEING: Final = 10.0
"""Most that queueing adds to an interval's end: beyond it the replica is overloaded, and latency depends on how long
the overload lasts. [-]"""
_AT_CAPACITY: Final = 1.01
"""Rate over what a replica takes, up to which it is at its capacity and not overloaded: bisection is as good. [-]"""
_SEVERAL: Final = 1.001
"""Prompts that a step's budget holds, from which what many add is told from what one adds. [-]"""
_FEW: Final = 4.0
"""Prompts of a run up to which each number is looked at. [-]"""
_USUAL_BESIDE: Final = 16.0
"""Decodes beside which it is looked at what more prompts add. [requests]"""
_MOST_DECODES: Final = 0.95
"""Of a step's budget, where prompts share it. [-]"""
_SIZES: Final = tuple(2.0**k for k in range(20))
"""Decode batches that are looked at. [requests]"""
_USUAL_BUDGET: Final = 8192.0
"""Prompt tokens of a step where the engine sets none. [tokens]"""
MOST_CACHE: Final = 1e12
"""Stands for a cache that nothing limits. [tokens]"""


Replica = Deployment
"""As it is for requests of some lengths. Without times it does not fit, and its pool says why."""


def errors_at(replica: Replica, point: Point, *, prompt_tokens: float, state: Steady | None) -> ErrorModel:
    """The error model of tails at a point of the steady `state`, which is given where requests arrive at a rate."""
    load = load_class(point.concurrency, prompt_tokens)
    errors = replica.errors(replica.basis, load=load, in_flight=point.concurrency)
    return errors if state is None else with_queueing(errors, state, rate_per_s=point.rate_per_s, seen=Point.tails)


def errors_by_load(replica: Replica, prompt_tokens: float, *, top: float) -> Iterator[tuple[ErrorModel, float]]:
    """
    Error models of loads in their order, each with the requests in flight on the replica up to which it holds.

    Up to `top` requests where the user measured the stack; else one for each class of load, the last without an end.
    """
    basis = replica.basis
    if replica.drift is None or replica.calibration is None:
        yield from ((replica.errors(basis, load=name), end) for name, end in load_ends(prompt_tokens))
        return
    from tonnage.core.drift import load_steps

    for load, end in load_steps(top):
        yield replica.errors(basis, load=load_class(load, prompt_tokens), in_flight=load), end


def replica_of(deployment: Deployment, lengths: Lengths, *, known: Known | None = None) -> Replica:
    """
    The replica of a deployment for requests of these lengths; as it is, without times, where it does not fit. `known`
    keeps parts of steps for the same deployment, of other lengths or with other drafts.
    """
    if not deployment.pool.verdict.ok:
        return deployment
    table = step_table(steady_grid(deployment, lengths, known=known), deployment.overheads)
    times, tier = _times(deployment, lengths, table=table), table.rung
    basis = deployment.basis_on(tier)
    return replace(
        deployment,
        kv_tokens=_cache_tokens(deployment, lengths.prompt_tokens + lengths.output_tokens),
        times=times,
        basis=basis,
        rate_error=deployment.errors(basis, load="steady").spread("output_tokens_per_s"),
        reuse=None,
    )


def _cache_tokens(at: Deployment, whole: float) -> float:
    """Tokens of cache as requests of so many tokens use them: sliding windows and states make some free. [tokens]"""
    return min(max(at.pool.tokens, at.pool.sequences * whole), MOST_CACHE)


def concurrency_limit(at: Deployment, lengths: Lengths) -> float:
    """
    Requests whose caches fit at once, within the engine's own limit: R c + z sqrt(R) s <= pool.

    c is what a request holds on average over its life, prompt plus half the output (all of it where the engine
    reserves room), s the spread of lengths. The beams of a search share the prompt's cache and hold an answer each.
    0 where not one fits; infinite where neither the cache nor the engine limits them. [requests]
    """
    answers = lengths.output_tokens * at.placement.beams
    whole = lengths.prompt_tokens + answers
    if not math.isfinite(at.pool.sequences):
        return at.max_num_seqs
    tokens = _cache_tokens(at, lengths.prompt_tokens + lengths.output_tokens)
    reserves = at.running.spec.scheduling.reserves_output
    mean = whole if reserves else max(1.0, lengths.prompt_tokens + lasting_answer(lengths) * at.placement.beams / 2.0)
    z = quantile_factor(95.0)
    spread = max(0.0, (lengths.prompt_p95 or lengths.prompt_tokens) - lengths.prompt_tokens) / z
    root = (-z * spread + math.sqrt((z * spread) ** 2 + 4.0 * mean * tokens)) / (2.0 * mean)
    held = root**2 if tokens >= whole else 0.0
    return min(held, at.max_num_seqs)


def with_queueing(
    errors: ErrorModel, state: Steady, *, rate_per_s: float, seen: Callable[[Point], dict[str, float]]
) -> ErrorModel:
    """
    The error model with what the queue makes of latencies at a rate, at either end of how long steps may take. `seen`
    says which latencies of a steady state: its means or its tails.

    With all steps k times as long, T(rate; k D) = k T(k rate; D): the k is the interval's own factor, what is left is
    the steady state at k times the rate. Where that is more than the replica takes, first tokens wait as long as the
    overload has lasted: `MOST_QUEUEING` times where overload is possible, without end where it is what is predicted.
    """
    quick, slow = (errors.spread("tpot_s").at(end) for end in (-1.0, 1.0))
    (known, _), (less, _), (more, full) = (state.at_rate(rate_per_s * k) for k in (1.0, quick, slow))
    over = rate_per_s > known.rate_per_s * _AT_CAPACITY
    base, low, high = map(seen, (known, less, more))
    queueing = {}
    for name in base:
        end = min(MOST_QUEUEING, max(1.0, high[name] / base[name]))
        if full and name != "tpot_s":
            end = math.inf if over else MOST_QUEUEING
        queueing[name] = max(1.0 / MOST_QUEUEING, min(1.0, low[name] / base[name])), end
    return replace(errors, queueing=queueing)


def _top(at: Deployment) -> float:
    """The largest batch that is looked at: what engine and cache allow, or twice the cache. [requests]"""
    most = at.max_num_seqs if math.isfinite(at.max_num_seqs) else USUAL_BATCH
    return max(1.0, min(most, at.pool.sequences * 2.0))


def steady_grid(at: Deployment, lengths: Lengths, *, known: Known | None = None) -> StepGrid:
    """Steps of a steady state of requests of these lengths, and prompts up to the step's budget; `known` as above."""
    context = max(2.0, lengths.prompt_tokens + lengths.output_tokens)
    chunk = rank_budget(at, lengths.prompt_tokens) * at.memory_layout.dp
    prompt = max(1.0, lengths.prompt_tokens)
    exact = min(prompt, lengths.computed_tokens or prompt)
    return step_grid(
        at.placement, batch=_top(at), context=context, chunk=chunk, prompt=prompt, exact=exact, known=known
    )


def rank_budget(at: Deployment, prompt_tokens: float) -> float:
    """Prompt tokens of one step of one data-parallel rank: its budget, or a whole prompt where none is cut."""
    tokens = float(at.engine.max_num_batched_tokens or _USUAL_BUDGET)
    return max(tokens, prompt_tokens) if at.engine.chunked_prefill is False else tokens


def _times(at: Deployment, lengths: Lengths, *, table: StepTable) -> ReplicaTimes:
    """
    Decode steps at a few batch sizes and the mean context, and what prompts add to them: of the table of steps.
    """
    top = _top(at)
    prompts = Prompts(at, table, lengths=lengths)
    if prompts.mixed:  # decodes that fill the budget leave no room for prompts
        top = min(top, max(1.0, _MOST_DECODES * prompts.budget * prompts.ranks))
    sizes = (*itertools.takewhile(lambda size: size < top, sorted((*_SIZES, 0.75 * top))), top)
    # Host work may make a larger batch look no slower; a step never gets shorter with more requests.
    steps = tuple(itertools.accumulate((prompts.decode_s(size) for size in sizes), max))
    usual = min(_USUAL_BESIDE, top)
    firsts = tuple(prompts.first_s(size) for size in sizes)
    first, each = prompts.first_s(usual), prompts.work_s(usual)
    tail, own = prompts.long_s(), prompts.request_s
    alone = prompts.alone_s(prompts.tokens)[0]
    room = prompts.budget if prompts.mixed else math.inf
    spread = prompt_work(lengths, Beside(first, each), alone=alone, tail=tail, budget=room)
    longer, more = spread.first_s / first, spread.each_s / each
    times = ReplicaTimes(
        batches=sizes,
        decode_s=steps,
        prefill_s=own + alone + spread.each_s - each,
        prefill_tail_s=own + max(tail, alone),
        prefill_work_s=max(spread.each_s, alone * LEAST_PREFILL / at.placement.layout.dp),
        first_s=tuple(one * longer for one in firsts),
        pieces=prompts.alone_s(prompts.tokens)[1],
        together=tuple((k, added * more, taken) for k, added, taken in prompts.together(usual)),
        prefill_uneven=spread.uneven,
        chunk_s=spread.piece_s,
        request_s=own,
        ahead=at.overheads.ahead,
        separate=not prompts.mixed,
        step_share=prompts.step_share,
    )
    if at.drift is not None:
        moved = at.drift.along(sizes)
        times = replace(times, pace=tuple(m.pace for m in moved), first=tuple(m.first for m in moved))
    return times


class Prompts:
    """What prompts of a load add to steps, read from a table: mean ones, of which a cache may hold a part."""

    def __init__(self, at: Deployment, table: StepTable, *, lengths: Lengths) -> None:
        self.table, self.lengths, self.mixed = table, lengths, mixes_prompts(at)
        self.context = lengths.prompt_tokens + lasting_answer(lengths) / 2.0
        self.tokens = max(1.0, min(lengths.prompt_tokens, lengths.computed_tokens or lengths.prompt_tokens))
        """Of a prompt, to compute. [tokens]"""
        self.found = max(0.0, lengths.prompt_tokens - self.tokens)
        self.budget, self.ranks = rank_budget(at, lengths.prompt_tokens), float(at.memory_layout.dp)
        self.request_s = at.overheads.request_s + passage_s(table, min(self.tokens, self.budget))

    @property
    def step_share(self) -> float:
        """Budgets of the replica's steps that one prompt fills; of a rank's where it is longer than that. [-]"""
        return self.tokens / (self.budget * (self.ranks if self.tokens <= self.budget else 1.0))

    def decode_s(self, sequences: float) -> float:
        """A decode step of so many. [s]"""
        return self.table.decode_s(sequences, self.context)

    def _room(self, beside: float) -> float:
        """Prompt tokens of a rank's step beside so many decodes. [tokens]"""
        return max(self.budget - beside / self.ranks if self.mixed else self.budget, self.budget * 0.02)

    def _step_s(self, tokens: float, prompts: float, *, beside: float, cached: float) -> float:
        sequences = beside if self.mixed else 0.0
        return self.table.mixed_step_s(MixedStep(tokens, prompts, sequences, self.context if beside else 0.0, cached))

    def _added_s(self, tokens: float, prompts: float, *, beside: float, cached: float) -> float:
        """A step with prompts beyond one of the same decodes. [s]"""
        shared = self.decode_s(beside) if self.mixed and beside else 0.0
        return self._step_s(tokens, prompts, beside=beside, cached=cached) - shared

    def alone_s(self, tokens: float, *, beside: float = 0.0, found: float | None = None) -> tuple[float, float]:
        """One prompt beside so many decodes: its steps, full ones and what is left, and their number. [s, steps]"""
        room, before = self._room(beside), self.found if found is None else found
        full = math.floor(tokens / room + 1e-9)
        rest, seconds = tokens - full * room, 0.0
        if full:
            seconds = full * self._step_s(room, 1.0, beside=beside, cached=before + (full - 1.0) * room / 2.0)
        if rest > 1e-6 * tokens:
            seconds += self._step_s(rest, 1.0, beside=beside, cached=before + full * room)
            full += 1
        return seconds, float(full)

    def long_s(self) -> float:
        """A prompt of the 95th percentile alone. [s]"""
        long, hard = self.lengths.prompt_p95, self.lengths.computed_p95
        found = max(0.0, (long or 0.0) - hard) if hard else None
        return self.alone_s(hard or long or self.tokens, found=found)[0]

    def first_s(self, beside: float) -> float:
        """What one prompt adds to the steps that carry it beside so many decodes. [s]"""
        seconds, steps = self.alone_s(self.tokens, beside=beside)
        shared = steps * self.decode_s(beside) if self.mixed else 0.0
        return max(seconds - shared, seconds * LEAST_PREFILL)

    def work_s(self, beside: float) -> float:
        """What one more prompt adds where many queue: to a step that it fills with others, or that others fill. [s]"""
        room = self._room(beside) * self.ranks
        held = room / self.tokens
        cached = self.found + max(0.0, self.tokens - self.budget) / 2.0
        full = self._added_s(room, max(1.0, held), beside=beside, cached=cached)
        if held <= _SEVERAL or self.tokens > self.budget:
            return full / held
        return max((full - self.first_s(beside)) / (held - 1.0), full / held * LEAST_PREFILL)

    def together(self, beside: float) -> tuple[tuple[float, float, float], ...]:
        """Prompts of a run, what they add beyond the first, and its steps; none where a prompt fills several."""
        if self.tokens > self.budget:
            return ()
        held, found, k = self._room(beside) * self.ranks / self.tokens, list[tuple[float, float, float]](), 1.0

        def added(prompts: float) -> float:
            tokens = prompts * self.tokens
            return self._added_s(tokens, max(1.0, prompts), beside=beside, cached=self.found)

        first, most, least = added(1.0), added(max(1.0, held)), self._added_s(1.0, 1.0, beside=beside, cached=0.0)
        while k <= max(held, _FEW):
            whole = math.floor(k / held + 1e-9) if k >= held else 0
            left = k - whole * held
            more = added(left) if left > 1e-3 else 0.0
            found.append((k, whole * most + more - first, max(1.0, whole + (left > 1e-3))))
            following = k + 1.0 if k < _FEW else 2.0 * k
            k = held if k < held < following else following
        # Of a long run each step is full but the last.
        times = 8.0 * max(1.0, _FEW / held)
        return (*found, (held * times, times * most + least / 2.0 - first, times + 0.5))


def mixes_prompts(at: Deployment) -> bool:
    """Whether prompts share steps with decodes."""
    # TensorRT-LLM batches in flight whether or not it cuts prompts; others need chunks to mix.
    rules, chunked = at.running.spec.scheduling, at.engine.chunked_prefill is not False
    return rules.mixes_whole_prompts or (chunked and (not rules.separate_prompts or bool(at.engine.mixed_chunk)))


def load_of(request: Serve, replica: Replica) -> ReplicaLoad:
    """The load that a steady state is asked about: lengths, burstiness, objectives, the most requests at once."""
    lengths = request.lengths
    return ReplicaLoad(
        output_tokens=lengths.output_tokens,
        output_tail_tokens=lengths.output_p95 or long_answer(lengths),
        answers=later_tokens(lengths),
        dispersion=request.shape.dispersion,
        slo=request.slo,
        max_concurrency=concurrency_limit(replica, request.lengths),
        in_flight=request.rate_per_s is None,
    )


def state_of(request: Serve, replica: Replica, *, unit: Unit | None = None) -> Steady:
    """
    The steady state of a replica under the load of a request; with `unit`, of that unit of separate pools.

    Whether the model fits, the caller has looked: a replica without times is refused by an assertion.
    """
    assert replica.times is not None, "whoever asks has looked whether the model fits"
    return Steady(replica.times, load_of(request, replica), unit)


def replica_arrays(
    at: Deployment,
    *,
    prompt_tokens: float,
    output_tokens: float,
    kv_tokens: float | None = None,
    in_flight: float | None = None,
    options: dict[str, Any] | None,
) -> ReplicaArrays:
    """
    Step arrays and scheduler of a deployment's replica.

    The mean lengths say where the steps are opened; the arrays hold for every length. `kv_tokens` says what the cache
    holds where a log knows it better than `pool`; `in_flight` at which load the user's own measurements are read that
    say more than a stack's causes do (absent = the middle of theirs), for a run has one pace. [requests]
    `options` are settings of the scheduler, `block_tokens` and `longest` (tokens of the longest request) among them.
    """
    whole = prompt_tokens + output_tokens
    rules = dict(options or {})
    block_tokens = rules.pop("block_tokens", None)
    longest = int(rules.pop("longest", whole))
    placement, overheads = at.placement, at.overheads
    layout, kv = placement.layout, placement.precision.kv
    if kv_tokens is None:
        kv_tokens = max(at.pool.tokens, at.pool.sequences * whole)
    pool = Pool(
        tokens=min(kv_tokens, MOST_CACHE),
        ranks=layout.dp,
        block_tokens=block_tokens,
        accelerators=layout.ranks,
        token_bytes=kv_bytes_per_token(placement.model, kv, layout=layout).value,
    )
    limits = limits_of(at.running, pool, options=rules, longest=longest)
    # No more run together than the cache holds of the shortest of interest; arrays end there.
    seats = int(max(1, min(limits.max_num_seqs, limits.num_blocks)))
    limits = limits._replace(max_num_seqs=seats, ahead=overheads.ahead > 0.0)
    most = max(1.0, min(float(seats), limits.num_blocks * limits.block_tokens / max(1.0, prompt_tokens)))
    chunk, context = float(limits.budget), max(2.0, whole)
    grid = step_grid(placement, batch=most, context=context, chunk=chunk, prompt=prompt_tokens, exact=prompt_tokens)
    table = step_table(grid, overheads)
    arrays = step_arrays(table, max_num_seqs=seats, budget=limits.budget)
    delivery_s = overheads.request_s + passage_s(table, min(prompt_tokens, float(limits.budget)))
    if at.drift is not None:
        moved = at.drift.at(in_flight or at.drift.usual)
        arrays, delivery_s = arrays.paced(moved.pace, moved.first), delivery_s * moved.pace
    return ReplicaArrays(arrays, limits, delivery_s, table.rung)


def passage_s(table: StepTable, chunk: float) -> float:
    """
    A prompt's last piece through the stages, beyond what a step of a full pipeline says. [s]

    Stages work on different pieces at once, so a step is a stage's time; the last piece still passes all of them.
    """
    if table.layout.pp == 1:
        return 0.0
    alone = msgspec.structs.replace(table, layout=msgspec.structs.replace(table.layout, pp=1))
    whole, step = (one.mixed_step_s(MixedStep(chunk, 1.0)) for one in (alone, table))
    return max(0.0, whole - step)
