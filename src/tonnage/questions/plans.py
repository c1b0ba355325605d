"""Plan files: the JSON that `tonnage plan --output` wrote becomes the same plan again, in the names of today."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tonnage.catalog.hub.jsonfile import decode_json
from tonnage.core.files import read_text
from tonnage.domain.plan import PLAN_SCHEMA, PlanHeader
from tonnage.errors import BadFact, echo
from tonnage.foreign import check_values
from tonnage.questions.registry import KINDS

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
    check_values(value, where=f"plan '{echo(path)}'")
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
