"""What is charged: an offer is a rentable instance in one region with its prices and their date."""

from __future__ import annotations

import functools
from datetime import date
from typing import Final, Literal

from msgspec.structs import replace

from tonnage.record import SparseRecord

STALE_AFTER_DAYS: Final = 90
"""A price older than this is flagged. [days]"""

Term = str
"""on-demand, spot, reserved-1y, reserved-3y, block (prepaid for days), contract (the user's own quote), owned."""


Trust = Literal["primary", "secondary", "contradicted", "unknown"]
"""
Who says a price. primary: the seller's own page or interface, or the user; secondary: a third party's table, a broker,
arithmetic from another region, an unclear currency; contradicted: the seller's own list says otherwise.
"""


class PriceFall(SparseRecord, kw_only=True):
    """How fast on-demand prices fall, and how far sellers differ: continuous rates, below 0 = they rise. [1/year]"""

    per_year: float
    low: float
    """Tenth percentile of the sellers. [1/year]"""
    high: float
    """Ninetieth. [1/year]"""
    rates: tuple[float, ...] = ()
    """Each seller's; empty = the user's own view. [1/year]"""
    whose: str = ""
    """An accelerator, "all accelerators", or "yours"."""


class Commitment(SparseRecord, kw_only=True):
    """A price held for a term, weighed against on-demand prices that move meanwhile. Falls below 0 are rises."""

    term: Term
    years: float
    usd_per_hour: float
    """Of one instance. [USD/h]"""
    compared_usd_per_hour: float
    """Today's on-demand price whose mean over the term would be as much: what options are compared by. [USD/h]"""
    on_demand_usd_per_hour: float | None = None
    """Of the same instance today, or of as many accelerators elsewhere; absent = nobody states one. [USD/h]"""
    against: str = ""
    """Whose on-demand price that is; empty = the same instance."""
    falls: float
    """By how much on-demand prices are expected to have fallen when the term ends. [-]"""
    falls_low: float
    falls_high: float
    """The same at the tenth and ninetieth percentile of sellers. [-]"""
    stops_paying: float | None = None
    """The fall until the term's end beyond which renting on demand costs less over the term. [-]"""
    saves: float | None = None
    """Of what on demand costs over the term, as expected; below 0 = it costs more. [-]"""
    saves_low: float | None = None
    saves_high: float | None = None
    pays_with: tuple[int, int] | None = None
    """With how many sellers' paths it pays, of how many."""
    whose: str = ""
    """Whose prices say how fast they fall."""

    @property
    def times_compared(self) -> float:
        """What it is compared by over what it costs. [-]"""
        return self.compared_usd_per_hour / self.usd_per_hour


class Contract(SparseRecord, kw_only=True):
    """What a seller's offer to the user binds to, beside its price. Counts are of accelerators."""

    name: str
    hours: float
    """Its length. [h]"""
    minimum: int = 0
    """Paid at least, of which `take_or_pay` is due used or not."""
    take_or_pay: float = 1.0
    """Share of what is committed that is paid used or not. [-]"""
    ramp: tuple[tuple[int, int], ...] = ()
    """(month, accelerators that are there from then on), the first month 1; empty = all from the start."""
    upfront: float = 0.0
    """Share of the whole price due at signing. [-]"""
    start: str = ""
    """First day; empty = at once."""
    bridge_usd_per_hour: float | None = None
    """An accelerator on demand, until the ramp has come so far; absent = nobody states a price. [USD/h]"""
    bridge: str = ""
    """Whose."""


class Price(SparseRecord, kw_only=True):
    """One listed price of a whole instance. [USD/h]"""

    term: Term
    usd_per_hour: float
    estimated: bool = False
    """Computed from an average discount: the seller does not list it."""
    commitment: Commitment | None = None
    """What holding it means, where the term is a year or more and prices were weighed for a plan."""

    def times(self, factor: float) -> Price:
        """The price of so many times the capacity, or less a discount."""
        held = self.commitment
        if held is not None:
            other = held.on_demand_usd_per_hour
            held = replace(
                held,
                usd_per_hour=held.usd_per_hour * factor,
                compared_usd_per_hour=held.compared_usd_per_hour * factor,
                on_demand_usd_per_hour=None if other is None else other * factor,
            )
        return replace(self, usd_per_hour=self.usd_per_hour * factor, commitment=held)


OfferKind = Literal["instance", "serverless worker", "marketplace"]
"""What is sold: a machine, a worker that a platform starts and stops, or a stranger's machine."""


