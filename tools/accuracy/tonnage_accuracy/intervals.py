"""
How far is a prediction off for a source that nobody had seen? One model of errors, fitted by maximum a posteriori.

    ln(measured / predicted) = bias + s (a u + c e),   ln s = sum of the level's words

u is what all numbers of one source have in common, e each number's own; both are Student-t with degrees of freedom that
all quantities share. A level (`core.error_model.serve_level`: evidence, kind of load, structure, software) widens both
by a factor for each of its words, drawn towards 1 (partial pooling); a word that nobody measured keeps the prior. A
source is a publisher (measurements/groups.toml) and counts as `fewest` numbers at most, so that sources are alike.

The likelihood of a source is integrated over its u; degrees of freedom and pooling are those under which all quantities
are likeliest (Laplace's approximation of the evidence). A shipped interval is the quantile of bias + u + e over draws
of the parameters from their posterior, so that few sources make it wider; its ends move with the bias.

The residuals are those of predictions by fits that had not seen the source (`tonnage_accuracy.left_out`). Structure
that was set with its rows in view stays in them, so that they are smaller than those of a source that nobody had looked
at. Of such there are a few, predicted before they were opened; `first` is one more word of theirs, drawn to 1 with a
width of its own. What ships is for a user's own case: that word is in its width. A row gives one number of each error:
rates and times of the same requests are one (`catalog.spreads.TAKES`).

Source: Gelman and Hill, Data Analysis Using Regression and Multilevel/Hierarchical Models (2007), chapter 12; Lange,
Little and Taylor, "Robust statistical modeling using the t distribution", JASA 84 (1989).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from statistics import NormalDist
from typing import Any, Final, NamedTuple

import numpy as np

from tonnage.catalog.spreads import TAKES, ErrorOf
from tonnage_accuracy.grouping import group_by
from tonnage_accuracy.metrics import log_ratio
from tonnage_accuracy.quantities import QUANTITY_OF
from tonnage_accuracy.scoring import Score

FITTED: Final = {
    "serve": ("ttft_s", "tpot_s", "output_tokens_per_s"),
    "train": ("step_s", "memory_peak_bytes"),
    "infer": ("samples_per_s",),
}
"""Errors that are fitted, by kind of case. Served memory is summed from start logs and file sizes instead."""
FEWEST: Final = 8.0
"""Numbers that a source counts as at most: where a group counts at all (`fewest` of measurements/groups.toml)."""
MOST: Final = 32
"""Numbers of a source that are read, evenly over its levels: more are near-duplicates."""
BIAS: Final = 0.1
"""Standard deviation of a bias before anything is measured: predictions are fitted to be right on average. [log]"""
SCALE: Final = (math.log(0.12), 0.7)
"""Mean and standard deviation of ln of the scales of u and e, over the quantities that many sources measured."""
_SPAN, _BEND, _NODES = 12.0, 4.0, 41
"""Of the integral over u: its end in scales, how much denser its middle is, and its nodes; good to 1e-3."""
_DRAWS: Final = 20_000
_LEVER: Final = 0.8
"""How much ln of a 90 % interval grows with the variance of ln s: (q^2 - 1) / 2 of a normal's 95 % quantile. [-]"""
_LEAST_CURVATURE: Final = 0.3
_FIRST: Final = -1, "first"
"""Place and word of first contact, the last of all."""

Array = np.ndarray[Any, np.dtype[np.float64]]


class Residual(NamedTuple):
    """One number of a source: at which level, and its ln(measured / predicted)."""

    source: str
    level: str
    value: float
    first: bool = False
    """Predicted before anybody had looked at the source."""


class Pooling(NamedTuple):
    """What all errors share: degrees of freedom of u and e, and standard deviations of ln of a word's factor."""

    source: float
    number: float
    words: float
    first: float
    """The same of the word for first contact."""


