"""What the user wants done: serve, batch, train, fine-tune."""

from __future__ import annotations

from typing import Literal

import msgspec

from tonnage.domain.layout import SERVING_ENGINE

__all__ = ["Batch", "Filters", "FineTune", "Lengths", "LoadShape", "Serve", "Slo", "Train"]


class Lengths(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Prompt and output lengths: means and the quantiles that matter for memory and tails. [tokens]"""

    prompt_tokens: float
    output_tokens: float
    prompt_p95: float | None = None
    output_p95: float | None = None
    spread: tuple[float, float] | None = None
    """Uniform draw between these fractions of nominal, as benchmarks do; absent = fixed or by profile."""
    profile: str | None = None
    """Named traffic profile the lengths come from."""


class LoadShape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How load varies; `peak_to_mean` of the hour or minute that matters."""

    kind: Literal["flat", "diurnal", "weekly", "bursty", "intermittent"] = "flat"
    peak_to_mean: float = 1.0
    dispersion: float = 1.0
    """Variance over mean of the arrivals in one second: 1 = Poisson, real chat 1.4, code completion 13. [-]"""
    hours_per_month: float = 730.0
    """Hours with any traffic. [h/month]"""
    name: str = ""
    """Built-in shape that the hours come from."""
    hours: tuple[float, ...] = ()
    """Rate of each hour relative to the mean: 24 of a day or 168 of a week; empty = not known."""
    on_s: float | None = None
    """intermittent: mean length of a burst, and of the pause after it. [s]"""
    off_s: float | None = None


class Slo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Latency objectives: thresholds with a percentile. [s]"""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    percentile: float = 95.0


class Filters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hard constraints on accelerators and offers; absent = no constraint."""

    accelerators: tuple[str, ...] = ()
    exclude_accelerators: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    countries: tuple[str, ...] = ()
    eu: bool | None = None
    ecc: bool | None = None
    nvlink: bool | None = None
    terms: tuple[str, ...] = ("on-demand",)
    """Prices that may be used: on-demand, spot, reserved-1y, reserved-3y."""
    max_count: int | None = None
    """Most accelerators in all. [accelerators]"""
    certifications: tuple[str, ...] = ()
    """gdpr, iso27001, soc2, hipaa: vendor statements."""
    max_power_w: float | None = None
    marketplace: bool = True
    """Include offers whose sources state no licence."""
    community: bool = False
    """Include marketplaces, auctions and brokers, which promise no service level."""
    mig: bool | None = None
    """Parts that split into slices with memory and bandwidth of their own."""
    always_on: bool | None = None
    """Parts built and licensed to work around the clock in a data centre."""
    provider_kinds: tuple[str, ...] = ()
    """hyperscaler, neocloud, serverless …: what the provider table calls them."""
    eu_owned: bool | None = None
    """Providers that belong to a company of the European Union, out of reach of other countries' orders."""
    billing_step_s: float | None = None
    """Coarsest step that time may be billed in. [s]"""
    free_egress: bool | None = None
    """Providers that charge nothing for bytes that leave."""
    provisioning_s: float | None = None
    """Longest time from the order to the instance, as published. [s]"""


class Serve(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="serve"):
    """Answer requests as they come, under latency objectives."""

    model: str
    lengths: Lengths
    rate_per_s: float | None = None
    concurrency: float | None = None
    users: float | None = None
    slo: Slo = Slo()
    shape: LoadShape = LoadShape()
    precisions: tuple[str, ...] = ()
    """Weight formats that may be used; empty = the checkpoint's own and FP8 where the part multiplies it."""
    quality_floor: float | None = None
    """Share of the score as released that other formats must keep by published evaluations. [-]"""
    kv_precision: str | None = None
    engines: tuple[str, ...] = (SERVING_ENGINE,)
    filters: Filters = Filters()
    headroom: float = 0.25
    """Share of capacity kept free at peak. [-]"""
    spare_replicas: int = 0
    zones: int = 1
    """Zones that replicas are spread over evenly; from two on, the load survives the loss of one."""
    idle_timeout_s: float = 900.0
    """Scale to zero switches off so long after the last request. [s]"""
    start_from: Literal["network", "disk", "cached"] = "network"
    """Where a new replica finds its weights, and compiled code."""
    cold_start_s: float | None = None
    """From the decision to start a replica until its first token; absent = reckoned. [s]"""
    budget_usd_per_h: float | None = None
    max_context: int | None = None
    quick: bool = False
    """Rank by the mean field alone, without simulating."""
    pools: bool = False
    """Also look for workers of their own for prompts and for answers."""


class Batch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="batch"):
    """Finish N items by a deadline, as cheaply as possible."""

    model: str
    items: float
    lengths: Lengths
    deadline_s: float | None = None
    precisions: tuple[str, ...] = ()
    quality_floor: float | None = None
    """Share of the score as released that other formats must keep by published evaluations. [-]"""
    engines: tuple[str, ...] = (SERVING_ENGINE,)
    filters: Filters = Filters()
    budget_usd: float | None = None


class Train(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="train"):
    """Pre-train on a token budget."""

    model: str
    tokens: float
    seq_len: int | None = None
    """Absent = 4,096, or what the model takes if that is less. [tokens]"""
    global_batch: int | None = None
    deadline_s: float | None = None
    budget_usd: float | None = None
    precision: str = "bf16"
    optimizer: str = "adamw"
    restartable: bool = True
    filters: Filters = Filters()
    count: int | None = None
    """Accelerators, when the user fixes it."""
    framework: str | None = None
    """Software that runs it; absent = what such jobs usually run on."""
    validation: float = 0.01
    """Time of validation over that of training. [-]"""
    headroom: float = 0.1
    """Time kept for retries and experiments over that of the run. [-]"""
    checkpoint: Literal["async", "sync"] = "async"
    spares: int | None = None
    """Instances beyond the job's own; absent = enough for 95 % of failures at once on large jobs."""


class FineTune(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="finetune"):
    """Adapt a model to a data set."""

    model: str
    method: Literal["full", "lora", "qlora", "dora"] = "lora"
    tokens: float | None = None
    examples: float | None = None
    epochs: float = 1.0
    seq_len: int = 2048
    global_batch: int | None = None
    lora_rank: int = 16
    deadline_s: float | None = None
    budget_usd: float | None = None
    precision: str = "bf16"
    optimizer: str = "adamw"
    restartable: bool = True
    filters: Filters = Filters()
    count: int | None = None
    tokens_per_example: float | None = None
    """Mean length of an example. [tokens]"""
    packed: bool = True
    """Examples share sequences of `seq_len`; otherwise each is padded to a sequence of its own."""
    image_px: int | None = None
    """Side of an image, for networks that take one. [px]"""
    framework: str | None = None
    validation: float = 0.02
    headroom: float = 0.1
    checkpoint: Literal["async", "sync"] = "async"
    spares: int | None = None
