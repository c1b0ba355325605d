"""
How do prompts and answers of a traffic spread? A few classes of lengths, where means and percentiles are known.

A step shared with a long prompt, a wait behind one and an answer of few tokens are what means leave out. Classes
are the pieces between published quantiles, each at one point of its piece, so that the mean is the published one.
Of lengths with a 95th percentile alone the logarithm is taken as normal; without it all are alike, as in a simulation.

What prompts add to steps is b n + d n (c + n / 2) for n tokens behind c in a cache. b and d follow from two prompts
whose time is known, the mean one and a long one: products grow with the tokens, attention with what stands before each.
Over classes of lengths this gives the mean, how uneven prompts are, and what a step with a piece of one adds where a
prompt is longer than a step's budget.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from tonnage.catalog.traffic import profile, session_profile
from tonnage.domain.requests.common import Lengths
from tonnage.simulation.capacity import quantile_factor

Quantiles = Sequence[tuple[float, float]]
Classes = tuple[tuple[float, float], ...]
NORMAL: Final = ((0.05, -1.645), (0.25, -0.674), (0.5, 0.0), (0.75, 0.674), (0.95, 1.645), (0.99, 2.326))
"""Quantiles of the normal distribution."""
PART: Final = 0.15
"""Of the requests that a class of answers has at least where every load asks for all. [-]"""
SAME: Final = 1.001
"""A percentile over its mean up to which lengths count as alike, or as another's. [-]"""
LEAST_PREFILL: Final = 0.05
"""Of a prompt alone, what it takes from decodes at least, however well it rides on their steps. [-]"""


def prompt_classes(lengths: Lengths) -> tuple[tuple[float, float, float], ...]:
    """Share of the requests, tokens to compute and tokens found in a cache; empty = all alike. [-, tokens, tokens]"""
    if lengths.prompts:
        return lengths.prompts
    left = min(1.0, (lengths.computed_tokens or lengths.prompt_tokens) / lengths.prompt_tokens)
    found = _classes(lengths.profile, False, lengths.prompt_tokens, lengths.prompt_p95)
    return tuple((share, tokens * left, tokens * (1.0 - left)) for share, tokens in found)


def answer_classes(lengths: Lengths) -> Classes:
    """Share of the requests, and tokens of their answers; empty = all alike. [-, tokens]"""
    return _classes(lengths.profile, True, lengths.output_tokens, lengths.output_p95)


@lru_cache(maxsize=64)
def later_tokens(lengths: Lengths) -> Classes:
    """
    Share of the requests, and tokens of their answers after the first; empty = all alike. [-, tokens]

    Small classes are put together until each has at least `PART` of the requests.
    """
    found: list[tuple[float, float]] = []
    share = tokens = 0.0
    for part, whole in answer_classes(lengths):
        share, tokens = share + part, tokens + part * max(1.0, whole - 1.0)
        if share >= PART - 1e-9:
            found.append((share, tokens / share))
            share = tokens = 0.0
    if share and found:
        (before, mean), found = found[-1], found[:-1]
        found.append((before + share, (before * mean + tokens) / (before + share)))
    return tuple(found)


def lasting_answer(lengths: Lengths) -> float:
    """The mean answer of the requests that run at a time, among which long ones are more frequent. [tokens]"""
    found = answer_classes(lengths)
    if not found:
        return lengths.output_tokens
    return sum(share * n * n for share, n in found) / sum(share * n for share, n in found)


def long_answer(lengths: Lengths) -> float:
    """The 95th percentile of answers: by their classes, else as stated, else the mean. [tokens]"""
    passed, found = 0.0, answer_classes(lengths)
    for (share, tokens), (_, more) in itertools.pairwise(found):
        passed += share
        if passed > 0.95 - 1e-9:
            # The end of a class lies between what stands for it and for the next.
            return math.sqrt(tokens * more)
    return lengths.output_p95 or lengths.output_tokens


@lru_cache(maxsize=256)
def _classes(name: str | None, answers: bool, mean: float, p95: float | None) -> Classes:
    """
    Classes of prompts, or of answers, with that mean; empty = all alike.

    By the published quantiles of the traffic profile of that name, scaled; where it has none, or the percentile is not
    the profile's own, by a log-normal through mean and 95th percentile; empty without a percentile above the mean.
    """
    quantiles: Quantiles = ()
    if name is not None:
        known = profile(name)
        quantiles = known.output_quantiles if answers else known.prompt_quantiles
        usual, tail = (
            (known.lengths.output_tokens, known.lengths.output_p95)
            if answers
            else (known.lengths.prompt_tokens, known.lengths.prompt_p95)
        )
        sessions = session_profile(name)
        if not quantiles and answers and sessions is not None:
            quantiles = sessions.classes[0].output_tokens
        elif p95 is not None and p95 != tail:
            quantiles = ()  # a part of the traffic
        quantiles = [(share, tokens * mean / usual) for share, tokens in quantiles]
    if not quantiles and p95 is not None and p95 > mean * SAME:
        z = quantile_factor(95.0)
        sigma = z - math.sqrt(max(0.0, z * z - 2.0 * math.log(p95 / mean)))
        quantiles = [(share, mean * math.exp(sigma * at - sigma * sigma / 2.0)) for share, at in NORMAL]
    return classes_of(quantiles, mean=mean) if quantiles else ()


