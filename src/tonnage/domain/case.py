"""Machine-readable cases: one JSON object in, one out (`tonnage predict`).

A case fixes everything that a plan searches over: one model on one accelerator in one layout. The
names are published and never change; new fields may be added. `tonnage accuracy` turns every
measured row into a case, so what is scored is what users call.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from tonnage.domain.answer import Quantity
from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.layout import NETWORK_ENGINE, SERVING_ENGINE, Disaggregation, Layout
from tonnage.domain.requests.common import (
    DOCUMENT_LEN,
    FUSED_EXPERTS,
    LINKS,
    PREDICTED_AHEAD,
    CaseId,
    CaseModel,
    EngineName,
    EngineSettings,
    Formats,
    Fraction,
    OptimizerName,
    PerNode,
    Recomputed,
    Release,
    RunsOn,
    Year,
)
from tonnage.domain.requests.field import (
    MAY_BE_NOTHING,
    Field,
    Group,
    accelerator_field,
    engine_field,
    layout_field,
    training_field,
)
from tonnage.domain.requests.groups import Images, SessionFields
from tonnage.domain.sessions import PrefixReuse
from tonnage.record import SparseRecord


class Links(SparseRecord, kw_only=True):
    """Links inside a node and between nodes, when they differ from the accelerator's usual ones."""

    intra: Annotated[
        str | None, accelerator_field("nvlink, pcie, pcie-host (through host memory), xgmi, ici or none")
    ] = None
    inter_bytes_per_s: Annotated[
        float | None, accelerator_field("network between nodes, per accelerator, one direction", "bytes/s")
    ] = None


class Traffic(SparseRecord, kw_only=True):
    """
    Load of a serving case; one of the forms.

    `concurrency` clients in a closed loop; `rate_per_s` open-loop Poisson arrivals; `batch` with
    `static` one batch started together, without it all requests sent at once; `saturated` as many
    as it takes; `trace` a request log.
    """

    concurrency: Annotated[float | None, Field("clients in a closed loop")] = None
    rate_per_s: Annotated[float | None, Field("requests that arrive, open-loop Poisson", "1/s")] = None
    batch: Annotated[int | None, Field("requests sent at once")] = None
    static: Annotated[bool, Field("the batch starts together and ends together")] = False
    saturated: Annotated[bool, Field("as many requests as it takes")] = False
    trace: Annotated[str | None, Field("a request log to play")] = None
    requests_per_client: Annotated[int | None, Field("requests that each client of the loop sends")] = None
    start: Annotated[
        Literal["spread", "together"] | None,
        Field("clients: spread, as of a service, or all at once, as a benchmark starts and as its means then hold"),
    ] = None
    """Absent = together where `requests_per_client` is stated, for that is a run; else spread."""
    num_requests: Annotated[int | None, Field("requests of the run")] = None


class ServeCase(SparseRecord, kw_only=True, tag_field="kind", tag="serve"):
    """One language model served by one engine on one accelerator type."""

    model: CaseModel
    accelerator: RunsOn
    traffic: Annotated[Traffic, Group(name="traffic")]
    isl: Annotated[float, Field("mean prompt length", "tokens", low=MAY_BE_NOTHING)]
    osl: Annotated[float, Field("mean answer length", "tokens")]
    layout: Annotated[Layout, Group(name="layout")] = Layout()
    precision: Formats = None
    engine: EngineName = SERVING_ENGINE
    engine_version: Release = None
    engine_options: EngineSettings = {}
    length_spread: Annotated[
        tuple[float, float] | None, Field("even draw between these fractions of the lengths; absent = fixed", "numbers")
    ] = None
    beams: Annotated[int, Field("hypotheses that a beam search keeps of every request; 1 = none searches")] = 1
    links: Annotated[Links, LINKS] = Links()
    disaggregation: Annotated[Disaggregation | None, Group(name="disaggregation")] = None
    sessions: Annotated[SessionFields | None, Group(name="sessions")] = None
    """How requests come back: what a cache gives of their prompts at the rate that arrives, or as stated."""
    images: Annotated[Images | None, Group(name="images")] = None
    """That the replica encodes itself, for prompts whose tokens they are part of."""
    phase: Annotated[
        Literal["both", "prefill", "decode", "encode"],
        Field("what is timed: whole requests, prompts, answers or an image encoder alone"),
    ] = "both"
    split_mode: Annotated[
        Literal["tensor", "layer"], layout_field("how a model is spread over cards: each layer, or whole layers")
    ] = "tensor"
    accelerator_fraction: Fraction = 1.0
    replicas: Annotated[int, layout_field("independent copies that share the load", low=-1.0)] = 1
    year: Year = None
    id: CaseId = None


