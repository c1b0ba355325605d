"""
Which stretch explains the measured loads best, given what the catalogue expects of such an engine?

In logarithms of four numbers: a ridge towards the catalogue, whose width is the catalogue's own spread on such cases,
and residuals log(measured / predicted) that count less the further out they lie (Student-t, four degrees of freedom).
Gauss-Newton with a finite-difference Jacobian; the curvature at the end is the uncertainty. Few loads barely move what
they say little about: that is the ridge's work, and no parameter is dropped by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from tonnage.domain.calibration import Stretch
from tonnage.planning.calibrate.loads import MeasuredLoad
from tonnage.simulation.overheads import Overheads

__all__ = ["NAMES", "Fit", "Prior", "fit", "prior_of"]

NAMES: Final = ("memory", "compute", "step_s", "request_s")
"""Numbers of a stretch, in the order of the fit."""
_FREEDOM: Final = 4.0
"""Of the residuals' Student-t: a load disturbed by something else does not drag the rest along."""
_MIN_NOISE: Final = 0.02
"""Repeated measurements of one load differ by a few per cent on a quiet machine. [log ratio]"""
_STEP: Final = 0.02
"""Of the finite differences. [log]"""
_FARTHEST: Final = 1.0
"""That one round may move a number. [log]"""
_ROUNDS: Final = 25
_HOST_S: Final = 3e-4
"""Host time of a step where the catalogue has none: a small server's loop (assumed). [s]"""
_REQUEST_S: Final = 2e-3
"""Reading, tokenising and answering a request where the catalogue has none (assumed). [s]"""
_HOST_SPREAD: Final = 1.26
_REQUEST_SPREAD: Final = 0.90
"""Standard deviations of the logarithms over the engines of data/engines/overheads.csv (2026-11-21)."""

Vector = list[float]
Matrix = list[Vector]


class Prior(NamedTuple):
    """Where the fit starts, and how far the catalogue's own cases scatter around it. [log]"""

    centre: tuple[float, ...]
    spread: tuple[float, ...]


class Fit(NamedTuple):
    """The stretch, the standard deviation of its logarithms, and that of what it does not explain."""

    stretch: Stretch
    spread: tuple[float, ...]
    noise: float
    doubt: float
    """Standard deviation of a prediction for the uncertainty of the stretch alone, over the loads. [log]"""


def prior_of(base: Overheads, *, memory: float, compute: float) -> Prior:
    """The prior around the catalogue's overheads; `memory` and `compute` are standard deviations of the log factors."""
    return Prior(
        centre=(0.0, 0.0, math.log(max(base.step_s, _HOST_S)), math.log(max(base.request_s, _REQUEST_S))),
        spread=(memory, compute, _HOST_SPREAD, _REQUEST_SPREAD),
    )


def stretch_of(theta: Sequence[float]) -> Stretch:
    """The numbers of a point of the fit."""
    memory, compute, step_s, request_s = (math.exp(x) for x in theta)
    return Stretch(memory=memory, compute=compute, step_s=step_s, request_s=request_s)


def fit(loads: Sequence[MeasuredLoad], prior: Prior) -> Fit:
    """The most probable stretch of all loads together."""
    theta, noise = list(prior.centre), 0.1
    residuals = _residuals(loads, theta)
    for _ in range(_ROUNDS):
        weights = [(_FREEDOM + 1.0) / (_FREEDOM + (r / noise) ** 2) / noise**2 for r in residuals]
        jacobian = _jacobian(loads, theta, residuals)
        hessian, gradient = _normal(jacobian, residuals, weights, theta=theta, prior=prior)
        move = _solve(hessian, gradient)
        furthest = max(abs(x) for x in move)
        scale = min(1.0, _FARTHEST / furthest) if furthest else 1.0
        tried, scale = _shortened(loads, theta, move, scale, (prior, noise))
        theta, residuals = tried
        fresh = max(_MIN_NOISE, _scale(residuals))
        if furthest * scale < 1e-3 and abs(fresh / noise - 1.0) < 0.02:
            break
        noise = fresh
    weights = [(_FREEDOM + 1.0) / (_FREEDOM + 3.0) / noise**2] * len(residuals)
    jacobian = _jacobian(loads, theta, residuals)
    hessian, _ = _normal(jacobian, residuals, weights, theta=theta, prior=prior)
    covariance = [_solve(hessian, [float(i == j) for j in range(len(NAMES))]) for i in range(len(NAMES))]
    spread = tuple(math.sqrt(covariance[i][i]) for i in range(len(NAMES)))
    doubts = [sum(a * b * covariance[i][j] for i, a in enumerate(row) for j, b in enumerate(row)) for row in jacobian]
    doubt = math.sqrt(sum(doubts) / len(doubts))
    return Fit(stretch=stretch_of(theta), spread=spread, noise=noise, doubt=doubt)


