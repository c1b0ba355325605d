"""Sessions of named traffic: turns, gaps, growth of the context and what is shared, with where each figure is from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import msgspec

from tonnage.catalog.rows import DATA
from tonnage.domain.sessions import SessionProfile

__all__ = ["session_profile", "session_profiles"]


@cache
def session_profiles() -> Mapping[str, SessionProfile]:
    """Every traffic profile whose sessions are known, by the profile's name."""
    rows = msgspec.json.decode((DATA / "traffic" / "sessions.json").read_bytes(), type=list[SessionProfile])
    return {row.name: row for row in rows}


def session_profile(name: str | None) -> SessionProfile | None:
    """The sessions of a traffic profile; None where nothing is published of them."""
    return session_profiles().get(name) if name else None