class TrainCaseLayout(SparseRecord, kw_only=True):
    """Degrees as stated; an absent one is chosen by the planner, which says so."""

    tp: Annotated[int | None, layout_field("tensor-parallel ranks of training")] = None
    pp: Annotated[int | None, layout_field("pipeline stages of training")] = None
    vpp: Annotated[int | None, layout_field("chunks of layers that each stage holds")] = None
    cp: Annotated[int | None, layout_field("context-parallel ranks")] = None
    ep: Annotated[int | None, layout_field("expert-parallel ranks of training")] = None
    etp: Annotated[int | None, layout_field("ranks that cut one expert; absent = whole experts where ep > 1")] = None
    dp: Annotated[int | None, layout_field("data-parallel ranks")] = None
    sharding: Annotated[
        str | None, layout_field("what data-parallel ranks share: none, zero1, zero2, zero3, fsdp, hsdp")
    ] = None
    schedule: Annotated[
        Literal["1f1b", "zb-h1", "zb-h2", "dualpipe"] | None, layout_field("order of work in the pipeline")
    ] = None
    async_tp: Annotated[bool, layout_field("products cut into pieces, the exchange of one beside the next")] = False


class TrainCase(SparseRecord, kw_only=True, tag_field="kind", tag="train"):
    """One training configuration: a step on `count` accelerators."""

    model: CaseModel
    accelerator: RunsOn
    method: Annotated[
        Literal["pretrain", "full", "lora", "qlora", "dora"],
        training_field("pretraining, full fine-tuning, or an adapter"),
    ] = "pretrain"
    count: Annotated[int, accelerator_field("accelerators of the run")] = 1
    accelerators_per_node: PerNode = None
    links: Annotated[Links, LINKS] = Links()
    layout: Annotated[TrainCaseLayout, Group(name="layout")] = TrainCaseLayout()
    precision: Annotated[
        str, training_field("what the products are computed in: fp32, tf32, fp16, bf16, fp8", known="formats")
    ] = "bf16"
    weight_precision: Annotated[
        str | None,
        training_field("how weights of the forward pass are held; absent = follows precision", known="formats"),
    ] = None
    micro_batch: Annotated[
        int | None,
        training_field("samples of one pass of a rank"),
        training_field("micro_batch, as vision cases call it", name="batch"),
    ] = None
    global_batch: Annotated[int | None, training_field("samples of one optimizer step")] = None
    seq_len: Annotated[int | None, training_field("length of the sequences", "tokens")] = None
    mean_seq_len: Annotated[
        float | None,
        training_field(
            "mean length that passes where batches are grouped by length; absent = all padded to seq_len", "tokens"
        ),
    ] = None
    document_len: Annotated[float | None, DOCUMENT_LEN] = None
    predicted_share: Annotated[
        float,
        training_field(
            "share of the tokens whose logits are computed: 0.156 where a masked model gathers those it predicts",
            "fraction",
        ),
    ] = 1.0
    image_px: Annotated[
        int | None,
        training_field("side of the images, in pixels"),
        training_field("image_px, as vision cases call it", name="resolution"),
    ] = None
    image_layout: Annotated[
        Literal["channels-first", "channels-last"] | None,
        training_field("how images lie in memory; absent = channels-first, PyTorch's own"),
    ] = None
    recompute: Recomputed = None
    recompute_share: Annotated[
        float | None,
        training_field("share of the layers that full recompute covers; absent = all, or as memory needs", "fraction"),
    ] = None
    expert_load: Annotated[
        float,
        training_field("tokens of the fullest rank of experts over the mean; 1 = balanced, or the capacity factor"),
    ] = 1.0
    predicted_ahead: Annotated[int, PREDICTED_AHEAD] = 0
    fused_experts: Annotated[bool | None, FUSED_EXPERTS] = None
    optimizer: OptimizerName = "adamw"
    master_weights: Annotated[
        bool | None, training_field("an fp32 copy of the weights; absent = as the framework does")
    ] = None
    objective: Annotated[
        Literal["sft", "dpo", "kto", "orpo", "simpo", "grpo", "reward"],
        training_field(
            "next tokens, or preferences, whose examples are pairs but for kto; grpo: a policy's own answers"
        ),
    ] = "sft"
    reference: Annotated[
        Literal["model", "cached"],
        training_field("of dpo and kto: a frozen model beside the policy, or log-probabilities from before"),
    ] = "model"
    grads_kept: Annotated[bool, training_field("false = the optimizer runs inside the backward pass")] = True
    flash_attention: Annotated[
        bool | None, training_field("attention without its matrix in memory; absent = as the framework does")
    ] = None
    offload: Annotated[
        Literal["none", "optimizer", "all"],
        training_field("kept in host memory: nothing, optimizer and master copy, or weights and gradients as well"),
    ] = "none"
    offload_activations: Annotated[
        bool | None, training_field("inputs of recomputed layers wait in host memory; absent = as the framework does")
    ] = None
    residual_precision: Annotated[
        str | None,
        training_field("format of the residual stream between layers; absent = as the framework does", known="formats"),
    ] = None
    gradient_precision: Annotated[
        str | None,
        training_field(
            "format of the sums of gradients, which are exchanged; absent = as the framework", known="formats"
        ),
    ] = None
    loss: Annotated[
        Literal["whole", "chunked", "fused"] | None,
        training_field("logits held whole, widened chunk by chunk, or never held; absent = as the framework does"),
    ] = None
    lora_rank: Annotated[int, training_field("rank of the adapters")] = 16
    lora_targets: Annotated[str | None, training_field("matrices that have adapters")] = None
    trainable_parameters: Annotated[
        float | None, training_field("parameters that are trained, where the case knows them")
    ] = None
    framework: Annotated[
        str | None, training_field("trainer: megatron, composer, pytorch, torchtitan, torchtune, deepspeed, hf …")
    ] = None
    year: Year = None
    accelerator_fraction: Fraction = 1.0
    memory_kind: Annotated[
        Literal["allocated", "reserved", "device"],
        training_field("what the peak of memory means: the allocator's own, with its cache, or the driver's"),
    ] = "reserved"
    id: CaseId = None


