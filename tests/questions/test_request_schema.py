"""The published schema of request files is derived from the requests, and agrees with it on every example."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tonnage.core.reading import request_fields
from tonnage.questions.registry import REQUESTS
from tonnage.questions.request_schema import request_schema

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "docs" / "request.schema.json"


def test_published_schema_is_current() -> None:
    made = json.dumps(request_schema(), indent=2) + "\n"
    assert made == PUBLISHED.read_text(encoding="utf-8"), (
        "run: python -m tonnage.questions.request_schema > docs/request.schema.json"
    )


@pytest.mark.parametrize("kind", ["serve", "batch", "train", "finetune", "infer"])
def test_every_declared_field_is_described(kind: str) -> None:
    (then,) = [case["then"] for case in request_schema()["allOf"] if case["if"]["properties"]["plan"]["const"] == kind]
    described = {name for name in then["properties"] if name != "plan"}
    assert described == {field.name for field in request_fields(REQUESTS[kind])}
    assert all(then["properties"][name]["description"] for name in described)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_examples_use_fields_of_the_schema(path: Path) -> None:
    request = yaml.safe_load(path.read_text(encoding="utf-8"))
    if "plan" not in request:
        pytest.skip("not a request of `tonnage plan`")
    cases = {case["if"]["properties"]["plan"]["const"]: case["then"] for case in request_schema()["allOf"]}
    assert set(request) <= set(cases[request["plan"]]["properties"])
    assert set(cases[request["plan"]]["required"]) <= set(request)
