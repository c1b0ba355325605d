"""An amount of money and the most that it buys."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from tonnage.domain.requests.common import MODEL
from tonnage.domain.requests.field import (
    Field,
    Group,
    objective_field,
    training_field,
)
from tonnage.domain.requests.serve import Serve
from tonnage.record import SparseRecord

FOUND: Final = frozenset({
    "model", "rate", "concurrency", "users", "think_time", "budget", "pools", "quick", "day", "on_for", "off_for",
})  # fmt: skip
"""Fields of a serving request whose load or money is found, or given otherwise."""


class Budget(SparseRecord, kw_only=True):
    """The largest load, the best model, or the best training run that an amount of money buys."""

    amount: Annotated[str, objective_field('what may be spent: "$3,000/month", "$4/h", "$50,000"')]
    """As written."""
    purpose: Annotated[
        Literal["serving", "training", "finetuning"],
        objective_field("what it is for: serving, training or finetuning; money without a time trains"),
    ] = "serving"
    model: Annotated[str | None, MODEL] = None
    """Absent = the best of those that people run, by published quality."""
    serve: Annotated[Serve | None, Group(without=FOUND)] = None
    """Lengths, objectives and filters of the service."""
    rate_per_s: Annotated[
        float | None, Field("requests that the best model must carry: 2/s", "1/s", name="rate", high=1e7)
    ] = None
    tokens: Annotated[
        float | None, training_field("tokens there are to train on; else as many as pay", "tokens", high=1e16)
    ] = None
    deadline_s: Annotated[
        float | None,
        objective_field("longest time for a training run: 30 days", "s", name="deadline", high=20 * 8760 * 3600.0),
    ] = None
    usd_per_h: float | None = None
    """Of a service. [USD/h]"""
    usd: float | None = None
    """Of a training run. [USD]"""
