"""
What does one batch through a model that does not decode text take? Case -> rate, latency, memory.

A static batch answers with its latency and the rate that follows. A saturated system runs the batch that uses it best,
on every accelerator at once. Under a rate of arrivals the server collects the smallest batch that keeps up; samples
wait for the batch to fill, for the one before it, and for their own.
"""

from __future__ import annotations

from typing import Final

from tonnage import catalog
from tonnage.catalog import NOTHING, Additions
from tonnage.catalog.engines import engine_lacking
from tonnage.catalog.fitted import offline, runtime_of, silicon_of
from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.likeness import die_of, units_of_donor
from tonnage.core.error_model import ErrorModel, infer_level
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.case import InferCase, InferResult
from tonnage.domain.model import Model
from tonnage.domain.offline import Offline, Runtime
from tonnage.domain.precision import number_format
from tonnage.engines.registry import engines, planned_engines
from tonnage.physics.memory import weight_bytes
from tonnage.physics.network import element_bytes, inference_peak_bytes
from tonnage.questions.predict.infer_work import Stages, precision_of, stages_of
from tonnage.record import Record
from tonnage.simulation.offline import Machine, Taken, machine_of, pass_s, peak_of
from tonnage.units import percent, show

_BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_ENOUGH: Final = 0.96
"""A server stops growing its batch where a doubling gains less than this."""
_AHEAD: Final = 2.0
"""A server collects a batch that could do this many times the arrivals, while such a batch exists."""
_CONTEXT_BYTES: Final = 4.5e8
"""CUDA context and loaded kernels of one process (docs/physics.md 4)."""
_WORKSPACE_BYTES: Final = 6.4e7
"""Scratch memory of matrix libraries (cuBLAS: 64 MiB on Hopper, less before)."""
_CACHED: Final = frozenset({"attention_decode", "mla_decode"})
_UNEVEN: Final = 6.0
"""Largest layer output over the mean, in a network known by its totals (ResNet-50: 0.8 of 11.1 M values)."""


class Setup(Record, kw_only=True):
    """A case with its names resolved."""

    case: InferCase
    model: Model
    accelerator: Accelerator
    machine: Machine
    runtime: Runtime
    facts: Offline
    basis: Basis
    notes: tuple[str, ...] = ()


class Times(Record, kw_only=True):
    """One batch on one accelerator."""

    batch: int
    latency_s: float
    interval_s: float
    """Between batches when the next one is prepared meanwhile. [s]"""
    step_s: float | None
    parts: tuple[Quantity, ...]
    power_bound: bool
    stages: Stages

    @property
    def samples_per_s(self) -> float:
        """Of a saturated server. [1/s]"""
        return self.batch / self.interval_s * self.stages.per_sample


def predict_infer(case: InferCase, *, additions: Additions = NOTHING) -> InferResult:
    """
    Rate, latency and memory of a batch through a vision, encoder, diffusion, speech or recommender model.

    Raises
    ------
    TonnageError
        A name is unknown, the case is contradictory, or nobody counted the network.
    """
    return answer(setup_of(case, additions))


def answer(setup: Setup) -> InferResult:
    """The result of a case whose names are resolved."""
    case = setup.case
    times, latency, rate = load_times(setup)
    memory = memory_of(setup, times)
    limit_bytes = setup.accelerator.driver_memory_bytes * case.accelerator_fraction
    notes, why = (*setup.notes, *times.stages.notes), not_run(case.engine, setup.accelerator)
    if why is None and memory.value > limit_bytes:
        why = f"needs {show(memory.value, 'bytes')} where {setup.accelerator.name} has {show(limit_bytes, 'bytes')}"
    if why is not None:
        return InferResult(fits=False, basis=setup.basis.value, memory=memory, why=why, notes=notes)
    return InferResult(
        fits=True,
        basis=setup.basis.value,
        samples_per_s=_quantity(rate * times.stages.per_sample, "1/s", "samples_per_s", setup),
        latency_s=_quantity(latency, "s", "latency_s", setup, _parts(times, latency)),
        step_s=None if times.step_s is None else _quantity(times.step_s, "s", "step_s", setup),
        memory=memory,
        level=errors_of(setup).level,
        why=_why(setup, times),
        notes=notes,
    )


def not_run(engine: str, accelerator: Accelerator) -> str | None:
    """Why an engine runs no network on an accelerator; absent where it may."""
    spec = engines().get(engine)
    lacking = None if spec is None else engine_lacking(spec, accelerator, planned=planned_engines())
    return None if lacking is None else lacking.reason


