"""Machine-readable cases: one JSON object in, one out (`tonnage predict`).

A case fixes everything that a plan searches over: one model on one accelerator in one layout. The
names are published and never change; new fields may be added. `tonnage accuracy` turns every
measured row into a case, so what is scored is what users call.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tonnage.domain.answer import Quantity
from tonnage.domain.breakdown import Node
from tonnage.domain.layout import NETWORK_ENGINE, SERVING_ENGINE, Disaggregation, Layout
from tonnage.domain.precision import Precision

__all__ = [
    "Case",
    "InferCase",
    "InferResult",
    "Latency",
    "Links",
    "Result",
    "ServeCase",
    "ServeResult",
    "Traffic",
    "TrainCase",
    "TrainCaseLayout",
    "TrainResult",
]


class Links(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Links inside a node and between nodes, when they differ from the accelerator's usual ones."""

    intra: str | None = None
    """nvlink, pcie, pcie-host (through host memory: the accelerators do not reach each other), xgmi, ici, none."""
    inter_bytes_per_s: float | None = None
    """Network between nodes, per accelerator, one direction. [bytes/s]"""


class Traffic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    Load of a serving case; one of the forms.

    `concurrency` clients in a closed loop; `rate_per_s` open-loop Poisson arrivals; `batch` with
    `static` one batch started together, without it all requests sent at once; `saturated` as many
    as it takes; `trace` a request log.
    """

    concurrency: float | None = None
    rate_per_s: float | None = None
    batch: int | None = None
    static: bool = False
    saturated: bool = False
    trace: str | None = None
    requests_per_client: int | None = None
    num_requests: int | None = None


class ServeCase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="serve"):
    """One language model served by one engine on one accelerator type."""

    model: Any
    """Catalogue id, Hugging Face id, path, bare size, or an inline description."""
    accelerator: str
    traffic: Traffic
    isl: float
    osl: float
    layout: Layout = Layout()
    precision: Precision | None = None
    """Absent = the checkpoint's own formats and the engine's default KV format."""
    engine: str = SERVING_ENGINE
    engine_version: str | None = None
    engine_options: dict[str, Any] = {}
    length_spread: tuple[float, float] | None = None
    links: Links = Links()
    disaggregation: Disaggregation | None = None
    phase: Literal["both", "prefill", "decode", "encode"] = "both"
    split_mode: Literal["tensor", "layer"] = "tensor"
    accelerator_fraction: float = 1.0
    """Share of the catalogue part that one counted device is (one die of an MI250X: 0.5)."""
    replicas: int = 1
    """Independent copies that share the load."""
    year: int | None = None
    """When it ran; dates an engine whose version is not known."""
    id: str | None = None


class TrainCaseLayout(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Degrees as stated; an absent one is chosen by the planner, which says so."""

    tp: int | None = None
    pp: int | None = None
    vpp: int | None = None
    cp: int | None = None
    ep: int | None = None
    dp: int | None = None
    sharding: str | None = None
    schedule: Literal["1f1b", "zb-h1", "zb-h2", "dualpipe"] | None = None
    async_tp: bool = False


class TrainCase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="train"):
    """One training configuration: a step on `count` accelerators."""

    model: Any
    accelerator: str
    method: Literal["pretrain", "full", "lora", "qlora", "dora"] = "pretrain"
    count: int = 1
    accelerators_per_node: int | None = None
    links: Links = Links()
    layout: TrainCaseLayout = TrainCaseLayout()
    precision: str = "bf16"
    """What the products are computed in: fp32, tf32, fp16, bf16, fp8."""
    weight_precision: str | None = None
    """How the weights used in the forward pass are held; absent = follows `precision`."""
    micro_batch: int | None = None
    global_batch: int | None = None
    seq_len: int | None = None
    image_px: int | None = None
    recompute: Literal["none", "selective", "full"] | None = None
    recompute_share: float | None = None
    """Share of the layers that full recompute covers: 0.5 is every second one; absent = all, or as memory needs."""
    expert_load: float = 1.0
    """Tokens of the fullest rank of experts over the mean: 1 = balanced, or the capacity factor; more = dropless."""
    optimizer: str = "adamw"
    master_weights: bool | None = None
    objective: Literal["sft", "dpo", "kto", "orpo", "simpo", "reward"] = "sft"
    """Next tokens, or preferences; a micro-batch then counts examples, which are pairs of sequences but for kto."""
    reference: Literal["model", "cached"] = "model"
    """Of dpo and kto: a frozen model beside the policy, or its log-probabilities from before the run."""
    grads_kept: bool = True
    """False = the optimizer runs inside the backward pass and gradients are never all held."""
    flash_attention: bool | None = None
    offload: Literal["none", "optimizer", "all"] = "none"
    """Kept in host memory: nothing, optimizer and master copy, or weights and gradients as well."""
    lora_rank: int = 16
    lora_targets: str | None = None
    trainable_parameters: float | None = None
    framework: str | None = None
    """megatron, composer, pytorch, torchtitan, torchtune, litgpt, maxtext, deepspeed, hf …"""
    year: int | None = None
    accelerator_fraction: float = 1.0
    memory_kind: Literal["allocated", "reserved", "device"] = "reserved"
    """What `memory_peak_bytes` means: allocator's own peak, with its cache, or as the driver shows it."""
    id: str | None = None


