"""Which measurement teaches most? The next point is where the variance left in all others shrinks most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tonnage.catalog.intervals import Priors
from tonnage.planning.calibrate.posterior import NAMES, Array, Seen

__all__ = ["next_point"]

_MATTERS: Final = ("tpot_s", "ttft_s", "output_tokens_per_s")


def next_point(candidates: Sequence[Sequence[Seen]], priors: Priors, *, taken: Sequence[int] = ()) -> int:
    """
    Place of the candidate whose measurement lessens the variance of all candidates most, after those taken.

    Each quantity weighs by its variance before anything is measured, so that a time to first token, which is less
    sure, does not outweigh a time per token. Only shares count: nothing needs to be measured yet.
    """
    known: Array = np.diag(np.array([priors.widths[name] for name in NAMES]) ** 2)
    every = {name: _rows(candidates, name) for name in _MATTERS}
    weight = {
        name: 1.0 / float(np.einsum("ij,jk,ik->", rows, known, rows)) for name, rows in every.items() if len(rows)
    }
    for place in taken:
        known = _after(known, candidates[place], priors)
    left = [place for place in range(len(candidates)) if place not in taken]

    def variance(place: int) -> float:
        after = _after(known, candidates[place], priors)
        return sum(w * float(np.einsum("ij,jk,ik->", every[n], after, every[n])) for n, w in weight.items())

    return min(left, key=variance)


def _rows(candidates: Sequence[Sequence[Seen]], quantity: str) -> Array:
    return np.array([one.shares for own in candidates for one in own if one.quantity == quantity])


def _after(known: Array, point: Sequence[Seen], priors: Priors) -> Array:
    """The covariance of the causes once a point is measured."""
    shares = np.array([one.shares for one in point])
    noise = np.diag([priors.noise[one.quantity] ** 2 for one in point])
    left: Array = known - known @ shares.T @ np.linalg.solve(shares @ known @ shares.T + noise, shares @ known)
    return left
