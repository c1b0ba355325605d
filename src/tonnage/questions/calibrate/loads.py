"""Measured loads as cases: what each point of a measurement would be predicted to be, under any stretch.

The step grid of a load is opened once; a trial of the fit prices it and plays the traffic. What cannot be
is refused before anything is fitted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from tonnage.catalog import Additions
from tonnage.catalog.hub.resolve import resolve as resolve_model
from tonnage.catalog.models import look_up
from tonnage.core.deployment import Deployment, overheads_under, resolve
from tonnage.core.drift import place_of
from tonnage.core.error_model import basis_of_tier, serve_level, serve_load
from tonnage.core.serving_traffic import grid_of, interrupted_share, under_load
from tonnage.domain.accelerator import Accelerator, Measured
from tonnage.domain.calibration import Stretch
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.engine_spec import Overheads, with_async_scheduling, with_prompt_read
from tonnage.domain.layout import Layout
from tonnage.domain.measurement import Measurement, Point, refuse_disowned
from tonnage.domain.metrics import METRICS
from tonnage.domain.model import Model
from tonnage.domain.precision import Precision, number_format
from tonnage.errors import BadRequest, echo
from tonnage.optimize.layouts import legal
from tonnage.physics.parameters import parameters
from tonnage.physics.shares import Tokens
from tonnage.physics.transformer import step_work
from tonnage.record import Record
from tonnage.simulation.steps import StepTable, step_table
from tonnage.units import show

Predictor = Callable[[Stretch], dict[str, float]]
_FAILING: Final = 0.05
"""Share of failed requests above which a load is not what it says. [-]"""


class Stack(Record, kw_only=True):
    """The user's stack: what was measured, beyond what a measurement says of itself."""

    model: str | Model
    accelerator: str
    engine: str
    engine_version: str | None = None
    options: dict[str, Any] = {}
    precision: Precision | None = None
    layout: Layout = Layout()
    """Of one replica."""


class MeasuredLoad(NamedTuple):
    """One load: its name, what was measured, and what any stretch predicts."""

    model: str
    name: str
    measured: dict[str, float]
    predicted: Predictor
    at: Deployment
    level: str
    """Of its error, before anything is calibrated."""
    place: tuple[float, ...]
    """Its configuration, as `core.drift.place_of` has it."""
    parts: dict[str, float]
    """By quantity, the share that has a drift of its own (`core.drift.PARTS`), as the catalogue predicts it. [-]"""


def loads_of(found: Measurement, stack: Stack, *, additions: Additions) -> list[MeasuredLoad]:
    """
    The loads of a measurement that can teach something; others are left out (`_load`).

    Raises
    ------
    BadRequest
        None can: all failed, or they lack lengths or times; the run's own note forbids it, or a time is impossible.
    """
    refuse_disowned(found)
    loads = [load for point in found.points if (load := _load(point, stack, additions=additions)) is not None]
    if not loads:
        raise BadRequest(
            "no load of the measurement can be used: each needs answered requests, their mean lengths, a "
            "concurrency or a rate, and TTFT, TPOT or tokens per second"
        )
    return loads


def _load(point: Point, stack: Stack, *, additions: Additions) -> MeasuredLoad | None:
    """
    A point as a load; absent where it teaches nothing: no answers, no mean lengths, no times, or too many failed.

    Raises
    ------
    BadRequest
        The stack cannot run what was measured, or a time is impossible on its accelerator.
    """
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
    at = _deployed(point, stack, traffic, additions=additions)
    case = _case(point, stack, traffic)
    load = serve_load(case.traffic, in_flight=case.traffic.concurrency or 1.0, prompt_tokens=case.isl)
    rung = step_table(grid_of(at), shipped_overheads(at)).rung
    basis = basis_of_tier(rung, overheads_borrowed=at.fitted.borrowed)
    level = serve_level(
        at.placement.model, basis=basis, load=load, engine=at.fitted.engine, host_known=at.fitted.host_measured
    )
    refuse_impossible(point, at, name=name)
    tpot_s = known.get("tpot_s") or under_load(at, step_table(grid_of(at), at.overheads))[0].tpot_s
    in_flight = in_flight_of(case, tpot_s=tpot_s)
    place = place_of(in_flight, at.placement.layout, prompt_tokens=at.case.isl, output_tokens=at.case.osl)
    parts = {"tpot_s": shipped_interruption(at)}
    return MeasuredLoad(at.placement.model.id, name, known, under_stretch(at), at, level, place, parts)


