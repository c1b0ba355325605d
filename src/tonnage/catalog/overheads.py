"""
What time does an engine add to its kernels? Fitted overheads, by engine, maker of the accelerator, and release.

One CSV row per engine, vendor and era under data/engines; empty cells take the default (nothing added). A row with
an empty vendor holds for every vendor without its own. An engine that was not measured on a vendor's parts takes its
own row times that vendor's factors (engine `*`), with the host's times as they were fitted on the parts of another
vendor: the host does not change with the accelerator. An engine that nobody measured takes `generic`. Both say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import msgspec

from tonnage.catalog.rows import DATA, number, table

__all__ = ["FACTORS", "EngineTimes", "engine_times"]

Release = tuple[int, ...]

FACTORS = frozenset({
    "memory", "compute", "experts", "experts_compute", "attention", "prefill_attention", "touch", "collective",
    "narrow", "weight_only",
})  # fmt: skip
"""Fields that multiply; the others add seconds."""


HOST = ("step_s", "sequence_s", "overlapped", "prefill_launch_s", "prefill_routed_s", "request_s", "prompt_s")
"""Fields that are the host's work, whatever accelerator it serves."""

_MEASURED_ON = "NVIDIA"
"""Vendor on whose parts every engine with releases of its own was fitted."""


class EngineTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Fitted overheads of one engine in one era."""

    engine: str
    since: Release
    """First release they hold for."""
    values: Mapping[str, float]
    """By field of `engine.overheads.Overheads`."""
    source: str
    borrowed: bool = False
    """The engine was not measured on such parts."""


def engine_times(engine: str, *, vendor: str = "", release: Release | None = None) -> EngineTimes:
    """
    Overheads of a release of an engine on a vendor's parts; the newest release when it is not known.

    Examples
    --------
    >>> engine_times("vllm", vendor="NVIDIA").borrowed
    False
    >>> engine_times("no-such-engine").borrowed
    True
    """
    known = _rows()
    if (engine, vendor) in known:
        return _of_release(known[engine, vendor], release)
    own = (engine, "") in known
    found = _of_release(known[engine if own else "generic", ""], release)
    elsewhere = known.get((engine, _MEASURED_ON)) if vendor else None
    if elsewhere is not None:
        host = {name: value for name, value in _of_release(elsewhere, release).values.items() if name in HOST}
        found = msgspec.structs.replace(found, values=MappingProxyType({**found.values, **host}))
    stack = known.get(("*", vendor))
    if stack is not None:
        factors = {key: found.values.get(key, 1.0) * value for key, value in stack[-1].values.items()}
        found = msgspec.structs.replace(found, values=MappingProxyType({**found.values, **factors}))
    return msgspec.structs.replace(found, engine=engine, borrowed=not own or stack is not None)


def _of_release(eras: tuple[EngineTimes, ...], release: Release | None) -> EngineTimes:
    reached = [era for era in eras if release is None or era.since <= release]
    return reached[-1] if reached else eras[0]


@cache
def _rows() -> Mapping[tuple[str, str], tuple[EngineTimes, ...]]:
    found: dict[tuple[str, str], list[EngineTimes]] = {}
    for row in table(DATA / "engines" / "overheads.csv"):
        named = {key: number(row, key) for key in row if key not in {"engine", "vendor", "since", "source"}}
        values = {key: value for key, value in named.items() if value is not None}
        since = tuple(int(part) for part in row["since"].split("."))
        era = EngineTimes(engine=row["engine"], since=since, values=MappingProxyType(values), source=row["source"])
        found.setdefault((row["engine"], row["vendor"]), []).append(era)
    return MappingProxyType({key: tuple(sorted(eras, key=lambda e: e.since)) for key, eras in found.items()})
