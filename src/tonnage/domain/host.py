"""What accelerators need from the machine around them: cores, memory, storage, network, beside what an offer has."""

from __future__ import annotations

import msgspec

__all__ = ["HostNeed"]


class HostNeed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something the accelerators need from their host or storage, beside what the offer has."""

    name: str
    need: float
    unit: str
    has: float | None = None
    """Of the offer, for the same share of instances; absent = not listed."""
    enough: bool | None = None
    why: str = ""
