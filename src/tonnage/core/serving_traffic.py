"""A settled serving case under its traffic: which engine model answers it, and with which limits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tonnage.core.deployment import Deployment
from tonnage.core.replica import concurrency_limit, mixes_prompts, rank_budget, replica_of
from tonnage.domain.case import Traffic
from tonnage.domain.efficiency import Rung
from tonnage.domain.engine_spec import with_async_scheduling
from tonnage.domain.layout import Disaggregation, Engine, Layout
from tonnage.domain.requests.common import Lengths, Slo
from tonnage.errors import BadRequest
from tonnage.physics.efficiency import weakest_rung
from tonnage.physics.work import Work
from tonnage.simulation.capacity import Point, Steady
from tonnage.simulation.closed_loop import Load, burst, closed_loop, pipelined_share, static_batch
from tonnage.simulation.disaggregated import Pools, disaggregated_loop
from tonnage.simulation.mean_step import ReplicaLoad
from tonnage.simulation.simulated import Served
from tonnage.simulation.step_parts import Placement, encoded_work, parts_of, seconds
from tonnage.simulation.steps import StepGrid, StepTable, step_grid, step_table

if TYPE_CHECKING:
    from tonnage.core.drift import Moved


_DRIFT = (0.9, 1.1)
"""Clients of equal lengths drift apart where prompts share steps; where prompts stop decodes, they stay together."""
_DRIFT_WHOLE = (0.98, 1.02)
"""The same where prompts are not cut: those that met in a step meet again."""
_IN_FLIGHT = 4.0
"""Pieces whose inputs are kept at a time (llama.cpp GGML_SCHED_MAX_COPIES)."""
_PREFILL_TOKENS = 16_384
"""Of a step of a worker that does nothing but prefill, per rank, where nobody says: SGLang's chunks and TensorRT-LLM's
budgets in NVIDIA's public recipes of 2025 and 2026 (ai-dynamo/dynamo, NVIDIA/srt-slurm). [tokens]"""
_TYPICAL_BATCH = 256.0
"""Where nothing else limits the batch: an encoder or a need-based engine without a stated load. [requests]"""


def served_latency(at: Deployment) -> tuple[Served, Rung]:
    """What the case's traffic gets of one replica, and the weakest evidence tier that rests on; the model must fit."""
    case = at.case
    if case.phase == "encode":
        return _predict_encoder(at)
    if case.disaggregation is not None:
        return _predict_disaggregated(at)
    table = step_table(grid_of(at), at.overheads)
    found, rung = under_load(at, table)
    between = interrupted_share(at, found, table=table) if at.drift is not None else 0.0
    return with_drift(at, found, interrupted=between), rung


def interrupted_share(at: Deployment, found: Served, *, table: StepTable) -> float:
    """Of a time per token, what is not the decode step of those that run: prompts of other requests. [-]"""
    alone_s = table.decode_s(max(1.0, found.running), at.case.isl + at.case.osl / 2.0)
    return min(1.0, max(0.0, 1.0 - alone_s / found.tpot_s)) if found.tpot_s > 0.0 else 0.0


def moved_at(at: Deployment, found: Served, *, interrupted: float) -> Moved:
    """
    Factors of the user's own measurements near this configuration, beyond the causes of its stack.

    All 1 without such measurements, and for arrivals and full replicas, whose steady state has them already.
    """
    from tonnage.core.drift import Moved

    traffic = at.case.traffic
    if at.drift is None or traffic.rate_per_s is not None or traffic.saturated:
        # The steady state that the loads lie on has it already (`replica_of`).
        return Moved()
    clients = traffic.concurrency or (traffic.batch if traffic.static else None)
    return at.drift.at(clients / at.case.replicas if clients else found.running, interrupted=interrupted)


def with_drift(at: Deployment, found: Served, *, interrupted: float) -> Served:
    """
    The same requests as measured near this configuration.

    All times go at its pace; the first token, and what prompts take between others (`interrupted`), have their own.
    """
    if at.drift is None:
        return found
    moved = moved_at(at, found, interrupted=interrupted)
    first, token = moved.pace * moved.first, moved.pace * moved.between
    ttft, tails = found.ttft_s * first, (found.ttft_tail_s, found.tpot_tail_s)
    e2e = ttft + (found.e2e_s - found.ttft_s) * token
    later, every = (
        None if tail is None else tuple(None if x is None else x * by for x in tail)
        for tail, by in zip(tails, (first, token), strict=True)
    )
    return replace(
        found,
        ttft_s=ttft,
        tpot_s=found.tpot_s * token,
        e2e_s=e2e,
        requests_per_s=found.requests_per_s / moved.pace
        if at.case.traffic.rate_per_s is None
        else found.requests_per_s,
        ttft_tail_s=later,
        tpot_tail_s=every,
    )


