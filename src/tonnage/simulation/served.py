"""What an engine does for a load: latencies and rates that every kind of traffic ends in."""

from __future__ import annotations

from tonnage.record import SparseRecord

Tail = tuple[float | None, float | None, float | None]
"""Median, 95th and 99th percentile; None = not known. [s]"""


class Served(SparseRecord, kw_only=True):
    """Mean latencies of one replica under a load, and what it completes per second."""

    ttft_s: float
    tpot_s: float
    e2e_s: float
    requests_per_s: float
    running: float
    """Requests decoding together, on average. [requests]"""
    ttft_tail_s: Tail | None = None
    """Where the traffic has a distribution. [s]"""
    tpot_tail_s: Tail | None = None
    saturated: bool = False
    """The load is as much as the replica takes, or more."""
