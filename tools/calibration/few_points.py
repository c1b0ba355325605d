"""
How much do one, three, six measured points of a run teach about the rest of it? Published rows as a user's points.

    python tools/calibration/few_points.py            the table of shares, about five minutes on one core
    python tools/calibration/few_points.py --fit      the widths of catalog/data/intervals/priors.csv, printed
    python tools/calibration/few_points.py --shares   the shares of the causes in every number again, first

A run is what one user has: one source, model, accelerator, engine, release and formats; degrees, lengths and loads
vary. Every number stands on fits that never saw the run's model family (`left_out.csv.gz`), and the widths of causes
and noise are fitted without it too (families in five folds). The points are chosen one after another as `tonnage
measure plan` does: each where it lessens the variance left in the whole run most. All other rows of the run are scored.
The baseline is a plain shift of the logarithm: the mean residual of the points, by quantity.

Writes docs/accuracy.points.csv. The shares are kept in tools/calibration/few_points.csv.gz.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Final, NamedTuple

import msgspec
import numpy as np

from tonnage.catalog.fitted import Priors, priors
from tonnage.core.deployment import resolve
from tonnage.core.drift import STUDENT_NINETY, Array, drift_covariance, numbers_of, place_of
from tonnage.core.drift import Numbers as At
from tonnage.domain.calibration import Learnt
from tonnage.domain.case import ServeCase
from tonnage.errors import TonnageError
from tonnage.questions.calibrate.loads import in_flight_of, shipped_interruption, shipped_overheads, under_stretch
from tonnage.questions.calibrate.posterior import NAMES, posterior, shares_of
from tonnage_accuracy.cases import case_of, kind_of
from tonnage_accuracy.grouping import group_by, read_grouping
from tonnage_accuracy.left_out import left_out_predictions
from tonnage_accuracy.own_engine import next_point
from tonnage_accuracy.published_points import FARTHEST, at_most, run_of
from tonnage_accuracy.published_points import QUANTITIES as PUBLISHED
from tonnage_accuracy.quantities import measured_numbers
from tonnage_accuracy.rows import Row, number, text, usable_rows
from tonnage_accuracy.scoring import score
from tonnage_accuracy.tables import read_table, write_table

ROOT: Final = Path(__file__).parents[2]
SHARES: Final = ROOT / "tools" / "calibration" / "few_points.csv.gz"
PAGE: Final = ROOT / "docs" / "accuracy.points.csv"
QUANTITIES: Final = {**PUBLISHED, "total_tokens_per_s": "output_tokens_per_s"}
SHARED: Final = (*NAMES, "interrupted")
"""Columns of the shares."""
POINTS: Final = (1, 3, 6)
LEAST: Final = 8
"""Rows that a run has at least."""
MOST: Final = 32
"""Rows of a run that count; of a larger one so many at random, so that no run outweighs the others."""
FOLDS: Final = 5
KERNELS: Final = 0.7
HOST: Final = 1.5
ARITHMETIC: Final = 0.3
"""Widest priors: kernels are known within a factor of two, what arithmetic bounds within a third, host times within
four or five. What the evidence asks for beyond (1.8 for arithmetic) says only that a cause is small in most numbers,
and makes a single point move it absurdly far: with 0.7 for arithmetic, one point left 20.6 % of TTFT. [log]"""
WIDEST: Final = {
    **dict.fromkeys(("memory", "attention", "links"), KERNELS),
    **dict.fromkeys(("host", "sequence", "request"), HOST),
    "compute": ARITHMETIC,
}

WIDEST_DRIFT: Final = {"interrupted": 0.55}
"""The evidence asks for up to 1.0, differently without one family or another; three points then left 15.2 % of TTFT for
13. [log]"""
LEAST_NOISE: Final = {"output_tokens_per_s": 0.08}
"""Least noise of a number. The evidence asks for 0.03 since waits between tokens move no rate: then the rate of a
single point, whose warm-up and end sources count differently, moves its times too far (one point left 6.1 % of TPOT,
three 14.4 % of TTFT). [log]"""


class Point(NamedTuple):
    """One row of a run: its numbers, as measured beside the prediction without the family."""

    id: str
    family: str
    run: tuple[str, ...]
    seen: tuple[Learnt, ...]


def main() -> None:
    """Score, or fit the widths."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--shares", action="store_true")
    given = parser.parse_args()
    if given.shares or not SHARES.exists():
        store_shares()
    runs = [own for own in group_by(points(), lambda p: p.run).values() if len(own) >= LEAST]
    if given.fit:
        print_widths(fitted(runs))
        return
    lines = table(runs, fitted)
    write_table(PAGE, [Line._fields, *lines])
    for line in lines:
        print(*line)


def print_widths(found: Priors) -> None:
    """As priors.csv keeps them."""
    for of in FITTED:
        print(of, {name: round(width, 3) for name, width in getattr(found, of).items()})


