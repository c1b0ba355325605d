"""The user's measurements -> a calibration of their stack, with errors before, after and left out.

Intervals follow from the posterior: the uncertainty that is left in the causes, as each quantity is made of them, and
what no cause explains. A model that was not measured gets the part of the stretch that models of one stack share, and
an interval that keeps the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np
from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, part_name
from tonnage.catalog.fitted import Priors, causes, priors
from tonnage.catalog.spreads import NINETY
from tonnage.core.drift import SAME_AS, STUDENT_NINETY
from tonnage.core.error_model import ErrorModel, as_measured
from tonnage.domain.calibration import CALIBRATE_SCHEMA, Calibrated, Calibration, CalibrationError, Learnt, Stretch
from tonnage.domain.engine_spec import Overheads
from tonnage.domain.measurement import Measurement
from tonnage.errors import BadRequest
from tonnage.questions.calibrate.loads import MeasuredLoad, Stack, loads_of, shipped_overheads
from tonnage.questions.calibrate.posterior import NAMES, Fit, drifts_of, fit, shares_of, stretch_of, widen, without
from tonnage.units import percent

_LEFT_OUT: Final = 3
"""Loads from which on each is predicted by the others. [-]"""
_OUTLIER: Final = 0.35
"""Weight below which a number is told as one that nothing else explains: four standard deviations and more. [-]"""
_WORDS: Final = {
    "memory": "memory",
    "compute": "arithmetic",
    "host": "host of a step",
    "sequence": "host of a sequence",
    "request": "start",
    "links": "links",
}
_UNITS: Final = {"ttft_s": "s", "tpot_s": "s", "output_tokens_per_s": "tokens/s"}


def calibrate(
    measured: Sequence[tuple[Measurement, Stack]],
    *,
    additions: Additions = catalog.NOTHING,
    machine: str = "",
    today: str | None = None,
) -> Calibrated:
    """
    The few numbers of one engine on one accelerator, from measurements of any number of models on it.

    Raises
    ------
    TonnageError
        Something is unknown, the measurements are of several stacks, none of their loads can be used, or a number
        contradicts what the accelerator can do.
    """
    loads = [load for found, stack in measured for load in loads_of(found, stack, additions=additions)]
    first = _one_stack(loads)
    base, known = shipped_overheads(first.at), as_measured(first.level)
    prior = prior_of(first)
    found = fit(loads, base=base, priors=prior)
    several = len(loads) >= _LEFT_OUT
    alone = [without(found, place, base=base, priors=prior) for place in range(len(loads))] if several else []
    learnt = _learnt(loads, found)
    errors = _errors(loads, found, base, alone)
    models = tuple(dict.fromkeys(load.model for load in loads))
    carried, near, far = _interval_factors(
        loads, found, usual=_deviation("tpot_s", known) / _deviation("tpot_s", first.level), models=len(models)
    )
    own = Calibration(
        accelerator=first.at.placement.accelerator.id,
        engine=first.at.engine.name,
        engine_version=first.at.case.engine_version,
        stretch=found.stretch,
        spread=_spread(found),
        factors=near,
        carried=carried,
        carried_factors=far,
        date=today or datetime.now(UTC).date().isoformat(),
        machine=machine,
        models=models,
        points=len(loads),
        learnt=learnt,
        widths=dict(prior.widths),
    )
    before, after = (_mean([abs(getattr(e, name) / e.measured - 1.0) for e in errors]) for name in ("before", "after"))
    left = [abs(e.left_out / e.measured - 1.0) for e in errors if e.left_out is not None]
    return Calibrated(
        schema=CALIBRATE_SCHEMA,
        sentence=_sentence(own, before=before, after=after, left=_mean(left) if left else None),
        calibration=own,
        prior=stretch_of([0.0] * len(NAMES), base),
        prior_spread=_numbers(prior.widths),
        errors=tuple(errors),
        before=before,
        after=after,
        left_out=_mean(left) if left else None,
        notes=(*_outliers(errors), *_notes(loads, own, prior)),
    )


def prior_of(load: MeasuredLoad) -> Priors:
    """What the catalogue expects of a stack before anything is measured: less of one on a less known part."""
    known = as_measured(load.level)
    memory, compute = (_further(name, load.level, known) for name in ("tpot_s", "ttft_s"))
    return widen(priors("serve"), memory=memory, compute=compute)


def _interval_factors(
    loads: Sequence[MeasuredLoad], found: Fit, *, usual: float, models: int
) -> tuple[float, dict[str, float], dict[str, float]]:
    """
    Share of the stretch that other models of the stack get [-], and by quantity the 90 % factors of measured models and
    of others: nine in ten lie between prediction / factor and prediction x factor.

    Of the catalogue's variance on calibrated stacks, models on one stack share the causes of `causes.csv`; what a less
    known part is further off, all models share. `usual` is the spread of calibrated parts over that of this one, so 1
    on a calibrated part; `models` counts those measured.
    """
    share = 1.0 - (1.0 - sum(cause.share for cause in causes("serve"))) * min(1.0, usual) ** 2
    carried = models * share / (1.0 + (models - 1) * share)
    near: dict[str, float] = {}
    far: dict[str, float] = {}
    numbers: dict[str, list[Learnt]] = {}
    for load in loads:
        for name, row in shares_of(load.predicted, list(found.found.mean), base=shipped_overheads(load.at)).items():
            seen = Learnt(load.model, name, load.place, shares=row, part=load.parts.get(name, 0.0))
            numbers.setdefault(name, []).append(seen)
    for name, own in numbers.items():
        noise = found.found.noise[name] ** 2
        left = float(np.mean(found.found.spread(own) ** 2)) - noise
        before = max(0.0, _deviation(name, loads[0].level) ** 2 - noise)
        near[name] = math.exp(STUDENT_NINETY * math.sqrt(left + noise))
        kept = (1.0 - carried * share) * before + carried**2 * left + noise
        far[name] = max(near[name], math.exp(STUDENT_NINETY * math.sqrt(kept)))
    for name, other in SAME_AS.items():
        if other in near:
            near[name], far[name] = near[other], far[other]
    return carried, near, far


def _learnt(loads: Sequence[MeasuredLoad], found: Fit) -> tuple[Learnt, ...]:
    """Every measured number as the file keeps it; an outlier by the wide noise that it then has."""
    learnt, weights = [], iter(found.found.weights)
    for load, own in zip(loads, found.seen, strict=True):
        predicted = load.predicted(found.stretch)
        for one in own:
            noise = found.found.noise[one.quantity] / math.sqrt(next(weights))
            left = math.log(load.measured[one.quantity] / predicted[one.quantity])
            learnt.append(replace(one, left=left, noise=noise))
    return tuple(learnt)


def _numbers(widths: Mapping[str, float]) -> dict[str, float]:
    """Standard deviations under the names of the stretch."""
    return {name: widths[_CAUSE.get(name, name)] for name in _STRETCH}


_STRETCH: Final = ("memory", "compute", "step_s", "request_s", "links")
_CAUSE: Final = {"step_s": "host", "request_s": "request"}


def _spread(found: Fit) -> dict[str, float]:
    """Standard deviation that is left of each number of the stretch, in logarithms. [log]"""
    return _numbers({name: math.sqrt(found.found.covariance[i, i]) for i, name in enumerate(NAMES)})


def _one_stack(loads: Sequence[MeasuredLoad]) -> MeasuredLoad:
    stacks = {(load.at.placement.accelerator.id, load.at.engine.name) for load in loads}
    if len(stacks) > 1:
        listed = " and ".join(f"{engine} on {part}" for part, engine in sorted(stacks))
        raise BadRequest(f"measurements of {listed}: a calibration is of one engine on one accelerator; give one")
    return loads[0]


def _deviation(name: str, level: str) -> float:
    """Standard deviation of the logarithm, were its 90 % those of a normal."""
    return ErrorModel(kind="serve", level=level).spread(name).width / NINETY


def _further(name: str, level: str, known: str) -> float:
    """What a level's error has beyond that of another, as a standard deviation of its own."""
    return math.sqrt(max(0.0, _deviation(name, level) ** 2 - _deviation(name, known) ** 2))


