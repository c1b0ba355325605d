"""The command, asked in this process as people ask it."""

import json
import re
from functools import cache
from typing import Any

from click.testing import CliRunner, Result

import tonnage
from tonnage.cli import root


def told(*arguments: object, given: object = None, width: int = 100) -> Result:
    """What it says; `given` is its standard input, written as JSON unless it is a text."""
    text = given if given is None or isinstance(given, str) else json.dumps(given)
    environment = {"COLUMNS": str(width)}
    return CliRunner().invoke(root, [*map(str, arguments)], input=text, prog_name="tonnage", env=environment)


def answered(*arguments: object, given: object = None) -> Any:
    """The answer that its `--json` holds."""
    done = told(*arguments, "--json", given=given)
    assert done.stdout.startswith(("{", "[")), done.output
    return json.loads(done.stdout)


def printed(kind: str, *flags: object, **fields: Any) -> str:
    """A plan as the terminal shows it, its lines joined."""
    done = told("plan", "-", *flags, given={"plan": kind, **fields})
    assert done.exit_code == 0, done.output
    return " ".join(done.stdout.split())


def rented(plan: Any) -> str:
    """ "16 x B200 180 GB": the accelerators that a plan's sentence names."""
    found = re.match(r"Rent (?:[\d,]+ x \S+ \()?([^()]+?)(?: \(|\))", plan.sentence)
    assert found is not None, plan.sentence
    return found[1]


@cache
def catalogue() -> tuple[Any, ...]:
    """Every model of the catalogue."""
    rows = answered("catalog", "models", "--limit", 0)["rows"]
    return tuple(tonnage.model(row["id"]) for row in rows)
