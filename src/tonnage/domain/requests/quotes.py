"""Prices that a seller offered to the user: with a term, a minimum, take-or-pay, a ramp, money upfront, a start."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tonnage.domain.requests.field import MAY_BE_NOTHING, offer_field

__all__ = ["Quote"]


class Quote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One offer of a seller. Without a term it is paid by the hour of use; with one, as a contract."""

    accelerator: Annotated[str, offer_field("what is offered: H100, mi300x-oam-192gb", known="planned accelerators")]
    price: Annotated[float, offer_field("of one accelerator-hour: $1.95/h", "USD/h", high=1e5)]
    """Of one accelerator. [USD/h]"""
    name: Annotated[str, offer_field("what the answer calls it")] = ""
    provider: Annotated[str, offer_field("who offers it")] = "yours"
    count: Annotated[int | None, offer_field("accelerators of one instance", high=1024)] = None
    """Absent = as many as the usual machine has."""
    term_s: Annotated[
        float | None,
        offer_field("how long it binds: 12 months, 14 days", "s", name="term", low=3600.0, high=86400.0 * 3653),
    ] = None
    """Absent = it binds nobody: paid by the hour of use. [s]"""
    minimum: Annotated[int, offer_field("accelerators that are paid at least", low=-1.0, high=1e7)] = 0
    maximum: Annotated[int | None, offer_field("accelerators that may be had at most", high=1e7)] = None
    take_or_pay: Annotated[
        float,
        offer_field(
            "share of the minimum, or of each step of the ramp, that is paid used or not: 80 %",
            "fraction",
            low=MAY_BE_NOTHING,
            high=1.0,
        ),
    ] = 1.0
    ramp: Annotated[tuple[str, ...], offer_field("accelerators that are there from a month on: 1=16, 4=32, 7=64")] = ()
    upfront: Annotated[
        float,
        offer_field("share of the whole term's price due at signing: 30 %", "fraction", low=MAY_BE_NOTHING, high=1.0),
    ] = 0.0
    start: Annotated[str, offer_field("first day: 2027-01-15")] = ""
    as_of: Annotated[str, offer_field("the day it was offered: 2026-11-20")] = ""
    region: Annotated[str, offer_field("where it stands")] = ""
    country: Annotated[str, offer_field("two letters")] = ""
    network: Annotated[float | None, offer_field("network of one instance, one direction", "bytes/s", high=1e13)] = None
    """[bytes/s]"""
