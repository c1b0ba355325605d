"""A question as people write it, with its kind and its fields, becomes an answer, whichever face it came through.

One row of `QUESTIONS` per kind. A row names its reader (texts -> request) and its planner (request -> plan) as
"module:function", so that asking one question imports no other.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from datetime import date
from typing import Any, Final

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.additions import any_counts
from tonnage.errors import BadRequest, UnknownName, echo
from tonnage.planning.files import read_mapping
from tonnage.planning.plans import Plan

__all__ = ["QUESTIONS", "Question", "answer", "answer_file", "kind_of", "planned"]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Where one kind of plan is read and answered, each as "module:function"."""

    reader: str
    planner: str


def _question(kind: str, read_in: str, *, planned_in: str = "") -> Question:
    """Readers and planners are named after the kind of plan."""
    planner = planned_in or kind
    return Question(
        reader=f"tonnage.planning.requests.{read_in}:{kind}_request",
        planner=f"tonnage.planning.{planner}.plan:plan_{planner}",
    )


QUESTIONS: Final[dict[str, Question]] = {
    "serve": _question("serve", "serve"),
    "batch": _question("batch", "serve"),
    "train": _question("train", "jobs"),
    "finetune": _question("finetune", "jobs", planned_in="train"),
    "rl": _question("rl", "jobs"),
    "infer": _question("infer", "jobs"),
    "lifecycle": _question("lifecycle", "composed"),
    "fleet": _question("fleet", "fleet"),
    "own": _question("own", "composed"),
    "budget": _question("budget", "composed"),
}
"""Every kind of plan, in the order people meet them."""


def answer(
    kind: str, fields: Mapping[str, Any], *, additions: Additions = catalog.NOTHING, today: date | None = None
) -> Plan:
    """
    The plan of one kind for fields as people write them.

    Parameters
    ----------
    kind : str
        A key of `QUESTIONS`.
    fields : mapping
        Field name -> text or number, as in a request file without its `plan` line.
    additions : Additions
        The user's own accelerators, models, offers and what-ifs.
    today : date, optional
        The day prices are aged from.

    Raises
    ------
    TonnageError
        No such kind, or a wrong request.
    """
    if kind not in QUESTIONS:
        raise UnknownName("kind of plan", kind, known=QUESTIONS)
    question = QUESTIONS[kind]
    request = _function(question.reader)(fields, additions=additions)
    return planned(kind, request, additions=additions, today=today)


def planned(kind: str, request: Any, *, additions: Additions = catalog.NOTHING, today: date | None = None) -> Plan:
    """The plan of one kind for a request that is read, with the measurements that moved its numbers."""
    made: Plan = _function(QUESTIONS[kind].planner)(request, additions=additions, today=today)
    if not any_counts(additions):
        return made
    from tonnage.planning.calibrated import with_calibrations

    return with_calibrations(made, additions=additions)


def answer_file(path: str, *, additions: Additions = catalog.NOTHING, today: date | None = None) -> Plan:
    """
    The plan for the request in a YAML or JSON file (`-` = standard input).

    Raises
    ------
    TonnageError
        The file cannot be read, or the request is wrong.
    """
    kind, fields = kind_of(read_mapping(path), source=path)
    return answer(kind, fields, additions=additions, today=today)


def kind_of(request: Mapping[str, Any], *, source: str = "the request") -> tuple[str, dict[str, Any]]:
    """
    What a request file asks, and its other fields.

    Raises
    ------
    BadRequest
        It has no `plan` line.
    """
    fields = dict(request)
    kind = fields.pop("plan", None)
    if kind is None:
        others = ", ".join(list(QUESTIONS)[1:])
        raise BadRequest(f"'{echo(source)}' does not say what to plan; add a line 'plan: serve' (or {others})")
    return str(kind), fields


def _function(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)