def under_load(at: Deployment, table: StepTable) -> tuple[Served, Rung]:
    """
    The case's traffic on one replica whose steps are tabulated, before any drift.

    Raises
    ------
    BadRequest
        The traffic names no load.
    """
    case, load = at.case, load_of(at)
    traffic = case.traffic
    if traffic.saturated:
        state = open_load(offline(at))
        found = of_point(state, state.full, full=True)
    elif traffic.static:
        found = _static(at, table, load)
    elif traffic.concurrency is not None and starts_together(traffic):
        clients = traffic.concurrency / case.replicas
        found = closed_loop(table, load, clients=clients, requests_per_client=traffic.requests_per_client)
        found = with_prompt_wait(found, who_waits(at, load))
    elif traffic.concurrency is not None:
        found = with_prompt_wait(_of_clients(at, traffic.concurrency / case.replicas), at.engine)
    elif traffic.batch is not None:
        found = burst(table, load, requests=traffic.batch / case.replicas)
    elif traffic.rate_per_s is not None:
        found = with_prompt_wait(_at_rate(at, traffic.rate_per_s / case.replicas), at.engine)
    else:
        raise BadRequest("traffic: give concurrency, rate_per_s, batch or saturated")
    return found, table.rung


def starts_together(traffic: Traffic) -> bool:
    """Whether clients all start at once, as benchmarks do; who says how many requests each sends tells of a run."""
    return traffic.start == "together" or (traffic.start is None and traffic.requests_per_client is not None)


def _at_rate(at: Deployment, rate_per_s: float) -> Served:
    """The steady state at a rate of one replica, as a plan sees it; above its capacity, at its capacity."""
    state = open_load(at)
    point, full = state.at_rate(rate_per_s)
    found = of_point(state, point, full=full)
    return replace(found, requests_per_s=min(rate_per_s, point.rate_per_s))


def _of_clients(at: Deployment, clients: float) -> Served:
    """The steady state of clients of one replica that do not march in step."""
    state = open_load(replace(at, drift=None), in_flight=True)
    found = of_point(state, state.at(clients), full=clients > state.room)
    return replace(found, running=min(clients, found.requests_per_s * (found.e2e_s - found.ttft_s)))


def of_point(state: Steady, point: Point, *, full: bool) -> Served:
    """A steady state as what requests get of it, with two percentiles of each latency."""
    rare = replace(state, load=replace(state.load, slo=Slo(percentile=99.0)))
    last = rare.full if full and not state.load.in_flight else rare.at(point.concurrency)
    return Served(
        **point.means(state.load.output_tokens),
        requests_per_s=point.rate_per_s,
        running=point.concurrency,
        ttft_tail_s=(None, point.ttft_tail_s, max(last.ttft_tail_s, point.ttft_tail_s)),
        tpot_tail_s=(None, point.tpot_tail_s, max(last.tpot_tail_s, point.tpot_tail_s)),
        saturated=full,
    )


def mean_lengths(at: Deployment) -> Lengths:
    """The case's mean lengths, less what a cache has of its prompts."""
    prompt, found = max(1.0, at.case.isl), at.case.sessions.prefix_hits if at.case.sessions else None
    return Lengths(
        prompt_tokens=prompt,
        output_tokens=max(1.0, at.case.osl),
        computed_tokens=max(1.0, prompt * (1.0 - found)) if found else None,
    )


def open_load(at: Deployment, *, in_flight: bool = False) -> Steady:
    """Step times for the case's mean lengths, and its load: Poisson arrivals of equal requests, or clients."""
    lengths = mean_lengths(at)
    times = replica_of(at, lengths).times
    assert times is not None, "whoever asks for times has looked whether the model fits"
    load = ReplicaLoad(
        output_tokens=lengths.output_tokens,
        output_tail_tokens=lengths.output_tokens,
        max_concurrency=max(1.0, concurrency_limit(at, lengths)),
        in_flight=in_flight,
    )
    return Steady(times, load)


def offline(at: Deployment) -> Deployment:
    """The deployment in an offline run: where nobody reads along, answers leave whole and the host prepares ahead."""
    if not at.running.spec.scheduling.runs_alone:
        return at
    return replace(at, overheads=with_async_scheduling(replace(at.overheads, sequence_s=0.0), True))


def who_waits(at: Deployment, load: Load) -> Engine:
    """The engine for `with_prompt_wait`, without a setting whose wait the loop of clients has counted already."""
    return replace(at.engine, batch_wait_steps=None) if load.company > 1.0 else at.engine


