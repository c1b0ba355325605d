"""Fields that several questions share: the model, lengths, objectives, the shape of a load, offers and accelerators."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from tonnage.domain.requests.field import Field
from tonnage.domain.requests.images import Images
from tonnage.domain.requests.quotes import Quote

__all__ = ["CONFIDENCE", "ENGINES", "FORMATS", "MODEL", "QUALITY", "TERMS", "Filters", "Lengths", "LoadShape", "Slo"]

TERMS: Final = ("on-demand", "spot", "reserved-1y", "reserved-3y", "block")

MODEL: Final = Field(
    group="Model and engine", known="models", help="catalogue id, Hugging Face id, path, or a bare size such as 13B"
)
FORMATS: Final = Field(
    name="precision",
    reads="list",
    group="Model and engine",
    known="formats",
    help="weight formats that may be used: bf16, fp8, int4, …",
)
QUALITY: Final = Field(
    name="quality",
    reads="fraction",
    group="Model and engine",
    high=1.0,
    help="share of the score as released that weights in fewer bits must keep, as published: 99 %",
)
CONFIDENCE: Final = Field(
    reads="fraction",
    group="Objectives",
    low=0.01,
    high=0.99,
    help="least chance of meeting every objective at once: 80 %; the cheapest option with it is the plan",
)
ENGINES: Final = Field(
    name="engine", reads="list", group="Model and engine", known="planned engines", help="serving engines to consider"
)


class Lengths(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Prompt and output lengths: means and the quantiles that matter for memory and tails. [tokens]"""

    prompt_tokens: Annotated[float, Field(reads="tokens", help="mean prompt length", high=1e8)]
    output_tokens: Annotated[float, Field(reads="tokens", help="mean answer length", high=1e8)]
    prompt_p95: float | None = None
    output_p95: float | None = None
    computed_tokens: float | None = None
    """Of a prompt, what no cache gives; absent = all of it. [tokens]"""
    computed_p95: float | None = None
    prompts: tuple[tuple[float, float, float], ...] = ()
    """How sessions' prompts spread: share of the requests, tokens to compute, tokens found. [-, tokens, tokens]"""
    spread: tuple[float, float] | None = None
    """Uniform draw between these fractions of nominal, as benchmarks do; absent = fixed or by profile."""
    images: Images | None = None
    """Of a request; their tokens are in `prompt_tokens`."""
    profile: Annotated[
        str | None,
        Field(
            name="traffic", known="profiles", help="length profile: chat, code, rag, summarise, reasoning, agent, batch"
        ),
    ] = None
    """Named traffic profile the lengths come from."""


class LoadShape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How load varies; `peak_to_mean` of the hour or minute that matters."""

    kind: Literal["flat", "diurnal", "weekly", "bursty", "intermittent"] = "flat"
    peak_to_mean: Annotated[
        float, Field(reads="count", low=0.999, high=1e4, help="peak rate over mean rate that must be served")
    ] = 1.0
    dispersion: float = 1.0
    """Variance over mean of the arrivals in one second: 1 = Poisson, real chat 1.4, code completion 13. [-]"""
    hours_per_month: float = 730.0
    """Hours with any traffic. [h/month]"""
    name: str = ""
    """Built-in shape that the hours come from."""
    hours: Annotated[
        tuple[float, ...],
        Field(name="day", reads="list", help="load by the hour: consumer, reasoning-week, … or 24 or 168 rates"),
    ] = ()
    """Rate of each hour relative to the mean: 24 of a day or 168 of a week; empty = not known."""
    on_s: Annotated[
        float | None,
        Field(name="on_for", reads="s", high=86400.0 * 30, help="intermittent load: mean length of a burst"),
    ] = None
    """intermittent: mean length of a burst, and of the pause after it. [s]"""
    off_s: Annotated[
        float | None,
        Field(name="off_for", reads="s", high=86400.0 * 365, help="intermittent load: mean pause between bursts"),
    ] = None


class Slo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Latency objectives: thresholds with a percentile. [s]"""

    ttft_s: Annotated[
        float | None,
        Field(name="ttft", reads="s", group="Objectives", high=86400.0, help="objective for the time to first token"),
    ] = None
    tpot_s: Annotated[
        float | None,
        Field(name="tpot", reads="s", group="Objectives", high=3600.0, help="objective for the time per output token"),
    ] = None
    e2e_s: Annotated[
        float | None,
        Field(name="e2e", reads="s", group="Objectives", high=86400.0, help="objective for the whole answer"),
    ] = None
    percentile: Annotated[
        float, Field(reads="count", group="Objectives", low=49.9, high=99.9, help="percentile the objectives hold at")
    ] = 95.0


