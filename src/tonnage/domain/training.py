"""A training configuration with nothing left open, and the measured constants that time it.

`TrainSetup` is what a `TrainCase` becomes once every absent degree, batch and format has been chosen: what is trained,
where and how. Physics, simulation and plans read it alone. `TrainCoefficients` holds the few numbers that are fitted on
published runs and shared by every model; they come from a dated file.
"""

from __future__ import annotations

from typing import Final, Literal

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.framework_spec import SoftwareSpec
from tonnage.domain.layout import TrainLayout
from tonnage.domain.model import Model
from tonnage.record import Record, SparseRecord

Method = Literal["pretrain", "full", "lora", "qlora", "dora"]

Recompute = Literal["none", "selective", "full"]


class Objective(Record, kw_only=True):
    """What an example of a training objective is, beside the tokens of one sequence."""

    sequences: int = 1
    """That pass together and are trained on: two where a chosen and a rejected answer are compared."""
    passes: int = 0
    """Further forward passes without gradients over them, where the reference is a model."""
    cached_passes: int = 0
    """The same where the reference's log-probabilities were computed before the run."""
    reference: bool = False
    """A frozen reference is part of the loss."""
    scores: bool = False
    """The head gives one score instead of a vocabulary."""
    source: str = ""


OBJECTIVES: Final[dict[str, Objective]] = {
    "sft": Objective(source="next-token prediction"),
    "dpo": Objective(sequences=2, passes=1, reference=True, source="arXiv 2305.18290"),
    "kto": Objective(passes=3, cached_passes=1, reference=True,
                     source="arXiv 2402.01306; the KL term passes mismatched answers through policy and reference"),
    "orpo": Objective(sequences=2, source="arXiv 2403.07691: no reference"),
    "simpo": Objective(sequences=2, source="arXiv 2405.14734: no reference"),
    "grpo": Objective(source="arXiv 2402.03300; the update of a step of reinforcement learning"),
    "reward": Objective(sequences=2, scores=True, source="arXiv 2203.02155, section 3.5"),
}  # fmt: skip
"""By the name that requests use."""


