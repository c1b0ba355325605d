"""What must be resident, does it fit, and what is the largest x that still does?

`fit` resolves names and hands over: a named model to `model.py`, the largest model to `models.py`.
"""

from __future__ import annotations

from tonnage.catalog import NOTHING, Additions
from tonnage.catalog.hub import resolve
from tonnage.domain.fit import FitAnswer, FitRequest
from tonnage.planning.fit.model import fit_model

__all__ = ["fit"]


def fit(request: FitRequest, *, additions: Additions = NOTHING, offline: bool | None = None) -> FitAnswer:
    """The answer to a fit request: names looked up, each accelerator tried, largest values and remedies found."""
    if request.solve == "model":
        from tonnage.planning.fit.models import largest_model

        return largest_model(request, additions=additions)
    return fit_model(resolve(request.model, additions=additions, offline=offline), request, additions=additions)
