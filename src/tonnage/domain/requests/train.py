"""The questions of `tonnage plan train` and `plan finetune`: pre-train a model, or adapt one to a data set."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from tonnage.domain.requests.common import CONFIDENCE, MODEL, Filters
from tonnage.domain.requests.field import Field, Group

__all__ = [
    "Budget", "Checkpoint", "Deadline", "FineTune", "Headroom", "Optimizer", "Spares", "Train", "Validation",
]  # fmt: skip

_SEQ_LEN: Final = Field(reads="integer", group="Training", high=1e8, help="tokens of one sequence")
_GlobalBatch = Annotated[
    int | None, Field(reads="integer", group="Training", high=1e8, help="sequences per optimizer step")
]
Deadline = Annotated[
    float | None,
    Field(
        name="deadline",
        reads="s",
        group="Objectives",
        high=20 * 8760 * 3600.0,
        help="longest time for the whole run: 30 days, 8 h",
    ),
]
Budget = Annotated[
    float | None,
    Field(name="budget", reads="USD", group="Objectives", high=1e12, help="most to spend on the whole run"),
]
_Precision = Annotated[
    str, Field(group="Training", known="formats", help="what products are computed in: bf16, fp8, fp16, tf32, fp32")
]
Optimizer = Annotated[
    str, Field(group="Training", known="optimizers", help="adamw, adamw-8bit, adafactor, lion, muon, sgd, …")
]
_Restartable = Annotated[
    bool, Field(reads="flag", group="Reliability", help="the run may be stopped and taken up again")
]
_Count = Annotated[
    int | None, Field(reads="integer", group="Accelerators", high=1e6, help="exactly this many accelerators")
]
_Framework = Annotated[
    str | None, Field(group="Training", help="software: megatron, torchtitan, torchtune, hf, maxtext, …")
]
Validation = Annotated[
    float,
    Field(reads="fraction", group="Training", low=-1e-9, high=1.0, help="time of validation over that of training"),
]
Headroom = Annotated[
    float,
    Field(
        reads="fraction",
        group="Reliability",
        low=-1e-9,
        high=10.0,
        help="headroom for retries and experiments over the time of the run",
    ),
]
_ExtendContext = Annotated[
    bool,
    Field(reads="flag", group="Training", help="sequences may be longer than the context that the model was made for"),
]
Checkpoint = Annotated[Literal["async", "sync"], Field(group="Reliability", help="async or sync")]
Spares = Annotated[
    int | None, Field(reads="integer", group="Reliability", low=-1.0, high=1e5, help="instances beyond the job's own")
]


class Train(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="train"):
    """Pre-train on a token budget."""

    model: Annotated[str, MODEL]
    tokens: Annotated[float, Field(reads="tokens", high=1e16, help="tokens to train on: 100B, 15T")]
    seq_len: Annotated[int | None, _SEQ_LEN] = None
    """Absent = 4,096, or what the model takes if that is less. [tokens]"""
    global_batch: _GlobalBatch = None
    deadline_s: Deadline = None
    budget_usd: Budget = None
    confidence: Annotated[float, CONFIDENCE] = 0.8
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


class FineTune(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="finetune"):
    """Adapt a model to a data set."""

    model: Annotated[str, MODEL]
    method: Annotated[
        Literal["full", "lora", "qlora", "dora"], Field(group="Training", help="full, lora, qlora or dora")
    ] = "lora"
    objective: Annotated[
        Literal["sft", "dpo", "kto", "orpo", "simpo", "reward"],
        Field(group="Training", help="sft, or of preferences: dpo, kto, orpo, simpo, reward"),
    ] = "sft"
    """Next tokens, or preferences: an example of dpo, orpo, simpo and reward is a pair of answers."""
    reference: Annotated[
        Literal["model", "cached"],
        Field(group="Training", help="of dpo and kto: a model beside the policy, or cached log-probabilities"),
    ] = "model"
    """Of dpo and kto: a frozen model beside the policy, or its log-probabilities from before the run."""
    tokens: Annotated[
        float | None, Field(reads="tokens", high=1e16, help="tokens of one epoch, instead of examples and their length")
    ] = None
    examples: Annotated[float | None, Field(reads="count", high=1e12, help="examples of one epoch: 50k")] = None
    epochs: Annotated[float, Field(reads="count", high=1e5, help="passes over the examples")] = 1.0
    seq_len: Annotated[
        int, msgspec.structs.replace(_SEQ_LEN, help="tokens of one sequence that examples are packed into")
    ] = 2048
    global_batch: _GlobalBatch = None
    lora_rank: Annotated[int, Field(reads="integer", group="Training", high=65536, help="rank of the adapters")] = 16
    deadline_s: Deadline = None
    budget_usd: Budget = None
    confidence: Annotated[float, CONFIDENCE] = 0.8
    """The plan is the cheapest option that keeps deadline and budget with at least this chance. [-]"""
    precision: _Precision = "bf16"
    optimizer: Optimizer = "adamw"
    restartable: _Restartable = True
    filters: Annotated[Filters, Group()] = Filters()
    count: _Count = None
    tokens_per_example: Annotated[float | None, Field(reads="tokens", high=1e8, help="mean length of an example")] = (
        None
    )
    """Mean length of an example. [tokens]"""
    packed: Annotated[
        bool,
        Field(reads="flag", group="Training", help="examples share sequences; otherwise each is padded to its own"),
    ] = True
    """Examples share sequences of `seq_len`; otherwise each is padded to a sequence of its own."""
    image_px: Annotated[
        int | None,
        Field(reads="integer", group="Training", high=65536, help="side of an image, for networks that take one"),
    ] = None
    """Side of an image, for networks that take one. [px]"""
    framework: _Framework = None
    extend_context: _ExtendContext = False
    validation: Validation = 0.02
    headroom: Headroom = 0.1
    checkpoint: Checkpoint = "async"
    spares: Spares = None
