"""The question of `tonnage cost rent-or-buy`: a machine, how much it is used, and which offers count."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from tonnage.domain.requests.common import TERMS
from tonnage.domain.requests.field import MAY_BE_NOTHING, Field, Group

__all__ = ["OwnedMachine", "RentOrBuyRequest"]

_OWNING: Final = "Cost of owning"


class OwnedMachine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that the cost of owning one machine follows from. Money is in USD, VAT excluded."""

    accelerators: Annotated[float, Field(reads="count", group=_OWNING, high=1e5, help="accelerators of the machine")]
    purchase: Annotated[float, Field(reads="USD", group=_OWNING, high=1e10, help="price of the machine without VAT")]
    """[USD]"""
    power: Annotated[float, Field(reads="W", group=_OWNING, high=1e9, help="the most power it draws")]
    """The most it draws at the wall, accelerators, hosts and fans together. [W]"""
    years: Annotated[float, Field(reads="years", group=_OWNING, high=20.0, help="it is kept")]
    """It is kept. [years]"""
    load: Annotated[
        float,
        Field(reads="fraction", group=_OWNING, low=MAY_BE_NOTHING, high=1.0, help="share of that power while it works"),
    ]
    """Share of that power while it works. [-]"""
    idle: Annotated[
        float,
        Field(reads="fraction", group=_OWNING, low=MAY_BE_NOTHING, high=1.0, help="share of that power while it waits"),
    ]
    """Share of that power while it waits. [-]"""
    pue: Annotated[
        float,
        Field(
            reads="count", group=_OWNING, low=0.999, high=5.0, help="power of the building over power of its machines"
        ),
    ]
    electricity: Annotated[float, Field(reads="USD/kWh", group=_OWNING, high=10.0, help="tariff")]
    """[USD/kWh]"""
    hosting: Annotated[
        float,
        Field(
            reads="USD/kW-month",
            group=_OWNING,
            low=MAY_BE_NOTHING,
            high=1e5,
            help="rent of the room by contracted power",
        ),
    ]
    """Rent of the room it stands in, by contracted power. [USD/kW-month]"""
    network: Annotated[
        float,
        Field(reads="USD", group=_OWNING, low=MAY_BE_NOTHING, high=1e9, help="its share of switches, adapters, cables"),
    ]
    """Its share of switches, adapters and cables. [USD]"""
    storage: Annotated[
        float, Field(reads="USD", group=_OWNING, low=MAY_BE_NOTHING, high=1e9, help="storage bought beside it")
    ]
    """Bought beside it. [USD]"""
    staff: Annotated[
        float, Field(reads="USD/year", group=_OWNING, low=MAY_BE_NOTHING, high=1e9, help="people who run it")
    ]
    """[USD/year]"""
    spares: Annotated[
        float,
        Field(reads="fraction", group=_OWNING, low=MAY_BE_NOTHING, high=1.0, help="spare parts, share of the purchase"),
    ]
    """Share of the purchase kept as spare parts. [-]"""
    support: Annotated[
        float,
        Field(
            reads="fraction",
            group=_OWNING,
            low=MAY_BE_NOTHING,
            high=1.0,
            help="vendor's support a year, share of the purchase",
        ),
    ]
    """Vendor's support, share of the purchase. [1/year]"""
    insurance: Annotated[
        float,
        Field(
            reads="fraction",
            group=_OWNING,
            low=MAY_BE_NOTHING,
            high=1.0,
            help="insurance a year, share of the purchase",
        ),
    ]
    """Share of the purchase. [1/year]"""
    interest: Annotated[
        float, Field(reads="fraction", group=_OWNING, low=MAY_BE_NOTHING, high=1.0, help="interest a year")
    ]
    """[1/year]"""
    resale_3y: Annotated[
        float,
        Field(
            reads="fraction",
            group=_OWNING,
            low=MAY_BE_NOTHING,
            high=1.0,
            help="share of the purchase it sells for after three years",
        ),
    ]
    """Share of the purchase that it still sells for after three years. [-]"""
    interruptions: Annotated[
        float,
        Field(reads="count", group=_OWNING, low=MAY_BE_NOTHING, high=1e3, help="stops a year of one accelerator"),
    ]
    """Of any cause, of one accelerator. [1/year]"""
    repair: Annotated[
        float, Field(reads="s", group=_OWNING, low=MAY_BE_NOTHING, high=3e7, help="from a stop until it works again")
    ]
    """From an interruption until it works again. [s]"""


class RentOrBuyRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to compare: the machine, how much it is used, and which offers count."""

    server: Annotated[
        str,
        Field(
            name="machine", known="machines", help="machine of the ownership table or accelerator: l40s-8gpu-pcie, H100"
        ),
    ]
    accelerator: str
    utilisation: Annotated[float, Field(reads="fraction", high=1.0, help="share of hours with useful work: 70 %")] = 0.7
    """Share of the machine's hours with useful work: the threshold of the best-known rule, so that the answer says at
    once on which side of it the prices lie. [-]"""
    country: Annotated[str, Field(help="whose electricity: US, DE, US-TX")] = "US"
    """Whose tariff and where the machine stands."""
    given: Annotated[dict[str, float], Group(of=OwnedMachine)] = {}
    """Inputs in place of the catalogue's, by name, in the units of `OwnedMachine`."""
    providers: Annotated[
        tuple[str, ...],
        Field(name="provider", reads="list", group="Offers", known="providers", help="only these providers"),
    ] = ()
    countries: Annotated[
        tuple[str, ...],
        Field(
            name="rent_country",
            reads="list",
            group="Offers",
            known="all countries",
            help="only offers in these countries (two letters)",
        ),
    ] = ()
    eu: Annotated[bool | None, Field(reads="flag", group="Offers", help="only offers in the European Union")] = None
    terms: Annotated[
        tuple[str, ...], Field(name="term", reads="list", group="Offers", choices=TERMS, help="only these terms")
    ] = ()
    """Empty = all of them."""
    community: Annotated[
        bool, Field(reads="flag", group="Offers", help="include community marketplaces and brokers")
    ] = False
    rent_usd_per_hour: Annotated[
        float | None,
        Field(
            name="rent",
            reads="USD/h",
            group="Offers",
            high=1e5,
            help="compare with this price of an accelerator-hour only",
        ),
    ] = None
    """A price per accelerator and hour to compare with, in place of the offers'. [USD/h]"""
    rent_decline: Annotated[
        float,
        Field(reads="fraction", group="Offers", low=MAY_BE_NOTHING, high=2.0, help="yearly fall of rental prices"),
    ] = 0.0
    """Yearly fall of rental prices over the machine's life. [1/year]"""
