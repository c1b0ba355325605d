"""
What is known? Accelerators, models, offers, providers, ownership costs and carbon, as facts in files.

Each fact carries a unit, a source and the date it was checked; what nobody has published is absent, never
zero. The loaders turn the files into nouns, find a thing by any of its names, and say "did you mean" when
there is none.
"""

from __future__ import annotations

from tonnage.catalog.accelerators import accelerator, accelerators, ambiguity, predictable_accelerator, status_note
from tonnage.catalog.additions import NOTHING, Additions, gather
from tonnage.catalog.hardware import published_results, scale_up_domains
from tonnage.catalog.models import model, models
from tonnage.catalog.offers import offers, spot_records
from tonnage.catalog.providers import carbon, carbon_of, countries, parameter, providers, servers, tco
from tonnage.catalog.tokens import token_prices

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
    "predictable_accelerator",
    "providers",
    "published_results",
    "scale_up_domains",
    "servers",
    "spot_records",
    "status_note",
    "tco",
    "token_prices",
]
