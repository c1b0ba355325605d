"""
What was measured of a training run: where each step's time went, memory, scaling, checkpoints; and what follows.

`tonnage measure train`, the probe and a Kineto trace all become a `TrainMeasurement` (`"schema":
"tonnage.train_measurement/1"`). Parts are means of the steps that count, on the critical path of the rank that the run
names slowest, and add up to the step: what ran hidden behind another part is listed separately and not in the sum. What
was not observed is absent, never 0. A `TrainBudget` is the accelerator-hours of a whole run by one node's measured
rate, with headroom and a timeline.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from tonnage.record import SparseRecord

TRAIN_MEASUREMENT_SCHEMA = "tonnage.train_measurement/1"


class StepTimes(SparseRecord, kw_only=True):
    """Mean of a step by what the critical path waits for; the parts add up to the step. [s]"""

    input_s: float | None = None
    """Waiting for the next batch: reading, decoding, copying that nothing hides. [s]"""
    forward_s: float | None = None
    """Loss included, collectives left out. [s]"""
    backward_s: float | None = None
    """Collectives left out. [s]"""
    communication_s: float | None = None
    """Collectives that nothing hides, waiting for slower ranks included. [s]"""
    optimizer_s: float | None = None
    """Update of the weights and clearing of the gradients. [s]"""
    checkpoint_s: float | None = None
    """Writing of checkpoints that the step waits for, spread over all steps. [s]"""
    other_s: float | None = None
    """The rest of the step: the script's own Python, logging, clipping, synchronisation. [s]"""

    @property
    def sum_s(self) -> float:
        """All parts together. [s]"""
        values: list[float | None] = [getattr(self, name) for name in self.__struct_fields__]
        return sum(value for value in values if value is not None)


class DeviceActivity(SparseRecord, kw_only=True):
    """What the accelerator did in a step, from a trace of its kernels; absent on a processor."""

    busy_s: float | None = None
    """At least one kernel runs. [s]"""
    communication_s: float | None = None
    """A collective runs, hidden or not. [s]"""
    hidden_communication_s: float | None = None
    """A collective runs behind other kernels. [s]"""
    copies_s: float | None = None
    """Copies between host and accelerator run, hidden or not. [s]"""
    kernels: float | None = None
    """Launched in a step. [-]"""
    kernel_s: float | None = None
    """Mean kernel, collectives left out: a few microseconds mean that launches are the limit. [s]"""
    utilisation: float | None = None
    """As the driver samples it: some kernel ran. No verdict rests on it alone. [-]"""
    flop_per_s: float | None = None
    """FLOP/s while busy, where the trace counts FLOP. [FLOP/s]"""
    memory_bytes_per_s: float | None = None
    """[bytes/s]"""
    clock_share: float | None = None
    """Clock over the part's highest. [-]"""
    throttle_reasons: tuple[str, ...] = ()


class TrainMemory(SparseRecord, kw_only=True):
    """Memory of a rank, each number the most of any rank: they need not be one rank's. [bytes]"""

    peak_bytes: float | None = None
    """The most that was in use: the allocator's on an accelerator, resident on a processor. [bytes]"""
    reserved_bytes: float | None = None
    """The most that the allocator kept; well beyond the peak means fragmentation. [bytes]"""
    capacity_bytes: float | None = None
    """Of the accelerator or host. [bytes]"""
    weights_bytes: float | None = None
    """The largest share that a rank holds. [bytes]"""
    gradients_bytes: float | None = None
    optimizer_bytes: float | None = None
    alloc_retries: int | None = None
    """Times that the allocator had to give back and start again. [-]"""


class RankSteps(SparseRecord, kw_only=True):
    """One rank of a run: a straggler computes longer and waits less than the others."""

    rank: int
    host: str | None = None
    step_s: float
    """Mean. [s]"""
    parts: StepTimes


