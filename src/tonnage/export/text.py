"""
Texts for files that others will execute: each name is quoted for the language it lands in.

Model ids and the like come from a plan file, and a plan file can come from anywhere. In shell they are single-quoted,
in YAML dumped by a YAML writer, in comments written as ASCII JSON so that none can end its line. What no quoting can
hold (control characters, half a surrogate pair, an id that reads as an option) is refused.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from importlib.resources import files
from typing import Any, Final

from tonnage.errors import BadRequest, echo
from tonnage.foreign import plain_text
from tonnage.version import __version__

Fields = dict[str, Any]
"""What JSON and YAML hold under names."""
Files = dict[str, str]
"""Texts by the names of the files that they become."""
MAX_NAME_LENGTH = 512
MAX_LABEL_LENGTH = 40
"""Characters of a label; Kubernetes takes 63 and appends its own. [characters]"""


def safe_name(name: str, *, what: str) -> str:
    """
    The name itself, if it can stand as one argument of a command.

    Raises
    ------
    BadRequest
        Empty, overlong or read as an option.
    BadFact
        It holds characters that nobody sees.
    """
    if not name.strip() or len(name) > MAX_NAME_LENGTH:
        raise BadRequest(f"{what} '{echo(name)}' must have 1 to {MAX_NAME_LENGTH} characters")
    if name.startswith("-"):
        raise BadRequest(f"{what} '{echo(name)}' starts with '-' and would be read as an option; give its full id")
    return plain_text(name, where=what)


def templated_name(name: str, *, what: str, by: str) -> str:
    """
    The name itself, where a program that cannot quote puts it into a template or a shell line.

    Raises
    ------
    BadRequest
        It holds more than letters, digits, dots, dashes, underscores and slashes.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]*", name):
        raise BadRequest(
            f"{what} '{echo(name)}' holds characters that {by} would read as a template; "
            "expected letters, digits and . _ - /"
        )
    return name


def shell(argv: Iterable[str]) -> str:
    """One command, each argument quoted, one option a line."""
    lines: list[list[str]] = [[]]
    for argument in argv:
        if argument.startswith("--") and lines[-1]:
            lines.append([])
        lines[-1].append(shlex.quote(argument))
    return " \\\n  ".join(" ".join(line) for line in lines)


def lines(words: Iterable[str]) -> str:
    """One command, as quoted and grouped as the words are, one of them a line."""
    return " \\\n  ".join(words) + "\n"


def stated(fields: Fields) -> Fields:
    """Those that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def flags(options: Fields) -> list[str]:
    """Options of a command and their values, one after the other; those without a value are left out."""
    return [part for name, value in stated(options).items() for part in (f"--{name}", str(value))]


def yaml_text(*documents: Any) -> str:
    """YAML documents; plain values only, every text quoted where YAML would read it as something else."""
    import yaml

    dumped = [yaml.dump(document, Dumper=_block_dumper(), sort_keys=False, width=10_000) for document in documents]
    return "---\n".join(dumped)


def json_text(value: Fields) -> str:
    """A JSON file."""
    return json.dumps(value, indent=2) + "\n"


def _block_dumper() -> Any:
    """PyYAML's safe writer, with printable texts of several lines as blocks: scripts stay readable."""
    import yaml

    # PyYAML keeps its choices on the class, so a writer with others is another class.
    dumper: Any = type("BlockDumper", (yaml.SafeDumper,), {"ignore_aliases": lambda self, data: True})
    dumper.add_representer(str, _represent_text)
    return dumper


def _represent_text(dumper: Any, value: str) -> Any:
    block = "\n" in value and re.fullmatch(r"[\x20-\x7e\n]*", value) and not re.search(r"[ \t]\n|^\s", value)
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if block else None)


def comment(lines: Iterable[str]) -> str:
    """Comment lines of shell and YAML; whatever a line holds, it stays one line of printable ASCII."""
    return "".join(f"# {_ascii_line(line)}".rstrip() + "\n" for line in lines)


def head(title: str, version: str, *, lines: Iterable[str]) -> str:
    """The comment at the top of a file: for which release it was written, by what, and what to know."""
    return comment([f"For {title} {version}. Written by Tonnage {__version__}.", *lines])


UNTESTED: Final = "Untested template: its names were checked against the release's own tables, and nothing was started."
"""A line for files of targets that have never run."""


def data_text(name: str) -> str:
    """A file of `data` that is handed over as it is, or read."""
    return files("tonnage.export").joinpath(f"data/{name}").read_text(encoding="utf-8")


def label(name: str) -> str:
    """A name that DNS, Kubernetes, Slurm and the rest accept: lower case, digits and dashes."""
    word = re.sub(r"[^a-z0-9]+", "-", name.rsplit("/", 1)[-1].lower()).strip("-")[:MAX_LABEL_LENGTH].strip("-")
    return word if word[:1].isalpha() else f"model-{word}".rstrip("-")


def _ascii_line(line: str) -> str:
    """A line as it is where it is printable ASCII, else as a JSON string."""
    return line if line.isascii() and line.isprintable() else json.dumps(line)
