"""What changed between a kept plan and the one made now: the answer of `tonnage check`."""

from __future__ import annotations

import msgspec

__all__ = ["CHECK_SCHEMA", "Change", "Check"]

CHECK_SCHEMA = "tonnage.check/1"


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A kept plan against the one made now."""

    schema: str
    changed: bool
    feasible: bool
    sentence: str
    tolerance: float
    changes: tuple[Change, ...] = ()
    before: str = ""
    """The kept plan's sentence."""
    now: str = ""
    made_before: str = ""
    """Version and date of the kept plan."""
    made_now: str = ""
