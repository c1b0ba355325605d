"""One replica as the simulator takes it: step arrays, scheduler, and how long a request takes to reach it."""

from __future__ import annotations

from typing import Any

import msgspec

from tonnage.core.deployment import Deployment
from tonnage.core.replica import MOST_CACHE
from tonnage.physics.memory import kv_bytes_per_token
from tonnage.simulation.policies import Pool, limits_of
from tonnage.simulation.simulated import ReplicaArrays, step_arrays
from tonnage.simulation.steps import MixedStep, StepTable, step_grid, step_table


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
    delivery_s = overheads.request_s + _passage_s(table, min(prompt_tokens, float(limits.budget)))
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
