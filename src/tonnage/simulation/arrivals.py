"""When do requests come, and how long are they? Generated traffic with the statistics of the real thing.

Real arrivals are not Poisson: over ten seconds the number of chat requests varies four times as much as
chance would have it, that of code completions seventy times. Beside the plain processes stands one whose
rate itself wanders (`doubly_stochastic`): gamma-distributed rates, constant over a window and drawn anew for
each; its variance to mean over windows is what is asked for.

Every generator takes a `numpy` random generator made from a stated seed. To compare two loads, one list of
requests is stretched in time (`at_rate`): order, pattern and lengths stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tonnage.errors import BadRequest
from tonnage.simulation.simulated import Floats, Ints, Requests

if TYPE_CHECKING:
    import numpy as np


MOST_PER_S = 1e9
"""Above it the clock of a long run no longer tells two requests apart. [requests/s]"""


class Quantiles(NamedTuple):
    """A distribution of lengths by its quantiles, and its mean where that is published beside them."""

    shares: tuple[float, ...]
    tokens: tuple[float, ...]
    mean: float | None = None


def random(seed: int) -> np.random.Generator:
    """The generator of a seed."""
    import numpy as np

    return np.random.default_rng(seed)


def poisson(rng: np.random.Generator, n: int, *, rate_per_s: float) -> Floats:
    """Times of n requests that come independently. [s]"""
    return _sums(rng.exponential(1.0, n)) / _rate(rate_per_s)


def gamma_renewal(rng: np.random.Generator, n: int, *, rate_per_s: float, variation: float) -> Floats:
    """Times of n requests whose gaps are gamma distributed with that coefficient of variation (1 = Poisson). [s]"""
    if not 0 < variation <= 100:
        raise BadRequest(
            f"variation {variation:g} must be above 0 and at most 100: standard deviation over mean of gaps"
        )
    shape = 1.0 / variation**2
    return _sums(rng.gamma(shape, 1.0 / shape, n)) / _rate(rate_per_s)


def doubly_stochastic(
    rng: np.random.Generator, n: int, *, rate_per_s: float, dispersion: float, window_s: float
) -> Floats:
    """
    Times of n requests whose rate changes from window to window. [s]

    Counts of a window are negative binomial: variance over mean is `dispersion`, so the rate is gamma
    distributed with shape rate window / (dispersion - 1). A dispersion of 1 is Poisson; below it is refused.
    """
    import numpy as np

    rate = _rate(rate_per_s)
    if dispersion < 1.0:
        raise BadRequest(
            f"dispersion {dispersion:g} must be at least 1: variance over mean of the requests in a window"
        )
    if dispersion < 1.0 + 1e-9:
        return poisson(rng, n, rate_per_s=rate)
    shape = rate * window_s / (dispersion - 1.0)
    times: list[Floats] = []
    have, window = 0, 0
    while have < n:
        # A few windows more than are needed, at once.
        count = max(64, int(1.2 * (n - have) / (rate * window_s)) + 1)
        counts = rng.poisson(rng.gamma(shape, rate * window_s / shape, count))
        starts = np.repeat((window + np.arange(count)) * window_s, counts)
        times.append(np.sort(starts + rng.random(len(starts)) * window_s))
        window += count
        have += len(starts)
    return np.asarray(np.concatenate(times)[:n])


def on_off(rng: np.random.Generator, n: int, *, rate_per_s: float, on_s: float, off_s: float) -> Floats:
    """Times of n requests that come only while a source is on; spans are exponential, the rate is the mean. [s]"""
    import numpy as np

    if on_s <= 0 or off_s < 0:
        raise BadRequest(f"on_s {on_s:g} must be above 0 and off_s {off_s:g} at least 0")
    inside = poisson(rng, n, rate_per_s=_rate(rate_per_s) * (on_s + off_s) / on_s)
    spans = rng.exponential(on_s, int(inside[-1] / on_s * 2) + 64 if n else 1)
    while n and spans.sum() < inside[-1]:
        spans = np.concatenate((spans, rng.exponential(on_s, len(spans))))
    pauses = np.concatenate(([0.0], np.cumsum(rng.exponential(off_s, len(spans)) if off_s else np.zeros(len(spans)))))
    return np.asarray(inside + pauses[np.searchsorted(np.cumsum(spans), inside)])


def diurnal(times_s: Floats, *, hours: Sequence[float], day_s: float = 86400.0) -> Floats:
    """
    The same requests at a rate that follows the hours of a day; order and mean rate stay.

    `hours`: rates of even parts of a day of `day_s` seconds, relative to each other; every day repeats them.
    """
    import numpy as np

    weights = np.asarray(hours, float)
    if (
        weights.ndim != 1
        or not len(weights)
        or not np.isfinite(weights).all()
        or (weights < 0).any()
        or not weights.sum()
    ):
        raise BadRequest("hours must be a list of rates of at least 0, one of them above it")
    edges = np.concatenate(([0.0], np.cumsum(weights / weights.sum()))) * day_s
    even = np.linspace(0.0, day_s, len(edges))
    whole = np.floor(times_s / day_s) * day_s
    return np.asarray(whole + np.interp(times_s - whole, edges, even))


def at_rate(times_s: Floats, rate_per_s: float) -> Floats:
    """The same requests, stretched in time to another mean rate; order and pattern stay. [s]"""
    span = float(times_s[-1] - times_s[0]) if len(times_s) > 1 else 0.0
    if span <= 0.0:
        raise BadRequest("requests that all come at once have no rate to change; give times that differ")
    scaled: Floats = (times_s - times_s[0]) * ((len(times_s) - 1) / span / _rate(rate_per_s))
    return scaled


def stretched(requests: Requests) -> Callable[[float], Requests]:
    """Rate [1/s] -> the same requests, stretched in time to it."""
    return lambda rate_per_s: requests._replace(sent_s=at_rate(requests.sent_s, rate_per_s))


def spread_over_clock_step(rng: np.random.Generator, times_s: Floats) -> Floats:
    """
    Times spread over the step of the clock that stamped them, where most stamps are shared.

    A clock of three seconds makes crowds that never were (mooncake's traces); a few equal stamps are left alone.
    """
    import numpy as np

    distinct = np.unique(times_s)
    if len(distinct) * 2 > len(times_s) or len(distinct) < 2:
        return times_s
    step = float(np.diff(distinct).min())
    return np.asarray(np.sort(times_s + rng.random(len(times_s)) * step))


def draw_lengths(rng: np.random.Generator, n: int, *, quantiles: Quantiles) -> Ints:
    """
    Lengths by the inverse of their distribution: linear in the logarithm between quantiles. [tokens]

    Where the mean is published, the outermost piece is bent to reproduce it: tails are where means live.
    """
    import numpy as np

    shares, tokens = np.array(quantiles.shares), np.array(quantiles.tokens, float)
    u = rng.random(n)
    drawn = np.exp(np.interp(u, shares, np.log(np.maximum(tokens, 1.0))))
    if quantiles.mean is not None:
        drawn = _bent(u, (shares, np.maximum(tokens, 1.0)), quantiles.mean)
    return np.asarray(np.maximum(1, np.rint(drawn)), dtype=np.int64)


def _bent(u: Floats, curve: tuple[Floats, Floats], mean: float) -> Floats:
    """
    Lengths at shares `u` of a curve (shares, tokens) that is bent until its mean is the published one. [tokens]

    Values move within their pieces, never across a quantile: a mean that no bend reaches is met as nearly as can be.
    """
    import numpy as np

    shares, tokens = curve
    width = np.diff(shares)
    low, high = tokens[:-1], tokens[1:]

    def of(power: float) -> Any:
        # t^power within a piece: above 1 stays low for longer, below 1 rises at once.
        grid = (np.arange(32) + 0.5) / 32.0
        values = low[:, None] * (high / low)[:, None] ** (grid**power)
        ends = shares[0] * tokens[0] + (1.0 - shares[-1]) * tokens[-1]
        return (values.mean(axis=1) * width).sum() + ends

    least, most = 0.05, 20.0
    for _ in range(60):
        power = (least * most) ** 0.5
        least, most = (power, most) if of(power) > mean else (least, power)
    piece = np.clip(np.searchsorted(shares, u, side="right") - 1, 0, len(width) - 1)
    within = np.clip((u - shares[piece]) / width[piece], 0.0, 1.0)
    return np.asarray(low[piece] * (high[piece] / low[piece]) ** (within**power))


def spread_lengths(rng: np.random.Generator, n: int, *, nominal: float, spread: tuple[float, float]) -> Ints:
    """Lengths drawn evenly between fractions of nominal, as benchmarks do. [tokens]"""
    import numpy as np

    low, high = spread
    if not 0 < low <= high:
        raise BadRequest(f"spread {low:g}-{high:g} must rise and be above 0, as in 0.8-1.0")
    return np.maximum(1, np.rint(nominal * rng.uniform(low, high, n))).astype(np.int64)


def fixed_lengths(n: int, tokens: float) -> Ints:
    """n times the same length. [tokens]"""
    import numpy as np

    return np.full(n, max(1, round(tokens)), dtype=np.int64)


def _sums(gaps: Floats) -> Floats:
    import numpy as np

    return np.cumsum(gaps)


def _rate(rate_per_s: float) -> float:
    if not 0 < rate_per_s < MOST_PER_S:
        raise BadRequest(f"rate {rate_per_s:g}/s must be above 0 and below {MOST_PER_S:,.0f}/s")
    return rate_per_s
