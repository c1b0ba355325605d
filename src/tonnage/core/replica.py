"""One replica of a deployment: in the steady state under a load, and as the simulator takes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from tonnage.core.deployment import Deployment, case_of, deploy
from tonnage.core.error_model import ErrorModel, load_class, load_ends
from tonnage.core.length_spread import LEAST_PREFILL, Beside, lasting_answer, later_tokens, long_answer, prompt_work
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.case import Traffic
from tonnage.domain.efficiency import Rung
from tonnage.domain.model import Model
from tonnage.domain.plan import Configuration
from tonnage.domain.requests.common import Lengths
from tonnage.domain.requests.serve import Serve
from tonnage.physics.memory import kv_bytes_per_token
from tonnage.physics.transformer import Tokens
from tonnage.simulation.capacity import Point, ReplicaLoad, ReplicaTimes, Steady, quantile_factor
from tonnage.simulation.policies import Pool, limits_of
from tonnage.simulation.simulated import ReplicaArrays, step_arrays
from tonnage.simulation.step_parts import parts_of, placed_work, prompt_launch_s, seconds
from tonnage.simulation.steps import MixedStep, StepGrid, StepTable, exchange_beside_s, step_grid, step_table

if TYPE_CHECKING:
    from tonnage.simulation.disaggregated import Unit

BATCH_SIZES: Final = (1.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0)
"""Decode batches whose step is computed; between them it is interpolated. [requests]"""
USUAL_BATCH: Final = 256.0
"""Where the engine sets no limit of its own. [requests]"""
MOST_QUEUEING: Final = 10.0
"""Most that queueing adds to an interval's end: beyond it the replica is overloaded, and latency depends on how long
the overload lasts. [-]"""
_AT_CAPACITY: Final = 1.01
"""Rate over what a replica takes, up to which it is at its capacity and not overloaded: bisection is as good. [-]"""
_SEVERAL: Final = 1.001
"""Prompts that a step's budget holds, from which what many add is told from what one adds. [-]"""
MOST_CACHE: Final = 1e12
"""Stands for a cache that nothing limits. [tokens]"""


Replica = Deployment
"""As it is for requests of some lengths. Without times it does not fit, and its pool says why."""


def errors_at(replica: Replica, point: Point, *, prompt_tokens: float, state: Steady | None) -> ErrorModel:
    """The error model at a point of the steady `state`, which is given where requests arrive at a rate."""
    load = load_class(point.concurrency, prompt_tokens)
    errors = replica.errors(replica.basis, load=load, in_flight=point.concurrency)
    return errors if state is None else with_queueing(errors, state, rate_per_s=point.rate_per_s)


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


def build_replica(lengths: Lengths, *, model: Model, accelerator: Accelerator, configuration: Configuration) -> Replica:
    """The replica of a plan's configuration for requests of these lengths; without times where it does not fit."""
    return _BUILD[-1](_Same(accelerator), model, configuration, lengths)


def keep_replicas(most: int) -> None:
    """
    From now on keep so many replicas of this process: a server's next question is mostly its last at another load.

    Nothing else moves them: a replica follows from these arguments alone, a user's calibrations being the
    accelerator's. Off unless asked for, since measuring and fitting change what lies below.
    """
    _BUILD[1:] = [lru_cache(maxsize=most)(_built)]


@contextmanager
def kept_replicas(most: int) -> Iterator[None]:
    """The same for one question that looks at many loads; where replicas are kept already, those stay."""
    before = _BUILD[1:]
    if not before:
        keep_replicas(most)
    try:
        yield
    finally:
        _BUILD[1:] = before


class _Same:
    """An accelerator as a key: the very same object, since its record holds mappings and has no hash."""

    __slots__ = ("one",)

    def __init__(self, one: Accelerator) -> None:
        self.one = one

    def __hash__(self) -> int:
        return id(self.one)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.one is other.one


def _built(accelerator: _Same, model: Model, configuration: Configuration, lengths: Lengths) -> Replica:
    case = case_of(configuration, model=model, lengths=lengths, traffic=Traffic(rate_per_s=1.0))
    return replica_of(deploy(case, model=model, accelerator=accelerator.one), lengths)


_BUILD: Final[list[Callable[[_Same, Model, Configuration, Lengths], Replica]]] = [_built]
"""What builds replicas: the last of these."""


def replica_of(deployment: Deployment, lengths: Lengths) -> Replica:
    """The replica of a deployment for requests of these lengths; as it is, without times, where it does not fit."""
    if not deployment.pool.verdict.ok:
        return deployment
    times, tier = _times(deployment, lengths)
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