def setup_of(case: InferCase, additions: Additions = NOTHING, *, facts: Offline | None = None) -> Setup:
    """Resolves the names of a case; `facts` are the fitted numbers, absent = the shipped ones."""
    facts = facts or offline()
    accelerator = catalog.predictable_accelerator(case.accelerator, additions)
    model = resolve(case.model, additions=additions)
    runtime, borrowed = runtime_of(facts, case.engine, mode=_mode(case, facts))
    silicon = silicon_of(facts, accelerator)
    die = die_of(accelerator.id)
    units = die.multiprocessors if die else units_of_donor(accelerator)
    machine = machine_of(accelerator, silicon, facts=facts, fraction=case.accelerator_fraction, units=units)
    notes = [f"no measurements of {case.engine}: times of a plain framework stand in"] if borrowed else []
    notes += filter(None, (catalog.status_note(accelerator),))
    if not silicon.fitted:
        notes.append(f"no measurements of {accelerator.architecture}: efficiencies of other parts stand in")
    basis = Basis.DERIVED if borrowed or not silicon.fitted else Basis.CALIBRATED
    return Setup(
        case=case,
        model=model,
        accelerator=accelerator,
        machine=machine,
        runtime=runtime,
        facts=facts,
        basis=basis,
        notes=tuple(notes),
    )


def _mode(case: InferCase, facts: Offline) -> str:
    """
    How the engine runs networks: as stated, else its default in the case's year; empty for an engine that is not known.
    """
    if case.engine_mode:
        return case.engine_mode
    spec = engines().get(facts.aliases.get(case.engine, case.engine))
    if spec is None:
        return ""
    if spec.network_mode_before is not None and case.year is not None and case.year < spec.network_mode_before[0]:
        return spec.network_mode_before[1]
    return spec.network_mode


def batch_times(setup: Setup, batch: int) -> Times:
    """
    One batch on one accelerator, alone: its latency, and the interval between batches when the host prepares the next
    meanwhile.
    """
    stages = stages_of(setup.model, setup.case, batch=batch)
    latency = interval = 0.0
    step: float | None = None
    parts: list[Quantity] = []
    bound = False
    for stage in stages.stages:
        taken = pass_s(stage.work, machine=setup.machine, runtime=setup.runtime, facts=setup.facts)
        latency += taken.total_s * stage.times
        interval += max(taken.device_s, taken.host_s) * stage.times
        bound = bound or taken.power_bound
        if stage.name == "denoiser":
            step = taken.total_s
        parts += _stage_parts(stage.name, taken, stage.times, alone=len(stages.stages) == 1)
    return Times(
        batch=batch,
        latency_s=latency,
        interval_s=interval,
        step_s=step,
        parts=tuple(parts),
        power_bound=bound,
        stages=stages,
    )


def _stage_parts(name: str, taken: Taken, times: float, *, alone: bool) -> list[Quantity]:
    """What a stage takes: as one part among several stages, or opened where it is alone."""
    if not alone:
        return [Quantity(name=name, value=taken.total_s * times, basis=Basis.CALIBRATED)]
    waits = max(0.0, taken.host_s - taken.device_s)
    found = (("arithmetic", taken.arithmetic_s), ("memory traffic", taken.traffic_s), ("kernel starts", taken.start_s),
             ("host", waits + taken.call_s))  # fmt: skip
    return [Quantity(name=part, value=value * times, basis=Basis.CALIBRATED) for part, value in found if value]


def _parts(times: Times, latency: float) -> tuple[Quantity, ...]:
    waits = latency - times.latency_s
    return times.parts if waits <= 0 else (*times.parts, Quantity(name="waiting", value=waits))


def _most(setup: Setup) -> int:
    """
    Largest batch worth trying, for patience: images of a diffusion model take seconds each. Memory is the caller's.
    """
    return 16 if "diffusion" in setup.model.kind else _BATCHES[-1]


def load_times(setup: Setup) -> tuple[Times, float, float]:
    """The batch that runs under the load, the latency of a sample [s], and the rate of all accelerators [1/s]."""
    case = setup.case
    if case.rate_per_s is not None:
        return _queue_times(setup, case.rate_per_s)
    if case.saturated:
        times = _best(setup)
        return times, times.latency_s, times.batch / times.interval_s * _replicas(case)
    times = batch_times(setup, case.batch)
    return times, times.latency_s, case.batch / times.latency_s * _replicas(case)


