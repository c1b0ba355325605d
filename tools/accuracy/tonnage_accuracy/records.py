"""What `tonnage accuracy` says: how far predictions were from what others measured, block by block."""

from __future__ import annotations

from tonnage.record import Record, SparseRecord

SCHEMA = "tonnage.accuracy/1"


class BlockErrors(Record, kw_only=True):
    """
    Errors of one quantity in one block (or in one group of it). Names are published and never change.

    Shares are fractions: 0.1 is 10 %. Absent = nothing to compare. For `fits` an error is 0 or 1, so `mean_ape` is
    the share of wrong verdicts.
    """

    block: str
    kind: str
    """Kind of case: serve, train, infer."""
    quantity: str
    rows: int
    """Scored rows, the unpredicted ones included."""
    predicted: int
    skipped: dict[str, int]
    """Rows without a prediction, by reason."""
    median_ape: float | None = None
    mean_ape: float | None = None
    p90_ape: float | None = None
    bias: float | None = None
    """Geometric mean of predicted over measured, less one."""
    coverage_90: float | None = None
    """Share of measured values inside their 90 % interval."""
    half_width: float | None = None
    """Median of (high - low) / (2 predicted)."""
    group: str | None = None
    """Value of the label that the results are split by."""
    below_knee: int | None = None
    """Predicted rows that the prediction puts below saturation; only latencies have it."""
    below_knee_median_ape: float | None = None


class Figure(SparseRecord, kw_only=True):
    """One figure of a group of rows beside what it is to be, as shares (0.1 is 10 %)."""

    group: str
    figure: str
    """What the value is: median error of the step, share covered."""
    rows: int
    """Numbers that it is taken over; 0 = nothing to compare."""
    value: float | None = None
    at_most: float | None = None
    at_least: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the value lies within its bounds; none without a value."""
        if self.value is None:
            return None
        return (self.at_most is None or self.value <= self.at_most) and (
            self.at_least is None or self.value >= self.at_least
        )


class GroupErrors(SparseRecord, kw_only=True):
    """Errors of one figure in one group of rows (a source, a model family), each row counted once. Shares."""

    figure: str
    """What was measured: TTFT, TPOT, output rate, training step …"""
    group: str
    rows: int
    """Predicted numbers."""
    median_ape: float
    mean_ape: float
    bias: float | None = None
    coverage_90: float | None = None
    half_width: float | None = None
    missing: int = 0
    """Numbers without a prediction."""
    unknown: str = ""
    """A setting that most of its rows leave open and that moves the figure."""


class Standing(SparseRecord, kw_only=True):
    """One figure over groups that weigh the same. Shares."""

    figure: str
    left_out: str
    """What every prediction was made without: source, family; empty = nothing, in sample."""
    groups: int
    rows: int
    mean: float
    """Mean over the groups of their median errors."""
    median: float
    """Median of the same."""
    worst: float
    worst_group: str
    over_40: int = 0
    """Groups whose median error is above 40 %."""
    over_40_unknown: int = 0
    """Of them, those that leave a setting open."""
    coverage_mean: float | None = None
    """Mean over groups of the share inside the 90 % interval."""
    coverage_least: float | None = None
    coverage_least_group: str = ""
    half_width: float | None = None
    """Median over groups of their median half-widths."""


class SetAside(Record, kw_only=True):
    """Rows that figures leave out, and those figures with them. In sample."""

    name: str
    rows: int
    predicted: int
    without: tuple[Standing, ...]
    with_them: tuple[Standing, ...]


class OutOfSample(SparseRecord, kw_only=True):
    """Errors on what no fit had seen, group by group and over groups; in sample beside them."""

    standings: tuple[Standing, ...] = ()
    sources: tuple[GroupErrors, ...] = ()
    """Each source left out of fits and widths."""
    families: tuple[GroupErrors, ...] = ()
    """Each model family left out of fits and widths."""
    unseen: tuple[Standing, ...] = ()
    """Of the tables that no fit has read, as shipped, by source."""


class Duel(SparseRecord, kw_only=True):
    """Another program beside ours on one figure of one source, on exactly the numbers that both predict. Medians."""

    figure: str
    source: str
    """`mean` = the mean over sources of their medians."""
    rows: int
    """Numbers that both predict."""
    theirs: float
    ours: float
    """As shipped."""
    ours_source: float | None = None
    """Without the source, out of fits."""
    ours_family: float | None = None
    """Without the model's family."""
    theirs_fitted: bool = False
    """Their own fits have read this source, as they say."""
    ours_fitted: bool = True
    """Our own fits have read it."""
    asked: int = 0
    """Numbers that they were asked for."""
    theirs_coverage: float | None = None
    """Share of measured values inside their 90 % intervals, where they gave any."""


class PeerErrors(Record, kw_only=True):
    """Another tool's errors beside ours, on exactly the rows that both predict."""

    engine: str
    model: str
    mode: str
    """agg (one pool) or disagg (prompt and decode apart); `all` stands for every one."""
    quantity: str
    rows: int
    ours_median: float
    theirs_median: float
    ours_mean: float
    theirs_mean: float
    left_out_median: float | None = None
    """Ours by fits that had not seen the row's model family."""


