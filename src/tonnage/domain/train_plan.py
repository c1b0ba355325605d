"""
Pre-training and fine-tuning: the questions, and the plan: which accelerators, arranged how, how long, at what cost.

`tonnage plan train` and `plan finetune` return a `TrainPlan`; `kind` tells them apart. Times are of the whole run:
steps, validation, start-up, checkpoints, interruptions, and the headroom kept for retries and experiments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Final, Literal

import msgspec

from tonnage.domain.answer import Quantity
from tonnage.domain.layout import TrainLayout
from tonnage.domain.plan import Bill, RankedOption, RankedPlan
from tonnage.domain.requests.common import Confidence, Filters, ModelName
from tonnage.domain.requests.field import (
    DAYS,
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
_BY: Final = partial(objective_field, reads="s", name="deadline", high=20 * 8760 * 3600.0)
Deadline = Annotated[float | None, _BY("longest time for the whole run: 8 h, 2 days")]
LongDeadline = Annotated[float | None, _BY("longest time for the whole run: 30 days, 8 h", usual=DAYS)]
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
    deadline_s: LongDeadline = None
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


PAYS: Final = 1.6
"""Speed that a doubling must bring to count as paying: below it the run costs a quarter more. Chosen. [-]"""


class TrainConfiguration(SparseRecord, kw_only=True):
    """One way to run the steps: accelerator, count, degrees, batches, formats, software."""

    accelerator: str
    count: int
    layout: TrainLayout
    micro_batch: int
    num_micro_batches: int
    seq_len: int
    recompute: str
    precision: str
    weights: str
    optimizer: str
    software: str
    method: str
    recompute_share: float = 1.0
    """Share of the layers that full recompute covers. [-]"""
    intra_link: str | None = None
    """pcie where offers of the accelerator lack its usual link."""
    inter_bytes_per_s: float | None = None
    """Network between instances, per accelerator, one direction. [bytes/s]"""

    @property
    def global_batch(self) -> int:
        """Sequences per optimizer step."""
        return self.micro_batch * self.num_micro_batches * self.layout.dp

    def label(self, part: Callable[[str], str] = str, _: Callable[[str], str] = str) -> str:
        """
        A few words that name it, "64 x h100-sxm5-80gb TP4 DP4"; `part` says how its accelerator is written. It has no
        engine whose title could be.
        """
        return f"{self.count} x {part(self.accelerator)} {self.layout.label}"


class Run(SparseRecord, kw_only=True):
    """The run over time."""

    steps: float
    training_s: float
    """Optimizer steps alone. [s]"""
    validation_s: float
    start_s: float
    """Loading, compilation, communicators, once. [s]"""
    headroom_s: float
    """Kept for retries and experiments. [s]"""
    waiting_s: float
    """Waiting for spot capacity; not billed. [s]"""
    wall_s: Quantity
    """From the first to the last minute, headroom included: half of such runs take no longer than the value. [s]"""
    wall_p90_s: float
    """Nine of ten such runs take no longer. [s]"""
    useful_time_fraction: Quantity
    """Share of the run's wall time, headroom and waiting aside, that ends up in the model. [-]"""
    useful_p90: float
    """Nine of ten such runs keep at least this share. [-]"""
    interruptions: float
    """Expected in the whole run."""
    between_s: float
    """Mean time between interruptions. [s]"""
    recovery_s: float
    """From an interruption to the first new step. [s]"""
    checkpoint_bytes: float
    blocking_s: float
    """Time one checkpoint stops the work. [s]"""
    write_s: float
    """Time until it is on shared storage. [s]"""
    checkpoint_interval_s: float
    spares: int = 0
    """Instances beyond the job's own."""

    @property
    def billed_s(self) -> float:
        """What is paid: the wall time without waiting for capacity. [s]"""
        return self.wall_s.value - self.waiting_s


class Milestone(SparseRecord, kw_only=True):
    """A point of the timeline."""

    after_s: float
    what: str
    date: str = ""
    """ISO."""


class ScalingPoint(SparseRecord, kw_only=True):
    """The same accelerator at another count: strong = the same global batch, weak = the same share per rank."""

    kind: Literal["strong", "weak"]
    count: int
    step_s: float
    tokens_per_s: float
    efficiency: float
    """Tokens/s per accelerator over that of the smallest count. [-]"""
    usd: float | None = None
    """Of the whole run at the chosen offer's price per accelerator. [USD]"""
    wall_s: float | None = None
    layout: str = ""


class RunOption(RankedOption[TrainConfiguration], kw_only=True):
    """One configuration that trains, on one offer: its step, its run, its bill."""

    step_s: Quantity
    tokens_per_s_per_accelerator: Quantity
    """Trained on, over all accelerators. [tokens/s]"""
    limit_bytes: float
    run: Run
    kwh: float | None = None
    """Of the whole run, hosts and cooling included. [kWh]"""
    kg_co2: float | None = None
    """Of the whole run; absent where the grid is not known. [kg]"""
    notes: tuple[str, ...] = ()
    chance: float = 1.0
    """That memory fits and that deadline and budget, where given, are kept, all at once. [-]"""


class TrainOption(RunOption, kw_only=True):
    """An option of pre-training or fine-tuning."""

    mfu: float
    energy_wh: float | None = None
    """Of the accelerators over the run, by what its steps draw of their limit; absent = limit unknown. [Wh]"""
    timeline: tuple[Milestone, ...] = ()
    other_offers: tuple[Bill, ...] = ()

    @property
    def accelerator_hours(self) -> float:
        """Billed, spares aside. [h]"""
        return self.accelerators * self.run.billed_s / 3600.0


class TrainPlan(RankedPlan[Train | FineTune, TrainOption], kw_only=True):
    """The answer to a training or fine-tuning request."""

    kind: Literal["train", "finetune"]
    frontier: tuple[int, ...] = ()
    """Indices of options that no other beats in cost and time at once."""
    scaling: tuple[ScalingPoint, ...] = ()
    faster: str = ""
    """Other software, or 8-bit products, that would be much faster on the first option's accelerators."""
    stops_paying: str = ""
    """Where adding accelerators stops paying."""
    spot: str = ""
    """Spot against on-demand with this deadline."""
