"""What does a whole training run need, by what one node was measured to do? Hours, with headroom, on a timeline."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from typing import Final, Literal

import msgspec

from tonnage.domain.train_measurement import TRAIN_BUDGET_SCHEMA, Phase, TrainBudget, TrainMeasurement, TrainRun
from tonnage.errors import BadRequest, Unmeasured

__all__ = ["Work", "budget_of"]

RETRIES: Final = 0.10
"""Llama 3 report, section 3.3.4: more than 90 % of the time was useful, with 419 interruptions in 54 days."""
MOST_DEVICES: Final = 16_384


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The work to be done, and what must stay free."""

    tokens: float | None = None
    samples: float | None = None
    steps: int | None = None
    devices: int | None = None
    """Absent: as measured, or as many as the deadline needs."""
    deadline_s: float | None = None
    retries: float = RETRIES
    """Of the run: interruptions, and work done twice. [-]"""
    validation: float = 0.05
    """Of the run: evaluations in between. [-]"""
    experiments: float = 0.20
    """Of the run: trials before it. [-]"""
    start: date | None = None
    share_of_day: float = 1.0
    """Of the day in which the accelerators work for this. [-]"""


def budget_of(measurement: TrainMeasurement, work: Work) -> TrainBudget:
    """
    Accelerator-hours = devices x steps x step x (1 + validation + retries + experiments).

    More devices than measured take the loss of the last doubling that was measured for each further one; with one
    size measured, none is known, and perfect scaling is assumed and said.

    Raises
    ------
    Unmeasured
        The measurement does not say how many tokens or samples a step takes.
    """
    _check(work)
    runs = sorted(measurement.runs, key=lambda run: run.devices)
    devices = work.devices or (runs[-1].devices if work.deadline_s is None else _enough(runs, work))
    run, scaling, basis = _at(runs, devices)
    steps, step_s = _steps(run, work, devices=devices, scaling=scaling)
    run_s = steps * step_s / work.share_of_day
    total_s = run_s * (1.0 + work.experiments + work.validation + work.retries)
    hours = devices * total_s * work.share_of_day / 3600.0
    return TrainBudget(
        schema=TRAIN_BUDGET_SCHEMA,
        devices=devices,
        steps=steps,
        step_s=step_s,
        run_s=run_s,
        total_s=total_s,
        accelerator_hours=hours,
        run_accelerator_hours=devices * run_s * work.share_of_day / 3600.0,
        scaling=scaling,
        basis=basis,
        fits_deadline=None if work.deadline_s is None else total_s <= work.deadline_s * (1 + 1e-9),
        phases=tuple(_phases(work, run_s=run_s, devices=devices)),
        reasons=tuple(_reasons(measurement, runs, work, run=run, devices=devices, basis=basis)),
    )


def _check(work: Work) -> None:
    given = [name for name in ("tokens", "samples", "steps") if getattr(work, name) is not None]
    if len(given) != 1:
        raise BadRequest("how much is to be trained: give one of --tokens, --samples and --steps")
    for name, value, low, high in (
        ("--devices", work.devices if work.devices is not None else 1, 1, MOST_DEVICES),
        ("--retries", work.retries, 0.0, 10.0),
        ("--validation", work.validation, 0.0, 10.0),
        ("--experiments", work.experiments, 0.0, 100.0),
        ("--share-of-day", work.share_of_day, 0.01, 1.0),
        (f"--{given[0]}", float(getattr(work, given[0])), 1.0, 1e18),
    ):
        if not low <= value <= high:
            raise BadRequest(f"{name}: {value:g} is outside {low:g} to {high:g}")


def _rate(run: TrainRun, work: Work) -> float | None:
    """Tokens, samples or steps per second and device."""
    whole = 1.0 / run.step_s if work.steps is not None else (
        run.tokens_per_s if work.tokens is not None else run.samples_per_s
    )  # fmt: skip
    return None if whole is None else whole / run.devices


