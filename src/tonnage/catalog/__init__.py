"""
What is known? Accelerators, models, offers, providers, ownership costs and carbon, as facts in files.

Each fact carries a unit, a source and the date it was checked; what nobody has published is absent, never
zero. The loaders turn the files into nouns, find a thing by any of its names, and say "did you mean" when
there is none.
"""

from __future__ import annotations

from tonnage.catalog.accelerators import (
    accelerator,
    accelerators,
    ambiguity,
    in_digits,
    predictable_accelerator,
    status_note,
)
from tonnage.catalog.additions import NOTHING, Additions, gather
from tonnage.catalog.hardware import published_results, scale_up_domains
from tonnage.catalog.models import model, models
from tonnage.catalog.names import (
    accelerators_text,
    model_name,
    part_name,
    parts_asked,
    parts_name,
    product,
    provider_name,
    rejected_name,
    seller,
)
from tonnage.catalog.offers import offers, spot_records
from tonnage.catalog.providers import carbon, carbon_of, countries, country_code, parameter, providers, servers, tco
from tonnage.catalog.tokens import token_prices

__all__ = [
    "NOTHING",
    "Additions",
    "accelerator",
    "accelerators",
    "accelerators_text",
    "ambiguity",
    "carbon",
    "carbon_of",
    "countries",
    "country_code",
    "gather",
    "in_digits",
    "model",
    "model_name",
    "models",
    "offers",
    "parameter",
    "part_name",
    "parts_asked",
    "parts_name",
    "predictable_accelerator",
    "product",
    "provider_name",
    "providers",
    "published_results",
    "rejected_name",
    "scale_up_domains",
    "seller",
    "servers",
    "spot_records",
    "status_note",
    "tco",
    "token_prices",
]