def _deployed(point: Point, stack: Stack, traffic: Traffic, *, additions: Additions) -> Deployment:
    """The stack under a load, resolved; refused where the model does not fit, for what was measured did run."""
    at = resolve(_case(point, stack, traffic), additions=additions)
    if not at.pool.verdict.ok:
        raise BadRequest(
            f"{at.placement.model.id} on {stack.accelerator}: {at.pool.verdict.reason}; what was measured ran"
        )
    return at


def refuse_unknown(found: Measurement, stack: Stack, *, additions: Additions) -> None:
    """
    Nothing, where every name of a stack is known and it can run; for loads that are still to be measured.

    Raises
    ------
    TonnageError
        A model, accelerator, engine, format or setting is unknown, or the model does not fit or divide over its ranks.
    """
    for point in found.points:
        at = _deployed(point, stack, Traffic(concurrency=point.concurrency or 1.0), additions=additions)
        if not (divides := legal(at.placement.model, stack.layout)).ok:
            raise BadRequest(f"{at.placement.model.id}: {divides.reason}; nearest: {divides.nearest}")


_SAME_SIZE: Final = 0.2
"""By which a server's count of its parameters may differ from the catalogue's: draft heads, padded vocabularies. [-]"""


def refuse_other_model(served: tuple[str, float | None] | None, stack: Stack, *, additions: Additions) -> None:
    """
    Nothing, unless what a server says it serves is another model than the one that the calibration would be of.

    Raises
    ------
    BadRequest
        Its name means another model of the catalogue, or its parameters are those of another.
    """
    if served is None or not isinstance(stack.model, str):
        return
    name, counted = served
    other, meant = look_up(name), look_up(stack.model)
    if other is not None and meant is not None and other != meant:
        raise BadRequest(f"the server's '{echo(name)}' is {other}, not {meant}; name it with --as {other}")
    whole = parameters(resolve_model(stack.model, additions=additions)).value
    if counted is not None and abs(counted / whole - 1.0) > _SAME_SIZE:
        raise BadRequest(
            f"the server's '{echo(name)}' has {counted / 1e9:.3g} B parameters, but {echo(stack.model)} has "
            f"{whole / 1e9:.3g} B; name what it serves with --as"
        )


def _case(point: Point, stack: Stack, traffic: Traffic) -> ServeCase:
    """The case that predicts a point; its prompt is what no prefix cache had, 1 token where lengths are not known."""
    return ServeCase(
        model=stack.model,
        accelerator=stack.accelerator,
        traffic=traffic,
        isl=point.computed_tokens or 1.0,
        osl=point.output_tokens or 1.0,
        precision=stack.precision,
        engine=stack.engine,
        engine_version=stack.engine_version,
        engine_options=stack.options,
        length_spread=_spread(point),
        layout=stack.layout,
    )


def refuse_contradictions(found: Measurement, stack: Stack, *, additions: Additions) -> None:
    """
    Nothing, where a measurement stands by its numbers and its accelerator can reach every one of them.

    Raises
    ------
    BadRequest
        Its own note forbids them, or a time is shorter than memory or arithmetic allow.
    """
    refuse_disowned(found)
    for point in found.points:
        if not point.prompt_tokens or not point.output_tokens:
            continue
        at = resolve(_case(point, stack, Traffic(concurrency=1.0)), additions=additions)
        name = f"{point.concurrency:g} at once" if point.concurrency else f"{point.rate_per_s or 0.0:g}/s"
        refuse_impossible(point, at, name=name)


