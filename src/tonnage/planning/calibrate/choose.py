"""Which measurement teaches most? The next point is where the variance left in all others shrinks most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tonnage.catalog.intervals import Priors
from tonnage.planning.calibrate.posterior import Seen, covariance_of

__all__ = ["next_point"]


def next_point(candidates: Sequence[Sequence[Seen]], priors: Priors, *, taken: Sequence[int] = ()) -> int:
    """
    Place of the candidate whose measurement lessens the variance of all candidates most, after those taken.

    Each quantity weighs by its variance before anything is measured, so that a time to first token, which is less
    sure, does not outweigh a time per token. Only shares and places count: nothing needs to be measured yet.
    """
    numbers = [(place, one) for place, own in enumerate(candidates) for one in own]
    known = covariance_of([one for _, one in numbers], priors)
    noise = np.array([priors.noise[one.quantity] ** 2 for _, one in numbers])
    of = np.array([place for place, _ in numbers])
    quantities = [one.quantity for _, one in numbers]
    before = np.diag(known)
    total = {name: sum(v for v, own in zip(before, quantities, strict=True) if own == name) for name in quantities}
    weight = np.array([1.0 / total[name] for name in quantities])

    def gained(place: int) -> tuple[np.ndarray, np.ndarray]:
        """Covariance of all numbers with those of a candidate, and the inverse of its own with noise."""
        at = np.where(of == place)[0]
        return known[:, at], np.linalg.inv(known[np.ix_(at, at)] + np.diag(noise[at]))

    for place in taken:
        shared, inverse = gained(place)
        known = known - shared @ inverse @ shared.T

    def lessened(place: int) -> float:
        shared, inverse = gained(place)
        return float(weight @ np.einsum("ij,jk,ik->i", shared, inverse, shared))

    return max((place for place in range(len(candidates)) if place not in taken), key=lessened)
