"""What a server's metrics page says of itself, and what its operator can do: names on the page, words for advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

__all__ = ["Series", "ServerMetrics", "counter", "gauge", "histogram"]


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Where a page states one of our numbers."""

    names: tuple[str, ...]
    """Spelled as on the page; an earlier one wins."""
    kind: Literal["gauge", "counter", "histogram"] = "gauge"
    over: Literal["sum", "mean", "most"] = "sum"
    """How the values of several labels become one."""
    where: tuple[tuple[str, str], ...] = ()
    """Labels that must have these values."""
    scale: float = 1.0


def gauge(*names: str, **rest: Any) -> Series:
    """A number that rises and falls."""
    return Series(names=names, **rest)


def counter(*names: str, **rest: Any) -> Series:
    """A number whose growth matters."""
    return Series(names=names, kind="counter", **rest)


def histogram(*names: str, **rest: Any) -> Series:
    """Times in buckets."""
    return Series(names=names, kind="histogram", **rest)


class ServerMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics page of one server."""

    name: str
    """Of the server, in readings and verdicts."""
    series: Mapping[str, Series]
    """Our names to its own."""
    labels: tuple[tuple[str, str, str], ...] = ()
    """Series, label, and what the label's text is."""
    around: bool = False
    """It stands around an engine that may have a page of its own: the engine names the reading, its numbers count."""
    queue_advice: str
    """How one gets to see its queue."""
    cache_advice: str
    """Settings that make more room in its cache."""
    scaled_by: str | None = None
    """Gauge of requests in flight that an autoscaler can take; absent = the page is not there by itself."""
    cache_unstated: str | None = None
    """Why its cache cannot be seen, and what bounds it; absent = it is seen where its queue is."""
