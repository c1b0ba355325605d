"""What a running deployment's own file says, and what should run instead: the answer of `tonnage adopt`."""

from __future__ import annotations

from typing import Any, Literal

from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.plan import ServePlan
from tonnage.domain.train_plan import TrainPlan
from tonnage.record import Record, SparseRecord

ADOPTION_SCHEMA = "tonnage.adopt/1"


class Setting(SparseRecord, kw_only=True):
    """One setting that was read, as it is written and by our name."""

    name: str
    """An attribute of the engine, the layout or the job: tp, max_num_seqs, micro_batch …"""
    value: Any
    written: str
    """As the file spells it: "--tensor-parallel-size 4"."""


class Machine(SparseRecord, kw_only=True):
    """What the file says of where it runs; absent = it does not say."""

    accelerators: tuple[str, ...] = ()
    """Catalogue ids that the file's own words may mean: several where a label names a family."""
    words: str = ""
    """Those words: "nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3"."""
    count: int | None = None
    """Accelerators that one replica, or one node of it, reserves. [accelerators]"""
    nodes: int = 1
    """Nodes of one replica or of the job."""
    provider: str = ""
    region: str = ""
    instance_type: str = ""
    spot: bool = False


class Running(SparseRecord, kw_only=True):
    """A deployment or a training job as its own program would read the file."""

    kind: Literal["serve", "train", "finetune"]
    format: str
    """What the file is: "Kubernetes Deployment", "shell script", "axolotl configuration"."""
    program: str
    """The engine or framework that it starts, by the name of its exporter."""
    model: str = ""
    """Absent = the file describes a network and names none (Megatron-LM)."""
    version: str | None = None
    settings: tuple[Setting, ...] = ()
    replicas: int = 1
    machine: Machine = Machine()
    ignored: tuple[str, ...] = ()
    """Settings that the program knows and that change no number here."""
    unknown: tuple[str, ...] = ()
    """Settings that the release whose options are listed does not know."""
    notes: tuple[str, ...] = ()
    """What else a reader has to know: what could not be read, what the program does by itself."""

    def value(self, name: str, otherwise: Any = None) -> Any:
        """The setting of that name; the last one counts, as in every program."""
        return next((setting.value for setting in reversed(self.settings) if setting.name == name), otherwise)

    def values(self) -> dict[str, Any]:
        """Every setting by our names."""
        return {setting.name: setting.value for setting in self.settings}


class Saving(Record, kw_only=True):
    """What another option costs less than what runs today."""

    usd: float
    """Per month of serving, or of the whole run. [USD]"""
    share: float
    """Of today's cost. [-]"""
    unit: Literal["month", "run"]


class ServeSides(SparseRecord, kw_only=True):
    """A server today and what should replace it."""

    current: ServePlan | None = None
    """A plan of one option: what runs today. `explain`, `export` and `check` take it; absent where it cannot run."""
    better: ServePlan | None = None
    """The plan for the same load without today's choices."""
    nearby: ServePlan | None = None
    """The better plan at today's provider alone; absent where it is not known, or is the better one anyway."""


class TrainSides(SparseRecord, kw_only=True):
    """A training job today and what should replace it."""

    current: TrainPlan | None = None
    better: TrainPlan | None = None
    """The plan for the same job that ends no later."""
    nearby: TrainPlan | None = None


class Adoption(SparseRecord, kw_only=True):
    """What runs, what it does by prediction, and the better option with its saving."""

    schema: str
    sentence: str
    running: Running
    assumed: tuple[str, ...] = ()
    """What the file does not say, and what was taken instead."""
    findings: tuple[str, ...] = ()
    """What the file does that its author hardly wanted: accelerators reserved and unused, a context that cannot fit."""
    feasible: bool
    """What runs today fits and carries its load."""
    serve: ServeSides | None = None
    train: TrainSides | None = None
    """One of the two."""
    calibrations: tuple[CalibrationUse, ...] = ()
    """Measurements that moved these numbers: the user's own, or published ones that were asked for."""
    saving: Saving | None = None
    """Of the better plan's first option; absent where nothing is saved."""
    command: str = ""
    """Asks for the better plan again, with every simulation."""

    @property
    def sides(self) -> ServeSides | TrainSides:
        """Whichever of the two it is."""
        found = self.serve or self.train
        assert found is not None
        return found

    @property
    def current(self) -> ServePlan | TrainPlan | None:
        """What runs today, as a plan of one option."""
        return self.sides.current

    @property
    def better(self) -> ServePlan | TrainPlan | None:
        """The plan that should replace it."""
        return self.sides.better