def classes_of(quantiles: Quantiles, *, mean: float) -> Classes:
    """
    The pieces between quantiles: share of the draws in each, and one value that stands for them.

    Each value lies at the same part of its piece, so that their mean is the stated one as nearly as they can.

    Examples
    --------
    >>> classes_of(((0.0, 1.0), (0.5, 2.0), (1.0, 4.0)), mean=2.0)
    ((0.5, 1.3333333333333333), (0.5, 2.6666666666666665))
    """
    pieces = [(quantiles[0][0], quantiles[0][1], quantiles[0][1])]
    pieces += [(b[0] - a[0], a[1], b[1]) for a, b in itertools.pairwise(quantiles)]
    pieces.append((1.0 - quantiles[-1][0], quantiles[-1][1], quantiles[-1][1]))
    least = sum(share * low for share, low, _ in pieces)
    range_ = sum(share * (high - low) for share, low, high in pieces)
    at = min(1.0, max(0.0, (mean - least) / range_)) if range_ > 0.0 else 0.0
    return tuple((share, low + at * (high - low)) for share, low, high in pieces if share > 0.0)


class Beside(NamedTuple):
    """What prompts of mean length add to steps of decodes. [s]"""

    first_s: float
    """One prompt alone."""
    each_s: float
    """Each further prompt."""


class PromptWork(NamedTuple):
    """What prompts of all lengths add to a step of decodes, on average: as in `Beside`. [s]"""

    first_s: float
    each_s: float
    uneven: float = 0.0
    """Variance of a prompt's work over the square of its mean. [-]"""
    piece_s: float = 0.0
    """What a step with a piece of a prompt adds, each weighted with its time. [s]"""


def prompt_work(lengths: Lengths, mean: Beside, *, alone: float, tail: float, budget: float) -> PromptWork:
    """
    What prompts of a traffic add to steps.

    Parameters
    ----------
    lengths : Lengths
    mean : Beside
        Of the mean prompt.
    alone, tail : number
        The mean prompt alone, and that of the 95th percentile. [s]
    budget : number
        Prompt tokens of a step; infinite where prompts have steps of their own, whole. [tokens]
    """
    classes, whole = prompt_classes(lengths), lengths.prompt_tokens
    tokens = min(whole, lengths.computed_tokens or whole)
    if not classes:
        return PromptWork(mean.first_s, mean.each_s, 0.0, mean.first_s / max(1.0, tokens / budget))
    long = lengths.computed_p95 or lengths.prompt_p95 or whole
    before = max(0.0, (lengths.prompt_p95 or whole) - long)
    # What a step reads of weights is read without prompts, too.
    shared = (alone - mean.each_s) / max(1.0, tokens / budget)
    known = (tokens, whole - tokens, mean.each_s)
    token_s, pair_s = _fitted(known, (long, before, max(mean.each_s, tail - shared * max(1.0, long / budget))))
    work = [(share, token_s * n + pair_s * n * (c + n / 2.0), max(1.0, n / budget)) for share, n, c in classes]
    each = sum(share * one for share, one, _ in work)
    square = sum(share * one * one for share, one, _ in work)
    free = mean.each_s - mean.first_s
    # Of what one adds alone: less than its work where that rides for free, no less than its launch where that waits.
    least = LEAST_PREFILL * alone / mean.each_s
    firsts = [
        (share, max(one - free, least * one) if free > 0.0 else max(one, mean.first_s), steps)
        for share, one, steps in work
    ]
    first = sum(share * one for share, one, _ in firsts)
    piece = sum(share * one * one / steps for share, one, steps in firsts) / first
    return PromptWork(first, each, square / (each * each) - 1.0, piece)


def _fitted(one: tuple[float, float, float], other: tuple[float, float, float]) -> tuple[float, float]:
    """
    Seconds per token, and per token and token before it, from two prompts: tokens, those in a cache, seconds.

    Neither comes out negative: where one would, or the two prompts do not tell them apart, all of the first prompt's
    time goes to its tokens, or all to its pairs.
    """
    (n, c, s), (m, k, t) = one, other
    pairs, more = n * (c + n / 2.0), m * (k + m / 2.0)
    apart = n * more - m * pairs
    if apart <= 0.0:
        return s / n, 0.0
    token_s, pair_s = (s * more - t * pairs) / apart, (n * t - m * s) / apart
    if pair_s < 0.0:
        return s / n, 0.0
    return (token_s, pair_s) if token_s >= 0.0 else (0.0, s / pairs)
