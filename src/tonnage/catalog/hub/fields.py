"""How is one field of a foreign config.json read safely?

A config.json is written by others: any field may be missing, null, of the wrong type, negative or absurd. Each reader
here takes the names a field goes by, returns a checked value or the given default, and raises one `BadFact` sentence
naming the file, the field, what was found and what was expected. Nothing is repaired silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tonnage.errors import BadFact, echo

__all__ = [
    "Config",
    "first_given",
    "flag",
    "flags",
    "integer",
    "integers",
    "optional_integer",
    "section",
    "text",
    "texts",
]

MAX_INTEGER: Final = {
    "num_hidden_layers": 4096,
    "hidden_size": 1 << 20,
    "intermediate_size": 1 << 24,
    "vocab_size": 1 << 28,
    "num_attention_heads": 1 << 14,
    "num_experts": 1 << 16,
}
"""Upper limits of sane shapes by the first name of a field; others must stay below 2^31."""

_REQUIRED: Final = object()


class Config(msgspec.Struct, frozen=True):
    """The fields of one config.json, or of one section of it, and where they came from."""

    file: str
    data: Mapping[str, Any]
    prefix: str = ""


def first_given(c: Config, *names: str) -> Any:
    """The first of these fields that is there and not null, or None."""
    return next((c.data[name] for name in names if c.data.get(name) is not None), None)


def wrong(c: Config, name: str, *, value: object, expected: str) -> BadFact:
    """The sentence about a field that cannot be what it says."""
    found = "is missing" if value is None else f"is '{echo(value)}'"
    return BadFact(f"{c.file}: '{c.prefix}{name}' {found}; expected {expected}")


def integer(c: Config, *names: str, default: Any = _REQUIRED, low: int = 1) -> int:
    """A whole number from `low` up to the sane limit of its name."""
    value = first_given(c, *names)
    if value is None:
        if default is _REQUIRED:
            raise wrong(c, names[0], value=None, expected="a whole number")
        return int(default)
    high = MAX_INTEGER.get(names[0], (1 << 31) - 1)
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value == int_or_none(value)
    if not whole or not low <= value <= high:
        raise wrong(c, _name(c, names), value=value, expected=f"a whole number from {low} to {high}")
    return int(value)


def int_or_none(value: float) -> int | None:
    """The whole number a JSON number stands for; none for infinities and not-a-number."""
    try:
        return int(value)
    except (ValueError, OverflowError):
        return None


def optional_integer(c: Config, *names: str, low: int = 0) -> int | None:
    """A whole number, or None when the field is absent or null."""
    return None if first_given(c, *names) is None else integer(c, *names, low=low)


def flag(c: Config, *names: str, default: bool) -> bool:
    """A yes or no."""
    value = first_given(c, *names)
    if value is None:
        return default
    if not isinstance(value, bool) and value not in (0, 1):
        raise wrong(c, _name(c, names), value=value, expected="true or false")
    return bool(value)


def text(c: Config, *names: str, default: str = "") -> str:
    """A short text."""
    value = first_given(c, *names)
    if value is None:
        return default
    if not isinstance(value, str):
        raise wrong(c, _name(c, names), value=value, expected="a text")
    return value


def texts(c: Config, name: str, *, length: int) -> tuple[str, ...] | None:
    """A list of texts, one for each layer; None when absent."""
    value = first_given(c, name)
    if value is None:
        return None
    if not isinstance(value, list) or len(value) < length or not all(isinstance(item, str) for item in value):
        raise wrong(c, name, value=value, expected=f"a list of {length} texts, one for each layer")
    return tuple(value[:length])


def integers(c: Config, name: str, *, length: int | None = None) -> tuple[int, ...] | None:
    """A list of whole numbers, one for each layer when a length is given; None when absent."""
    value = first_given(c, name)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and length is not None:
        value = [value] * length
    many = "a list of whole numbers" if length is None else f"a list of {length} whole numbers, one for each layer"
    listed = isinstance(value, list) and len(value) <= MAX_INTEGER["num_hidden_layers"] * 2
    if not listed or (length is not None and len(value) < length):
        raise wrong(c, name, value=value, expected=many)
    if not all(isinstance(item, int) and abs(item) < 1 << 31 for item in value):
        raise wrong(c, name, value=value, expected=many)
    return tuple(int(item) for item in (value if length is None else value[:length]))


def flags(c: Config, name: str, *, length: int) -> tuple[bool, ...] | None:
    """A list of yes or no (or 1 and 0), one for each layer; None when absent."""
    found = integers(c, name, length=length)
    return None if found is None else tuple(bool(item) for item in found)


def section(c: Config, *names: str) -> Config | None:
    """A nested object, or None when absent."""
    value = first_given(c, *names)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise wrong(c, _name(c, names), value=value, expected="an object")
    return Config(c.file, value, f"{c.prefix}{_name(c, names)}.")


def _name(c: Config, names: tuple[str, ...]) -> str:
    return next((name for name in names if c.data.get(name) is not None), names[0])
