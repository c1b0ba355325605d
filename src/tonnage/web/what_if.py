"""What if the question were a little different? Three changes of a kept question, and what each moves in its answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tonnage.domain.plan import ServePlan
from tonnage.questions.check.check import Comparable, check
from tonnage.questions.compare.answer import Change
from tonnage.record import Record
from tonnage.units import percent
from tonnage.web.questions import QUESTIONS, nest_form_names

MOST: Final = 3
TOLD: Final = ("cost", "accelerators", "ttft", "tpot", "duration")
"""Figures whose change is told, in this order."""
_NUMBER: Final = re.compile(r"\s*(\$?)(\d+(?:\.\d+)?)(.*)", re.DOTALL)


class WhatIf(Record, kw_only=True):
    """One change."""

    says: str
    fields: dict[str, str]
    """The whole question as its form writes it."""


_SCALED: Final = (
    ("twice the load", ("rate", "concurrency", "users", "streams", "audio", "serve.rate"), 2.0),
    ("twice the work", ("tokens", "examples", "items", "finetune.tokens"), 2.0),
    ("half the time to the first token", ("ttft", "serve.ttft"), 0.5),
    ("half the time", ("deadline", "latency"), 0.5),
)
_SET: Final = (("only in the European Union", "eu", "true"), ("on spot capacity", "term", "spot"))


def what_ifs(path: str, request: Mapping[str, Any]) -> tuple[WhatIf, ...]:
    """The first `MOST` changes that mean something for this question; none where its form has fields that are lists."""
    if QUESTIONS[path].written:
        return ()
    given = form_fields(request)
    known = {field.name for field in QUESTIONS[path].fields}
    found = []
    for says, names, factor in _SCALED:
        name = next((name for name in names if name in given), None)
        scaled = None if name is None else _scale_text(given[name], factor)
        if name is not None and scaled is not None:
            found.append(WhatIf(says=f"{says}: {scaled}", fields={**given, name: scaled}))
    for says, name, value in _SET:
        if name in known and name not in given:
            found.append(WhatIf(says=says, fields={**given, name: value}))
    return tuple(found[:MOST])


def moved_figures(before: Any, now: Any) -> tuple[Change, ...]:
    """Every figure of the leading option, in both answers; none for kinds whose figures are not compared."""
    if not isinstance(before, Comparable) or type(before) is not type(now):
        return ()
    return check(before, now, tolerance=0.0).changes


def changes_text(before: Any, now: Any) -> str:
    """What moved, in a few words: cost +96 %, accelerators +100 %."""
    if not getattr(now, "feasible", True):
        return "cannot be done"
    changes = {change.what: change for change in moved_figures(before, now)}
    leading: list[Any] = [next(iter(getattr(one, "options", ())), None) for one in (before, now)]
    usd = [one.cost.value for one in leading if hasattr(one, "cost")]
    per = "/h" if isinstance(now, ServePlan) else ""
    paid = [f"${usd[0]:,.2f}{per} to ${usd[1]:,.2f}{per}"] if len(usd) == 2 else []
    words = [
        f"{name} {percent(change.relative, sign='+')}"
        for name in TOLD
        if (change := changes.get(name)) is not None and change.relative is not None and abs(change.relative) >= 0.005
    ]
    if not changes:
        return "see its answer"
    return ", ".join((*paid, *words)) if words else ", ".join((*paid, "nothing moves"))


def _scale_text(text: str, factor: float) -> str | None:
    """The quantity times the factor, its unit untouched; None where no number leads."""
    match = _NUMBER.fullmatch(text)
    return None if match is None else f"{match[1]}{float(match[2]) * factor:g}{match[3]}"


def form_fields(request: Mapping[str, Any]) -> dict[str, str]:
    """The request under the names of its form, as texts."""
    flat: dict[str, str] = {}
    for name, given in request.items():
        if isinstance(given, Mapping):
            flat |= {f"{name}.{inner}": text for inner, text in form_fields(given).items()}
        elif isinstance(given, (list, tuple)):
            flat[name] = ", ".join(map(str, given))
        else:
            flat[name] = str(given).lower() if isinstance(given, bool) else str(given)
    return flat


def request_of(question: WhatIf, *, at_first: str) -> dict[str, Any]:
    """The request of a change, by averages alone where that is possible: three of them are wanted at once."""
    return nest_form_names({**question.fields, **({at_first: "true"} if at_first else {})})
