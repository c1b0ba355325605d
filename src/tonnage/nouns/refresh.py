"""What fetching prices did, provider by provider."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["REFRESH_SCHEMA", "Refresh", "Refreshed"]

REFRESH_SCHEMA: Final = "tonnage.refresh/1"


class Refresh(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One provider."""

    provider: str
    as_of: str = ""
    """Day of the prices."""
    kept: int = 0
    """Instances and regions with prices; 0 = what was known stays."""
    left_out: int = 0
    """Instances whose accelerator is not in the catalogue."""
    moved: float | None = None
    """Middle ratio of on-demand prices to those known before. [-]"""
    why: str = ""
    """Why nothing was kept."""


class Refreshed(msgspec.Struct, frozen=True, kw_only=True):
    """All of them."""

    schema: str = REFRESH_SCHEMA
    refreshed: tuple[Refresh, ...]
    source: str
