"""Prices that a seller offered to the user: with a term, a minimum, take-or-pay, a ramp, money upfront, a start."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tonnage.domain.requests.field import MAY_BE_NOTHING, Field

__all__ = ["Quote"]


class Quote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One offer of a seller. Without a term it is paid by the hour of use; with one, as a contract."""

    accelerator: Annotated[
        str, Field(group="Offers", known="planned accelerators", help="what is offered: H100, mi300x-oam-192gb")
    ]
    price: Annotated[float, Field(reads="USD/h", group="Offers", high=1e5, help="of one accelerator-hour: $1.95/h")]
    """Of one accelerator. [USD/h]"""
    name: Annotated[str, Field(group="Offers", help="what the answer calls it")] = ""
    provider: Annotated[str, Field(group="Offers", help="who offers it")] = "yours"
    count: Annotated[
        int | None, Field(reads="integer", group="Offers", high=1024, help="accelerators of one instance")
    ] = None
    """Absent = as many as the usual machine has."""
    term_s: Annotated[
        float | None,
        Field(
            name="term",
            reads="s",
            group="Offers",
            low=3600.0,
            high=86400.0 * 3653,
            help="how long it binds: 12 months, 14 days",
        ),
    ] = None
    """Absent = it binds nobody: paid by the hour of use. [s]"""
    minimum: Annotated[
        int, Field(reads="integer", group="Offers", low=-1.0, high=1e7, help="accelerators that are paid at least")
    ] = 0
    maximum: Annotated[
        int | None, Field(reads="integer", group="Offers", high=1e7, help="accelerators that may be had at most")
    ] = None
    take_or_pay: Annotated[
        float,
        Field(
            reads="fraction",
            group="Offers",
            low=MAY_BE_NOTHING,
            high=1.0,
            help="share of the minimum, or of each step of the ramp, that is paid used or not: 80 %",
        ),
    ] = 1.0
    ramp: Annotated[
        tuple[str, ...],
        Field(reads="list", group="Offers", help="accelerators that are there from a month on: 1=16, 4=32, 7=64"),
    ] = ()
    upfront: Annotated[
        float,
        Field(
            reads="fraction",
            group="Offers",
            low=MAY_BE_NOTHING,
            high=1.0,
            help="share of the whole term's price due at signing: 30 %",
        ),
    ] = 0.0
    start: Annotated[str, Field(group="Offers", help="first day: 2027-01-15")] = ""
    as_of: Annotated[str, Field(group="Offers", help="the day it was offered: 2026-11-20")] = ""
    region: Annotated[str, Field(group="Offers", help="where it stands")] = ""
    country: Annotated[str, Field(group="Offers", help="two letters")] = ""
    network: Annotated[
        float | None, Field(reads="bytes/s", group="Offers", high=1e13, help="network of one instance, one direction")
    ] = None
    """[bytes/s]"""
