"""The OpenAPI document, derived from requests and answers: what the API takes and gives, and nothing else."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tonnage.domain.requests.field import Field
from tonnage.domain.requests.table import REQUESTS
from tonnage.planning.request_schema import groups_schema, property_of
from tonnage.version import __version__
from tonnage.web.questions import QUESTIONS, Question, nest_form_names

__all__ = ["openapi", "request_schema"]

REF = "#/components/schemas/{name}"


_YAML: Final = {"type": "string", "minLength": 1}
_FLAG: Final = ({"type": "boolean"}, {"enum": ["true", "false", "yes", "no", "on", "off", "1", "0", 1, 0]})
WRITTEN: Final[dict[str, dict[str, Any]]] = {
    "plan/fleet": groups_schema(REQUESTS["fleet"]),
    "compare/ways": {"ways": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "object"}}},
}
"""Fields that hold lists or groups, by question, and what is in them."""


class Error(msgspec.Struct, frozen=True, kw_only=True):
    """What was wrong, in one sentence that names the field and the nearest fix."""

    schema: str
    error: str


def openapi() -> dict[str, Any]:
    """The document, version 3.1."""
    answers = {question.answers for question in QUESTIONS.values()}
    _, schemas = msgspec.json.schema_components((*sorted(answers, key=lambda noun: noun.__name__), Error),
                                                ref_template=REF)  # fmt: skip
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tonnage", "version": __version__,
                 "description": "Which accelerators a model needs: the same questions as the command line."},
        "paths": {f"/{path}": {"get": _page(question), "post": _operation(question)}
                  for path, question in QUESTIONS.items()}
        | {"/predict": {"post": _predict()}},
        "components": {"schemas": schemas},
    }  # fmt: skip


def _operation(question: Question) -> dict[str, Any]:
    return {
        "operationId": question.path.replace("/", "_").replace("-", "_"),
        "summary": question.title,
        "requestBody": {"required": False, "content": {"application/json": {
            "schema": request_schema(question), "example": nest_form_names(question.example)}}},
        "responses": _responses({"$ref": REF.format(name=question.answers.__name__)}),
    }  # fmt: skip


def _page(question: Question) -> dict[str, Any]:
    text = {"schema": {"type": "string"}}
    return {
        "operationId": f"page_{question.path.replace('/', '_').replace('-', '_')}",
        "summary": f"{question.title}: the page, its form filled from the query",
        "responses": {"200": {"description": "The page", "content": {"text/html": text}},
                      **{status: told for status, told in _responses({}).items() if status != "200"}},
    }  # fmt: skip


def _predict() -> dict[str, Any]:
    # A case that is none gets its own sentence, and the others their answers.
    cases = {"type": "array", "minItems": 1, "maxItems": 200, "items": {}}
    return {
        "operationId": "predict",
        "summary": "Predict many cases",
        "requestBody": {"required": True, "content": {"application/json": {"schema": {
            "type": "object", "required": ["cases"], "additionalProperties": False, "properties": {"cases": cases}}}}},
        "responses": _responses({"type": "object", "required": ["results"], "properties": {
            "results": {"type": "array", "items": {"type": "object"}}}}),
    }  # fmt: skip


def _responses(answer: dict[str, Any]) -> dict[str, Any]:
    wrong = {"content": {"application/json": {"schema": {"$ref": REF.format(name="Error")}}}}
    return {
        "200": {"description": "The answer; that nothing works is one too",
                "content": {"application/json": {"schema": answer}}},
        "400": {"description": "The request is wrong", **wrong},
        "401": {"description": "The server asks for its token (from other machines only)", **wrong},
        "403": {"description": "Another site asks", **wrong},
        "408": {"description": "The body did not come in time", **wrong},
        "413": {"description": "The body is too large", **wrong},
        "415": {"description": "The body's type is not application/json", **wrong},
        "503": {"description": "Too many questions at once; Retry-After says when to ask again", **wrong},
        "504": {"description": "The question took too long and was stopped; the error says what to ask", **wrong},
        "507": {"description": "The question needs more memory than it may take", **wrong},
    }  # fmt: skip


def request_schema(question: Question) -> dict[str, Any]:
    """What one form takes as JSON; fields with dots are groups of their own."""
    lists = WRITTEN.get(question.path, {})
    properties: dict[str, Any] = {}
    for field in question.fields:
        if field.name in lists:
            about = {"description": f"{field.help}; as YAML, too"}
            properties[field.name] = {**about, "anyOf": [lists[field.name], _YAML, {"type": "null"}]}
            continue
        group, dot, name = field.name.partition(".")
        if dot:
            empty: dict[str, Any] = {"type": ["object", "null"], "properties": {}, "additionalProperties": False}
            properties.setdefault(group, empty)["properties"][name] = _or_absent(field)
        else:
            properties[field.name] = _or_absent(field)
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _or_absent(field: Field) -> dict[str, Any]:
    """Null is a field that is not given; a flag may also be the word that forms and command lines use."""
    told = property_of(field)
    if field.reads == "flag":
        return {"description": field.help, "anyOf": [*_FLAG, {"type": "null"}]}
    inner = {name: value for name, value in told.items() if name not in {"description", "title", "default"}}
    number = [{"type": "number"}] if field.reads == "text" and not field.choices else []  # a version: 0.12
    about = {name: value for name, value in told.items() if name not in inner}
    return {**about, "anyOf": [inner, *number, {"type": "null"}]}
