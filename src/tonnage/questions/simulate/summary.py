"""What a run of the simulator comes to: percentiles, rates, occupancy, capacity, and the sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from tonnage.core.board_power import predicted_load, watts_of
from tonnage.core.deployment import Deployment
from tonnage.core.error_model import ErrorModel, load_class
from tonnage.core.replica import with_queueing
from tonnage.core.serving_traffic import open_load
from tonnage.domain.answer import Quantity
from tonnage.domain.case import Latency
from tonnage.domain.metrics import SPEEDS
from tonnage.domain.requests.common import Lengths
from tonnage.domain.simulate import SIMULATE_SCHEMA, CapacityFound, FleetSeen, Occupancy, Simulated, Simulation
from tonnage.errors import BadRequest
from tonnage.questions.simulate.traffic import Traced
from tonnage.simulation.capacity import stated
from tonnage.simulation.metrics import goodput_per_s, summary
from tonnage.simulation.simulated import Limits, ReplicaArrays, Served
from tonnage.units import show

if TYPE_CHECKING:
    from tonnage.simulation.serving import Simulated as Run


OCCUPANCY_POINTS: Final = 200
LATENCIES: Final = ("ttft_s", "tpot_s", "e2e_s")


def summary_of(
    asked: Simulation, at: Deployment, *, replica: ReplicaArrays, traffic: Traced, run: Run, copies: int
) -> Simulated:
    """The answer of a run that stands for `copies` equal ones: rates are of all of them."""
    import numpy as np

    basis = at.basis_on(replica.rung)
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
        return Simulated(
            schema=SIMULATE_SCHEMA,
            sentence=sentence,
            fits=True,
            basis=basis,
            why=why,
            refused=run.num_refused,
            partial=run.partial,
            assumed=notes,
        )

    sent, span = run.requests.sent_s, run.span_s
    means = Lengths(prompt_tokens=traffic.prompt_mean, output_tokens=traffic.output_mean)
    errors = _errors(asked, at, replica=replica, run=run, lengths=means)
    capacity, partial = _capacity_of(asked, replica, traffic=traffic, partial=run.partial)
    found = Simulated(
        schema=SIMULATE_SCHEMA,
        sentence="",
        fits=True,
        basis=basis,
        partial=partial,
        requests=count,
        refused=run.num_refused,
        preemptions=int(run.preempted.sum()),
        span_s=span,
        ttft_s=_latency(run.ttft_s, errors, "ttft_s"),
        tpot_s=_latency(run.tpot_s, errors, "tpot_s"),
        itl_s=_itl(run),
        e2e_s=_latency(run.e2e_s, errors, "e2e_s"),
        queue_s=_latency(run.started_s - sent),
        requests_per_s=count / span * copies,
        output_tokens_per_s=float(run.requests.output[done].sum()) / span * copies,
        goodput_per_s=_goodput(asked, run, span, copies),
        board_w=_board_w(asked, at, run=run, rate_per_s=count / span / (1 if copies > 1 else asked.replicas)),
        slo_met=_objectives_met(asked, run),
        cached_share=run.cached_tokens / max(1, run.cached_tokens + run.prompt_tokens),
        occupancy=_occupancy(run, replica.limits, replicas=_replicas(asked, copies)),
        capacity=capacity,
        fleet=_fleet(asked, run),
        steps=run.steps,
        assumed=notes,
        licence=traffic.licence,
    )
    return msgspec.structs.replace(found, sentence=_sentence(asked, found))


def _board_w(asked: Simulation, at: Deployment, *, run: Run, rate_per_s: float) -> Quantity | None:
    """Mean draw of one accelerator, by what one replica did over the run; None where nothing was answered. [W]"""
    tpot, whole, first = summary(run.tpot_s), summary(run.e2e_s), summary(run.ttft_s)
    if whole is None or first is None:
        return None
    tpot_s = tpot.mean if tpot is not None else 0.0
    found = Served(
        ttft_s=first.mean,
        tpot_s=tpot_s,
        e2e_s=whole.mean,
        requests_per_s=rate_per_s,
        running=rate_per_s * (whole.mean - first.mean),
    )
    arrivals = asked.traffic.concurrency is None
    return watts_of(predicted_load(at, found, arrivals=arrivals, split=asked.disaggregation), at.placement.accelerator)


def _errors(asked: Simulation, at: Deployment, *, replica: ReplicaArrays, run: Run, lengths: Lengths) -> ErrorModel:
    """
    How sure the numbers are: as the same load in the steady state is, by what is in flight, and by the queue that a
    rate builds.
    """
    import numpy as np

    clients = asked.traffic.concurrency
    replicas = asked.replicas if clients else _replicas(asked, 1)
    spent = run.e2e_s[np.isfinite(run.e2e_s)]
    in_flight = clients / replicas if clients else float(spent.sum()) / run.span_s / replicas
    load = "split" if asked.disaggregation is not None else load_class(in_flight, lengths.prompt_tokens)
    errors = at.errors(at.basis_on(replica.rung), load=load, in_flight=in_flight)
    if clients or asked.disaggregation is not None:
        return errors
    state = open_load(at)
    rate = len(spent) / run.span_s / replicas
    return with_queueing(errors, state, rate_per_s=rate, seen=state.means)


def _latency(values: Any, errors: ErrorModel | None = None, name: str = "") -> Latency | None:
    """Mean and percentiles of values with the error model's bounds of the mean; None where there are none."""
    found = summary(values)
    if found is None:
        return None
    low, high = errors.bounds(name, found.mean) if errors is not None else (None, None)
    return Latency(
        mean=found.mean,
        p50=found.p50,
        p90=found.p90,
        p95=found.p95,
        p99=found.p99,
        low=low,
        high=high,
        certified=errors is None or errors.spread(name).certified,
    )