class TrainSetup(SparseRecord, kw_only=True):
    """One optimizer step, fully said: what is trained, where and how."""

    model: Model
    accelerator: Accelerator
    """As it is counted: one die of two where a device is a share of the catalogue's part."""
    coefficients: TrainCoefficients
    method: Method = "pretrain"
    layout: TrainLayout = TrainLayout()
    accelerators_per_node: int = 8
    transposed_weights: bool = True
    """8-bit weights are kept a second time, transposed: products take one layout only, or scales differ by it."""
    multiprocessors: float | None = None
    """Of the accelerator, where its die is known. [units]"""
    micro_batch: int = 1
    """Sequences (or samples) per data-parallel rank and micro-step."""
    num_micro_batches: int = 1
    """Micro-steps per optimizer step and data-parallel rank."""
    seq_len: int = 1
    mean_seq_len: float | None = None
    """Mean length that passes where batches are grouped by length; absent = every sequence is `seq_len`. [tokens]"""
    document_len: float | None = None
    """Mean length of packed examples, if attention stays inside each; absent = it sees all of a sequence. [tokens]"""
    predicted_share: float = 1.0
    """Share of the tokens whose logits are computed. [-]"""
    precision: str = "bf16"
    """What the products are computed in: fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4."""
    weights: str = "bf16"
    """Format of the weights that the forward pass reads."""
    master_weights: bool = True
    """A 32-bit copy of the weights is kept (or the weights themselves are 32 bits)."""
    recompute: Recompute = "none"
    recompute_share: float = 1.0
    """Share of the layers that full recompute covers."""
    optimizer: str = "adamw"
    objective: str = "sft"
    """Of `OBJECTIVES`."""
    reference: Literal["model", "cached"] = "model"
    """The reference beside the policy, or its log-probabilities from before the run."""
    grads_kept: bool = True
    flash_attention: bool = True
    native_attention: bool = False
    """Attention kernels written for the accelerator's own generation (cuDNN and FlashAttention-3 on Hopper)."""
    software: SoftwareSpec
    """What runs it keeps, fuses and shards so."""
    expert_load: float = 1.0
    """Tokens of the fullest rank of experts over the mean: 1 where routing is balanced or forced to be, the capacity
    factor where copies are padded or dropped, more where nothing is dropped. [-]"""
    fused_experts: bool = False
    """Grouped products of experts are fused with what surrounds them, and the step is one graph without the host."""
    overlapped_experts: bool = False
    """Exchange between experts hides behind another micro-batch's compute (DualPipe)."""
    fused_loss: bool = False
    """The loss is computed in chunks and logits of all tokens are never held together."""
    loads_whole: bool = False
    """Each rank holds the whole frozen base beside its shard (early Lightning FSDP)."""
    paged_states: bool = False
    """Optimizer states live in unified memory and leave the device when it is full (bitsandbytes paged)."""
    wide_residual: bool = False
    """What is not quantised runs in 32 bits: PEFT's preparation of a 4-bit model."""
    wide_adapters: bool = False
    """Adapters compute in 32 bits, each behind its own dropout (PEFT since 2024): each keeps an input for itself."""
    offload: Literal["none", "optimizer", "all"] = "none"
    """Kept in host memory: nothing, optimizer and master copy, or weights and gradients as well."""
    lora_rank: int = 16
    lora_targets: tuple[str, ...] = ()
    """Matrices with adapters; empty = every linear layer."""
    trainable_parameters: float | None = None
    """Adapter parameters where the case states them. [parameters]"""
    image_px: int | None = None
    channels_last: bool = False
    """Images and their activations lie channels-last, as tensor cores read them."""
    network_style: Literal["plain", "separable", "volume"] = "plain"
    """Convolutions of a network without layers: ordinary, depthwise, or over three dimensions."""
    kept_values: float | None = None
    """Of a network whose layers are known: outputs of those with weights, of one sample. [values]"""
    frozen_flop: float = 0.0
    """Forward work of frozen parts that run inside the step, of one sample: a latent model's encoder. [FLOP]"""
    inter_bytes_per_s: float | None = None
    """Network between nodes, per accelerator, one direction; absent = the coefficients' modest default. [bytes/s]"""
    intra: str | None = None
    """Link inside the node where it is not the accelerator's own: pcie, none."""

    @property
    def sequence_parallel(self) -> bool:
        """Whether Megatron's activation sharding is on inside the TP group."""
        stated = self.layout.sequence_parallel
        return stated if stated is not None else self.layout.tp > 1

    @property
    def passed_len(self) -> float:
        """Tokens of one sequence that pass through the layers: all, or the mean of batches grouped by length."""
        return self.mean_seq_len if self.mean_seq_len is not None else float(self.seq_len)

    @property
    def attended_len(self) -> float:
        """Tokens that attention runs over: the whole sequence, or one packed example. [tokens]"""
        return min(self.passed_len, self.document_len) if self.document_len is not None else self.passed_len

    @property
    def sequences(self) -> int:
        """Of one micro-batch: two for each pair of answers. [sequences]"""
        return self.micro_batch * OBJECTIVES[self.objective].sequences

    @property
    def further_passes(self) -> float:
        """Forward passes without gradients beside the step's own."""
        objective = OBJECTIVES[self.objective]
        return float(objective.cached_passes if self.reference == "cached" else objective.passes)

    @property
    def adapter(self) -> bool:
        """Whether base weights are frozen and only adapters learn."""
        return self.method in {"lora", "qlora", "dora"}

    @property
    def routed_load(self) -> float:
        """The same where experts are spread over ranks; without that every rank computes all of its own tokens."""
        return self.expert_load if self.layout.ep > 1 else 1.0

    @property
    def global_batch(self) -> int:
        """Sequences per optimizer step over all ranks."""
        return self.micro_batch * self.num_micro_batches * self.layout.dp

    @property
    def value_bytes(self) -> int:
        """An activation or gradient: 32 bits where products are computed in them, else 16. [bytes]"""
        return 4 if self.precision in {"fp32", "tf32"} else 2