def _shortened(
    loads: Sequence[MeasuredLoad], theta: Vector, move: Vector, scale: float, how: tuple[Prior, float]
) -> tuple[tuple[Vector, Vector], float]:
    """The move, halved until it helps; none where nothing does."""
    prior, noise = how
    now = _residuals(loads, theta)
    least = _loss(now, theta, prior, noise)
    for _ in range(6):
        tried = [x + scale * d for x, d in zip(theta, move, strict=True)]
        found = _residuals(loads, tried)
        if _loss(found, tried, prior, noise) <= least:
            return (tried, found), scale
        scale /= 2.0
    return (theta, now), 0.0


def _loss(residuals: Vector, theta: Vector, prior: Prior, noise: float) -> float:
    robust = sum((_FREEDOM + 1.0) / 2.0 * math.log1p((r / noise) ** 2 / _FREEDOM) for r in residuals)
    return robust + sum(
        ((x - c) / s) ** 2 / 2.0 for x, c, s in zip(theta, prior.centre, prior.spread, strict=True)
    )  # fmt: skip


def _residuals(loads: Sequence[MeasuredLoad], theta: Sequence[float]) -> Vector:
    stretch = stretch_of(theta)
    found = []
    for load in loads:
        predicted = load.predicted(stretch)
        found += [math.log(value / predicted[name]) for name, value in load.measured.items() if name in predicted]
    return found


def _jacobian(loads: Sequence[MeasuredLoad], theta: Vector, residuals: Vector) -> Matrix:
    """Of the predictions' logarithms, by residual and number."""
    columns = []
    for i in range(len(NAMES)):
        moved = _residuals(loads, [x + (_STEP if i == j else 0.0) for j, x in enumerate(theta)])
        columns.append([(before - after) / _STEP for before, after in zip(residuals, moved, strict=True)])
    return [list(row) for row in zip(*columns, strict=True)]


def _normal(
    jacobian: Matrix, residuals: Vector, weights: Vector, *, theta: Vector, prior: Prior
) -> tuple[Matrix, Vector]:
    size = range(len(NAMES))
    hessian = [[sum(w * row[i] * row[j] for w, row in zip(weights, jacobian, strict=True)) for j in size] for i in size]
    gradient = [sum(w * row[i] * r for w, row, r in zip(weights, jacobian, residuals, strict=True)) for i in size]
    for i in size:
        hessian[i][i] += 1.0 / prior.spread[i] ** 2
        gradient[i] += (prior.centre[i] - theta[i]) / prior.spread[i] ** 2
    return hessian, gradient


def _scale(residuals: Vector) -> float:
    """Standard deviation by the median, which single disturbed loads do not move."""
    ordered = sorted(abs(r) for r in residuals)
    return ordered[len(ordered) // 2] / 0.6745


def _solve(matrix: Matrix, right: Vector) -> Vector:
    """Gaussian elimination with pivots; the prior keeps the matrix regular."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for i in range(size):
        pivot = max(range(i, size), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(i + 1, size):
            share = rows[k][i] / rows[i][i]
            rows[k] = [a - share * b for a, b in zip(rows[k], rows[i], strict=True)]
    found = [0.0] * size
    for i in reversed(range(size)):
        found[i] = (rows[i][size] - sum(rows[i][j] * found[j] for j in range(i + 1, size))) / rows[i][i]
    return found
