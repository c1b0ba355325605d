"""
Renting against owning: the machine in numbers and what is asked of it, the answer, and how sure it is.

`tonnage cost rent-or-buy` returns a `RentOrBuy` (`"schema": "tonnage.cost/1"`). Every number that
owning is computed from is an `Input`, with its band and where it comes from, so that none hides
in a formula; the same names are the command's flags.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from tonnage.domain.answer import Quantity
from tonnage.domain.requests.common import TERMS
from tonnage.domain.requests.field import MAY_BE_NOTHING, Field, Group, offer_field, owning_field
from tonnage.record import SparseRecord


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
    country: Annotated[str, Field("whose electricity: US, Germany, US-TX")] = "US"
    """Whose tariff and where the machine stands."""
    given: Annotated[dict[str, float], Group(of=OwnedMachine)] = {}
    """Inputs in place of the catalogue's, by name, in the units of `OwnedMachine`."""
    providers: Annotated[tuple[str, ...], offer_field("only these providers", name="provider", known="providers")] = ()
    countries: Annotated[
        tuple[str, ...],
        offer_field("only offers in these countries: DE or Germany", name="rent_country", known="all countries"),
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


__all__ = ["OwnedMachine", "RentOrBuyRequest"]

COST_SCHEMA = "tonnage.cost/1"


class OwnedServer(SparseRecord, kw_only=True):
    """A machine that can be bought, and which rows of the ownership table describe it."""

    server: str
    """Key of its price."""
    accelerator: str
    count: int
    power: str = ""
    """Key of its power; empty = no figure."""
    network: str = ""
    """Key of its fabric; empty = none is needed."""
    place: str = "colocation"
    """colocation, or office: no rent, a household or office tariff, and hours of its user's time instead of staff."""
    resale: str = "residual_value_36m"


class Input(SparseRecord, kw_only=True):
    """One number of the machine: its value, the band it may lie in, and who says so."""

    name: str
    value: float
    unit: str
    meaning: str
    source: str
    low: float | None = None
    high: float | None = None
    confidence: str = ""
    """high, medium, low; yours when the request gave it."""
    as_of: str = ""

    @property
    def ends(self) -> tuple[float, float]:
        """Of its band; the value itself where an end is open."""
        return (
            self.value if self.low is None else self.low,
            self.value if self.high is None else self.high,
        )


class Rent(SparseRecord, kw_only=True):
    """One way to rent the same accelerator, against owning."""

    provider: str
    term: str
    usd_per_accelerator_hour: float
    """As listed. [USD/h]"""
    paid: str
    """used = hours of work only; always = every hour of the term."""
    instance_type: str = ""
    region: str = ""
    kind: str = ""
    """hyperscaler, neocloud, marketplace …"""
    as_of: str = ""
    stale: bool = False
    useful: float = 1.0
    """Share of rented hours that do useful work: below 1 where capacity is taken back. [-]"""
    lifetime_usd: float = 0.0
    """For the work the machine would do at the asked utilisation. [USD]"""
    break_even_utilisation: float | None = None
    """Owning costs no more from this share of hours on; absent = at no use."""
    break_even_low: float | None = None
    break_even_high: float | None = None
    """90 % interval of the break-even over the bands of the inputs; absent = open on that side."""
    break_even_hours: float | None = None
    """The same in hours of one accelerator over the machine's life. [h]"""
    payback_months: float | None = None
    """Until the rent saved at the asked utilisation has paid for the machine, resale left out; absent = not in its
    life. [months]"""
    owning_wins: bool = False
    note: str = ""

    @property
    def advice(self) -> str:
        """What to do at this price."""
        return "Buy" if self.owning_wins else "Rent"


def cheapest_steady(rents: Iterable[Rent]) -> Rent | None:
    """
    The price that an answer speaks of: of on-demand prices, or of all where there is none, the one that costs least for
    an hour of useful work; None without any.
    """
    return min(
        rents, key=lambda rent: (rent.term != "on-demand", rent.usd_per_accelerator_hour / rent.useful), default=None
    )


class Swing(SparseRecord, kw_only=True):
    """What one input alone does to owning: the cost of a used hour and the break-even at both ends of its band."""

    name: str
    low: float
    high: float
    unit: str
    usd_per_used_hour_at_low: float
    usd_per_used_hour_at_high: float
    break_even_at_low: float | None = None
    break_even_at_high: float | None = None

    @property
    def width(self) -> float:
        """[USD/h]"""
        return abs(self.usd_per_used_hour_at_high - self.usd_per_used_hour_at_low)


class Claim(SparseRecord, kw_only=True):
    """A popular rule, and what these prices make of it."""

    rule: str
    computed: str
    verdict: str
    """holds, fails, depends."""
    source: str
    evidence: dict[str, Any] = {}


class RentOrBuy(SparseRecord, kw_only=True, tag_field="kind", tag="rent-or-buy"):
    """The answer: what owning costs, opened; what each offer costs; where the two meet; what decides it."""

    schema: str
    feasible: bool
    """Whether there is an offer to compare with."""
    sentence: str
    request: RentOrBuyRequest
    owning: Quantity
    """Over the machine's life at the asked utilisation. [USD]"""
    owned_usd_per_used_hour: Quantity
    """Of one accelerator, by hours with useful work. [USD/h]"""
    owned_usd_per_hour: float
    """Of one accelerator, by hours of the calendar. [USD/h]"""
    inputs: tuple[Input, ...]
    rents: tuple[Rent, ...] = ()
    tornado: tuple[Swing, ...] = ()
    claims: tuple[Claim, ...] = ()
    assumed: tuple[str, ...] = ()
    made: str = ""
    version: str = ""


class BillingRules(SparseRecord, kw_only=True):
    """How a provider counts time and bytes."""

    step_s: float
    """Smallest unit that is charged. [s]"""
    least_s: float
    """Smallest charge or minimum term. [s]"""
    egress_usd_per_gb: float | None = None
    stated: str = ""
    """In the provider's words."""
    source: str = ""


class UnitCosts(SparseRecord, kw_only=True):
    """An hourly cost by what it delivers at the mean load."""

    usd_per_request: float
    usd_per_million_output_tokens: float
    """The whole cost charged to the answers. [USD/1M tokens]"""
    usd_per_million_blended_tokens: float
    """The whole cost over prompts and answers. [USD/1M tokens]"""
    usd_per_million_input_share: float
    """Prompts pay for the time they take. [USD/1M tokens]"""
    usd_per_million_answer_share: float
    """Answers pay for the time they take. [USD/1M tokens]"""
    requests_per_usd: float
    max_requests_per_s_per_usd_hour: float
    """Queries per second per dollar: largest rate within the objectives over the hourly price. [1/s per USD/h]"""


class BoughtTokens(SparseRecord, kw_only=True):
    """What one API charges for the load of a serving plan, with nothing of a prompt taken as cached."""

    provider: str
    name: str
    """The provider's own name of the model."""
    usd_per_million_input: float
    usd_per_million_output: float
    usd_per_request: float
    """Of a mean request. [USD]"""
    usd_per_hour: float
    """At the mean load. [USD/h]"""
    usd_per_million_cached_input: float | None = None
    """Absent = no such price."""
    page: str = ""
    as_of: str = ""
    source: str = ""


class TokensInstead(SparseRecord, kw_only=True):
    """Buying the tokens of a serving plan from those who sell them, against renting what makes them (G11)."""

    options: tuple[BoughtTokens, ...]
    """The cheapest first, one for each provider."""
    times: float
    """The plan's cost over the cheapest of them, at the mean load. [-]"""
    wins_from_per_s: float | None = None
    """Mean rate from which an option of the plan costs no more than the cheapest; absent = at none. [1/s]"""
    wins_with: str = ""
    """That option's configuration."""
    sentence: str = ""


class SampleCosts(SparseRecord, kw_only=True):
    """What images, texts, frames or hours of audio cost at a load, and what they would at the most one may give."""

    usd_per_month: float
    usd_per_thousand: float | None = None
    """A thousand images, texts, frames. [USD]"""
    usd_per_thousand_full: float | None = None
    """The same if the load used all of the capacity. [USD]"""
    usd_per_audio_hour: float | None = None
    """An hour of sound. [USD]"""
    usd_per_audio_hour_full: float | None = None
    usd_per_stream_month: float | None = None
    """A camera that is watched all month. [USD/month]"""
    per_s_per_usd_hour: float
    """Samples per second, or hours of audio per hour, of all capacity for each dollar an hour. [1/s per USD/h]"""


class EnergyUse(SparseRecord, kw_only=True):
    """Electricity and carbon of accelerators, their hosts and the cooling around them."""

    power_w: float
    """Mean draw of everything, cooling included. [W]"""
    power_w_low: float
    power_w_high: float
    board_w: float
    """Accelerators alone. [W]"""
    host_w: float
    """Processors, memory, adapters, fans. [W]"""
    pue: float
    kwh_per_month: float
    kwh_per_million_tokens: float | None = None
    """Output tokens. [kWh/1M tokens]"""
    tokens_per_joule: float | None = None
    """Output tokens at the plug of the building. [1/J]"""
    kg_co2_per_month: float | None = None
    """Absent where the grid of the region is not known. [kg/month]"""
    g_co2_per_million_tokens: float | None = None
    grams_per_kwh: float | None = None
    grid: str = ""
    """Whose grid: a cloud region or a country."""
    sources: tuple[str, ...] = ()