def _errors(
    loads: Sequence[MeasuredLoad], found: Fit, base: Overheads, alone: Sequence[tuple[Stretch, dict[str, float]]]
) -> list[CalibrationError]:
    """
    Each measured number beside what the catalogue predicts, what the calibration does, and what one does that did not
    see its load (`alone`, by load; empty = too few loads, and that number is absent).
    """
    errors, weights = [], iter(found.found.weights)
    before = stretch_of([0.0] * len(NAMES), base)
    for place, load in enumerate(loads):
        first, drifts = load.predicted(before), drifts_of(found.found, found.seen[place])
        second = _times(load.predicted(found.stretch), drifts)
        third = _times(load.predicted(alone[place][0]), alone[place][1]) if alone else {}
        errors += [
            CalibrationError(
                model=load.model,
                load=load.name,
                quantity=name,
                unit=_UNITS[name],
                measured=load.measured[name],
                before=first[name],
                after=second[name],
                left_out=third.get(name),
                weight=next(weights),
            )
            for name in second
            if name in load.measured and name in first
        ]
    return errors


def _times(predicted: Mapping[str, float], drifts: Mapping[str, float]) -> dict[str, float]:
    return {name: value * drifts.get(name, 1.0) for name, value in predicted.items()}


def _outliers(errors: Sequence[CalibrationError]) -> list[str]:
    """A note for each number that hardly counts in the fit, because no cause explains it beside the others."""
    return [
        f"{e.model.rpartition('/')[2]}, {e.load}: {e.quantity.partition('_')[0].upper()} measured "
        f"{e.measured / e.after:.2f} times what all other numbers say; it hardly counts. Was something else running, "
        "a prompt cached, the server still warming up?"
        for e in errors
        if e.weight < _OUTLIER
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _sentence(own: Calibration, *, before: float, after: float, left: float | None) -> str:
    s = own.stretch
    held = f", {percent(left)} on loads left out" if left is not None else ""
    sure = f"; TPOT is now known within {percent(own.factors['tpot_s'] - 1.0)}" if "tpot_s" in own.factors else ""
    return (
        f"{own.engine} on {part_name(own.accelerator)}: mean error {percent(before)} before, {percent(after)} "
        f"after{held}; "
        f"x{s.memory:.3g} on what memory bounds, x{s.compute:.3g} on what arithmetic bounds, "
        f"{s.step_s * 1e3:.3g} ms of host a step{sure}."
    )


def _notes(loads: Sequence[MeasuredLoad], own: Calibration, prior: Priors) -> tuple[str, ...]:
    """What the loads are too few, or too much alike, to tell: a sentence each."""
    notes = []
    if len(loads) < _LEFT_OUT:
        notes.append(
            f"{len(loads)} load{'s' if len(loads) > 1 else ''}: too few to leave one out; a sweep (--sweep) tells "
            "memory from arithmetic from host"
        )
    if len(own.models) == 1:
        notes.append(
            f"One model was measured: others on this stack get {percent(own.carried)} of it, and wider intervals; a "
            f"second "
            "model would test what carries over."
        )
    before = _numbers(prior.widths)
    unsure = [_CAUSE.get(name, name) for name, spread in own.spread.items() if spread > 0.8 * before[name]]
    if unsure:
        told = ", ".join(_WORDS[name] for name in unsure)
        notes.append(f"These loads say little about: {told}; the catalogue's stands.")
    return tuple(notes)
