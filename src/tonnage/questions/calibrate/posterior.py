"""
What do a few measurements say of the numbers that a stack has of its own? Which stretch explains them best?

Each measured number is ln(measured / predicted by the catalogue) = shares x theta + drift + noise. Theta are named
causes (`NAMES`: what memory bounds, attention over the cache beyond that, arithmetic, host, host time of a sequence,
start of a request, links), 0 where the catalogue is right; the shares are the derivatives of the prediction's
logarithm, so that a point says most about what it is made of, and moves every prediction made of the same. The drift is
what configurations near one another share beyond that (`core.drift`). Widths are `catalog.fitted.priors`. The
noise has heavy tails (Student-t, four degrees of freedom): one disturbed point does not drag the rest along. Its width
is pooled with what the points themselves scatter, the catalogue's counting as `PRIOR_POINTS` of them.

The fit is Gauss-Newton around the linear Gaussian of `posterior`: the loads are predicted under the stretch so far,
the shares of the causes in each number are taken by finite differences there, and the causes are conditioned again.
Few loads barely move what they say little about: that is the prior's work, and no cause is dropped by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from tonnage.catalog.fitted import Priors
from tonnage.core.drift import NAMES, STUDENT, Array, drift_covariance, numbers_of
from tonnage.domain.calibration import Learnt, Stretch
from tonnage.domain.engine_spec import Overheads
from tonnage.questions.calibrate.loads import MeasuredLoad, Predictor

__all__ = ["NAMES", "Array"]

PRIOR_POINTS: Final = 4.0
"""Measured numbers of one quantity that the catalogue's noise counts as. [-]"""
FREEDOM: Final = 4.0
_ROUNDS: Final = 12


class Posterior(NamedTuple):
    """Mean and covariance of the causes [log], noise by quantity [log], and of each number how much it counts."""

    mean: Array
    covariance: Array
    noise: dict[str, float]
    weights: tuple[float, ...]
    """1 for a number as the others are, towards 0 for one that nothing else explains. [-]"""
    priors: Priors
    seen: tuple[Learnt, ...] = ()
    pull: Array = np.zeros(0)
    """What each measured number pulls others by, times their covariance. [1 / log]"""
    inverse: Array = np.zeros((0, 0))
    """Of the covariance of the measured numbers, noise included."""

    def drift(self, of: Sequence[Learnt]) -> Array:
        """What drifts add to the logarithms of some predictions, beside the causes."""
        return _between(of, self.seen, self.priors, causes=False) @ self.pull if self.seen else np.zeros(len(of))

    def spread(self, of: Sequence[Learnt]) -> Array:
        """Standard deviation of the logarithm of predictions like these, noise included."""
        before = np.diag(covariance_of(of, self.priors))
        shared = _between(of, self.seen, self.priors)
        left = before - np.einsum("ij,jk,ik->i", shared, self.inverse, shared) if self.seen else before
        noise = np.array([self.noise[one.quantity] for one in of])
        return np.asarray(np.sqrt(np.maximum(0.0, left) + noise**2))