def rows() -> list[Row]:
    """Usable rows of one served stack that print a time per token, at most `MOST` of a run."""
    found = []
    for row in usable_rows(ROOT):
        if kind_of(row) == "serve" and text(row, "disaggregated") != "1":
            names = {one.quantity for one in measured_numbers(row) if one.value}
            if "tpot_ms" in names and not number(row, "cached_tokens"):
                found.append(row)
    return [
        row
        for own in group_by(found, lambda row: run_of(row, row.block)).values()
        if len(own) >= LEAST
        for row in at_most(own, MOST)
    ]


def store_shares() -> None:
    """By row and quantity: derivative of the prediction's logarithm by each cause, and what is interrupted of it."""
    lines: list[list[str]] = [["id", "quantity", *SHARED]]
    for row in rows():
        try:
            case = case_of(row)
            if isinstance(case, ServeCase):
                for quantity, shares in shares_of_case(case).items():
                    lines.append([row.id, quantity, *(f"{x:.4g}" if abs(x) >= 5e-4 else "0" for x in shares)])
        except TonnageError:
            continue  # what cannot be predicted is counted by `tonnage accuracy`
    write_table(SHARES, lines)


def shares_of_case(case: ServeCase) -> dict[str, tuple[float, ...]]:
    """The same of a case, by quantity."""
    at = resolve(case)
    if not at.pool.verdict.ok:
        return {}
    found = shares_of(under_stretch(at), [0.0] * len(NAMES), base=shipped_overheads(at))
    between = shipped_interruption(at)
    return {name: (*own, between if name == "tpot_s" else 0.0) for name, own in found.items()}


def points() -> list[Point]:
    """Every row with its residuals and shares."""
    shares = {
        (line["id"], line["quantity"]): tuple(float(line[name]) for name in SHARED) for line in read_table(SHARES)
    }
    stored, grouping = left_out_predictions(ROOT, "family"), read_grouping(ROOT)
    found = []
    chosen = rows()
    shipped = {(s.id, s.quantity): s for s in score(chosen)}
    for row in chosen:
        seen: dict[str, Learnt] = {}
        for one in measured_numbers(row):
            name, of = QUANTITIES.get(one.quantity), shipped.get((row.id, one.quantity))
            own = shares.get((row.id, name or ""))
            if name is None or own is None or name in seen or of is None or of.predicted is None or not one.value:
                continue
            without = stored.get((row.id, one.quantity))
            predicted = without.predicted if without is not None else of.predicted
            left = math.log(one.value / predicted)
            seen[name] = Learnt("", name, place_of_row(row), left=left, shares=own[:-1], part=own[-1])
        if seen:
            found.append(Point(row.id, grouping.family(row), run_of(row, row.block), tuple(seen.values())))
    return found


def place_of_row(row: Row) -> tuple[float, ...]:
    """Where a row lies, as a calibration keeps it."""
    case = case_of(row)
    assert isinstance(case, ServeCase)
    tpot_s = next(one.value for one in measured_numbers(row) if one.quantity == "tpot_ms" and one.value) / 1e3
    return place_of(in_flight_of(case, tpot_s=tpot_s), case.layout, prompt_tokens=case.isl, output_tokens=case.osl)


def fitted(runs: Sequence[Sequence[Point]], start: Priors | None = None) -> Priors:
    """The widths under which the residuals of the runs are most probable, each run counting as the root of its rows."""
    best = start or priors("serve")
    best = msgspec.structs.replace(best, widths={name: min(x, WIDEST[name]) for name, x in best.widths.items()})
    numbers = [arrays_of(run) for run in runs]
    steps = {(of, name): 0.5 for of in FITTED for name in getattr(best, of)}
    least = unlikely(numbers, best)
    for _ in range(5):
        for key, step in list(steps.items()):
            for sign in (1.0, -1.0):
                tried = _scaled(best, *key, math.exp(sign * step))
                if not _is_allowed(tried):
                    continue
                value = unlikely(numbers, tried)
                if value < least:
                    best, least = tried, value
                    break
            else:
                steps[key] /= 2.0
    return best


FITTED: Final = ("widths", "noise", "offset", "drift", "length")


def _is_allowed(tried: Priors) -> bool:
    wide = any(tried.widths[name] > WIDEST[name] for name in tried.widths)
    drifts = any(tried.drift.get(name, 0.0) > most for name, most in WIDEST_DRIFT.items())
    return not (wide or drifts or any(tried.noise.get(name, 1.0) < least for name, least in LEAST_NOISE.items()))


def _scaled(known: Priors, of: str, name: str, by: float) -> Priors:
    widths = getattr(known, of)
    changed: Priors = msgspec.structs.replace(known, **{of: {**widths, name: widths[name] * by}})
    return changed


