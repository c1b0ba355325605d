"""Plans of schema 1, as releases before 2026-11-22 wrote them: brought to the names of schema 2, values untouched."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["SCHEMA_1", "from_schema_1"]

SCHEMA_1: Final = "tonnage.plan/1"

RENAMED: Final = {"choices": "sizes", "flips": "break_even", "levers": "savings"}
"""Fields of a plan: name in schema 1 -> name in schema 2."""
HALVES: Final = ("make", "serve")
"""Plans inside a lifecycle plan."""


def from_schema_1(value: dict[str, Any], *, schema: str) -> dict[str, Any]:
    """A decoded plan of schema 1 with the names of the present one, plans inside it as well."""
    renamed = {RENAMED.get(name, name): found for name, found in value.items()}
    if value.get("kind") == "lifecycle":
        renamed |= {
            half: from_schema_1(value[half], schema=schema) for half in HALVES if isinstance(value.get(half), dict)
        }
    return renamed | {"schema": schema}
