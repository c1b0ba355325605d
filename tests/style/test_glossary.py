"""
What people read uses the field's words: none of the left column of glossary.csv stands in reports or on a screen.

Screens are read where they are made (tests/report/test_screens.py).
"""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.style.source import modules, nodes_of

GLOSSARY = Path(__file__).with_name("glossary.csv")
SCREENS = ("report/", "cli/")
SENTENCES = ("core/", "questions/", "domain/", "simulation/", "measure/", "export/")
"""Here a string without a blank is a name of code."""
ALLOWED = {"headroom for retries and experiments"}
"""Phrases of the right column that hold one of the left."""
COMMANDS = {"flips"}
"""Words of code that these files name where nobody reads them: names of modules and of fields."""


@cache
def rows() -> list[tuple[str, str]]:
    with GLOSSARY.open(encoding="utf-8", newline="") as file:
        return [(row["use_instead_of"], row["use"]) for row in csv.DictReader(file)]


@cache
def any_old_word() -> re.Pattern[str]:
    """Most texts hold none: one search tells."""
    return re.compile(rf"(?<![\w-])(?:{'|'.join(re.escape(old) for old, _ in rows())})(?![\w-])")


def hits(text: str) -> list[str]:
    """Words of the left column in a text, each with what to write."""
    plain = " ".join(re.sub(r"`[^`]*`", "", text).lower().split())
    for phrase in ALLOWED:
        plain = plain.replace(phrase, "")
    if any_old_word().search(plain) is None:
        return []
    return [
        f"'{old}': write '{new}'" for old, new in rows() if re.search(rf"(?<![\w-]){re.escape(old)}(?![\w-])", plain)
    ]


def literals(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every string of a file that is not a docstring, and that people may read: it has a blank."""
    nodes = nodes_of(source)
    parents = [node for node in nodes if hasattr(node, "body") and isinstance(node.body, list)]
    documented = {
        id(statement.value)
        for parent in parents
        for statement in parent.body
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    }
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            yield node.lineno, node.value


def test_the_list_finds_what_it_should() -> None:
    assert hits("this is reckoned") and hits("dearer, and\n taken as given") and not hits("a deadline, computed")
    assert not hits("headroom for retries and experiments 3 h") and hits("retries and experiments 3 h")
    assert dict(rows())["dear"] == "expensive"


def test_no_string_that_people_read_uses_an_old_word() -> None:
    wrong = [
        f"src/tonnage/{module}:{line} {hit}"
        for module, text in modules()
        if module.startswith((*SCREENS, *SENTENCES))
        for line, literal in literals(text)
        if module.startswith(SCREENS) or "/page" in module or " " in literal.strip()
        if literal.strip().lower() not in COMMANDS and not literal.startswith("tonnage.")
        for hit in hits(literal)
    ]
    assert not wrong, "\n" + "\n".join(wrong)
