"""
What do a few measurements say of the numbers that a stack has of its own? A Gaussian in logarithms.

Each measured number is ln(measured / predicted by the catalogue) = shares x theta + noise. Theta are named causes
(`NAMES`: what memory bounds, attention over the cache beyond that, arithmetic, host, host time of a sequence, start of
a request, links), 0 where the catalogue is right; the shares are the derivatives of the prediction's logarithm, so that
a point says most about what it is made of, and moves every prediction made of the same. Widths of causes and of noise
are `catalog.intervals.priors`. The noise has heavy tails (Student-t, four degrees of freedom): one disturbed point does
not drag the rest along. Its width is pooled with what the points themselves scatter, the catalogue's counting as
`PRIOR_POINTS` of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tonnage.catalog.intervals import Priors

__all__ = ["NAMES", "PRIOR_POINTS", "Posterior", "Seen", "posterior", "spread_of"]

NAMES: Final = ("memory", "attention", "compute", "host", "sequence", "request", "links")
"""Causes of a serving stack, in the order of a share."""
PRIOR_POINTS: Final = 4.0
"""Measured numbers of one quantity that the catalogue's noise counts as. [-]"""
FREEDOM: Final = 4.0
_STUDENT: Final = (FREEDOM - 2.0) / FREEDOM
"""Square of a Student-t's scale over its variance: numbers that fit count by the scale, intervals by the variance."""
_ROUNDS: Final = 12

Array = np.ndarray[Any, np.dtype[np.float64]]


class Seen(NamedTuple):
    """One measured number: its quantity, ln(measured / predicted), and the shares of the causes in it."""

    quantity: str
    residual: float
    shares: tuple[float, ...]


class Posterior(NamedTuple):
    """Mean and covariance of the causes [log], noise by quantity [log], and of each number how much it counts."""

    mean: Array
    covariance: Array
    noise: dict[str, float]
    weights: tuple[float, ...]
    """1 for a number as the others are, towards 0 for one that nothing else explains. [-]"""


def posterior(seen: Sequence[Seen], priors: Priors) -> Posterior:
    """
    The causes given some measured numbers; without any, the prior.

    Examples
    --------
    >>> from tonnage.catalog.intervals import priors
    >>> slow = Seen("tpot_s", math.log(1.2), (0.8, 0.1, 0.0, 0.1, 0.0, 0.0, 0.0))
    >>> found = posterior([slow], priors("serve"))
    >>> 0.1 < float(found.mean @ np.array(slow.shares)) < math.log(1.2)
    True
    """
    widths = np.array([priors.widths[name] for name in NAMES])
    known = np.diag(widths**2)
    noise = dict(priors.noise)
    if not seen:
        return Posterior(np.zeros(len(NAMES)), known, noise, ())
    shares, residuals = np.array([one.shares for one in seen]), np.array([one.residual for one in seen])
    weights = np.ones(len(seen))
    for _ in range(_ROUNDS):
        variance = np.array([noise[one.quantity] for one in seen]) ** 2 / weights
        gain = _gain(known, shares, variance * _STUDENT)
        left = residuals - shares @ gain @ residuals
        noise = _noise(seen, left, np.diag(shares @ gain), weights, priors)
        scale = np.array([noise[one.quantity] for one in seen]) * math.sqrt(_STUDENT)
        weights = np.minimum(1.0, (FREEDOM + 1.0) / (FREEDOM + (left / scale) ** 2))
    covariance = known - _gain(known, shares, variance) @ shares @ known
    return Posterior(gain @ residuals, covariance, noise, tuple(float(x) for x in weights))


def spread_of(found: Posterior, shares: Sequence[float], *, quantity: str) -> float:
    """Standard deviation of the logarithm of a prediction with these shares, noise included."""
    row = np.array(shares)
    return math.sqrt(float(row @ found.covariance @ row) + found.noise[quantity] ** 2)


def _gain(known: Array, shares: Array, variance: Array) -> Array:
    """What the causes gain from each residual, by the variance of its noise."""
    gain = np.linalg.solve(shares @ known @ shares.T + np.diag(variance), shares @ known).T
    return np.asarray(gain, dtype=np.float64)


def _noise(seen: Sequence[Seen], left: Array, leverage: Array, weights: Array, priors: Priors) -> dict[str, float]:
    """By quantity: the catalogue's, pooled with what is left of the points, as if each were predicted by the others."""
    found = {}
    for quantity, usual in priors.noise.items():
        places = [place for place, one in enumerate(seen) if one.quantity == quantity]
        own = sum(float(weights[i] * left[i] ** 2 / max(0.1, 1.0 - leverage[i])) for i in places)
        found[quantity] = math.sqrt((PRIOR_POINTS * usual**2 + own) / (PRIOR_POINTS + len(places)))
    return found
