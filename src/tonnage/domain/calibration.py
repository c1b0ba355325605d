"""What a user's own measurements say of an engine on an accelerator: a few factors, how sure, from when and where.

A `Stretch` is the few numbers that measurements may set; everything else stays the physics'. A `Calibration` is a
stretch with its uncertainty, stored as one `[[calibration]]` table beside the user's own accelerators. It holds whole
for the models that were measured; for others of the same stack only the part that stacks share (`for_model`).
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tonnage.record import Record, SparseRecord

CALIBRATE_SCHEMA: Final = "tonnage.calibrate/1"


class Stretch(Record, kw_only=True):
    """The few numbers that measurements may set."""

    memory: float = 1.0
    """Factor on what memory bandwidth bounds, attention over the cache included. [-]"""
    attention: float = 1.0
    """Further factor on attention over the cache. [-]"""
    compute: float = 1.0
    """Factor on what arithmetic bounds, attention over prompts included. [-]"""
    step_s: float = 0.0
    """Host time of a step. [s]"""
    host: float = 1.0
    """Factor on all other host work of a step: launches, what overlaps with the accelerator. [-]"""
    sequence_s: float | None = None
    """Host time of a step for each running sequence; absent = as the catalogue has it. [s]"""
    request_s: float = 0.0
    """Added to the first token of a request. [s]"""
    links: float = 1.0
    """Factor on collectives. [-]"""


TRAINING: Final = "-training"
"""Behind the name of a framework, where a serving engine has its name: calibrations of training."""


class Learnt(Record):
    """One measured number of one configuration beside its prediction: while a stack is fitted, without its stretch."""

    model: str
    """Id."""
    quantity: str
    place: tuple[float, ...]
    """Requests in flight on a replica, mean prompt, mean answer, and the degrees tp, dp, pp, ep; of training the
    accelerators, tp, pp, cp, micro-batch, global batch and sequence length. [-]"""
    left: float = 0.0
    """ln(measured / predicted under the stretch). [-]"""
    noise: float = 0.0
    """Standard deviation of what nothing explains; of an outlier, what it then counts as. [-]"""
    shares: tuple[float, ...] = ()
    """Derivative of the prediction's logarithm by each cause; of training all 0. [-]"""
    setting: str = ""
    """Of training: method, recomputation, format, sharding."""
    part: float = 0.0
    """Of a time per token as predicted, what prompts of other requests take between two tokens; of a peak of memory,
    what does not follow from counts and formats. [-]"""


class Calibration(SparseRecord, kw_only=True):
    """One engine on one accelerator, as measured by its user."""

    accelerator: str
    """Id."""
    engine: str
    stretch: Stretch
    spread: dict[str, float] = {}
    """By number of the stretch: standard deviation of its logarithm, priors and measurements together. [-]"""
    factors: dict[str, float] = {}
    """By predicted quantity: the 90 % factor of predictions made with this calibration. [-]"""
    carried: float = 1.0
    """Of the stretch, in logarithms, what holds for models that were not measured. [-]"""
    carried_factors: dict[str, float] = {}
    """As `factors`, for models that were not measured; empty = the same. [-]"""
    date: str = ""
    machine: str = ""
    engine_version: str | None = None
    models: tuple[str, ...] = ()
    """Measured, by name."""
    points: int = 0
    """Loads measured. [-]"""
    learnt: tuple[Learnt, ...] = ()
    """Every measured number, for what drifts over loads, lengths and degrees; empty = nothing is known of that."""
    widths: dict[str, float] = {}
    """By cause: standard deviation of its logarithm before anything was measured. [-]"""
    source: str = ""
    """Name of the file it was read from. Without its folder: answers show it, and they leave the machine."""

    def for_model(self, model: str) -> Calibration:
        """
        As it holds for a model: whole where it was measured, else the share that models of one stack have in common.

        Examples
        --------
        >>> own = Calibration(accelerator="a", engine="e", stretch=Stretch(), models=("seen",), carried=0.5)
        >>> own.for_model("seen").carried, own.for_model("other").carried
        (1.0, 0.5)
        """
        if not self.models or model in self.models:
            return replace(self, carried=1.0)
        return replace(self, factors=self.carried_factors or self.factors)


