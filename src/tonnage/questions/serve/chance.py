"""
How likely does one replica meet every objective at a load, and how much may it be given at a confidence?

The error model says how far latencies may be off; the steady state says what that does to a queue. If every step takes
k times as long as predicted, T(rate; k D) = k T(k rate; D): the objective still holds where k T(k rate) does. `x`
counts how far an error goes towards the end of its 90 % interval, so that the tail of a first token takes
`ttft.at(x)` times as long while steps take `tpot.at(x)` times (`domain.answer.Spread`); the largest x at which a limit
holds is a quantile of the errors, and so a chance. That the replica keeps up at all is part of it: beyond what it can
take no limit holds.

Latencies of one load share some of their causes (`error_model.joint_chance`). Widths differ by class of load, so that
the chance at a load is the least over it and the classes below it: a smaller load is never less likely to be met.
Nothing but the replica, its load and the objectives enters: neither price nor what else was looked at.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from functools import cached_property
from typing import Final, NamedTuple

from tonnage.catalog.spreads import chance_of, end_of
from tonnage.core.error_model import joint_chance
from tonnage.core.replica import Replica, errors_by_load
from tonnage.domain.answer import Spread
from tonnage.domain.requests.common import Slo
from tonnage.domain.requests.serve import Serve
from tonnage.simulation.capacity import LONE, Point, Steady, stated
from tonnage.simulation.mean_step import LEAST

POINTS: Final = 28
"""Loads at which the steady state is computed, but for a lone request spaced evenly in logarithm."""
FEW: Final = 0.25
"""The second of them, or half of the largest where that is less: below it requests hardly meet. [requests]"""
MARGIN: Final = 1.9
"""Simulated capacity over the steady states', at most: as seen over configurations and loads (log, 2026-11-23). [-]"""
PRECISE: Final = 1.004
"""A capacity is narrowed to this factor. [-]"""
BEYOND_DOUBT: Final = 1e-6
"""More than the integral of a joint chance is off. [-]"""


class _Class(NamedTuple):
    """A class of load: where it ends, and the errors of latencies in it."""

    end: float
    """In the unit of the load. [1/s or requests]"""
    errors: Mapping[str, Spread]


class Curve:
    """
    What load makes of the latencies of one replica, whatever the objectives are: everything in logarithms.

    Computed when it is first read: without objectives nobody asks.
    """

    def __init__(self, request: Serve, replica: Replica, *, state: Steady) -> None:
        self.open = request.rate_per_s is not None
        self._replica, self._state, self._prompt_tokens = replica, state, request.lengths.prompt_tokens

    @cached_property
    def _busy(self) -> list[float]:
        top = self._state.most
        few = max(LONE, min(FEW, top / 2.0))
        return [LONE, *(few * (top / few) ** (i / (POINTS - 2)) for i in range(POINTS - 1))]

    @cached_property
    def _points(self) -> list[Point]:
        return [*map(self._state.search(), self._busy)]

    @cached_property
    def loads(self) -> list[float]:
        """Arrivals a second, or requests in flight, rising."""
        return _rising([math.log(p.rate_per_s if self.open else p.concurrency) for p in self._points])

    @cached_property
    def latencies(self) -> dict[str, list[float]]:
        """By name, at each of the loads."""
        return {
            f"{name}_s": _rising([math.log(getattr(p, f"{name}_tail_s")) for p in self._points])
            for name in ("ttft", "tpot", "e2e")
        }

    @cached_property
    def classes(self) -> list[_Class]:
        """Classes of load in their order, as far as the replica reaches."""
        found, busy, top = [], [math.log(one) for one in self._busy], self._busy[-1]
        for errors, end in errors_by_load(self._replica, self._prompt_tokens, top=top):
            at = math.log(min(end, top))
            if self.open:
                at = _at(busy, self.loads, at)
            found.append(_Class(math.exp(at), {q: errors.spread(q) for q in self.latencies}))
            if end >= top:
                break
        return found