def in_flight_of(case: ServeCase, *, tpot_s: float) -> float:
    """
    Requests in flight on a replica: a loop's clients; of arrivals those that decode together, by Little's law.

    Examples
    --------
    >>> case = ServeCase(model="m", accelerator="a", traffic=Traffic(rate_per_s=2.0), isl=100, osl=101)
    >>> in_flight_of(case, tpot_s=0.01)
    2.0
    """
    traffic = case.traffic
    if traffic.concurrency or traffic.batch:
        return float(traffic.concurrency or traffic.batch or 1.0) / case.replicas
    return (traffic.rate_per_s or 0.0) / case.replicas * max(1.0, case.osl - 1.0) * tpot_s


def _spread(point: Point) -> tuple[float, float] | None:
    """
    Shortest and longest output over the mean output, the longest at most 2; absent = not known. [-, -]

    Outputs of one length keep clients in step, which moves TTFT and TPOT by factors.
    """
    if point.output_least is None or point.output_most is None or not point.output_tokens:
        return None
    return point.output_least / point.output_tokens, min(2.0, point.output_most / point.output_tokens)


def shipped_overheads(at: Deployment) -> Overheads:
    """The catalogue's overheads of the engine as it runs, without any calibration."""
    return with_async_scheduling(
        Overheads(**at.fitted.values), at.engine.async_scheduling, ranks=at.placement.layout.tp
    )


def shipped_interruption(at: Deployment) -> float:
    """`interrupted_share` of what the catalogue predicts of a deployment. [-]"""
    overheads = shipped_overheads(at)
    table = step_table(grid_of(at), overheads)
    return interrupted_share(at, under_load(replace(at, overheads=overheads), table)[0], table=table)


def under_stretch(at: Deployment) -> Predictor:
    """A function that predicts a deployment under any stretch, by quantity; what is not finite there is left out."""
    grid, base = grid_of(at), shipped_overheads(at)

    def predicted(stretch: Stretch) -> dict[str, float]:
        overheads = with_prompt_read(overheads_under(base, stretch), at.case.isl, ahead=at.overheads.ahead)
        table: StepTable = step_table(grid, overheads)
        seen, _ = under_load(replace(at, overheads=overheads), table)
        all_of = {
            "ttft_s": seen.ttft_s,
            "tpot_s": seen.tpot_s,
            "output_tokens_per_s": seen.requests_per_s * at.case.osl,
        }
        return {name: max(value, 1e-9) for name, value in all_of.items() if math.isfinite(value)}

    return predicted


# What can teach nothing: numbers that no software can reach, or that the run's own note forbids. A token cannot come
# sooner than its weights are read, a prompt not sooner than its arithmetic takes at the part's peak. What is faster was
# not computed: it lay in a prefix cache, or another model, format or part ran.

_PRODUCTS: Final = frozenset({"gemm", "grouped_gemm"})
_IN_CACHE_BYTES: Final = 1e9
"""Weights of a rank below which caches (96 MB on consumer parts, more on processors) may hold a good part. [bytes]"""
_DATA_SHEET: Final = 0.95
"""A bandwidth or a peak may be understated by this much: boosted clocks, rounded sheets. [-]"""


