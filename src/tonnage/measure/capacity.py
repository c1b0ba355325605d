"""
How much of the measured does a load or a training run need: replicas, or accelerator-hours with headroom on a timeline?
"""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from typing import Final, Literal

from tonnage.domain.measurement import CAPACITY_SCHEMA, Capacity, Measurement, Point, refuse_disowned
from tonnage.domain.requests.common import Slo
from tonnage.domain.train_measurement import TRAIN_BUDGET_SCHEMA, Phase, TrainBudget, TrainMeasurement, TrainRun
from tonnage.errors import BadRequest, Unmeasured
from tonnage.measure.knee import objective_missed, why_not_sustained
from tonnage.measure.records import check_bounds
from tonnage.record import Record
from tonnage.units import percent


class Demand(Record, kw_only=True):
    """The load to be served, and what must stay free."""

    rate_per_s: float
    """Mean. [requests/s]"""
    peak_to_mean: float = 1.0
    headroom: float = 0.25
    """Share of each replica kept free at the peak. [-]"""
    spare: int = 0
    """Replicas that may fail at the peak without anyone noticing."""
    slo: Slo = Slo()


def best_sustained_point(measurement: Measurement, slo: Slo) -> Point:
    """
    The point that answers most requests per second among those that are sustained and meet the objectives.

    Raises
    ------
    Unmeasured
        No point does.
    """
    good = []
    for point in measurement.points:
        bad = why_not_sustained(point, None, by="concurrency" if point.rate_per_s is None else "rate", slo=slo)
        if bad is None and point.requests_per_s:
            good.append(point)
    if not good:
        missed = {name for point in measurement.points if (name := objective_missed(point, slo)) is not None}
        why = f" within the objectives ({', '.join(sorted(missed))} missed)" if missed else ""
        raise Unmeasured(f"no load in this measurement is sustained{why}; measure lower loads")
    return max(good, key=sustained_per_s)


def sustained_per_s(point: Point) -> float:
    """
    What a load that is sustained shows a replica to carry: what it answered, or the rate that it kept up with. [1/s]

    Of an open loop what it answered holds the chance of its arrivals and the time of the last answers, in which nothing
    arrives; the offered rate counts where a report says how long requests came, by which keeping up is judged.
    """
    offered = point.rate_per_s if point.arrivals_s is not None else None
    return max(offered or 0.0, point.requests_per_s or 0.0)


def capacity_of(measurement: Measurement, demand: Demand) -> Capacity:
    """
    Replicas for the peak, and the spare ones, by the best load of one replica that is sustained within the objectives.

    replicas = ceil(peak / (sustained x (1 - headroom))) + spare. Load that is spread evenly is assumed; requests as
    long as those measured.

    Raises
    ------
    BadRequest
        A number of the demand is out of range, or the measurement's own note forbids its numbers.
    Unmeasured
        No load of the measurement is sustained.
    """
    check_bounds(
        ("--rate", demand.rate_per_s, 1e-9, 1e9),
        ("--peak", demand.peak_to_mean, 1.0, 1e4),
        ("--headroom", demand.headroom, 0.0, 0.95),
        ("--spare", demand.spare, 0, 10_000),
    )
    refuse_disowned(measurement)
    point = best_sustained_point(measurement, demand.slo)
    rate = sustained_per_s(point)
    peak = demand.rate_per_s * demand.peak_to_mean
    usable_per_s = rate * (1.0 - demand.headroom)
    needed = math.ceil(peak / usable_per_s - 1e-9)
    return Capacity(
        schema=CAPACITY_SCHEMA,
        replicas=needed + demand.spare,
        needed=needed,
        spare=demand.spare,
        peak_per_s=peak,
        usable_per_s=usable_per_s,
        sustained_per_s=rate,
        level=point.level,
        headroom=demand.headroom,
        reasons=tuple(_reasons(measurement, point, demand=demand, needed=needed, usable_per_s=usable_per_s)),
    )


