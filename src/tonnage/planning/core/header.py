"""What every plan says of itself: its model, its catalogue, what it assumes, and that no plan is feasible."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

from tonnage.catalog import Additions, ambiguity
from tonnage.domain.answer import Verdict
from tonnage.domain.model import Model
from tonnage.domain.plan import Bill, Provenance
from tonnage.domain.workload import Filters
from tonnage.physics.parameters import active_parameters, parameters
from tonnage.version import __version__

__all__ = ["COMMUNITY", "catalogue_dates", "infeasible_sentence", "model_facts", "names_taken", "provenance", "what_if"]

COMMUNITY = "community marketplaces and brokers are left out (--community includes them)"
"""Assumed of every request that does not include them."""


def model_facts(model: Model) -> dict[str, Any]:
    """What the plan says of its model."""
    facts: dict[str, Any] = {
        "id": model.id,
        "family": model.family,
        "parameters": parameters(model).value,
        "active_parameters": active_parameters(model).value,
    }
    if model.max_context is not None:
        facts["max_context"] = model.max_context
    if model.source:
        facts["source"] = model.source
    return facts


def catalogue_dates(bills: Iterable[Bill]) -> dict[str, str]:
    """Oldest and newest price date among the options."""
    dates = sorted(bill.as_of for bill in bills if bill.as_of)
    return {"oldest price": dates[0], "newest price": dates[-1]} if dates else {}


def provenance(bills: Iterable[Bill], *, today: date, assumed: Iterable[str]) -> Provenance:
    """What is needed to make the plan again."""
    return Provenance(
        version=__version__, catalogue=catalogue_dates(bills), made=today.isoformat(), assumed=tuple(assumed)
    )


def infeasible_sentence(purpose: str, binding: Verdict | None) -> str:
    """The answer where nothing does it: "No feasible plan to serve M: …. Nearest: …."."""
    assert binding is not None
    nearest = f" Nearest: {binding.nearest}." if binding.nearest else ""
    return f"No feasible plan {purpose}: {binding.reason}.{nearest}"


def names_taken(filters: Filters) -> list[str]:
    """Which accelerator was taken for a name that fits several."""
    return [taken for name in filters.accelerators if (taken := ambiguity(name))]


def what_if(additions: Additions) -> list[str]:
    """Facts of the catalogue that the user changed."""
    return [f"what-if: {text}" for text in getattr(additions, "overrides", ())]