class TrainRun(SparseRecord, kw_only=True):
    """One run at one number of devices; warm-up steps are left out."""

    devices: int
    nodes: int = 1
    steps: int
    """That count. [-]"""
    warmup: int = 0
    step_s: float
    """Mean, from the end of one step to the end of the next. [s]"""
    step_p50_s: float | None = None
    step_p95_s: float | None = None
    step_most_s: float | None = None
    parts: StepTimes
    """Of the rank that waits least for the others: the one that the others wait for."""
    hidden_communication_s: float | None = None
    """Collectives that ran behind the backward pass: not in the sum. [s]"""
    collective_bytes: float | None = None
    """Handed to collectives in a step by one rank. [bytes]"""
    collectives: dict[str, float] = {}
    """Calls in a step, by kind."""
    tokens_per_step: float | None = None
    """Of all devices. [tokens]"""
    samples_per_step: float | None = None
    """Of all devices. [samples]"""
    micro_batches: float | None = None
    """Forward passes of a step on one rank. [-]"""
    efficiency: float | None = None
    """Throughput per device over that of the smallest run. [-]"""
    memory: TrainMemory = TrainMemory()
    activity: DeviceActivity | None = None
    ranks: tuple[RankSteps, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def samples_per_s(self) -> float | None:
        """Of all devices. [samples/s]"""
        return None if self.samples_per_step is None else self.samples_per_step / self.step_s

    @property
    def tokens_per_s(self) -> float | None:
        """Of all devices. [tokens/s]"""
        return None if self.tokens_per_step is None else self.tokens_per_step / self.step_s


class CheckpointTimes(SparseRecord, kw_only=True):
    """Checkpoints of the run, as its own code wrote and read them."""

    writes: int = 0
    write_s: float | None = None
    """Mean of a write, on the rank that takes longest. [s]"""
    restore_s: float | None = None
    """Mean of a restore. [s]"""
    size_bytes: float | None = None
    """One rank's file, where it is known. [bytes]"""


class TrainMeasurement(SparseRecord, kw_only=True):
    """A training run as it was measured, at one or several numbers of devices."""

    schema: str
    tool: str
    """tonnage, kineto …"""
    tool_version: str | None = None
    command: str | None = None
    model: str | None = None
    device: str | None = None
    """As its driver names it."""
    kind: Literal["cpu", "cuda", "rocm", "xpu", "mps"] | None = None
    backend: str | None = None
    """Of the collectives: gloo, nccl …"""
    library: str | None = None
    parallel: str | None = None
    """DDP, FSDP …, where it is seen."""
    parameters: float | None = None
    """Of the model, whole. [-]"""
    date: str | None = None
    runs: Annotated[tuple[TrainRun, ...], Meta(min_length=1)]
    """By number of devices, increasing."""
    checkpoint: CheckpointTimes | None = None
    stopped: str | None = None
    """Why the last run ended early."""
    notes: tuple[str, ...] = ()


TRAIN_BUDGET_SCHEMA = "tonnage.train_budget/1"


class Phase(SparseRecord, kw_only=True):
    """A part of the work, after the one before it."""

    name: str
    begin_s: float
    """Since the start. [s]"""
    end_s: float
    accelerator_hours: float
    begin: str | None = None
    """Date, when the start is known."""
    end: str | None = None


class TrainBudget(SparseRecord, kw_only=True):
    """What a run needs, all headroom included."""

    schema: str
    devices: int
    steps: int
    """Of the run itself. [steps]"""
    step_s: float
    """At this number of devices. [s]"""
    run_s: float
    """The run alone, uninterrupted, by the calendar: longer where the accelerators have a share of the day. [s]"""
    total_s: float
    """The same with experiments, validation and retries. [s]"""
    accelerator_hours: float
    """All of it."""
    run_accelerator_hours: float
    """The run alone."""
    scaling: float
    """Throughput per device against the smallest measured run. [-]"""
    basis: Literal["measured", "assumed"]
    """Of the scaling: measured at this number of devices, or assumed beyond it."""
    fits_deadline: bool | None = None
    phases: tuple[Phase, ...] = ()
    reasons: tuple[str, ...] = ()
