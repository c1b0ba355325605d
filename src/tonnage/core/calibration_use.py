"""
Which measurements numbers rest on, and by how much they moved them: of one configuration, or of several.

A calibration counts wherever its engine runs on its accelerator (`core.deployment`, `questions.train.estimate`),
whatever was asked. What it did is what the same configuration, with as many requests in flight, gives without it; so
any kind of answer says it alike, from the configurations that it names. Without a calibration nothing is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.additions import any_counts
from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.published import published_points
from tonnage.core.deployment import case_of
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.calibration import TRAINING, Calibration, CalibrationUse, Moved
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.model import Model
from tonnage.domain.plan import Configuration
from tonnage.domain.requests.common import Lengths
from tonnage.engines.registry import find_engine, unlisted_engine
from tonnage.physics.vision import known_images

if TYPE_CHECKING:
    from tonnage.domain.train_plan import TrainConfiguration
    from tonnage.domain.training import TrainSetup
    from tonnage.simulation.simulated import Served


LEAST: Final = 5e-4
"""Logarithm of a factor below which a number is the same: no digit that is shown moves. [-]"""


class TrainRun(NamedTuple):
    """A model in training, as an option of a plan arranges it."""

    model: str
    configuration: TrainConfiguration


Run = ServeCase | TrainRun


def calibrations_among(runs: Iterable[Run], *, additions: Additions) -> tuple[CalibrationUse, ...]:
    """What moved the numbers of some configurations, the best first: each stack once, by the first that it moved."""
    return each_once(_uses(runs, additions)) if any_counts(additions) else ()


def each_once(uses: Iterable[CalibrationUse]) -> tuple[CalibrationUse, ...]:
    """The first of each stack and model."""
    found: dict[tuple[str, str, str, bool], CalibrationUse] = {}
    for use in uses:
        found.setdefault((use.accelerator, use.engine, use.model, use.training), use)
    return tuple(found.values())


def _uses(runs: Iterable[Run], additions: Additions) -> Iterator[CalibrationUse]:
    """What measurements moved: for each stack and model, of the first configuration that they say something of."""
    done: set[tuple[str, str, str]] = set()
    for run in runs:
        software = run.engine if isinstance(run, ServeCase) else run.configuration.software + TRAINING
        name = run.accelerator if isinstance(run, ServeCase) else run.configuration.accelerator
        part = catalog.accelerator(name, additions)
        if not (part.calibrations or part.published):
            continue
        model = resolve(run.model, additions=additions)
        key = part.id, software, model.id
        if key in done:
            continue
        use = (
            serving_use(run, model=model, part=part)
            if isinstance(run, ServeCase)
            else _trained(run.configuration, model=model, part=part, software=run.configuration.software)
        )
        if use is not None:
            done.add(key)
            yield use


def serving_use(case: ServeCase, *, model: Model, part: Accelerator) -> CalibrationUse | None:
    """
    What measurements of its stack make of a case: each number with them over the same without.

    None where there are no measurements, the model does not fit, or nothing moves and the user measured other models.
    """
    engine = (find_engine(case.engine) or unlisted_engine()).name
    own = part.calibrations.get(engine)
    measurements = own or (published_points(part.id, engine, model=model.id) if part.published else None)
    if measurements is None:
        return None
    uncalibrated = replace(part, calibrations={}, published=False)
    with_them, without = (_served(case, model, accelerator) for accelerator in (part, uncalibrated))
    if with_them is None or without is None:
        return None
    moved = _moved(
        {
            "tpot_s": (with_them.tpot_s, without.tpot_s) if case.osl > 1 else None,
            "ttft_s": (with_them.ttft_s, without.ttft_s) if case.phase != "decode" else None,
            "output_tokens_per_s": (with_them.requests_per_s, without.requests_per_s) if case.osl > 0 else None,
        }
    )
    if not moved and (own is None or model.id not in own.models):
        return None
    return _use(measurements, model=model.id, moved=moved, published=own is None)


def training_use(setup: TrainSetup) -> CalibrationUse | None:
    """What measured runs of a model make of its step in a setup; absent where none were measured."""
    return _trained(setup, model=setup.model, part=setup.accelerator, software=setup.software.name)


def _trained(
    setup: TrainSetup | TrainConfiguration, *, model: Model, part: Accelerator, software: str
) -> CalibrationUse | None:
    """
    What the user's own runs of this very model make of its step, and of its memory beside weights and states.

    None where none were measured.
    """
    from tonnage.core.train_estimate import own_factors

    factors = own_factors(setup, model=model.id, accelerator=part, software=software)
    if not factors:
        return None
    # Weights and states follow from counts and formats: what was measured moves the rest of a peak alone.
    named = {"memory_peak_bytes": "memory_beside_states_bytes"}
    moved = _moved({named.get(name, name): (factor, 1.0) for name, (factor, _) in factors.items()})
    return _use(part.calibrations[software + TRAINING], model=model.id, moved=moved, training=True)


def _served(case: ServeCase, model: Model, part: Accelerator) -> Served | None:
    """What the case's traffic gets on such an accelerator, reuse by sessions included; None where it does not fit."""
    from tonnage.core.deployment import deploy
    from tonnage.core.serving_traffic import served_latency

    if case.images is not None:
        case = replace(case, images=known_images(model, case.images, isl=case.isl))
    at = deploy(case, model=model, accelerator=part)
    if not at.pool.verdict.ok:
        return None
    if case.sessions is not None:
        from tonnage.core.session_cases import case_with_reuse

        at, _ = case_with_reuse(at)
    return served_latency(at)[0]


def _moved(pairs: dict[str, tuple[float, float] | None]) -> tuple[Moved, ...]:
    """Numbers that differ, by pairs of each with measurements and without; absent pairs are passed over."""
    factors = {name: pair[0] / pair[1] for name, pair in pairs.items() if pair and min(pair) > 0}
    return tuple(
        Moved(quantity=name, factor=factor) for name, factor in factors.items() if abs(math.log(factor)) > LEAST
    )


def _use(
    own: Calibration, *, model: str, moved: tuple[Moved, ...], training: bool = False, published: bool = False
) -> CalibrationUse:
    """What a calibration did to numbers of a model, with what it was made of."""
    held = own.for_model(model)
    return CalibrationUse(
        accelerator=own.accelerator,
        engine=own.engine.removesuffix(TRAINING),
        model=model,
        moved=moved,
        points=own.points,
        models=own.models,
        date=own.date,
        engine_version=own.engine_version,
        machine=own.machine,
        carried=held.carried,
        source=own.source,
        training=training,
        published=published,
    )


def at_once(configuration: Configuration, *, model: str, lengths: Lengths, concurrency: float) -> ServeCase:
    """One replica with so many requests in flight, as a case."""
    load = Traffic(concurrency=float(max(1, round(concurrency))))
    return case_of(configuration, model=model, lengths=lengths, traffic=load)