class InferCase(SparseRecord, kw_only=True, tag_field="kind", tag="infer"):
    """One batch through a model that does not decode text: vision, encoder, diffusion, speech, recommender."""

    model: CaseModel
    accelerator: RunsOn
    batch: Annotated[int, Field("samples that run at once")] = 1
    resolution: Annotated[int | None, Field("side of the images, in pixels")] = None
    steps: Annotated[int | None, Field("steps of a diffusion model")] = None
    seq_len: Annotated[int | None, Field("length of the inputs", "tokens")] = None
    frames: Annotated[int | None, Field("of a video clip that is generated")] = None
    audio_s: Annotated[float | None, Field("length of a recording, read a batch of windows at a time", "s")] = None
    beams: Annotated[int, Field("hypotheses that a speech decoder keeps beside each other")] = 1
    precision: Annotated[
        str, engine_field("what the products are computed in: fp32, tf32, fp16, bf16, fp8, int8", known="formats")
    ] = "fp16"
    engine: EngineName = NETWORK_ENGINE
    engine_version: Release = None
    engine_mode: Annotated[str | None, engine_field("eager, compiled, or another mode of the engine")] = None
    count: Annotated[int, accelerator_field("accelerators that run it")] = 1
    tp: Annotated[int, layout_field("ranks that share one copy")] = 1
    saturated: Annotated[bool, Field("throughput of many batches in flight rather than the latency of one")] = False
    rate_per_s: Annotated[
        float | None, Field("samples that arrive over all accelerators, where no batch drives it", "1/s")
    ] = None
    flop: Annotated[
        float | None, engine_field("FLOP of one sample where the case knows it better than the catalogue")
    ] = None
    activation_values: Annotated[
        float | None, engine_field("values of activations of one sample, where the case knows them")
    ] = None
    accelerator_fraction: Fraction = 1.0
    links: Annotated[Links, LINKS] = Links()
    year: Year = None
    id: CaseId = None


