"""What Tonnage may know of training software: what it keeps, fuses, shards and splits, as records.

Frameworks that keep and fuse the same things are one family, `SoftwareSpec`: memory, step times and the search take it
as an argument. `FrameworkSpec` is one framework of a family with what is particular to it alone. The records are
rows of tables in `tonnage.engines`. Absent traits are those of a plain PyTorch loop; a year is that in which a
mechanism became the default.
"""

from __future__ import annotations

from typing import Literal

from tonnage.domain.layout import Sharding
from tonnage.record import Record

Situation = Literal["pretrain", "pretrain_alone", "finetune", "finetune_whole", "tpu"]
"""Jobs that settle what is looked at where nobody names the software: pre-training on many or on one accelerator,
fine-tuning, fine-tuning of whole models on many, and anything on Google's parts."""


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
    """Of one logit of a pass without gradients, where what it computed stays until the loss is differentiated; none
    where only log-probabilities of the tokens are kept of it. [bytes/value]"""
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
    """Scripts as published: checkpoint nothing unless asked, every layer when they fine-tune over many devices, and
    keep adapters in 32 bits (PEFT since 2024)."""
    recomputed_all_until: int | None = None
    """Year until which every layer was recomputed."""
    selective_since: int | None = None
    """Year from which selective recomputation is looked at by habit."""
    fused_loss_since: int | None = None
    """Year from which the loss is computed in chunks."""
    fused_experts_since: str | None = None
    """Release (year and month, "26.06") from which grouped products of experts in MXFP8 are fused on Blackwell and a
    step is one graph."""
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
    fused_loss: bool = False
    """The loss is computed in chunks."""
    own_adapters: bool = False
    """Adapters are its own, in the format of the base, and nothing beside a quantised base is widened."""
    pages_states: bool = False
    """8-bit optimizer states live in unified memory and leave the device when it is full."""
    loads_whole: bool = False
    """Adapter scripts build the whole frozen base on each device beside its shard."""
    overlapped_experts: bool = False
    """Runs its pipeline from both ends and hides the exchange between experts behind another micro-batch."""
    older_attention: bool = False
    """Ran before attention kernels of its accelerators' own generation."""
