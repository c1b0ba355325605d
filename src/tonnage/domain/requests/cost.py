"""The question of `tonnage cost rent-or-buy`: a machine, how much it is used, and which offers count."""

from __future__ import annotations

from typing import Annotated, Final

from tonnage.domain.requests.common import TERMS
from tonnage.domain.requests.field import MAY_BE_NOTHING, Field, Group, offer_field, owning_field
from tonnage.record import SparseRecord

_OWNING: Final = "Cost of owning"


class OwnedMachine(SparseRecord, kw_only=True):
    """Everything that the cost of owning one machine follows from. Money is in USD, VAT excluded."""

    accelerators: Annotated[float, owning_field("accelerators of the machine", high=1e5)]
    purchase: Annotated[float, owning_field("price of the machine without VAT", "USD", high=1e10)]
    """[USD]"""
    power: Annotated[float, owning_field("the most power it draws", "W", high=1e9)]
    """The most it draws at the wall, accelerators, hosts and fans together. [W]"""
    years: Annotated[float, owning_field("it is kept", "years", high=20.0)]
    """It is kept. [years]"""
    load: Annotated[float, owning_field("share of that power while it works", "fraction", low=MAY_BE_NOTHING, high=1.0)]
    """Share of that power while it works. [-]"""
    idle: Annotated[float, owning_field("share of that power while it waits", "fraction", low=MAY_BE_NOTHING, high=1.0)]
    """Share of that power while it waits. [-]"""
    pue: Annotated[float, owning_field("power of the building over power of its machines", low=0.999, high=5.0)]
    electricity: Annotated[float, owning_field("tariff", "USD/kWh", high=10.0)]
    """[USD/kWh]"""
    hosting: Annotated[
        float, owning_field("rent of the room by contracted power", "USD/kW-month", low=MAY_BE_NOTHING, high=1e5)
    ]
    """Rent of the room it stands in, by contracted power. [USD/kW-month]"""
    network: Annotated[
        float, owning_field("its share of switches, adapters, cables", "USD", low=MAY_BE_NOTHING, high=1e9)
    ]
    """Its share of switches, adapters and cables. [USD]"""
    storage: Annotated[float, owning_field("storage bought beside it", "USD", low=MAY_BE_NOTHING, high=1e9)]
    """Bought beside it. [USD]"""
    staff: Annotated[float, owning_field("people who run it", "USD/year", low=MAY_BE_NOTHING, high=1e9)]
    """[USD/year]"""
    spares: Annotated[
        float, owning_field("spare parts, share of the purchase", "fraction", low=MAY_BE_NOTHING, high=1.0)
    ]
    """Share of the purchase kept as spare parts. [-]"""
    support: Annotated[
        float, owning_field("vendor's support a year, share of the purchase", "fraction", low=MAY_BE_NOTHING, high=1.0)
    ]
    """Vendor's support, share of the purchase. [1/year]"""
    insurance: Annotated[
        float, owning_field("insurance a year, share of the purchase", "fraction", low=MAY_BE_NOTHING, high=1.0)
    ]
    """Share of the purchase. [1/year]"""
    interest: Annotated[float, owning_field("interest a year", "fraction", low=MAY_BE_NOTHING, high=1.0)]
    """[1/year]"""
    resale_3y: Annotated[
        float,
        owning_field("share of the purchase it sells for after three years", "fraction", low=MAY_BE_NOTHING, high=1.0),
    ]
    """Share of the purchase that it still sells for after three years. [-]"""
    interruptions: Annotated[float, owning_field("stops a year of one accelerator", low=MAY_BE_NOTHING, high=1e3)]
    """Of any cause, of one accelerator. [1/year]"""
    repair: Annotated[float, owning_field("from a stop until it works again", "s", low=MAY_BE_NOTHING, high=3e7)]
    """From an interruption until it works again. [s]"""


class RentOrBuyRequest(SparseRecord, kw_only=True):
    """What to compare: the machine, how much it is used, and which offers count."""

    server: Annotated[
        str,
        Field("machine of the ownership table or accelerator: l40s-8gpu-pcie, H100", name="machine", known="machines"),
    ]
    accelerator: str
    utilisation: Annotated[float, Field("share of hours with useful work: 70 %", "fraction", high=1.0)] = 0.7
    """Share of the machine's hours with useful work: the threshold of the best-known rule, so that the answer says at
    once on which side of it the prices lie. [-]"""
    country: Annotated[str, Field("whose electricity: US, DE, US-TX")] = "US"
    """Whose tariff and where the machine stands."""
    given: Annotated[dict[str, float], Group(of=OwnedMachine)] = {}
    """Inputs in place of the catalogue's, by name, in the units of `OwnedMachine`."""
    providers: Annotated[tuple[str, ...], offer_field("only these providers", name="provider", known="providers")] = ()
    countries: Annotated[
        tuple[str, ...],
        offer_field("only offers in these countries (two letters)", name="rent_country", known="all countries"),
    ] = ()
    eu: Annotated[bool | None, offer_field("only offers in the European Union")] = None
    terms: Annotated[tuple[str, ...], offer_field("only these terms", name="term", choices=TERMS)] = ()
    """Empty = all of them."""
    community: Annotated[bool, offer_field("include community marketplaces and brokers")] = False
    rent_usd_per_hour: Annotated[
        float | None, offer_field("compare with this price of an accelerator-hour only", "USD/h", name="rent", high=1e5)
    ] = None
    """A price per accelerator and hour to compare with, in place of the offers'. [USD/h]"""
    rent_decline: Annotated[
        float, offer_field("yearly fall of rental prices", "fraction", low=MAY_BE_NOTHING, high=2.0)
    ] = 0.0
    """Yearly fall of rental prices over the machine's life. [1/year]"""
