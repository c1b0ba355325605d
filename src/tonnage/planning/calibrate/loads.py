"""Measured loads as cases: what each point of a measurement would be predicted to be, under any stretch.

The step grid of a load is opened once; a trial of the fit prices it and plays the traffic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from tonnage.catalog import Additions
from tonnage.domain.calibration import Stretch
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.measurement import Measurement, Point
from tonnage.domain.model import Model
from tonnage.domain.precision import Precision
from tonnage.errors import BadRequest
from tonnage.planning.deployment import Deployment, overheads_under, resolve
from tonnage.planning.error_model import serve_level, serve_load
from tonnage.planning.serve.traffic import grid_of, under_load
from tonnage.simulation.overheads import Overheads, with_async_scheduling
from tonnage.simulation.steps import StepTable, step_table

__all__ = ["QUANTITIES", "MeasuredLoad", "Stack", "loads_of"]

QUANTITIES: Final = ("ttft_s", "tpot_s", "output_tokens_per_s")
_FAILING: Final = 0.05
"""Share of failed requests above which a load is not what it says. [-]"""


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """The user's stack: what was measured, beyond what a measurement says of itself."""

    model: str | Model
    accelerator: str
    engine: str
    engine_version: str | None = None
    options: dict[str, Any] = {}
    precision: Precision | None = None


class MeasuredLoad(NamedTuple):
    """One load: its name, what was measured, and what any stretch predicts."""

    model: str
    name: str
    measured: dict[str, float]
    predicted: Callable[[Stretch], dict[str, float]]
    at: Deployment
    level: str


def loads_of(found: Measurement, stack: Stack, *, additions: Additions) -> list[MeasuredLoad]:
    """
    Every load of a measurement that can teach something.

    Raises
    ------
    BadRequest
        None can: all failed, or they lack lengths or times.
    """
    loads = [load for point in found.points if (load := _load(point, stack, additions=additions)) is not None]
    if not loads:
        raise BadRequest(
            "no load of the measurement can be used: each needs answered requests, their mean lengths, a "
            "concurrency or a rate, and TTFT, TPOT or tokens per second"
        )
    return loads


def _load(point: Point, stack: Stack, *, additions: Additions) -> MeasuredLoad | None:
    if not point.completed or not point.prompt_tokens or not point.output_tokens or not point.level:
        return None
    if point.failed > _FAILING * (point.requests or point.completed):
        return None
    measured = {
        "ttft_s": point.ttft_s.mean if point.ttft_s else None,
        "tpot_s": (point.tpot_s.mean if point.tpot_s else None) if point.output_tokens > 1 else None,
        "output_tokens_per_s": point.output_tokens_per_s,
    }
    known = {name: value for name, value in measured.items() if value is not None and value > 0}
    if point.rate_per_s is not None:
        # What is answered of an open load says what was offered, not what the engine can do.
        known.pop("output_tokens_per_s", None)
        traffic, name = Traffic(rate_per_s=point.rate_per_s), f"{point.rate_per_s:g}/s"
    else:
        clients = float(point.concurrency or 1.0)
        each = max(1, round((point.requests or point.completed) / clients))
        traffic, name = Traffic(concurrency=clients, requests_per_client=each), f"{clients:g} at once"
    if not known:
        return None
    case = ServeCase(
        model=stack.model, accelerator=stack.accelerator, traffic=traffic, isl=point.prompt_tokens,
        osl=point.output_tokens, precision=stack.precision, engine=stack.engine, engine_version=stack.engine_version,
        engine_options=stack.options, length_spread=_spread(point),
    )  # fmt: skip
    at = resolve(case, additions=additions)
    if not at.pool.verdict.ok:
        raise BadRequest(
            f"{at.placement.model.id} on {stack.accelerator}: {at.pool.verdict.reason}; what was measured ran"
        )
    load = serve_load(case.traffic, in_flight=case.traffic.concurrency or 1.0, prompt_tokens=case.isl)
    level = serve_level(at.placement.model, basis="calibrated", load=load, engine=at.times.engine)
    named = stack.model if isinstance(stack.model, str) else stack.model.id
    return MeasuredLoad(named, name, known, _predictor(at, list(known)), at, level)


def _spread(point: Point) -> tuple[float, float] | None:
    """Answers of one length keep clients in step, which moves TTFT and TPOT by factors; absent = not known."""
    if point.output_least is None or point.output_most is None or not point.output_tokens:
        return None
    return point.output_least / point.output_tokens, min(2.0, point.output_most / point.output_tokens)


def _predictor(at: Deployment, names: Sequence[str]) -> Callable[[Stretch], dict[str, float]]:
    grid, base = grid_of(at), with_async_scheduling(Overheads(**at.times.values), at.engine.async_scheduling)

    def predicted(stretch: Stretch) -> dict[str, float]:
        overheads = overheads_under(base, stretch)
        table: StepTable = step_table(grid, overheads)
        seen, _ = under_load(msgspec.structs.replace(at, overheads=overheads), table)
        all_of = {
            "ttft_s": seen.ttft_s,
            "tpot_s": seen.tpot_s,
            "output_tokens_per_s": seen.requests_per_s * at.case.osl,
        }
        return {name: max(all_of[name], 1e-9) for name in names if math.isfinite(all_of[name])}

    return predicted
