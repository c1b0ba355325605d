"""
What would few measured steps and peaks of training teach of the rest of their run? Published rows as a user's points.

    python -m tools.calibration.few_points_shape train     the widths of a step, printed
    python -m tools.calibration.few_points_shape product   errors of steps, by the widths that ship
    python -m tools.calibration.few_points_shape memory    the two widths of a peak, and its errors

A run is one source, model, part and software. Residuals are those of fits that never saw the model's family; widths
of a step have the most evidence over all runs, those of a peak too, and the errors of its runs are by widths fitted
without their families (five folds). How points are chosen and errors are counted stands in `few_points.py`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace
from tools.calibration.few_points import (
    MOST,
    ROOT,
    Line,
    Point,
    arrays_of,
    fitted,
    print_widths,
    table,
    unlikely,
)

from tonnage import catalog
from tonnage.catalog.fitted import Priors, priors
from tonnage.catalog.hub.resolve import resolve
from tonnage.core import train_estimate as estimate
from tonnage.domain.calibration import Learnt
from tonnage.domain.case import TrainCase
from tonnage.questions.calibrate.posterior import NAMES
from tonnage.questions.train.setup import resolve_setup
from tonnage_accuracy.cases import case_of, kind_of
from tonnage_accuracy.grouping import group_by, labels_of, read_grouping
from tonnage_accuracy.left_out import left_out_predictions
from tonnage_accuracy.published_points import at_most
from tonnage_accuracy.quantities import measured_numbers
from tonnage_accuracy.rows import Row, usable_rows
from tonnage_accuracy.scoring import score

FARTHEST_PEAK: Final = 0.35
"""What is farther off says that a source left a setting out, and nothing of widths. [log]"""


class Kind(NamedTuple):
    """A number of training that points may state."""

    scored: str
    learnt: str
    least: int
    """Rows that a run has at least; few state a peak."""


STEP: Final = Kind("step_time_s", "step_s", 4)
PEAK: Final = Kind("peak_mem_gb", "memory_peak_bytes", 3)


def runs(kind: Kind) -> list[list[Point]]:
    """The rows of each run that state the number, as points, at most so many of a run."""
    rows = [row for row in usable_rows(ROOT) if kind_of(row) == "train" and _value(row, kind)]
    stored, family = left_out_predictions(ROOT, "family"), read_grouping(ROOT).family
    predicted = {(one.id, one.quantity): one.predicted for one in score(rows)}
    predicted |= {key: one.predicted for key, one in stored.items()}
    left = {
        row.id: math.log(_value(row, kind) / said) for row in rows if (said := predicted.get((row.id, kind.scored)))
    }
    found = group_by([row for row in rows if row.id in left], _run_of).values()
    return [
        [Point(row.id, family(row), _run_of(row), (_learnt(kind, row, left[row.id]),)) for row in at_most(own, MOST)]
        for own in found
        if len(own) >= kind.least
    ]


def _value(row: Row, kind: Kind) -> float:
    """What the row states; 0 where it does not."""
    return next((one.value or 0.0 for one in measured_numbers(row) if one.quantity == kind.scored), 0.0)


def _run_of(row: Row) -> tuple[str, ...]:
    labels = labels_of(row)
    return (row.block, labels.model, labels.accelerator, labels.engine)


def _learnt(kind: Kind, row: Row, left: float) -> Learnt:
    """The number as a calibration keeps it; of a peak with the share that is no weight or state."""
    case = case_of(row)
    assert isinstance(case, TrainCase)
    model, part = resolve(case.model), catalog.accelerator(case.accelerator)
    setup = resolve_setup(case, model=model, accelerator=part).setup
    place, setting, loose = estimate.place_of_setup(setup), estimate.setting_of(setup), 0.0
    if kind is PEAK:
        peak = estimate.peak(setup, case.memory_kind)
        loose = 1.0 - estimate.exact_bytes(peak) / peak.value
    return Learnt(model.id, kind.learnt, place, left=left, shares=(0.0,) * len(NAMES), setting=setting, part=loose)


def peak_widths(found: Sequence[Sequence[Point]]) -> Priors:
    """The widths of training with those of a peak that have the most evidence, each run as the root of its rows."""
    usual, each = priors("train"), [arrays_of(run, farthest=FARTHEST_PEAK) for run in found]

    def having(loose: float, noise: float) -> Priors:
        drift = {**usual.drift, "loose": loose}
        return replace(usual, drift=drift, noise={**usual.noise, PEAK.learnt: noise})

    tried = [having(0.02 * i, 0.01 * k) for i in range(4, 40) for k in range(3, 20)]
    return min(tried, key=partial(unlikely, each))


def main() -> None:
    """Print widths or errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("kind", choices=("train", "product", "memory"))
    kind = parser.parse_args().kind
    found = runs(PEAK if kind == "memory" else STEP)
    if kind != "product":
        print_widths(fitted(found, priors("train")) if kind == "train" else peak_widths(found))
    if kind != "train":
        print(*Line._fields)
        for line in table(found, peak_widths if kind == "memory" else lambda _: priors("train")):
            print(*line)


if __name__ == "__main__":
    main()
