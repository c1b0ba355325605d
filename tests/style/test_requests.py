"""A field of a request is written once: its declaration is the only place with its name, help, bounds and default."""

from __future__ import annotations

import ast
import re
from collections import Counter

import msgspec
import pytest
from tests.style.source import modules, tree_of

from tonnage.core.reading import NAMES, request_fields
from tonnage.domain.requests import field as declarations
from tonnage.domain.requests.field import GROUPS, Field, attributes_of, fields_of, groups_of
from tonnage.questions.registry import REQUESTS
from tonnage.units import DIMENSIONS

DECLARING = (
    "domain/requests/",
    "domain/cost.py",
    "domain/infer_plan.py",
    "domain/simulate.py",
    "domain/train_plan.py",
    "domain/layout.py",
    "domain/case.py",
    "domain/rl.py",
)
REQUEST = re.compile(r"questions/\w+/(question|answer)\.py")
MAKERS = ("Field", *(name for name in vars(declarations) if name.endswith("_field")))
BESIDE = {"web/questions.py": "lists of groups and the ways of a comparison, as one box of a form"}
"""Modules that make a `Field` of their own, and why."""
DERIVED = {
    ("traffic", "core/load_fields.py"): "lengths where neither they nor a profile are given: chat's",
    ("seq_len", "questions/train/question.py"): "the shortest sequence that a number of tokens is held against",
    ("kind", "questions/fleet/question.py"): "of a workload, from the fields it has",
    ("survives", "questions/fleet/question.py"): "from the number of zones",
    ("spot_share", "questions/fleet/question.py"): "from the kind of workload",
    ("per_node", "questions/fleet/question.py"): "from the number of accelerators",
    ("buckets", "questions/fleet/question.py"): "one, where neither a number nor a list is given",
    ("machine", "questions/cost/inputs.py"): "the usual server, whose accelerator and key are two attributes",
    ("option", "web/app.py"): "which option of a plan is exported or opened; an engine's setting elsewhere",
    ("think_time", "questions/serve/question.py"): "of a user, turned into a rate",
}
"""Fields whose default follows from other fields, so that no attribute holds it."""


def _declares(path: str) -> bool:
    return path.startswith(DECLARING) or REQUEST.fullmatch(path) is not None


def _structs() -> list[type[msgspec.Struct]]:
    """Every struct that declares fields, those of groups among them."""
    found: list[type[msgspec.Struct]] = list(REQUESTS.values())
    for struct in found:
        inner = [group.of for attribute in attributes_of(struct) for group in attribute.groups]
        found += [one for one in inner if one not in found]
    return found


def _calls(text: str, *names: str) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree_of(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names
    ]


def test_fields_are_declared_beside_their_attributes_and_nowhere_else() -> None:
    elsewhere = {
        path
        for path, text in modules()
        if "Field" in text and "domain.requests.field" in text
        if _calls(text, *MAKERS) and not _declares(path)
    }
    assert elsewhere == set(BESIDE), f"declare them where _declares says: {elsewhere ^ set(BESIDE)}"


def test_no_help_of_a_field_stands_anywhere_else() -> None:
    helps = {field.help for struct in _structs() for field in fields_of(struct) if field.help.count(" ") > 1}
    again = [
        (path, node.value)
        for path, text in modules()
        if not _declares(path)
        for node in ast.walk(tree_of(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in helps
    ]
    assert not again


def test_no_reader_repeats_the_default_of_a_field() -> None:
    names = {field.name for struct in _structs() for field in fields_of(struct)}
    again = {
        (call.args[0].value, path)
        for path, text in modules()
        if path.startswith(("core/load_fields.py", "cli/", "web/")) or path.endswith(("/inputs.py", "/question.py"))
        for call in _calls(text, "get")
        if len(call.args) == 2 and isinstance(call.args[0], ast.Constant) and call.args[0].value in names
        if isinstance(call.args[1], (ast.Constant, ast.Name, ast.IfExp, ast.Call))
        if not (isinstance(call.args[1], ast.Constant) and call.args[1].value in (None, "", False))
    }
    assert again <= set(DERIVED), sorted(again - set(DERIVED))


@pytest.mark.parametrize("name", REQUESTS)
def test_every_field_can_be_read_listed_and_completed(name: str) -> None:
    for field in request_fields(REQUESTS[name]):
        assert field.help and field.group in GROUPS
        assert field.reads in {*DIMENSIONS, "text", "list", "flag", "integer", "mapping", "numbers", "entries"}
        assert not field.known or field.known in NAMES
        assert field.low < field.high


@pytest.mark.parametrize("name", REQUESTS)
def test_one_name_is_one_field_of_a_question(name: str) -> None:
    written: Counter[str] = Counter(group.name for group in groups_of(REQUESTS[name]))
    declared: list[Field] = [field for one in attributes_of(REQUESTS[name]) for field in one.fields]
    written.update(field.name for field in declared)
    assert max(written.values()) == 1
