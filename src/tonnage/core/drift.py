"""
What no cause of a stack explains, but configurations near one another share: a drift over loads, lengths and degrees.

What causes leave of ln(measured / predicted) is a Gaussian process: an offset that all configurations of a run share
and a drift whose covariance falls as exp(-distance), over logarithms of requests in flight, prompt, answer and degrees.
The *pace* of a configuration moves all its times alike, and rates the other way, as if its clock ran slower; the
*first* token has one of its own besides. So has a part of some numbers (`PARTS`), which moves them as far as they are
made of it: what prompts of other requests take between two tokens (no rate, for such waits go from one time of a
request to the other), and what of a peak of memory is no weight or state. Widths are `catalog.fitted.priors`.

A `Drift` is what a stored calibration says of one configuration under any load: factors on its times, and how sure each
quantity is there. It is conditioned on what the stretch leaves: of a joint Gaussian K (K + N)^-1 (r - S theta) is what
K (S W S' + K + N)^-1 r is, so the stretch stays the file's, whatever widths a later release brings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from tonnage.catalog.fitted import Priors, causes, priors
from tonnage.catalog.published import published_points
from tonnage.domain.calibration import TRAINING, Calibration, Learnt
from tonnage.domain.case import ServeCase
from tonnage.domain.layout import Layout
from tonnage.domain.precision import Precision
from tonnage.record import Record
from tonnage.simulation.step_parts import Placement

NAMES: Final = ("memory", "attention", "compute", "host", "sequence", "request", "links")
"""Causes of a serving stack, in the order of a share."""
Array = np.ndarray[Any, np.dtype[np.float64]]
DRIFTS: Final = {
    "pace": {"tpot_s": 1.0, "ttft_s": 1.0, "output_tokens_per_s": -1.0},
    "first": {"ttft_s": 1.0},
    "step": {"step_s": 1.0},
}
"""How a drift enters the logarithm of a quantity. [-]"""
PARTS: Final = {"tpot_s": "interrupted", "memory_peak_bytes": "loose"}
"""By quantity, the drift of a part of it."""
DIMENSIONS: Final = ("load", "lengths", "lengths", "degrees", "degrees", "degrees", "degrees")
"""Of a place, in its order: whose length it is measured by."""
STUDENT: Final = 0.5
"""Square of the scale over the variance of a Student-t with four degrees of freedom, which noise is taken to be: what
numbers count by is the scale, what intervals keep is the variance. [-]"""
STUDENT_NINETY: Final = 1.507
"""Standard deviations of that Student-t from its middle to the end of 90 %: 2.132 of its scale."""
SAME_AS: Final = {
    "e2e_s": "ttft_s",
    "requests_per_s": "output_tokens_per_s",
    "total_tokens_per_s": "output_tokens_per_s",
}
"""Quantities as sure as another."""
_STEPS: Final = 1.0
"""Loads that are told apart when it is said how sure a number is, between one and its double. [-]"""
_LEAST: Final = 0.1
"""Anything smaller of a place counts as that: one request in ten seconds, an answer of no token."""


class Moved(NamedTuple):
    """What a drift makes of a configuration under one load."""

    pace: float = 1.0
    """Factor on all times. [-]"""
    first: float = 1.0
    """Further factor on the time to the first token. [-]"""
    between: float = 1.0
    """Further factor on the time per token of a loop of clients, whose prompts come between tokens. [-]"""


class Drift(Record):
    """What a calibration says of one configuration of a model, under any load."""

    own: Calibration
    model: str
    prompt_tokens: float
    output_tokens: float
    layout: Layout
    setting: str = ""
    """Of published points: release and formats (`setting_of`)."""

    @property
    def usual(self) -> float:
        """The middle of the measured loads, where nobody says a load. [requests]"""
        return math.exp(float(np.mean([math.log(max(one.place[0], _LEAST)) for one in self.own.learnt])))

    def at(self, in_flight: float, *, interrupted: float = 0.0) -> Moved:
        """
        Factors with so many requests in flight on the replica.

        `interrupted` is the share of a time per token that prompts of other requests take (`PARTS`); 0 = none. [-]
        """
        steps = self.along((in_flight,))[0]
        if not interrupted:
            return steps
        tpot = self._numbers("tpot_s", (in_flight,), part=interrupted)
        return steps._replace(between=math.exp(float(_conditioned(_Key(self.own)).means(tpot)[0])) / steps.pace)

    def along(self, in_flight: Sequence[float]) -> tuple[Moved, ...]:
        """Factors at several loads for steps alone: `between` stays 1."""
        pace, both = (
            _conditioned(_Key(self.own)).means(self._numbers(name, in_flight)) for name in ("tpot_s", "ttft_s")
        )
        # A time per token drifts by the pace alone; a first token by both.
        return tuple(Moved(math.exp(p), math.exp(b - p)) for p, b in zip(pace, both, strict=True))

    def surely(self, in_flight: float | None = None) -> Calibration:
        """
        The calibration with the 90 % factors of this configuration at a load, rounded to the loads of `load_steps`.

        Absent = the usual load of the measurements. For a model that was not measured the factors stay as they are.
        """
        if self.model not in self.own.models:
            return self.own
        load = math.exp2(round(math.log2(max(in_flight or self.usual, _LEAST)) * _STEPS) / _STEPS)
        factor = _conditioned(_Key(self.own)).factor
        factors = {
            name: factor(self._numbers(name, (load,))) for name in dict.fromkeys(n.quantity for n in self.own.learnt)
        }
        same = {name: factors[other] for name, other in SAME_AS.items() if other in factors}
        return replace(self.own, factors={**self.own.factors, **factors, **same})

    def _numbers(self, quantity: str, in_flight: Sequence[float], *, part: float = 0.0) -> Numbers:
        prompt, output = self.prompt_tokens, self.output_tokens
        places = (place_of(load, self.layout, prompt_tokens=prompt, output_tokens=output) for load in in_flight)
        return numbers_of([Learnt(self.model, quantity, place, setting=self.setting, part=part) for place in places])


def load_steps(top: float) -> tuple[tuple[float, float], ...]:
    """
    Loads up to `top` as `Drift.surely` tells them apart: each with where it ends. [requests]

    Examples
    --------
    >>> [(round(load, 2), round(end, 2)) for load, end in load_steps(2.0)]
    [(1.0, 1.41), (2.0, 2.83)]
    """
    count = max(0, math.ceil((math.log2(max(top, 1.0)) - 0.5 / _STEPS) * _STEPS))
    return tuple((math.exp2(k / _STEPS), math.exp2((k + 0.5) / _STEPS)) for k in range(count + 1))


def place_of(in_flight: float, layout: Layout, *, prompt_tokens: float, output_tokens: float) -> tuple[float, ...]:
    """A configuration under a load, as `Learnt` keeps it."""
    return (in_flight, prompt_tokens, output_tokens, *(float(x) for x in (layout.tp, layout.dp, layout.pp, layout.ep)))


class Numbers(NamedTuple):
    """Numbers of a stack: what they are, of which model, and where."""

    quantities: Sequence[str]
    models: Sequence[str]
    places: Array
    """Logarithms, a row each."""
    settings: Sequence[str]
    """What is another kind of configuration altogether; of a user's own servers empty."""
    part: Array
    """Of each, the share that has a drift of its own (`PARTS`). [-]"""


