"""
What is promised for 1.0, listed name by name; and whether the code still keeps it.

    python -m tools.stable           what was added, changed or removed since docs/reference/stable.txt; exit code 1: a
                                     promised name is gone or another, and tools/stable.toml does not list it
    python -m tools.stable --write   writes docs/reference/stable.txt and stable.md; refuses an unlisted break

One line a name: Python names with their parameters, commands with their options, fields of questions, paths in the
JSON of answers with their types, environment variables, sections of files, exit codes. Additions are free; what is
there stays, or is listed in tools/stable.toml with its day, the release that removes it and what to use instead.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
LIST: Final = ROOT / "docs" / "reference" / "stable.txt"
PAGE: Final = LIST.with_suffix(".md")
CHANGES: Final = ROOT / "tools" / "stable.toml"
EXIT_CODES: Final = {
    "0": "answered",
    "1": "answered, and not as it should be (check, verify, data verify); or the reader of the output went away",
    "2": "the request is wrong; one sentence says how",
    "3": "it cannot be done; what binds is the answer",
    "130": "interrupted",
}
VARIABLES: Final = {
    "TONNAGE_CATALOG": "one more folder of your own accelerators, offers and calibrations",
    "TONNAGE_DATA": "data to answer from: a version, shipped or latest",
    "TONNAGE_DATA_FOLDER": "where releases of the data are kept",
    "TONNAGE_DATA_KEY": "public keys whose releases are believed",
    "TONNAGE_DATA_URL": "servers and mirrors of the data",
    "TONNAGE_HISTORY": "file of measurements, or a PostgreSQL address",
    "TONNAGE_OFFLINE": "1 = asks no server",
    "TONNAGE_WEB_…": "any option of `tonnage web`, such as TONNAGE_WEB_PORT",
    "TONNAGE_TOKEN": "token that the page and the HTTP API ask for",
}


def names() -> dict[str, str]:
    """Every promised name of this code, and its type or what it takes."""
    found: dict[str, str] = {}
    for part in (_python, _commands, _fields, _answers, _files):
        found |= dict(part())
    return dict(sorted(found.items()))


def _python() -> Iterator[tuple[str, str]]:
    import tonnage

    for name in tonnage.__all__:
        thing = getattr(tonnage, name)
        if callable(thing):
            taken = [
                str(one).partition(":")[0].partition("=")[0] for one in inspect.signature(thing).parameters.values()
            ]
            yield f"python {name}", ", ".join(taken)
        else:
            yield f"python {name}", type(thing).__name__


def _commands() -> Iterator[tuple[str, str]]:
    import click

    from tonnage.cli import root

    def walk(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                under = command.get_command(click.Context(command), name)
                if under is not None:
                    yield from walk(under, f"{path} {name}")
            return
        yield (
            f"command {path}",
            " ".join(str(one.name) for one in command.params if one.param_type_name == "argument"),
        )
        for one in command.params:
            if one.param_type_name == "option" and not getattr(one, "hidden", False):
                for spelling in one.opts:
                    yield f"option {path} {spelling}", "flag" if getattr(one, "is_flag", False) else "value"

    yield from walk(root, "tonnage")


def _fields() -> Iterator[tuple[str, str]]:
    import msgspec

    from tonnage.questions.registry import REQUESTS
    from tonnage.questions.request_schema import describe_fields

    for question in REQUESTS:
        for field in msgspec.to_builtins(describe_fields(question)):
            yield f"field {question}.{field['name']}", field["reads"]


def _answers() -> Iterator[tuple[str, str]]:
    import msgspec

    from tonnage.domain.answer import Quantity
    from tonnage.questions.registry import REQUESTS

    kinds = [*_answer_types(), Quantity]
    _, components = msgspec.json.schema_components(tuple(kinds), ref_template="{name}")
    # A plan to train and one to fine-tune are one type, told by a field.
    whole = {kind.__name__: str(kind.__struct_config__.tag or kind.__name__.removesuffix("Plan")) for kind in kinds}
    asked = {kind.__name__: f"request of {name}" for name, kind in REQUESTS.items()}
    found: dict[str, set[str]] = {}
    for name, called in whole.items():
        for path, said in _leaves(components[name], f"answer {called}", components, (name,), whole | asked):
            found.setdefault(path, set()).add(said)
    for path, types in found.items():
        yield path, " | ".join(sorted(types))


def _leaves(
    schema: dict[str, Any], path: str, components: dict[str, Any], above: tuple[str, ...], known: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """
    Paths below a value and their JSON types, `[]` for every place of a list and `{}` for every name of a mapping.

    Answers, requests and quantities inside others are named: their paths stand under their own name.
    """
    if (name := schema.get("$ref")) is not None:
        if name in known and not (len(above) == 1 and path.endswith(".request")):
            yield path, known[name]
        else:
            yield from _leaves(components[name], path, components, (*above, name), known)
    elif "anyOf" in schema:
        for each in schema["anyOf"]:
            yield from _leaves(each, path, components, above, known)
    elif "enum" in schema:
        for each in schema["enum"]:
            yield path, json.dumps(each)
    elif schema.get("type") == "array":
        inside = [*schema.get("prefixItems", ()), *([schema["items"]] if isinstance(schema.get("items"), dict) else [])]
        for each in inside or [{"type": "any"}]:
            yield from _leaves(each, f"{path}[]", components, above, known)
    elif schema.get("properties"):
        for name, value in schema["properties"].items():
            yield from _leaves(value, f"{path}.{name}", components, above, known)
    elif isinstance(schema.get("additionalProperties"), dict):
        yield from _leaves(schema["additionalProperties"], f"{path}{{}}", components, above, known)
    else:
        yield path, str(schema.get("type", "any"))


def _answer_types() -> list[Any]:
    from tonnage.domain import answer, cost, diagnosis, listing, simulate
    from tonnage.questions.adopt import question as adoption
    from tonnage.questions.compare import answer as compare
    from tonnage.questions.fit import question as fit
    from tonnage.questions.registry import KINDS

    kinds = dict.fromkeys(kind.answer for kind in KINDS.values())
    found = [*kinds, compare.Check, compare.Verification, cost.RentOrBuy, diagnosis.Diagnosis]
    found += [fit.FitAnswer, listing.Listing, simulate.Simulated]
    return [
        *found,
        adoption.Adoption,
        answer.Breakdown,
    ]


def _files() -> Iterator[tuple[str, str]]:
    for name, said in EXIT_CODES.items():
        yield f"exit {name}", said
    for name, said in VARIABLES.items():
        yield f"variable {name}", said
    from tonnage.catalog.additions import SECTIONS

    for name in sorted(SECTIONS):
        yield f"section [[{name}]]", "of a file of additions"
    for path in sorted([*(ROOT / "src" / "tonnage").rglob("*.py"), *(ROOT / "tools" / "accuracy").rglob("*.py")]):
        for schema in re.findall(r'"(tonnage\.[a-z-]+/\d+)"', path.read_text(encoding="utf-8")):
            yield f"schema {schema}", "of a file or of --json"


def kept() -> dict[str, str]:
    """What docs/reference/stable.txt promises."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) if ": " in line else (line.rstrip(":"), "") for line in lines if line)


