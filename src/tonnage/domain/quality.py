"""What lower precision, a smaller model or adapters cost in the quality of answers, as others have published it.

A score is a fact with a source; what changes is always a ratio of two scores of one source and one benchmark. What
nobody has published stays unknown: an absent `kept`, never 100 %.
"""

from __future__ import annotations

import msgspec

__all__ = ["QualityChange", "QualityScore"]


class QualityScore(msgspec.Struct, frozen=True, kw_only=True):
    """One published score of a model in one variant: a weight format, a cache format, a way of fine-tuning."""

    model: str
    """As its publisher names it."""
    variant: str
    """bf16 (as released), a weight format, "kv fp8", or full, lora, dora after a fine-tune."""
    benchmark: str
    score: float
    higher_is_better: bool
    source: str
    standard_error: float | None = None
    """In points of the score."""
    questions: int | None = None


class QualityChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much of its score a model keeps after a change: the median of what was published, and its spread."""

    what: str
    """fp8 weights, fp8 cache, meta-llama/Llama-3.2-3B instead, lora instead of full."""
    variant: str = ""
    """The format, model or method that was changed to."""
    kept: float | None = None
    """Median share of the score before; absent = not published, which is not the same as no loss. [-]"""
    low: float | None = None
    """Least of the published ones. [-]"""
    high: float | None = None
    worst: str = ""
    """The benchmark that lost most: what to look at first."""
    evaluations: int = 0
    """Pairs of scores that these are made from."""
    on: str = ""
    """Whose scores: this model, another tuning of it, other models; empty = nobody's."""
    noise: float | None = None
    """Two standard errors of such a difference, where question counts or errors are published. [-]"""
    perplexity: float | None = None
    """Median rise of perplexity; no task score, so no floor is judged by it. [-]"""
    sources: tuple[str, ...] = ()
    told: str = ""
    """All of this in one line."""
    passes: bool | None = None
    """Of the quality floor that was asked for; absent = no floor was given."""
