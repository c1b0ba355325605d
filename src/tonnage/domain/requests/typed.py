"""Keyword arguments of the Python functions, generated from the requests; do not edit.

    python -m tonnage.questions.typed_requests > src/tonnage/domain/requests/typed.py

A plain number is in the unit that its type names; a text carries its own unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

__all__ = [
    "AccuracyFields",
    "AdoptFields",
    "BatchFields",
    "BudgetFields",
    "CalibrateFields",
    "FinetuneFields",
    "FitFields",
    "FleetFields",
    "InferFields",
    "LifecycleFields",
    "OwnFields",
    "PredictInferFields",
    "PredictRlFields",
    "PredictServeFields",
    "PredictTrainFields",
    "RentOrBuyFields",
    "RlFields",
    "ServeFields",
    "SimulateFields",
    "SweepFields",
    "TrainFields",
]

PerSecond = float | str
Seconds = float | str
Tokens = float | str
TokensPerSecond = float | str
Count = float | str
Whole = int | str
Fraction = float | str
Bytes = float | str
BytesPerSecond = float | str
Watts = float | str
WattHours = float | str
Usd = float | str
UsdPerHour = float | str
UsdPerYear = float | str
UsdPerKwh = float | str
UsdPerKwMonth = float | str
Years = float | str
Names = str | Sequence[str]
Entry = Mapping[str, Any]
Entries = Sequence[Mapping[str, Any]]


class ServeFields(TypedDict, total=False):
    """Answer requests as they come, under latency objectives."""

    prompt_tokens: Tokens | None
    output_tokens: Tokens | None
    traffic: str | None
    rate: PerSecond | None
    concurrency: Count | None
    users: Count | None
    think_time: Seconds | None
    reuse: bool | None
    prefix_hits: Fraction | None
    turns: Count | None
    turn_gap: Seconds | None
    system_prompt: Tokens | None
    branching: Fraction | None
    success_rate: Fraction | None
    kv_host: Bytes | None
    kv_host_link: BytesPerSecond | None
    kv_nvme: Bytes | None
    kv_nvme_link: BytesPerSecond | None
    kv_store: Bytes | None
    kv_store_link: BytesPerSecond | None
    images: Count | None
    image_size: str | None
    image_hits: Fraction | None
    distinct_images: Count | None
    ttft: Seconds | None
    tpot: Seconds | None
    e2e: Seconds | None
    percentile: Count | None
    confidence: Fraction | None
    peak_to_mean: Count | None
    day: Names | None
    on_for: Seconds | None
    off_for: Seconds | None
    precision: Names | None
    quality: Fraction | None
    kv_precision: str | None
    draft_acceptance: Fraction | None
    draft_tokens: Whole | None
    adapters: Whole | None
    adapter_rank: Whole | None
    adapter_skew: Count | None
    adapter_targets: str | None
    engine: Names | None
    accelerator: Names | None
    exclude: Names | None
    vendor: Names | None
    segment: Names | None
    provider: Names | None
    region: Names | None
    country: Names | None
    eu: bool | None
    ecc: bool | None
    nvlink: bool | None
    term: Names | None
    max_accelerators: Whole | None
    certification: Names | None
    max_power: Watts | None
    marketplace: bool | None
    community: bool | None
    mig: bool | None
    always_on: bool | None
    provider_kind: Names | None
    eu_owned: bool | None
    billing: Literal["second", "minute", "hour"] | None
    free_egress: bool | None
    provisioning: Seconds | None
    price: Names | None
    own: Names | None
    discount: Names | None
    quotes: Entries | None
    price_fall: Fraction | None
    headroom: Fraction | None
    spare_replicas: Whole | None
    zones: Whole | None
    idle_timeout: Seconds | None
    start_from: Literal["network", "disk", "cached"] | None
    cold_start: Seconds | None
    budget: UsdPerHour | None
    context: Tokens | None
    quick: bool | None
    pools: bool | None


class FinetuneFields(TypedDict, total=False):
    """Adapt a model to a data set."""

    method: Literal["full", "lora", "qlora", "dora"] | None
    objective: Literal["sft", "dpo", "kto", "orpo", "simpo", "reward"] | None
    reference: Literal["model", "cached"] | None
    tokens: Tokens | None
    examples: Count | None
    epochs: Count | None
    seq_len: Whole | None
    global_batch: Whole | None
    lora_rank: Whole | None
    deadline: Seconds | None
    budget: Usd | None
    confidence: Fraction | None
    precision: str | None
    optimizer: str | None
    restartable: bool | None
    accelerator: Names | None
    exclude: Names | None
    vendor: Names | None
    segment: Names | None
    provider: Names | None
    region: Names | None
    country: Names | None
    eu: bool | None
    ecc: bool | None
    nvlink: bool | None
    term: Names | None
    max_accelerators: Whole | None
    certification: Names | None
    max_power: Watts | None
    marketplace: bool | None
    community: bool | None
    mig: bool | None
    always_on: bool | None
    provider_kind: Names | None
    eu_owned: bool | None
    billing: Literal["second", "minute", "hour"] | None
    free_egress: bool | None
    provisioning: Seconds | None
    price: Names | None
    own: Names | None
    discount: Names | None
    quotes: Entries | None
    price_fall: Fraction | None
    count: Whole | None
    tokens_per_example: Tokens | None
    packed: bool | None
    image_px: Whole | None
    framework: str | None
    extend_context: bool | None
    validation: Fraction | None
    headroom: Fraction | None
    checkpoint: Literal["async", "sync"] | None
    spares: Whole | None


class TrainFields(TypedDict, total=False):
    """Pre-train on a token budget."""

    tokens: Tokens | None
    seq_len: Whole | None
    global_batch: Whole | None
    deadline: Seconds | None
    budget: Usd | None
    confidence: Fraction | None
    precision: str | None
    optimizer: str | None
    restartable: bool | None
    accelerator: Names | None
    exclude: Names | None
    vendor: Names | None
    segment: Names | None
    provider: Names | None
    region: Names | None
    country: Names | None
    eu: bool | None
    ecc: bool | None
    nvlink: bool | None
    term: Names | None
    max_accelerators: Whole | None
    certification: Names | None
    max_power: Watts | None
    marketplace: bool | None
    community: bool | None
    mig: bool | None
    always_on: bool | None
    provider_kind: Names | None
    eu_owned: bool | None
    billing: Literal["second", "minute", "hour"] | None
    free_egress: bool | None
    provisioning: Seconds | None
    price: Names | None
    own: Names | None
    discount: Names | None
    quotes: Entries | None
    price_fall: Fraction | None
    count: Whole | None
    framework: str | None
    extend_context: bool | None
    validation: Fraction | None
    headroom: Fraction | None
    checkpoint: Literal["async", "sync"] | None
    spares: Whole | None


class BatchFields(TypedDict, total=False):
    """Finish N items by a deadline. They are independent, so that spot prices are looked at, too."""

    items: Count | None
    prompt_tokens: Tokens | None
    output_tokens: Tokens | None
    traffic: str | None
    deadline: Seconds | None
    confidence: Fraction | None
    precision: Names | None
    quality: Fraction | None
    engine: Names | None
    accelerator: Names | None
    exclude: Names | None
    vendor: Names | None
    segment: Names | None
    provider: Names | None
    region: Names | None
    country: Names | None
    eu: bool | None
    ecc: bool | None
    nvlink: bool | None
    term: Names | None
    max_accelerators: Whole | None
    certification: Names | None
    max_power: Watts | None
    marketplace: bool | None
    community: bool | None
    mig: bool | None
    always_on: bool | None
    provider_kind: Names | None
    eu_owned: bool | None
    billing: Literal["second", "minute", "hour"] | None
    free_egress: bool | None
    provisioning: Seconds | None
    price: Names | None
    own: Names | None
    discount: Names | None
    quotes: Entries | None
    price_fall: Fraction | None
    budget: Usd | None


class LifecycleFields(TypedDict, total=False):
    """Make a model, then serve it for some time."""

    months: Count | None
    retrainings: Count | None
    quick: bool | None
    finetune: Entry | None
    train: Entry | None
    serve: Entry | None


class RlFields(TypedDict, total=False):
    """So many steps of PPO, GRPO, RLOO or DAPO on a model."""

    steps: Count | None
    response_tokens: Tokens | None
    max_response_tokens: Tokens | None
    prompt_tokens: Tokens | None
    algorithm: Literal["grpo", "rloo", "dapo", "ppo"] | None
    prompts_per_step: Whole | None
    responses_per_prompt: Whole | None
    train_batch: Whole | None
    staleness: Whole | None
    partial_rollouts: bool | None
    reference: bool | None
    kept: Fraction | None
    turns: Count | None
    environment: Seconds | None
    observation_tokens: Tokens | None
    reward: Seconds | None
    engine: str | None
    framework: str | None
    precision: str | None
    rollout_precision: str | None
    optimizer: str | None
    deadline: Seconds | None
    budget: Usd | None
    confidence: Fraction | None
    accelerator: Names | None
    exclude: Names | None
    vendor: Names | None
    segment: Names | None
    provider: Names | None
    region: Names | None
    country: Names | None
    eu: bool | None
    ecc: bool | None
    nvlink: bool | None
    term: Names | None
    max_accelerators: Whole | None
    certification: Names | None
    max_power: Watts | None
    marketplace: bool | None
    community: bool | None
    mig: bool | None
    always_on: bool | None
    provider_kind: Names | None
    eu_owned: bool | None
    billing: Literal["second", "minute", "hour"] | None
    free_egress: bool | None
    provisioning: Seconds | None
    price: Names | None
    own: Names | None
    discount: Names | None
    quotes: Entries | None
    price_fall: Fraction | None
    count: Whole | None
    rollout_count: Whole | None
    validation: Fraction | None
    headroom: Fraction | None
    checkpoint: Literal["async", "sync"] | None
    spares: Whole | None


class InferFields(TypedDict, total=False):
    """Samples that arrive at a rate, through a model that does not decode text."""

    rate: PerSecond | None
    audio: Count | None
    streams: Whole | None
    fps: Count | None
    frame: str | None
    codec: Literal["h264", "hevc"] | None
    every: Whole | None
    decode: Literal["accelerator", "host", "none"] | None
    confidence: Fraction | None
    latency: Seconds | None
    resolution: Whole | None
    seq_len: Whole | None
    steps: Whole | None
    frames: Whole | None
    beams: Whole | None
    precision: Names | None
    engine: str | None
    headroom: Fraction | None
    accelerator: Names | None
    exclude: Names | None
    vendor: Names | None
    segment: Names | None
    provider: Names | None
    region: Names | None
    country: Names | None
    eu: bool | None
    ecc: bool | None
    nvlink: bool | None
    term: Names | None
    max_accelerators: Whole | None
    certification: Names | None
    max_power: Watts | None
    marketplace: bool | None
    community: bool | None
    mig: bool | None
    always_on: bool | None
    provider_kind: Names | None
    eu_owned: bool | None
    billing: Literal["second", "minute", "hour"] | None
    free_egress: bool | None
    provisioning: Seconds | None
    price: Names | None
    own: Names | None
    discount: Names | None
    quotes: Entries | None
    price_fall: Fraction | None
    battery: WattHours | None
    hours: Count | None


class FleetFields(TypedDict, total=False):
    """Several workloads, and what may be had for them. Filters hold for all of them; a workload may narrow them."""

    slices: bool | None
    accelerator: Names | None
    exclude: Names | None
    vendor: Names | None
    segment: Names | None
    provider: Names | None
    region: Names | None
    country: Names | None
    eu: bool | None
    ecc: bool | None
    nvlink: bool | None
    term: Names | None
    max_accelerators: Whole | None
    certification: Names | None
    max_power: Watts | None
    marketplace: bool | None
    community: bool | None
    mig: bool | None
    always_on: bool | None
    provider_kind: Names | None
    eu_owned: bool | None
    billing: Literal["second", "minute", "hour"] | None
    free_egress: bool | None
    provisioning: Seconds | None
    price: Names | None
    discount: Names | None
    quotes: Entries | None
    price_fall: Fraction | None
    zones: Whole | None
    lost_zones: Whole | None
    budget: UsdPerHour | None
    confidence: Fraction | None
    max_kinds: Whole | None
    quick: bool | None
    workloads: Entries | None
    own: Entries | None
    quotas: Entries | None


class OwnFields(TypedDict, total=False):
    """What accelerators that are there serve best, what they share, and what is missing."""

    prompt_tokens: Tokens | None
    output_tokens: Tokens | None
    traffic: str | None
    reuse: bool | None
    prefix_hits: Fraction | None
    turns: Count | None
    turn_gap: Seconds | None
    system_prompt: Tokens | None
    branching: Fraction | None
    success_rate: Fraction | None
    kv_host: Bytes | None
    kv_host_link: BytesPerSecond | None
    kv_nvme: Bytes | None
    kv_nvme_link: BytesPerSecond | None
    kv_store: Bytes | None
    kv_store_link: BytesPerSecond | None
    images: Count | None
    image_size: str | None
    image_hits: Fraction | None
    distinct_images: Count | None
    percentile: Count | None
    confidence: Fraction | None
    precision: Names | None
    quality: Fraction | None
    kv_precision: str | None
    draft_acceptance: Fraction | None
    draft_tokens: Whole | None
    engine: Names | None
    accelerator: Names | None
    exclude: Names | None
    vendor: Names | None
    segment: Names | None
    provider: Names | None
    region: Names | None
    country: Names | None
    eu: bool | None
    ecc: bool | None
    nvlink: bool | None
    term: Names | None
    max_accelerators: Whole | None
    certification: Names | None
    max_power: Watts | None
    marketplace: bool | None
    community: bool | None
    mig: bool | None
    always_on: bool | None
    provider_kind: Names | None
    eu_owned: bool | None
    billing: Literal["second", "minute", "hour"] | None
    free_egress: bool | None
    provisioning: Seconds | None
    price: Names | None
    discount: Names | None
    quotes: Entries | None
    price_fall: Fraction | None
    headroom: Fraction | None
    spare_replicas: Whole | None
    zones: Whole | None
    idle_timeout: Seconds | None
    start_from: Literal["network", "disk", "cached"] | None
    cold_start: Seconds | None
    context: Tokens | None
    min_speed: TokensPerSecond | None
    host_memory: Bytes | None
    one_box: bool | None
    network: BytesPerSecond | None
    site_power: Watts | None
    rack_power: Watts | None
    electricity: UsdPerKwh | None
    workloads: Entries | None


class BudgetFields(TypedDict, total=False):
    """The largest load, the best model, or the best training run that an amount of money buys."""

    purpose: Literal["serving", "training", "finetuning"] | None
    prompt_tokens: Tokens | None
    output_tokens: Tokens | None
    traffic: str | None
    reuse: bool | None
    prefix_hits: Fraction | None
    turns: Count | None
    turn_gap: Seconds | None
    system_prompt: Tokens | None
    branching: Fraction | None
    success_rate: Fraction | None
    kv_host: Bytes | None
    kv_host_link: BytesPerSecond | None
    kv_nvme: Bytes | None
    kv_nvme_link: BytesPerSecond | None
    kv_store: Bytes | None
    kv_store_link: BytesPerSecond | None
    images: Count | None
    image_size: str | None
    image_hits: Fraction | None
    distinct_images: Count | None
    ttft: Seconds | None
    tpot: Seconds | None
    e2e: Seconds | None
    percentile: Count | None
    confidence: Fraction | None
    peak_to_mean: Count | None
    precision: Names | None
    quality: Fraction | None
    kv_precision: str | None
    draft_acceptance: Fraction | None
    draft_tokens: Whole | None
    adapters: Whole | None
    adapter_rank: Whole | None
    adapter_skew: Count | None
    adapter_targets: str | None
    engine: Names | None
    accelerator: Names | None
    exclude: Names | None
    vendor: Names | None
    segment: Names | None
    provider: Names | None
    region: Names | None
    country: Names | None
    eu: bool | None
    ecc: bool | None
    nvlink: bool | None
    term: Names | None
    max_accelerators: Whole | None
    certification: Names | None
    max_power: Watts | None
    marketplace: bool | None
    community: bool | None
    mig: bool | None
    always_on: bool | None
    provider_kind: Names | None
    eu_owned: bool | None
    billing: Literal["second", "minute", "hour"] | None
    free_egress: bool | None
    provisioning: Seconds | None
    price: Names | None
    own: Names | None
    discount: Names | None
    quotes: Entries | None
    price_fall: Fraction | None
    headroom: Fraction | None
    spare_replicas: Whole | None
    zones: Whole | None
    idle_timeout: Seconds | None
    start_from: Literal["network", "disk", "cached"] | None
    cold_start: Seconds | None
    context: Tokens | None
    rate: PerSecond | None
    tokens: Tokens | None
    deadline: Seconds | None


class FitFields(TypedDict, total=False):
    """What is asked. Absent = chosen, and said so in the answer."""

    serve: bool | None
    train: bool | None
    accelerator: Names | None
    context: Tokens | None
    concurrency: Whole | None
    batch: Whole | None
    seq_len: Tokens | None
    resolution: Whole | None
    precision: str | None
    kv: Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4", "nvfp4", "gguf-q8_0", "gguf-q4_0"] | None
    tp: Whole | None
    pp: Whole | None
    dp: Whole | None
    ep: Whole | None
    count: Whole | None
    engine: str | None
    engine_version: str | None
    finetune: Literal["full", "lora", "qlora", "dora"] | None
    optimizer: str | None
    recompute: Literal["none", "selective", "full"] | None
    sharding: Literal["none", "zero1", "zero2", "zero3", "fsdp", "hsdp"] | None
    lora_rank: Whole | None
    shared_prefix: Tokens | None
    kv_offload: Bytes | None
    extend_context: bool | None
    solve: Literal["context", "concurrency", "batch", "seq-len", "model"] | None
    task: Literal["chat", "code", "agent", "reasoning"] | None


class RentOrBuyFields(TypedDict, total=False):
    """What to compare: the machine, how much it is used, and which offers count."""

    utilisation: Fraction | None
    country: str | None
    accelerators: Count | None
    purchase: Usd | None
    power: Watts | None
    years: Years | None
    load: Fraction | None
    idle: Fraction | None
    pue: Count | None
    electricity: UsdPerKwh | None
    hosting: UsdPerKwMonth | None
    network: Usd | None
    storage: Usd | None
    staff: UsdPerYear | None
    spares: Fraction | None
    support: Fraction | None
    insurance: Fraction | None
    interest: Fraction | None
    resale_3y: Fraction | None
    interruptions: Count | None
    repair: Seconds | None
    provider: Names | None
    rent_country: Names | None
    eu: bool | None
    term: Names | None
    community: bool | None
    rent: UsdPerHour | None
    rent_decline: Fraction | None


class SimulateFields(TypedDict, total=False):
    """One configuration and its traffic."""

    model: str | None
    accelerator: str | None
    engine: str | None
    engine_version: str | None
    replicas: Whole | None
    router: Literal["round-robin", "least-loaded", "prefix-aware"] | None
    capacity: bool | None
    traffic: Entry | None
    layout: Entry | None
    slo: Entry | None
    scaling: Entry | None
    precision: Entry | None
    engine_options: Entry | None
    scheduler: Entry | None
    disaggregation: Entry | None


class AdoptFields(TypedDict, total=False):
    """A running deployment's own file, and what it does not say; absent = as the file says, or assumed and said so."""

    accelerator: str | None
    count: Whole | None
    replicas: Whole | None
    rate: PerSecond | None
    traffic: str | None
    prompt_tokens: Tokens | None
    output_tokens: Tokens | None
    ttft: Seconds | None
    tpot: Seconds | None
    e2e: Seconds | None
    percentile: Count | None
    tokens: Tokens | None
    provider: Names | None
    confidence: Fraction | None
    upgrade: str | None
    quick: bool | None