def _replicas(case: InferCase) -> int:
    """Whole copies of the model on the accelerators of the case."""
    return max(1, case.count // case.tp)


def _best(setup: Setup) -> Times:
    """The smallest batch, of those that fit, after which a larger one gains little; 1 where even that does not fit."""
    best = batch_times(setup, 1)
    for batch in _BATCHES[1:]:
        if batch > _most(setup):
            break
        larger = batch_times(setup, batch)
        if not _fits(setup, larger):
            break
        if best.batch / best.interval_s >= _ENOUGH * larger.batch / larger.interval_s and best.batch >= 4:
            break
        best = larger
    return best


def _fits(setup: Setup, times: Times) -> bool:
    limit_bytes = setup.accelerator.driver_memory_bytes * setup.case.accelerator_fraction
    return memory_of(setup, times).value <= limit_bytes


def _queue_times(setup: Setup, rate: float) -> tuple[Times, float, float]:
    """
    Batch, mean latency [s] and completed rate [samples/s] of a server under arrivals, split evenly over accelerators.

    The server collects the smallest batch that could do twice the rate, at most the one that saturates. A sample waits
    half of the batch's filling; then its batch runs beside the one before it, as often as that is still there.
    """
    each = rate / _replicas(setup.case)
    best = times = _best(setup)
    for batch in _BATCHES:
        if batch >= best.batch:
            break
        smaller = batch_times(setup, batch)
        if smaller.batch / smaller.interval_s >= _AHEAD * each:
            times = smaller
            break
    capacity = times.batch / times.interval_s
    load = min(each / capacity, 1.0)
    fill = (times.batch - 1) / (2.0 * each)
    return times, fill + times.latency_s + load * times.interval_s, min(rate, capacity * _replicas(setup.case))


def memory_of(setup: Setup, times: Times) -> Quantity:
    """
    Memory of one accelerator: weights, the largest layer's activations, cache, scratch memory and the process's own, as
    an interval. [bytes]
    """
    name = setup.case.precision
    weights = _weights(setup, name)
    largest = 0.0
    for stage in times.stages.stages:
        for op in stage.work:
            moved = op.read_bytes + op.write_bytes
            spread = _UNEVEN if op.kind == "convolution" and op.name in {s.name for s in setup.facts.styles} else 1.0
            largest = max(largest, (moved - op.stored_bytes if op.n else moved) * spread)
    source = "input and output of the largest layer"
    if setup.model.profile is not None:
        wide = element_bytes(precision_of(name).activations)
        largest = inference_peak_bytes(setup.model.profile, batch=times.batch, value_bytes=wide)
        source = "traced: what is alive at the worst moment"
    on_host = setup.machine.silicon.host
    kept = sum(op.read_bytes * op.count for stage in times.stages.stages for op in stage.work if op.kind in _CACHED)
    parts = [
        Quantity(name="weights", value=weights, source="parameters x bytes of their format"),
        Quantity(name="activations", value=largest, source=source),
        *([Quantity(name="cache", value=kept, source="keys and values that a decoder step reads")] if kept else []),
        Quantity(name="workspace", value=0.0 if on_host else _WORKSPACE_BYTES, basis=Basis.ASSUMED),
        Quantity(name="context", value=0.0 if on_host else _CONTEXT_BYTES, basis=Basis.ASSUMED),
    ]
    found = Quantity.of_parts("bytes", parts)
    return found.spread(ErrorModel(kind="infer", level=found.basis.value).spread("memory"))


def _weights(setup: Setup, name: str) -> float:
    return weight_bytes(setup.model, precision_of(name)).value / setup.case.tp


def _quantity(value: float, unit: str, name: str, setup: Setup, parts: tuple[Quantity, ...] = ()) -> Quantity:
    found = Quantity(value=value, unit=unit, basis=setup.basis, parts=parts)
    return found.spread(errors_of(setup).spread(name))


def errors_of(setup: Setup) -> ErrorModel:
    """How far predictions of such a case are off."""
    level = infer_level(setup.case, setup.model, basis=setup.basis.value, engine=setup.runtime.engine)
    return ErrorModel(kind="infer", level=level)


def arithmetic_s(setup: Setup, times: Times) -> float:
    """What the arithmetic of one batch takes at the peak. [s]"""
    flop = sum(op.flop * op.count * stage.times for stage in times.stages.stages for op in stage.work)
    peak, _ = peak_of(setup.machine.peaks, number_format(precision_of(setup.case.precision).activations).compute)
    return flop / peak


def _why(setup: Setup, times: Times) -> str:
    """One sentence: what most of the time goes to, and how much of the accelerator is used."""
    most = max(times.parts, key=lambda part: part.value)
    share = most.value / sum(part.value for part in times.parts)
    used = arithmetic_s(setup, times) / times.interval_s
    sentence = f"a batch of {times.batch} spends {percent(share)} of its time on {most.name}"
    sentence += f" and uses {percent(used, 1)} of the peak arithmetic"
    if times.power_bound:
        limit = setup.accelerator.power_w or 0.0
        sentence += f"; products are held back by the {limit:.0f} W power limit"
    return sentence
