"""
A list of known things as any face shows it: columns with units, rows, and what was left out and why.

Rows hold base units and None for what is not known; a face formats, sorts nothing and hides nothing more.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tonnage.domain.accelerator import Accelerator, PublishedResult, ScaleUpDomain

__all__ = ["SCHEMA", "AcceleratorCard", "Column", "Hidden", "Listing"]

SCHEMA = "tonnage.catalog/1"


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column: its key in every row, and what its values are."""

    name: str
    unit: str = "text"
    """bytes, bytes/s, FLOP/s, W, USD/h, USD, s, count, fraction, date, yes/no or text."""
    wide: bool = False
    """Left out of a table unless asked for; always in JSON."""


class Hidden(msgspec.Struct, frozen=True, kw_only=True):
    """How many rows one reason left out."""

    reason: str
    rows: int


class Listing(msgspec.Struct, frozen=True, kw_only=True):
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


class AcceleratorCard(msgspec.Struct, frozen=True, kw_only=True):
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