GRID: Final = Pooling(
    source=(2.0, 3.0, 4.0, 8.0, 30.0),  # type: ignore[arg-type]
    number=(2.0, 3.0, 4.0, 8.0, 30.0),  # type: ignore[arg-type]
    words=(0.1, 0.15, 0.2, 0.3, 0.5),  # type: ignore[arg-type]
    first=(0.1, 0.2, 0.3),  # type: ignore[arg-type]
)
"""Values that are tried. First contact at most 0.3: of the six sources of wave 1 two of one kind would set it all."""
USUAL: Final = Pooling(source=4.0, number=3.0, words=0.2, first=0.3)


class Fitted(NamedTuple):
    """The most likely parameters and what their posterior leaves open."""

    words: Sequence[tuple[int, str]]
    """Words with their place in a level, in the order of the parameters behind the first three."""
    mean: Array
    """Bias, ln a, ln c, then ln of each word's factor."""
    covariance: Array
    evidence: float
    """Logarithm, by Laplace's approximation."""


def residuals(
    scores: Iterable[Score], *, source: Callable[[str], str] = str, first: Container[str] = ()
) -> dict[tuple[str, str], list[Residual]]:
    """
    The residuals of each error, by kind of case and name; of a row one number each, the first that `TAKES` lists.

    `source` names what publishes a block; `first` are ids of rows predicted at first contact.
    """
    order = {name: place for place, name in enumerate(TAKES)}
    found: dict[tuple[str, str, str], tuple[int, Residual]] = {}
    for score in scores:
        name = QUANTITY_OF.get((score.kind, score.quantity), "")
        ratio = log_ratio(predicted=score.predicted or 0.0, measured=score.measured or 0.0)
        taken, sign = TAKES.get((score.kind, name), (name, 1.0))
        if ratio is None or taken not in FITTED[score.kind]:
            continue
        if score.kind == "train" and taken == "step_s" and score.quantity != "step_time_s":
            sign = -1.0
        place = order.get((score.kind, name), -1)
        key = score.kind, taken, score.id
        if key not in found or place < found[key][0]:
            found[key] = place, Residual(source(score.block), score.level, -sign * ratio, score.id in first)
    by = group_by(found.items(), lambda item: item[0][:2])
    return {key: [residual for _, (_, residual) in own] for key, own in by.items()}


def pooled(every: Iterable[Sequence[Residual]]) -> Pooling:
    """Degrees of freedom and pooling under which all errors together are likeliest, one after the other."""
    data = [_Data(own) for own in every]
    best = USUAL

    def evidence(pooling: Pooling) -> float:
        return sum(_posterior(own, pooling).evidence for own in data)

    for name in ("number", "first", "source", "words", "number", "first"):
        best = max((best._replace(**{name: value}) for value in getattr(GRID, name)), key=evidence)
    return best


def fit(own: Sequence[Residual], pooling: Pooling) -> ErrorOf:
    """The error of one quantity, as predictions look it up."""
    data = _Data(own)
    found = _posterior(data, pooling)
    evidence = group_by(own, lambda one: one.level.partition(":")[0])
    draws, bias = draws_of(found, pooling) - found.mean[0], float(found.mean[0])
    variances = np.diag(found.covariance)[3:]
    return ErrorOf(
        bias=round(bias, 4),
        width=round(float(np.quantile(np.abs(draws), 0.9)), 4),
        shared=round(1.0 / (1.0 + math.exp(2.0 * (found.mean[2] - found.mean[1]))), 3),
        sources=len(data.names),
        rows=len(own),
        words={
            word: round(float(math.exp(mean + _LEVER * variance)), 4)
            for (place, word), mean, variance in zip(found.words, found.mean[3:], variances, strict=True)
            if place >= 0
        },
        first=round(float(math.exp(found.mean[-1])), 3),
        evidence={word: len({one.source for one in mine}) for word, mine in sorted(evidence.items())},
    )


