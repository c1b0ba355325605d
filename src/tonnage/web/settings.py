"""What the tasks of one server share, and how one tells how far it is."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tonnage.catalog import Additions

__all__ = ["Settings", "Told"]

Told = Callable[[int, int], None]
"""Takes how much is done, and of how much."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What every task of one server shares."""

    additions: Additions
    uploads: str = ""
    """Folder of uploaded configurations; empty where none are taken."""
    memory_bytes: float = 0.0
    """At most; 0 sets no bound. [bytes]"""
    nice: int = 0
    """Added to the priority's number, so that planning leaves the processor to quick answers."""
    replicas: int = 0
    """Kept from one question to the next, which mostly changes the load; 0 keeps none."""
