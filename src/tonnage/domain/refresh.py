"""What fetching prices did, provider by provider, and what asking a hub again did, model by model."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["MODELS_SCHEMA", "REFRESH_SCHEMA", "Refresh", "Refreshed", "RefreshedModel", "RefreshedModels"]

REFRESH_SCHEMA: Final = "tonnage.refresh/1"
MODELS_SCHEMA: Final = "tonnage.refresh-models/1"


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


class RefreshedModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model."""

    model: str
    known: bool = False
    """Whether the catalogue has it, and so is asked before the hub."""
    differs: tuple[str, ...] = ()
    """Fields that the catalogue and the hub tell differently; the catalogue's hold."""
    why: str = ""
    """Why what was known stays."""


class RefreshedModels(msgspec.Struct, frozen=True, kw_only=True):
    """All of them."""

    schema: str = MODELS_SCHEMA
    refreshed: tuple[RefreshedModel, ...]
    source: str
