"""
Do two measurements that `tonnage measure plan` proposes make choices right more often than two at random?

    python -m tools.worth [--cases N]

The questions are those of `docs/accuracy/picks.csv`: a model, its lengths and an accelerator of which several
configurations were measured, and a limit on the time per output token; a case is a question under a limit that one of
them keeps. Each is asked before anything is measured, after two measurements at random (mean of five draws) among the
options that compete, and after two that the product's own `worth_measuring` proposes, which may stop earlier. What is
measured is known as published; what it tells of the others follows from the causes that stacks share. A choice is
right where it keeps the limit and reaches 97 % of the best rate measured. Predictions are those of fits without the
family.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np

from tonnage.catalog.fitted import causes
from tonnage.catalog.spreads import NINETY
from tonnage.questions.calibrate.worth import COMPETING, DRAWS, REPEATED, _Unknown, worth_measuring
from tonnage_accuracy.out_of_sample import group_scores
from tonnage_accuracy.regret import LIMITS_MS, Point, predictions_of, questions
from tonnage_accuracy.rows import usable_rows
from tonnage_accuracy.scoring import score

ROOT: Final = Path(__file__).parents[1]
RIGHT: Final = 0.97
CONFIDENCE: Final = 0.8
MEASURED: Final = 2
AT_RANDOM: Final = 5
UNITS: Final = 1000.0
"""Replicas that the dearest option needs, so that rounding up decides nothing. [-]"""


Question = list[Point]


class Case(NamedTuple):
    """One question under one limit."""

    measured: Question
    """Every configuration, predicted or not."""
    limit: float

    @property
    def points(self) -> Question:
        """Those that are options: what was not predicted is none."""
        return [p for p in self.measured if p.said_tpot_ms is not None]

    @property
    def best(self) -> float:
        """The largest rate measured within the limit; 0 = none. [tokens/s]"""
        return max((p.rate for p in self.measured if p.tpot_ms <= self.limit), default=0.0)


def choose(points: Question, limit: float) -> int:
    """Place of what a plan would choose: the fastest of those with the confidence, else the likeliest."""
    able = [i for i, p in enumerate(points) if p.chance(limit) >= CONFIDENCE]
    if able:
        return max(able, key=lambda i: points[i].said_rate)
    return max(range(len(points)), key=lambda i: points[i].chance(limit))


def competing(points: Question, first: int) -> list[int]:
    """The choice, and what may serve more than it does where all goes wrong for it."""
    least = points[first].said_rate / _factor(points[first])
    able = [i for i, p in enumerate(points) if i != first and p.said_rate * _factor(p) >= least]
    return [first, *sorted(able, key=lambda i: -points[i].said_rate)[: COMPETING - 1]]


def _factor(p: Point) -> float:
    return p.factor or 1.0


def _sigma(p: Point) -> float:
    """Of the logarithm of its TPOT. [-]"""
    return max(1e-3, math.log(_factor(p)) / NINETY)


def shared(one: Point, other: Point) -> float:
    """Share of the variance that two configurations of one model and part have in common. [-]"""
    same = one.engine == other.engine
    return sum(cause.share for cause in causes("serve") if same or "software" not in cause.shared_by)


def proposed(points: Question, rivals: Sequence[int], limit: float) -> list[int]:
    """What the product proposes to measure first."""
    most = max(points[i].said_rate for i in rivals)
    unknown = [_unknown(points[i], UNITS * most / points[i].said_rate) for i in rivals]
    matrix = correlations([points[i] for i in rivals])
    draws = np.random.default_rng(1).standard_normal((DRAWS, len(rivals)))
    _, places, _ = worth_measuring(unknown, matrix, draws=draws, limits=(None, limit))
    return [rivals[place] for place in places[:MEASURED]]


def correlations(points: Question) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Of their errors."""
    return np.array([[1.0 if i == j else shared(a, b) for j, b in enumerate(points)] for i, a in enumerate(points)])