class Moved(Record, kw_only=True):
    """What a calibration makes of one number of an answer."""

    quantity: str
    """tpot_s, ttft_s, output_tokens_per_s, step_s or memory_beside_states_bytes."""
    factor: float
    """The number with the calibration over that without, at the same requests in flight. [-]"""


class CalibrationUse(SparseRecord, kw_only=True):
    """Measurements that numbers of an answer rest on: the user's own, or published rows that were asked for."""

    accelerator: str
    """Id."""
    engine: str
    """Serving engine, or the framework of a training."""
    model: str
    """Whose numbers they moved, by id."""
    moved: tuple[Moved, ...]
    """Of the best option of the answer that they moved."""
    points: int = 0
    """Loads or runs measured; of published rows, rows. [-]"""
    models: tuple[str, ...] = ()
    """Measured, by id."""
    date: str = ""
    engine_version: str | None = None
    machine: str = ""
    carried: float = 1.0
    """What of it holds for a model that was not measured, of the way in logarithms. [-]"""
    source: str = ""
    """Name of the user's file, without its folder; of published rows, who published them."""
    training: bool = False
    published: bool = False


class CalibrationError(SparseRecord, kw_only=True):
    """One measured quantity of one load, beside what is predicted without and with the calibration."""

    model: str
    load: str
    quantity: str
    unit: str
    measured: float
    before: float
    after: float
    left_out: float | None = None
    """Predicted by a calibration that did not see this load; absent below three loads."""
    weight: float = 1.0
    """How much it counts: 1 as the others, towards 0 where no cause explains it beside them. [-]"""


class Calibrated(SparseRecord, kw_only=True):
    """The answer of `tonnage calibrate`."""

    schema: str
    sentence: str
    calibration: Calibration
    prior: Stretch
    """Where the fit started: the catalogue's numbers."""
    prior_spread: dict[str, float]
    errors: tuple[CalibrationError, ...]
    before: float
    """Mean absolute error of all quantities. [-]"""
    after: float
    left_out: float | None = None
    notes: tuple[str, ...] = ()


MEASURE_PLAN_SCHEMA: Final = "tonnage.measure_plan/1"


class Proposal(SparseRecord, kw_only=True):
    """One measurement worth making: one replica of an option of the plan, under a few loads."""

    option: int
    """Place in the plan, from 0."""
    accelerator: str
    engine: str
    layout: str
    precision: str
    loads: tuple[float, ...]
    """Requests at once, the plan's own load among them."""
    minutes: float
    usd: float
    """Of the instance for these minutes. [USD]"""
    sure_after: float
    """Chance that the choice is right once this and all before it are measured, over what they may say. [-]"""


class MeasurePlan(SparseRecord, kw_only=True):
    """What to measure before the money is spent, and when to stop."""

    schema: str
    sentence: str
    sure_now: float
    """Chance that the plan's first option is the cheapest that keeps the objectives, among those that compete. [-]"""
    competing: int
    """Options that may turn out cheaper or to be needed. [-]"""
    proposals: tuple[Proposal, ...] = ()
    notes: tuple[str, ...] = ()


class FirstMeasurement(SparseRecord, kw_only=True):
    """The five minutes that would most likely overturn a plan, and what they have to show for that."""

    sentence: str
    option: int | None = None
    """Place in the plan of what is measured, from 0; absent = the plan has no list of options."""
    what: str
    """The configuration, in a few words."""
    load: str
    quantity: str
    """What is read: TPOT, step time, samples/s, …"""
    unit: str
    predicted: float
    above: float | None = None
    """From this value on another option leads; with `below`, between the two."""
    below: float | None = None
    """Down from this value another option leads."""
    chance: float = 0.0
    """That it does; 0 = no outcome is likely to change the choice. [-]"""
    becomes: str = ""
    """What leads then."""
    minutes: float
    usd: float | None = None
    """Of what has to be rented for them; absent = nothing, or not known. [USD]"""
