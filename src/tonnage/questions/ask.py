"""
A question as people write it, or the file of a kept plan, becomes an answer, whichever face it came through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, Final

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.additions import any_counts
from tonnage.catalog.hub.fields import decode_json
from tonnage.core.files import read_mapping, read_text
from tonnage.domain.plan import PLAN_SCHEMA, PlanHeader
from tonnage.errors import BadFact, BadRequest, UnknownName, echo
from tonnage.foreign import check_values
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
    return with_measurements(planner_of(kind)(request, additions=additions, today=today), additions)


def planner_of(kind: str) -> Callable[..., Plan]:
    """What plans a request of one kind that is read."""
    question = KINDS[kind]
    planner: Callable[..., Plan] = question.find("plan", f"plan_{question.room}")
    return planner


def with_measurements(made: Plan, additions: Additions) -> Plan:
    """A plan that names the user's measurements that moved its numbers."""
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
    reader: Callable[..., Any] = KINDS[kind].find("question", f"{kind}_request")
    return reader


Plan = PlanHeader[Any]
"""Any plan; `kind` in the file tells which."""

SCHEMA_1: Final = "tonnage.plan/1"
RENAMED: Final = {"choices": "sizes", "flips": "break_even", "levers": "savings"}
"""Fields of a plan: name in schema 1 -> name in schema 2."""
HALVES: Final = ("make", "serve")
"""Plans inside a lifecycle plan."""

_AGAIN: Final = "plan the request again with `tonnage plan REQUEST.yaml -o PLAN.json`"


class _Envelope(msgspec.Struct):
    schema: str | None = None
    kind: str | None = None


def read_plan(path: str) -> Plan:
    """
    The plan in a file.

    Raises
    ------
    BadFact
        Not readable, not JSON, another schema or kind, or a field of the wrong type.
    """
    return plan_of_text(read_text(path, what="plan"), path)


def plan_of_text(text: str, path: str) -> Plan:
    """
    The plan that a text is; `path` names it in errors.

    Raises
    ------
    BadFact
        As `read_plan`.
    """
    value = decode_json(text, where=f"plan '{echo(path)}'")
    check_values(value, where=f"plan '{echo(path)}'", lines=False)
    if isinstance(value, dict) and value.get("schema") == SCHEMA_1:
        text = msgspec.json.encode(from_schema_1(value)).decode()
    try:
        envelope = msgspec.json.decode(text, type=_Envelope)
        if envelope.schema != PLAN_SCHEMA:
            raise BadFact(_other_schema(path, envelope.schema))
        kind = KINDS.get(envelope.kind or "")
        if kind is None:
            known = ", ".join(KINDS)
            raise BadFact(f"plan '{echo(path)}' is of kind '{echo(envelope.kind)}'; kinds that can be read: {known}")
        made: Plan = msgspec.json.decode(text, type=kind.answer)
        return made
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadFact(f"plan '{echo(path)}' cannot be read: {echo(error)}; {_AGAIN}") from None


def from_schema_1(value: dict[str, Any]) -> dict[str, Any]:
    """A decoded plan of schema 1 with the names of the present one, plans inside it as well; values untouched."""
    renamed = {RENAMED.get(name, name): found for name, found in value.items()}
    if value.get("kind") == "lifecycle":
        renamed |= {half: from_schema_1(value[half]) for half in HALVES if isinstance(value.get(half), dict)}
    return renamed | {"schema": PLAN_SCHEMA}


def _other_schema(path: str, schema: str | None) -> str:
    """What to do about a file that this release does not read."""
    kind, _, number = PLAN_SCHEMA.partition("/")
    theirs, _, other = (schema or "").partition("/")
    if theirs == kind and other.isdecimal() and int(other) > int(number):
        return (
            f"plan '{echo(path)}' says '{echo(schema)}', and this release reads '{PLAN_SCHEMA}': "
            f"a newer release wrote it; install that, or {_AGAIN}"
        )
    found = f"says '{echo(schema)}'" if schema else "has no 'schema'"
    return f'plan \'{echo(path)}\' {found}; expected "schema": "{PLAN_SCHEMA}" as `tonnage plan` writes: {_AGAIN}'
