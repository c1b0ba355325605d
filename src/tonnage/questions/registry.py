"""Every kind of plan, and every question with its struct. A new kind is a folder beside this, named in `ROOMS`."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import msgspec

from tonnage.domain.case import InferCase, ServeCase, TrainCase
from tonnage.domain.cost import RentOrBuyRequest
from tonnage.domain.requests.tables import AccuracyRequest, Sweep
from tonnage.domain.rl import RlCase
from tonnage.domain.simulate import Simulation
from tonnage.questions.adopt.question import Adopt
from tonnage.questions.calibrate.question import CalibrateRequest
from tonnage.questions.fit.question import FitRequest
from tonnage.questions.question import Question

ROOMS: Final = ("serve", "train", "batch", "lifecycle", "rl", "infer", "fleet", "own", "budget")
"""Folders with a `question.py`, in the order people meet them."""
KINDS: Final[dict[str, Question]] = {
    question.name: question
    for room in ROOMS
    for question in import_module(f"tonnage.questions.{room}.question").QUESTIONS
}
"""By name."""
_BY_ANSWER: Final[dict[type, Question]] = {question.answer: question for question in KINDS.values()}


def kind_of_answer(answer: msgspec.Struct) -> Question | None:
    """The kind of plan that an answer is; None of other answers."""
    return _BY_ANSWER.get(type(answer))


CASES: Final[dict[str, type[msgspec.Struct]]] = {
    "serve": ServeCase,
    "train": TrainCase,
    "infer": InferCase,
    "rl": RlCase,
}
"""By the `kind` of a case that `tonnage predict` reads."""

REQUESTS: Final[dict[str, type[msgspec.Struct]]] = {
    **{name: question.request for name, question in KINDS.items()},
    "fit": FitRequest,
    "rent-or-buy": RentOrBuyRequest,
    "simulate": Simulation,
    "adopt": Adopt,
    "calibrate": CalibrateRequest,
    "accuracy": AccuracyRequest,
    "sweep": Sweep,
    **{f"predict-{kind}": case for kind, case in CASES.items()},
}
"""By the name that `tonnage fields` and plan files use, in the order people meet them."""