def with_queueing(errors: ErrorModel, state: Steady, *, rate_per_s: float) -> ErrorModel:
    """
    The error model with what the queue makes of latencies at a rate, at either end of how long steps may take.

    With all steps k times as long, T(rate; k D) = k T(k rate; D): the k is the interval's own factor, what is left is
    the steady state at k times the rate. Where that is more than the replica takes, first tokens wait as long as the
    overload has lasted: `MOST_QUEUEING` times where overload is possible, without end where it is what is predicted.
    """
    quick, slow = (errors.service.at(end) for end in (-1.0, 1.0))
    (known, _), (less, _), (more, full) = (state.at_rate(rate_per_s * k) for k in (1.0, quick, slow))
    over = rate_per_s > known.rate_per_s * _AT_CAPACITY
    base, low, high = (point.means(state.load.output_tokens) for point in (known, less, more))
    queueing = {}
    for name in base:
        end = min(MOST_QUEUEING, max(1.0, high[name] / base[name]))
        if full and name != "tpot_s":
            end = math.inf if over else MOST_QUEUEING
        queueing[name] = max(1.0 / MOST_QUEUEING, min(1.0, low[name] / base[name])), end
    return replace(errors, queueing=queueing)


def _times(at: Deployment, lengths: Lengths) -> tuple[ReplicaTimes, Rung]:
    """
    Decode steps at a few batch sizes and the mean context, and the time of a mean and of a long prompt.

    The second is the weakest evidence tier of the largest step.
    """
    prompt = lengths.prompt_tokens
    context = prompt + lasting_answer(lengths) / 2.0
    most = at.max_num_seqs if math.isfinite(at.max_num_seqs) else USUAL_BATCH
    top = max(1.0, min(most, at.pool.sequences * 2.0))
    sizes = (*(size for size in BATCH_SIZES if size < top), top)
    drafting = None
    if at.placement.speculation is not None:
        drafting = step_table(drafting_grid(at, lengths, batch=top), at.overheads)
    steps = [_decode_s(at, size, context=context, drafting=drafting) for size in sizes]
    # Host work may make a larger batch look no slower; a step never gets shorter with more requests.
    rising = [max(times for times, _ in steps[: i + 1]) for i in range(len(steps))]
    budget = float(at.engine.max_num_batched_tokens or prompt)
    # What a cache gives of a prompt is attended to, and not computed again.
    computed = min(prompt, lengths.computed_tokens or prompt)
    long, hard = lengths.prompt_p95, lengths.computed_p95
    alone = _prefill_s(at, computed, cached=prompt - computed)
    tail = _prefill_s(at, hard or long, cached=max(0.0, (long or prompt) - hard) if hard else 0.0) if long else alone
    # What a request waits for alone (reading, tokenising) takes nothing away from others.
    own, layout = at.overheads.request_s, at.placement.layout
    added = _added_by_prompts(at, rising, alone=alone - own, computed=computed, prompt=prompt)
    mixed = mixes_prompts(at)
    room = budget if mixed else math.inf
    spread = prompt_work(lengths, added, alone=alone - own, tail=tail - own, budget=room)
    alone += spread.each_s - added.each_s
    times = ReplicaTimes(
        batches=sizes,
        decode_s=tuple(rising),
        prefill_s=alone,
        prefill_uneven=spread.uneven,
        chunk_s=spread.piece_s / layout.pp,
        prefill_tail_s=max(tail, alone),
        # It keeps one rank or stage of several busy.
        prefill_work_s=max(spread.each_s, (alone - own) * LEAST_PREFILL) / (layout.dp * layout.pp),
        prefill_first_s=spread.first_s / layout.pp,
        free_s=spread.free_s / (layout.dp * layout.pp),
        free_batch=added.free_rows * layout.dp * layout.pp,
        request_s=own,
        ahead=at.overheads.ahead,
        separate=not mixed,
        step_share=computed / budget,
    )
    if at.drift is not None:
        moved = at.drift.along(sizes)
        times = replace(times, pace=tuple(m.pace for m in moved), first=tuple(m.first for m in moved))
    return times, steps[-1][1]


def _added_by_prompts(at: Deployment, decode_s: list[float], *, alone: float, computed: float, prompt: float) -> Beside:
    """
    What prompts of mean length add to a decode step, from two steps: with one of them, and with as many as fill it.

    They share the step's weights, and what the accelerator could multiply while a small step waits for memory is free
    until decodes use it. Where prompts have steps of their own, decodes wait for the whole of it.

    Parameters
    ----------
    decode_s : list of float
        Decode steps at rising batch sizes, from one sequence on. [s]
    alone : float
        One such prompt on an idle replica. [s]
    computed, prompt : float
        Its tokens to compute, and all its tokens. [tokens]
    """
    budget = float(at.engine.max_num_batched_tokens or prompt)
    filled, cached = max(computed, budget), prompt - computed
    # Experts are read by any step of several requests, so what prompts share is such a step.
    shared = decode_s[min(1, len(decode_s) - 1)] if mixes_prompts(at) else 0.0
    first = max(alone - shared * max(1.0, computed / budget), alone * LEAST_PREFILL)
    many = filled / computed
    if many < _SEVERAL:
        return Beside(first, first, 0.0, 0.0)
    whole = _prompts_s(at, Tokens(prompts=many, chunk=computed, cached=cached, emitted=many)) - shared
    if first >= whole / many:
        return Beside(first, whole / many, 0.0, 0.0)
    each = (whole - first) / (many - 1.0)
    return Beside(first, each, each - first, (each - first) / each * computed)


