"""JSON Schema of the request file, generated from the door's field tables: editors complete and check by it.

    python -m tonnage.planning.request_schema > docs/request.schema.json

A file may name it in its first line: `# yaml-language-server: $schema=PATH/request.schema.json`.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from tonnage.planning.batch.door import BATCH_FIELDS
from tonnage.planning.door import FINETUNE_FIELDS, SERVE_FIELDS, TRAIN_FIELDS, Field
from tonnage.planning.fleet.door import BUCKET_FIELDS, FLEET_FIELDS, FLEET_GROUPS
from tonnage.planning.infer.door import INFER_FIELDS
from tonnage.planning.lifecycle.door import LIFECYCLE_FIELDS

__all__ = ["fleet_lists", "property_of", "request_schema"]

KINDS: Final = {
    "serve": SERVE_FIELDS,
    "batch": BATCH_FIELDS,
    "train": TRAIN_FIELDS,
    "finetune": FINETUNE_FIELDS,
    "infer": INFER_FIELDS,
}
BARE: Final = frozenset({"count", "tokens", "fraction", "years", "USD", "USD/year"})
"""Dimensions whose numbers need no unit."""


def request_schema() -> dict[str, Any]:
    """The schema: one alternative per kind of plan, chosen by its `plan` line."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tonnage request",
        "description": "What `tonnage plan REQUEST.yaml` reads.",
        "type": "object",
        "required": ["plan"],
        "properties": {"plan": {"enum": [*KINDS, "lifecycle", "fleet"], "description": "what to plan"}},
        "allOf": [
            *(_if_kind(kind, _properties(fields), required=["model"]) for kind, fields in KINDS.items()),
            _if_kind("lifecycle", _lifecycle(), required=["months", "serve"]),
            _if_kind("fleet", _fleet(), required=["workloads"]),
        ],
    }


def _if_kind(kind: str, properties: dict[str, Any], *, required: list[str]) -> dict[str, Any]:
    return {
        "if": {"properties": {"plan": {"const": kind}}, "required": ["plan"]},
        "then": {"properties": {"plan": True, **properties}, "required": required, "additionalProperties": False},
    }


def _properties(fields: tuple[Field, ...]) -> dict[str, Any]:
    return {field.name: property_of(field) for field in fields}


def _lifecycle(groups: tuple[str, ...] = ("serve", "train", "finetune")) -> dict[str, Any]:
    """Its own fields, and a group of fields for each plan it joins."""
    grouped = {
        name: {"type": "object", "properties": _properties(KINDS[name]), "additionalProperties": False}
        for name in groups
    }
    return {**_properties(LIFECYCLE_FIELDS), **grouped}


def _fleet() -> dict[str, Any]:
    """Its own fields, and lists of groups of fields."""
    return {**_properties(FLEET_FIELDS), **fleet_lists()}


def fleet_lists() -> dict[str, Any]:
    """The lists of a fleet's request: workloads, machines that are there, quotas."""

    def listed(fields: tuple[Field, ...], **more: Any) -> dict[str, Any]:
        one = {"type": "object", "properties": {**_properties(fields), **more}, "additionalProperties": False}
        return {"type": "array", "minItems": 1, "items": one}

    about = "number of buckets of like lengths, or each of them"
    buckets = {"anyOf": [{"type": "integer", "minimum": 1}, listed(BUCKET_FIELDS)], "description": about}
    groups = {name: listed(fields) for name, fields in FLEET_GROUPS.items() if name != "workloads"}
    return {"workloads": listed(FLEET_GROUPS["workloads"], buckets=buckets), **groups}


def property_of(field: Field) -> dict[str, Any]:
    """The schema of what may be written in one field."""
    about = {"description": field.help}
    if field.reads == "flag":
        return {"type": "boolean", **about}
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
    unit = "" if field.reads == "text" else f"; a text with its unit ({field.reads})"
    return {**text, "description": field.help + unit}


def _bounds(field: Field) -> dict[str, float]:
    """The door's own bounds; its lower one is exclusive."""
    high = {} if field.high == math.inf else {"maximum": field.high}
    return {"exclusiveMinimum": field.low, **high}


if __name__ == "__main__":
    print(json.dumps(request_schema(), indent=2))