class Filters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hard constraints on accelerators and offers, the same for every kind of plan; absent = no constraint."""

    accelerators: Annotated[
        tuple[str, ...],
        Field(
            name="accelerator",
            reads="list",
            group="Accelerators",
            known="planned accelerators",
            short="-a",
            help="only these accelerators",
        ),
    ] = ()
    exclude_accelerators: Annotated[
        tuple[str, ...],
        Field(name="exclude", reads="list", group="Accelerators", known="accelerators", help="not these accelerators"),
    ] = ()
    vendors: Annotated[
        tuple[str, ...],
        Field(name="vendor", reads="list", group="Accelerators", known="vendors", help="only these vendors"),
    ] = ()
    segments: Annotated[
        tuple[str, ...],
        Field(
            name="segment",
            reads="list",
            group="Accelerators",
            help="only these segments",
            choices=("datacenter", "cloud-only", "workstation", "consumer", "edge", "apple", "cpu"),
        ),
    ] = ()
    providers: Annotated[
        tuple[str, ...],
        Field(name="provider", reads="list", group="Offers", known="providers", help="only these providers"),
    ] = ()
    regions: Annotated[
        tuple[str, ...], Field(name="region", reads="list", group="Offers", known="regions", help="only these regions")
    ] = ()
    countries: Annotated[
        tuple[str, ...],
        Field(
            name="country", reads="list", group="Offers", known="countries", help="only these countries (two letters)"
        ),
    ] = ()
    eu: Annotated[bool | None, Field(reads="flag", group="Offers", help="only regions in the European Union")] = None
    ecc: Annotated[bool | None, Field(reads="flag", group="Accelerators", help="only memory with error correction")] = (
        None
    )
    nvlink: Annotated[
        bool | None, Field(reads="flag", group="Accelerators", help="only accelerators joined by a switched fast link")
    ] = None
    terms: Annotated[
        tuple[str, ...], Field(name="term", reads="list", group="Offers", choices=TERMS, help="prices that may be used")
    ] = ("on-demand",)
    max_count: Annotated[
        int | None,
        Field(
            name="max_accelerators", reads="integer", group="Accelerators", high=1e6, help="most accelerators in all"
        ),
    ] = None
    """Most accelerators in all. [accelerators]"""
    certifications: Annotated[
        tuple[str, ...],
        Field(
            name="certification",
            reads="list",
            group="Offers",
            choices=("gdpr", "iso27001", "soc2", "hipaa"),
            help="provider states: gdpr, iso27001, …",
        ),
    ] = ()
    max_power_w: Annotated[
        float | None,
        Field(name="max_power", reads="W", group="Accelerators", high=1e6, help="power limit of one accelerator"),
    ] = None
    marketplace: Annotated[
        bool, Field(reads="flag", group="Offers", help="include offers whose source states no licence")
    ] = True
    community: Annotated[
        bool, Field(reads="flag", group="Offers", help="include community marketplaces, auctions and brokers")
    ] = False
    """They promise no service level."""
    mig: Annotated[
        bool | None, Field(reads="flag", group="Accelerators", help="only accelerators that split into slices")
    ] = None
    """Parts that split into slices with memory and bandwidth of their own."""
    always_on: Annotated[
        bool | None,
        Field(reads="flag", group="Accelerators", help="meant to work around the clock: no consumer accelerators"),
    ] = None
    """Parts built and licensed to work around the clock in a data centre."""
    provider_kinds: Annotated[
        tuple[str, ...],
        Field(
            name="provider_kind",
            reads="list",
            group="Offers",
            help="only providers of this kind",
            choices=("hyperscaler", "neocloud", "serverless", "marketplace", "hosting", "bare-metal", "eu-cloud"),
        ),
    ] = ()
    eu_owned: Annotated[
        bool | None, Field(reads="flag", group="Offers", help="only providers owned in the European Union")
    ] = None
    """Providers that belong to a company of the European Union, out of reach of other countries' orders."""
    billing_step_s: Annotated[
        float | None,
        Field(
            name="billing",
            group="Offers",
            means={"second": 1.0, "minute": 60.0, "hour": 3600.0},
            help="time is billed in steps no longer than this",
        ),
    ] = None
    """Coarsest step that time may be billed in. [s]"""
    free_egress: Annotated[
        bool | None,
        Field(reads="flag", group="Offers", help="only providers that state no charge for bytes that leave"),
    ] = None
    provisioning_s: Annotated[
        float | None,
        Field(
            name="provisioning",
            reads="s",
            group="Offers",
            high=86400.0 * 365,
            help="longest wait for an instance, as published",
        ),
    ] = None
    """Longest time from the order to the instance, as published. [s]"""
    own_prices: Annotated[
        tuple[str, ...],
        Field(
            name="price",
            reads="list",
            group="Offers",
            help="your own price of an accelerator-hour, on machines of its usual size: H100=$2.10/h",
        ),
    ] = ()
    """"ID=USD/h"; they pass every filter on offers."""
    owned: Annotated[
        tuple[str, ...],
        Field(
            name="own",
            reads="list",
            group="Accelerators",
            help="only what is there already, at the price of its power: 8 x A100 80GB, 4 x L40S",
        ),
    ] = ()
    """Groups as they are written; `planning.own.stock` reads them."""
    discounts: Annotated[
        tuple[str, ...],
        Field(
            name="discount", reads="list", group="Offers", help="what a provider takes off its prices for you: aws=30 %"
        ),
    ] = ()
    """"PROVIDER=share"."""
    quotes: Annotated[
        tuple[Quote, ...],
        Field(
            reads="entries",
            group="Offers",
            entries=Quote,
            help="offers that sellers made to you, with term, minimum, ramp: a file on the command line",
        ),
    ] = ()
    """They pass every filter on offers."""
    price_fall: Annotated[
        float | None,
        Field(
            reads="fraction",
            group="Offers",
            low=-1.0,
            high=0.9,
            help="yearly fall of on-demand prices that commitments are weighed against; else by dated prices: 15 %",
        ),
    ] = None
    """Yearly; below 0 = prices rise. [1/year]"""
