"""Which cases of one accelerator at one count are worth predicting, and which of them has the shortest step?

On policy the accelerators are shared; with staleness they are split, large jobs in whole instances, at the shares that
published recipes use and those between. A replica has as many tensor-parallel ranks as an instance holds or fewer, or
whole instances of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from msgspec.structs import replace

from tonnage.catalog.fitted import rl_coefficients
from tonnage.catalog.spreads import chance_within
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.case import Links
from tonnage.domain.layout import Layout
from tonnage.domain.model import Model
from tonnage.domain.precision import Precision
from tonnage.domain.rl import RlCase, RlResult
from tonnage.errors import TonnageError
from tonnage.questions.rl.question import Rl, RlSplit
from tonnage.questions.rl.sides import Generation, Training, generation, training
from tonnage.questions.rl.step import step_of
from tonnage.questions.train.search import Place
from tonnage.record import Record

SHARES: Final = (Fraction(1, 8), Fraction(1, 4), Fraction(1, 3), Fraction(1, 2), Fraction(2, 3), Fraction(3, 4))
"""Of the accelerators that generate, where they only generate; NeMo-RL's recipes have a third and a half."""
TENSOR: Final = (1, 2, 4, 8, 16, 32)
WHOLE: Final = 4
"""Instances from which on splits are in whole instances; below, in so many parts of one."""
USUAL_TAIL: Final = 4.0
"""Longest response over the mean where nobody says: the 95th percentile of the profile of reasoning is 3.8. [-]"""


class Arranged(Record, kw_only=True):
    """The best case of one accelerator at one count, predicted; or the nearest to fitting."""

    case: RlCase
    result: RlResult
    made: Generation
    trained: Training
    evaluated: int = 0
    splits: tuple[RlSplit, ...] = ()


def case_of(request: Rl, place: Place) -> RlCase:
    """
    The case of a request on accelerators as they are joined, before any split or layout; what the request leaves open
    has a usual value here.
    """
    return RlCase(
        model=request.model,
        accelerator=place.accelerator.id,
        count=place.count,
        prompts_per_step=request.prompts_per_step,
        responses_per_prompt=request.responses_per_prompt,
        prompt_tokens=request.prompt_tokens,
        response_tokens=request.response_tokens,
        max_response_tokens=request.max_response_tokens or USUAL_TAIL * request.response_tokens,
        algorithm=request.algorithm,
        train_batch=request.train_batch,
        staleness=request.staleness,
        partial_rollouts=request.partial_rollouts,
        precision=request.precision,
        rollout_precision=Precision(weights=request.rollout_precision),
        engine=request.engine,
        framework=request.framework,
        optimizer=request.optimizer,
        reference=request.reference if request.reference is not None else request.algorithm != "dapo",
        kept=request.kept,
        turns=request.turns,
        environment_s=request.environment_s,
        observation_tokens=request.observation_tokens,
        reward_s=request.reward_s,
        links=Links(intra=place.intra_link, inter_bytes_per_s=place.inter_bytes_per_s),
        accelerators_per_node=place.per_node,
    )


def best_of(request: Rl, place: Place, *, model: Model) -> Arranged | None:
    """
    The case with the shortest step among the splits whose training fits with the confidence asked for, else the surest;
    where nothing fits, the first that says why; None where no split divides. Without staleness there is one split:
    shared accelerators.
    """
    base, card = case_of(request, place), place.accelerator
    found: list[Arranged] = []
    evaluated = 0
    loop = rl_coefficients()
    for split in _splits(request, place):
        case = replace(base, rollout_count=split)
        made = _fastest(case, model, card)
        evaluated += 1
        if made is None:
            continue
        laid, generated = made
        try:
            trained = training(laid, model, accelerator=card, factor=loop.training)
        except TonnageError:  # no whole degrees of this many accelerators
            continue
        result = step_of(laid, generated, trained=trained, error=loop.error)
        usual = Arranged(case=laid, result=result, made=generated, trained=trained)
        found.append(usual)
        if _fits(usual) < request.confidence and not laid.recompute:
            # The same degrees with every layer computed again: slower, and the surest to fit.
            degrees = replace(laid.train_layout, tp=trained.setup.layout.tp, pp=trained.setup.layout.pp)
            spared = replace(laid, recompute="full", train_layout=degrees)
            trained = training(spared, model, accelerator=card, factor=loop.training)
            result = step_of(spared, generated, trained=trained, error=loop.error)
            found.append(Arranged(case=spared, result=result, made=generated, trained=trained))
    if not found:
        return None
    fitting = [one for one in found if one.result.fits and one.result.step_s is not None]
    if not fitting:
        return replace(found[0], evaluated=evaluated)
    sure = [one for one in fitting if _fits(one) >= request.confidence]
    best = min(sure, key=_step_s) if sure else max(fitting, key=_fits)
    shown = {one.case.rollout_count: one for one in sorted(fitting, key=lambda one: (one is best, -_step_s(one)))}
    return replace(best, evaluated=evaluated, splits=tuple(_split(one) for one in shown.values() if request.staleness))


def _fits(one: Arranged) -> float:
    """How surely training fits. [-]"""
    driver_bytes = one.trained.setup.accelerator.driver_memory_bytes
    return chance_within(one.result.train_memory, driver_bytes) if one.result.train_memory is not None else 0.0


def _step_s(one: Arranged) -> float:
    assert one.result.step_s is not None
    return one.result.step_s.value


def _split(one: Arranged) -> RlSplit:
    """A predicted case as a row of splits: accelerators of both sides and their times a step."""
    return RlSplit(
        rollout=one.case.rollout_count or 0,
        training=one.case.train_accelerators,
        rollout_s=one.made.total_s,
        training_s=one.trained.total_s,
        step_s=_step_s(one),
    )


def _splits(request: Rl, place: Place) -> Iterator[int | None]:
    """
    Accelerators that only generate, in whole instances where there are several: the stated number, or those of the
    usual shares; None = all are shared, where there is no staleness.
    """
    if not request.staleness:
        yield None
        return
    unit = place.per_node if place.count >= WHOLE * place.per_node else max(1, place.per_node // WHOLE)
    if request.rollout_count is not None:
        yield request.rollout_count
        return
    counts = {unit * max(1, round(share * place.count / unit)) for share in SHARES}
    yield from sorted(count for count in counts if 0 < count < place.count)


def _fastest(case: RlCase, model: Model, card: Accelerator) -> tuple[RlCase, Generation] | None:
    """
    The layout of replicas that generates soonest; where none holds the model, the widest; None where no tensor degree
    divides accelerators and heads.
    """
    widest: tuple[RlCase, Generation] | None = None
    best: tuple[RlCase, Generation] | None = None
    count = case.rollout_accelerators
    node = case.accelerators_per_node or 8
    for tp in TENSOR:
        if count % tp or (tp > node and tp % node) or not _divides(model, tp):
            continue
        laid = replace(case, rollout_layout=Layout(tp=tp))
        made = generation(laid, model, accelerator=card, host_s=rl_coefficients().decode_step_s)
        widest = (laid, made)
        if made.found is None:
            continue
        if best is None or made.total_s < best[1].total_s:
            best = (laid, made)
        elif tp > node:
            break  # wider replicas over the network only lose
    return best or widest


def _divides(model: Model, tp: int) -> bool:
    """Whether attention heads can be cut into that many ranks."""
    heads = (getattr(group.mixer, "num_attention_heads", None) for group in model.layers)
    return all(number % tp == 0 for number in heads if number)