def listed() -> dict[str, dict[str, str]]:
    """Breaks that are announced: name -> day, the release that removes it, what to use instead."""
    return {one["name"]: one for one in tomllib.loads(CHANGES.read_text(encoding="utf-8")).get("change", [])}


def breaks(before: dict[str, str], now: dict[str, str], allowed: dict[str, dict[str, str]]) -> list[str]:
    """Promised names that are gone or another, and are not listed."""
    gone = [f"gone: {name}" for name in before if name not in now and name not in allowed]
    other = [
        f"another: {name}: {before[name] or '-'} -> {now[name] or '-'}"
        for name in before
        if name in now
        and now[name] != before[name]
        and name not in allowed
        and not _wider(name, before[name], now[name])
    ]
    return [*gone, *other]


def _wider(name: str, before: str, now: str) -> bool:
    """More of the same: a parameter or a kind of value more; words of a meaning are free."""
    if name.startswith(("exit ", "variable ", "section ", "schema ")):
        return True
    if name.startswith("python "):
        return set(before.split(", ")) <= set(now.split(", "))
    return set(before.split(" | ")) <= set(now.split(" | "))


def page(now: dict[str, str], allowed: dict[str, dict[str, str]]) -> str:
    """The promise in words, with what is announced and how much is listed."""
    counts: dict[str, int] = {}
    for name in now:
        counts[name.split(" ")[0]] = counts.get(name.split(" ")[0], 0) + 1
    lines = [
        "# What stays", "",
        "Written by `python -m tools.stable --write`; the whole list is [stable.txt](stable.txt).", "",
        "From 1.0 on these names keep their meaning through every release of the same major number; until then a name",
        "of this list goes only after it was announced here. Additions come in any release.",
        "`tests/release/test_stable.py` fails on a name that is gone, or is of another type, and is not announced.",
        "Plans of 0.1 open in every later release (`tests/questions/test_older_plans.py`), and so do its histories and",
        "sweeps (`tests/release/test_files_of_0_1.py`).", "",
        "| kind | names |", "|---|---|",
        *(f"| {WORDS[kind]} | {number:,} |" for kind, number in counts.items()), "",
        "## Exit codes", "", "| code | means |", "|---|---|", *(f"| {k} | {v} |" for k, v in EXIT_CODES.items()), "",
        "## Settings by environment", "", "| variable | sets |", "|---|---|",
        *(f"| `{k}` | {v} |" for k, v in VARIABLES.items()), "",
        "## Python", "", ", ".join(f"`{name[7:]}`" for name in now if name.startswith("python ")) + ".", "",
        "## Schemas", "", ", ".join(f"`{name[7:]}`" for name in now if name.startswith("schema ")) + ".", "",
        "## Announced", "",
    ]  # fmt: skip
    if not allowed:
        return "\n".join([*lines, "Nothing is announced to go.", ""])
    lines += ["| name | since | gone in | instead |", "|---|---|---|---|"]
    lines += [f"| `{k}` | {v['since']} | {v['removed']} | {v['instead']} |" for k, v in sorted(allowed.items())]
    return "\n".join([*lines, ""])


WORDS: Final = {
    "python": "Python names", "command": "commands", "option": "options of commands", "field": "fields of questions",
    "answer": "paths in the JSON of answers", "exit": "exit codes", "variable": "environment variables",
    "section": "sections of files of additions", "schema": "schemas of files and answers",
}  # fmt: skip


def run() -> int:
    """Exit code 1: an unlisted break."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    now, before, allowed = names(), kept() if LIST.exists() else {}, listed()
    wrong = breaks(before, now, allowed)
    print("\n".join(wrong) or f"{len(before):,} promised names hold; {len(now.keys() - before.keys()):,} are new")
    if wrong:
        print("list each in tools/stable.toml: name, since, removed, instead", file=sys.stderr)
        return 1
    if write:
        LIST.write_text("".join(f"{name}: {said}\n" for name, said in now.items()), encoding="utf-8")
        PAGE.write_text(page(now, allowed), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(run())
