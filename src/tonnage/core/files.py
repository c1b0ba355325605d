"""Request and plan files: YAML or JSON text becomes plain values, within limits.

YAML is read without anchors, aliases, tags or repeated keys: nobody needs them in a request, and
they are how a small file becomes gigabytes. What YAML 1.1 takes for another number than its reader
(1:30 for 90, 010 for 8) is refused. A file of many small values costs a hundred times its size in time
and memory, so values are counted before any is built.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tonnage.catalog.hub.fields import decode_json
from tonnage.errors import BadFact, BadRequest, echo
from tonnage.foreign import DEEPEST, MOST_VALUES, check_values

LARGEST_BYTES: Final = 8 * 1024 * 1024
"""Of a request or plan file; a plan over the whole catalogue is about 1 MB. [bytes]"""
LARGEST_WITHOUT_C: Final = 128 * 1024
MOST_IN_YAML: Final = 200_000
"""Values of a list of cases, which takes three seconds."""

_TEXT_TAG: Final = "tag:yaml.org,2002:str"
_OTHER_NUMBER: Final = re.compile(r"[-+]?(?:0[0-9_]+|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?)\Z")
"""Octal numbers and those to the base of 60, which YAML 1.1 knows and people do not."""


def read_text(path: str, *, what: str = "file") -> str:
    """
    The text of a file, or of standard input for "-".

    Raises
    ------
    BadFact
        Missing, unreadable, too large or not UTF-8.
    """
    try:
        raw = sys.stdin.buffer.read(LARGEST_BYTES + 1) if path == "-" else _read_file(Path(path))
    except FileNotFoundError:
        raise BadFact(f"{what} '{echo(path)}' does not exist; check the path") from None
    except IsADirectoryError:
        raise BadFact(f"{what} '{echo(path)}' is a folder; name a file in it") from None
    except OSError as error:
        raise BadFact(f"{what} '{echo(path)}' cannot be read: {(error.strerror or 'unknown error').lower()}") from None
    except ValueError:  # a null character, or half of a surrogate pair
        raise BadFact(f"{what} '{echo(path)}' is no path; check its characters") from None
    if len(raw) > LARGEST_BYTES:
        raise BadFact(f"{what} '{echo(path)}' is larger than {LARGEST_BYTES // 1024**2} MiB, which no {what} needs")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFact(f"{what} '{echo(path)}' is not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def read_mapping(path: str, *, what: str = "request") -> dict[str, Any]:
    """
    The top-level mapping of a YAML or JSON file.

    Raises
    ------
    BadFact
        Not readable, malformed, or not a mapping.
    """
    text = read_text(path, what=what)
    value = _value(text, f"'{echo(path)}'")
    if not isinstance(value, dict):
        raise BadFact(f"{what} '{echo(path)}' must hold 'name: value' lines, not {_kind(value)}")
    check_values(value, where=f"'{echo(path)}'", most=MOST_VALUES)
    return value


def read_written(text: str, *, what: str) -> Any:
    """
    The lists and groups of a text in YAML or JSON, as people write them into one field.

    Raises
    ------
    BadFact
        Malformed, or nested too deeply.
    """
    value = _value(text, f"'{echo(what)}'")
    check_values(value, where=f"'{echo(what)}'")
    return value


def _value(text: str, where: str) -> Any:
    if text.lstrip().startswith(("{", "[")):
        return decode_json(text, where=where)
    return read_yaml(text, where=where, most=MOST_VALUES)


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST_BYTES + 1)


def read_yaml(text: str | bytes, *, where: str, most: int = MOST_IN_YAML) -> Any:
    """
    The value of a YAML text, its values counted before any is built.

    PyYAML's parser in C is a hundred times as fast as that in Python; without it less is taken.

    Raises
    ------
    BadFact
        Malformed, too many values or too deep, anchors, aliases, tags, or numbers that only YAML 1.1 knows.
    BadRequest
        A name given twice.
    """
    import yaml

    kind = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    if kind is yaml.SafeLoader and len(text) > LARGEST_WITHOUT_C:
        raise BadFact(
            f"{where} is larger than {LARGEST_WITHOUT_C // 1024} KiB, and PyYAML has no libyaml here; use JSON"
        )
    try:
        _refuse_shape(yaml.parse(text, Loader=kind), where, most=most)
        loader = kind(text)
        try:
            node = loader.get_single_node()
            _refuse_nodes(node, where)
            return None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" in line {mark.line + 1}" if mark else ""
        raise BadFact(f"{where} is not valid YAML{line}: {error.problem or 'malformed'}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise BadFact(f"{where} is not valid YAML: {echo(error)}") from None


def _refuse_shape(events: Iterable[Any], where: str, *, most: int) -> None:
    """Refuse a text that is too deep, holds too much or has anchors, by its parser's events: no value is built yet."""
    import yaml

    depth = 0
    for values, event in enumerate(events):
        if getattr(event, "anchor", None):
            raise BadFact(f"{where} uses YAML anchors or aliases; write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise BadFact(f"{where} is nested more than {DEEPEST} deep")
        if values > most:
            raise BadFact(f"{where} holds more than {most:,} values, which no request needs")


def _refuse_nodes(node: Any, where: str) -> None:
    """Refuse names given twice, names that are no text, and numbers that YAML 1.1 reads otherwise than people."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise BadFact(f"{where} line {key.start_mark.line + 1}: a name must be one text")
            if key.value in seen:
                line = key.start_mark.line + 1
                raise BadRequest(f"{where} gives '{echo(key.value)}' twice (line {line}); keep one")
            seen.add(str(key.value))
            _refuse_nodes(value, where)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_nodes(item, where)
    elif node is not None and _OTHER_NUMBER.match(node.value) and node.tag != _TEXT_TAG:
        line, meant = node.start_mark.line + 1, echo(node.value)
        raise BadRequest(f'{where} line {line}: YAML reads {meant} as another number; write "{meant}" or the number')


def _kind(value: Any) -> str:
    return {type(None): "nothing", list: "a list", str: "one text"}.get(type(value), "one value")
