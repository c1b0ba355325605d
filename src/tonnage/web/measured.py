"""Which measurements an answer of the page counts: the user's own, unless its `calibration` says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from tonnage.catalog import Additions
from tonnage.core.reading import check_value
from tonnage.domain.cost import RentOrBuy
from tonnage.domain.infer_plan import InferPlan
from tonnage.domain.requests.common import CALIBRATION
from tonnage.domain.sessions import TraceSessions
from tonnage.questions.fit.question import FitAnswer

Form = TypeVar("Form", bound=Any)
NONE: Final = "none"
PUBLISHED: Final = "published"
CHOICE: Final = CALIBRATION
"""The field of every form whose answer may rest on measurements."""
WITHOUT: Final = frozenset({FitAnswer, InferPlan, RentOrBuy, TraceSessions})
"""Answers that no calibration moves."""


def with_choice(question: Form) -> Form:
    """A form with the field `calibration`, where measurements may move its answer; else as it is."""
    if question.answers in WITHOUT:
        return question
    return replace(question, fields=(*question.fields, CHOICE))


def chosen(request: Mapping[str, Any], additions: Additions) -> tuple[dict[str, Any], Additions]:
    """
    The request without the field `calibration`, and the user's own facts with the measurements that it counts.

    A request without it leaves the facts as they are.

    Raises
    ------
    TonnageError
        The field holds none of its choices.
    """
    rest = dict(request)
    said = rest.pop(CHOICE.name, None)
    if said is None:
        return rest, additions
    check_value(said, CHOICE, additions=additions)
    counted = said != NONE
    return rest, replace(additions, calibrated=counted, published=counted and said == PUBLISHED)
