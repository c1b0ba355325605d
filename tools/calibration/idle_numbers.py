"""
What does each fitted number earn? Every one left out in turn, and what that costs.

    python tools/calibration/idle_numbers.py       writes numbers.csv beside it, three minutes

One is held at its prior, the others of its fit are fitted again without each source in turn, and that source is
predicted; errors move along the fit's slopes (`refit.py`), not through predictions made anew. The score is the mean
over sources of their median errors. A number without which it rises by less than `EARNS` is a candidate to go; where
the score falls the number costs more than it brings, on these rows.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import NamedTuple

import fits
import infer
import numpy as np
import serving
import training
from refit import Problem

from tonnage.catalog.fitted import offline
from tonnage_accuracy.grouping import read_grouping
from tonnage_accuracy.rows import usable_rows
from tonnage_accuracy.tables import write_table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tools" / "calibration" / "numbers.csv"
EARNS = 0.005
"""Share of the score that a number brings at least."""
FEWEST = 8
"""Numbers of a source that has an error of its own."""
ROUNDS = 6
"""Of the reweighted least squares by which a linearised fit is solved."""


class Line(NamedTuple):
    """One number and what it earns."""

    number: str
    value: float
    without: float
    numbers: int
    """Measured numbers that its fit reads."""
    score: float
    score_without: float


def main() -> None:
    """Write the table and say how many numbers earn nothing."""
    fits.prepare()
    found = [
        line
        for ready, names in fitted()
        for line in without_parameters(ready.task, ready.slopes, sources_of(ready), names)
    ]
    found.sort(key=cost)
    header = ("number", "value", "without", "numbers", "score", "score without", "costs")
    write_table(PAGE, [header, *(cells(line) for line in found)])
    idle = [line for line in found if cost(line) < EARNS]
    print(f"{len(found)} numbers, {len(idle)} of them earn less than {EARNS:.1%}")


def cost(line: Line) -> float:
    """By which share the score is worse without the number."""
    return line.score_without / line.score - 1.0 if line.score else 0.0


def cells(line: Line) -> Sequence[str]:
    """A line as text, with what its absence costs."""
    numbers = (f"{line.value:.4g}", f"{line.without:.4g}", str(line.numbers))
    return (line.number, *numbers, f"{line.score:.4f}", f"{line.score_without:.4f}", f"{cost(line):+.2%}")


def fitted() -> Iterator[tuple[fits.Ready, list[str]]]:
    """Every fit with the names of its parameters."""
    for key, ready in fits._engines().items():
        yield ready, [f"{' '.join(key)}: {name}" for name in serving.fitted_names(ready.rows)]
    yield fits._training(), [f"training: {name}" for name in training.PRIORS]
    yield fits._networks(), ["networks: " + " ".join(map(str, key)) for key in infer.fitted_keys(offline())]


def sources_of(ready: fits.Ready) -> np.ndarray:
    """Publisher of every term."""
    grouping = read_grouping(ROOT)
    block = {row.id: row.block for row in usable_rows(ROOT)}
    return np.array([grouping.publisher(block[name]) for name in ready.ids])


def without_parameters(task: Problem, slopes: np.ndarray, sources: np.ndarray, names: Sequence[str]) -> list[Line]:
    """The lines of one fit: each parameter at its prior, each source predicted by the rest."""
    errors = task.errors(task.theta, np.arange(len(sources)))
    whole = left_out_score(task, slopes, errors, sources, held=set())
    return [
        Line(
            number=name,
            value=float(task.theta[place]),
            without=float(task.prior[place]),
            numbers=len(errors),
            score=whole,
            score_without=left_out_score(task, slopes, errors, sources, held={place}),
        )
        for place, name in enumerate(names)
    ]


def left_out_score(
    task: Problem, slopes: np.ndarray, errors: np.ndarray, sources: np.ndarray, *, held: Set[int]
) -> float:
    """Mean over sources of the median error of a linearised fit without them; those `held` stay at their priors."""
    found = []
    for source in dict.fromkeys(sources):
        inside = sources == source
        if inside.sum() < FEWEST and len(set(sources)) > 1:
            continue
        kept = ~inside if (~inside).any() else inside
        move = linearised(task, slopes[kept], errors[kept], task.soft[kept], held=held)
        found.append(float(np.median(np.abs(np.expm1(errors[inside] + slopes[inside] @ move)))))
    return statistics.fmean(found) if found else math.nan


def linearised(
    task: Problem, slopes: np.ndarray, errors: np.ndarray, soft: np.ndarray, *, held: Set[int]
) -> np.ndarray:
    """How far the parameters move from where the fit ended: soft-L1 and priors, errors along their slopes."""
    fixed = np.array([place in held for place in range(len(task.theta))])
    move = np.where(fixed, task.prior - task.theta, 0.0)
    free = ~fixed
    for _ in range(ROUNDS):
        now = errors + slopes @ move
        weight = 1.0 / soft**2 / np.sqrt(1.0 + (now / soft) ** 2)
        normal = (slopes * weight[:, None]).T @ slopes + np.diag(1.0 / task.spread**2)
        gradient = (slopes * weight[:, None]).T @ now + (task.theta + move - task.prior) / task.spread**2
        step = np.zeros(len(move))
        step[free] = np.linalg.solve(normal[np.ix_(free, free)], -gradient[free])
        move = np.where(fixed, move, np.clip(task.theta + move + step, task.low, task.high) - task.theta)
    return move


if __name__ == "__main__":
    main()
