"""
A training configuration with nothing left open, what software may do to it, and the measured constants that time it.

Frameworks that keep and fuse the same things are one family, `SoftwareSpec`: memory, step times and the search take it
as an argument. `FrameworkSpec` is one framework of a family with what is particular to it alone. The records are
rows of tables in `tonnage.engines`. Absent traits are those of a plain PyTorch loop; a year is that in which a
mechanism became the default.

`TrainSetup` is what a `TrainCase` becomes once every absent degree, batch and format has been chosen: what is trained,
where and how. Physics, simulation and plans read it alone. `TrainCoefficients` holds the few numbers that are fitted on
published runs and shared by every model; they come from a dated file.
"""

from __future__ import annotations

from typing import Final, Literal

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.layout import Sharding, TrainLayout
from tonnage.domain.model import Model
from tonnage.record import Record, SparseRecord

Situation = Literal["pretrain", "pretrain_alone", "finetune", "finetune_whole", "tpu"]
"""Jobs that settle what is looked at where nobody names the software: pre-training on many or on one accelerator,
fine-tuning, fine-tuning of whole models on many, and anything on Google's parts."""


Loss = Literal["whole", "chunked", "fused"]
"""Cross-entropy from the logits of all tokens, from 16-bit logits widened chunk by chunk, or in one with the head."""


class Keeps(Record, kw_only=True, forbid_unknown_fields=True):
    """What one family of training software leaves in memory. Bytes are of 16-bit training."""

    rms_norm: float
    """Of an RMSNorm, per value of its input: written out line by line it keeps 32-bit copies. [bytes/value]"""
    expanded_kv: bool
    """Grouped keys and values are copied to every query head before attention."""
    gated: float
    """Values per unit of width of a gated feed-forward: gate, up, activation, product."""
    plain: float
    """The same without a gate: before and after the non-linearity."""
    logits: float
    """Of one logit at the peak: 16-bit, 32-bit copy, gradient. [bytes/value]"""
    logits_passed: float = 0.0
    """Of one logit of a pass without gradients that stays until the loss is differentiated. [bytes/value]"""
    logits_drawn: float | None = None
    """Of one logit where a policy is updated on its own answers; absent = as `logits`. [bytes/value]"""
    source: str


class SoftwareSpec(Record, kw_only=True, forbid_unknown_fields=True):
    """One family of training software."""

    name: str
    words: tuple[str, ...]
    """Parts of the names of its frameworks, in lower case; a framework is known by a word that its name contains."""
    precedence: int
    """Where a name contains words of several families, the lowest wins."""
    example: str
    """A framework of it, as a request names it."""
    keeps: Keeps
    timed_as: str | None = None
    """Family whose fitted coefficients stand for its own; absent = fitted under its name."""
    usual: tuple[tuple[Situation, int], ...] = ()
    """Situations in which it is looked at unasked, and in which group; later groups only where earlier do not fit."""

    mixed_precision: Literal["accumulated", "partitioned", "autocast"] = "autocast"
    """Kept beside 16-bit weights: gradients accumulated in 32 bits and a master copy; 16-bit gradients, and 32-bit
    copies of only the part that a rank steps; or nothing, for the weights themselves are the 32-bit copy."""
    widens_at_step: bool = False
    """Partitioned gradients are copied to 32 bits when the optimizer steps, and not kept so before."""
    contiguous_gradients: bool = False
    """Gradients have buffers of their own from the first step on."""
    unnamed: str | None = None
    """A framework of it whose habits a fine-tuning job has that names none."""
    kernel_by_kernel: bool = False
    """Element-wise operators are kernels of their own, one after the other, and none keeps much in flight."""
    zeroes_gradients: bool = False
    """Gradients are zeroed, not freed: they stay through the whole step."""
    hosts_gradients: bool = False
    """Gradients go to the host with everything else that is offloaded, as they appear."""
    bucket_values: float = 0.0
    """Gradients that are reduced at once; none where ranks share no such buffer. [values]"""
    bucket_copies: float = 0.0
    """Times that such a bucket is held while exchange and compute overlap. [-]"""
    reduces_copies: bool = False
    """PyTorch's data-parallel buckets: a second copy of the gradients."""
    gathered_units: int = 2
    """Layers whose gathered weights are there at a time under full sharding: two with prefetch."""
    keeps_handed_on: bool = False
    """A pipeline stage holds what it handed on until its gradient comes back."""
    hides_reduction: bool = True
    """The exchange of gradients runs beside the backward pass."""
    autocasts: bool = False
    """Products run under PyTorch's autocast: 32-bit weights are cast for a pass, and the residual stream stays wide."""
    selective: Literal["attention", "operations"] = "operations"
    """Selective recomputation repeats the attention core, or all but the outputs of matrix products."""

    tries_selective: bool = True
    """The search looks at selective recomputation."""
    model_parallel: bool = False
    """Layers and tensors are split by habit: pipelines and tensor parallelism."""
    tensor_parallel: bool = False
    """Tensor parallelism can be asked for."""
    sequence_parallel: bool = True
    """Activations are split beside tensors."""
    async_tp: bool = False
    """Products of tensor parallelism are cut into pieces and the exchange of one runs beside the next, unasked."""
    context_parallel: bool = False
    expert_parallel: bool = False
    spreads_experts: bool = False
    """Experts are spread over one node where nobody says how."""
    interleaves: bool = False
    """Pipelines may have virtual stages."""
    shardings: tuple[Sharding, ...] = ("none", "fsdp")
    """What data-parallel ranks share by habit, the first that fits."""
    searched_shardings: tuple[Sharding, ...] = ("none", "fsdp")
    """The same that the search looks at; hsdp only across nodes."""

    plain_scripts: bool = False
    """Scripts as published: recompute when they fine-tune over many devices; adapters in 32 bits (PEFT since 2024)."""
    four_bit_base: bool = True
    """QLoRA: adapters over weights in 4 bits."""
    recomputed_all_until: int | None = None
    """Year until which every layer was recomputed."""
    selective_since: int | None = None
    """Year from which selective recomputation is looked at by habit."""
    chunked_loss_since: int | None = None
    """Year from which the loss is computed in chunks."""
    fused_experts_since: str | None = None
    """Release ("26.06") from which experts' products in MXFP8 are fused on Blackwell, and a step is one graph."""
    native_attention: bool = False
    """Attention kernels of the accelerator's own generation are used since 2024."""
    adapted: tuple[str, ...] = ()
    """Matrices with adapters where nobody says which; empty = every linear layer."""

    @property
    def fitted(self) -> str:
        """Under whose name its coefficients are filed."""
        return self.timed_as or self.name