def draws_of(found: Fitted, pooling: Pooling) -> Array:
    """Errors at first contact at the mean level, with a fixed seed."""
    chance, kept = np.random.default_rng(1), [0, 1, 2, -1]
    bias, own, each, first = chance.multivariate_normal(
        found.mean[kept], found.covariance[np.ix_(kept, kept)], _DRAWS
    ).T
    u, e = (chance.standard_t(freedom, _DRAWS) for freedom in pooling[:2])
    drawn: Array = bias + np.exp(first) * (np.exp(own) * u + np.exp(each) * e)
    return drawn


def unknown_word(pooling: Pooling) -> float:
    """Factor on a width for a word that nobody measured. [-]"""
    return math.exp(_LEVER * pooling.words**2)


def tail_of(every: Iterable[Sequence[Residual]], pooling: Pooling) -> float:
    """How heavy the tails of all errors are together, as `catalog.spreads` has it: the nearest sinh of a normal."""
    shares = np.array([0.2, 0.4, 0.6, 0.8, 0.95, 0.98, 0.99])
    normal = NormalDist().inv_cdf
    scores = np.array([normal(0.5 + share / 2.0) for share in shares])
    found = []
    for own in every:
        fitted = _posterior(_Data(own), pooling)
        sizes = np.quantile(np.abs(draws_of(fitted, pooling) - fitted.mean[0]), [*shares, 0.9])
        found.append(np.log(sizes[:-1] / sizes[-1]))
    said = np.mean(found, axis=0)
    end = normal(0.95)
    tails = np.arange(0.05, 1.5, 0.01)
    misses = [float(np.sum((np.log(np.sinh(t * scores) / math.sinh(t * end)) - said) ** 2)) for t in tails]
    return round(float(tails[int(np.argmin(misses))]), 2)


class _Data:
    """Residuals as arrays: each with its source, its weight, and the words of its level."""

    def __init__(self, own: Sequence[Residual]) -> None:
        kept, weights = [], []
        self.names = sorted({one.source for one in own})
        for source in self.names:
            mine = sorted(one for one in own if one.source == source)
            mine = mine[:: len(mine) // MOST + 1]
            kept += mine
            weights += [min(1.0, FEWEST / len(mine))] * len(mine)
        self.values = np.array([one.value for one in kept])
        self.weights = np.array(weights)
        self.source = np.array([self.names.index(one.source) for one in kept])
        levels = [list(enumerate(one.level.split(":"))) if one.level else [] for one in kept]
        self.words = [*sorted({word for level in levels for word in level}), _FIRST]
        levels = [[*level, _FIRST] if one.first else level for one, level in zip(kept, levels, strict=True)]
        self.has = np.array([[word in level for word in self.words] for level in levels], dtype=float)
        self.has = self.has.reshape(len(kept), len(self.words))
        self.start = np.array([0.0, SCALE[0], SCALE[0], *[0.0] * len(self.words)])
        """Where the search for the likeliest parameters begins: of the last pooling that was tried."""
        self.joined = np.equal.outer(np.arange(len(self.names)), self.source).astype(float)


def _posterior(data: _Data, pooling: Pooling) -> Fitted:
    """The most likely parameters and the curvature there; words are measured from the mean of their place."""
    count = 3 + len(data.words)

    def of(x: Array) -> tuple[float, Array]:
        return _loss(x, data, pooling)

    best, least = _minimise(of, data.start)
    data.start = best
    steps = np.eye(count) * 1e-4
    curvature = np.array([(of(best + h)[1] - of(best - h)[1]) / 2e-4 for h in steps])
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2.0)
    values = np.maximum(values, _LEAST_CURVATURE)
    # A word's factor is measured from the mean of its place, and the scales are those of the mean level.
    share = data.weights @ data.has / data.weights.sum()
    place = np.array([p for p, _ in data.words])
    share[place < 0] = 0.0
    turn = np.eye(count)
    turn[3:, 3:] -= np.equal.outer(place, place) * share
    turn[1:3, 3:] = share
    return Fitted(
        words=data.words,
        mean=turn @ best,
        covariance=turn @ (vectors / values) @ vectors.T @ turn.T,
        evidence=-least + 0.5 * (count * math.log(2.0 * math.pi) - float(np.log(values).sum())),
    )


