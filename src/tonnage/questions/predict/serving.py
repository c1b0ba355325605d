"""One language model served by one engine on one accelerator: latencies, throughput, cache, verdict.

The path: case -> deployment (engine with its defaults, memory, kernels) -> step times -> traffic -> result with
intervals.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.board_power import predicted_load, watts_of
from tonnage.core.deployment import Deployment, resolve
from tonnage.core.error_model import ErrorModel, serve_load
from tonnage.core.replica import with_queueing
from tonnage.core.serving_traffic import open_load, served_latency
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.case import Latency, ServeCase, ServeResult
from tonnage.questions.predict.assumed import serving_settings, with_assumed
from tonnage.simulation.simulated import Served, Tail


def predict_serve(case: ServeCase, *, additions: Additions = catalog.NOTHING, why: bool = False) -> ServeResult:
    """
    Latency, throughput and memory of a serving case; `fits` is False, with the reason, when memory does not allow it.

    With `why` each number is opened down to operators.

    Raises
    ------
    TonnageError
        The model, accelerator, engine or a format is unknown, or the case contradicts itself.
    """
    at = resolve(case, additions=additions)
    result, found = _predicted(at)
    if found is None:
        return result
    result = with_assumed(
        result, serving_settings(case, at), again=lambda other: _predicted(resolve(other, additions=additions))[0]
    )
    return replace(result, opened=_open_numbers(at, found, additions)) if why else result


def _predicted(at: Deployment) -> tuple[ServeResult, Served | None]:
    """The result of a deployment and what it was read from; nothing where the model does not fit."""
    case = at.case
    memory = {"total_bytes": at.pool.memory.value, "parts": msgspec.to_builtins(at.pool.memory.parts)}
    tokens = at.pool.tokens
    if not at.pool.verdict.ok:
        refused = ServeResult(
            fits=False,
            basis=Basis.DERIVED,
            memory=memory,
            kv_cache_tokens=tokens,
            why=at.pool.verdict.reason or "",
            notes=at.notes,
            id=case.id,
        )
        return refused, None
    reuse = None
    if case.sessions is not None:
        from tonnage.core.session_cases import case_with_reuse

        at, reuse = case_with_reuse(at)
    found, tier = served_latency(at)
    return replace(_result(at, found, basis=at.basis_on(tier), memory=memory), reuse=reuse), found


def _open_numbers(at: Deployment, found: Served, additions: Additions) -> tuple[Quantity, ...]:
    from tonnage.questions.serve.opened import open_numbers

    return open_numbers(at, found, additions=additions)


def _errors(at: Deployment, found: Served, basis: Basis) -> ErrorModel:
    """
    How far predictions of such a case are off, by its load: requests in flight of one replica, and the queue that a
    rate builds.
    """
    case = at.case
    # Clients that wait for their answers are all in flight; of arrivals, as many as the steady state holds.
    in_flight = case.traffic.concurrency / case.replicas if case.traffic.concurrency else found.running
    load = (
        "split"
        if case.disaggregation is not None
        else "steady"
        if case.phase == "decode"
        else serve_load(case.traffic, in_flight=in_flight, prompt_tokens=case.isl, saturated=found.saturated)
    )
    errors = at.errors(basis, load=load, in_flight=in_flight)
    if case.traffic.rate_per_s is None or case.phase == "encode":
        return errors
    state = open_load(at)
    return with_queueing(errors, state, rate_per_s=case.traffic.rate_per_s / case.replicas, seen=state.means)


def _result(at: Deployment, found: Served, *, basis: Basis, memory: dict[str, Any]) -> ServeResult:
    """What one replica serves as the result of the case: rates are of all replicas, latencies of a request."""
    case, scale = at.case, float(at.case.replicas)
    rate = found.requests_per_s * scale
    output = 1.0 / found.tpot_s * found.running if case.phase == "decode" else rate * case.osl
    errors = _errors(at, found, basis)

    def quantity(name: str, value: float, unit: str) -> Quantity:
        return errors.quantity(name, value, unit=unit, basis=basis)

    return ServeResult(
        fits=True,
        basis=basis,
        memory=memory,
        kv_cache_tokens=at.pool.tokens,
        ttft_s=None if case.phase == "decode" else _latency(errors, "ttft_s", found.ttft_s, found.ttft_tail_s),
        tpot_s=None if case.osl <= 1 else _latency(errors, "tpot_s", found.tpot_s, found.tpot_tail_s),
        e2e_s=_latency(errors, "e2e_s", found.e2e_s),
        output_tokens_per_s=quantity("output_tokens_per_s", output, "tokens/s") if case.osl else None,
        total_tokens_per_s=quantity("total_tokens_per_s", rate * (case.isl + case.osl), "tokens/s"),
        requests_per_s=quantity("requests_per_s", rate, "1/s"),
        board_w=_board_w(at, found),
        saturated=found.saturated,
        level=errors.level,
        notes=(*at.notes, *_overload(at, found)),
        id=case.id,
    )


def _board_w(at: Deployment, found: Served) -> Quantity | None:
    """Mean draw of one accelerator; none of an encoder, whose bytes the fit of power has not seen."""
    if at.case.phase == "encode":
        return None
    case = at.case
    load = predicted_load(at, found, arrivals=case.traffic.rate_per_s is not None, split=case.disaggregation)
    return watts_of(load, at.placement.accelerator, share=at.case.accelerator_fraction)


def _overload(at: Deployment, found: Served) -> tuple[str, ...]:
    """What arrivals beyond capacity mean for the latencies; nothing where they are not."""
    asked = at.case.traffic.rate_per_s
    if not found.saturated or asked is None:
        return ()
    served = found.requests_per_s * at.case.replicas
    return (
        f"{asked:,.3g} requests/s arrive and {served:,.3g} are served: the queue, and with it the time to first token, "
        "grows without end; the latencies are those of a full replica, the wait before it left out",
    )


def _latency(errors: ErrorModel, name: str, mean: float, tail: Tail | None = None) -> Latency:
    """A mean with its tail where that is known, and its 90 % interval."""
    low, high = errors.bounds(name, mean)
    p50, p95, p99 = tail or (None, None, None)
    certified = errors.spread(name).certified
    return Latency(mean=mean, p50=p50, p95=p95, p99=p99, low=low, high=high, certified=certified)
