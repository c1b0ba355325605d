"""
What does a server do at the highest rate that keeps limits on its slowest requests?

MLPerf's server scenario looks for that rate: it is a result, as the latencies there are, and another server's rate near
its knee would be no load to ask about. With every step k times as long, latencies are k T(k rate): the highest rate
under limits L becomes 1/k of that under L/k. So a rate is as sure as that makes it, beside what a rate is anyway, and a
first token as under a load that does not run away, for the rate gives way. A time per token keeps what a queue makes
of it: whoever published the rate may have stopped short of the limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage.catalog.spreads import spread
from tonnage.domain.answer import Quantity
from tonnage.domain.case import Case, Latency, Result, ServeCase, ServeResult, Traffic
from tonnage.errors import BadFact
from tonnage_accuracy.rows import Row, number

_FURTHEST: Final = 64.0
"""How far from the measured rate the predicted one is looked for. [-]"""
_SAME: Final = 1.01
"""Rates that are one. [-]"""
_RATES: Final = ("requests_per_s", "output_tokens_per_s", "total_tokens_per_s")
_PLAIN: Final = ("ttft_s", "e2e_s")

Predict = Callable[[Case], Result]


class Limits(NamedTuple):
    """What 99 of 100 requests must keep."""

    ttft_s: float
    tpot_s: float


def limits_of(row: Row) -> Limits | None:
    """The limits under which the row's rate was found; none where it was given."""
    ttft, tpot = (number(row, f"{name}_p99_limit_ms") for name in ("ttft", "tpot"))
    return Limits(ttft / 1e3, tpot / 1e3) if ttft and tpot else None


def at_highest_rate(case: ServeCase, limits: Limits, *, predict: Predict) -> Result:
    """
    The prediction at the highest rate that keeps the limits, near the case's own rate.

    Raises
    ------
    BadFact
        The case has no rate, or none is predicted to keep the limits.
    """
    if case.traffic.rate_per_s is None:
        raise BadFact("not stated: request_rate_qps, of which limits are kept")
    found = _highest(case, limits, predict=predict)
    if found is None:
        raise BadFact("no rate is predicted to keep the limits")
    if found.tpot_s is None or not found.fits:
        return found
    # Slower and quicker steps, as far as a time per token is known.
    paces = [spread("serve", "tpot_s", level=found.level).at(end) for end in (1.0, -1.0)]
    slow, quick = (_highest(case, Limits(limits.ttft_s / k, limits.tpot_s / k), predict=predict) for k in paces)
    rate = _rate(found)
    down = math.log(rate * paces[0] / _rate(slow)) if slow else math.log(_FURTHEST)
    up = math.log(_rate(quick) / paces[1] / rate) if quick else 0.0
    changes: dict[str, Quantity | Latency] = {}
    for name in _RATES:
        value: Quantity | None = getattr(found, name)
        if value is not None:
            own = spread("serve", name, level=found.level)
            low, high = (
                value.value * own._replace(width=math.hypot(far, own.width)).at(side)
                for side, far in ((-1.0, down), (1.0, up))
            )
            changes[name] = replace(value, low=low, high=high)
    for name in _PLAIN:
        time: Latency | None = getattr(found, name)
        if time is not None:
            own = spread("serve", name, level=found.level)
            changes[name] = replace(time, low=time.mean * own.at(-1.0), high=time.mean * own.at(1.0))
    return replace(found, **changes)


def _rate(found: ServeResult) -> float:
    assert found.requests_per_s is not None, "what has latencies has a rate"
    return found.requests_per_s.value


def _highest(case: ServeCase, limits: Limits, *, predict: Predict) -> ServeResult | None:
    """The prediction at the highest rate that keeps the limits; none where the lowest one breaks them."""
    about = case.traffic.rate_per_s or 1.0
    best: ServeResult | None = None
    low, high = about / _FURTHEST, about * _FURTHEST
    middle = low
    while best is None or high / low > _SAME:
        found = predict(replace(case, traffic=Traffic(rate_per_s=middle)))
        if not isinstance(found, ServeResult) or found.ttft_s is None or found.tpot_s is None:
            return found if isinstance(found, ServeResult) else None
        slowest = Limits(found.ttft_s.p99 or found.ttft_s.mean, found.tpot_s.p99 or found.tpot_s.mean)
        if not found.saturated and slowest.ttft_s <= limits.ttft_s and slowest.tpot_s <= limits.tpot_s:
            low, best = middle, found
        elif best is None:
            return None
        else:
            high = middle
        middle = math.sqrt(low * high)
    return best
