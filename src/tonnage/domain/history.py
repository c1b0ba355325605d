"""Measurements that were kept: what was measured, when, where, by which versions."""

from __future__ import annotations

import msgspec

__all__ = ["HISTORY_SCHEMA", "Entry", "History"]

HISTORY_SCHEMA = "tonnage.history/1"


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One measurement that was kept."""

    id: int
    kind: str
    """serve, train, device: what its schema names."""
    date: str
    machine: str
    """That measured."""
    model: str | None = None
    subject: str | None = None
    """What was measured: an address, a command, a device."""
    versions: dict[str, str] = {}
    document: msgspec.Raw | None = None
    """The measurement itself, as JSON; absent in a list."""


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Entries, the latest first."""

    place: str
    """Where they are kept, without anything secret."""
    entries: tuple[Entry, ...]
    damaged: tuple[str, ...] = ()
    """What is wrong with rows that cannot be read."""
    schema: str = HISTORY_SCHEMA
