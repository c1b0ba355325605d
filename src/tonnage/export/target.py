"""What a target says of itself, and what a serving engine hands to the orchestrators."""

from __future__ import annotations

import msgspec

__all__ = ["Server", "Target"]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One engine or orchestrator that files can be written for."""

    name: str
    title: str
    version: str
    """Release its files were written for."""
    files: tuple[str, ...]
    """Names of the files it may write."""
    start: str
    """The command that uses them."""
    kinds: tuple[str, ...] = ("serve",)
    source: str = ""
    """Where its format is described."""


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """One replica of a serving engine: image, arguments, and where it answers."""

    version: str
    image: str
    argv: tuple[str, ...]
    health: str = "/health"
    leader: str = ""
    """Shell script of the first node when a replica spans several; it may use $LEADER_ADDRESS and $NODE_RANK."""
    worker: str = ""
    """Shell script of every other node."""
    notes: tuple[str, ...] = ()
    """What the reader has to know or do: sentences for the head of a file."""
