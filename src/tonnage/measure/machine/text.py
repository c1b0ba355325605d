"""What every reader of a tool's output does first: bound its size, parse it, and say in a sentence when it cannot."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from tonnage.domain.machine import DeviceGroup
from tonnage.errors import BadFact, echo
from tonnage.foreign import plain_text

Device = tuple[str, float | None]
"""Name and memory, as a tool states them. [bytes]"""

MOST_BYTES: Final = 32 * 1024 * 1024
"""Larger than the node list of ten thousand nodes."""
MOST_DEVICES: Final = 1_000_000
_NUMBER: Final = re.compile(r"-?\d{1,15}(?:\.\d{1,6})?")


def check_size(text: str, *, tool: str) -> str:
    """
    The text, if it is of a size that such outputs have.

    Raises
    ------
    BadFact
        It is empty, larger than any output of the tool, or holds control characters.
    """
    if not text.strip():
        raise BadFact(f"{tool}: the output is empty; run it again and keep what it prints")
    if len(text) > MOST_BYTES:
        raise BadFact(f"{tool}: {len(text):,} characters are more than {MOST_BYTES:,}; keep the output of one run")
    return plain_text(text.removeprefix("\ufeff"), where=f"{tool}: the output", lines=True)


def json_object(text: str, *, tool: str) -> Mapping[str, Any]:
    """
    The JSON object that a tool printed.

    Raises
    ------
    BadFact
        It is no JSON, or no object.
    """
    found = json_value(text, tool=tool, ask="ask the tool for JSON")
    if not isinstance(found, dict):
        raise BadFact(f"{tool}: an object is expected, the output is a {type(found).__name__}")
    return found


def json_value(text: str, *, tool: str, ask: str) -> Any:
    """
    What a tool printed as JSON; `ask` is how to make it do so.

    Raises
    ------
    BadFact
        It is no JSON.
    """
    try:
        return json.loads(check_size(text, tool=tool))
    except (ValueError, RecursionError) as error:
        raise BadFact(f"{tool}: the output is no JSON ({echo(str(error))}); {ask}") from None


def counted_devices(counts: Mapping[Device, int]) -> tuple[DeviceGroup, ...]:
    """Devices that were counted by name and memory."""
    return tuple(DeviceGroup(name=name, count=n, memory_bytes=memory) for (name, memory), n in counts.items())


def number_in(value: object) -> float | None:
    """The first number in a value such as "24564 MiB"; absent where there is none."""
    if isinstance(value, bool):
        return None
    found = _NUMBER.search(str(value)[:64])
    return None if found is None else float(found[0])


def whole_count(value: object, *, tool: str, what: str) -> int:
    """
    A count of devices.

    Raises
    ------
    BadFact
        It is no whole number from 0 to a million.
    """
    found = number_in(value)
    if found is None or found != int(found) or not 0 <= found <= MOST_DEVICES:
        raise BadFact(f"{tool}: {what} is '{echo(str(value))}', but a number of devices is expected")
    return int(found)
