"""The user's measurements -> a calibration of their stack, with errors before, after and left out.

The interval that predictions get with it pools what the catalogue's calibrated cases scatter (as four loads' worth)
with what the loads themselves say when each is predicted by the others, and adds the doubt about the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.domain.calibration import CALIBRATE_SCHEMA, Calibrated, Calibration, CalibrationError, Stretch
from tonnage.domain.measurement import Measurement
from tonnage.errors import BadRequest
from tonnage.planning.calibrate.fit import NAMES, Fit, fit, prior_of, stretch_of
from tonnage.planning.calibrate.loads import MeasuredLoad, Stack, loads_of
from tonnage.planning.error_model import NINETY, ErrorModel
from tonnage.simulation.overheads import Overheads, with_async_scheduling

__all__ = ["calibrate"]

_LEFT_OUT: Final = 3
"""Loads from which on each is predicted by the others. [-]"""
_PRIOR_LOADS: Final = 4.0
"""Loads that the catalogue's spread counts as, beside the user's own. [-]"""
_WORDS: Final = {"memory": "memory", "compute": "arithmetic", "step_s": "host of a step", "request_s": "start"}
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
        Something is unknown, the measurements are of several stacks, or none of their loads can be used.
    """
    loads = [load for found, stack in measured for load in loads_of(found, stack, additions=additions)]
    first = _one_stack(loads)
    basis = first.level.partition(":")[2]
    prior = prior_of(
        with_async_scheduling(Overheads(**first.at.times.values), first.at.engine.async_scheduling),
        memory=_deviation("tpot_s", f"assumed:{basis}"), compute=_deviation("ttft_s", f"assumed:{basis}"),
    )  # fmt: skip
    found = fit(loads, prior)
    alone = [fit([x for x in loads if x is not load], prior) for load in loads] if len(loads) >= _LEFT_OUT else []
    catalogue = _catalogue(first)
    errors = _errors(loads, found.stretch, catalogue, [other.stretch for other in alone])
    own = Calibration(
        accelerator=first.at.placement.accelerator.id,
        engine=first.at.engine.name,
        engine_version=first.at.case.engine_version,
        stretch=found.stretch,
        spread=dict(zip(NAMES, found.spread, strict=True)),
        factors={name: _factor(name, first.level, errors, found) for name in (*_UNITS, "e2e_s", "requests_per_s")},
        date=today or datetime.now(UTC).date().isoformat(),
        machine=machine,
        models=tuple(dict.fromkeys(load.model for load in loads)),
        points=len(loads),
    )
    before, after = (_mean([abs(getattr(e, name) / e.measured - 1.0) for e in errors]) for name in ("before", "after"))
    left = [abs(e.left_out / e.measured - 1.0) for e in errors if e.left_out is not None]
    return Calibrated(
        schema=CALIBRATE_SCHEMA,
        sentence=_sentence(own, before=before, after=after, left=_mean(left) if left else None),
        calibration=own,
        prior=stretch_of(prior.centre),
        prior_spread=dict(zip(NAMES, prior.spread, strict=True)),
        errors=tuple(errors),
        before=before,
        after=after,
        left_out=_mean(left) if left else None,
        notes=_notes(loads, own),
    )


def _one_stack(loads: Sequence[MeasuredLoad]) -> MeasuredLoad:
    stacks = {(load.at.placement.accelerator.id, load.at.engine.name) for load in loads}
    if len(stacks) > 1:
        listed = " and ".join(f"{engine} on {part}" for part, engine in sorted(stacks))
        raise BadRequest(f"measurements of {listed}: a calibration is of one engine on one accelerator; give one")
    return loads[0]


def _catalogue(load: MeasuredLoad) -> Stretch:
    """The stretch that leaves the catalogue's numbers as they are."""
    base = with_async_scheduling(Overheads(**load.at.times.values), load.at.engine.async_scheduling)
    return Stretch(step_s=base.step_s, request_s=base.request_s)


def _deviation(quantity: str, level: str) -> float:
    """Standard deviation of the logarithm behind a 90 % factor."""
    return math.log(ErrorModel(kind="serve", level=level).factor(quantity)) / NINETY


def _errors(
    loads: Sequence[MeasuredLoad], after: Stretch, before: Stretch, alone: Sequence[Stretch]
) -> list[CalibrationError]:  # fmt: skip
    found = []
    for place, load in enumerate(loads):
        first, second = load.predicted(before), load.predicted(after)
        third = load.predicted(alone[place]) if alone else {}
        found += [
            CalibrationError(
                model=load.model, load=load.name, quantity=name, unit=_UNITS[name], measured=value, before=first[name],
                after=second[name], left_out=third.get(name),
            )
            for name, value in load.measured.items()
            if name in first and name in second
        ]  # fmt: skip
    return found


def _factor(name: str, level: str, errors: Sequence[CalibrationError], found: Fit) -> float:
    """The 90 % factor of a quantity predicted with the calibration."""
    seen = name if name in _UNITS else {"e2e_s": "ttft_s"}.get(name, "output_tokens_per_s")
    known = _deviation(name, level) ** 2
    own = [math.log((e.left_out or e.after) / e.measured) ** 2 for e in errors if e.quantity == seen]
    pooled = (_PRIOR_LOADS * known + sum(own)) / (_PRIOR_LOADS + len(own))
    return math.exp(NINETY * math.sqrt(pooled + found.doubt**2))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _sentence(own: Calibration, *, before: float, after: float, left: float | None) -> str:
    s = own.stretch
    held = f", {left:.0%} on loads left out" if left is not None else ""
    return (
        f"{own.engine} on {own.accelerator}: mean error {before:.0%} before, {after:.0%} after{held}; "
        f"x{s.memory:.3g} on what memory bounds, x{s.compute:.3g} on what arithmetic bounds, "
        f"{s.step_s * 1e3:.3g} ms of host a step."
    )


def _notes(loads: Sequence[MeasuredLoad], own: Calibration) -> tuple[str, ...]:
    notes = []
    if len(loads) < _LEFT_OUT:
        notes.append(
            f"{len(loads)} load{'s' if len(loads) > 1 else ''}: too few to leave one out; a sweep (--sweep) tells "
            "memory from arithmetic from host"
        )
    if len(own.models) == 1:
        notes.append("One model was measured: a second of another size would test what carries over.")
    unsure = [name for name, spread in own.spread.items() if spread > math.log(1.5)]
    if unsure:
        told = ", ".join(_WORDS[name] for name in unsure)
        notes.append(f"These loads say little about: {told}; the catalogue's stands.")
    return tuple(notes)
