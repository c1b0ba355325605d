"""The API keeps to the document that it publishes, whatever it is sent."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from tests.patience import PATIENCE_S
from tests.sweeps import examples
from tests.web.narrow import narrowed

schemathesis = pytest.importorskip("schemathesis", reason="the dev extra brings it")
pytest.importorskip("litestar", reason="the web extra brings it")

from hypothesis import HealthCheck, settings  # noqa: E402

from tonnage.web.openapi import openapi, request_schema  # noqa: E402
from tonnage.web.questions import QUESTIONS, nest_form_names, parse_form_lists  # noqa: E402

EXAMPLES = examples(2, full=8)
"""Requests of each question; `make contract` sends hundreds."""

# Its phase "coverage" sends every field every wrong value: ten thousand requests, most of whose time goes into making
# them up. Tests below send one wrong value of each kind to every field and every other method to every address. Its
# phase "examples" asks whole plans, which are asked once below.
PHASES = {"coverage": {"enabled": False}, "examples": {"enabled": False}}

CONFIG = tomllib.loads((Path(__file__).parents[2] / "tools" / "contract.toml").read_text())
METHODS = frozenset({"get", "post", "put", "patch", "delete", "trace", "query"})
OF_THE_WRONG_KIND = ([], {}, True, 5, -1, 2.5, "", [[]], [5], {"a": 1}, [""])

contract = schemathesis.openapi.from_dict(openapi(), config=schemathesis.Config.from_dict({**CONFIG, "phases": PHASES}))


@pytest.mark.slow
@contract.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_answer_breaks_the_contract(case: Any, page_address: str) -> None:
    """No 5xx, a body of the promised shape, the promised content type; wrong requests are refused."""
    case.call_and_validate(base_url=page_address, timeout=PATIENCE_S)


@pytest.mark.parametrize("path", QUESTIONS)
def test_the_example_of_the_document_is_answered_in_the_promised_shape(path: str, page_address: str) -> None:
    """What is simulated is held, kind by kind, in test_same_answer."""
    operation = openapi()["paths"][f"/{path}"]["post"]
    example = operation["requestBody"]["content"]["application/json"]["example"]
    case = contract[f"/{path}"]["POST"].Case(body=narrowed(path, example), media_type="application/json")
    reply = case.call_and_validate(base_url=page_address, timeout=PATIENCE_S)
    assert reply.status_code == 200


def _first_read_alike(field: Any) -> tuple[str, str]:
    """The first question and field whose value is read as this one's."""
    return next(
        (path, other.name)
        for path, question in QUESTIONS.items()
        for other in question.fields
        if all(getattr(other, name) == getattr(field, name) for name in ("reads", "known", "choices", "low", "high"))
    )


@pytest.mark.parametrize("path", QUESTIONS)
def test_one_field_of_the_wrong_kind_in_a_good_request_is_refused(path: str, page_address: str) -> None:
    """Whatever the published schema forbids gets a sentence, for every field and group in turn."""
    question = QUESTIONS[path]
    allowed = jsonschema_rs.validator_for(request_schema(question))
    good = parse_form_lists(question, nest_form_names(question.example))
    assert allowed.is_valid(good)
    wrong = []
    for field in question.fields:
        bodies = [_with(good, field.name, value) for value in OF_THE_WRONG_KIND]
        refused = [body for body in bodies if not allowed.is_valid(body)]
        # Fields that are read alike, in whichever question, get every wrong value once, each of them one.
        wrong += refused if _first_read_alike(field) == (path, field.name) else refused[:1]
    groups = {field.name.partition(".")[0] for field in question.fields if "." in field.name}
    wrong += [{**good, group: value} for group in groups for value in ([], 5, "x", True, [{}])]
    assert len(wrong) >= len(question.fields)
    with httpx.Client(base_url=page_address, timeout=PATIENCE_S, trust_env=False) as client:
        for body in wrong:
            reply = client.post(f"/{path}", json=body)
            assert reply.status_code == 400 and len(reply.json()["error"]) > 10, body


def test_an_address_takes_the_methods_that_its_options_list_and_no_others(page_address: str) -> None:
    with httpx.Client(base_url=page_address, trust_env=False) as client:
        for template, operations in openapi()["paths"].items():
            path = re.sub(r"\{\w+\}", "x", template)
            reply = client.options(path)
            allowed = set(reply.headers["allow"].lower().split(", "))
            assert reply.status_code == 204 and allowed - {"options", "head"} == set(operations)
            assert ("head" in allowed) == ("get" in allowed)
            for method in METHODS - allowed:
                assert client.request(method, path).status_code == 405, f"{method} {path}"
        assert client.options("/plan/serve", headers={"host": "attacker.example"}).status_code == 403


@pytest.mark.parametrize(("path", "body", "status"), [
    ("explain", {"file": "kind: serve", "option": 2.6e-42}, 400),
    ("explain", {"file": "kind: serve\nmodel: 8B\naccelerator: H100\nisl: 8\nosl: 8\ntraffic: {concurrency: 1}",
                 "option": 2.0}, 200),
    ("diagnose", {"file": "vllm:num_requests_running 3", "model": 0}, 200),
])  # fmt: skip
def test_what_schemathesis_found(path: str, body: dict[str, Any], status: int, page_address: str) -> None:
    with httpx.Client(base_url=page_address, timeout=300, trust_env=False) as client:
        assert client.post(f"/{path}", json=body).status_code == status


def test_the_key_of_an_answer_opens_all_that_the_document_links_to(page_address: str) -> None:
    document = openapi()
    operation = document["paths"]["/plan/batch"]["post"]
    body = {**operation["requestBody"]["content"]["application/json"]["example"], "accelerator": "H100"}
    routes = {one["get"]["operationId"]: path for path, one in document["paths"].items() if "get" in one
              and "operationId" in one["get"]}  # fmt: skip
    with httpx.Client(base_url=page_address, timeout=PATIENCE_S, trust_env=False) as client:
        reply = client.post("/plan/batch", json=body)
        assert client.get(reply.headers["content-location"]).content == reply.content
        for link in operation["responses"]["200"]["links"].values():
            ((name, where),) = link["parameters"].items()
            value = reply.headers[where.removeprefix("$response.header.")]
            path = routes[link["operationId"]]
            asked = path.replace(f"{{{name}}}", value) if "{" in path else f"{path}?{name}={value}"
            assert client.get(asked, params={"to": "vllm-batch"} if "export" in path else None).status_code == 200, (
                asked
            )


def test_every_route_is_in_the_document_that_is_served(page_address: str) -> None:
    from litestar.handlers import HTTPRouteHandler

    from tonnage.web import app, browse

    served = {
        (re.sub(r":\w+\}", "}", path), str(method).lower())
        for handler in (*vars(app).values(), *browse.CATALOGUE, *map(app._question, QUESTIONS))
        if isinstance(handler, HTTPRouteHandler)
        for path in handler.paths
        for method in handler.http_methods
        if str(method) not in ("HEAD", "OPTIONS")
    }
    document = httpx.get(f"{page_address}/openapi.json", trust_env=False).json()
    assert document == json.loads(json.dumps(openapi())) and json.dumps(document).count("ServePlan") > 1
    told = {(path, method) for path, operations in document["paths"].items() for method in operations}
    assert served <= told and {path for path, _ in told} - {path for path, _ in served} <= {"/predict"}


def _with(good: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    group, dot, inner = name.partition(".")
    return {**good, group: {**good.get(group, {}), inner: value}} if dot else {**good, name: value}