class CalibrateFields(TypedDict, total=False):
    """What ran. Absent = as each measurement says."""

    model: Names | None
    accelerator: str | None
    engine: str | None
    engine_version: str | None
    option: Names | None
    weights: str | None
    tp: Whole | None
    pp: Whole | None
    machine: str | None


class AccuracyFields(TypedDict, total=False):
    """Published measurements held against predictions. Absent = every usable row, by block alone."""

    block: Names | None
    limit: Whole | None
    by: Literal["engine", "accelerator", "family", "precision", "load"] | None
    leave_out: Literal["accelerator", "family", "engine", "source"] | None
    predictor: str | None
    layouts: bool | None
    workers: Whole | None


class SweepFields(TypedDict, total=False):
    """What a sweep file says, and where its questions are worked on."""

    sweep: Literal["plan", "fit", "simulate", "predict"] | None
    base: Entry | None
    grid: Entry | None
    take: Entry | None
    workers: Whole | None
    ray: str | None


class PredictServeFields(TypedDict, total=False):
    """One language model served by one engine on one accelerator type."""

    kind: Literal["serve"] | None
    model: str | Entry | None
    accelerator: str | None
    isl: float | None
    osl: float | None
    precision: Entry | None
    engine: str | None
    engine_version: str | None
    engine_options: Entry | None
    length_spread: Sequence[float] | None
    beams: int | None
    phase: Literal["both", "prefill", "decode", "encode"] | None
    split_mode: Literal["tensor", "layer"] | None
    accelerator_fraction: float | None
    replicas: int | None
    year: int | None
    id: str | None
    traffic: Entry | None
    layout: Entry | None
    links: Entry | None
    disaggregation: Entry | None
    sessions: Entry | None
    images: Entry | None


