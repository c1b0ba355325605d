"""
What do prompts of different lengths add to steps? Work is b n + d n (c + n / 2) for n tokens behind c in a cache.

b and d follow from two prompts whose time is known, the mean one and a long one: products grow with the tokens,
attention with what stands before each. Over classes of lengths this gives the mean, how uneven prompts are, and what a
step with a piece of one adds where a prompt is longer than a step's budget.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tonnage.domain.requests.common import Lengths
from tonnage.planning.length_spread import prompt_classes

__all__ = ["LEAST_PREFILL", "Beside", "PromptWork", "prompt_work"]

LEAST_PREFILL: Final = 0.05
"""Of a prompt alone, what it takes from decodes at least, however well it rides on their steps. [-]"""


class Beside(NamedTuple):
    """What mean prompts add to a decode step: `first_s` the least, then `each_s` of every one, less `free_s`."""

    first_s: float
    each_s: float
    free_s: float
    free_rows: float
    """Decodes of a rank's step that use up what is free. [requests]"""


class PromptWork(NamedTuple):
    """The same over prompts of all lengths."""

    first_s: float
    each_s: float
    free_s: float
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
        return PromptWork(mean.first_s, mean.each_s, mean.free_s, 0.0, mean.first_s / max(1.0, tokens / budget))
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
    left = max(0.0, each - first) if mean.free_s else 0.0
    return PromptWork(first, each, left, square / (each * each) - 1.0, piece)


def _fitted(one: tuple[float, float, float], other: tuple[float, float, float]) -> tuple[float, float]:
    """Seconds per token, and per token and token before it, from two prompts: tokens, those in a cache, seconds."""
    (n, c, s), (m, k, t) = one, other
    pairs, more = n * (c + n / 2.0), m * (k + m / 2.0)
    apart = n * more - m * pairs
    if apart <= 0.0:
        return s / n, 0.0
    token_s, pair_s = (s * more - t * pairs) / apart, (n * t - m * s) / apart
    if pair_s < 0.0:
        return s / n, 0.0
    return (token_s, pair_s) if token_s >= 0.0 else (0.0, s / pairs)