class Numbers(NamedTuple):
    """The numbers of a run as arrays."""

    at: At
    shares: Array
    residuals: Array
    rows: int


def arrays_of(run: Sequence[Point], *, farthest: float = FARTHEST) -> Numbers:
    """Of a run; residuals beyond the farthest count as that."""
    seen = [one for point in run for one in point.seen]
    return Numbers(
        numbers_of(seen),
        np.array([one.shares for one in seen]),
        np.clip(np.array([one.left for one in seen]), -farthest, farthest),
        len(run),
    )


def unlikely(runs: Sequence[Numbers], of: Priors) -> float:
    """Negative logarithm of the evidence."""
    total, widths = 0.0, np.array([of.widths.get(name, 0.0) for name in NAMES])
    for run in runs:
        shares = run.shares * widths
        noise = np.array([of.noise[quantity] ** 2 for quantity in run.at.quantities])
        known = shares @ shares.T + drift_covariance(run.at, run.at, known=of)
        factor = np.linalg.cholesky(known + np.diag(noise))
        white = np.linalg.solve(factor, run.residuals)
        total += float(0.5 * white @ white + np.log(np.diag(factor)).sum()) / math.sqrt(run.rows)
    return total


class Line(NamedTuple):
    """One line of the table."""

    quantity: str
    points: int
    runs: int
    rows: int
    before: str
    shift: str
    after: str
    before_p90: str
    shift_p90: str
    after_p90: str
    covered: str
    worse: str
    """Runs whose median error grew by more than two points."""


class Errors(NamedTuple):
    """Of the rows of a run that were not measured: errors before, by a shift, after, and whether intervals held."""

    before: list[float]
    shift: list[float]
    after: list[float]
    held: list[bool]


def table(runs: Sequence[Sequence[Point]], fit: Callable[[Sequence[Sequence[Point]]], Priors]) -> list[Line]:
    """By quantity and number of points; serving of one request at a time once more by itself."""
    families = sorted({run[0].family for run in runs})
    Random(7).shuffle(families)
    folds = [set(families[place::FOLDS]) for place in range(FOLDS)]
    known = [fit([run for run in runs if run[0].family not in fold]) for fold in folds]
    found: dict[tuple[str, int], list[Errors]] = {}
    for run in runs:
        of = known[next(i for i, fold in enumerate(folds) if run[0].family in fold)]
        alone = all(one.place[0] <= 1.0 for point in run for one in point.seen)
        for count in POINTS:
            for quantity, errors in scored(run, of, count).items() if len(run) > count else ():
                found.setdefault((quantity, count), []).append(errors)
                if alone and quantity in QUANTITIES.values():
                    found.setdefault((f"{quantity} of single streams", count), []).append(errors)
    return [line_of(quantity, count, own) for (quantity, count), own in sorted(found.items())]


def scored(run: Sequence[Point], of: Priors, count: int) -> Mapping[str, Errors]:
    """The rest of a run, given some chosen points."""
    chosen: list[int] = []
    candidates = [point.seen for point in run]
    for _ in range(count):
        chosen.append(next_point(candidates, of, taken=chosen))
    taught = [one for place in chosen for one in candidates[place]]
    after = posterior(taught, of)
    found: dict[str, Errors] = {}
    rest = list(_others(run, chosen))
    for one, drift, spread in zip(rest, after.drift(rest), after.spread(rest), strict=True):
        said = float(after.mean @ np.array(one.shares) + drift)
        same = [item.left for item in taught if item.quantity == one.quantity]
        shift = sum(same) / len(same) if same else 0.0
        errors = found.setdefault(one.quantity, Errors([], [], [], []))
        errors.before.append(abs(math.expm1(-one.left)))
        errors.shift.append(abs(math.expm1(shift - one.left)))
        errors.after.append(abs(math.expm1(said - one.left)))
        errors.held.append(abs(said - one.left) <= STUDENT_NINETY * float(spread))
    return found


def _others(run: Sequence[Point], chosen: Sequence[int]) -> Iterator[Learnt]:
    for place, point in enumerate(run):
        if place not in chosen:
            yield from point.seen


def line_of(quantity: str, count: int, own: Sequence[Errors]) -> Line:
    """One line of the table, of the errors of some runs."""

    def every(name: str) -> list[float]:
        return [value for errors in own for value in getattr(errors, name)]

    before, shift, after, held = (every(name) for name in Errors._fields)
    worse = [median(errors.after) - median(errors.before) > 0.02 for errors in own]
    return Line(
        quantity,
        count,
        len(own),
        len(after),
        *(f"{float(np.quantile(values, share)):.4f}" for share in (0.5, 0.9) for values in (before, shift, after)),
        f"{sum(held) / len(held):.3f}",
        f"{sum(worse) / len(worse):.3f}",
    )


if __name__ == "__main__":
    main()