def _itl(run: Run) -> Latency | None:
    """Inter-token latency by its histogram; None where no request has a second token."""
    import numpy as np

    from tonnage.simulation.loop_state import GAP_LEAST, GAP_RATIO
    from tonnage.simulation.serving import gap_quantile

    total = int(run.gaps.sum())
    if not total:
        return None
    lengths = GAP_LEAST * np.exp((np.arange(len(run.gaps)) + 0.5) * GAP_RATIO)
    p50, p90, p95, p99 = (gap_quantile(run.gaps, q) for q in (0.5, 0.9, 0.95, 0.99))
    return Latency(mean=float((run.gaps * lengths).sum() / total), p50=p50, p90=p90, p95=p95, p99=p99)


def _goodput(asked: Simulation, run: Run, span: float, copies: int) -> float | None:
    """Requests per second that meet every objective, of all copies; None without objectives."""
    slo = asked.slo
    if slo is None or span <= 0:
        return None
    return goodput_per_s({name: getattr(run, name) for name in LATENCIES}, slo, span_s=span) * copies


def _objectives_met(asked: Simulation, run: Run) -> bool | None:
    """Whether each objective holds at its percentile; None without objectives."""
    import numpy as np

    slo = asked.slo
    if slo is None:
        return None
    return all(
        float(np.nanpercentile(getattr(run, name), slo.percentile)) <= most for name, most in stated(slo).items()
    )


def _replicas(asked: Simulation, copies: int) -> int:
    """Replicas that a run's timeline is summed over; of pools apart, those that answer."""
    if asked.disaggregation is not None:
        return asked.disaggregation.decode_workers
    return 1 if copies > 1 else asked.replicas