class Offer(SparseRecord, kw_only=True):
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
    history: bool = False
    """Superseded, or of a retiring series: shows where prices came from, never offered as today's."""
    trust: Trust = "primary"
    """What is not primary never leads a plan where a primary price is known."""
    kind: OfferKind = "instance"
    stock: int | None = None
    """Accelerators of it that there are, where they are the user's own; absent = as many as are asked for."""
    contract: Contract | None = None
    """What it binds the user to; absent = what the term says."""

    def usd_per_hour(self, term: Term) -> float | None:
        """Listed price of the whole instance for one term; absent when not offered. [USD/h]"""
        for price in self.prices:
            if price.term == term:
                return price.usd_per_hour
        return None

    def compared_usd_per_hour(self, term: Term) -> float | None:
        """The same as options are compared by: of a commitment, with what prices are expected to do. [USD/h]"""
        held = self.commitment(term)
        return self.usd_per_hour(term) if held is None else held.compared_usd_per_hour

    def commitment(self, term: Term) -> Commitment | None:
        """What holding the price of a term means; absent where it binds nobody."""
        return next((price.commitment for price in self.prices if price.term == term), None)

    def trust_of(self, term: Term) -> Trust:
        """Who says the price of one term; an estimated one is secondary, however the others were found."""
        if self.trust != "primary":
            return self.trust
        for price in self.prices:
            if price.term == term and price.estimated:
                return "secondary"
        return "primary"


class Provider(SparseRecord, kw_only=True):
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


class SpotRecord(SparseRecord, kw_only=True):
    """What a provider says about the spot capacity of one instance type in one region."""

    provider: str
    instance_type: str
    accelerator: str
    count: float
    region: str
    savings_fraction: float
    """Below on-demand, 30-day average; may be negative. [-]"""
    interruption_band: str
    """Instances interrupted a month, as the feed prints it: "<5%" … ">20%"."""
    interruption_fraction_max: float
    """Upper edge of the band as the feed codes it. [1/month]"""
    as_of: str
    source: str


class TokenPrice(SparseRecord, kw_only=True):
    """
    What a provider charges for a model behind its API. Absent = not charged that way, or not listed.

    `name` is the provider's own name of the model, `model` the catalogue's. A row that no page of the provider backs,
    or that another row contradicts, is not `trusted`.
    """

    provider: str
    name: str
    model: str
    mode: str
    """chat, embedding, rerank, image_generation, audio_transcription …"""
    input_usd_per_million_tokens: float | None = None
    cached_input_usd_per_million_tokens: float | None = None
    output_usd_per_million_tokens: float | None = None
    usd_per_audio_s: float | None = None
    usd_per_image: float | None = None
    max_input_tokens: float | None = None
    page: str = ""
    """The provider's own page; empty = none stated."""
    doubt: str = ""
    """Why the row is not believed; empty = nothing speaks against it."""
    as_of: str = ""
    source: str = ""

    @property
    def trusted(self) -> bool:
        """Whether a page of the provider backs the row and nothing speaks against it."""
        return bool(self.page) and not self.doubt


class OwnedParameter(SparseRecord, kw_only=True):
    """One parameter of owning hardware, with the band it may lie in."""

    group: str
    """server_price, server_power_max, pue, electricity_default, colocation, staff, depreciation, claim …"""
    key: str
    value: float
    unit: str
    """Of value, low and high; powers are in W and energies in Wh, currencies as stated."""
    source: str
    confidence: str
    """high, medium, low, or claim: a popular article's figure, kept to be tested."""
    low: float | None = None
    high: float | None = None
    as_of: str = ""
    notes: str = ""


class CarbonIntensity(SparseRecord, kw_only=True):
    """Carbon dioxide per unit of electricity in a country or a cloud region: annual average, not marginal."""

    id: str
    """ISO 3166-1 alpha-3 of a country, or "provider:region"."""
    country_iso3: str
    name: str
    grams_per_kwh: float
    """[g/kWh]"""
    source: str
    as_of: str = ""


@functools.lru_cache(maxsize=1024)
def is_stale(as_of: str, *, today: date) -> bool:
    """
    Whether a price of that date is older than 90 days; a month counts from its last day, what is no date is stale.

    Examples
    --------
    >>> today = date(2026, 9, 1)
    >>> [is_stale(as_of, today=today) for as_of in ("2026-07-20", "2026-06", "2026-05", "")]
    [False, False, True, True]
    """
    parts = as_of.split("-")
    if len(parts) < 2 or not all(part.isdecimal() and len(part) < 5 for part in parts):
        return True
    year, month = int(parts[0]), int(parts[1])
    if not 1 <= month <= 12:
        return True
    last = date(year, month, int(parts[2])) if len(parts) > 2 else date(year + month // 12, month % 12 + 1, 1)
    return (today - last).days > STALE_AFTER_DAYS
