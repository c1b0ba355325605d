"""What cannot do it, and why: one line for each accelerator, and the lines counted by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, Protocol

import msgspec

from tonnage.domain.answer import Verdict
from tonnage.domain.plan import Configuration, Rejection, RejectionCount
from tonnage.planning.sites import ACCELERATOR_TESTS, OFFER_TESTS, none_passes
from tonnage.simulation.capacity import Point

__all__ = ["Infeasible", "Loser", "Nearness", "by_reason", "nearest_of_each", "nearness", "what_binds"]

REASONS: Final = {
    "memory": "too small", "cache": "too small", "cores": "too small",
    "ttft": "too slow", "tpot": "too slow", "e2e": "too slow", "latency": "too slow", "deadline": "too slow",
    "budget": "too expensive", "cost": "too expensive",
    "offer": "no offer", "term": "no offer",
    "count": "too many accelerators needed", "quota": "too many accelerators needed",
    "own": "too many accelerators needed",
    "precision": "format not supported", "engine": "no kernels in the engine", "quality": "below the quality floor",
    "layout": "cannot be split so", "tp": "cannot be split so",
    "unmeasured": "speed not known", "training": "not known to train", "decode": "cannot decode the video",
    "interruptions": "too many interruptions", "battery": "battery too small",
}  # fmt: skip
"""Limit of a verdict -> the reason that it is counted under."""


class Loser(Protocol):
    """A try that failed: what, on which accelerator, and why."""

    @property
    def what(self) -> str: ...
    @property
    def accelerator(self) -> str: ...
    @property
    def verdict(self) -> Verdict: ...


class Infeasible(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration that cannot do it. `alone` is set when memory suffices and a latency objective does not."""

    configuration: Configuration
    verdict: Verdict
    alone: Point | None = None

    @property
    def what(self) -> str:
        """The configuration in a few words."""
        return self.configuration.label()

    @property
    def accelerator(self) -> str:
        """Its accelerator's id."""
        return self.configuration.accelerator


Nearness = Callable[[Any], tuple[Any, ...]]
"""Loser -> how far it is from doing it; smaller is nearer."""


def nearness(order: dict[str, int]) -> Nearness:
    """Nearer are those whose limit comes earlier in an order, then those that fall short by less."""
    last = max(order.values()) + 1

    def of(loser: Loser) -> tuple[int, float]:
        return order.get(loser.verdict.limit or "", last), loser.verdict.short_by or 0.0

    return of


def nearest_of_each(losers: Iterable[Loser], *, doing: Collection[str], by: Nearness) -> tuple[Rejection, ...]:
    """One line for each accelerator on which nothing works: the try that came nearest. Nearest first."""
    nearest: dict[str, Loser] = {}
    for loser in losers:
        name = loser.accelerator
        if name not in doing and (name not in nearest or by(loser) < by(nearest[name])):
            nearest[name] = loser
    ranked = sorted(nearest.values(), key=by)
    return tuple(Rejection(what=loser.what, verdict=loser.verdict) for loser in ranked)


def what_binds(losers: Sequence[Loser], excluded: Iterable[Rejection], *, by: Nearness) -> Verdict:
    """The limit that stops what came nearest; where nothing was tried, the filter that left no offer."""
    return min(losers, key=by).verdict if losers else none_passes(excluded)


def by_reason(rejected: Iterable[Rejection]) -> tuple[RejectionCount, ...]:
    """Rejections counted by reason, the most frequent first; each with the first of its lines as the example."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for one in rejected:
        reason = _reason(one.verdict)
        counts[reason] += 1
        examples.setdefault(reason, one.what)
    return tuple(
        RejectionCount(reason=reason, count=count, example=examples[reason]) for reason, count in counts.most_common()
    )


def _reason(verdict: Verdict) -> str:
    limit = verdict.limit or "other"
    if (verdict.reason or "").startswith("filter '") or limit in FILTERS:
        return f"excluded by '{limit}'"
    return REASONS.get(limit, limit)


FILTERS: Final = (ACCELERATOR_TESTS.keys() | OFFER_TESTS.keys()) - REASONS.keys()