def _occupancy(run: Run, limits: Limits, *, replicas: int) -> Occupancy | None:
    """The timeline thinned out, of all replicas of the run together; None where none was kept."""
    line = run.timeline
    if not len(line.at_s):
        return None
    stride = max(1, len(line.at_s) // OCCUPANCY_POINTS)
    columns = (
        line.at_s,
        line.running,
        line.waiting,
        line.used_blocks / (limits.num_blocks * replicas),
        line.tokens_per_s,
    )
    at, running, waiting, used, tokens = (tuple(float(x) for x in column[::stride]) for column in columns)
    return Occupancy(at_s=at, running=running, waiting=waiting, cache_share=used, output_tokens_per_s=tokens)


def _fleet(asked: Simulation, run: Run) -> FleetSeen | None:
    """Replicas paid for, where a router was simulated; None otherwise, and of separate pools."""
    if not len(run.paid_s) or asked.disaggregation is not None:
        return None
    return FleetSeen(
        replicas=asked.replicas,
        mean_replicas=run.mean_replicas,
        paid_replica_hours=float(run.paid_s.sum()) / 3600.0,
        wasted_share=1.0 - run.mean_replicas / asked.replicas,
        cold_hits=run.cold_hits,
        cold_share=run.cold_hits / max(1, len(run.first_s)),
    )


def _capacity_of(
    asked: Simulation, replica: ReplicaArrays, *, traffic: Traced, partial: bool
) -> tuple[CapacityFound | None, bool]:
    """
    The capacity of one replica where it was asked for (else None), and whether the answer is partial: who breaks off
    the search keeps the run before it.
    """
    if not asked.capacity or partial:
        return None, partial
    from tonnage.simulation.arrivals import stretched
    from tonnage.simulation.slo import slo_capacity

    if asked.slo is None:
        raise BadRequest("capacity needs objectives; state slo, as in slo: {ttft: 1 s, tpot: 50 ms}")
    if asked.traffic.concurrency:
        raise BadRequest("capacity is a rate; give traffic a rate instead of a concurrency")
    try:
        found = slo_capacity(replica, sent=stretched(traffic.requests), slo=asked.slo)
    except KeyboardInterrupt:
        return None, True
    seen = CapacityFound(
        rate_per_s=found.rate_per_s,
        low_per_s=found.low_per_s,
        high_per_s=found.high_per_s,
        binding=found.resource,
        why=f"beyond it {found.limit} fails: {found.cause}",
        knee_per_s=found.knee_per_s,
        simulations=found.simulations,
    )
    return seen, False


def _sentence(asked: Simulation, found: Simulated) -> str:
    """Whether the objectives hold, the tails, and the capacity where it was asked for."""
    parts = []
    for metric in SPEEDS:
        latency = getattr(found, metric.name)
        if latency is not None and latency.p95 is not None:
            parts.append(f"p95 {metric.title} {show(latency.p95, metric.unit)}")
    load = (
        f"{asked.traffic.concurrency} clients"
        if asked.traffic.concurrency
        else f"{show(found.requests_per_s or 0.0, 'count')} requests/s"
    )
    verdict = (
        "" if found.slo_met is None else ("Within the objectives: " if found.slo_met else "Misses the objectives: ")
    )
    start = f"{verdict}{', '.join(parts)} at {load}"
    if found.capacity is not None:
        start += f"; one replica takes {show(found.capacity.low_per_s, 'count')}/s ({found.capacity.why})"
    return f"{start}{' (broken off: partial)' if found.partial else ''}."


def request_columns(run: Run) -> dict[str, Any]:
    """A column for each thing known of every request of a run; what never came to be is not a number."""
    import numpy as np

    r = run.requests
    columns = {
        "request": np.arange(len(r.prompt)),
        "sent_s": r.sent_s,
        "prompt_tokens": r.prompt,
        "output_tokens": r.output,
        "queue_s": run.started_s - r.sent_s,
        "ttft_s": run.ttft_s,
        "tpot_s": run.tpot_s,
        "e2e_s": run.e2e_s,
        "preemptions": run.preempted,
    }
    return {**columns, "replica": run.replica} if len(run.replica) == len(r.prompt) > 0 else columns