def with_prompt_wait(found: Served, engine: Engine) -> Served:
    """The same requests when a setting makes prompts wait beside running decodes (`wait_steps`)."""
    steps = wait_steps(found, engine)
    if steps <= 0.0:
        return found
    added = steps * found.tpot_s
    return replace(
        found,
        ttft_s=found.ttft_s + added,
        e2e_s=found.e2e_s + added,
        requests_per_s=found.requests_per_s * found.e2e_s / (found.e2e_s + added),
        ttft_tail_s=tuple(None if tail is None else tail + added for tail in found.ttft_tail_s)
        if found.ttft_tail_s
        else None,
    )


def wait_steps(found: Served, engine: Engine) -> float:
    """
    Decode steps that a setting makes prompts wait; none where the load is all that the replica takes. [steps]

    An engine that looks for arrivals every n steps lets them wait n / 2 on average. One that waits up to n steps for
    company lets the first of a group wait n and those that join it, k = rate x n steps of them, half of that.
    """
    if found.saturated:
        return 0.0
    looks, company = engine.receive_interval or 0, engine.batch_wait_steps or 0
    joining = found.requests_per_s * company * found.tpot_s
    return looks / 2.0 + company * (1.0 + joining / 2.0) / (1.0 + joining)


def slots(at: Deployment) -> float:
    """
    Most whole requests that run together: what the cache holds and what the engine admits.

    At least one, for whether the model fits is asked elsewhere; infinite where nothing limits them.
    """
    most = concurrency_limit(at, Lengths(prompt_tokens=max(1.0, at.case.isl), output_tokens=at.case.osl))
    return max(1.0, math.floor(most)) if math.isfinite(most) else most


def _batch(at: Deployment) -> float:
    """Largest batch that the traffic can bring about on one replica. [requests]"""
    traffic, most = at.case.traffic, slots(at)
    asked = traffic.concurrency or traffic.batch
    if asked is not None:
        each = asked / at.case.replicas
        return max(1.0, each if traffic.static else min(each, most))
    return most if math.isfinite(most) else _TYPICAL_BATCH


def _budget(at: Deployment) -> float:
    """Prompt tokens of one step of all data-parallel ranks: their budgets, or whole prompts where none is cut."""
    return rank_budget(at, at.case.isl) * at.memory_layout.dp


def load_of(at: Deployment) -> Load:
    """What arrives at one replica, and the engine's limits on what runs together."""
    most, stated = slots(at), at.case.length_spread
    chunked, mixed = at.engine.chunked_prefill is not False, mixes_prompts(at)
    spread = stated or ((_DRIFT if chunked else _DRIFT_WHOLE) if mixed else (1.0, 1.0))
    return Load(
        prompt_tokens=max(1.0, at.case.isl),
        output_tokens=max(1.0, at.case.osl),
        budget=_budget(at),
        slots=most if math.isfinite(most) else _TYPICAL_BATCH,
        spread=spread,
        mixed=mixed,
        together=not mixed and at.running.spec.scheduling.answers_together,
        company=_company(at.memory_layout.dp) if at.engine.batch_wait_steps else 1.0,
        patience=float(at.engine.batch_wait_steps or 0),
        # There a prompt takes far longer than a client lags behind another, and is never held for company. Loads of
        # accelerators keep the common start under which the catalogue's overheads were fitted.
        one_first=at.placement.accelerator.segment == "cpu",
    )


def _company(ranks: int) -> float:
    """
    Prompts that come until every rank has one, where each takes the seat of an answer that ended anywhere.

    Examples
    --------
    >>> _company(1), _company(4)
    (1.0, 8.333333333333332)
    """
    return ranks * sum(1.0 / k for k in range(1, ranks + 1))


def grid_of(at: Deployment) -> StepGrid:
    """Steps that the case's traffic can bring about, opened into parts."""
    case, batch = at.case, _batch(at)
    return step_grid(
        at.placement,
        batch=batch,
        context=max(2.0, case.isl + case.osl),
        # A prompt lies on one data-parallel rank: the step that reads a single one is as wide there as that of many.
        chunk=max(1.0, min(_budget(at), max(1.0, case.isl) * max(batch, at.memory_layout.dp))),
        prompt=max(1.0, case.isl),
    )


def _static(at: Deployment, table: StepTable, load: Load) -> Served:
    """One batch that starts together; what the engine cannot run at once queues, unless it knows no queue."""
    each = float(at.case.traffic.batch or 1) / at.case.replicas
    if not at.running.spec.scheduling.queues_batches:
        # Prompts of a batch that starts together are computed together in engines without a budget.
        load = replace(load, budget=math.inf)
    elif each > load.slots:
        return burst(table, load, requests=each)
    return static_batch(table, load, batch=each, piped=pipeline_remainder_s(at, each * load.prompt_tokens))


