"""A configuration that cannot serve: why, and the latencies it reaches when a request is alone."""

from __future__ import annotations

import msgspec

from tonnage.engine.capacity import Point
from tonnage.nouns.answer import Verdict
from tonnage.nouns.plan import Configuration

__all__ = ["Missed"]


class Missed(msgspec.Struct, frozen=True, kw_only=True):
    """One loser of a search. `alone` is set when memory suffices and a latency objective does not."""

    configuration: Configuration
    verdict: Verdict
    alone: Point | None = None
