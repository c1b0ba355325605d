"""Plan files: the JSON that `tonnage plan --output` wrote becomes the same noun again."""

from __future__ import annotations

import msgspec

from tonnage.errors import BadFact, echo
from tonnage.nouns.plan import PLAN_SCHEMA, ServePlan
from tonnage.planner.files import read_text

__all__ = ["read_plan"]


class _Envelope(msgspec.Struct):
    schema: str | None = None


def read_plan(path: str) -> ServePlan:
    """
    The plan in a file.

    Raises
    ------
    BadFact
        Not readable, not JSON, another schema, or a field of the wrong kind.
    """
    text = read_text(path, what="plan")
    try:
        schema = msgspec.json.decode(text, type=_Envelope).schema
        if schema != PLAN_SCHEMA:
            found = f"says '{echo(schema)}'" if schema else "has no 'schema'"
            raise BadFact(f'plan \'{echo(path)}\' {found}; expected "schema": "{PLAN_SCHEMA}" as `tonnage plan` writes')
        return msgspec.json.decode(text, type=ServePlan)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadFact(f"plan '{echo(path)}' cannot be read: {echo(error)}") from None
