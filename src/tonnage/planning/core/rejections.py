"""A configuration that cannot serve: why, and the latencies it reaches when a request is alone."""

from __future__ import annotations

import msgspec

from tonnage.domain.answer import Verdict
from tonnage.domain.plan import Configuration
from tonnage.simulation.capacity import Point

__all__ = ["Infeasible"]


class Infeasible(msgspec.Struct, frozen=True, kw_only=True):
    """One loser of a search. `alone` is set when memory suffices and a latency objective does not."""

    configuration: Configuration
    verdict: Verdict
    alone: Point | None = None
