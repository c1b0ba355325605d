"""
What is known? Accelerators, models, offers, providers, ownership costs and carbon, as facts in files.

Each fact carries a unit, a source and the date it was checked; what nobody has published is absent, never
zero. The loaders turn the files into nouns, find a thing by any of its names, and say "did you mean" when
there is none.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tonnage.catalog.accelerators import accelerator, accelerators, ambiguity
from tonnage.catalog.additions import NOTHING, Additions, gather
from tonnage.catalog.carbon import carbon, carbon_of
from tonnage.catalog.offers import offers, spot_records
from tonnage.catalog.providers import countries, providers
from tonnage.catalog.tco import parameter, tco

__all__ = [
    "NOTHING",
    "Additions",
    "accelerator",
    "accelerators",
    "ambiguity",
    "carbon",
    "carbon_of",
    "countries",
    "gather",
    "model",
    "models",
    "offers",
    "parameter",
    "providers",
    "spot_records",
    "tco",
]


def __getattr__(name: str) -> Any:
    """`models` and `model` on first use: their module reads shapes, which accelerators and offers never need."""
    if name not in {"models", "model"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Importing the module binds its own name here; the functions take it back.
    loaded = import_module("tonnage.catalog.models")
    globals().update(models=loaded.models, model=loaded.model)
    return globals()[name]