Case = ServeCase | TrainCase | InferCase


class Latency(SparseRecord, kw_only=True):
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
    certified: bool = True
    """False: fewer than nine sources taught the interval, so that it is not certifiable as 90 %."""


class Assumed(SparseRecord, kw_only=True):
    """A setting that a case leaves open and that moves its numbers: what was taken, and what another value gives."""

    setting: str
    taken: str
    other: str
    numbers: dict[str, float]
    """Number of the result -> its value under the other setting."""


class ServeResult(SparseRecord, kw_only=True, tag_field="kind", tag="serve"):
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
    board_w: Quantity | None = None
    """Mean draw of one accelerator at that load, its host not in it; absent = its limit is not published. [W]"""
    saturated: bool | None = None
    reuse: PrefixReuse | None = None
    """What prompts find of their sessions; only where the case describes those."""
    level: str = ""
    """What the width of the intervals was looked up by: basis, load, structure and software, joined by colons."""
    why: str = ""
    calibrations: tuple[CalibrationUse, ...] = ()
    """Measurements that moved these numbers: the user's own, or published ones that were asked for."""
    notes: tuple[str, ...] = ()
    assumed: tuple[Assumed, ...] = ()
    """Settings that the case leaves open and that move a number by more than a tenth."""
    opened: tuple[Quantity, ...] = ()
    """The numbers down to operators and overheads; only where it was asked for."""
    id: str | None = None


class TrainResult(SparseRecord, kw_only=True, tag_field="kind", tag="train"):
    """Prediction for a training case."""

    fits: bool
    basis: str
    step_s: Quantity | None = None
    tokens_per_s_per_accelerator: Quantity | None = None
    samples_per_s_per_accelerator: Quantity | None = None
    mfu: float | None = None
    board_w: Quantity | None = None
    """Mean draw of one accelerator while steps follow each other; absent = its limit is not published. [W]"""
    memory_peak_bytes: Quantity | None = None
    layout: dict[str, Any] | None = None
    """Every degree used, the chosen ones included."""
    level: str = ""
    """What the width of the intervals was looked up by: basis, load, structure and software, joined by colons."""
    why: str = ""
    calibrations: tuple[CalibrationUse, ...] = ()
    """Measurements that moved these numbers: the user's own, or published ones that were asked for."""
    notes: tuple[str, ...] = ()
    assumed: tuple[Assumed, ...] = ()
    """Settings that the case leaves open and that move a number by more than a tenth."""
    opened: tuple[Quantity, ...] = ()
    """The numbers down to operators and overheads; only where it was asked for."""
    id: str | None = None


class InferResult(SparseRecord, kw_only=True, tag_field="kind", tag="infer"):
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
