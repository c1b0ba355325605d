"""What a judged rule of thumb is, and what several of them ask."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Final

import msgspec

from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.precision import Precision
from tonnage.questions.predict.serving import predict_serve

BF16: Final = Precision(weights="bf16", activations="bf16", kv="bf16")
EIGHT: Final = "meta-llama/Llama-3.1-8B-Instruct"


class RuleOfThumb(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rule that articles repeat, judged."""

    id: str
    area: str
    """memory, speed, money."""
    rule: str
    computed: str
    """What Tonnage computes for the case the rule speaks of, in words with numbers."""
    verdict: str
    """holds, roughly, fails, depends."""
    measured: str = ""
    """What published measurements say; empty = none at hand."""


Judged = tuple[str, str]
"""What is computed, and the verdict."""
Judge = Callable[[date], RuleOfThumb]
"""Prices are aged from the day."""


def rule(id: str, area: str, text: str) -> Callable[[Callable[[], Judged]], Judge]:
    """Names what a function judges."""

    def named(judge: Callable[[], Judged]) -> Judge:
        def judged(_: date) -> RuleOfThumb:
            computed, verdict = judge()
            return RuleOfThumb(id=id, area=area, rule=text, computed=computed, verdict=verdict)

        return judged

    return named


def requests_per_s(
    accelerator: str,
    precision: Precision,
    *,
    traffic: Traffic = Traffic(saturated=True),  # noqa: B008 - frozen
    isl: float = 1024,
    osl: float = 1024,
) -> float:
    """Of one accelerator that serves an 8B model, full unless another traffic is given. [1/s]"""
    case = ServeCase(model=EIGHT, accelerator=accelerator, traffic=traffic, isl=isl, osl=osl, precision=precision)
    found = predict_serve(case).requests_per_s
    assert found is not None
    return found.value