class PredictTrainFields(TypedDict, total=False):
    """One training configuration: a step on `count` accelerators."""

    kind: Literal["train"] | None
    model: str | Entry | None
    accelerator: str | None
    method: Literal["pretrain", "full", "lora", "qlora", "dora"] | None
    count: int | None
    accelerators_per_node: int | None
    precision: str | None
    weight_precision: str | None
    micro_batch: int | None
    batch: int | None
    global_batch: int | None
    seq_len: int | None
    mean_seq_len: float | None
    document_len: float | None
    predicted_share: float | None
    image_px: int | None
    resolution: int | None
    image_layout: Literal["channels-first", "channels-last"] | None
    recompute: Literal["none", "selective", "full"] | None
    recompute_share: float | None
    expert_load: float | None
    predicted_ahead: int | None
    fused_experts: bool | None
    optimizer: str | None
    master_weights: bool | None
    objective: Literal["sft", "dpo", "kto", "orpo", "simpo", "grpo", "reward"] | None
    reference: Literal["model", "cached"] | None
    grads_kept: bool | None
    flash_attention: bool | None
    offload: Literal["none", "optimizer", "all"] | None
    offload_activations: bool | None
    residual_precision: str | None
    gradient_precision: str | None
    loss: Literal["whole", "chunked", "fused"] | None
    lora_rank: int | None
    lora_targets: str | None
    trainable_parameters: float | None
    framework: str | None
    year: int | None
    accelerator_fraction: float | None
    memory_kind: Literal["allocated", "reserved", "device"] | None
    id: str | None
    links: Entry | None
    layout: Entry | None


