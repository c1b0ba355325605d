"""
What a deployment's own file says, what should run instead, what to change in a service: the question and both answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.reading import build, read_fields
from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.diagnosis import Verdict
from tonnage.domain.layout import Layout
from tonnage.domain.plan import ServePlan
from tonnage.domain.precision import Precision
from tonnage.domain.requests.common import MODEL, Confidence, Quick, Slo
from tonnage.domain.requests.field import Field, Group, accelerator_field, offer_field
from tonnage.domain.train_plan import TrainPlan
from tonnage.errors import BadRequest
from tonnage.record import Record, SparseRecord


class Adopt(SparseRecord, kw_only=True):
    """A running deployment's own file, and what it does not say; absent = as the file says, or assumed and said so."""

    file: Annotated[str, Field("the file's text: vLLM command, manifest, Compose, Slurm, axolotl, TRL, …")]
    model: Annotated[
        str | None, msgspec.structs.replace(MODEL, help="the network, where the file's name for it is not known")
    ] = None
    accelerator: Annotated[
        str | None,
        accelerator_field("what it runs on, where the file does not say", known="planned accelerators", short="-a"),
    ] = None
    count: Annotated[int | None, accelerator_field("training: accelerators of the job", high=1e6)] = None
    replicas: Annotated[
        int | None, Field("copies of the server that share the load; else as the file says", high=1e6)
    ] = None
    rate_per_s: Annotated[
        float | None, Field("requests that arrive: 4/s; else what it carries now", "1/s", name="rate", high=1e7)
    ] = None
    profile: Annotated[
        str | None, Field("lengths of prompts and answers by profile; else chat", name="traffic", known="profiles")
    ] = None
    prompt_tokens: Annotated[float | None, Field("mean prompt length", "tokens", high=1e8)] = None
    output_tokens: Annotated[float | None, Field("mean answer length", "tokens", high=1e8)] = None
    slo: Annotated[Slo, Group()] = Slo()
    tokens: Annotated[float | None, Field("training: tokens of one epoch of the data", "tokens", high=1e16)] = None
    providers: Annotated[
        tuple[str, ...],
        offer_field("who it is rented from, where the file does not say", name="provider", known="providers"),
    ] = ()
    confidence: Confidence = 0.8
    """What should run meets every objective with at least this chance. [-]"""
    upgrade: Annotated[str | None, Field("another release: vllm@0.27")] = None
    quick: Quick = False


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
    scaled: tuple[int, int] | None = None
    """Least and most that an autoscaler keeps; `replicas` is then their mean."""
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
    upgrade: Action | None = None
    """What another release of the engine is expected to change, where that was asked."""
    saving: Saving | None = None
    """Of the better plan's first option; absent where nothing is saved."""
    changes: tuple[str, ...] = ()
    """What of that option changes answers or has to be installed: fewer bits, drafts, another release."""
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
    def leading(self) -> ServePlan | TrainPlan | None:
        """The plan of what should run: the better one where it saves, else today's; absent where that cannot go on."""
        found = self.better if self.saving else self.current
        return found if self.feasible and self.current is not None else None

    @property
    def better(self) -> ServePlan | TrainPlan | None:
        """The plan that should replace it."""
        return self.sides.better


ADVICE_SCHEMA = "tonnage.advice/1"


class Seen(SparseRecord, kw_only=True):
    """The traffic and the latencies of the service, as its own metrics tell them."""

    rate_per_s: float
    """Of the whole service. [requests/s]"""
    prompt_tokens: float
    output_tokens: float
    """Means of a request. [tokens]"""
    ttft_s: float | None = None
    tpot_s: float | None = None
    """Means. [s]"""
    reused_share: float | None = None
    """Of a prompt's tokens, that an earlier prompt began with; absent = not known. [-]"""
    log: str = ""
    """File of the requests that were replayed; empty = they were drawn at the rate and the lengths above."""


class Replayed(SparseRecord, kw_only=True):
    """The service's traffic, played request by request."""

    requests: int
    ttft_s: float
    tpot_s: float
    """At the objectives' percentile. [s]"""
    keeps: bool
    """Every objective holds."""


class State(SparseRecord, kw_only=True):
    """One way to run the service under the traffic seen, by prediction."""

    accelerator: str
    layout: Layout
    precision: Precision
    replicas: int
    accelerators: int
    usd_per_month: float
    most_per_s: float
    """What all replicas take within the objectives. [requests/s]"""
    ttft_s: float
    tpot_s: float
    """At the objectives' percentile. [s]"""
    keeps: bool
    """Whether it carries the traffic within the objectives: as replayed, else by averages."""
    chance: float | None = None
    """Of meeting every objective under the traffic seen; absent without objectives. [-]"""
    replayed: Replayed | None = None
    """The traffic on these replicas; absent where nothing is simulated, or workers are apart."""


class Action(SparseRecord, kw_only=True):
    """One change, what it brings, what it risks, and the check to run before."""

    name: str
    """batch limit, prefix cache, replicas, number format, accelerator, all settings, warm-up, autoscaling."""
    change: str
    state: State | None = None
    """After the change, with as many replicas as the traffic then needs; absent where money and load stay."""
    usd_per_month: float = 0.0
    """Saved; negative = dearer. [USD/month]"""
    risk: str = ""
    check: str = ""


class Advice(SparseRecord, kw_only=True):
    """What the service does, what limits it, and what to change, the most money first."""

    schema: str
    sentence: str
    running: Running
    seen: Seen
    today: State
    verdicts: tuple[Verdict, ...] = ()
    actions: tuple[Action, ...] = ()
    calibrated: str = ""
    """How far predictions were from what was measured, before it was taken into account; empty = not calibrated."""
    calibrations: tuple[CalibrationUse, ...] = ()
    """Measurements that moved these numbers: the user's own, or published ones that were asked for."""
    assumed: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    unexplained: tuple[str, ...] = ()
    """What was seen and is in no prediction: objectives that are missed, a cache of another format than the file's."""
    replayed: str = ""
    """Which requests were played on what runs and on every change; empty = none were."""
    percentile: float = 95.0
    """Of the requests, at which states have their latencies."""


def adopt_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Adopt:
    """
    The request from named texts; `file` is the text of the file.

    Raises
    ------
    BadRequest
        No file, an unknown field, or a value out of range or of the wrong kind.
    """
    given = read_fields(values, Adopt)
    if "file" not in given:
        raise BadRequest("file is missing: give the text of a manifest, a script or a configuration")
    return build(Adopt, given, additions=additions)
