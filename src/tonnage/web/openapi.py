"""The OpenAPI document, derived from requests and answers: what the API takes and gives, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tonnage.domain.requests.field import Field
from tonnage.questions.registry import REQUESTS
from tonnage.questions.request_schema import case_schemas, groups_schema, property_of
from tonnage.record import Record
from tonnage.version import __version__
from tonnage.web.listings import LISTINGS
from tonnage.web.measured import CHOICE
from tonnage.web.questions import QUESTIONS, Question, nest_form_names

ANSWER_KEY: Final = "tonnage-answer"
"""Header that says under which key an answer is kept: for its files, numbers and what-ifs, and to compare it."""
REF = "#/components/schemas/{name}"


_YAML: Final = {"type": "string", "minLength": 1}
_FLAG: Final = ({"type": "boolean"}, {"enum": ["true", "false", "yes", "no", "on", "off", "1", "0", 1, 0]})
WRITTEN: Final[dict[str, dict[str, Any]]] = {
    "plan/fleet": groups_schema(REQUESTS["fleet"]),
    "compare/ways": {"ways": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "object"}}},
}
"""Fields that hold lists or groups, by question, and what is in them."""


class Error(Record, kw_only=True):
    """What was wrong, in one sentence that names the field and the nearest fix."""

    schema: str
    error: str


def openapi() -> dict[str, Any]:
    """The document, version 3.1."""
    answers = {question.answers for question in QUESTIONS.values()}
    _, schemas = msgspec.json.schema_components(
        (*sorted(answers, key=lambda noun: noun.__name__), Error), ref_template=REF
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tonnage",
            "version": __version__,
            "description": "Which accelerators a model needs: the same questions as the command line.",
        },
        "paths": {
            f"/{path}": {"get": _page(question), "post": _operation(question)} for path, question in QUESTIONS.items()
        }
        | {"/predict": {"post": _predict()}}
        | {path: {**_PAGES.get(path, {}), **_KEEPING.get(path, {})} for path in (*_PAGES, *_KEEPING)},
        "components": {"schemas": schemas},
    }


def _operation(question: Question) -> dict[str, Any]:
    responses = _responses({"$ref": REF.format(name=question.answers.__name__)})
    responses["200"] |= {"headers": _ANSWER_HEADERS, "links": _ANSWER_LINKS}
    return {
        "operationId": question.path.replace("/", "_").replace("-", "_"),
        "summary": question.title,
        "requestBody": {"required": True, "content": {"application/json": {
            "schema": request_schema(question), "example": nest_form_names(question.example)}}},
        "responses": responses,
    }  # fmt: skip


def _page(question: Question) -> dict[str, Any]:
    text = {"schema": {"type": "string"}}
    return {
        "operationId": f"page_{question.path.replace('/', '_').replace('-', '_')}",
        "summary": f"{question.title}: the page, its form filled from the query",
        "responses": {
            "200": {"description": "The page", "content": {"text/html": text}},
            **{status: told for status, told in _responses({}).items() if status != "200"},
        },
    }


def _predict() -> dict[str, Any]:
    """The route that takes many cases."""
    none = {"description": "what is no case gets a sentence in its place, and the others their answers"}
    cases = {"type": "array", "minItems": 1, "maxItems": 200, "items": {"anyOf": [*case_schemas(), none]}}
    return {
        "operationId": "predict",
        "summary": "Predict many cases",
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "required": ["cases"],
                        "additionalProperties": False,
                        "properties": {
                            "cases": cases,
                            CHOICE.name: _or_absent(CHOICE),
                        },
                    }
                }
            },
        },
        "responses": _responses(
            {
                "type": "object",
                "required": ["results"],
                "properties": {"results": {"type": "array", "items": {"type": "object"}}},
            }
        ),
    }


def _responses(answer: dict[str, Any]) -> dict[str, Any]:
    """Replies of a route by status: `answer` is the schema of the good one."""
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


def _get(
    summary: str,
    *,
    name: str = "",
    kinds: tuple[str, ...] = ("text/html",),
    query: Mapping[str, str] | None = None,
    path: Mapping[str, Any] | None = None,
    statuses: tuple[str, ...] = ("400", "404"),
) -> dict[str, Any]:
    """A route that is read: what it gives, and the parameters of its address."""
    known = _responses({})
    text = {"schema": _EVENT if kinds == (EVENTS,) else {"type": "string"}}
    found = {"200": {"description": summary, "content": {kind: {} if kind == JSON else text for kind in kinds}}}
    for status in (*statuses, "401", "403", "503", "504", "507"):
        found[status] = {**known.get(status, known["400"]), **({"description": _NOT_FOUND} if status == "404" else {})}
    parameters = [
        *({"name": name, "in": "path", "required": True, "schema": schema} for name, schema in (path or {}).items()),
        *(
            {"name": name, "in": "query", "description": told, "schema": {"type": "string"}}
            for name, told in (query or {}).items()
        ),
    ]
    named = {"operationId": name} if name else {}
    return {"get": {**named, "summary": summary, "parameters": parameters, "responses": found}}


def _keep_route(what: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A route that keeps what is posted, and gives its name."""
    answer = {"type": "object", "required": [what], "properties": {what: {"type": "string"}}}
    body = {"required": True, "content": {JSON: {"schema": schema}}}
    return {
        "post": {
            "summary": f"Keep a {what} under a name that questions can use",
            "requestBody": body,
            "responses": _responses(answer),
        }
    }


JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
_EVENT: Final = {"type": "object", "required": ["event", "data"], "properties": {
    "event": {"enum": ["waiting", "working", "progress", "end"]},
    "data": {"type": "string", "description": "figures as JSON"}}}  # fmt: skip
_NOT_FOUND: Final = "No such thing, or an answer that is not kept any more: ask its question again"
_ANSWER_HEADERS: Final = {
    "Content-Location": {"description": "where the answer is kept", "schema": {"type": "string"}},
    ANSWER_KEY: {"description": "the key under which it is kept", "schema": {"type": "string"}},
}
_KEPT: Final = f"$response.header.{ANSWER_KEY}"
_ANSWER_LINKS: Final = {
    name: {"operationId": name, "parameters": {parameter: _KEPT}}
    for name, parameter in {
        "kept_answer": "name", "numbers": "key", "export": "key", "what_ifs": "key", "compare_answers": "left",
    }.items()
}  # fmt: skip
"""What can be asked of an answer, by its key."""
_KEY: Final = {"type": "string", "pattern": "^[0-9a-f]{24}$"}
_PICTURE: Final = {"type": "string", "pattern": r"^[a-z0-9-]{1,50}-(light|dark)\.(svg|json)$"}
_OF: Final = {"of": "the question's own address, asked again where its answer is not kept any more"}
_TABLE: Final = {
    "q": "words that a row holds",
    "sort": "a column, with - before it from the largest on",
    "page": "from 1",
    "format": "csv or json instead of a page",
}
_PAGES: Final[dict[str, Any]] = {
    "/": _get("The first page", statuses=()),
    "/example": _get("The answer to the question on the first page"),
    "/api": _get("How programs ask", statuses=()),
    "/openapi.json": _get("This document", kinds=(JSON,), statuses=()),
    "/health": _get("Whether the server answers; its workers may be busy", kinds=(JSON,), statuses=()),
    "/static/{name}": _get(
        "Style, script and icon of the pages",
        kinds=("text/css", "text/javascript", "image/svg+xml"),
        path={"name": {"type": "string"}},
    ),
    "/static/vega.js": _get("The library that draws charts to be explored", kinds=("text/javascript",)),
    **{
        f"/{path}": _get(
            f"{kind.title}: {kind.about}",
            kinds=("text/html", "text/csv", JSON),
            query={**_TABLE, **{name: f"only rows with this {name}" for name in kind.filters}},
        )
        for path, kind in LISTINGS.items()
    },
    "/accelerators/{part}": _get(
        "What an accelerator is, its prices over time, who rents it, what others measured on it",
        kinds=("text/html", JSON),
        path={"part": {"type": "string"}},
    ),
    "/accuracy": _get("Errors on measurements that no fit had seen", statuses=()),
    "/answer/{name}": _get(
        "A kept answer as JSON, its options as CSV",
        name="kept_answer",
        kinds=(JSON, "text/csv"),
        path={"name": {"type": "string", "pattern": r"^[0-9a-f]{24}(\.json|\.csv)?$"}},
    ),
    "/chart/{key}/{name}": _get(
        "One picture of a kept answer, or its Vega-Lite document",
        kinds=("image/svg+xml", JSON),
        path={"key": _KEY, "name": _PICTURE},
    ),
    "/chart/accelerators/{part}/{name}": _get(
        "One picture of an accelerator's page, or its Vega-Lite document",
        kinds=("image/svg+xml", JSON),
        path={"part": {"type": "string"}, "name": _PICTURE},
    ),
    "/compare": _get(
        "Two answers side by side",
        name="compare_answers",
        query={"left": "key of a kept answer, or the address of its question", "right": "the other one"},
    ),
    "/what-ifs/{key}": _get("A kept question changed in a few ways", name="what_ifs", path={"key": _KEY}, query=_OF),
    "/step/plan/serve": _get("Cost and replicas of a question to serve, alone", name="step", kinds=(JSON,)),
    "/numbers/{key}": _get(
        "The times of a plan's option, opened",
        name="numbers",
        kinds=("text/html", JSON),
        path={"key": _KEY},
        query={"option": "from 1", **_OF},
    ),
    "/export/{key}": _get(
        "Files that start a plan's option, or where it can be started",
        name="export",
        kinds=("text/html", JSON, "application/zip"),
        path={"key": _KEY},
        query={
            "to": "target, or all; without one, the targets that work",
            "archive": "true = the files as one zip archive, of all targets without `to`",
            "option": "from 1",
            "checkpoint": "to load, on the Hugging Face Hub",
            **_OF,
        },
    ),
    "/progress/{question}": _get(
        "How far a question is, as events, until its end",
        kinds=(EVENTS,),
        path={"question": {"enum": sorted(QUESTIONS)}},
    ),
}
"""Every other route that is read, those of the pages included."""
_KEEPING: Final[dict[str, Any]] = {
    "/models": _keep_route("model", {"type": "object", "description": "a config.json of a model"}),
    "/files": _keep_route(
        "file",
        {
            "type": "object",
            "required": ["text"],
            "additionalProperties": False,
            "properties": {"text": {"type": "string", "minLength": 1}},
        },
    ),
}
"""Routes that keep what is posted."""


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