class TrainCoefficients(Record, kw_only=True, forbid_unknown_fields=True):
    """
    Fitted numbers of training, shared by all models; the file beside the catalogue dates them.

    Times: `gemm` … are shares of a peak that long matrix products reach inside a training step (clock
    and power included), by accelerator architecture, "*" for the others.
    """

    gemm: dict[str, float]
    """Share of the dense peak of large 16-bit products, by architecture. [-]"""
    narrow: dict[str, float]
    """The same for FP8, FP4 and other 8-bit products, casts and scales included, by architecture. [-]"""
    narrow_energy: dict[str, float]
    """Energy of one FLOP of 8-bit products at the power limit of the whole board, by architecture: it bounds their rate
    where a part is given fewer watts than its tensor cores take. [pJ]"""
    wide: float
    """The same for TF32 products, over that of 16-bit ones. [-]"""
    single: float
    """The same for fp32 products on vector units, over that of 16-bit ones. [-]"""
    unaligned: float
    """What a product keeps of its share when a side is no multiple of 8: tensor cores need whole 16-byte rows. [-]"""
    ragged: float
    """The same when a side is no multiple of 64. [-]"""
    gemm_half: float
    """Geometric mean of a product's sides at which half of that share is lost. [values]"""
    attention: dict[str, float]
    """Share of the 16-bit peak that flash attention reaches, over `gemm`, by architecture; "native" for kernels
    written for Hopper and later (cuDNN, FlashAttention-3). [-]"""
    attention_half: float
    """Sequence length at which half of it is lost. [tokens]"""
    memory: dict[str, float]
    """Share of peak memory bandwidth of element-wise work, by kind of memory: "HBM", "GDDR", "*". [-]"""
    eager_stream: float
    """What element-wise kernels of eager frameworks keep in flight on one multiprocessor. [bytes/s]"""
    passes: dict[str, float]
    """Reads and writes of element-wise work over the least possible, by software. [-]"""
    layer_s: dict[str, float]
    """Launch and host work of one layer's forward pass that no stream hides, by software. [s]"""
    turn_s: dict[str, float]
    """Handing one micro-batch from one pipeline stage to the next, transfer apart, by software. [s]"""
    step_s: dict[str, float]
    """Fixed work of one optimizer step: data, logging, scaling checks, by software. [s]"""
    link: float
    """Share of the link rate that collectives reach inside a node. [-]"""
    network: float
    """The same between nodes. [-]"""
    host_link: float
    """The same over PCIe. [-]"""
    tensor_overlap: float
    """Share of tensor-parallel communication hidden behind products. [-]"""
    data_overlap: float
    """Share of gradient exchange and weight gathers that compute can hide. [-]"""
    expert: dict[str, float]
    """Share of `gemm` that grouped products of routed experts reach: "fused" with activation and quantisation in one
    kernel, "*" for the others. [-]"""
    expert_overlap: float
    """Share of the exchange between experts that other work hides. [-]"""
    expert_layer_s: dict[str, float]
    """Launches and host work of one pass of one mixture layer beside `layer_s`, routing and counts read back: "fused"
    where the whole step is one graph, "*" for the others. [s]"""
    straggler: float
    """Growth of the step per doubling of the accelerators beyond one node. [-]"""
    convolution: float
    """Share of `gemm` that convolutions reach. [-]"""
    network_passes: float
    """Reads and writes of every activation value of a network in one training step under mixed precision. [-]"""
    network_wide: float
    """The same in 32-bit training, which casts nothing, over that. [-]"""
    channels_last: float
    """The same in 16 bits where images lie channels-last, over channels-first, which tensor cores transpose. [-]"""
    separable: float
    """The same of networks of depthwise convolutions, gates and Swish, over those of plain ones. [-]"""
    image_s: float
    """Host work of one sample's input pipeline and augmentation that is not hidden. [s]"""
    dequantize: float
    """Weight passes at 16 bits that a 4-bit base costs per forward or backward pass. [-]"""
    activation: dict[str, float]
    """Measured over counted activations, by software: eager loops keep more than the accounting names. [-]"""
    fragmentation: float
    """Allocator's reserve over its peak, as a share of what is not persistent. [-]"""
    context_bytes: float
    """Driver context and libraries on each accelerator. [bytes]"""
    collective_bytes: float
    """Buffers of communicators on each accelerator of a job. [bytes]"""
    network_values: float
    """Kept values per activation value of a network (before and after normalisation). [-]"""
    source: str = ""
    fitted: str = ""
    """Date of the fit, ISO."""