def _unknown(p: Point, units: float) -> _Unknown:
    """A configuration as an option of a plan: one accelerator a replica, a dollar an hour each."""
    count, said = math.ceil(units), p.said_tpot_ms or 0.0
    latency = SimpleNamespace(value=said, low=said / _factor(p), high=said * _factor(p))
    option: Any = SimpleNamespace(
        replicas=count,
        accelerators=count,
        bill=SimpleNamespace(accelerators_per_instance=1, instances=count),
        capacity=SimpleNamespace(ttft_s=SimpleNamespace(value=0.0, low=None, high=None), tpot_s=latency),
    )
    return _Unknown(option, _sigma(p), units, float(count))


def told(points: Question, measured: Sequence[int]) -> Question:
    """Predictions once some configurations are measured."""
    chosen = list(measured)
    if not chosen:
        return points
    wide = np.array([_sigma(p) for p in points])
    known = correlations(points) * np.outer(wide, wide)
    seen = known[np.ix_(chosen, chosen)] + np.eye(len(chosen)) * REPEATED**2
    gain = np.linalg.solve(seen, known[chosen]).T
    moved = gain @ np.array([math.log(points[i].tpot_ms / (points[i].said_tpot_ms or 0.0)) for i in chosen])
    left = np.sqrt(np.maximum(1e-6, np.diag(known - gain @ known[chosen])))
    found = [
        _said(p, tpot_ms=(p.said_tpot_ms or 0.0) * math.exp(m), rate=p.said_rate * math.exp(-m), sigma=float(s))
        for p, m, s in zip(points, moved, left, strict=True)
    ]
    for i in chosen:
        found[i] = _said(points[i], tpot_ms=points[i].tpot_ms, rate=points[i].rate, sigma=0.0)
    return found


def _said(p: Point, *, tpot_ms: float, rate: float, sigma: float) -> Point:
    return p._replace(said_tpot_ms=tpot_ms, said_rate=rate, factor=math.exp(NINETY * sigma))


def right(case: Case, measured: Sequence[int]) -> bool:
    """Whether what is chosen after these measurements keeps the limit and is among the best."""
    pick = case.points[choose(told(case.points, measured), case.limit)]
    return pick.tpot_ms <= case.limit and pick.rate >= RIGHT * case.best


def table(cases: Sequence[Case]) -> dict[str, float]:
    """Share of right choices, and how many measurements were proposed."""
    random = Random(5)
    found = {"nothing measured": 0.0, "two at random": 0.0, "two proposed": 0.0, "proposed on average": 0.0}
    for case in cases:
        rivals = competing(case.points, choose(case.points, case.limit))
        wanted = proposed(case.points, rivals, case.limit) if len(rivals) > 1 else []
        draws = [random.sample(rivals, min(MEASURED, len(rivals))) for _ in range(AT_RANDOM)]
        found["nothing measured"] += right(case, [])
        found["two at random"] += sum(right(case, draw) for draw in draws) / AT_RANDOM
        found["two proposed"] += right(case, wanted)
        found["proposed on average"] += len(wanted)
    return {name: total / len(cases) for name, total in found.items()}


def cases_of(known: Sequence[Question], *, count: int) -> list[Case]:
    """So many cases, drawn with a seed, of questions with at least three predicted configurations."""
    every = [Case(own, limit) for own in known for limit in LIMITS_MS]
    able = [case for case in every if len(case.points) >= 3 and case.best > 0.0]
    return Random(3).sample(able, min(count, len(able)))


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(prog="python -m tools.worth", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--cases", type=int, default=120)
    rows = [row for row in usable_rows(ROOT) if row.layout == "serving"]
    scores = group_scores(rows, list(score(rows)), root=ROOT, kind="family")
    said, widths = predictions_of(scores)
    cases = cases_of(questions(rows, said=said, widths=widths), count=parser.parse_args().cases)
    print(f"{len(cases)} cases, family left out of every fit")
    for name, value in table(cases).items():
        print(f"{name:20s} {value:.2f}" if name.endswith("average") else f"{name:20s} {value:.0%}")


if __name__ == "__main__":
    main()