def _loss(x: Array, data: _Data, pooling: Pooling) -> tuple[float, Array]:
    """Minus the logarithm of the posterior, and its gradient."""
    bias, own, each, words = x[0], x[1], x[2], x[3:]
    u, weight = _nodes(pooling.source)
    scale = np.exp(each + data.has @ words)
    drawn = np.array([pooling.first if word == _FIRST else pooling.words for word in data.words])
    ratio = math.exp(own - each)
    z = ((data.values - bias) / scale)[:, None] - ratio * u
    freedom = pooling.number
    each_log = _log_t(z, freedom) - np.log(scale)[:, None]
    by_source = data.joined @ (data.weights[:, None] * each_log) + np.log(weight)
    most = by_source.max(axis=1, keepdims=True)
    total = np.exp(by_source - most)
    likely = float((most[:, 0] + np.log(total.sum(axis=1))).sum())
    share = (total / total.sum(axis=1, keepdims=True))[data.source] * data.weights[:, None]
    pull = share * (freedom + 1.0) * z / (freedom + z * z)  # minus the derivative by z
    by_scale = (pull * ((data.values - bias) / scale)[:, None] - share).sum(axis=1)
    moved = np.array([(pull.sum(axis=1) / scale).sum(), (pull * u).sum() * ratio])
    spread = np.array([SCALE[1], SCALE[1]])
    prior = -0.5 * (bias / BIAS) ** 2 - 0.5 * float((((x[1:3] - SCALE[0]) / spread) ** 2).sum())
    prior -= float((0.5 * (words / drawn) ** 2 + np.log(drawn)).sum())
    gradient = np.concatenate([moved, [by_scale.sum() - moved[1]], data.has.T @ by_scale])
    gradient -= np.array([bias / BIAS**2, *((x[1:3] - SCALE[0]) / spread**2), *(words / drawn**2)])
    return -(likely + prior), -gradient


def _log_t(z: Array, freedom: float) -> Array:
    """Logarithm of the density of Student's t."""
    whole = math.lgamma((freedom + 1.0) / 2.0) - math.lgamma(freedom / 2.0) - 0.5 * math.log(freedom * math.pi)
    found: Array = whole - (freedom + 1.0) / 2.0 * np.log1p(z * z / freedom)
    return found


def _nodes(freedom: float) -> tuple[Array, Array]:
    """Nodes of the integral over u and their weights."""
    places = np.linspace(-_BEND, _BEND, _NODES)
    u = _SPAN * np.sinh(places) / math.sinh(_BEND)
    weights = np.gradient(u) * np.exp(_log_t(u, freedom))
    return u, weights / weights.sum()


def _minimise(of: Callable[[Array], tuple[float, Array]], x: Array) -> tuple[Array, float]:
    """The least of a smooth function and where it is: BFGS with halved steps."""
    value, slope = of(x)
    inverse = np.eye(len(x)) * 0.1
    for _ in range(300):
        step = -inverse @ slope
        step *= min(1.0, 1.0 / float(np.abs(step).max()))
        length = 1.0
        while (found := of(x + length * step))[0] > value + 1e-4 * length * float(slope @ step) and length > 1e-6:
            length /= 2.0
        moved, turned = length * step, found[1] - slope
        gained, x, (value, slope) = value - found[0], x + moved, found
        if gained < 1e-6:
            break
        along = float(moved @ turned)
        if along > 1e-12:
            left = np.eye(len(x)) - np.outer(moved, turned) / along
            inverse = left @ inverse @ left.T + np.outer(moved, moved) / along
    return x, value
