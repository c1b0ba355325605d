"""How is a JSON file of unknown origin read? With a limit on its size, and every fault as one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tonnage.errors import BadFact, echo

__all__ = ["LARGEST_CONFIG", "parse_object", "read_object"]

LARGEST_CONFIG: Final = 4 << 20
"""Bytes; the largest config.json known has a few hundred thousand."""


def parse_object(content: bytes, *, file: str) -> dict[str, Any]:
    """The object that some bytes hold."""
    try:
        found = json.loads(content)
    except RecursionError:
        raise BadFact(f"{file}: is nested too deep to be a model's file") from None
    except (ValueError, UnicodeDecodeError) as problem:
        raise BadFact(f"{file}: is not JSON ({echo(problem)}); expected an object of settings") from None
    if not isinstance(found, dict):
        raise BadFact(f"{file}: holds {_kind(found)}; expected an object of settings")
    return found


def read_object(path: Path, *, limit: int = LARGEST_CONFIG) -> dict[str, Any]:
    """The object that a file holds."""
    try:
        size = path.stat().st_size
        if size > limit:
            raise BadFact(f"{echo(path)}: has {size} bytes; expected at most {limit}")
        content = path.read_bytes()
    except OSError as problem:
        raise BadFact(f"{echo(path)}: cannot be read ({problem.strerror})") from None
    return parse_object(content, file=str(echo(path)))


def _kind(found: object) -> str:
    return {list: "a list", str: "a text", bool: "true or false", type(None): "null"}.get(type(found), "a number")
