"""What would change an answer: sentences with the fields that ask for the change, where the form has them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from tonnage.core.header import ALL_TERMS
from tonnage.domain.machine import LocalAnswer
from tonnage.domain.metrics import OBJECTIVES
from tonnage.domain.plan import BreakEven
from tonnage.record import Record
from tonnage.report.document import Text
from tonnage.units import show

MOST_POINTS: Final = 4
"""Break-even points that are shown, one of each input."""
FEW_POINTS: Final = 2
"""Points beyond error from which those within it are left to the reasons."""
FIELDS: Final = {
    "mean rate": "rate", "concurrency": "concurrency", "peak over mean": "peak_to_mean", "deadline": "deadline",
    "budget": "budget", "tokens to train on": "tokens", "items": "items",
    **{metric.title: metric.title.lower() for metric in OBJECTIVES},
}  # fmt: skip
"""Input of a break-even point -> the field that holds it."""
WORDS: Final = {
    **{metric.title.lower(): f"the {metric.title} objective" for metric in OBJECTIVES},
    "eu": "the EU filter",
    "budget": "the budget",
    "deadline": "the deadline",
}
"""Field that is given up -> what it is called."""
COMMUNITY: Final = " (--community)"
"""What lets community hosts in, as a plan says it."""
_RELAXED: Final = re.compile(r"^(?:Would work: )?without --([a-z0-9-]+):? ", re.IGNORECASE)
_LOOSER: Final = re.compile(r"--([a-z0-9-]+) '([^']+)'")
"""A limit that is longer than asked for, of those "with" which something works."""


class Suggestion(Record, kw_only=True):
    """One change, in words, and the address that asks for it; empty where no field does."""

    text: str
    note: str = ""
    href: str = ""


def suggestions(
    answer: Any, lines: Iterable[Text], *, path: str, given: Mapping[str, str], known: frozenset[str]
) -> tuple[Suggestion, ...]:
    """
    Lines of the first screen and break-even points of an answer, each with its address.

    Parameters
    ----------
    answer : an answer
    lines : iterable of Text
        That say what could be cheaper or go wrong.
    path : str
        Of the question.
    given : mapping
        The question's fields as the form wrote them.
    known : frozenset of str
        Names of the form's fields: what it does not have is not applied.
    """
    points = getattr(answer, "break_even", ())
    found = []
    for line in lines:
        text, fields = line.text, line.asks
        if points and line.kind == "flip":
            continue
        without = _RELAXED.match(text)
        if without is not None:
            name = without[1].replace("-", "_")
            words = f"Without {WORDS.get(name, 'the limit on ' + name.replace('_', ' '))}: {text[without.end() :]}"
            kept = {field: value for field, value in given.items() if field != name} if name in given else None
            if name == "term":
                kept = {**given, name: ", ".join(ALL_TERMS)}
            found.append(Suggestion(text=words, href=_address(path, kept)))
            continue
        if line.kind == "relaxed" and COMMUNITY in text:
            words = text.removeprefix("Would work: ").replace(COMMUNITY, "")
            told = words[:1].upper() + words[1:]
            found.append(Suggestion(text=told, href=_address(path, {**given, "community": "true"})))
            continue
        if line.kind == "relaxed" and (limits := dict(_LOOSER.findall(text))):
            told = " and ".join(f"{name.upper()} within {limit}" for name, limit in limits.items())
            words = f"With {told}{text[text.rindex(chr(39)) + 1 :]}"
            found.append(Suggestion(text=words, href=_address(path, {**given, **limits})))
            continue
        apply = {**given, **fields} if fields and fields.keys() <= known and _new(fields, given) else None
        found.append(Suggestion(text=text, href=_address(path, apply)))
    if isinstance(answer, LocalAnswer) and not answer.all_rows and given:
        every = _address(path, {**given, "every_format": "true"})
        found.append(Suggestion(text="Every format of every model, side by side.", href=every))
    return (*found, *break_even_suggestions(points, path=path, given=given, known=known))


def break_even_suggestions(
    points: Sequence[BreakEven], *, path: str, given: Mapping[str, str], known: frozenset[str]
) -> tuple[Suggestion, ...]:
    """
    The nearest point of each input, at most `MOST_POINTS`; of all prices together the nearest.

    Points that lie beyond error come first; ties within it are given only where fewer than `FEW_POINTS` do.
    """
    nearest: dict[str, BreakEven] = {}
    told_apart = sum(not point.ties for point in points)
    for point in sorted(points, key=lambda one: (one.ties, _distance(one))):
        if point.now and point.value > 0 and (not point.ties or told_apart < FEW_POINTS):
            nearest.setdefault("price" if point.unit == "USD/h" else point.input, point)
    return tuple(
        _suggestion(point, path=path, given=given, known=known) for point in list(nearest.values())[:MOST_POINTS]
    )


def _suggestion(point: BreakEven, *, path: str, given: Mapping[str, str], known: frozenset[str]) -> Suggestion:
    """A break-even point in words with its interval, and the address that asks just past it, where a field holds it."""
    name, _, word = point.input.rpartition(" ")
    value, now = show(point.value, point.unit), show(point.now or 0.0, point.unit)
    text = (
        f"If {name} costs {'less' if word == 'below' else 'more'} than {value} (now {now}), it is {point.becomes}."
        if point.unit == "USD/h"
        else f"{name[:1].upper()}{name[1:]} {word} {value} (now {now}): {point.becomes}."
    )
    ends = [show(end, point.unit, digits=2) for end in (point.low, point.high) if end is not None]
    note = f"90 % interval {' to '.join(ends)}" if len(set(ends)) == 2 else ""
    if point.ties:
        note = "; ".join(filter(None, ("the two options differ by less than the error already", note)))
    field = FIELDS.get(name, "")
    apply = {**given, field: _past(point, word)} if field in known and field in given else None
    return Suggestion(text=text, note=note, href=_address(path, apply))


def _past(point: BreakEven, word: str) -> str:
    """
    The input just past the point, in two digits and the unit that a form reads.

    Examples
    --------
    >>> _past(BreakEven(input="mean rate above", value=7.91, unit="1/s", becomes=""), "above")
    '8/s'
    >>> _past(BreakEven(input="TPOT below", value=0.01405, unit="s", becomes=""), "below")
    '14 ms'
    """
    digit = 10.0 ** (math.floor(math.log10(point.value)) - 1)
    steps = point.value / digit
    value = (math.floor(steps + 1e-9) + 1 if word == "above" else math.ceil(steps - 1e-9) - 1) * digit
    if point.unit == "1/s":
        return f"{value:g}/s"
    if point.unit == "s":
        return f"{value * 1e3:g} ms" if value < 1 else f"{value:g} s"
    return f"{value:.0f}" if point.unit in ("tokens", "count") and value >= 10 else f"{value:g}"


def _distance(point: BreakEven) -> float:
    return abs(math.log(point.value / point.now)) if point.now and point.value > 0 else math.inf


def _new(fields: Mapping[str, str], given: Mapping[str, str]) -> bool:
    return any(given.get(name) != value for name, value in fields.items())


def _address(path: str, fields: Mapping[str, str] | None) -> str:
    return "" if fields is None else f"/{path}?{urlencode(fields)}"
