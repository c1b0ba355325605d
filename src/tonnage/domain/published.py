"""
What others measured and published, short enough to travel with the package.

`Published` is a measured speed, and `Near` what of them is near a question. `QualityScore` is what lower precision, a
smaller model or adapters cost in the quality of output: what changes is always a ratio of two scores of one source and
one benchmark, and what nobody has published stays unknown: an absent `kept`, never 100 %.
"""

from __future__ import annotations

from tonnage.record import Record, SparseRecord


class Published(SparseRecord, kw_only=True):
    """One published measurement: what ran, and what was measured. Absent = not stated."""

    id: str
    """Row of measurements/ in the repository."""
    kind: str
    """Kind of case: serve, train, infer."""
    model: str
    family: str
    parameters: float
    active_parameters: float
    accelerator: str
    count: float
    """Accelerators of the measured system."""
    engine: str
    version: str = ""
    weights: str = ""
    """Number format of the weights; of training and networks, of the products."""
    layout: str = ""
    """Degrees of one replica: tp8, tp4·pp2; pools joined by a slash."""
    load: str = ""
    """clients, batch, burst, requests/s, saturated; of training pretrain, full, lora."""
    size: float | None = None
    """How many clients, sequences of the batch, or requests a second; of training the global batch."""
    isl: float | None = None
    """Of training the sequence length, of networks the resolution or length."""
    osl: float | None = None
    date: str = ""
    measured: dict[str, float] = {}
    """By the names of `tonnage accuracy`: ttft_ms, tpot_ms, output_tokens_per_s, step_time_s …"""
    source: str = ""


class Near(Record, kw_only=True):
    """A published result near a question: how far away, in what, and what it says."""

    distance: float
    """0 = the same question; 1 is about as far as another generation of accelerator or a factor of 5 in one size."""
    differs: tuple[str, ...]
    """What is not as asked, the largest first."""
    result: Published


class QualityScore(Record, kw_only=True):
    """One published score of a model in one variant: a weight format, a cache format, a way of fine-tuning."""

    model: str
    """As its publisher names it."""
    variant: str
    """bf16 (as released), a weight format, "kv fp8", or full, lora, dora after a fine-tune."""
    benchmark: str
    score: float
    """Of task benchmarks points of 100; where lower is better a perplexity, or its ratio to that of 16 bits."""
    higher_is_better: bool
    """False of perplexities alone."""
    source: str
    standard_error: float | None = None
    """In the unit of the score."""
    questions: int | None = None


class QualityChange(SparseRecord, kw_only=True):
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
    """Two standard errors of `kept`, where question counts or errors are published: the median of the pairs. [-]"""
    perplexity: float | None = None
    """Median rise of perplexity as a share of it before; no task score, so no floor is judged by it. [-]"""
    sources: tuple[str, ...] = ()
    told: str = ""
    """All of this in one line."""
    passes: bool | None = None
    """Of the quality floor that was asked for; absent = no floor was given."""


class Standing(SparseRecord, kw_only=True):
    """Where a model stands among others in a task's benchmark, in points of 100."""

    score: float
    """Its own published score; with `beside` that of the model just below it."""
    beside: str = ""
    """The best model with a score that it equals or beats in `benchmark`; empty = the score is its own."""
    benchmark: str = ""
    """Another one, in which it has `own` and `beside` has `theirs`."""
    own: float = 0.0
    theirs: float = 0.0

    @property
    def published(self) -> float | None:
        """Its own score; None where another's places it."""
        return None if self.beside else self.score
