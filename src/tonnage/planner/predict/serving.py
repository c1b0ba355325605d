"""One language model served by one engine on one accelerator: latencies, throughput, cache, verdict.

The path: case -> nouns (model, accelerator, settled precision, engine with its defaults) -> memory
(does it fit, how many requests run together) -> step table -> traffic -> result with intervals.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.engine.served import Served
from tonnage.nouns.answer import Basis, Quantity
from tonnage.nouns.breakdown import Node
from tonnage.nouns.case import Latency, ServeCase, ServeResult
from tonnage.planner.calibrated import basis_under, width
from tonnage.planner.levels import serve_level
from tonnage.planner.serve.setup import Setup, setup
from tonnage.planner.serve.traffic import served

__all__ = ["predict_serve"]

_BASIS = {"own": Basis.CALIBRATED, "architecture": Basis.DERIVED, "generation": Basis.DERIVED,
          "generic": Basis.ASSUMED}  # fmt: skip


def predict_serve(
    case: ServeCase, *, additions: Additions = catalog.NOTHING, why: bool = False
) -> ServeResult:  # fmt: skip
    """
    Latency, throughput and memory of a serving case; `fits` is False, with the reason, when memory does not allow it.

    With `why` each number is opened down to operators.

    Raises
    ------
    TonnageError
        The model, accelerator, engine or a format is unknown, or the case contradicts itself.
    """
    at = setup(case, additions=additions)
    memory = {"total_bytes": at.pool.memory.value, "parts": msgspec.to_builtins(at.pool.memory.parts)}
    tokens = at.pool.tokens
    if not at.pool.verdict.ok:
        return ServeResult(
            fits=False, basis=Basis.DERIVED, memory=memory, kv_cache_tokens=tokens, why=at.pool.verdict.reason or "",
            notes=at.notes, id=case.id,
        )  # fmt: skip
    found, rung = served(at)
    basis = _BASIS[rung]
    if at.times.borrowed and basis is Basis.CALIBRATED:
        basis = Basis.DERIVED
    result = _result(at, found, basis=basis_under(basis, at.calibration), memory=memory)
    return msgspec.structs.replace(result, opened=_opened(at, found, additions)) if why else result


def _opened(at: Setup, found: Served, additions: Additions) -> tuple[Node, ...]:
    from tonnage.planner.serve.opened import opened

    return opened(at, found, additions=additions)


def _result(at: Setup, found: Served, *, basis: Basis, memory: dict[str, Any]) -> ServeResult:
    case, scale = at.case, float(at.case.replicas)
    rate = found.requests_per_s * scale
    output = 1.0 / found.tpot_s * found.running if case.phase == "decode" else rate * case.osl
    level = serve_level(
        case, at.placement.model, basis=basis.value, engine=at.times.engine, saturated=bool(found.saturated)
    )

    def quantity(name: str, value: float, unit: str) -> Quantity:
        return Quantity(value=value, unit=unit, basis=basis).within(width(name, at.calibration, level=level))

    return ServeResult(
        fits=True,
        basis=basis,
        memory=memory,
        kv_cache_tokens=at.pool.tokens,
        ttft_s=None if case.phase == "decode" else _latency(at, "ttft_s", found.ttft_s, (found.ttft_tail_s, level)),
        tpot_s=None if case.osl <= 1 else _latency(at, "tpot_s", found.tpot_s, (found.tpot_tail_s, level)),
        e2e_s=_latency(at, "e2e_s", found.e2e_s, (None, level)),
        output_tokens_per_s=quantity("output_tokens_per_s", output, "tokens/s") if case.osl else None,
        total_tokens_per_s=quantity("total_tokens_per_s", rate * (case.isl + case.osl), "tokens/s"),
        requests_per_s=quantity("requests_per_s", rate, "1/s"),
        saturated=found.saturated,
        level=level,
        notes=at.notes,
        id=case.id,
    )  # fmt: skip


def _latency(at: Setup, name: str, mean: float, known: tuple[tuple[float, float, float] | None, str]) -> Latency:
    """A mean with its tail where that is known, as sure as its level or the user's calibration makes it."""
    tail, level = known
    error = width(name, at.calibration, level=level)
    p50, p95, p99 = tail or (None, None, None)
    return Latency(mean=mean, p50=p50, p95=p95, p99=p99, low=mean / error, high=mean * error)