class InferCase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="infer"):
    """One batch through a model that does not decode text: vision, encoder, diffusion, speech, recommender."""

    model: Any
    accelerator: str
    batch: int = 1
    resolution: int | None = None
    steps: int | None = None
    seq_len: int | None = None
    frames: int | None = None
    """Of a video clip that is generated."""
    beams: int = 1
    """Hypotheses that a speech decoder keeps beside each other."""
    precision: str = "fp16"
    engine: str = NETWORK_ENGINE
    engine_version: str | None = None
    engine_mode: str | None = None
    count: int = 1
    tp: int = 1
    saturated: bool = False
    """Throughput of many batches in flight rather than the latency of one."""
    rate_per_s: float | None = None
    """Samples that arrive per second over all accelerators, when a rate and not a batch drives it. [1/s]"""
    flop: float | None = None
    """FLOP of one sample where the case knows it better than the catalogue. [FLOP]"""
    activation_values: float | None = None
    accelerator_fraction: float = 1.0
    links: Links = Links()
    year: int | None = None
    id: str | None = None


Case = ServeCase | TrainCase | InferCase


class Latency(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    A latency over requests; `low` and `high` bound the mean (90 %). [s]

    Where more arrives than is served, `high` is infinite (null in JSON): a wait that grows as long as this lasts.
    """

    mean: float
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    low: float | None = None
    high: float | None = None


class ServeResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="serve"):
    """Prediction for a serving case; time fields are absent when it does not fit."""

    fits: bool
    basis: str
    memory: dict[str, Any] | None = None
    kv_cache_tokens: float | None = None
    ttft_s: Latency | None = None
    tpot_s: Latency | None = None
    e2e_s: Latency | None = None
    output_tokens_per_s: Quantity | None = None
    total_tokens_per_s: Quantity | None = None
    requests_per_s: Quantity | None = None
    saturated: bool | None = None
    level: str = ""
    """What the width of the intervals was looked up by: basis, load, structure and software, joined by colons."""
    why: str = ""
    notes: tuple[str, ...] = ()
    opened: tuple[Node, ...] = ()
    """The numbers down to operators and overheads; only where it was asked for."""
    id: str | None = None


class TrainResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="train"):
    """Prediction for a training case."""

    fits: bool
    basis: str
    step_s: Quantity | None = None
    tokens_per_s_per_accelerator: Quantity | None = None
    samples_per_s_per_accelerator: Quantity | None = None
    mfu: float | None = None
    memory_peak_bytes: Quantity | None = None
    layout: dict[str, Any] | None = None
    """Every degree used, the chosen ones included."""
    level: str = ""
    """What the width of the intervals was looked up by: basis, load, structure and software, joined by colons."""
    why: str = ""
    notes: tuple[str, ...] = ()
    opened: tuple[Node, ...] = ()
    """The numbers down to operators and overheads; only where it was asked for."""
    id: str | None = None


class InferResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="infer"):
    """Prediction for a batch through a non-decoding model."""

    fits: bool
    basis: str
    samples_per_s: Quantity | None = None
    latency_s: Quantity | None = None
    step_s: Quantity | None = None
    """Diffusion: one denoising iteration."""
    memory: Quantity | None = None
    level: str = ""
    """What the width of the intervals was looked up by: basis, load, structure and software, joined by colons."""
    why: str = ""
    notes: tuple[str, ...] = ()
    id: str | None = None


Result = ServeResult | TrainResult | InferResult
