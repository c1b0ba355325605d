"""The questions of `tonnage plan train` and `plan finetune`: pre-train a model, or adapt one to a data set."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from tonnage.domain.requests.common import Confidence, Filters, ModelName
from tonnage.domain.requests.field import (
    MAY_BE_NOTHING,
    Field,
    Group,
    accelerator_field,
    objective_field,
    reliability_field,
    training_field,
)
from tonnage.record import SparseRecord

_SEQ_LEN: Final = training_field("tokens of one sequence", "integer", high=1e8)
_GlobalBatch = Annotated[int | None, training_field("sequences per optimizer step", high=1e8)]
Deadline = Annotated[
    float | None,
    objective_field("longest time for the whole run: 30 days, 8 h", "s", name="deadline", high=20 * 8760 * 3600.0),
]
Budget = Annotated[float | None, objective_field("most to spend on the whole run", "USD", name="budget", high=1e12)]
_Precision = Annotated[
    str, training_field("what products are computed in: bf16, fp8, fp16, tf32, fp32", known="formats")
]
Optimizer = Annotated[str, training_field("adamw, adamw-8bit, adafactor, lion, muon, sgd, …", known="optimizers")]
_Restartable = Annotated[bool, reliability_field("the run may be stopped and taken up again")]
_Count = Annotated[int | None, accelerator_field("exactly this many accelerators", high=1e6)]
_Framework = Annotated[str | None, training_field("software: megatron, torchtitan, torchtune, hf, maxtext, …")]
Validation = Annotated[
    float, training_field("time of validation over that of training", "fraction", low=MAY_BE_NOTHING, high=1.0)
]
Headroom = Annotated[
    float,
    reliability_field(
        "headroom for retries and experiments over the time of the run", "fraction", low=MAY_BE_NOTHING, high=10.0
    ),
]
_ExtendContext = Annotated[bool, training_field("sequences may be longer than the context that the model was made for")]
Checkpoint = Annotated[Literal["async", "sync"], reliability_field("async or sync")]
Spares = Annotated[int | None, reliability_field("instances beyond the job's own", low=-1.0, high=1e5)]


class Train(SparseRecord, kw_only=True, tag="train"):
    """Pre-train on a token budget."""

    model: ModelName
    tokens: Annotated[float, Field("tokens to train on: 100B, 15T", "tokens", high=1e16)]
    seq_len: Annotated[int | None, _SEQ_LEN] = None
    """Absent = 4,096, or what the model takes if that is less. [tokens]"""
    global_batch: _GlobalBatch = None
    deadline_s: Deadline = None
    budget_usd: Budget = None
    confidence: Confidence = 0.8
    """The plan is the cheapest option that keeps deadline and budget with at least this chance. [-]"""
    precision: _Precision = "bf16"
    optimizer: Optimizer = "adamw"
    restartable: _Restartable = True
    filters: Annotated[Filters, Group()] = Filters()
    count: _Count = None
    """Accelerators, when the user fixes it."""
    framework: _Framework = None
    """Software that runs it; absent = what such jobs usually run on."""
    extend_context: _ExtendContext = False
    validation: Validation = 0.01
    """Time of validation over that of training. [-]"""
    headroom: Headroom = 0.1
    """Time kept for retries and experiments over that of the run. [-]"""
    checkpoint: Checkpoint = "async"
    spares: Spares = None
    """Instances beyond the job's own; absent = enough for 95 % of failures at once on large jobs."""


class FineTune(SparseRecord, kw_only=True, tag="finetune"):
    """Adapt a model to a data set."""

    model: ModelName
    method: Annotated[Literal["full", "lora", "qlora", "dora"], training_field("full, lora, qlora or dora")] = "lora"
    objective: Annotated[
        Literal["sft", "dpo", "kto", "orpo", "simpo", "reward"],
        training_field("sft, or of preferences: dpo, kto, orpo, simpo, reward"),
    ] = "sft"
    """Next tokens, or preferences: an example of dpo, orpo, simpo and reward is a pair of answers."""
    reference: Annotated[
        Literal["model", "cached"],
        training_field("of dpo and kto: a model beside the policy, or cached log-probabilities"),
    ] = "model"
    """Of dpo and kto: a frozen model beside the policy, or its log-probabilities from before the run."""
    tokens: Annotated[
        float | None, Field("tokens of one epoch, instead of examples and their length", "tokens", high=1e16)
    ] = None
    examples: Annotated[float | None, Field("examples of one epoch: 50k", high=1e12)] = None
    epochs: Annotated[float, Field("passes over the examples", high=1e5)] = 1.0
    seq_len: Annotated[
        int, msgspec.structs.replace(_SEQ_LEN, help="tokens of one sequence that examples are packed into")
    ] = 2048
    global_batch: _GlobalBatch = None
    lora_rank: Annotated[int, training_field("rank of the adapters", high=65536)] = 16
    deadline_s: Deadline = None
    budget_usd: Budget = None
    confidence: Confidence = 0.8
    """The plan is the cheapest option that keeps deadline and budget with at least this chance. [-]"""
    precision: _Precision = "bf16"
    optimizer: Optimizer = "adamw"
    restartable: _Restartable = True
    filters: Annotated[Filters, Group()] = Filters()
    count: _Count = None
    tokens_per_example: Annotated[float | None, Field("mean length of an example", "tokens", high=1e8)] = None
    """Mean length of an example. [tokens]"""
    packed: Annotated[bool, training_field("examples share sequences; otherwise each is padded to its own")] = True
    """Examples share sequences of `seq_len`; otherwise each is padded to a sequence of its own."""
    image_px: Annotated[int | None, training_field("side of an image, for networks that take one", high=65536)] = None
    """Side of an image, for networks that take one. [px]"""
    framework: _Framework = None
    extend_context: _ExtendContext = False
    validation: Validation = 0.02
    headroom: Headroom = 0.1
    checkpoint: Checkpoint = "async"
    spares: Spares = None
