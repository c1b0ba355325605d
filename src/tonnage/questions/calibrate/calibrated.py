"""
The configurations that an answer names, as cases: what its numbers rest on is looked up of these.

One row a kind of plan, its best option first. `with_calibrations` puts what moved them into the answer, whoever asked;
plans that hold plans have their halves marked as well. A kind without a row reads no calibration: plans to infer. Of a
plan that nothing meets, its planner says what moved what came nearest (`planning.core.moved_losers`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from tonnage.catalog import Additions
from tonnage.catalog.additions import any_counts
from tonnage.catalog.hub import resolve
from tonnage.core.calibration_use import Run, TrainRun, at_once, calibrations_among, each_once
from tonnage.domain.batch_plan import BatchPlan
from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.case import ServeCase
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.model import Model
from tonnage.domain.plan import Configuration, PlanHeader, ServePlan
from tonnage.domain.precision import Precision
from tonnage.domain.requests.common import Lengths
from tonnage.domain.train_plan import TrainPlan
from tonnage.engines.registry import find_engine, unlisted_engine
from tonnage.questions.adopt.answer import ServeSides, TrainSides
from tonnage.questions.budget.answer import BudgetPlan
from tonnage.questions.fleet.answer import FleetPlan
from tonnage.questions.own.answer import OwnPlan, OwnRow
from tonnage.questions.rl.answer import RlOption, RlPlan

Answer = TypeVar("Answer", bound=msgspec.Struct)
_AT_HOME: Final = re.compile(r"one card|layers over (\d+)")
"""Layout of a model on a person's own cards, as an `OwnRow` has it."""
_DEGREE: Final = re.compile(r"(tp|pp|dp|ep)(\d+)")


def with_calibrations(answer: Answer, *, additions: Additions) -> Answer:
    """The answer with the measurements that moved its numbers, its plans inside as well; as it is where none count."""
    return _marked(answer, additions) if any_counts(additions) else answer


def _marked(answer: Answer, additions: Additions) -> Answer:
    inside: dict[str, Any] = {
        name: _marked(held, additions)
        for name in answer.__struct_fields__
        if isinstance(held := getattr(answer, name), PlanHeader | ServeSides | TrainSides)
    }
    answer = replace(answer, **inside) if inside else answer
    own: tuple[CalibrationUse, ...] | None = getattr(answer, "calibrations", None)
    if own is None:
        return answer
    runs = _RUNS.get(type(answer))
    uses = calibrations_among(runs(answer, additions), additions=additions) if runs else ()
    return replace(answer, calibrations=each_once((*own, *uses, *_held(inside.values()))))


def _held(answers: Iterable[Any]) -> Iterator[CalibrationUse]:
    """What moved the plans inside an answer."""
    for held in answers:
        yield from getattr(held, "calibrations", ())
        if isinstance(held, ServeSides | TrainSides):
            yield from _held(plan for plan in (held.current, held.better, held.nearby) if plan is not None)


def _of_serve(plan: ServePlan, _: Additions) -> Iterator[Run]:
    request = plan.request
    for option in plan.options:
        held = option.capacity.concurrency
        yield at_once(option.configuration, model=request.model, lengths=request.lengths, concurrency=held)
    if plan.pools is not None:
        yield at_once(plan.pools.configuration, model=request.model, lengths=request.lengths, concurrency=1.0)


def _of_batch(plan: BatchPlan, _: Additions) -> Iterator[Run]:
    model, lengths = plan.request.model, plan.request.lengths
    for option in plan.options:
        yield at_once(option.configuration, model=model, lengths=lengths, concurrency=option.concurrency)


def _degrees(words: Iterable[str]) -> dict[str, int]:
    return {found[1]: int(found[2]) for word in words if (found := _DEGREE.fullmatch(word))}


def _of_training(plan: TrainPlan, _: Additions) -> Iterator[Run]:
    yield from (TrainRun(plan.request.model, option.configuration) for option in plan.options)


def _of_rl(plan: RlPlan, additions: Additions) -> Iterator[Run]:
    model = resolve(plan.request.model, additions=additions)
    for option in plan.options:
        yield from both_sides(option, model, name=plan.request.model)


def both_sides(option: RlOption, model: Model, *, name: str) -> Iterator[Run]:
    """The rollout and the training of a step, each as calibrations know it."""
    from tonnage.questions.rl.rollout import rollout_case

    responses = option.case.prompts_per_step * option.case.responses_per_prompt / option.replicas
    yield rollout_case(option.case, model, replicas=option.replicas, requests=responses)
    yield TrainRun(name, option.configuration)


def _of_fleet(plan: FleetPlan, _: Additions) -> Iterator[Run]:
    asked = {workload.name: workload for workload in plan.request.workloads}
    for replica in plan.replicas:
        serve = asked[replica.workload].serve
        if serve is not None and replica.configuration is not None:
            yield at_once(replica.configuration, model=serve.model, lengths=serve.lengths, concurrency=_FLEET_LOAD)
    for found in plan.runs:
        run = asked[found.workload].run
        if run is not None:
            yield TrainRun(run.model, found.configuration)


def _of_own(plan: OwnPlan, _: Additions) -> Iterator[Run]:
    for group in plan.groups:
        for row in group.rows:
            yield _owned(row, group.accelerator, plan.request.serve.lengths)


def _owned(row: OwnRow, accelerator: str, lengths: Lengths) -> ServeCase:
    """A row as the case that it is; its layout stands there as a table has it."""
    spread = _AT_HOME.fullmatch(row.layout)
    tp = int(spread[1] or 1) if spread else 1
    degrees = {"tp": tp} if spread else _degrees(row.layout.split())
    case = at_once(
        Configuration(
            accelerator=accelerator,
            layout=Layout(**degrees),
            precision=Precision(weights=row.weights),
            engine=Engine(name=(find_engine(row.engine) or unlisted_engine()).name),
        ),
        model=row.model,
        lengths=lengths,
        concurrency=row.concurrency / row.replicas,
    )
    return replace(case, split_mode="layer" if spread and tp > 1 else case.split_mode)


def _of_budget(plan: BudgetPlan, _: Additions) -> Iterator[Run]:
    if (serve := plan.request.serve) is not None:
        for one in plan.models:
            held = one.option.capacity.concurrency
            yield at_once(one.option.configuration, model=one.model, lengths=serve.lengths, concurrency=held)
    yield from (TrainRun(tune.model, tune.configuration) for tune in plan.tunes)


_FLEET_LOAD: Final = 16.0
"""Requests in flight at which a replica of a fleet is looked at, whose load changes by the hour. Chosen."""
_RUNS: Final[dict[type, Callable[[Any, Additions], Iterator[Run]]]] = {
    ServePlan: _of_serve,
    BatchPlan: _of_batch,
    TrainPlan: _of_training,
    RlPlan: _of_rl,
    FleetPlan: _of_fleet,
    OwnPlan: _of_own,
    BudgetPlan: _of_budget,
}
