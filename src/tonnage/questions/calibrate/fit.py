"""
Which stretch explains the measured loads best, given what the catalogue expects of such an engine?

Gauss-Newton around the linear Gaussian of `posterior`: the loads are predicted under the stretch so far, the shares of
the causes in each number are taken by finite differences there, and the causes are conditioned again. Few loads barely
move what they say little about: that is the prior's work, and no cause is dropped by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from tonnage.catalog.intervals import Priors
from tonnage.core.drift import Array
from tonnage.domain.calibration import Learnt, Stretch
from tonnage.domain.engine_spec import Overheads
from tonnage.questions.calibrate.loads import MeasuredLoad, Predictor
from tonnage.questions.calibrate.posterior import NAMES, Posterior, posterior

_STEP: Final = 0.02
"""Of the finite differences. [log]"""
_FARTHEST: Final = 1.0
"""That one round may move a cause. [log]"""
_ROUNDS: Final = 12
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
    >>> from tonnage.catalog.intervals import priors
    >>> widen(priors("serve"), memory=0.4, compute=0.0).widths["memory"] > 0.4
    True
    """
    own = {
        "memory": math.hypot(priors.widths["memory"], memory),
        "compute": math.hypot(priors.widths["compute"], compute),
    }
    return msgspec.structs.replace(priors, widths={**priors.widths, **own})


def stretch_of(theta: Sequence[float], base: Overheads) -> Stretch:
    """The numbers at a point of the causes; at 0 those of the catalogue."""
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
    """The most probable stretch of all loads together."""
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
