"""Request and plan files: YAML or JSON text becomes plain values, within limits.

YAML is read without anchors, aliases, tags or repeated keys: nobody needs them in a request, and
they are how a small file becomes gigabytes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from tonnage.errors import BadFact, BadRequest, echo

__all__ = ["read_mapping", "read_text", "read_written"]

LARGEST_BYTES: Final = 8 * 1024 * 1024
"""Of a request or plan file; a plan over the whole catalogue is about 1 MB. [bytes]"""
DEEPEST: Final = 40


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
    value = _json(text, path) if text.lstrip().startswith(("{", "[")) else _yaml(text, path)
    if not isinstance(value, dict):
        raise BadFact(f"{what} '{echo(path)}' must hold 'name: value' lines, not {_kind(value)}")
    _refuse_depth(value, path)
    return value


def read_written(text: str, *, what: str) -> Any:
    """
    The lists and groups of a text in YAML or JSON, as people write them into one field.

    Raises
    ------
    BadFact
        Malformed, or nested too deeply.
    """
    value = _json(text, what) if text.lstrip().startswith(("{", "[")) else _yaml(text, what)
    _refuse_depth(value, what)
    return value


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST_BYTES + 1)


def _json(text: str, path: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise BadFact(f"'{echo(path)}' is not valid JSON: {str(error).lower()}") from None
    except RecursionError:
        raise BadFact(f"'{echo(path)}' is nested too deeply") from None


def _yaml(text: str, path: str) -> Any:
    import yaml

    # The parser in C, where PyYAML was built with it, reads a megabyte in a tenth of the time.
    kind = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for event in yaml.parse(text, Loader=kind):
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise BadFact(f"'{echo(path)}' uses YAML anchors or aliases; write the value out")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise BadFact(f"'{echo(path)}' is nested more than {DEEPEST} deep")
        loader = kind(text)
        try:
            node = loader.get_single_node()
            _refuse_repeats(node, path)
            return None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" in line {mark.line + 1}" if mark else ""
        raise BadFact(f"'{echo(path)}' is not valid YAML{where}: {error.problem or 'malformed'}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise BadFact(f"'{echo(path)}' is not valid YAML: {echo(error)}") from None


def _refuse_repeats(node: Any, path: str) -> None:
    import yaml

    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise BadFact(f"'{echo(path)}' line {key.start_mark.line + 1}: a name must be one text")
            if key.value in seen:
                line = key.start_mark.line + 1
                raise BadRequest(f"'{echo(path)}' gives '{echo(key.value)}' twice (line {line}); keep one")
            seen.add(str(key.value))
            _refuse_repeats(value, path)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_repeats(item, path)


def _refuse_depth(value: Any, path: str, depth: int = 0) -> None:
    if depth > DEEPEST:
        raise BadFact(f"'{echo(path)}' is nested more than {DEEPEST} deep")
    if isinstance(value, dict):
        for item in value.values():
            _refuse_depth(item, path, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _refuse_depth(item, path, depth + 1)


def _kind(value: Any) -> str:
    return {type(None): "nothing", list: "a list", str: "one text"}.get(type(value), "one value")