class Regret(SparseRecord, kw_only=True):
    """What picking by predictions reaches among measured configurations, under one limit on the time per token."""

    who: str = ""
    """Whose predictions; empty = ours."""
    limit_ms: float | None = None
    """Absent = over all limits."""
    by: str = ""
    """A column that is part of the question beside model, accelerator and lengths."""
    questions: int
    """Models, lengths and accelerators of which at least two configurations were measured and one keeps the limit."""
    choices: float
    """Median number of configurations that keep the limit."""
    median_reached: float
    """Measured tokens/s per accelerator of the pick over those of the truly best, at most 1."""
    mean_reached: float
    p10_reached: float
    """Nine picks in ten reach more."""
    median_strict: float
    """The median when a pick that misses its limit counts as nothing."""
    median_frontier: float
    """The same over the best at the time per token that the pick really has."""
    kept: float
    """Share of picks that keep the limit."""
    median_over: float | None = None
    """Of those that do not: time per token over the limit, less one."""
    random: float
    """What picking at random among those that keep the limit would reach, median over questions."""


class ConfidenceRegret(SparseRecord, kw_only=True):
    """What one rule reaches among measured configurations; a miss reaches and keeps nothing."""

    who: str = ""
    """Whose predictions; empty = ours."""
    rule: str
    """The least chance of keeping the limit, or the margin kept under it."""
    questions: int
    """Over all limits."""
    unanswered: int
    """Of them, those where no configuration passes the rule: the likeliest is picked, or none."""
    limits_ms: tuple[float, ...]
    reached: tuple[float, ...]
    """By limit: mean share of the best measured rate."""
    kept: tuple[float, ...]
    """By limit: share of questions whose pick keeps it."""


class Reliability(SparseRecord, kw_only=True):
    """Picks by the chance that was said of them, and what became of them."""

    who: str = ""
    low: float
    high: float
    plans: int
    said: float
    """Mean chance. [-]"""
    held: float
    """Share that kept the limit. [-]"""


class LogErrors(Record, kw_only=True):
    """An engine's request log, played again: predicted over measured, less one, at each percentile."""

    log: str
    model: str
    accelerator: str
    layout: str
    engine: str
    requests: int
    by: str
    """physics, or the log that a few numbers were fitted on."""
    ttft: tuple[float, ...]
    """At p50, p90, p95 and p99, as the others."""
    tpot: tuple[float, ...]
    e2e: tuple[float, ...]
    date: str
    """When it was predicted."""
    source: str


class PointsTaught(SparseRecord, kw_only=True):
    """Errors of published numbers of one quantity, without and with the other rows of their model on their stack."""

    left_out: str
    """With the number: row, run (one published configuration), stack, family, source."""
    quantity: str
    numbers: int
    before: float
    """Median error without points. [-]"""
    after: float
    taught: int
    """Numbers that points stay for."""
    runs: int
    """Runs of these."""
    taught_before: float | None = None
    """Median error of these; absent = there are none. [-]"""
    taught_after: float | None = None
    taught_before_p90: float | None = None
    taught_after_p90: float | None = None
    worse: float | None = None
    """Share of these runs whose median error grows by over two points. [-]"""


class SkippedRow(Record, kw_only=True):
    """A row that one sentence explains: why it was not predicted, or what crashed."""

    id: str
    reason: str


class AccuracyReport(Record, kw_only=True):
    """Everything one run of `tonnage accuracy` found."""

    blocks: tuple[BlockErrors, ...]
    rows: int
    """Usable rows."""
    predicted: int
    """Usable rows with at least one prediction."""
    unusable: int = 0
    """Rows passed over because their collector marked them as not comparable."""
    crashes: tuple[SkippedRow, ...] = ()
    """Rows whose prediction crashed: always our fault."""
    out_of_memory: int = 0
    """Rows of runs that did not fit; they have no speed, so they are counted here and nowhere else."""
    out_of_memory_found: int = 0
    """Of those, predicted not to fit."""
    regret: tuple[Regret, ...] = ()
    """Decisions taken by these predictions, where serving points were scored."""
    confidence: tuple[ConfidenceRegret, ...] = ()
    """The same decided by chance, at several confidences."""
    reliability: tuple[Reliability, ...] = ()
    training: tuple[Figure, ...] = ()
    """Groups of training rows beside what each is to reach, where training rows were scored."""
    networks: tuple[Figure, ...] = ()
    """Groups of networks and single streams beside what each is to reach."""
    logs: tuple[LogErrors, ...] = ()
    """Request logs of real engines, played again."""
    points: tuple[PointsTaught, ...] = ()
    """What published rows teach as points of their model on their stack, where all serving rows were scored."""
    out_of_sample: OutOfSample = OutOfSample()
    """Errors by group, each left out of what is fitted, where left-out predictions are kept."""
    predictor: str = ""
    """Another program whose answers are scored; empty = Tonnage's own."""
    duels: tuple[Duel, ...] = ()
    """That program beside ours, figure by figure and source by source."""
    schema: str = SCHEMA
    version: str = ""
