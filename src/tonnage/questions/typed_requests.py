"""The types of keyword arguments in Python, generated from the requests, so that editors complete and check them.

python -m tonnage.questions.typed_requests > src/tonnage/domain/requests/typed.py
"""

from __future__ import annotations

from typing import Any, Final

from tonnage.core.reading import request_fields
from tonnage.domain.requests.field import Field, attributes_of, groups_of
from tonnage.questions.registry import CASES, REQUESTS

__all__ = ["typed_module"]

UNITS: Final = {
    "1/s": "PerSecond",
    "s": "Seconds",
    "tokens": "Tokens",
    "tokens/s": "TokensPerSecond",
    "count": "Count",
    "integer": "Whole",
    "fraction": "Fraction",
    "bytes": "Bytes",
    "bytes/s": "BytesPerSecond",
    "W": "Watts",
    "Wh": "WattHours",
    "USD": "Usd",
    "USD/h": "UsdPerHour",
    "USD/year": "UsdPerYear",
    "USD/kWh": "UsdPerKwh",
    "USD/kW-month": "UsdPerKwMonth",
    "years": "Years",
}
"""Dimension -> name of the type: a number in that unit, or a text with its own."""
OTHERS: Final = {
    "flag": "bool",
    "list": "Names",
    "mapping": "Entry",
    "numbers": "Sequence[float]",
    "entries": "Entries",
}
"""Type of what has no unit."""
WHOLE: Final = ("simulate", "calibrate", "accuracy", "sweep", "predict")
"""Questions whose fields are given by name alone."""
POSITIONAL: Final = ("model", "machine", "file", "amount")
"""The argument that comes first in a question's function."""
LONGEST: Final = 120
HEAD: Final = '''"""Keyword arguments of the Python functions, generated from the requests; do not edit.

    python -m tonnage.questions.typed_requests > src/tonnage/domain/requests/typed.py

A plain number is in the unit that its type names; a text carries its own unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict
'''


def typed_module() -> str:
    """The text of the module: a type of each unit, and the fields of each question."""
    classes = {f"{name.title().replace('-', '')}Fields": name for name in REQUESTS}
    units = "\n".join(f"{name} = {'int' if name == 'Whole' else 'float'} | str" for name in UNITS.values())
    names = "Names = str | Sequence[str]\nEntry = Mapping[str, Any]\nEntries = Sequence[Mapping[str, Any]]"
    listed = "\n".join(f'    "{name}",' for name in sorted(classes))
    body = "".join(f"\n\n{_class(name, question)}" for name, question in classes.items())
    return f"{HEAD}\n__all__ = [\n{listed}\n]\n\n{units}\n{names}\n{body}"


def _class(name: str, question: str) -> str:
    """The fields of a question, then its groups, its lists, and what holds plain values."""
    struct = REQUESTS[question]
    about = next(line for line in (struct.__doc__ or "").splitlines() if line.strip()).strip()
    kind = next((kind for kind, case in CASES.items() if case is struct), "")  # a case holds numbers without units
    rows: dict[str, str] = {"kind": f'Literal["{kind}"]'} if kind else {}
    rows |= {field.name: _type(field, plain=bool(kind)) for field in request_fields(struct)}
    rows |= {group.name: "Entries" if group.many else "Entry" for group in groups_of(struct)}
    rows |= {one.name: "Entry" for one in attributes_of(struct) if _is_plain(one.fields, one.groups, one.type)}
    first = () if question.startswith(WHOLE) else (*POSITIONAL, question)
    lines = [_row(key, kind) for key, kind in rows.items() if key not in first]
    return f'class {name}(TypedDict, total=False):\n    """{about}"""\n\n' + "\n".join(lines) + "\n"


def _is_plain(fields: tuple[Any, ...], groups: tuple[Any, ...], kind: Any) -> bool:
    """Whether an attribute takes a mapping as it stands, such as an engine's settings or two pools."""
    return not fields and not groups and ("dict" in str(kind) or "tonnage.domain" in str(kind))


def _type(field: Field, *, plain: bool) -> str:
    """The Python type of a field; `plain` fields hold numbers without units."""
    if field.reads in OTHERS:
        return OTHERS[field.reads]
    if field.reads != "text":
        return ("int" if field.whole else "float") if plain else UNITS[field.reads]
    if plain and field.known == "models":
        return "str | Entry"
    if not field.choices:
        return "str"
    return f"Literal[{', '.join(f'{chr(34)}{choice}{chr(34)}' for choice in field.choices)}]"


def _row(key: str, kind: str) -> str:
    row = f"    {key}: {kind} | None"
    if len(row) <= LONGEST:
        return row
    inner = kind.removeprefix("Literal[").removesuffix("]")
    return f"    {key}: (\n        Literal[{inner}] | None\n    )"


if __name__ == "__main__":
    print(typed_module(), end="")
