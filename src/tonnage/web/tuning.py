"""Sliders: load and limits of a serving plan in steps, each with the cost and replicas that its own plan has."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from tonnage.catalog import Additions, product
from tonnage.core.ranking import recommended
from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.record import Record
from tonnage.report.screen import used_of
from tonnage.report.wording import chance_text, plural
from tonnage.units import show

LOADS: Final = (0.25, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 2.0, 2.8, 4.0)
LIMITS: Final = (0.4, 0.55, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0)
CONFIDENCES: Final = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99)
"""Steps: of a load and of a limit, times the one that is asked for."""


class Slider(Record, kw_only=True):
    """One input in steps."""

    name: str
    """Of its field."""
    label: str
    steps: tuple[str, ...]
    """As a form writes them."""
    at: int
    """Place of the one that is asked for."""


class Step(Record, kw_only=True):
    """What the first option is at one step."""

    usd_per_hour: float | None
    """Absent where nothing meets the objectives as surely as asked."""
    low: float | None = None
    """Ends of the 90 % interval. [USD/h]"""
    high: float | None = None
    replicas: int = 0
    accelerator: str = ""
    text: str
    """All of it in one line."""


def sliders(answer: Any, given: Mapping[str, str]) -> tuple[Slider, ...]:
    """The sliders of a plan to serve requests that arrive at a rate; none of another answer."""
    if not isinstance(answer, ServePlan) or not answer.options or answer.request.rate_per_s is None:
        return ()
    slo, rate, users = answer.request.slo, answer.request.rate_per_s, answer.request.users
    found = [
        _scaled("users", "Users", given, LOADS, value=users, write=lambda value: f"{math.ceil(float(f'{value:.2g}'))}")
        if users is not None
        else _scaled("rate", "Requests", given, LOADS, value=rate, write=lambda value: f"{float(f'{value:.3g}'):g}/s")
    ]
    for name, label, limit in (("ttft", "Time to first token", slo.ttft_s), ("tpot", "Time per token", slo.tpot_s)):
        if limit is not None and name in given:
            found.append(_scaled(name, label, given, LIMITS, value=limit, write=lambda value: show(value, "s")))
    if len(found) > 1:
        asked = answer.request.confidence
        levels = sorted({*CONFIDENCES, asked})
        steps = tuple(f"{100 * level:g} %" for level in levels)
        found.append(Slider(name="confidence", label="Confidence", steps=steps, at=levels.index(asked)))
    return tuple(found)


def _scaled(
    name: str, label: str, given: Mapping[str, str], factors: tuple[float, ...], *, value: float, write: Any
) -> Slider:
    asked = given.get(name, "")
    now = asked if re.search("[a-z]", asked) else write(value)  # with its unit
    texts = [now if factor == 1.0 else write(value * factor) for factor in factors]
    return Slider(name=name, label=label, steps=tuple(texts), at=factors.index(1.0))


def step_of(request: Mapping[str, Any], *, additions: Additions) -> Step:
    """
    The first option of a request, as its whole plan has it, without what explains it.

    Raises
    ------
    TonnageError
        The request is wrong.
    """
    from tonnage.questions.serve.plan import serve_options
    from tonnage.questions.serve.question import serve_request

    asked = serve_request(request, additions=additions)
    options = serve_options(asked, additions=additions, today=date.today(), first_only=True)
    if not options or not options[0].sure:
        return Step(usd_per_hour=None, text="nothing meets the objectives as surely as asked")
    # Of several at the lowest cost the one that the plan puts first.
    best = recommended(options)
    return _told(best if best.cost.value <= options[0].cost.value else options[0])


def _told(option: ServeOption) -> Step:
    """A step of the cheapest option, with its line: cost and its interval, parts and replicas, latencies, chance."""
    low, high = option.cost.low or option.cost.value, option.cost.high or option.cost.value
    seen = option.capacity
    parts = (
        f"${option.cost.value:,.2f}/h" + (f" ({low:,.2f}-{high:,.2f})" if low < high else ""),
        f"cheapest: {used_of(option, product(option.configuration.accelerator))}, {plural(option.replicas, 'replica')}",
        f"TTFT {show(seen.ttft_s.value, 's')}, TPOT {show(seen.tpot_s.value, 's')}",
        f"chance {chance_text(option.chance)}" if option.chance is not None else "",
    )
    return Step(
        usd_per_hour=option.cost.value, low=low, high=high, replicas=option.replicas,
        accelerator=option.configuration.accelerator, text=" · ".join(filter(None, parts)),
    )  # fmt: skip
