"""The fields of a question as a person reads them: a heading for each group, a line for each field."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tonnage.domain.requests.field import GROUPS
from tonnage.units import DIMENSIONS, show

WIDTH: Final = 100
NAME: Final = 26
READS: Final = 14


def show_fields(fields: Sequence[Mapping[str, Any]]) -> str:
    """Headings, then name, unit, meaning, default and bounds of each field."""
    lines = []
    for group in GROUPS:
        rows = [field for field in fields if field["group"] == group]
        if rows:
            lines += ["", group, *(line for field in rows for line in _lines(field))]
    return "\n".join(lines[1:])


def _lines(field: Mapping[str, Any]) -> list[str]:
    head = f"  {field['name']:<{NAME}} {field['reads']:<{READS}} "
    said = "; ".join(filter(None, (field["help"], _choices(field), _default(field), _bounds(field))))
    return textwrap.wrap(said, WIDTH, initial_indent=head, subsequent_indent=" " * (NAME + READS + 4))


def _choices(field: Mapping[str, Any]) -> str:
    return "one of " + ", ".join(field["choices"]) if field.get("choices") else ""


def _default(field: Mapping[str, Any]) -> str:
    value = field.get("default")
    if value is None or value in ("", [], (), False):
        return ""
    if isinstance(value, (list, tuple)):
        return "default " + ", ".join(map(str, value))
    return f"default {_show_value(value, field['reads'])}" if not isinstance(value, bool) else "default yes"


def _bounds(field: Mapping[str, Any]) -> str:
    above, most = field.get("above"), field.get("at_most")
    low = "" if above is None else "at least 0" if above < 0 else f"above {_show_value(above, field['reads'])}"
    high = "" if most is None else f"at most {_show_value(most, field['reads'])}"
    return ", ".join(filter(None, ("" if above == 0 else low, high)))


def _show_value(value: Any, reads: str) -> str:
    """A number in its unit; a text as it stands."""
    if isinstance(value, str) or (reads not in DIMENSIONS and reads != "integer"):
        return str(value)
    return show(float(value), "count" if reads == "integer" else reads)
