"""
What would a fit say, had it not seen some rows? A few Gauss-Newton steps from the full fit, with those rows struck out.

The Jacobian of the full fit is computed once; each refit then solves a small linear system a few times on the rows
that stay, judged by the true loss (soft-L1 on log ratios plus quadratic priors), and halves a step that does not help.
That is a leave-group-out of hundreds of groups in minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

STEPS = 3
"""Gauss-Newton steps of one refit."""
FURTHEST = 0.7
"""Furthest a factor moves in one step, as a logarithm; other parameters as many of their prior's spreads."""


class Problem(NamedTuple):
    """One fit: what it minimises, and where it ended."""

    name: str
    errors: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """log(predicted / measured) of the rows at those places, for given parameters."""
    theta: np.ndarray
    """Fitted parameters."""
    weight: np.ndarray
    """Of each row's term."""
    soft: np.ndarray
    """Log error from which a row counts less."""
    prior: np.ndarray
    spread: np.ndarray
    low: np.ndarray
    high: np.ndarray
    extra: Callable[[np.ndarray], np.ndarray] = lambda theta: np.zeros(0)
    """Further residuals that belong to no row."""


def residuals(task: Problem, theta: np.ndarray) -> np.ndarray:
    """Of all rows as soft-L1, of the priors, and those that belong to no row: half their squares is the loss."""
    scaled = task.errors(theta, np.arange(len(task.weight))) / task.soft
    robust = task.weight * np.sign(scaled) * np.sqrt(2.0 * (np.sqrt(1.0 + scaled**2) - 1.0))
    return np.concatenate([robust, (theta - task.prior) / task.spread, task.extra(theta)])


def jacobian(task: Problem) -> np.ndarray:
    """d error / d parameter of every row, by forward differences of a hundredth of the prior's spread."""
    everything = np.arange(len(task.weight))
    base = task.errors(task.theta, everything)
    columns = []
    for place in range(len(task.theta)):
        size = min(0.01 * task.spread[place], 0.01) * (-1 if task.theta[place] >= task.high[place] else 1)
        moved = task.theta.copy()
        moved[place] += size
        columns.append((task.errors(moved, everything) - base) / size)
    return np.stack(columns, axis=1)


def refit(task: Problem, kept: np.ndarray, slopes: np.ndarray, *, start: np.ndarray | None = None) -> np.ndarray:
    """Parameters fitted on the rows at `kept` alone."""
    theta = (task.theta if start is None else start).copy()
    error = task.errors(theta, kept)
    before = loss(task, kept, error, theta)
    for _ in range(STEPS):
        move = _step(task, kept, slopes[kept], error, theta)
        for _ in range(4):
            trial = np.clip(theta + move, task.low, task.high)
            found = task.errors(trial, kept)
            after = loss(task, kept, found, trial)
            if after < before:
                break
            move = move / 3
        else:
            break
        gain, theta, error, before = before - after, trial, found, after
        if gain < 1e-3 * before:
            break
    return theta


def loss(task: Problem, kept: np.ndarray, error: np.ndarray, theta: np.ndarray) -> float:
    """Soft-L1 of the rows at `kept`, whose errors are given, and squares of what draws to the priors."""
    away, extra = (theta - task.prior) / task.spread, task.extra(theta)
    terms = task.weight[kept] ** 2 * 2 * (np.sqrt(1 + (error / task.soft[kept]) ** 2) - 1)
    return float(terms.sum() + away @ away + extra @ extra)


def _step(task: Problem, kept: np.ndarray, slopes: np.ndarray, error: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """One damped Gauss-Newton step; parameters that a bound stops stay on it while the others move."""
    soft = task.soft[kept]
    weight = (task.weight[kept] / soft) ** 2 / np.sqrt(1 + (error / soft) ** 2)
    normal = (slopes * weight[:, None]).T @ slopes + np.diag(1 / task.spread**2)
    gradient = (slopes * weight[:, None]).T @ error + (theta - task.prior) / task.spread**2
    extra = task.extra(theta)
    if extra.size:
        small = 1e-4
        rows = np.stack([(task.extra(theta + small * unit) - extra) / small for unit in np.eye(len(theta))], axis=1)
        normal, gradient = normal + rows.T @ rows, gradient + rows.T @ extra
    normal = normal + 1e-3 * np.diag(np.diag(normal))
    free = np.ones(len(theta), dtype=bool)
    move = np.zeros(len(theta))
    for _ in range(len(theta)):
        move[free] = np.linalg.solve(normal[np.ix_(free, free)], -(gradient + normal @ np.where(free, 0, move))[free])
        stopped = free & ((theta + move > task.high) | (theta + move < task.low))
        if not stopped.any():
            break
        move[stopped] = np.clip(theta + move, task.low, task.high)[stopped] - theta[stopped]
        free &= ~stopped
    furthest = np.maximum(FURTHEST, task.spread)
    return np.clip(move, -furthest, furthest)