def _reasons(measurement: Measurement, point: Point, *, demand: Demand, needed: int, usable_per_s: float) -> list[str]:
    """Sentences on what the number of replicas rests on, and what may speak against it."""
    peak = demand.rate_per_s * demand.peak_to_mean
    kind = "requests/s offered" if point.rate_per_s is not None else "requests at once"
    found = [
        f"Measured at {point.level:g} {kind}: {point.requests_per_s:.4g} requests/s from {point.completed:,} requests.",
        f"At the peak each of {needed} carries {peak / needed:.4g} requests/s, "
        f"{percent(peak / needed / sustained_per_s(point))} of what it sustains.",
    ]
    if needed > 1:
        found.append(f"One fewer would carry {peak / (needed - 1):.4g} requests/s each, above {usable_per_s:.4g}.")
    highest = max(measurement.points, key=lambda other: other.requests_per_s or 0.0)
    if highest is point and (measurement.knee is None or measurement.knee.limit == "none"):
        found.append("No higher load was measured, so one replica may sustain more: a sweep would tell.")
    if point.prompt_tokens is not None and point.output_tokens is not None:
        found.append(
            f"Holds for requests of about {point.prompt_tokens:.0f} prompt and {point.output_tokens:.0f} output tokens."
        )
    return found


RETRIES: Final = 0.10
"""Llama 3 report, section 3.3.4: more than 90 % of the time was useful, with 419 interruptions in 54 days."""
MAX_DEVICES: Final = 16_384


class Work(Record, kw_only=True):
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

    Without a number of devices it is the largest that was measured or, for a deadline, the smallest measured one
    doubled until the deadline is kept; `fits_deadline` says whether any does. More devices than measured take the loss
    of the last doubling that was measured for each further one; with one size measured, none is known, and perfect
    scaling is assumed and said. Hours are of work; `run_s` and `total_s` are longer by the share of the day.

    Raises
    ------
    Unmeasured
        The measurement does not say how many tokens or samples a step takes.
    BadRequest
        A number of the work is out of range, or not one of tokens, samples and steps is given.
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
        reasons=tuple(_train_reasons(measurement, runs, work, run=run, devices=devices, basis=basis)),
    )


def _check(work: Work) -> None:
    """Refuse work that states none or several of tokens, samples and steps, or a number out of its bounds."""
    given = [name for name in ("tokens", "samples", "steps") if getattr(work, name) is not None]
    if len(given) != 1:
        raise BadRequest("how much is to be trained: give one of --tokens, --samples and --steps")
    check_bounds(
        ("--devices", work.devices if work.devices is not None else 1, 1, MAX_DEVICES),
        ("--retries", work.retries, 0.0, 10.0),
        ("--validation", work.validation, 0.0, 10.0),
        ("--experiments", work.experiments, 0.0, 100.0),
        ("--share-of-day", work.share_of_day, 0.01, 1.0),
        (f"--{given[0]}", float(getattr(work, given[0])), 1.0, 1e18),
    )


def _rate(run: TrainRun, work: Work) -> float | None:
    """Tokens, samples or steps, whichever the work counts, per second and device; None = not measured."""
    whole = (
        1.0 / run.step_s
        if work.steps is not None
        else (run.tokens_per_s if work.tokens is not None else run.samples_per_s)
    )
    return None if whole is None else whole / run.devices


def _at(runs: list[TrainRun], devices: int) -> tuple[TrainRun, float, Literal["measured", "assumed"]]:
    """
    The run that stands for so many devices, throughput per device there over the smallest run's, and how it is known.

    A run of just so many, else the largest of fewer, else the smallest of all. Beyond it, throughput per device falls
    with each doubling as it did over the last one that was measured.
    """
    exact = next((run for run in runs if run.devices == devices), None)
    nearest = exact or max(
        (run for run in runs if run.devices <= devices), key=lambda run: run.devices, default=runs[0]
    )
    known = nearest.efficiency or 1.0
    if exact is not None:
        return exact, known, "measured"
    kept = 1.0  # of the throughput per device, with each further doubling
    if len(runs) > 1 and devices > nearest.devices and nearest.efficiency:
        below = runs[runs.index(nearest) - 1]
        doublings = math.log2(nearest.devices / below.devices)
        kept = min(1.0, (nearest.efficiency / (below.efficiency or 1.0)) ** (1.0 / doublings))
    further = math.log2(devices / nearest.devices)
    return nearest, known * kept ** max(0.0, further), "assumed"


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
    while devices < MAX_DEVICES:
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


def _train_reasons(
    measurement: TrainMeasurement, runs: list[TrainRun], work: Work, *, run: TrainRun, devices: int, basis: str
) -> list[str]:
    """Sentences on what the hours rest on: what was measured, how it scales, what is on top."""
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
        f"On top of the run: {percent(work.experiments)} experiments, {percent(work.validation)} validation, "
        f"{percent(work.retries)} "
        "retries; state your own by --experiments, --validation, --retries."
    )
    return found
