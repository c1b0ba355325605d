"""
What does each fitted or hand-set number earn? Every one left out in turn, and what that costs.

    python tools/calibration/idle_numbers.py       writes numbers.csv beside it, some twenty minutes on one core

Fitted numbers: one is held at its prior, the others of its fit are fitted again without each source in turn, and that
source is predicted; errors move along the fit's slopes (`refit.py`), not through predictions made anew. Hand-set
numbers are the constants of physics and simulation: one is made neutral (1 where it is a share or a factor, 0
elsewhere) and a thinned set of rows is predicted. The score of either is the mean over sources of their median errors.
A number without which the score rises by less than `EARNS` is a candidate to go; where the score falls the number
costs more than it brings, on these rows.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import math
import multiprocessing
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import ProcessPoolExecutor
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
from tonnage_accuracy.metrics import absolute_error_share
from tonnage_accuracy.rows import Row, usable_rows
from tonnage_accuracy.scoring import score
from tonnage_accuracy.tables import write_table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tools" / "calibration" / "numbers.csv"
PLACES = ("physics", "simulation")
"""Folders of the package whose constants are taken."""
EARNS = 0.005
"""Share of the score that a number brings at least."""
EACH = 3
"""Rows of a source, accelerator and model that are predicted without a constant."""
FEWEST = 8
"""Numbers of a source that has an error of its own."""
ROUNDS = 6
"""Of the reweighted least squares by which a linearised fit is solved."""


class Line(NamedTuple):
    """One number and what it earns."""

    kind: str
    number: str
    value: float
    without: float
    numbers: int
    """Measured numbers that its absence moves, or that its fit reads."""
    score: float
    score_without: float


def main() -> None:
    """Write the table and say how many numbers earn nothing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", choices=("fitted", "constants"))
    asked = parser.parse_args()
    found: list[Line] = []
    if asked.only != "constants":
        fits.prepare()
        for ready, names in fitted():
            found += without_parameters(ready.task, ready.slopes, sources_of(ready), names)
    if asked.only != "fitted":
        found += without_constants(asked.workers)
    found.sort(key=lambda line: (line.kind, cost(line)))
    header = ("kind", "number", "value", "without", "numbers", "score", "score without", "costs")
    write_table(PAGE, [header, *(cells(line) for line in found)])
    idle = [line for line in found if cost(line) < EARNS]
    print(f"{len(found)} numbers, {len(idle)} of them earn less than {EARNS:.1%}")


def cost(line: Line) -> float:
    """By which share the score is worse without the number."""
    return line.score_without / line.score - 1.0 if line.score else 0.0


def cells(line: Line) -> Sequence[str]:
    """A line as text, with what its absence costs."""
    numbers = (f"{line.value:.4g}", f"{line.without:.4g}", str(line.numbers))
    return (line.kind, line.number, *numbers, f"{line.score:.4f}", f"{line.score_without:.4f}", f"{cost(line):+.2%}")


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
            kind="fitted",
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


class Constant(NamedTuple):
    """A number written in a module."""

    module: str
    name: str
    value: float
    neutral: float


def constants() -> list[Constant]:
    """Numbers that modules of `PLACES` name, with what stands for their absence by the unit in their docstring."""
    found = []
    for path in sorted(path for place in PLACES for path in (ROOT / "src/tonnage" / place).glob("*.py")):
        body = ast.parse(path.read_text()).body
        for node, after in zip(body, [*body[1:], None], strict=True):
            if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value):
                continue
            try:
                value = ast.literal_eval(node.value)
            except ValueError:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            told = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            neutral = 0.0 if "[" in str(told) and "[-]" not in str(told) else 1.0
            found.append(Constant(f"tonnage.{path.parent.name}.{path.stem}", node.target.id, float(value), neutral))
    return found


def thinned() -> list[Row]:
    """A few rows of every source, accelerator and model."""
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in usable_rows(ROOT):
        groups[row.block, row.cells.get("accelerator_id", ""), row.cells.get("model_id", "")].append(row)
    return [own[place * len(own) // EACH] for own in groups.values() for place in range(min(EACH, len(own)))]


def predicted(constant: Constant | None) -> dict[tuple[str, str], tuple[str, float]]:
    """Source and error of every number of the thinned rows, with a constant neutral in every module that has it."""
    if constant is not None:
        home = importlib.import_module(constant.module)
        written = getattr(home, constant.name)
        for module in [one for name, one in sys.modules.items() if name.startswith("tonnage.")]:
            if getattr(module, constant.name, None) == written:
                setattr(module, constant.name, constant.neutral)
    publisher = read_grouping(ROOT).publisher
    return {
        (one.id, one.quantity): (publisher(one.block), absolute_error_share(one.predicted, one.measured))
        for one in score(thinned())
        if one.predicted and one.measured and one.quantity != "fits"
    }


def without_constants(workers: int) -> list[Line]:
    """The lines of constants that move a prediction, on the numbers that both can say."""
    asked: list[Constant | None] = [None, *constants()]
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork"), max_tasks_per_child=None) as pool:
        whole, *others = pool.map(_apart, asked)
    found = []
    for constant, errors in zip(asked[1:], others, strict=True):
        assert constant is not None
        both = [key for key in whole if key in errors]
        moved = sum(whole[key] != errors[key] for key in both)
        if moved:
            lines = mean_of_medians({k: whole[k] for k in both}), mean_of_medians({k: errors[k] for k in both})
            name = f"{constant.module.removeprefix('tonnage.')}.{constant.name}"
            found.append(Line("hand-set", name, constant.value, constant.neutral, moved, *lines))
    return found


def _apart(constant: Constant | None) -> dict[tuple[str, str], tuple[str, float]]:
    """`predicted` in a process of its own, so that no constant and no cache outlives it."""
    context = multiprocessing.get_context("fork")
    inbox, outbox = context.Pipe(duplex=False)

    def tell() -> None:
        try:
            outbox.send(predicted(constant))
        except (ArithmeticError, ValueError):
            outbox.send({})

    child = context.Process(target=tell)
    child.start()
    told = inbox.recv()
    child.join()
    return dict(told)


def mean_of_medians(errors: Mapping[tuple[str, str], tuple[str, float]]) -> float:
    """Mean over sources and quantities of their median errors."""
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for (_, quantity), (source, error) in errors.items():
        groups[source, quantity].append(error)
    return statistics.fmean(statistics.median(own) for own in groups.values())


if __name__ == "__main__":
    main()
