"""What is charged: an offer is a rentable instance in one region with its prices and their date."""

from __future__ import annotations

import msgspec

__all__ = ["Offer", "Price", "Provider", "Term"]

Term = str
"""on-demand, spot, reserved-1y, reserved-3y, owned."""


class Price(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One listed price of a whole instance. [USD/h]"""

    term: Term
    usd_per_hour: float


class Offer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    An instance type in one region.

    `count` accelerators (a fraction = a share of one). Prices exclude VAT. `as_of_kind` is exact,
    month or estimated.
    """

    provider: str
    instance_type: str
    accelerator: str
    count: float
    prices: tuple[Price, ...]
    region: str = ""
    country: str = ""
    eu: bool | None = None
    eea: bool | None = None
    vcpus: float | None = None
    ram_bytes: float | None = None
    local_nvme_bytes: float | None = None
    nvlink: bool | None = None
    network_bytes_per_s: float | None = None
    """Instance network, one direction. [bytes/s]"""
    as_of: str = ""
    as_of_kind: str = ""
    source: str = ""
    licence: str = ""
    notes: str = ""
    marketplace: bool = False
    """From a source that states no licence."""

    def usd_per_hour(self, term: Term) -> float | None:
        """Listed price of the whole instance for one term; absent when not offered. [USD/h]"""
        return next((price.usd_per_hour for price in self.prices if price.term == term), None)


class Provider(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Terms of a provider, as published; certifications are the vendor's own statements."""

    id: str
    kind: str
    facts: dict[str, str]
    """Every other column of the provider table, by name; absent = unknown."""
    egress_usd_per_gb: float | None = None
    spot_offered: bool | None = None
    spot_notice_s: float | None = None
    certifications: tuple[str, ...] = ()
    regions_eu: str = ""
    source: str = ""
