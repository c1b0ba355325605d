"""
What do published rows teach as points of their model on their stack? With rows, runs, stacks, … left out.

A run is all rows of one published configuration: publisher, model, part, engine, release, formats. What is left out is
predicted by fits that never saw its family (its source, where sources are left out), moved by the points of its model
on its part and engine that are not left out with it, through the drift that `--calibration published` uses. Where the
stack or the family is left out no such point stays, so that those figures are the same with and without points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Final, NamedTuple, TypeVar

import msgspec
import numpy as np

from tonnage.catalog.fitted import priors
from tonnage.core.deployment import resolve
from tonnage.core.drift import STUDENT, drift_covariance, numbers_of, place_of, setting_of
from tonnage.domain.calibration import Learnt
from tonnage.domain.case import ServeCase
from tonnage.errors import TonnageError
from tonnage.questions.calibrate.loads import in_flight_of
from tonnage_accuracy.cases import case_of, kind_of
from tonnage_accuracy.grouping import group_by, labels_of, read_grouping
from tonnage_accuracy.left_out import left_out_predictions
from tonnage_accuracy.quantities import measured_numbers
from tonnage_accuracy.records import PointsTaught
from tonnage_accuracy.rows import Row, number, text
from tonnage_accuracy.scoring import Score

QUANTITIES: Final = {"tpot_ms": "tpot_s", "ttft_ms": "ttft_s", "output_tokens_per_s": "output_tokens_per_s"}
MOST: Final = 16
"""Rows of a run that count: of a larger one so many at random."""
FARTHEST: Final = 1.1
"""Residuals beyond a factor of three count as that. [log]"""
WORSE: Final = 0.02
LEFT_OUT: Final = ("row", "run", "stack", "family", "source")


T = TypeVar("T")


class PublishedNumber(NamedTuple):
    """One published number: where it lies, and what fits leave of it, in sample and without its family and source."""

    id: str
    quantity: str
    model: str
    stack: tuple[str, str]
    """Accelerator and engine."""
    setting: str
    place: tuple[float, ...]
    publisher: str
    run: tuple[str, ...]
    left: Mapping[str, float]
    """ln(measured / predicted) by what the fits had not seen: nothing, family, source. [-]"""


def published_numbers(rows: Sequence[Row], scores: Iterable[Score], *, root: Path) -> Iterator[PublishedNumber]:
    """Every number of one served stack under a stated load that is predicted, at most `MOST` rows of a run."""
    grouping = read_grouping(root)
    by_id = {row.id: row for row in rows if kind_of(row) == "serve"}
    cases = {name: case for name, row in by_id.items() if (case := _case(row)) is not None}
    kept: dict[str, tuple[str, ...]] = {}
    for run, own in group_by(cases, lambda name: run_of(by_id[name], grouping.publisher(by_id[name].block))).items():
        kept |= dict.fromkeys(at_most(own, MOST), run)
    unseen = {kind: left_out_predictions(root, kind) for kind in ("family", "source")}
    settled: dict[str, tuple[str, tuple[str, str], str, tuple[float, ...]]] = {}
    for one in scores:
        name, key = QUANTITIES.get(one.quantity), (one.id, one.quantity)
        if name is None or one.id not in kept or not one.predicted or not one.measured:
            continue
        row, said = by_id[one.id], {kind: own[key].predicted for kind, own in unseen.items() if key in own}
        if one.id not in settled:
            settled[one.id] = _settle(row, cases[one.id])
        model, stack, setting, place = settled[one.id]
        yield PublishedNumber(
            id=one.id,
            quantity=name,
            model=model,
            stack=stack,
            setting=setting,
            place=place,
            publisher=grouping.publisher(row.block),
            run=kept[one.id],
            left={kind: math.log(one.measured / p) for kind, p in {"nothing": one.predicted, **said}.items()},
        )


def _case(row: Row) -> ServeCase | None:
    """The case of a row that can be a point: whole requests of one replica's stack, so many of them in flight."""
    if number(row, "cached_tokens") or text(row, "duplicate_of"):
        return None
    try:
        case = case_of(row)
    except TonnageError:
        return None
    if not isinstance(case, ServeCase) or case.disaggregation is not None or case.phase != "both":
        return None
    load = case.traffic
    return case if load.concurrency or load.batch or load.rate_per_s else None


def at_most(run: list[T], most: int) -> list[T]:
    """So many of a run, drawn with a seed."""
    return Random(1).sample(run, most) if len(run) > most else run


