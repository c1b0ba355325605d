"""
The user's training runs -> a calibration of one framework on one accelerator, for the models that were measured.

A step has no causes that few points could tell apart: what is learnt is an offset of the run and a drift over
accelerators, degrees, batches and lengths (`core.drift`), with the heavy tails of single numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, part_name
from tonnage.catalog.fitted import priors
from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.spreads import NINETY
from tonnage.core import train_estimate as estimate
from tonnage.domain.calibration import (
    CALIBRATE_SCHEMA,
    TRAINING,
    Calibrated,
    Calibration,
    CalibrationError,
    Learnt,
    Stretch,
)
from tonnage.domain.case import TrainCase
from tonnage.domain.measurement import forbidden
from tonnage.domain.train_measurement import TrainMeasurement
from tonnage.domain.training import TrainSetup
from tonnage.errors import BadRequest, echo
from tonnage.questions.calibrate.posterior import NAMES, Posterior, posterior
from tonnage.questions.calibrate.question import CalibrateRequest
from tonnage.questions.train.setup import resolve_setup
from tonnage.simulation.training import model_flop
from tonnage.units import percent

_BEYOND: Final = 1.0
"""Share of its data-sheet peak that no step exceeds. [-]"""
_UNDER: Final = 0.98
"""Share of the exact parts below which a peak is refused: libraries print GB of 10^9 or 2^30, rounded. [-]"""
_FLAT: Final = (0.0,) * len(NAMES)
"""Shares of a stack's causes: of training all 0. [-]"""
_LAYOUT: Final = ("tp", "pp", "vpp", "cp", "ep", "dp", "sharding")
_FIELDS: Final = (
    "method",
    "precision",
    "micro_batch",
    "recompute",
    "optimizer",
    "lora_rank",
    "seq_len",
    "global_batch",
)


class TrainRow(NamedTuple):
    """One measured run: what it was, and its step and peak."""

    case: TrainCase
    measured: Mapping[str, float]


def train_rows_of(found: TrainMeasurement, asked: CalibrateRequest) -> list[TrainRow]:
    """
    The runs of a measurement as cases, all of one model (the first that the request names, else the measurement's).

    Settings of the request take precedence over what the measurement says.

    Raises
    ------
    BadRequest
        The model, the accelerator or a batch is not known, or a setting is unknown.
    """
    if (wrong := forbidden(found.notes)) is not None:
        raise BadRequest(f"the measurement's own note forbids its numbers: {echo(wrong)}")
    settings = _settings(asked)
    model, accelerator = (asked.models or (found.model,))[0], asked.accelerator or found.device
    for name, value in (("model", model), ("accelerator", accelerator)):
        if not value:
            raise BadRequest(f"{name}: the training measurement does not say it; give it (--{name})")
    rows = []
    for run in found.runs:
        batch = run.samples_per_step
        length = run.tokens_per_step / batch if run.tokens_per_step and batch else None
        values: dict[str, Any] = {
            "model": model,
            "accelerator": accelerator,
            "count": run.devices,
            "framework": asked.engine,
            "global_batch": round(batch) if batch else None,
            "seq_len": round(length) if length else None,
            **{name: value for name, value in settings.items() if name in _FIELDS},
            "layout": {
                "tp": asked.tp,
                "pp": asked.pp,
                **{name: value for name, value in settings.items() if name in _LAYOUT},
            },
        }
        if not values["global_batch"]:
            raise BadRequest(
                "global_batch: the training measurement does not say it; give it (--option global_batch=8)"
            )
        measured = {"step_s": run.step_s, "memory_peak_bytes": run.memory.peak_bytes}
        kept = {name: value for name, value in values.items() if value is not None}
        try:
            case = msgspec.convert(kept, TrainCase)
        except msgspec.ValidationError as error:
            raise BadRequest(f"a setting of the training run: {echo(error)}") from None
        rows.append(TrainRow(case, {name: value for name, value in measured.items() if value}))
    return rows


def _settings(asked: CalibrateRequest) -> dict[str, Any]:
    """Settings NAME=VALUE by name, whole numbers as such and all else as text; an unknown name is refused."""
    found: dict[str, Any] = {}
    for text in asked.settings:
        name, separator, value = text.partition("=")
        if not separator or name not in {*_FIELDS, *_LAYOUT}:
            known = ", ".join((*_FIELDS, *_LAYOUT))
            raise BadRequest(f"--option '{echo(text)}': write NAME=VALUE with a name of {known}")
        found[name] = int(value) if value.isdecimal() and len(value) < 10 else value
    return found


class _Measured(NamedTuple):
    setup: TrainSetup
    predicted: dict[str, float]
    measured: Mapping[str, float]
    loose: float
    """Of the predicted peak of memory, what does not follow from counts and formats. [-]"""


