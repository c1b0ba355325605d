"""
Which measurements moved an answer, whoever asked: looked up of the configurations that its kind names (`runs`).

Plans that hold plans have their halves marked as well. A kind without `runs` reads no calibration: plans to infer. Of a
plan that nothing meets, its planner says what moved what came nearest (`core.driver.moved_losers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from tonnage.catalog import Additions
from tonnage.catalog.additions import any_counts
from tonnage.core.calibration_use import calibrations_among, each_once
from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.plan import PlanHeader
from tonnage.questions.adopt.question import ServeSides, TrainSides
from tonnage.questions.registry import kind_of_answer

Answer = TypeVar("Answer", bound=msgspec.Struct)


def with_calibrations(answer: Answer, *, additions: Additions) -> Answer:
    """The answer with the measurements that moved its numbers, its plans inside as well; as it is where none count."""
    return _marked(answer, additions) if any_counts(additions) else answer


def _marked(answer: Answer, additions: Additions) -> Answer:
    """The same where calibrations count; of an answer without the field `calibrations` the plans inside alone."""
    inside: dict[str, Any] = {
        name: _marked(held, additions)
        for name in answer.__struct_fields__
        if isinstance(held := getattr(answer, name), PlanHeader | ServeSides | TrainSides)
    }
    answer = replace(answer, **inside) if inside else answer
    own: tuple[CalibrationUse, ...] | None = getattr(answer, "calibrations", None)
    if own is None:
        return answer
    kind = kind_of_answer(answer)
    runs = kind.find("plan", "runs") if kind is not None else None
    uses = calibrations_among(runs(answer, additions), additions=additions) if runs else ()
    return replace(answer, calibrations=each_once((*own, *uses, *_held(inside.values()))))


def _held(answers: Iterable[Any]) -> Iterator[CalibrationUse]:
    """What moved the plans inside an answer."""
    for held in answers:
        yield from getattr(held, "calibrations", ())
        if isinstance(held, ServeSides | TrainSides):
            yield from _held(plan for plan in (held.current, held.better, held.nearby) if plan is not None)
