"""Several answers side by side: configurations that serve the same requests, plans, or cases; a plan then and now."""

from __future__ import annotations

from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.simulate import Simulated, Simulation
from tonnage.record import Record, SparseRecord

COMPARE_SCHEMA = "tonnage.compare/1"
VERIFY_SCHEMA = "tonnage.verify/1"


class Comparing(Record, kw_only=True):
    """Ways to serve the same requests, by name."""

    ways: tuple[tuple[str, Simulation], ...]
    notes: tuple[str, ...] = ()


class Compared(SparseRecord, kw_only=True):
    """One figure of every side."""

    what: str
    """Stable name: p95 ttft, goodput, accelerators, cost, configuration, …"""
    unit: str = ""
    """A dimension of `units`; empty for a text."""
    values: tuple[float | str | None, ...]
    """In the order of the sides; absent = the side has none."""
    best: int | None = None
    """Place of the side that is best; absent where no way is better, or all are alike."""


class Comparison(SparseRecord, kw_only=True):
    """Sides and their figures."""

    schema: str
    sentence: str
    kind: str
    """simulate, serve, train, infer: what the sides answer."""
    sides: tuple[str, ...]
    figures: tuple[Compared, ...]
    best: str | None = None
    """The side that the sentence names."""
    fits: bool = True
    """At least one side runs."""
    partial: bool = False
    simulations: tuple[Simulated, ...] = ()
    """What each side's simulation saw, where that is what is compared."""
    calibrations: tuple[CalibrationUse, ...] = ()
    """Measurements that moved these numbers: the user's own, or published ones that were asked for."""
    assumed: tuple[str, ...] = ()


CHECK_SCHEMA = "tonnage.check/1"


class Change(SparseRecord, kw_only=True):
    """One figure of the leading option, before and now."""

    what: str
    """Stable name: cost, ttft, tpot, accelerators, configuration, feasible, …"""
    unit: str = ""
    """A dimension of `units`; empty for a text."""
    before: float | str | None = None
    """Absent: the plan did not have it."""
    now: float | str | None = None
    relative: float | None = None
    """Now over before, less one. [-]"""
    beyond: bool = False
    """Moved by more than the tolerance; a text that differs always has."""
    worse: bool | None = None
    """Absent where neither way is worse."""


class Check(SparseRecord, kw_only=True):
    """A kept plan against the one made now."""

    schema: str
    changed: bool
    feasible: bool
    sentence: str
    tolerance: float
    changes: tuple[Change, ...] = ()
    calibrations: tuple[CalibrationUse, ...] = ()
    """Measurements that moved these numbers: the user's own, or published ones that were asked for."""
    before: str = ""
    """The kept plan's sentence."""
    now: str = ""
    made_before: str = ""
    """Version and date of the kept plan."""
    made_now: str = ""


class Verification(SparseRecord, kw_only=True):
    """A kept plan, made again from its own request and day: the same, or what differs and why."""

    schema: str
    same: bool
    identical: bool = False
    """Its file has the same bytes."""
    sentence: str
    question: str
    """Twelve digits over the kind of plan and its request: the same question has the same, whoever asks."""
    version_before: str
    version_now: str
    data_before: str
    """Of the shipped tables; empty for plans that were kept before it was written down."""
    data_now: str
    made: str
    """The day that prices were aged from, then and now."""
    differences: int = 0
    """Values of the file that are others, one is missing or is new."""
    first: tuple[tuple[str, str, str], ...] = ()
    """The first of them: where it stands, before, now."""
    changes: tuple[Change, ...] = ()
    """Figures of the leading option, where plans of that kind are compared."""
    release: str = ""
    """Version of the data that the plan was made again from, where that is not the data in use."""


def to_what(identical: bool) -> str:
    """How far a plan that was made again is the same: to the byte, or in another order, spacing or older schema."""
    return "byte for byte" if identical else "value for value (the file is written otherwise)"