def pipeline_remainder_s(at: Deployment, tokens: float) -> float:
    """
    What pipelined pieces leave of the time of so many prompt tokens, a share of it. [-]

    1 unless layers are spread over devices that take turns and the engine's release sends pieces through them.
    """
    stages, since = at.memory_layout.pp, at.running.spec.piped_since
    taking_turns = at.case.split_mode == "layer" and stages > 1
    if not taking_turns or since is None or (at.release is not None and at.release < since):
        return 1.0
    # The output is laid out as one more layer.
    layers = at.placement.model.num_layers
    largest = min(1.0, math.ceil((layers + 1) / stages) / layers)
    pieces = tokens / float(at.engine.max_num_batched_tokens or tokens)
    return pipelined_share(pieces=pieces, largest=largest, in_flight=_IN_FLIGHT)


def encoded_batch(at: Deployment) -> float:
    """Sequences of one pass over all replicas. [requests]"""
    traffic = at.case.traffic
    return float(traffic.batch or traffic.concurrency or (_TYPICAL_BATCH if traffic.saturated else 1))


def encoded_batch_work(at: Deployment) -> Work:
    """The work list of one pass of one replica, which has its part of the batch."""
    sequences = encoded_batch(at) / at.case.replicas
    return encoded_work(at.placement, sequences=sequences, length=max(1.0, at.case.isl))


def _predict_encoder(at: Deployment) -> tuple[Served, Rung]:
    """One pass per batch; latency and throughput are two sides of it."""
    traffic, case = at.case.traffic, at.case
    batch = encoded_batch(at) / case.replicas
    parts = parts_of(encoded_batch_work(at), at.placement)
    o = at.overheads
    taken = seconds(parts, o, sequences=batch, prompts=1.0) + o.request_s
    rate = batch / taken
    if traffic.rate_per_s is not None:
        rate = min(rate, traffic.rate_per_s / case.replicas)
    return Served(ttft_s=taken, tpot_s=taken, e2e_s=taken, requests_per_s=rate, running=batch), parts.rung


def _predict_disaggregated(at: Deployment) -> tuple[Served, Rung]:
    """What a loop of clients gets of separate pools, one copy of both; and the weaker evidence tier of the two."""
    case, (_, clients) = at.case, _split(at)
    pools = pools_of(at, pool_grids(at))
    found = disaggregated_loop(
        pools,
        clients=clients,
        prompt_tokens=case.isl,
        output_tokens=case.osl,
        together=starts_together(case.traffic),
        requests_per_client=case.traffic.requests_per_client,
    )
    return found, weakest_rung((pools.prefill.rung, pools.decode.rung))


def _split(at: Deployment) -> tuple[Disaggregation, float]:
    """The pools of a case that has them, and its clients for each copy of both."""
    split, clients = at.case.disaggregation, at.case.traffic.concurrency
    if split is None or clients is None:
        raise BadRequest("disaggregation needs traffic.concurrency; give the number of clients")
    return split, clients / at.case.replicas


def pool_grids(at: Deployment) -> tuple[StepGrid, StepGrid]:
    """Steps of one prefill worker and of one decode worker."""
    case, (split, clients) = at.case, _split(at)
    prefill, decode = (_placed(at, layout) for layout in (split.prefill, split.decode))
    most = max(1.0, clients / split.decode_workers)
    budget = _prefill_budget(at, split.prefill)
    first = step_grid(prefill, batch=1.0, context=case.isl, chunk=budget, prompt=case.isl)
    second = step_grid(decode, batch=most, context=case.isl + case.osl, chunk=most, prompt=case.isl)
    return first, second


def pools_of(at: Deployment, grids: tuple[StepGrid, ...]) -> Pools:
    """One copy of the two pools of workers, their steps timed, with its part of the clients."""
    from tonnage.simulation.disaggregated import one_transfer_s

    case, (split, clients) = at.case, _split(at)
    prefill, decode = (step_table(grid, at.overheads) for grid in grids)
    return Pools(
        prefill=prefill,
        prefill_workers=split.prefill_workers,
        decode=decode,
        decode_workers=split.decode_workers,
        slots=min(slots(at), max(1.0, clients)),
        budget=_prefill_budget(at, split.prefill),
        transfer_s=one_transfer_s(_placed(at, split.prefill), case.isl),
        found=(case.sessions.prefix_hits or 0.0) if case.sessions else 0.0,
        spread=case.length_spread or (1.0, 1.0),
    )


def _prefill_budget(at: Deployment, layout: Layout) -> float:
    """Prompt tokens of one step of a prefill worker, of all its data-parallel ranks: at least a whole prompt each."""
    stated = at.case.engine_options.get("max_num_batched_tokens")
    tokens = float(stated or max(_PREFILL_TOKENS, at.engine.max_num_batched_tokens or 0))
    return max(at.case.isl, tokens) * layout.dp


def _placed(at: Deployment, layout: Layout) -> Placement:
    """The placement of a worker in a layout of its own."""
    return replace(at.placement, layout=layout)
