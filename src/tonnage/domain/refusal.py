"""Limits, each declared once: its unit, and what is said of those that it rules out; a refusal names one of them."""

from __future__ import annotations

from typing import Final, NamedTuple

from tonnage.domain.answer import Verdict

FILTERED: Final = "excluded by your filters"


class Limit(NamedTuple):
    """What may stand in the way of any configuration."""

    counted: str
    """Of those that it rules out, behind their number: "12 too small"."""
    unit: str | None = None
    """Of what they are short by."""


LIMITS: Final = {
    "memory": Limit("too small", "bytes"),
    "cache": Limit("too small", "tokens"),
    "cores": Limit("too few cores"),
    "decode": Limit("too few video decoders"),
    "battery": Limit("drain the battery", "h"),
    "ttft": Limit("too slow", "s"),
    "tpot": Limit("too slow", "s"),
    "e2e": Limit("too slow", "s"),
    "latency": Limit("too slow", "s"),
    "deadline": Limit("too slow", "s"),
    "interruptions": Limit("interrupted too often"),
    "budget": Limit("over the budget", "USD"),
    "cost": Limit("too expensive", "USD"),
    "count": Limit("over the count allowed", "accelerators"),
    "own": Limit("over what is owned"),
    "quota": Limit("over the quota", "accelerators"),
    "max_kinds": Limit("of too many kinds", "kinds"),
    "survives": Limit("lost with a failure domain", "domains"),
    "spot_share": Limit("on spot capacity only"),
    "objectives": Limit("too slow"),
    "fleet": Limit("not enough of them"),
    "offer": Limit("without an offer"),
    "term": Limit("without an offer on that term"),
    "precision": Limit("without the format"),
    "checkpoint": Limit("without a checkpoint"),
    "quality": Limit("below the quality floor", "fraction"),
    "engine": Limit("not run by the engine"),
    "training": Limit("without training support"),
    "unmeasured": Limit("without a measured rate"),
    "layout": Limit("without a layout"),
    "tp": Limit("without a layout"),
    "pp": Limit("without a layout"),
    "ep": Limit("without a layout"),
    "confidence": Limit("not sure enough", ""),
    "filter": Limit(FILTERED),
    "accelerator": Limit(FILTERED),
    "region": Limit("not in the region"),
    "eu": Limit("outside the EU"),
    "community": Limit("on marketplaces only"),
    "certification": Limit("without the certification"),
}
"""By name. What has no line is a filter of the request, which is named as it is."""


def ruled_out(verdict: Verdict) -> str:
    """What is said of those that a verdict rules out: "too small", "excluded by 'vendor'"."""
    known = LIMITS.get(verdict.limit or "")
    return known.counted if known is not None else f"excluded by '{verdict.limit}'" if verdict.limit else "other"


def refusal(
    limit: str, reason: str, *, short_by: float | None = None, nearest: str | None = None, unit: str | None = None
) -> Verdict:
    """
    The verdict on what a limit stops.

    Parameters
    ----------
    limit : str
        Short stable name, a key of `LIMITS` or of the filters.
    reason : str
        A clause without a full stop.
    short_by : float, optional
        In `unit`, that of the limit unless another is given.
    nearest : str, optional
        What would do.
    """
    known = LIMITS.get(limit)
    usual = known.unit if known is not None else None
    return Verdict(
        ok=False,
        limit=limit,
        reason=reason,
        short_by=short_by,
        unit=None if short_by is None else usual if unit is None else unit,
        nearest=nearest,
    )


def none_works(what: str, binding: Verdict | None) -> str:
    """The answer where nothing does it: "No feasible plan to serve M: …. Nearest: …."."""
    assert binding is not None
    nearest = f" Nearest: {binding.nearest}." if binding.nearest else ""
    return f"{what}: {binding.reason or binding.limit}.{nearest}"