def numbers_of(each: Sequence[Learnt]) -> Numbers:
    """Numbers that were measured, or that are to be predicted, as the process takes them."""
    return Numbers(
        [one.quantity for one in each],
        [one.model for one in each],
        np.log(np.maximum(np.array([one.place for one in each], dtype=np.float64), _LEAST)),
        [one.setting for one in each],
        np.array([one.part for one in each]),
    )


def drift_covariance(one: Numbers, other: Numbers, *, known: Priors) -> Array:
    """
    Covariance of ln(measured / predicted) that offsets and drifts give numbers of a stack: a row for each of `one`, a
    column for each of `other`. [-]

    Between two models it is less by the share of the variance whose causes they do not have in common.

    Examples
    --------
    >>> from tonnage.catalog.fitted import priors
    >>> places = {"tpot_s": (32, 1024, 256, 1, 1, 1, 1), "output_tokens_per_s": (48, 1024, 256, 1, 1, 1, 1)}
    >>> near = numbers_of([Learnt("m", name, place) for name, place in places.items()])
    >>> both = drift_covariance(near, near, known=priors("serve"))
    >>> bool(both[0, 1] < 0.0 < both[0, 0])
    True
    """
    near = nearness(one, other, known=known)
    same = np.array(one.models)[:, None] == np.array(other.models)[None]
    total = np.zeros(near.shape)
    for name in known.offset:
        enters = DRIFTS[name]
        a, b = (np.array([enters.get(quantity, 0.0) for quantity in of.quantities]) for of in (one, other))
        total += np.outer(a, b) * (known.offset[name] ** 2 + known.drift[name] ** 2 * near)
    for measured, name in PARTS.items():
        if name in known.drift:
            a, b = (of.part * [quantity == measured for quantity in of.quantities] for of in (one, other))
            total += np.outer(a, b) * known.drift[name] ** 2 * near
    return np.asarray(np.where(same, total, total * _shared_by_models("pace" in known.offset)))


@cache
def _shared_by_models(serves: bool) -> float:
    """Of the variance of a stack's errors, what its models have in common; of a step in training nothing [log]. [-]"""
    return sum(cause.share for cause in causes("serve")) if serves else 0.0


