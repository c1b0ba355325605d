"""
The fields of a question described, for `tonnage fields`, and as JSON Schema, by which editors complete and check.

python -m tonnage.questions.request_schema > docs/request.schema.json

A file may name it in its first line: `# yaml-language-server: $schema=PATH/request.schema.json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from tonnage import units
from tonnage.core.reading import request_fields
from tonnage.domain.requests.field import Field, Group, attributes_of, groups_of
from tonnage.errors import UnknownName
from tonnage.questions.registry import CASES, KINDS, REQUESTS
from tonnage.record import SparseRecord

BARE: Final = frozenset({"count", "tokens", "tokens/s", "fraction", "years", "USD", "USD/year"})
"""Dimensions whose numbers need no unit."""


def request_schema() -> dict[str, Any]:
    """The schema: one alternative per kind of plan, chosen by its `plan` line."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tonnage request",
        "description": "What `tonnage plan REQUEST.yaml` reads.",
        "type": "object",
        "required": ["plan"],
        "properties": {"plan": {"enum": list(KINDS), "description": "what to plan"}},
        "allOf": [_of_kind(kind) for kind in KINDS],
    }


def _of_kind(kind: str) -> dict[str, Any]:
    """The alternative of one kind of plan."""
    question = KINDS[kind]
    return {
        "if": {"properties": {"plan": {"const": kind}}, "required": ["plan"]},
        "then": {
            "properties": {"plan": True, **_properties(question.request)},
            "required": list(question.needs),
            "additionalProperties": False,
        },
    }


def _properties(struct: type[msgspec.Struct], taken: Group | None = None) -> dict[str, Any]:
    """
    What may stand in a request or a group: its fields (of a group those that it takes), then its groups and lists of
    groups.
    """
    fields = {
        field.name: property_of(field) for field in request_fields(struct) if taken is None or taken.takes(field.name)
    }
    groups = groups_schema(struct)
    both = {
        name: {"anyOf": [*fields[name]["anyOf"][:1], group], "description": fields[name]["description"]}
        for name, group in groups.items()
        if name in fields
    }
    return {**fields, **groups, **both}


def groups_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The groups of a request, and its lists of groups: workloads, machines that are there, quotas."""
    found = {}
    for group in groups_of(struct):
        one = {"type": "object", "properties": _properties(group.of, group), "additionalProperties": False}
        found[group.name] = {"type": "array", "minItems": 1, "items": one} if group.many else one
    return found


def property_of(field: Field) -> dict[str, Any]:
    """
    JSON Schema of what may be written in one field: a text with its unit, or a bare number too where the field takes
    one.
    """
    about = {"description": field.help}
    if field.reads == "flag":
        return {"type": "boolean", **about}
    if field.reads == "entries":
        one = {"type": "object", "properties": _properties(field.entries), "additionalProperties": False}
        needed = [each.fields[0].name for each in attributes_of(field.entries) if each.required and each.fields]
        return {"type": "array", "minItems": 1, "items": {**one, "required": needed}, **about}
    if field.reads in ("mapping", "numbers"):
        kind = {"type": "object"} if field.reads == "mapping" else {"type": "array", "items": {"type": "number"}}
        return {**kind, **about}
    text: dict[str, Any] = {"type": "string", "minLength": 1}
    if field.choices and field.reads == "list":
        listed = {"type": "array", "minItems": 1, "items": {"enum": list(field.choices)}}
        return {"anyOf": [listed, text], **about}
    if field.choices:
        return {"enum": list(field.choices), **about}
    if field.reads == "list":
        return {"anyOf": [text, {"type": "array", "minItems": 1, "items": text}], **about}
    if field.reads == "integer":
        return {"anyOf": [{"type": "integer", **_bounds(field)}, text], **about}
    if field.reads in BARE:
        return {"anyOf": [{"type": "number", **_bounds(field)}, text], **about}
    if field.usual is not None:
        return {**text, "type": ["string", "number"], "description": f"{field.help}; plain: {field.usual.unit}"}
    unit = "" if field.reads == "text" else f"; a text with its unit ({field.reads})"
    return {**text, "description": field.help + unit}


def case_schemas() -> list[dict[str, Any]]:
    """What `tonnage predict` reads, one alternative per kind of case: numbers are plain, in the unit of their field."""
    return [
        {
            **_plain(case),
            "required": ["kind", *(one.name for one in attributes_of(case) if one.required)],
            "properties": {"kind": {"const": kind}, **_plain(case)["properties"]},
        }
        for kind, case in CASES.items()
    ]


def _plain(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """What may stand in a case: plain numbers in the unit of their field."""
    fields = {field.name: _plain_property(field) for field in request_fields(struct)}
    groups = {group.name: _plain(group.of) for group in groups_of(struct)}
    return {"type": "object", "properties": {**fields, **groups}, "additionalProperties": False}


def _plain_property(field: Field) -> dict[str, Any]:
    """The schema of a field that holds what JSON has, and no unit."""
    if field.reads not in units.DIMENSIONS and field.reads != "integer":
        inline = {"type": ["string", "object"], "description": field.help} if field.known == "models" else None
        return inline or property_of(field)
    unit = "" if field.reads in ("integer", "count") else f" [{field.reads}]"
    return {"type": "integer" if field.whole else "number", **_bounds(field), "description": field.help + unit}


def _bounds(field: Field) -> dict[str, float]:
    """The bounds of the reading; the lower one is exclusive."""
    high = {} if field.high == math.inf else {"maximum": field.high}
    return {"exclusiveMinimum": field.low, **high}


if __name__ == "__main__":
    print(json.dumps(request_schema(), indent=2))


class Described(SparseRecord, kw_only=True):
    """One field as a reader needs it."""

    name: str
    """Fields of groups as group.field."""
    reads: str
    """The unit of a plain number, or text, list, flag, integer, mapping, numbers."""
    group: str
    help: str
    default: Any = None
    """In that unit; absent = chosen by the planner, or required."""
    above: float | None = None
    """Values are larger than this; absent = no bound, or no number. A bound below 0 lets 0 pass."""
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    known: str = ""
    """The table of names that its values are looked up in: `tonnage catalog` lists the longer ones."""
    aliases: tuple[str, ...] = ()
    """What other programs call it."""


def describe_fields(question: str) -> tuple[Described, ...]:
    """
    Every field of a question, those of its groups behind their names.

    Raises
    ------
    UnknownName
        No such question.
    """
    if question not in REQUESTS:
        raise UnknownName("question", question, known=REQUESTS)
    return tuple(_fields(REQUESTS[question], "", None))


def _fields(struct: type[msgspec.Struct], under: str, taken: Group | None) -> Iterator[Described]:
    for field in request_fields(struct):
        if taken is None or taken.takes(field.name):
            yield _described(field, under)
            if field.entries:
                yield from _fields(field.entries, f"{under}{field.name}[].", None)
    for group in groups_of(struct):
        yield from _fields(group.of, f"{under}{group.name}{'[]' if group.many else ''}.", group)


def _described(field: Field, under: str) -> Described:
    """One field with its bounds, where it is a number."""
    number = field.reads in units.DIMENSIONS or field.reads == "integer"
    return Described(
        name=f"{under}{field.name}",
        reads=field.reads,
        group=field.group,
        help=field.help,
        default=field.default,
        above=field.low if number else None,
        at_most=field.high if number and math.isfinite(field.high) else None,
        choices=field.choices,
        known=field.known,
        aliases=field.aliases,
    )
