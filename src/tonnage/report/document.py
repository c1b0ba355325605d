"""A noun as a document: JSON with stable field order, for files, pipes and the HTTP API."""

from __future__ import annotations

import msgspec

__all__ = ["as_json"]


def as_json(noun: object, *, indent: int = 2) -> str:
    """The noun as indented JSON; the same noun gives the same bytes everywhere."""
    return msgspec.json.format(msgspec.json.encode(noun), indent=indent).decode()