class PredictInferFields(TypedDict, total=False):
    """One batch through a model that does not decode text: vision, encoder, diffusion, speech, recommender."""

    kind: Literal["infer"] | None
    model: str | Entry | None
    accelerator: str | None
    batch: int | None
    resolution: int | None
    steps: int | None
    seq_len: int | None
    frames: int | None
    audio_s: float | None
    beams: int | None
    precision: str | None
    engine: str | None
    engine_version: str | None
    engine_mode: str | None
    count: int | None
    tp: int | None
    saturated: bool | None
    rate_per_s: float | None
    flop: float | None
    activation_values: float | None
    accelerator_fraction: float | None
    year: int | None
    id: str | None
    links: Entry | None


class PredictRlFields(TypedDict, total=False):
    """One step of reinforcement learning on `count` accelerators of one type."""

    kind: Literal["rl"] | None
    model: str | Entry | None
    accelerator: str | None
    count: int | None
    prompts_per_step: int | None
    responses_per_prompt: int | None
    prompt_tokens: float | None
    response_tokens: float | None
    max_response_tokens: float | None
    algorithm: Literal["grpo", "rloo", "dapo", "ppo"] | None
    train_batch: int | None
    rollout_count: int | None
    staleness: int | None
    partial_rollouts: bool | None
    precision: str | None
    rollout_precision: Entry | None
    engine: str | None
    engine_options: Entry | None
    framework: str | None
    recompute: Literal["none", "selective", "full"] | None
    optimizer: str | None
    old_policy: bool | None
    reference: bool | None
    kept: float | None
    turns: float | None
    environment_s: float | None
    observation_tokens: float | None
    reward_s: float | None
    reward_cores: float | None
    lengths: str | None
    accelerators_per_node: int | None
    id: str | None
    rollout_layout: Entry | None
    train_layout: Entry | None
    links: Entry | None
