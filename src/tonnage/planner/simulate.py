"""One configuration under its traffic, request by request: the answer of `tonnage simulate`.

The path: simulation -> settled nouns and memory (`serve_setup`) -> step arrays and scheduler -> requests
with times and lengths -> the engine's simulator -> percentiles, occupancy, capacity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.intervals import factor
from tonnage.engine.metrics import Objectives, goodput_per_s, summary
from tonnage.engine.overheads import Overheads
from tonnage.engine.policies import Pool, limits_of
from tonnage.engine.simulated import Limits, Requests, StepArrays, step_arrays
from tonnage.engine.step_parts import Placement
from tonnage.engine.steps import step_grid, step_table
from tonnage.errors import BadRequest
from tonnage.nouns.answer import Basis
from tonnage.nouns.case import Latency, ServeCase, Traffic
from tonnage.nouns.efficiency import Rung
from tonnage.nouns.layout import Engine
from tonnage.nouns.simulate import SIMULATE_SCHEMA, CapacityFound, Occupancy, Simulated, Simulation
from tonnage.nouns.workload import Slo
from tonnage.planner.placement import BASIS_OF_RUNG
from tonnage.planner.serve_setup import Setup, setup
from tonnage.planner.simulate_traffic import Traced, traffic_of
from tonnage.units import show

if TYPE_CHECKING:
    from tonnage.engine.serving import Simulated as Run

__all__ = ["ReplicaArrays", "replica_arrays", "request_rows", "simulate"]

MOST_CACHE: Final = 1e12
"""Stands for a cache that nothing limits. [tokens]"""
OCCUPANCY_POINTS: Final = 200


class ReplicaArrays(msgspec.Struct, frozen=True, kw_only=True):
    """One replica as the simulator takes it."""

    table: StepArrays
    limits: Limits
    delivery_s: float
    rung: Rung


def replica_arrays(
    placement: Placement,
    overheads: Overheads,
    *,
    engine: Engine,
    kv_tokens: float,
    prompt_tokens: float,
    output_tokens: float,
    release: tuple[int, ...] | None = None,
    options: dict[str, Any] | None = None,
) -> ReplicaArrays:
    """
    Step arrays and scheduler of a replica whose engine has its settings.

    The mean lengths say where the steps are opened; the arrays hold for every length.
    """
    whole = prompt_tokens + output_tokens
    rules = dict(options or {})
    block_tokens = rules.pop("block_tokens", None)
    longest = int(rules.pop("longest", whole))
    pool = Pool(tokens=min(kv_tokens, MOST_CACHE), ranks=placement.layout.dp, block_tokens=block_tokens)
    limits = limits_of(engine, pool, release=release, options=rules, longest=longest)
    # No more run together than the cache holds of the shortest of interest; arrays end there.
    seats = int(max(1, min(limits.max_num_seqs, limits.num_blocks)))
    limits = limits._replace(max_num_seqs=seats)
    most = max(1.0, min(float(seats), limits.num_blocks * limits.block_tokens / max(1.0, prompt_tokens)))
    grid = step_grid(placement, batch=most, context=max(2.0, whole), chunk=float(limits.budget), prompt=prompt_tokens)
    table = step_table(grid, overheads)
    return ReplicaArrays(
        table=step_arrays(table, max_num_seqs=seats, budget=limits.budget),
        limits=limits,
        delivery_s=overheads.request_s,
        rung=table.rung,
    )


def simulate(
    asked: Simulation,
    *,
    additions: Additions = catalog.NOTHING,
    watch: Callable[[int, int], None] | None = None,
    keep: Callable[[Run], None] | None = None,
) -> Simulated:
    """
    What the traffic sees on the configuration.

    Parameters
    ----------
    watch : callable
        Called with requests handed in and requests in all, every so often.
    keep : callable
        Called once with the run itself: a row for each request.

    Raises
    ------
    TonnageError
        Something is unknown, or the traffic cannot be read. That nothing fits is an answer.
    """
    from tonnage.engine.serving import simulate as run_of

    traffic = traffic_of(asked.traffic)
    at = setup(_case(asked, traffic), additions=additions)
    if not at.pool.verdict.ok:
        why = at.pool.verdict.reason or "it does not fit"
        return Simulated(
            schema=SIMULATE_SCHEMA,
            sentence=f"It does not run: {why}.",
            fits=False,
            basis=Basis.DERIVED,
            why=why,
            assumed=at.notes,
        )
    replica = _replica(asked, at, traffic)
    each = traffic.requests if asked.replicas == 1 else _share(traffic.requests, asked.replicas)
    clients = asked.traffic.concurrency
    run = run_of(
        replica.table,
        replica.limits,
        requests=each,
        clients=math.ceil(clients / asked.replicas) if clients else None,
        delivery_s=replica.delivery_s,
        watch=watch,
    )
    if keep is not None:
        keep(run)
    return _answer(asked, at, replica, traffic, run)


def _share(requests: Requests, replicas: int) -> Requests:
    """What the first of several replicas gets from a router that takes turns."""
    import numpy as np

    from tonnage.engine.serving import kept

    return kept(requests, np.arange(len(requests.prompt)) % replicas == 0)


def _case(asked: Simulation, traffic: Traced) -> ServeCase:
    """The serving case at the mean lengths, whose memory and engine are settled."""
    return ServeCase(
        model=asked.model,
        accelerator=asked.accelerator,
        traffic=Traffic(rate_per_s=asked.traffic.rate_per_s or 1.0),
        isl=traffic.prompt_mean,
        osl=traffic.output_mean,
        layout=asked.layout,
        precision=asked.precision,
        engine=asked.engine,
        engine_version=asked.engine_version,
        engine_options=asked.engine_options,
    )


def _replica(asked: Simulation, at: Setup, traffic: Traced) -> ReplicaArrays:
    whole = traffic.prompt_mean + traffic.output_mean
    options = {**asked.scheduler, "longest": traffic.longest}
    if traffic.hash_tokens:
        options["block_tokens"] = traffic.hash_tokens
    return replica_arrays(
        at.placement,
        at.overheads,
        engine=at.engine,
        kv_tokens=min(max(at.pool.tokens, at.pool.sequences * whole), MOST_CACHE),
        prompt_tokens=traffic.prompt_mean,
        output_tokens=traffic.output_mean,
        release=at.release,
        options=options,
    )


def _answer(asked: Simulation, at: Setup, replica: ReplicaArrays, traffic: Traced, run: Run) -> Simulated:
    import numpy as np

    basis = BASIS_OF_RUNG[replica.rung]
    if at.times.borrowed and basis is Basis.CALIBRATED:
        basis = Basis.DERIVED
    done = np.isfinite(run.last_s)
    count = int(done.sum())
    notes = (*traffic.notes, *at.notes)
    if not count:
        why = (
            f"every request is longer than the cache of {at.pool.tokens:,.0f} tokens"
            if run.num_refused
            else "no request ended"
        )
        sentence = f"Nothing was answered: {why}."
        return Simulated(schema=SIMULATE_SCHEMA, sentence=sentence, fits=True, basis=basis, why=why,
                         refused=run.num_refused, partial=run.partial, assumed=notes)  # fmt: skip
    sent, last = run.requests.sent_s, run.last_s
    span = float(np.nanmax(last) - sent[0])
    found = Simulated(
        schema=SIMULATE_SCHEMA,
        sentence="",
        fits=True,
        basis=basis,
        partial=run.partial,
        requests=count,
        refused=run.num_refused,
        preemptions=int(run.preempted.sum()),
        span_s=span,
        ttft_s=_latency("ttft_s", run.ttft_s, basis),
        tpot_s=_latency("tpot_s", run.tpot_s, basis),
        itl_s=_gaps(run),
        e2e_s=_latency("e2e_s", run.e2e_s, basis),
        queue_s=_latency(None, run.started_s - sent, basis),
        requests_per_s=count / span * asked.replicas,
        output_tokens_per_s=float(run.requests.output[done].sum()) / span * asked.replicas,
        goodput_per_s=_goodput(asked, run, span),
        slo_met=_met(asked, run),
        cached_share=run.cached_tokens / max(1, run.cached_tokens + run.prompt_tokens),
        occupancy=_occupancy(run, replica.limits),
        capacity=_capacity(asked, replica, traffic),
        steps=run.steps,
        assumed=notes,
        licence=traffic.licence,
    )
    return msgspec.structs.replace(found, sentence=_sentence(asked, found))


def _latency(name: str | None, values: Any, basis: Basis) -> Latency | None:
    found = summary(values)
    if found is None:
        return None
    width = factor("serve", name, rung=basis) if name else None
    return Latency(
        mean=found.mean, p50=found.p50, p90=found.p90, p95=found.p95, p99=found.p99,
        low=found.mean / width if width else None, high=found.mean * width if width else None,
    )  # fmt: skip


def _gaps(run: Run) -> Latency | None:
    import numpy as np

    from tonnage.engine.loop_state import GAP_LEAST, GAP_RATIO
    from tonnage.engine.serving import gap_quantile

    total = int(run.gaps.sum())
    if not total:
        return None
    lengths = GAP_LEAST * np.exp((np.arange(len(run.gaps)) + 0.5) * GAP_RATIO)
    p50, p90, p95, p99 = (gap_quantile(run.gaps, q) for q in (0.5, 0.9, 0.95, 0.99))
    return Latency(mean=float((run.gaps * lengths).sum() / total), p50=p50, p90=p90, p95=p95, p99=p99)


def _goodput(asked: Simulation, run: Run, span: float) -> float | None:
    slo = asked.slo
    if slo is None or span <= 0:
        return None
    objectives = Objectives(ttft_s=slo.ttft_s, tpot_s=slo.tpot_s, e2e_s=slo.e2e_s)
    good = goodput_per_s(ttft=run.ttft_s, tpot=run.tpot_s, e2e=run.e2e_s, objectives=objectives, span_s=span)
    return good * asked.replicas


def _met(asked: Simulation, run: Run) -> bool | None:
    """Whether each objective holds at its percentile."""
    import numpy as np

    slo = asked.slo
    if slo is None:
        return None
    pairs = ((run.ttft_s, slo.ttft_s), (run.tpot_s, slo.tpot_s), (run.e2e_s, slo.e2e_s))
    return all(most is None or float(np.nanpercentile(values, slo.percentile)) <= most for values, most in pairs)


def _occupancy(run: Run, limits: Limits) -> Occupancy | None:
    line = run.timeline
    if not len(line.at_s):
        return None
    stride = max(1, len(line.at_s) // OCCUPANCY_POINTS)
    columns = (line.at_s, line.running, line.waiting, line.used_blocks / limits.num_blocks, line.tokens_per_s)
    at, running, waiting, used, tokens = (tuple(float(x) for x in column[::stride]) for column in columns)
    return Occupancy(at_s=at, running=running, waiting=waiting, cache_share=used, output_tokens_per_s=tokens)


def _capacity(asked: Simulation, replica: ReplicaArrays, traffic: Traced) -> CapacityFound | None:
    if not asked.capacity:
        return None
    from tonnage.engine.slo import Slo as Limit
    from tonnage.engine.slo import slo_capacity

    if asked.slo is None:
        raise BadRequest("capacity needs objectives; state slo, as in slo: {ttft: 1 s, tpot: 50 ms}")
    if asked.traffic.concurrency:
        raise BadRequest("capacity is a rate; give traffic a rate instead of a concurrency")
    wanted: Slo = asked.slo
    objectives = Limit(ttft_s=wanted.ttft_s, tpot_s=wanted.tpot_s, e2e_s=wanted.e2e_s, percentile=wanted.percentile)
    found = slo_capacity(
        replica.table, replica.limits, requests=traffic.requests, slo=objectives, delivery_s=replica.delivery_s
    )
    return CapacityFound(
        rate_per_s=found.rate_per_s, low_per_s=found.low_per_s, high_per_s=found.high_per_s, binding=found.binding,
        why=found.why, knee_per_s=found.knee_per_s, simulations=len(found.probes),
    )  # fmt: skip


def _sentence(asked: Simulation, found: Simulated) -> str:
    parts = []
    for name, latency in (("TTFT", found.ttft_s), ("TPOT", found.tpot_s)):
        if latency is not None and latency.p95 is not None:
            parts.append(f"p95 {name} {show(latency.p95, 's')}")
    load = (
        f"{asked.traffic.concurrency} clients"
        if asked.traffic.concurrency
        else f"{found.requests_per_s:.3g} requests/s"
    )
    verdict = (
        "" if found.slo_met is None else ("Within the objectives: " if found.slo_met else "Misses the objectives: ")
    )
    start = f"{verdict}{', '.join(parts)} at {load}"
    if found.capacity is not None:
        start += f"; one replica takes {found.capacity.low_per_s:.3g}/s ({found.capacity.why})"
    return f"{start}{' (broken off: partial)' if found.partial else ''}."


def request_rows(run: Run) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """A header and one row for each request of a run, for a CSV."""
    header = (
        "request",
        "sent_s",
        "prompt_tokens",
        "output_tokens",
        "queue_s",
        "ttft_s",
        "tpot_s",
        "e2e_s",
        "preemptions",
    )
    r = run.requests
    columns = (r.sent_s, r.prompt, r.output, run.started_s - r.sent_s, run.ttft_s, run.tpot_s, run.e2e_s, run.preempted)
    return header, [(i, *row) for i, row in enumerate(zip(*(column.tolist() for column in columns), strict=True))]
