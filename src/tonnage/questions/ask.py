"""A question as people write it, with its kind and its fields, becomes an answer, whichever face it came through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.additions import any_counts
from tonnage.core.files import read_mapping
from tonnage.errors import BadRequest, UnknownName, echo
from tonnage.questions.plans import Plan
from tonnage.questions.registry import KINDS


def answer(
    kind: str, fields: Mapping[str, Any], *, additions: Additions = catalog.NOTHING, today: date | None = None
) -> Plan:
    """
    The plan of one kind for fields as people write them.

    Parameters
    ----------
    kind : str
        A key of `KINDS`.
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
    if kind not in KINDS:
        raise UnknownName("kind of plan", kind, known=KINDS)
    request = reader_of(kind)(fields, additions=additions)
    return planned(kind, request, additions=additions, today=today)


def planned(kind: str, request: Any, *, additions: Additions = catalog.NOTHING, today: date | None = None) -> Plan:
    """The plan of one kind for a request that is read, with the measurements that moved its numbers."""
    question = KINDS[kind]
    made: Plan = question.find("plan", f"plan_{question.room}")(request, additions=additions, today=today)
    if not any_counts(additions):
        return made
    from tonnage.questions.calibrate.calibrated import with_calibrations

    return with_calibrations(made, additions=additions)


def answer_file(path: str, *, additions: Additions = catalog.NOTHING, today: date | None) -> Plan:
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
        others = ", ".join(list(KINDS)[1:])
        raise BadRequest(f"'{echo(source)}' does not say what to plan; add a line 'plan: serve' (or {others})")
    return str(kind), fields


def reader_of(kind: str) -> Callable[..., Any]:
    """What reads a request of one kind: fields -> request."""
    reader: Callable[..., Any] = KINDS[kind].find("reading", f"{kind}_request")
    return reader