def drafting_grid(at: Deployment, lengths: Lengths, *, batch: float) -> StepGrid:
    """Steps of speculative decoding up to a batch, whose drafts and verified tokens the table knows."""
    context = max(2.0, lengths.prompt_tokens + lengths.output_tokens)
    return step_grid(at.placement, batch=batch, context=context, chunk=1.0, prompt=lengths.prompt_tokens)


def _decode_s(at: Deployment, sequences: float, *, context: float, drafting: StepTable | None) -> tuple[float, Rung]:
    """A decode step of so many sequences on the replica [s], and its evidence tier; by `drafting` where given."""
    if drafting is not None:
        return drafting.decode_s(sequences, context), drafting.rung
    tokens = decode_tokens(at, sequences, context=context)
    parts = parts_of(placed_work(at.placement, tokens), at.placement)
    hidden = exchange_beside_s(at.placement, tokens.rows, overheads=at.overheads) if parts.exchange else 0.0
    return seconds(parts, at.overheads, sequences=sequences / at.placement.layout.dp) - hidden, parts.rung


def decode_tokens(at: Deployment, sequences: float, *, context: float) -> Tokens:
    """What one rank and stage does in a decode step of so many sequences on the replica."""
    layout = at.placement.layout
    mine = max(1.0, sequences * at.placement.beams / (layout.dp * layout.pp))
    return Tokens(decodes=mine, context=context, emitted=mine)


def mixes_prompts(at: Deployment) -> bool:
    """Whether prompts share steps with decodes."""
    # TensorRT-LLM batches in flight whether or not it cuts prompts; others need chunks to mix.
    rules, chunked = at.running.spec.scheduling, at.engine.chunked_prefill is not False
    return rules.mixes_whole_prompts or (chunked and (not rules.separate_prompts or bool(at.engine.mixed_chunk)))


def _prefill_s(at: Deployment, prompt: float, *, cached: float) -> float:
    """One prompt on an idle replica, behind tokens whose cache is there: whole chunks of the budget, then the rest."""
    tokens, steps = prefill_tokens(at, prompt)
    tokens = replace(tokens, cached=tokens.cached + cached) if cached else tokens
    return at.overheads.request_s + steps * _prompts_s(at, tokens)


def _prompts_s(at: Deployment, tokens: Tokens) -> float:
    """A step of prompts alone: no graph captured it, so its launches may be what it waits for. [s]"""
    parts, o = parts_of(placed_work(at.placement, tokens), at.placement), at.overheads
    launched = prompt_launch_s(at.placement, o, kernels=parts.kernels) + o.step_s + o.prompt_s * tokens.prompts
    fixed, each = at.placement.encoder_s
    encoding = fixed + each * tokens.prompts * tokens.chunk
    return max(seconds(parts, o, sequences=0.0, prompts=tokens.prompts), launched) + encoding


def prefill_tokens(at: Deployment, prompt: float) -> tuple[Tokens, float]:
    """The mean step of a prompt on an idle replica, and how many of them it takes, parts of one included."""
    chunk = min(prompt, float(at.engine.max_num_batched_tokens or prompt))
    # Equal chunks: attention of all of them sums to that of the whole prompt, so the mean cached length is right.
    cached = (prompt - chunk) / 2.0
    return Tokens(prompts=1.0, chunk=chunk, cached=cached, emitted=1.0), prompt / chunk


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
    limits = limits._replace(max_num_seqs=seats)
    most = max(1.0, min(float(seats), limits.num_blocks * limits.block_tokens / max(1.0, prompt_tokens)))
    grid = step_grid(placement, batch=most, context=max(2.0, whole), chunk=float(limits.budget), prompt=prompt_tokens)
    table = step_table(grid, overheads)
    arrays = step_arrays(table, max_num_seqs=seats, budget=limits.budget)
    prepared_s = table.with_host(table.decode_busy_s(1.0, whole, padded=True), 1.0)
    delivery_s = overheads.request_s + _passage_s(table, min(prompt_tokens, float(limits.budget)))
    delivery_s += overheads.ahead * prepared_s
    if at.drift is not None:
        moved = at.drift.at(in_flight or at.drift.usual)
        arrays, delivery_s = arrays.paced(moved.pace, moved.first), delivery_s * moved.pace
    return ReplicaArrays(arrays, limits, delivery_s, table.rung)


def _passage_s(table: StepTable, chunk: float) -> float:
    """
    A prompt's last piece through the stages, beyond what a step of a full pipeline says. [s]

    Stages work on different pieces at once, so a step is a stage's time; the last piece still passes all of them.
    """
    if table.layout.pp == 1:
        return 0.0
    alone = msgspec.structs.replace(table, layout=msgspec.structs.replace(table.layout, pp=1))
    whole, step = (one.mixed_step_s(MixedStep(chunk, 1.0)) for one in (alone, table))
    return max(0.0, whole - step)