def _at(runs: list[TrainRun], devices: int) -> tuple[TrainRun, float, Literal["measured", "assumed"]]:
    """The run nearest to so many devices, scaling there, and how it is known."""
    exact = next((run for run in runs if run.devices == devices), None)
    nearest = exact or max(
        (run for run in runs if run.devices <= devices), key=lambda run: run.devices, default=runs[0]
    )
    known = nearest.efficiency or 1.0
    if exact is not None:
        return exact, known, "measured"
    loss = 1.0
    if len(runs) > 1 and devices > nearest.devices and nearest.efficiency:
        below = runs[runs.index(nearest) - 1]
        doublings = math.log2(nearest.devices / below.devices)
        loss = min(1.0, (nearest.efficiency / (below.efficiency or 1.0)) ** (1.0 / doublings))
    further = math.log2(devices / nearest.devices)
    return nearest, known * loss ** max(0.0, further), "assumed"


def _steps(run: TrainRun, work: Work, *, devices: int, scaling: float) -> tuple[int, float]:
    """Steps of the run and seconds of one, each device doing as much a step as it did when measured."""
    rate = _rate(run, work)
    if rate is None:
        what = "tokens" if work.tokens is not None else "samples"
        raise Unmeasured(f"the measurement does not say how many {what} a step takes; give --steps, or measure them")
    step_s = run.step_s * (run.efficiency or 1.0) / scaling
    if work.steps is not None:
        return work.steps, step_s
    amount = work.tokens if work.tokens is not None else work.samples or 0.0
    return math.ceil(amount / (rate * run.step_s * devices) - 1e-9), step_s


def _enough(runs: list[TrainRun], work: Work) -> int:
    """The fewest devices, doubled from what was measured, that meet the deadline; the most tried when none do."""
    if work.steps is not None:
        raise BadRequest("--deadline with --steps: more devices do not make fewer steps; give --tokens or --samples")
    devices, whole = runs[0].devices, 1.0 + work.retries + work.validation + work.experiments
    while devices < MOST_DEVICES:
        run, scaling, _ = _at(runs, devices)
        steps, step_s = _steps(run, work, devices=devices, scaling=scaling)
        if steps * step_s * whole / work.share_of_day <= (work.deadline_s or 0.0):
            break
        devices *= 2
    return devices


def _phases(work: Work, *, run_s: float, devices: int) -> list[Phase]:
    """Trials, then the run with its evaluations, then what is kept for interruptions: a date for each."""
    found: list[Phase] = []
    at_s = 0.0
    for name, share in (
        ("experiments", work.experiments),
        ("training and validation", 1.0 + work.validation),
        ("reserve for retries", work.retries),
    ):
        if share <= 0:
            continue
        length = run_s * share
        found.append(
            Phase(
                name=name,
                begin_s=at_s,
                end_s=at_s + length,
                accelerator_hours=devices * length * work.share_of_day / 3600.0,
                begin=_date(work.start, at_s),
                end=_date(work.start, at_s + length),
            )
        )
        at_s += length
    return found


def _date(start: date | None, after_s: float) -> str | None:
    if start is None:
        return None
    try:
        return (datetime(start.year, start.month, start.day) + timedelta(seconds=after_s)).isoformat(timespec="minutes")
    except OverflowError:
        return None


def _reasons(
    measurement: TrainMeasurement, runs: list[TrainRun], work: Work, *, run: TrainRun, devices: int, basis: str
) -> list[str]:
    measured = ", ".join(str(one.devices) for one in runs)
    found = [f"Measured at {measured} devices: {run.steps} steps of {run.step_s:.4g} s at {run.devices}."]
    if basis == "assumed":
        how = "perfect scaling" if len(runs) == 1 else "the loss of the last doubling that was measured"
        found.append(f"{devices} devices were not measured: {how} is assumed; a run on more nodes would tell.")
    if run.parts.checkpoint_s is None:
        write = measurement.checkpoint.write_s if measurement.checkpoint is not None else None
        cost = f" (a write takes {write:.3g} s)" if write is not None else ""
        found.append(f"Checkpoints are not in the measured steps{cost}: they come out of the reserve.")
    found.append(
        f"On top of the run: {work.experiments:.0%} experiments, {work.validation:.0%} validation, {work.retries:.0%} "
        "retries; state your own by --experiments, --validation, --retries."
    )
    return found
