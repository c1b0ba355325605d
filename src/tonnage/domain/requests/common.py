"""Fields that several questions or kinds of case share: model, lengths, objectives, load, offers, accelerators."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from tonnage.domain.precision import Precision
from tonnage.domain.requests.field import (
    MAY_BE_NOTHING,
    Field,
    Group,
    accelerator_field,
    engine_field,
    objective_field,
    offer_field,
    search_field,
    training_field,
)
from tonnage.domain.requests.groups import Images
from tonnage.record import SparseRecord

CaseModel = Annotated[
    Any, engine_field("catalogue id, Hugging Face id, path, bare size, or an inline description", known="models")
]
RunsOn = Annotated[
    str, accelerator_field("what it runs on: id, name, or one of your own", known="names of accelerators")
]
EngineName = Annotated[str, engine_field("engine that runs it", known="engines")]
Release = Annotated[str | None, engine_field("release of the engine")]
EngineSettings = Annotated[dict[str, Any], engine_field("settings of the engine by name: max_num_seqs: 64", "mapping")]
Formats = Annotated[
    Precision | None,
    engine_field(
        "formats of weights, products and KV cache by name, or the weights' alone; absent = the checkpoint's own",
        "mapping",
    ),
]
Fraction = Annotated[
    float,
    accelerator_field(
        "share of the catalogue part that one counted device is: one die of an MI250X is 0.5", "fraction", high=1.0
    ),
]
PerNode = Annotated[int | None, accelerator_field("accelerators of one server", "integer")]
LINKS: Final = Group(name="links")
Year = Annotated[int | None, engine_field("when it ran; dates an engine whose version is not known", "integer")]
Recomputed = Annotated[
    Literal["none", "selective", "full"] | None,
    training_field("activations that are computed again in the backward pass"),
]
OptimizerName = Annotated[str, training_field("optimizer of the run", known="optimizers")]
CaseId = Annotated[str | None, Field("name that the answer repeats")]
CALIBRATION: Final = engine_field(
    "measurements that count: your own (nothing chosen), none, or published rows of the same stack as well",
    name="calibration",
    choices=("none", "published"),
)
"""Of every form whose answer may rest on measurements, as `--calibration` of every such command."""

DOCUMENT_LEN: Final = training_field(
    "mean length of the examples packed into a sequence, if attention stays inside each; absent = it does not", "tokens"
)
PREDICTED_AHEAD: Final = training_field(
    "tokens beyond the next that each position learns to predict, by a layer and a head each", "integer", low=-1.0
)
FUSED_EXPERTS: Final = training_field(
    "grouped products of experts in one kernel and the step one graph; absent = as the framework does", "flag"
)


class Quote(SparseRecord, kw_only=True):
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


TERMS: Final = ("on-demand", "spot", "reserved-1y", "reserved-3y", "block")

MODEL: Final = engine_field("catalogue id, Hugging Face id, path, or a bare size such as 13B", known="models")
FORMATS: Final = engine_field(
    "weight formats that may be used: bf16, fp8, int4, …", "list", name="precision", known="formats"
)
QUALITY: Final = engine_field(
    "share of the score as released that weights in fewer bits must keep, as published: 99 %",
    "fraction",
    name="quality",
    high=1.0,
)
CONFIDENCE: Final = objective_field(
    "least chance of meeting every objective at once: 80 %; the cheapest option with it is the plan",
    "fraction",
    low=0.01,
    high=0.99,
)
Confidence = Annotated[float, CONFIDENCE]
Quick = Annotated[bool, search_field("rank by averages alone, without simulating")]
ModelName = Annotated[str, MODEL]
ENGINES: Final = engine_field("serving engines to consider", "list", name="engine", known="planned engines")


class Lengths(SparseRecord, kw_only=True):
    """Prompt and output lengths: means and the quantiles that matter for memory and tails. [tokens]"""

    prompt_tokens: Annotated[float, Field("mean prompt length", "tokens", high=1e8)]
    output_tokens: Annotated[float, Field("mean answer length", "tokens", high=1e8)]
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
        Field("length profile: chat, code, rag, summarise, reasoning, agent, batch", name="traffic", known="profiles"),
    ] = None
    """Named traffic profile the lengths come from."""


class LoadShape(SparseRecord, kw_only=True):
    """How load varies; `peak_to_mean` of the hour or minute that matters."""

    kind: Literal["flat", "diurnal", "weekly", "bursty", "intermittent"] = "flat"
    peak_to_mean: Annotated[float, Field("peak rate over mean rate that must be served", low=0.999, high=1e4)] = 1.0
    dispersion: float = 1.0
    """Variance over mean of the arrivals in one second: 1 = Poisson, real chat 1.4, code completion 13. [-]"""
    hours_per_month: float = 730.0
    """Hours with any traffic. [h/month]"""
    name: str = ""
    """Built-in shape that the hours come from."""
    hours: Annotated[
        tuple[float, ...], Field("load by the hour: consumer, reasoning-week, … or 24 or 168 rates", "list", name="day")
    ] = ()
    """Rate of each hour relative to the mean: 24 of a day or 168 of a week; empty = not known."""
    on_s: Annotated[
        float | None, Field("intermittent load: mean length of a burst", "s", name="on_for", high=86400.0 * 30)
    ] = None
    """intermittent: mean length of a burst, and of the pause after it. [s]"""
    off_s: Annotated[
        float | None, Field("intermittent load: mean pause between bursts", "s", name="off_for", high=86400.0 * 365)
    ] = None


class Slo(SparseRecord, kw_only=True):
    """Latency objectives: thresholds with a percentile. [s]"""

    ttft_s: Annotated[
        float | None, objective_field("objective for the time to first token", "s", name="ttft", high=86400.0)
    ] = None
    tpot_s: Annotated[
        float | None, objective_field("objective for the time per output token", "s", name="tpot", high=3600.0)
    ] = None
    e2e_s: Annotated[float | None, objective_field("objective for the whole answer", "s", name="e2e", high=86400.0)] = (
        None
    )
    percentile: Annotated[float, objective_field("percentile the objectives hold at", low=49.9, high=99.9)] = 95.0


class Filters(SparseRecord, kw_only=True):
    """Hard constraints on accelerators and offers, the same for every kind of plan; absent = no constraint."""

    accelerators: Annotated[
        tuple[str, ...],
        accelerator_field("only these accelerators", name="accelerator", known="planned accelerators", short="-a"),
    ] = ()
    exclude_accelerators: Annotated[
        tuple[str, ...], accelerator_field("not these accelerators", name="exclude", known="accelerators")
    ] = ()
    vendors: Annotated[tuple[str, ...], accelerator_field("only these vendors", name="vendor", known="vendors")] = ()
    segments: Annotated[
        tuple[str, ...],
        accelerator_field(
            "only these segments",
            name="segment",
            choices=("datacenter", "cloud-only", "workstation", "consumer", "edge", "apple", "cpu"),
        ),
    ] = ()
    providers: Annotated[tuple[str, ...], offer_field("only these providers", name="provider", known="providers")] = ()
    regions: Annotated[tuple[str, ...], offer_field("only these regions", name="region", known="regions")] = ()
    countries: Annotated[
        tuple[str, ...], offer_field("only these countries: DE or Germany", name="country", known="countries")
    ] = ()
    eu: Annotated[bool | None, offer_field("only regions in the European Union")] = None
    ecc: Annotated[bool | None, accelerator_field("only memory with error correction")] = None
    nvlink: Annotated[bool | None, accelerator_field("only accelerators joined by a switched fast link")] = None
    terms: Annotated[tuple[str, ...], offer_field("prices that may be used", name="term", choices=TERMS)] = (
        "on-demand",
    )
    max_count: Annotated[
        int | None, accelerator_field("most accelerators in all", name="max_accelerators", high=1e6)
    ] = None
    """Most accelerators in all. [accelerators]"""
    certifications: Annotated[
        tuple[str, ...],
        offer_field(
            "provider states: gdpr, iso27001, …", name="certification", choices=("gdpr", "iso27001", "soc2", "hipaa")
        ),
    ] = ()
    max_power_w: Annotated[
        float | None, accelerator_field("power limit of one accelerator", "W", name="max_power", high=1e6)
    ] = None
    marketplace: Annotated[bool, offer_field("include offers whose source states no licence")] = True
    community: Annotated[bool, offer_field("include community marketplaces, auctions and brokers")] = False
    """They promise no service level."""
    mig: Annotated[bool | None, accelerator_field("only accelerators that split into slices")] = None
    """Parts that split into slices with memory and bandwidth of their own."""
    always_on: Annotated[bool | None, accelerator_field("meant to work around the clock: no consumer accelerators")] = (
        None
    )
    """Parts built and licensed to work around the clock in a data centre."""
    provider_kinds: Annotated[
        tuple[str, ...],
        offer_field(
            "only providers of this kind",
            name="provider_kind",
            choices=("hyperscaler", "neocloud", "serverless", "marketplace", "hosting", "bare-metal", "eu-cloud"),
        ),
    ] = ()
    eu_owned: Annotated[bool | None, offer_field("only providers owned in the European Union")] = None
    """Providers that belong to a company of the European Union, out of reach of other countries' orders."""
    billing_step_s: Annotated[
        float | None,
        offer_field(
            "time is billed in steps no longer than this",
            name="billing",
            means={"second": 1.0, "minute": 60.0, "hour": 3600.0},
        ),
    ] = None
    """Coarsest step that time may be billed in. [s]"""
    free_egress: Annotated[bool | None, offer_field("only providers that state no charge for bytes that leave")] = None
    provisioning_s: Annotated[
        float | None,
        offer_field("longest wait for an instance, as published", "s", name="provisioning", high=86400.0 * 365),
    ] = None
    """Longest time from the order to the instance, as published. [s]"""
    own_prices: Annotated[
        tuple[str, ...],
        offer_field("your own price of an accelerator-hour, on machines of its usual size: H100=$2.10/h", name="price"),
    ] = ()
    """"ID=USD/h"; they pass every filter on offers."""
    owned: Annotated[
        tuple[str, ...],
        accelerator_field("only what is there already, at the price of its power: 8 x A100 80GB, 4 x L40S", name="own"),
    ] = ()
    """Groups as they are written; `core.stock` reads them."""
    discounts: Annotated[
        tuple[str, ...], offer_field("what a provider takes off its prices for you: aws=30 %", name="discount")
    ] = ()
    """"PROVIDER=share"."""
    quotes: Annotated[
        tuple[Quote, ...],
        offer_field(
            "offers that sellers made to you, with term, minimum, ramp: a file on the command line",
            "entries",
            entries=Quote,
        ),
    ] = ()
    """They pass every filter on offers."""
    price_fall: Annotated[
        float | None,
        offer_field(
            "yearly fall of on-demand prices that commitments are weighed against; else by dated prices: 15 %",
            "fraction",
            low=-1.0,
            high=0.9,
        ),
    ] = None
    """Yearly; below 0 = prices rise. [1/year]"""
