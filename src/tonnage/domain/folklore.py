"""A rule of thumb, what the house computes for it, and what somebody measured."""

from __future__ import annotations

import msgspec

__all__ = ["FolkRule"]


class FolkRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rule that articles repeat, judged."""

    id: str
    area: str
    """memory, speed, money."""
    rule: str
    computed: str
    """What Tonnage computes for the case the rule speaks of, in words with numbers."""
    verdict: str
    """holds, roughly, fails, depends."""
    measured: str = ""
    """What published measurements say; empty = none at hand."""
