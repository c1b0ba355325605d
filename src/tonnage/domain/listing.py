"""
A list of known things as any interface shows it: columns with units, rows, and what was left out and why.

Rows hold base units and None for what is not known; an interface formats, sorts nothing and hides nothing more. What
fetching prices did, provider by provider, and what asking a hub again did, model by model, stand beside it.
"""

from __future__ import annotations

from typing import Any, Final

from tonnage.domain.accelerator import Accelerator, PublishedResult, ScaleUpDomain
from tonnage.record import Record, SparseRecord

SCHEMA = "tonnage.catalog/1"


class Column(Record, kw_only=True):
    """One column: its key in every row, and what its values are."""

    name: str
    unit: str = "text"
    """bytes, bytes/s, FLOP/s, W, USD/h, USD, s, count, fraction, date, yes/no or text."""
    wide: bool = False
    """Left out of a table unless asked for; always in JSON."""


class Hidden(Record, kw_only=True):
    """How many rows one reason left out."""

    reason: str
    rows: int


class Listing(Record, kw_only=True):
    """Known things of one kind, filtered and sorted."""

    kind: str
    """accelerators, models, offers, providers."""
    columns: tuple[Column, ...]
    rows: tuple[dict[str, Any], ...]
    hidden: tuple[Hidden, ...] = ()
    notes: tuple[str, ...] = ()
    today: str = ""
    """The date that ages are counted from."""
    schema: str = SCHEMA


class AcceleratorCard(Record, kw_only=True):
    """One accelerator with every fact, and the cheapest offer of each provider."""

    accelerator: Accelerator
    offers: Listing
    ambiguity: str | None = None
    domains: tuple[ScaleUpDomain, ...] = ()
    """Fast fabrics that are built of it."""
    results: tuple[PublishedResult, ...] = ()
    """Published of a part that nothing is predicted for."""
    kind: str = "accelerator"
    schema: str = SCHEMA


REFRESH_SCHEMA: Final = "tonnage.refresh/1"
MODELS_SCHEMA: Final = "tonnage.refresh-models/1"


class Refresh(SparseRecord, kw_only=True):
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


class Refreshed(Record, kw_only=True):
    """All of them."""

    schema: str = REFRESH_SCHEMA
    refreshed: tuple[Refresh, ...]
    source: str


class RefreshedModel(SparseRecord, kw_only=True):
    """One model."""

    model: str
    known: bool = False
    """Whether the catalogue has it, and so is asked before the hub."""
    differs: tuple[str, ...] = ()
    """Fields that the catalogue and the hub tell differently; the catalogue's hold."""
    why: str = ""
    """Why what was known stays."""


class RefreshedModels(Record, kw_only=True):
    """All of them."""

    schema: str = MODELS_SCHEMA
    refreshed: tuple[RefreshedModel, ...]
    source: str