def refuse_impossible(point: Point, at: Deployment, *, name: str) -> None:
    """
    Nothing, where the part can reach every number of a load; `name` is the load's, for the refusal.

    The time per token is not checked where tokens are drafted: a step then yields several.

    Raises
    ------
    BadRequest
        A token came sooner than its weights are read, or prompts and answers sooner than their arithmetic takes.
    """
    ttft_s = point.ttft_s.mean if point.ttft_s else None
    tpot_s = point.tpot_s.mean if point.tpot_s and (point.output_tokens or 0.0) > 1.0 else None
    _refuse_unread(METRICS["ttft_s"].title, ttft_s, at, name=name)
    _refuse_unread(METRICS["tpot_s"].title, None if at.engine.speculative_tokens else tpot_s, at, name=name)
    prompt, answer = point.computed_tokens, point.output_tokens
    if not prompt or not answer:
        return
    prompt_s = _arithmetic_s(at, Tokens(prompts=1.0, chunk=prompt, emitted=1.0))
    token_s = _arithmetic_s(at, Tokens(decodes=1.0, context=1.0, emitted=1.0))
    part = at.placement.accelerator
    check = "check the model, --weights, --tp, and whether a prefix cache had the prompts" + (
        f"; if all hold, measure {part.id} anew on a quiet machine" if part.measured != Measured() else ""
    )
    if ttft_s and ttft_s < _DATA_SHEET * prompt_s:
        raise BadRequest(
            f"TTFT {show(ttft_s, 's')} at {name} contradicts {part.name}: the arithmetic of {prompt:,.0f} prompt "
            f"tokens alone takes {show(prompt_s, 's')} at its peak; {check}"
        )
    most = answer / (prompt_s + (answer - 1.0) * token_s)
    rate = point.output_tokens_per_s or 0.0
    if rate * _DATA_SHEET > most > 0.0:
        raise BadRequest(
            f"{show(rate, 'tokens/s')} at {name} contradict {part.name}: the arithmetic of "
            f"prompts and answers allows {show(most, 'tokens/s')} at its peak; {check}"
        )


def _arithmetic_s(at: Deployment, tokens: Tokens) -> float:
    """Matrix products of one request, spread evenly over all ranks at their highest peak. [s]"""
    d = at.placement
    work = step_work(d.model, tokens, precision=d.precision, layout=Layout(), domain=d.domain, attends=d.attends)
    flop_s = sum(op.flop * op.count / _fastest(d.accelerator, op.weights) for op in work if op.kind in _PRODUCTS)
    return flop_s / d.layout.ranks


def _fastest(part: Accelerator, weights: str) -> float:
    """
    The highest peak at which weights of a format may be multiplied: no kernel rounds them to a narrower one. [FLOP/s]

    Of a part that was measured, formats that its library lacks count as faster by as much as they are narrower.
    """
    bits = number_format(weights).bits
    width = 4 if bits < 8.0 else 8 if bits < 16.0 else 16
    widths = {name: int(digits) for name in part.peaks for digits in re.findall(r"\d+", name)[:1]}
    able = {name: part.peaks[name] for name, own in widths.items() if own >= width} or part.peaks
    fastest = max(able.values())
    if part.measured == Measured():
        return fastest
    narrowest = min(widths[name] for name in able)
    ran = max(rate for name, rate in able.items() if widths[name] == narrowest)
    return max(fastest, ran * narrowest / max(width, 8))


def _refuse_unread(what: str, value: float | None, at: Deployment, *, name: str) -> None:
    """
    Refuses a time (`value`, of `what`) in which a rank cannot have read its weights once at the rated bandwidth.

    An absent time passes, and any time where the weights are small enough to lie in caches.
    """
    if value is None:
        return
    one_token = Tokens(decodes=1.0, context=1.0, emitted=1.0)
    d = at.placement
    work = step_work(d.model, one_token, precision=d.precision, layout=d.layout, domain=d.domain, attends=d.attends)
    read = sum(op.read_bytes * op.count for op in work if op.flop)
    least = read / d.accelerator.memory_bytes_per_s
    if read > _IN_CACHE_BYTES and value < _DATA_SHEET * least:
        raise BadRequest(
            f"{what} {value * 1e3:.3g} ms at {name} contradicts {d.accelerator.name}: reading the "
            f"{read / 1e9:.3g} GB of {d.precision.weights} weights that each rank holds takes {least * 1e3:.3g} ms; "
            "check the model, --weights, --tp, and whether tokens were drafted (--option speculative_tokens=N)"
        )
