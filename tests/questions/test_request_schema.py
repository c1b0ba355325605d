"""The published schema of request files is derived from the requests, and agrees with it on every example."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.command import answered, told

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "docs" / "request.schema.json"
CASES = {
    case["if"]["properties"]["plan"]["const"]: case["then"]
    for case in json.loads(PUBLISHED.read_text(encoding="utf-8"))["allOf"]
}


def test_published_schema_is_current() -> None:
    assert told("plan", "--schema").stdout == PUBLISHED.read_text(encoding="utf-8"), (
        "run: python -m tonnage.questions.request_schema > docs/request.schema.json"
    )


@pytest.mark.parametrize("kind", ["serve", "batch", "train", "finetune", "infer"])
def test_every_declared_field_is_described(kind: str) -> None:
    then = CASES[kind]
    described = {name for name in then["properties"] if name != "plan"}
    declared = {field["name"].partition("[]")[0] for field in answered("fields", kind)["fields"]}
    assert described == declared
    assert all(then["properties"][name]["description"] for name in described)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_examples_use_fields_of_the_schema(path: Path) -> None:
    request = yaml.safe_load(path.read_text(encoding="utf-8"))
    if "plan" not in request:
        pytest.skip("not a request of `tonnage plan`")
    assert set(request) <= set(CASES[request["plan"]]["properties"])
    assert set(CASES[request["plan"]]["required"]) <= set(request)
