"""
Do two measurements that `tonnage measure plan` proposes make choices right more often than two at random?

    python -m tools.worth [--cases N] [--left-out family]

The questions are those of `tools.regret`: a model, its lengths and an accelerator of which several configurations were
measured, and a limit on the time per output token; a case is a question under a limit that one of them keeps. Each is
asked before anything is measured, after two measurements at random (mean of five draws) among the options that compete,
and after two that the product's own `worth_measuring` proposes, which may stop earlier. What is measured is known as
published; what it tells of the others follows from the causes that stacks share. A choice is right where it keeps the
limit and reaches 97 % of the best rate measured. Predictions are those of fits without the group left out.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np
from tools.regret import LIMITS_MS, ROOT, Point, Question, Truth, asked, by_chance, likeliest

from tonnage.catalog.intervals import causes
from tonnage.core.error_model import NINETY
from tonnage.questions.calibrate.worth import COMPETING, DRAWS, REPEATED, _Unknown, worth_measuring
from tonnage_accuracy.out_of_sample import group_scores
from tonnage_accuracy.rows import read_rows
from tonnage_accuracy.scoring import score

RIGHT: Final = 0.97
CONFIDENCE: Final = 0.8
MEASURED: Final = 2
AT_RANDOM: Final = 5
UNITS: Final = 1000.0
"""Replicas that the dearest option needs, so that rounding up decides nothing. [-]"""


class Case(NamedTuple):
    """One question under one limit."""

    points: Question
    truth: Truth
    limit: float

    @property
    def best(self) -> float:
        """The largest rate measured within the limit; 0 = none. [tokens/s]"""
        return max((rate for tpot, rate in self.truth if tpot <= self.limit), default=0.0)


def choose(points: Question, limit: float) -> int | None:
    """Place of what a plan would choose."""
    pick = likeliest(CONFIDENCE, by_chance(CONFIDENCE))(points, limit)
    return None if pick is None else next(i for i, p in enumerate(points) if p is pick)


def shared(one: Point, other: Point) -> float:
    """Share of the variance that two configurations of one model and part have in common. [-]"""
    same = one.place[1] == other.place[1]
    return sum(cause.share for cause in causes("serve") if same or "software" not in cause.shared_by)


def competing(points: Question, first: int) -> list[int]:
    """The choice, and what may serve more than it does where all goes wrong for it."""
    least = points[first].said_rate * math.exp(-NINETY * points[first].sigma)
    able = [i for i, p in enumerate(points) if i != first and p.said_rate * math.exp(NINETY * p.sigma) >= least]
    return [first, *sorted(able, key=lambda i: -points[i].said_rate)[: COMPETING - 1]]


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
    count, error = math.ceil(units), math.exp(NINETY * p.sigma)
    latency = SimpleNamespace(value=p.said_ms, low=p.said_ms / error, high=p.said_ms * error)
    option: Any = SimpleNamespace(
        replicas=count,
        accelerators=count,
        cost=SimpleNamespace(value=float(count)),
        bill=SimpleNamespace(accelerators_per_instance=1, instances=count),
        capacity=SimpleNamespace(ttft_s=SimpleNamespace(value=0.0, low=None, high=None), tpot_s=latency),
    )
    return _Unknown(option, max(1e-3, p.sigma), units)


def told(points: Question, measured: Sequence[int]) -> Question:
    """Predictions once some configurations are measured."""
    chosen = list(measured)
    if not chosen:
        return points
    wide = np.array([max(1e-3, p.sigma) for p in points])
    known = correlations(points) * np.outer(wide, wide)
    seen = known[np.ix_(chosen, chosen)] + np.eye(len(chosen)) * REPEATED**2
    gain = np.linalg.solve(seen, known[chosen]).T
    moved = gain @ np.array([math.log(points[i].tpot_ms / points[i].said_ms) for i in chosen])
    left = np.sqrt(np.maximum(1e-6, np.diag(known - gain @ known[chosen])))
    found = [
        p._replace(said_ms=p.said_ms * math.exp(m), said_rate=p.said_rate * math.exp(-m), sigma=float(s))
        for p, m, s in zip(points, moved, left, strict=True)
    ]
    for i in chosen:
        found[i] = points[i]._replace(said_ms=points[i].tpot_ms, said_rate=points[i].rate, sigma=0.0)
    return found


def right(case: Case, measured: Sequence[int]) -> bool:
    """Whether what is chosen after these measurements keeps the limit and is among the best."""
    place = choose(told(case.points, measured), case.limit)
    return (
        place is not None
        and case.points[place].tpot_ms <= case.limit
        and (case.points[place].rate >= RIGHT * case.best)
    )


def cases_of(questions: Sequence[tuple[Question, Truth]], *, count: int) -> list[Case]:
    """So many cases, drawn with a seed, of questions with at least three predicted configurations."""
    every = [Case(p, t, limit) for p, t in questions if len(p) >= 3 for limit in LIMITS_MS]
    able = [case for case in every if case.best > 0.0]
    return Random(3).sample(able, min(count, len(able)))


def table(cases: Sequence[Case]) -> dict[str, float]:
    """Share of right choices, and how many measurements were proposed."""
    random = Random(5)
    found = {"nothing measured": 0.0, "two at random": 0.0, "two proposed": 0.0, "proposed on average": 0.0}
    for case in cases:
        first = choose(case.points, case.limit)
        assert first is not None
        rivals = competing(case.points, first)
        wanted = proposed(case.points, rivals, case.limit) if len(rivals) > 1 else []
        draws = [random.sample(rivals, min(MEASURED, len(rivals))) for _ in range(AT_RANDOM)]
        found["nothing measured"] += right(case, [])
        found["two at random"] += sum(right(case, draw) for draw in draws) / AT_RANDOM
        found["two proposed"] += right(case, wanted)
        found["proposed on average"] += len(wanted)
    return {name: total / len(cases) for name, total in found.items()}


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(prog="python -m tools.worth", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--left-out", choices=("source", "family", "accelerator", "engine"), default="family")
    parser.add_argument("--cases", type=int, default=120)
    given = parser.parse_args()
    paths = sorted((ROOT / "measurements").glob("*.csv.gz"))
    rows = [row for path in paths for row in read_rows(path) if row.usable and row.layout == "serving"]
    scores = group_scores(rows, list(score(rows)), root=ROOT, kind=given.left_out)
    cases = cases_of(asked(rows, scores), count=given.cases)
    print(f"{len(cases)} cases, {given.left_out} left out of every fit")
    for name, value in table(cases).items():
        print(f"{name:20s} {value:.2f}" if name.endswith("average") else f"{name:20s} {value:.0%}")


if __name__ == "__main__":
    main()