def calibrate_training(
    rows: Sequence[TrainRow], *, additions: Additions, machine: str, today: str | None = None
) -> Calibrated:
    """
    What measured runs say of training with one framework on one accelerator.

    Raises
    ------
    TonnageError
        Something is unknown, the runs are of several stacks, or a step contradicts what the accelerator can do.
    """
    uncalibrated = replace(additions, calibrated=False)
    runs = [_predicted(row, uncalibrated) for row in rows]
    stacks = {(one.setup.accelerator.id, one.setup.software.name) for one in runs}
    if len(stacks) > 1:
        listed = " and ".join(f"{software} on {part}" for part, software in sorted(stacks))
        raise BadRequest(f"training runs of {listed}: a calibration is of one framework on one accelerator; give one")
    part, software = stacks.pop()
    seen = [one for run in runs for one in _seen(run)]
    found = posterior(seen, priors("train"))
    errors = _errors(runs, found.drift(seen), found.weights)
    factors = _ninety_percent(seen, found.spread(seen))
    own = Calibration(
        accelerator=part,
        engine=software + TRAINING,
        stretch=Stretch(),
        factors=factors,
        date=today or datetime.now(UTC).date().isoformat(),
        machine=machine,
        models=tuple(dict.fromkeys(one.model for one in seen)),
        points=len(runs),
        learnt=_learnt(seen, found),
    )
    before, after = (
        float(np.mean([abs(getattr(e, at) / e.measured - 1.0) for e in errors])) for at in ("before", "after")
    )
    sure = f"; a step is now known within {percent(factors['step_s'] - 1.0)}" if "step_s" in factors else ""
    return Calibrated(
        schema=CALIBRATE_SCHEMA,
        sentence=f"Training with {software} on {part_name(part)}: mean error {percent(before)} before, "
        f"{percent(after)} after{sure}.",
        calibration=own,
        prior=Stretch(),
        prior_spread={},
        errors=errors,
        before=before,
        after=after,
        notes=("It holds for the models that were measured: one of another model of the same stack teaches nothing.",),
    )


def _seen(run: _Measured) -> Iterator[Learnt]:
    """Each measured number of a run beside its prediction, and where it was measured."""
    setup = run.setup
    for name, value in run.measured.items():
        yield Learnt(
            setup.model.id,
            name,
            estimate.place_of_setup(setup),
            left=math.log(value / run.predicted[name]),
            shares=_FLAT,
            setting=estimate.setting_of(setup),
            part=run.loose if name == "memory_peak_bytes" else 0.0,
        )


def _learnt(seen: Sequence[Learnt], found: Posterior) -> tuple[Learnt, ...]:
    """What predictions near the runs take from them; an outlier weighs less."""
    return tuple(
        replace(one, noise=found.noise[one.quantity] / math.sqrt(weight))
        for one, weight in zip(seen, found.weights, strict=True)
    )


def _errors(
    runs: Sequence[_Measured], drift: Iterable[float], weights: Iterable[float]
) -> tuple[CalibrationError, ...]:
    """Each number as measured, and as predicted without and with the calibration; `drift` [log] in their order."""
    moved = iter(zip(drift, weights, strict=True))
    return tuple(
        CalibrationError(
            model=run.setup.model.id,
            load=f"{run.setup.layout.ranks} x batch {run.setup.global_batch}",
            quantity=name,
            unit="s" if name == "step_s" else "bytes",
            measured=value,
            before=run.predicted[name],
            after=run.predicted[name] * math.exp(by),
            weight=weight,
        )
        for run in runs
        # One iterator over all runs: it must come second, for `zip` takes from the first what it then drops.
        for (name, value), (by, weight) in zip(run.measured.items(), moved, strict=False)
    )


def _ninety_percent(seen: Sequence[Learnt], spread: Iterable[float]) -> dict[str, float]:
    """By quantity the 90 % factor of predictions where it was measured. [-]"""
    each: dict[str, list[float]] = {}
    for one, width in zip(seen, spread, strict=True):
        each.setdefault(one.quantity, []).append(width)
    return {name: math.exp(NINETY * float(np.mean(widths))) for name, widths in each.items()}


def _predicted(row: TrainRow, additions: Additions) -> _Measured:
    """
    A measured run beside what is predicted of it: step and allocator's peak of one accelerator.

    Raises
    ------
    TonnageError
        A name is unknown, the step is shorter than its FLOP take at peak, or the peak of memory is larger than the
        accelerator or smaller than weights and optimizer states.
    """
    case = row.case
    model = resolve(case.model, additions=additions)
    accelerator = catalog.predictable_accelerator(case.accelerator, additions)
    setup = resolve_setup(case, model=model, accelerator=accelerator).setup
    step_s = row.measured.get("step_s")
    fastest = max(accelerator.peaks.values()) * setup.layout.ranks
    least = model_flop(setup) / (fastest * _BEYOND)
    if step_s is not None and step_s < least:
        raise BadRequest(
            f"a step of {step_s:.3g} s contradicts {accelerator.name}: the model's FLOP alone take {least:.3g} s at "
            "its peak; check the model, the batch, the length and the count"
        )
    memory = row.measured.get("memory_peak_bytes")
    if memory is not None and memory > accelerator.memory_bytes * 1.02:
        raise BadRequest(
            f"a peak of {memory / 1e9:.4g} GB contradicts {accelerator.name}, which has "
            f"{accelerator.memory_bytes / 1e9:.4g} GB; give the peak of one accelerator"
        )
    # The allocator's peak, which is what frameworks print and `tonnage measure train` reads.
    peak = estimate.peak(setup, "allocated")
    exact = estimate.exact_bytes(peak)
    if memory is not None and memory < exact * _UNDER:
        raise BadRequest(
            f"a peak of {memory / 1e9:.4g} GB contradicts the settings: weights and optimizer states alone take "
            f"{exact / 1e9:.4g} GB; check the method, the precision, the optimizer and the sharding"
        )
    return _Measured(
        setup,
        {"step_s": estimate.step(setup).value, "memory_peak_bytes": peak.value},
        row.measured,
        1.0 - exact / peak.value,
    )