def run_of(row: Row, publisher: str) -> tuple[str, ...]:
    """What one user has: publisher, model, part, engine, release, formats."""
    labels = labels_of(row)
    version = text(row, "engine_version") or text(row, "backend_version")
    formats = text(row, "weight_precision"), text(row, "kv_precision")
    return (publisher, labels.model, labels.accelerator, labels.engine, version, *formats)


def _settle(row: Row, case: ServeCase) -> tuple[str, tuple[str, str], str, tuple[float, ...]]:
    """Model, stack, setting and place as the product has them of such a question."""
    at = resolve(case)
    tpot_ms = next((m.value for m in measured_numbers(row) if m.quantity == "tpot_ms" and m.value), 20.0)
    place = place_of(
        in_flight_of(case, tpot_s=tpot_ms / 1e3),
        at.placement.layout,
        prompt_tokens=at.case.isl,
        output_tokens=at.case.osl,
    )
    d = at.placement
    return d.model.id, (d.accelerator.id, at.engine.name), setting_of(at.case.engine_version, d.precision), place


class _Error(NamedTuple):
    before: float
    after: float
    taught: bool
    run: tuple[str, ...]


def taught_lines(numbers: Sequence[PublishedNumber]) -> list[PointsTaught]:
    """By what is left out and quantity: errors without points and with those that stay."""
    found: dict[tuple[str, str], list[_Error]] = {}
    for own in group_by(numbers, lambda one: (one.model, one.stack)).values():
        for kind in LEFT_OUT:
            basis = "source" if kind == "source" else "family"
            known = [one for one in own if basis in one.left]
            for one, error in zip(known, _errors(known, kind=kind, basis=basis), strict=True):
                found.setdefault((kind, one.quantity), []).append(error)
    order = {name: place for place, name in enumerate(QUANTITIES.values())}
    keys = sorted(found, key=lambda key: (LEFT_OUT.index(key[0]), order[key[1]]))
    return [_line(*key, found[key]) for key in keys]


def _errors(own: Sequence[PublishedNumber], *, kind: str, basis: str) -> Iterator[_Error]:
    """Of the numbers of a model on a stack: each predicted by the points that are not left out with it."""
    left = np.clip(np.array([one.left[basis] for one in own]), -FARTHEST, FARTHEST)
    said, taught = np.zeros(len(own)), np.zeros(len(own), dtype=bool)
    if own and kind in ("row", "run", "source"):
        known = msgspec.structs.replace(priors("serve"), widths={})
        at = numbers_of([Learnt(one.model, one.quantity, one.place, setting=one.setting) for one in own])
        shared = drift_covariance(at, at, known=known)
        noise = np.diag([known.noise[one.quantity] ** 2 * STUDENT for one in own])
        group = [{"row": one.id, "run": one.run, "source": one.publisher}[kind] for one in own]
        for name in dict.fromkeys(group):
            gone = np.array([other == name for other in group])
            if not gone.all():
                inside = np.ix_(~gone, ~gone)
                pull = np.linalg.solve(shared[inside] + noise[inside], left[~gone])
                said[gone], taught[gone] = shared[np.ix_(gone, ~gone)] @ pull, True
    for one, moved, by_points in zip(own, said, taught, strict=True):
        truth = one.left[basis]
        yield _Error(abs(math.expm1(-truth)), abs(math.expm1(moved - truth)), bool(by_points), one.run)


def _line(kind: str, quantity: str, own: Sequence[_Error]) -> PointsTaught:
    taught = [one for one in own if one.taught]
    runs = group_by(taught, lambda one: one.run).values()
    worse = [median(e.after for e in run) > median(e.before for e in run) + WORSE for run in runs]

    def at(errors: Sequence[_Error], name: str, share: float) -> float | None:
        return float(np.quantile([getattr(one, name) for one in errors], share)) if errors else None

    return PointsTaught(
        left_out=kind,
        quantity=quantity,
        numbers=len(own),
        before=at(own, "before", 0.5) or 0.0,
        after=at(own, "after", 0.5) or 0.0,
        taught=len(taught),
        runs=len(worse),
        taught_before=at(taught, "before", 0.5),
        taught_after=at(taught, "after", 0.5),
        taught_before_p90=at(taught, "before", 0.9),
        taught_after_p90=at(taught, "after", 0.9),
        worse=sum(worse) / len(worse) if worse else None,
    )
