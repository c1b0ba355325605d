"""What people read uses the field's words: none of the left column of glossary.csv stands in reports or on a screen."""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.report.examples import answered, names, texts_of
from tests.style.source import modules

from tonnage.report.answers import document_of

GLOSSARY = Path(__file__).with_name("glossary.csv")
FOLDERS = ("report/", "cli/")
ALLOWED = {"headroom for retries and experiments"}
"""Phrases of the right column that hold one of the left."""
COMMANDS = {"folklore", "flips"}
"""Words of code that these files name where nobody reads them: names of modules and of fields."""


def rows() -> list[tuple[str, str]]:
    with GLOSSARY.open(encoding="utf-8", newline="") as file:
        return [(row["use_instead_of"], row["use"]) for row in csv.DictReader(file)]


def hits(text: str) -> list[str]:
    """Words of the left column in a text, each with what to write."""
    plain = " ".join(re.sub(r"`[^`]*`", "", text).lower().split())
    for phrase in ALLOWED:
        plain = plain.replace(phrase, "")
    return [
        f"'{old}': write '{new}'"
        for old, new in rows()
        if re.search(rf"(?<![\w-]){re.escape(old)}(?![\w-])", plain)
    ]  # fmt: skip


def literals(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every string of a file that is not a docstring, and that people may read: it has a blank."""
    tree = ast.parse(source)
    parents = [node for node in ast.walk(tree) if hasattr(node, "body") and isinstance(node.body, list)]
    documented = {
        id(statement.value)
        for parent in parents
        for statement in parent.body
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            yield node.lineno, node.value


def test_the_list_finds_what_it_should() -> None:
    assert hits("this is reckoned") and hits("dearer, and\n taken as given") and not hits("a deadline, computed")
    assert not hits("headroom for retries and experiments 3 h") and hits("retries and experiments 3 h")
    assert dict(rows())["dear"] == "expensive"


def test_no_string_of_a_report_or_a_command_uses_an_old_word() -> None:
    wrong = [
        f"src/tonnage/{module}:{line} {hit}"
        for module, text in modules()
        if module.startswith(FOLDERS)
        for line, literal in literals(text)
        if literal.strip().lower() not in COMMANDS and not literal.startswith("tonnage.")
        for hit in hits(literal)
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)


@pytest.mark.parametrize("name", names())
def test_no_screen_of_an_example_uses_an_old_word(name: str) -> None:
    """First screen and reasons, but for sentences that the answer itself brings, which planning writes."""
    answer = answered(name)
    own = sorted({" ".join(text.split()) for text in _strings(msgspec.to_builtins(answer))}, key=len, reverse=True)
    wrong = []
    for text in texts_of(document_of(answer)):
        plain = " ".join(text.split())
        if hits(plain):
            told = [hit for said in own for hit in hits(said)]
            wrong += [f"{hit} in '{text}'" for hit in hits(plain) if hit not in told]
    assert not wrong, "\n" + "\n".join(wrong)
