"""One replica of a configuration: does it fit, how much cache is left, how long do its steps take?"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from tonnage.engine.capacity import ReplicaTimes, quantile_factor
from tonnage.engine.kvcache import Demand, KvPool, kv_pool
from tonnage.engine.steps import Placement, seconds, step_parts
from tonnage.engines.settings import defaults, resolved
from tonnage.nouns.accelerator import Accelerator
from tonnage.nouns.answer import Basis, Quantity, Verdict
from tonnage.nouns.efficiency import Rung
from tonnage.nouns.layout import Engine
from tonnage.nouns.model import Model
from tonnage.nouns.plan import Configuration
from tonnage.nouns.workload import Lengths
from tonnage.physics.transformer import Tokens
from tonnage.planner.calibrated import basis_under, calibration_of, width
from tonnage.planner.levels import crowding, structure
from tonnage.planner.placement import BASIS_OF_RUNG, overheads_on, place

__all__ = ["Replica", "build_replica", "concurrency_limit", "factor_at"]

BATCH_SIZES: Final = (1.0, 16.0, 64.0, 256.0)
"""Decode batches whose step is computed; between them it is interpolated. [requests]"""
FACTORS: Final = {"ttft_s": "ttft_s", "tpot_s": "tpot_s", "requests_per_s": "output_tokens_per_s"}
"""Measured quantity whose interval each of ours takes: a replica's rate is as sure as its tokens per second."""

LOADS: Final = ("light", "steady", "crowded")


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one replica. Without times it does not fit; the verdict says why."""

    verdict: Verdict
    memory: Quantity
    kv_tokens: float
    max_num_seqs: int
    limit_bytes: float | None = None
    """What the engine allows itself of one accelerator. [bytes]"""
    times: ReplicaTimes | None = None
    basis: Basis = Basis.DERIVED
    factors: dict[str, float] = {}
    """90 % factor of each quantity at the replica's capacity."""
    factors_under: dict[str, dict[str, float]] = {}
    """The same by load: light, steady, crowded."""
    engine: Engine = Engine()
    placement: Placement | None = None


def build_replica(*, model: Model, accelerator: Accelerator, configuration: Configuration, lengths: Lengths) -> Replica:
    """The replica of a configuration for requests of these lengths; memory is looked at before any time."""
    layout, precision = configuration.layout, configuration.precision
    engine = defaults(configuration.engine, accelerator, model=model, layout=layout)
    pool = kv_pool(
        model,
        accelerator,
        precision=precision,
        engine=resolved(engine),
        layout=layout,
        demand=Demand(context_tokens=lengths.prompt_tokens + lengths.output_tokens),
    )
    max_num_seqs = engine.max_num_seqs or 256
    if not pool.verdict.ok:
        return Replica(verdict=pool.verdict, memory=pool.need, kv_tokens=0.0, max_num_seqs=max_num_seqs, engine=engine)
    placement = place(model, accelerator, configuration=configuration)
    times, rung = _times(placement, lengths, engine=engine, pool=pool)
    own = calibration_of(accelerator, engine.name)
    basis = basis_under(BASIS_OF_RUNG[rung], own)
    levels = {load: ":".join((basis, load, structure(model), engine.name)) for load in LOADS}
    factors = {
        load: {name: width(measured, own, level=level) for name, measured in FACTORS.items()}
        for load, level in levels.items()
    }
    return Replica(
        verdict=pool.verdict,
        memory=pool.memory,
        kv_tokens=_reachable_tokens(pool, lengths),
        max_num_seqs=max_num_seqs,
        limit_bytes=pool.limit_bytes,
        times=times,
        basis=basis,
        factors=factors["steady"],
        factors_under=factors,
        engine=engine,
        placement=placement,
    )


def factor_at(replica: Replica, name: str, *, concurrency: float, prompt_tokens: float) -> float:
    """The 90 % factor of a latency with so many requests at once: first tokens are as sure as prompts are few. [-]"""
    under = replica.factors_under.get(crowding(concurrency, prompt_tokens), replica.factors)
    return under[name]