def nearness(one: Numbers, other: Numbers, *, known: Priors) -> Array:
    """
    exp(-distance) of each configuration of `one` (rows) from each of `other` (columns). [-]

    Distances are in lengths of `known`; another setting adds one, as a direction of its own.
    """
    scale = np.array([known.length.get(name, known.length["degrees"]) for name in DIMENSIONS])
    apart = np.sum(((one.places[:, None] - other.places[None]) / scale) ** 2, axis=-1)
    unlike = np.array(one.settings)[:, None] != np.array(other.settings)[None]
    return np.asarray(np.exp(-np.sqrt(apart + unlike)))


class _Key:
    """A calibration as a key: by what was measured."""

    __slots__ = ("one",)

    def __init__(self, one: Calibration) -> None:
        self.one = one

    def __hash__(self) -> int:
        # Of all its numbers a hash would take longer than what is kept under it; these tell most calibrations apart.
        own = self.one
        return hash((own.accelerator, own.engine, own.models, own.date, len(own.learnt)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Key):
            return False
        return self.one.learnt == other.one.learnt and self.one.widths == other.one.widths


class _Conditioned:
    """The Gaussian process of a stack's errors, conditioned on what a calibration measured."""

    def __init__(self, own: Calibration) -> None:
        usual = priors("train" if own.engine.endswith(TRAINING) else "serve")
        self.known = replace(usual, widths={**usual.widths, **own.widths})
        self.numbers = numbers_of(own.learnt)
        self.noise = np.array([one.noise for one in own.learnt])
        widths = np.array([self.known.widths.get(name, 0.0) for name in NAMES])
        self.shares = np.array([one.shares for one in own.learnt]) * widths
        drift = drift_covariance(self.numbers, self.numbers, known=self.known)
        left = np.array([one.left for one in own.learnt])
        self.pull = np.linalg.solve(drift + np.diag(self.noise**2 * STUDENT), left)
        self.inverse = np.linalg.inv(self.shares @ self.shares.T + drift + np.diag(self.noise**2))

    def means(self, of: Numbers) -> Array:
        """Expected ln(measured / predicted) of each number, of what the causes leave. [-]"""
        return np.asarray(drift_covariance(of, self.numbers, known=self.known) @ self.pull)

    def factor(self, one: Numbers) -> float:
        """
        What causes, drift and noise leave unsure of one number, as a 90 % factor. [-]

        Some number of its quantity must have been measured: what it is made of follows from those.
        """
        same = np.array([float(name == one.quantities[0]) for name in self.numbers.quantities])
        # What the number is made of here: as the measured ones of its kind are, near ones first.
        near = same * nearness(one, self.numbers, known=self.known)[0]
        shares = near @ self.shares / near.sum()
        one = one._replace(part=np.array([near @ self.numbers.part / near.sum()]))
        seen = drift_covariance(one, self.numbers, known=self.known)[0] + self.shares @ shares
        before = float(shares @ shares + drift_covariance(one, one, known=self.known)[0, 0])
        noise = float(np.min(self.noise[same > 0.0]))
        left = max(0.0, before - float(seen @ self.inverse @ seen))
        return math.exp(STUDENT_NINETY * math.sqrt(left + noise**2))


@lru_cache(maxsize=16)
def _conditioned(key: _Key) -> _Conditioned:
    return _Conditioned(key.one)


def setting_of(release: str | None, precision: Precision) -> str:
    """
    Release and formats of a configuration as one text: published points of another release or format count less.

    Examples
    --------
    >>> from tonnage.domain.precision import Precision
    >>> setting_of("0.11.0", Precision(weights="fp8"))
    '0.11.0 fp8 bf16'
    """
    return " ".join(filter(None, (release, precision.stored, precision.kv)))


def drift_at(own: Calibration | None, case: ServeCase, *, at: Placement, engine: str) -> Drift | None:
    """
    What the user's own calibration, else the published rows of the stack, say of a configuration.

    None for separate pools, and where neither has a number; published rows are of whole accelerators alone.
    """
    setting = ""
    if own is None and case.accelerator_fraction >= 1.0:
        own = published_points(at.accelerator.id, engine, model=at.model.id)
        setting = setting_of(case.engine_version, at.precision)
    if case.disaggregation is not None or own is None or not own.learnt:
        return None
    return Drift(own, at.model.id, case.isl, case.osl, at.layout, setting)


def trained(own: Calibration, *, model: str, place: Sequence[float], setting: str) -> dict[str, tuple[float, float]]:
    """
    What a calibration of training says of a configuration: by quantity a factor on it, and its 90 % factor.

    Of a peak of memory the factor is on its loose part, what does not follow from counts and formats.

    A model that was not measured gets nothing: on published runs, one of another model of the stack teaches nothing.
    """
    if model not in own.models:
        return {}
    found = _conditioned(_Key(own))
    factors = {}
    for name in dict.fromkeys(one.quantity for one in own.learnt if one.model == model):
        at = numbers_of([Learnt(model, name, tuple(place), setting=setting, part=float(name in PARTS))])
        factors[name] = math.exp(float(found.means(at)[0])), found.factor(at)
    return factors