class FrameworkSpec(Record, kw_only=True, forbid_unknown_fields=True):
    """One framework with what is particular to it, beside its family."""

    words: tuple[str, ...]
    """Parts of its names, in lower case."""
    software: str
    """Its family."""
    stem: str | None = None
    """A shorter part by which its relatives are known as well; a name that starts so is one of them."""
    pretrains_as: str | None = None
    """Family of its pre-training scripts, where that is another."""
    loss: Loss = "whole"
    loss_since: int = 0
    """Year since which the loss is so; whole before."""
    logits: float | None = None
    """Of one whole logit at the peak of its own loss; absent = as its family. [bytes/value]"""
    fused_kernels: bool = False
    """Norms, rotary embedding and gates run in kernels of its own, as a compiler would make them."""
    narrow_since: int | None = None
    """Year since which a 4-bit base's residual stream stays in 16 bits; absent = PEFT's preparation widens it."""
    adapter_input: float | None = None
    """What each adapted matrix keeps of its input for its adapter alone; absent = as PEFT. [bytes/value]"""
    adapted: tuple[str, ...] = ()
    """Matrices of a language model with adapters where nobody says which; empty = as its family."""
    recomputes_since: int | None = None
    """Year since which it fine-tunes with every layer recomputed unless told otherwise."""
    offloads_activations: bool = False
    """Inputs of recomputed layers wait in host memory."""
    unties: bool = False
    """The head has weights of its own where a model shares the embedding's."""
    loads_whole: bool = False
    """Fine-tuning scripts build the whole model on each device beside its shard."""
    overlapped_experts: bool = False
    """Runs its pipeline from both ends and hides the exchange between experts behind another micro-batch."""
    older_attention: bool = False
    """Ran before attention kernels of its accelerators' own generation."""


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
    "kto": Objective(passes=3, cached_passes=1, reference=True, source="arXiv 2402.01306, its KL term's answers too"),
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
    """Family of the software that runs it: what it keeps in memory, fuses and shards."""
    expert_load: float = 1.0
    """Tokens of the fullest rank of experts over the mean: 1 where routing is balanced or forced to be, the capacity
    factor where copies are padded or dropped, more where nothing is dropped. [-]"""
    fused_experts: bool = False
    """Grouped products of experts are fused with what surrounds them, and the step is one graph without the host."""
    overlapped_experts: bool = False
    """Exchange between experts hides behind another micro-batch's compute (DualPipe)."""
    loss: Loss = "whole"
    whole_logit: float | None = None
    """Of one logit where the framework's own loss holds all of them; absent = as its family. [bytes/value]"""
    loads_whole: bool = False
    """Each rank holds the whole model beside its shard (Lightning's FSDP)."""
    paged_states: bool = False
    """Optimizer states live in unified memory and leave the device when it is full (bitsandbytes paged)."""
    wide_residual: bool = False
    """The residual stream is in 32 bits: autocast of 32-bit weights, or PEFT's preparation of a 4-bit base."""
    gathers_narrow: bool = False
    """But not where FSDP gathers what it shards: in 16 bits."""
    adapter_input: float = 0.0
    """What each adapted matrix keeps of its input for its adapter alone, behind its dropout. [bytes/value]"""
    offload_activations: bool = False
    """Inputs of recomputed layers wait in host memory."""
    gradient_bits: float | None = None
    """Of the sums of gradients over micro-batches, which are exchanged; absent = as the software does. [bit]"""
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
    def residual_is_wide(self) -> bool:
        """Whether the residual stream is in 32 bits under this layout."""
        return self.wide_residual and not (self.gathers_narrow and self.layout.zero_stage >= 3)

    @property
    def wide_layers(self) -> bool:
        """Whether a 4-bit base answers in 32 bits: its products take the format of their input, the residual stream."""
        return self.residual_is_wide and self.method == "qlora"

    @property
    def routed_load(self) -> float:
        """`expert_load` where experts are spread over ranks; else 1: every rank computes all its own tokens. [-]"""
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
    """Measured over counted activations, by software. [-]"""
    fragmentation: dict[str, float]
    """What an allocator cannot use of blocks that come and go, by software; "*" = others, or where room is short."""
    context_bytes: float
    """Driver context and libraries on each accelerator. [bytes]"""
    collective_bytes: float
    """Buffers of communicators on each accelerator of a job. [bytes]"""
    network_values: float
    """Kept values per activation value of a network (before and after normalisation). [-]"""
    source: str = ""
    fitted: str = ""
    """Date of the fit, ISO."""
