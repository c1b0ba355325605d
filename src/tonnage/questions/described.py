"""The fields of a question, described: what `tonnage fields` lists."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from tonnage import units
from tonnage.core.reading import request_fields
from tonnage.domain.requests.field import Field, Group, groups_of
from tonnage.errors import UnknownName
from tonnage.questions.requests import REQUESTS
from tonnage.record import SparseRecord


class Described(SparseRecord, kw_only=True):
    """One field as a reader needs it."""

    name: str
    """Fields of groups as group.field."""
    reads: str
    """The unit of a plain number, or text, list, flag, integer, mapping, numbers."""
    group: str
    help: str
    default: Any = None
    """In that unit; absent = chosen by the planner, or required."""
    above: float | None = None
    """Values are larger than this; absent = no bound, or no number. A bound below 0 lets 0 pass."""
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    known: str = ""
    """The table of names that its values are looked up in: `tonnage catalog` lists the longer ones."""
    aliases: tuple[str, ...] = ()
    """What other programs call it."""


def describe_fields(question: str) -> tuple[Described, ...]:
    """
    Every field of a question, those of its groups behind their names.

    Raises
    ------
    UnknownName
        No such question.
    """
    if question not in REQUESTS:
        raise UnknownName("question", question, known=REQUESTS)
    return tuple(_fields(REQUESTS[question], "", None))


def _fields(struct: type[msgspec.Struct], under: str, taken: Group | None) -> Iterator[Described]:
    for field in request_fields(struct):
        if taken is None or taken.takes(field.name):
            yield _one(field, under)
            if field.entries:
                yield from _fields(field.entries, f"{under}{field.name}[].", None)
    for group in groups_of(struct):
        yield from _fields(group.of, f"{under}{group.name}{'[]' if group.many else ''}.", group)


def _one(field: Field, under: str) -> Described:
    number = field.reads in units.DIMENSIONS or field.reads == "integer"
    return Described(
        name=f"{under}{field.name}",
        reads=field.reads,
        group=field.group,
        help=field.help,
        default=field.default,
        above=field.low if number else None,
        at_most=field.high if number and math.isfinite(field.high) else None,
        choices=field.choices,
        known=field.known,
        aliases=field.aliases,
    )
