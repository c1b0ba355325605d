"""How is a JSON file of unknown origin read? With a limit on its size, and every fault as one sentence."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec

from tonnage.errors import BadFact, BadRequest, echo

MAX_CONFIG_BYTES: Final = 4 << 20
"""Bytes; the largest config.json known has a few hundred thousand."""


MAX_MARKS: Final = 3_000_000
"""Brackets and commas of a JSON text: each may stand for a hundred bytes of memory."""


class _Twice(Exception):
    """A name that an object gives twice."""


def decode_json(text: str | bytes, *, where: str) -> Any:
    """
    The value of a JSON text in which no object gives a name twice.

    Raises
    ------
    BadFact
        Malformed, nested too deeply, or too many values.
    BadRequest
        A name given twice: which of its values is meant nobody can know.
    """
    refuse_many(text, where=where)
    try:
        value = msgspec.json.decode(text)
        if isinstance(value, dict | list):
            json.loads(text, object_pairs_hook=_refuse_twice, parse_int=len, parse_float=len)
        return value
    except _Twice as error:
        raise BadRequest(f"{where} gives '{echo(error)}' twice; keep one") from None
    except msgspec.DecodeError as error:
        raise BadFact(f"{where} is not valid JSON: {str(error).lower()}") from None
    except (ValueError, UnicodeDecodeError):
        raise BadFact(f"{where} is not valid JSON: not UTF-8 text") from None
    except RecursionError:
        raise BadFact(f"{where} is nested too deeply") from None


def refuse_many(text: str | bytes, *, where: str) -> None:
    """Refuse a text that would become more values than memory is for."""
    marks = (
        sum(text.count(mark) for mark in "{[,") if isinstance(text, str) else sum(map(text.count, (b"{", b"[", b",")))
    )
    if marks > MAX_MARKS:
        raise BadFact(f"{where} holds more than {MAX_MARKS:,} values; expected far fewer")


def _refuse_twice(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len({name for name, _ in pairs}) < len(pairs):
        raise _Twice(Counter(name for name, _ in pairs).most_common(1)[0][0])


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        _refuse_twice(pairs)
    return found


def parse_object(content: bytes, *, file: str) -> dict[str, Any]:
    """The object that some bytes hold."""
    refuse_many(content, where=file)
    try:
        found = json.loads(content, object_pairs_hook=_unique)
    except _Twice as error:
        raise BadFact(f"{file}: gives '{echo(error)}' twice; expected each name once") from None
    except RecursionError:
        raise BadFact(f"{file}: is nested too deep to be a model's file") from None
    except (ValueError, UnicodeDecodeError) as problem:
        raise BadFact(f"{file}: is not JSON ({echo(problem)}); expected an object of settings") from None
    if not isinstance(found, dict):
        raise BadFact(f"{file}: holds {_kind(found)}; expected an object of settings")
    return found


def read_object(path: Path, *, limit: int = MAX_CONFIG_BYTES) -> dict[str, Any]:
    """The object that a file holds."""
    try:
        size = path.stat().st_size
        if size > limit:
            raise BadFact(f"{echo(path)}: has {size} bytes; expected at most {limit}")
        content = path.read_bytes()
    except OSError as problem:
        raise BadFact(f"{echo(path)}: cannot be read ({problem.strerror})") from None
    except ValueError:
        raise BadFact(f"{echo(path)}: is no path; check its characters") from None
    return parse_object(content, file=str(echo(path)))


def _kind(found: object) -> str:
    return {list: "a list", str: "a text", bool: "true or false", type(None): "null"}.get(type(found), "a number")
