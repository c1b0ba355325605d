"""Every kind of plan. A new one is a folder beside this file and a name in `ROOMS`."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import msgspec

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