def posterior(seen: Sequence[Learnt], priors: Priors) -> Posterior:
    """
    The causes given some measured numbers; without any, the prior.

    Examples
    --------
    >>> from tonnage.catalog.fitted import priors
    >>> slow = Learnt("m", "tpot_s", (1.0,) * 7, math.log(1.2), shares=(0.8, 0.1, 0.0, 0.1, 0.0, 0.0, 0.0))
    >>> found = posterior([slow], priors("serve"))
    >>> 0.1 < float(found.mean @ np.array(slow.shares) + found.drift([slow])[0]) < math.log(1.2)
    True
    """
    widths = np.array([priors.widths.get(name, 0.0) for name in NAMES])
    known = np.diag(widths**2)
    noise = dict(priors.noise)
    if not seen:
        return Posterior(np.zeros(len(NAMES)), known, noise, (), priors)
    shares, residuals = np.array([one.shares for one in seen]), np.array([one.left for one in seen])
    weights, smooth = np.ones(len(seen)), covariance_of(seen, priors)
    for _ in range(_ROUNDS):
        variance = np.array([noise[one.quantity] for one in seen]) ** 2 / weights
        inverse = np.linalg.inv(smooth + np.diag(variance * STUDENT))
        explained = smooth @ inverse
        left = residuals - explained @ residuals
        noise = _noise(seen, left, np.diag(explained), weights, priors)
        scale = np.array([noise[one.quantity] for one in seen]) * math.sqrt(STUDENT)
        weights = np.minimum(1.0, (FREEDOM + 1.0) / (FREEDOM + (left / scale) ** 2))
    pull = inverse @ residuals
    # Numbers count by the scale of their noise; the covariance that is left keeps its whole variance (`STUDENT`).
    cautious = np.asarray(np.linalg.inv(smooth + np.diag(variance)), dtype=np.float64)
    made = shares @ known
    return Posterior(
        known @ shares.T @ pull,
        known - made.T @ cautious @ made,
        noise,
        tuple(float(x) for x in weights),
        priors,
        tuple(seen),
        pull,
        cautious,
    )


def covariance_of(seen: Sequence[Learnt], priors: Priors) -> Array:
    """Of the logarithms of some numbers of one run, noise apart."""
    return _between(seen, seen, priors)


def _between(some: Sequence[Learnt], others: Sequence[Learnt], priors: Priors, *, causes: bool = True) -> Array:
    """Covariance of numbers with others: by drifts, and by causes."""
    if not some or not others:
        return np.zeros((len(some), len(others)))
    found = drift_covariance(numbers_of(some), numbers_of(others), known=priors)
    if not causes:
        return found
    widths = np.array([priors.widths.get(name, 0.0) for name in NAMES])
    mine, theirs = (np.array([one.shares for one in of]) * widths for of in (some, others))
    return np.asarray(found + mine @ theirs.T)


def _noise(seen: Sequence[Learnt], left: Array, leverage: Array, weights: Array, priors: Priors) -> dict[str, float]:
    """By quantity: the catalogue's, pooled with what is left of the points, as if each were predicted by the others."""
    found = {}
    for quantity, usual in priors.noise.items():
        places = [place for place, one in enumerate(seen) if one.quantity == quantity]
        own = sum(float(weights[i] * left[i] ** 2 / max(0.1, 1.0 - leverage[i])) for i in places)
        found[quantity] = math.sqrt((PRIOR_POINTS * usual**2 + own) / (PRIOR_POINTS + len(places)))
    return found


_STEP: Final = 0.02
"""Of the finite differences. [log]"""
_FARTHEST: Final = 1.0
"""That one round may move a cause. [log]"""
_HOST_S: Final = 3e-4
"""Host time of a step where the catalogue has none: a small server's loop (assumed). [s]"""
_SEQUENCE_S: Final = 1e-5
"""The same for each running sequence (assumed). [s]"""
_REQUEST_S: Final = 2e-3
"""Reading, tokenising and answering a request where the catalogue has none (assumed). [s]"""


class Fit(NamedTuple):
    """The stretch, the Gaussian around it, and the shares of the causes in each measured number."""

    stretch: Stretch
    found: Posterior
    seen: tuple[tuple[Learnt, ...], ...]
    """By load."""


def widen(priors: Priors, *, memory: float, compute: float) -> Priors:
    """
    The priors of a stack on a part less known than calibrated ones: its kernels may be further off, each kind apart.

    `memory` and `compute` are the further standard deviations of the logarithm that the level of a time per token and
    of a time to first token says.

    Examples
    --------
    >>> from tonnage.catalog.fitted import priors
    >>> widen(priors("serve"), memory=0.4, compute=0.0).widths["memory"] > 0.4
    True
    """
    own = {
        "memory": math.hypot(priors.widths["memory"], memory),
        "compute": math.hypot(priors.widths["compute"], compute),
    }
    return msgspec.structs.replace(priors, widths={**priors.widths, **own})


