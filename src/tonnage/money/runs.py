"""What a run costs on one offer: instances for as long as it lasts, rounded up as the provider bills."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from tonnage.nouns.answer import Basis, Part
from tonnage.nouns.plan import Bill

__all__ = ["billed_hours", "with_spares"]

_GRANULARITY_S: Final = {"second": 1.0, "minute": 60.0, "10 minutes": 600.0, "hour": 3600.0, "block (day)": 86400.0,
                         "month": 730 * 3600.0}  # fmt: skip


def billed_hours(seconds: float, *, granularity: str = "") -> float:
    """
    Hours on the bill: whole units of what the provider counts; one that states nothing counts hours.

    Examples
    --------
    >>> billed_hours(90 * 60, granularity="hour"), billed_hours(90 * 60, granularity="second")
    (2.0, 1.5)
    """
    unit = _GRANULARITY_S.get(granularity, 3600.0)
    return math.ceil(seconds / unit - 1e-9) * unit / 3600.0 if math.isfinite(seconds) else math.inf


def with_spares(made: Bill, *, spares: int) -> Bill:
    """The same bill with instances that stand by."""
    if not spares:
        return made
    line = Part(
        name=f"{spares} x {made.instance_type} spare", value=spares * made.usd_per_instance_hour,
        basis=Basis.ASSUMED, source="kept for failures",
    )  # fmt: skip
    return msgspec.structs.replace(made, instances=made.instances + spares, lines=(*made.lines, line))