class Odds:
    """The chances of one replica under some objectives, at any load of its own."""

    def __init__(
        self, curve: Curve, slo: Slo, *, stretch: Mapping[str, float] | None = None, scale: float = 1.0
    ) -> None:
        self.curve, self._slo = curve, slo
        self.scale = scale
        """Loads as a simulation has them over those that are asked here: what tells their class. [-]"""
        self.stretch = stretch or {}
        """By latency, the load at which a simulation saw it over that of the steady states, all loads scaled alike."""
        self._limits = {name: math.log(limit) for name, limit in stated(slo).items()}
        self._apart = {name: math.log(self.stretch.get(name, 1.0)) for name in self._limits}
        self._capacities: dict[float, float] = {}
        self._least = [1.0]
        for own in curve.classes[:-1] if self._limits else ():
            self._least.append(min(self._least[-1], joint_chance(self._reaches(own.end / scale, own.errors))))

    @property
    def most(self) -> float:
        """The largest load that the replica keeps up with, whatever it makes of latencies. [1/s or requests]"""
        return math.exp(self.curve.loads[-1])

    def as_seen(self, seen: Point, *, binds: str, best: float) -> Odds:
        """
        The same with every latency where a simulation saw it at its capacity, that scaled to the steady states'.

        What binds in a simulation may be another latency than by averages: an objective that is then looser by averages
        alone must not move the chance of the other. One that does not bind is placed by its value, within `MARGIN`.

        Parameters
        ----------
        seen : Point
            At the simulated capacity.
        binds : str
            "ttft", "tpot", "e2e", or what else stops it.
        best : number
            The capacity by the steady states. [1/s or requests]
        """
        if not self._limits:
            return self
        loads, values, at = self.curve.loads, seen.tails(), math.log(best)
        scale = (seen.rate_per_s if self.curve.open else seen.concurrency) / best
        own = f"{binds}_s"
        # Before its limit is met, as far as the capacity lies below that.
        first = at - _at(self.curve.latencies[own], loads, self._limits[own]) if own in self._limits else 0.0
        most = max(0.0, math.log(MARGIN / scale))
        apart = {own: first} if own in self._limits else {}
        for name in self._limits.keys() - apart.keys():
            placed = at - _at(self.curve.latencies[name], loads, math.log(max(values[name], LEAST)))
            apart[name] = min(most, max(first, placed))
        return Odds(self.curve, self._slo, stretch={name: math.exp(far) for name, far in apart.items()}, scale=scale)

    @property
    def likeliest(self) -> float:
        """The chance at the least load, which none exceeds. [-]"""
        return self.chance(math.exp(self.curve.loads[0]))

    def chance(self, load: float) -> float:
        """
        That every objective holds at a load of this replica, its own share of the whole; 1 without objectives. [-]

        Parameters
        ----------
        load : number
            In the unit of the request: arrivals per second, or requests in flight. [1/s or requests]
        """
        if not self._limits:
            return 1.0
        least, ends = self._ends(load)
        return min(least, joint_chance(ends))

    def _likely(self, load: float, confidence: float) -> bool:
        """
        Whether the chance at a load is at least a confidence.

        The joint chance lies between the product of the chances and the least of them, which mostly say it alone.
        """
        least, ends = self._ends(load)
        chances = [chance_of(end) for end in ends]
        if min(least, *chances) < confidence:
            return False
        return math.prod(chances) >= confidence + BEYOND_DOUBT or joint_chance(ends) >= confidence

    def _ends(self, load: float) -> tuple[float, list[float]]:
        """The least chance of lighter classes of load, and how far the error of each latency may go."""
        classes = self.curve.classes
        place = next((i for i, own in enumerate(classes) if load * self.scale <= own.end), len(classes) - 1)
        return self._least[place], self._reaches(load, classes[place].errors)

    def capacity(self, confidence: float) -> float:
        """
        The largest load of one replica at which the chance is at least `confidence`, up to `most`; 0 where it is less
        at the least load already. [1/s or requests]
        """
        if confidence not in self._capacities:
            self._capacities[confidence] = self._capacity(confidence)
        return self._capacities[confidence]

    def _capacity(self, confidence: float) -> float:
        low, high = math.exp(self.curve.loads[0]), self.most * math.exp(max(self._apart.values(), default=0.0))
        if not self._limits or self._likely(high, confidence):
            return high
        if not self._likely(low, confidence):
            return 0.0
        while high / low > PRECISE:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self._likely(middle, confidence) else (low, middle)
        return low

    def _reaches(self, load: float, errors: Mapping[str, Spread]) -> list[float]:
        """How far the error of each limited latency may go at a load under one class's errors (see `_reach`)."""
        at, apart = math.log(load), self._apart
        return [self._reach(at - apart[name], name, limit=limit, errors=errors) for name, limit in self._limits.items()]

    def _reach(self, at: float, name: str, *, limit: float, errors: Mapping[str, Spread]) -> float:
        """
        The largest x at which a latency keeps its limit, in half-widths of the 90 % interval; negative where it misses
        the limit as predicted. `at` and `limit` are logarithms of load and seconds.
        """
        own, steps = errors[name].width, errors["tpot_s"].width
        limit -= errors[name].bias
        latencies, loads = self.curve.latencies[name], self.curve.loads
        if not self.curve.open:
            if at > loads[-1] + 1e-9:
                return -math.inf
            return (limit - _at(loads, latencies, at)) / own if own else end_of(limit >= _at(loads, latencies, at))
        at += errors["tpot_s"].bias  # so much slower steps are so much more load
        if steps <= 0.0 or own <= 0.0:
            # Exact: nothing moves.
            return end_of(at <= loads[-1] and _at(loads, latencies, at) <= limit)
        # Along the steady states: x that brings this load to each of them, and what the latency then is.
        low, high = 0, len(loads)
        while low < high:
            middle = (low + high) // 2
            if latencies[middle] + (loads[middle] - at) / steps * own <= limit:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            # Slower than the limit at the least load: what is left is the latency's own error.
            return min((limit - latencies[0]) / own, (loads[0] - at) / steps)
        if low == len(loads):
            return (loads[-1] - at) / steps
        one = latencies[low - 1] + (loads[low - 1] - at) / steps * own
        other = latencies[low] + (loads[low] - at) / steps * own
        share = (limit - one) / (other - one) if other > one else 0.0
        return (loads[low - 1] + share * (loads[low] - loads[low - 1]) - at) / steps


def _rising(values: list[float]) -> list[float]:
    """Each at least the one before: more load makes nothing quicker."""
    for i in range(1, len(values)):
        values[i] = max(values[i], values[i - 1])
    return values


def _at(xs: list[float], ys: list[float], x: float) -> float:
    """y at x on the polyline; its ends beyond them."""
    i = bisect_left(xs, x)
    if i == 0:
        return ys[0]
    if i == len(xs):
        return ys[-1]
    share = (x - xs[i - 1]) / (xs[i] - xs[i - 1])
    return ys[i - 1] + share * (ys[i] - ys[i - 1])
