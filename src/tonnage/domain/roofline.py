"""What an accelerator allows, and where the operators of a step lie below it."""

from __future__ import annotations

from tonnage.record import SparseRecord


class RooflinePoint(SparseRecord, kw_only=True):
    """One operator of a step, all its executions together."""

    phase: str
    """decode or prefill."""
    operator: str
    compute: str
    """Format of the peak that it runs under."""
    flop_per_byte: float
    flop_per_s: float
    share: float
    """Of the step's time. [-]"""


class Roofline(SparseRecord, kw_only=True):
    """What one accelerator allows, and how near to it the operators of the first option come."""

    accelerator: str
    memory_bytes_per_s: float
    peaks: dict[str, float]
    """Format -> arithmetic at most. [FLOP/s]"""
    points: tuple[RooflinePoint, ...]
