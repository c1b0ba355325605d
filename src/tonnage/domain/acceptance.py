"""What was rented or bought, tried against good ones: rates, what they are held against, and the verdict."""

from __future__ import annotations

from typing import Final, Literal

from tonnage.record import SparseRecord

ACCEPT_SCHEMA: Final = "tonnage.accept/1"


class Probe(SparseRecord, kw_only=True):
    """One probe: what each device, or all of them together, reached in every round."""

    name: str
    """products, memory, collective, storage read, storage write."""
    unit: str
    of: str = ""
    """What was multiplied, copied or exchanged."""
    rounds: tuple[tuple[float, ...], ...]
    """A row for each device; one row for what they do together."""


class Finding(SparseRecord, kw_only=True):
    """One rate against what good parts reach."""

    what: str
    """products of device 2."""
    value: float
    expected: float
    unit: str
    short: float
    """By what share it is below; negative = above. [-]"""
    allowed: float
    """Share that good parts and the noise of this run explain. [-]"""
    against: str
    """What is expected: the other devices, a reference, the part's own facts."""
    verdict: Literal["pass", "fail", "not told"]


class Acceptance(SparseRecord, kw_only=True):
    """The verdict, and everything that it rests on."""

    schema: str
    sentence: str
    feasible: bool
    """Nothing failed."""
    name: str
    """The part."""
    device: str
    count: int
    probes: tuple[Probe, ...]
    findings: tuple[Finding, ...]
    reasons: tuple[str, ...] = ()
    """What fails it beside rates: a lowered power limit, heat."""
    short: float = 0.0
    """Share of the pace that the worst finding costs. [-]"""
    usd_per_month: float | None = None
    """What is paid for all of it; absent = no price is known. [USD/month]"""
    worth_usd_per_month: float | None = None
    """What the shortfall is worth of that. [USD/month]"""
    duration_s: float
    date: str = ""
    library: str = ""
    notes: tuple[str, ...] = ()