def stretch_of(theta: Sequence[float], base: Overheads) -> Stretch:
    """
    The numbers of a stack where the causes are at `theta` [log]; at 0 those of the catalogue (`base`).

    Factors grow as e^cause. Host times do, too, but from an assumed least time where the catalogue has less.
    """
    of = dict(zip(NAMES, theta, strict=True))

    def time(known: float, least: float, cause: str) -> float:
        """A host time: grown by a factor, or from next to nothing where the catalogue has less than `least`."""
        return max(0.0, known + max(known, least) * math.expm1(of[cause]))

    return Stretch(
        memory=math.exp(of["memory"]),
        attention=math.exp(of["attention"]),
        compute=math.exp(of["compute"]),
        step_s=time(base.step_s, _HOST_S, "host"),
        host=math.exp(of["host"]),
        sequence_s=time(base.sequence_s, _SEQUENCE_S, "sequence"),
        request_s=time(base.request_s, _REQUEST_S, "request"),
        links=math.exp(of["links"]),
    )


def fit(loads: Sequence[MeasuredLoad], *, base: Overheads, priors: Priors) -> Fit:
    """The most probable stretch of all loads together, in at most `_ROUNDS` rounds; without loads the catalogue's."""
    theta: Array = np.zeros(len(NAMES))
    for _ in range(_ROUNDS):
        seen = _linearize(loads, theta, base)
        found = posterior([one for own in seen for one in own], priors)
        move = found.mean - theta
        furthest = float(np.max(np.abs(move)))
        theta = theta + move * min(1.0, _FARTHEST / furthest if furthest else 1.0)
        if furthest < 2e-3:
            break
    return Fit(stretch_of(list(theta), base), found._replace(mean=theta), tuple(seen))


def without(whole: Fit, place: int, *, base: Overheads, priors: Priors) -> tuple[Stretch, dict[str, float]]:
    """The stretch that all other loads ask for, linear around that of all, and the factors of drifts at this one."""
    found = posterior([one for other, own in enumerate(whole.seen) if other != place for one in own], priors)
    return stretch_of(list(found.mean), base), drifts_of(found, whole.seen[place])


def drifts_of(found: Posterior, seen: Sequence[Learnt]) -> dict[str, float]:
    """By quantity of a load: the factor of its drifts. [-]"""
    return {one.quantity: math.exp(drift) for one, drift in zip(seen, found.drift(seen), strict=True)}


def shares_of(predicted: Predictor, theta: Sequence[float], *, base: Overheads) -> dict[str, tuple[float, ...]]:
    """By quantity: derivative of the prediction's logarithm by each cause."""
    here = predicted(stretch_of(theta, base))
    rows: dict[str, list[float]] = {name: [] for name in here}
    for place in range(len(NAMES)):
        moved = [x + (_STEP if i == place else 0.0) for i, x in enumerate(theta)]
        there = predicted(stretch_of(moved, base))
        for name, value in here.items():
            rows[name].append(math.log(there[name] / value) / _STEP)
    return {name: tuple(row) for name, row in rows.items()}


def _linearize(loads: Sequence[MeasuredLoad], theta: Array, base: Overheads) -> list[tuple[Learnt, ...]]:
    """The measured numbers, linear around a point: as if predicted by the catalogue with the shares found there."""
    found = []
    for load in loads:
        here = load.predicted(stretch_of(list(theta), base))
        found.append(
            tuple(
                Learnt(
                    load.model,
                    name,
                    load.place,
                    left=math.log(load.measured[name] / here[name]) + float(np.array(shares) @ theta),
                    shares=shares,
                    part=load.parts.get(name, 0.0),
                )
                for name, shares in shares_of(load.predicted, list(theta), base=base).items()
                if name in load.measured
            )
        )
    return found