def concurrency_limit(replica: Replica, lengths: Lengths) -> float:
    """
    Requests whose caches fit at once: R c + z sqrt(R) s <= pool, with the spread s of request lengths.

    c is the mean context over a request's life, prompt plus half the answer.
    """
    mean = lengths.prompt_tokens + lengths.output_tokens / 2.0
    z = quantile_factor(95.0)
    spread = max(0.0, (lengths.prompt_p95 or lengths.prompt_tokens) - lengths.prompt_tokens) / z
    root = (-z * spread + math.sqrt((z * spread) ** 2 + 4.0 * mean * replica.kv_tokens)) / (2.0 * mean)
    whole = root**2 if replica.kv_tokens > lengths.prompt_tokens + lengths.output_tokens else 0.0
    return min(whole, float(replica.max_num_seqs))


def _reachable_tokens(pool: KvPool, lengths: Lengths) -> float:
    """Tokens of cache, counted as the requests of this load use them (windows and states make some free)."""
    whole = lengths.prompt_tokens + lengths.output_tokens
    return min(max(pool.tokens, pool.sequences * whole), 1e12)


def _times(placement: Placement, lengths: Lengths, *, engine: Engine, pool: KvPool) -> tuple[ReplicaTimes, Rung]:
    """Decode steps at a few batch sizes and the mean context, and the time of a mean and of a long prompt."""
    prompt, output = lengths.prompt_tokens, lengths.output_tokens
    context = prompt + output / 2.0
    top = max(1.0, min(float(engine.max_num_seqs or 256), pool.sequences * 2.0))
    sizes = (*(size for size in BATCH_SIZES if size < top), top)
    steps = [_decode_s(placement, size, context=context, engine=engine) for size in sizes]
    # Host work may make a larger batch look no slower; a step never gets shorter with more requests.
    rising = [max(times for times, _ in steps[: i + 1]) for i in range(len(steps))]
    budget = float(engine.max_num_batched_tokens or prompt)
    alone = _prefill_s(placement, prompt, engine)
    tail = _prefill_s(placement, lengths.prompt_p95, engine) if lengths.prompt_p95 else alone
    # Prompts that join a running step share its weights' traffic, and each other's: what one adds is its part of a
    # full step's excess over an empty one.
    filled = max(prompt, budget)
    excess = (_prefill_s(placement, filled, engine) - steps[0][0]) * prompt / filled
    times = ReplicaTimes(
        batches=sizes,
        decode_s=tuple(rising),
        prefill_s=alone,
        prefill_tail_s=max(tail, alone),
        # It keeps one rank or stage of several busy.
        prefill_work_s=max(excess, alone * 0.05) / (placement.layout.dp * placement.layout.pp),
        step_share=prompt / budget,
    )
    return times, steps[-1][1]


def _decode_s(placement: Placement, sequences: float, *, context: float, engine: Engine) -> tuple[float, Rung]:
    ranks = placement.layout.dp * placement.layout.pp
    mine = max(1.0, sequences / ranks)
    parts = step_parts(placement, Tokens(decodes=mine, context=context, emitted=mine))
    return seconds(
        parts, overheads_on(placement.accelerator, engine.name), sequences=sequences / placement.layout.dp
    ), parts.rung


def _prefill_s(placement: Placement, prompt: float, engine: Engine) -> float:
    """One prompt on an idle replica: whole chunks of the token budget, then the rest."""
    budget = float(engine.max_num_batched_tokens or prompt)
    chunk = min(prompt, budget)
    steps = prompt / chunk
    # Equal chunks: attention of all of them sums to that of the whole prompt, so the mean cached length is right.
    cached = (prompt - chunk) / 2.0
    parts = step_parts(placement, Tokens(prompts=1.0, chunk=chunk, cached=cached, emitted=1.0))
    own = overheads_on(placement.accelerator, engine.name)
    return own.request_s + steps * seconds(parts, own, sequences=0.0, prompts=1.0)
