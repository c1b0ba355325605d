"""A training plan: which accelerators, how many, arranged how, for how long, at what cost, and how sure.

`tonnage plan train` and `plan finetune` return a `TrainPlan`; `kind` tells them apart. Times are of the whole run:
steps, validation, start-up, checkpoints, interruptions, and the headroom kept for retries and experiments.
"""

from __future__ import annotations

from typing import Final, Literal

from tonnage.domain.answer import Quantity
from tonnage.domain.layout import TrainLayout
from tonnage.domain.plan import Bill, RankedOption, RankedPlan
from tonnage.domain.requests.train import FineTune, Train
from tonnage.record import SparseRecord

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

    def label(self) -> str:
        """A few words that name it in a table: "64 x h100-sxm5-80gb tp 4 pp 4 dp 4 zero1"."""
        return f"{self.count} x {self.accelerator} {self.layout.label}"


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
