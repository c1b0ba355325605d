"""
What time does an engine add to its kernels? Fitted overheads, by engine and the release they apply from.

One CSV row per engine and era under data/engines; empty cells take the default (nothing added). The fit that wrote
a row is named in its `source`. An engine that nobody measured borrows `generic`, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import msgspec

from tonnage.catalog.rows import DATA, number, table

__all__ = ["EngineTimes", "engine_times"]

Release = tuple[int, ...]


class EngineTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Fitted overheads of one engine in one era."""

    engine: str
    since: Release
    """First release they hold for."""
    values: Mapping[str, float]
    """By field of `engine.overheads.Overheads`."""
    source: str
    borrowed: bool = False
    """The engine itself was not measured."""


def engine_times(engine: str, release: Release | None = None) -> EngineTimes:
    """
    Overheads of a release of an engine; the newest when it is not known, `generic` for an unknown engine.

    Examples
    --------
    >>> engine_times("vllm").engine
    'vllm'
    >>> engine_times("no-such-engine").borrowed
    True
    """
    known = _rows()
    if engine not in known:
        return msgspec.structs.replace(known["generic"][-1], engine=engine, borrowed=True)
    eras = known[engine]
    reached = [era for era in eras if release is None or era.since <= release]
    return reached[-1] if reached else eras[0]


@cache
def _rows() -> Mapping[str, tuple[EngineTimes, ...]]:
    found: dict[str, list[EngineTimes]] = {}
    for row in table(DATA / "engines" / "overheads.csv"):
        named = {key: number(row, key) for key in row if key not in {"engine", "since", "source"}}
        values = {key: value for key, value in named.items() if value is not None}
        since = tuple(int(part) for part in row["since"].split("."))
        era = EngineTimes(engine=row["engine"], since=since, values=MappingProxyType(values), source=row["source"])
        found.setdefault(row["engine"], []).append(era)
    return MappingProxyType({key: tuple(sorted(eras, key=lambda e: e.since)) for key, eras in found.items()})
