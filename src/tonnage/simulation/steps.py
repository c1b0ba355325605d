"""
(model, accelerator, layout, engine) -> seconds of its steps, as a table, and between the shapes that it holds.

`step_grid` opens both kinds of step once and `step_table` prices them, so that a simulation of thousands of steps
costs a few dozen work lists: what sees all rows together (products, norms, collectives) depends on rows alone, decode
attention is affine in the context for each batch, prefill attention depends on the chunk and on what is cached before.
Rows are read in logarithms, and times are proportional beyond the last shape, where an engine runs several steps.

Times are those of one replica. Pipeline stages overlap only between micro-batches: a step over p stages carries 1/p
of the sequences, and p of them are in flight.
"""

from __future__ import annotations

from bisect import bisect_left
from math import exp, log, sqrt
from typing import NamedTuple

from tonnage.domain.efficiency import Rung
from tonnage.domain.engine_spec import Overheads, captured_batch
from tonnage.domain.layout import Layout
from tonnage.physics.efficiency import weakest_rung
from tonnage.physics.known import Known
from tonnage.record import Record
from tonnage.simulation.drafting import DraftParts, draft_parts, drafting_s
from tonnage.simulation.step_parts import (
    KnownParts,
    Parts,
    Placement,
    Speculation,
    busy_s,
    decode_attention_work,
    has_states,
    launched_apart,
    prompt_attention_work,
    prompt_launch_s,
    prompt_rows_work,
)


def value_at(xs: tuple[float, ...], ys: tuple[float, ...], *, x: float) -> float:
    """Log-log interpolation, flat below the first point and proportional above the last."""
    if x <= xs[0]:
        return ys[0]
    if x >= xs[-1]:
        return ys[-1] * x / xs[-1]
    i = bisect_left(xs, x)
    if xs[i] == x:
        return ys[i]
    share = log(x / xs[i - 1]) / log(xs[i] / xs[i - 1])
    low, high = ys[i - 1], ys[i]
    if low <= 0.0 or high <= 0.0:
        return low + share * (high - low)
    return exp(log(low) + share * log(high / low))


def affine_at(xs: tuple[float, ...], ys: tuple[tuple[float, float], ...], *, x: float) -> tuple[float, float]:
    """Linear interpolation of (fixed, slope), flat below the first point and proportional above the last."""
    if x <= xs[0]:
        return ys[0]
    if x >= xs[-1]:
        over = x / xs[-1]
        return ys[-1][0] * over, ys[-1][1] * over
    i = bisect_left(xs, x)
    share = (x - xs[i - 1]) / (xs[i] - xs[i - 1])
    (f0, s0), (f1, s1) = ys[i - 1], ys[i]
    return f0 + share * (f1 - f0), s0 + share * (s1 - s0)


class MixedStep(NamedTuple):
    """A step that carries prompts: tokens of so many of them, beside sequences that decode, on the replica."""

    prompt_tokens: float  # of all prompts in the step together
    prompts: float  # 0 = a decode step
    sequences: float = 0.0  # that decode
    context: float = 0.0  # of each of them, on average [tokens]
    cached: float = 0.0  # before the step's tokens of each prompt, on average [tokens]
    dealt: bool = False  # prompts come from a queue and fall evenly on data-parallel ranks


class RankRows(NamedTuple):
    """What one data-parallel rank gets of a step that carries prompts."""

    tokens: float
    """Prompt tokens."""
    prompts: float
    decodes: float
    chunk: float
    """Tokens of each prompt in this step."""

    @property
    def rows(self) -> float:
        """Rows that pass the layers. [tokens]"""
        return max(1.0, self.tokens + self.decodes)

    @property
    def emitted(self) -> float:
        """Rows that pass the head. [tokens]"""
        return max(1.0, self.decodes + self.prompts)


class StepTable(Record, kw_only=True):
    """Step times of one replica at a few shapes, read by interpolation."""

    rows: tuple[float, ...]
    """Increasing rows of a step, per rank. [tokens]"""
    dense_s: tuple[float, ...]
    """Everything but attention and head, at those rows, in a decode step. [s]"""
    mixed_s: tuple[float, ...]
    """The same in a step that carries prompts, and no less than its host needs to launch it. [s]"""
    head_s: tuple[float, ...]
    """The head at those rows. [s]"""
    batches: tuple[float, ...]
    """Increasing decode batches, per rank. [requests]"""
    attention_s: tuple[tuple[float, float], ...]
    """Decode attention at those batches: at no context, and added per token of context. [s, s/token]"""
    chunk_s: tuple[float, float, float]
    """Prefill attention of q tokens after c: fixed, per q, and per q (c + q/2). [s, s/token, s/token^2]"""
    overheads: Overheads
    layout: Layout
    graphs: bool
    rung: Rung
    hidden_s: float = 0.0
    """Host work of a step that overlaps with the accelerator: no step is shorter. [s]"""
    layers: float = 1.0
    speculation: Speculation | None = None
    drafting_s: tuple[float, float] | None = None
    """All passes of a draft of its own in a step, and per sequence on a rank; none: own layers draft. [s, s]"""
    mixed_attention: float = 1.0
    """Decode attention per token of context beside prompts, over the same without. [-]"""
    beams: float = 1.0
    """Rows that each sequence decodes in a step: the hypotheses of a beam search."""
    beside_s: tuple[float, ...] = ()
    """Already taken from `dense_s`: what two half batches hide of the exchange between nodes. [s]"""

    @property
    def request_s(self) -> float:
        """What the engine adds to the first token of a request. [s]"""
        return self.overheads.request_s

    def named(self, name: str, seconds: float, *, how: str = "") -> float:
        """The same seconds; where they are explained, under a name. [s]"""
        return seconds

    def decodes_of(self, sequences: float) -> float:
        """Rows that so many sequences on the replica decode on one rank and stage. [tokens]"""
        return sequences * self.beams / (self.layout.dp * self.layout.pp)

    def hidden_exchange_s(self, rows: float) -> float:
        """Of a decode step of so many rows: exchange that runs beside products, less what halving those costs. [s]"""
        return value_at(self.rows, self.beside_s, x=rows) if self.beside_s else 0.0

    def decode_s(self, sequences: float, context: float) -> float:
        """One token of each of `sequences` on the replica with `context` tokens: a step, or its share of one. [s]"""
        step = self.verify_s(sequences, context)
        if self.speculation is None:
            return step
        return (step + self.drafts_s(sequences)) / self.speculation.gained

    def verify_s(self, sequences: float, context: float) -> float:
        """A decode step, drafts not counted. [s]"""
        busy = self.decode_busy_s(sequences, context, padded=self.graphs)
        return self.with_host(busy + self.bubble_s(busy), sequences)

    def drafts_s(self, sequences: float) -> float:
        """Drafting by a draft of its own, or by one layer and the head per token (multi-token prediction). [s]"""
        per_rank = max(1.0, sequences / (self.layout.dp * self.layout.pp))
        if self.drafting_s is not None:
            return self.drafting_s[0] + self.drafting_s[1] * per_rank
        one = self.layers_s(per_rank) / self.layers + self.logits_s(per_rank)
        return one * (self.speculation.tokens if self.speculation else 0.0)

    def mixed_step_s(self, step: MixedStep) -> float:
        """One step with tokens of prompts beside decodes, on the replica. [s]"""
        mine = self.fullest_rank(step)
        busy = self.layers_s(mine.rows, prompts=True) + self.logits_s(mine.emitted)
        if mine.decodes:
            alone = self.decode_busy_s(step.sequences, step.context, padded=False)
            busy += self.attended_s(max(1.0, mine.decodes), step.context, beside=self.mixed_attention)
            busy += self.bubble_s(alone)
        return self.with_host(busy + self.chunks_s(mine, step.cached), step.sequences, prompts=mine.prompts)

    def seconds_of(self, step: MixedStep) -> float:
        """A step that may carry prompts. [s]"""
        return self.mixed_step_s(step) if step.prompts else self.decode_s(step.sequences, step.context)

    def fullest_rank(self, step: MixedStep) -> RankRows:
        """
        What the data-parallel rank with most prompt tokens gets of a step: the others wait for it.

        Prompts fall on ranks as they come, or are `dealt` out evenly from a queue.
        """
        ranks, stages = self.layout.dp, self.layout.pp
        each = step.prompts / stages
        share = max(1.0 / ranks, min(1.0, 1.0 / each)) if step.dealt else _fullest_share(each, ranks)
        share /= stages
        return RankRows(
            step.prompt_tokens * share,
            step.prompts * share,
            self.decodes_of(step.sequences),
            step.prompt_tokens / max(step.prompts, 1.0),
        )

    def with_host(self, busy: float, sequences: float, *, prompts: float = 0.0) -> float:
        """A step of so many sequences on the replica and prompts on a rank, from the accelerator's part of it. [s]"""
        o = self.overheads
        return max(busy, self.hidden_s) + o.step_s + o.sequence_s * sequences / self.layout.dp + o.prompt_s * prompts

    def decode_busy_s(self, sequences: float, context: float, *, padded: bool) -> float:
        """The accelerator's part of a decode step; `padded` to the size of a captured graph. [s]"""
        per_rank = max(1.0, self.decodes_of(sequences))
        rows = captured_batch(per_rank) if padded else per_rank
        verified = 1.0 + self.speculation.tokens if self.speculation else 1.0
        busy = self.layers_s(rows * verified) + self.logits_s(per_rank * verified)
        return busy + self.attended_s(per_rank, context)

    def layers_s(self, rows: float, *, prompts: bool = False) -> float:
        """Everything but attention and head, on so many rows of a rank. [s]"""
        return value_at(self.rows, self.mixed_s if prompts else self.dense_s, x=rows)

    def logits_s(self, rows: float) -> float:
        """The head on so many rows. [s]"""
        return value_at(self.rows, self.head_s, x=rows)

    def attended_s(self, batch: float, context: float, *, beside: float = 1.0) -> float:
        """Decode attention of a rank's batch; `beside` is the factor on each token of context. [s]"""
        fixed, slope = affine_at(self.batches, self.attention_s, x=batch)
        return fixed + slope * context * beside

    def chunks_s(self, mine: RankRows, cached: float) -> float:
        """Attention of a rank's prompts to themselves and to what is cached before them. [s]"""
        fixed, linear, square = self.chunk_s
        return fixed + mine.tokens * (linear + square * (cached + mine.chunk / 2.0))

    def bubble_s(self, busy: float) -> float:
        """What pipeline stages lose waiting for each other: micro-batches of decodes are never equal. [s]"""
        return self.overheads.bubble * (self.layout.pp - 1) * busy


def _fullest_share(prompts: float, ranks: int) -> float:
    """
    Share of a step's prompt tokens that the fullest data-parallel rank gets.

    Prompts are not divided: m of them on g ranks leave the fullest with about m/g + sqrt(2 ln(g) m/g), at least
    one and at most all.
    """
    if ranks == 1 or prompts <= 0.0:
        return 1.0
    mean = prompts / ranks
    fullest = mean + sqrt(2.0 * log(ranks) * mean)
    return min(1.0, max(fullest, min(1.0, prompts)) / prompts)


class StepGrid(Record, kw_only=True):
    """Parts of steps at a few shapes: what a table is priced from, whatever the engine adds."""

    rows: tuple[float, ...]
    dense: tuple[Parts, ...]
    mixed: tuple[Parts, ...]
    head: tuple[Parts, ...]
    batches: tuple[float, ...]
    contexts: tuple[float, float]  # a short one and the longest of interest
    attention: tuple[tuple[Parts, Parts], ...]  # of decodes at each batch, at both contexts
    chunks: tuple[float, float]  # tokens of a prompt in one step: a quarter of the most, and the most
    prefill: tuple[Parts, Parts]  # attention of prompts, of both chunks
    late: tuple[float, Parts] | None = None
    """Tokens before the last chunk of a prompt, and that chunk's attention, where some layers see a window of them."""
    placement: Placement
    launches: float
    """Kernels of a decode step when nothing groups them: each expert by itself, in an eager engine each matrix."""
    drafts: tuple[DraftParts, ...] = ()

    @property
    def prompt_kernels(self) -> float:
        """Of the widest step that carries prompts."""
        return self.mixed[-1].kernels + self.head[-1].kernels + self.prefill[-1].kernels


def step_grid(
    placement: Placement,
    *,
    batch: float,
    context: float,
    chunk: float,
    prompt: float,
    exact: float = 1.0,
    known: Known | None = None,
) -> StepGrid:
    """
    Parts of steps of up to `batch` sequences and chunks of up to `chunk` prompt tokens, on the replica.

    `context` is the longest of interest, `prompt` the mean prompt length: attention is opened up at
    fractions of them. Steps of `exact` rows are opened at that very number, whatever the others are. [tokens]

    `known` keeps the parts of a placement, whatever its drafts, which are equal in many grids.
    """
    ranks = placement.layout.dp * placement.layout.pp
    most, widest = max(1.0, batch * placement.beams / ranks), max(1.0, chunk / ranks)
    drafted = 1.0 + placement.speculation.tokens if placement.speculation else 1.0
    rows = tuple(sorted({*_ladder_of_rows(most * drafted, widest), min(widest, max(1.0, exact))}))
    at = KnownParts(placement, {} if known is None else known)
    dense = tuple(map(at.rows, rows))
    states = has_states(placement.model)
    batches = tuple(sorted({1.0, max(1.0, most / 8.0), max(1.0, most / 2.0), most}))
    near, far = max(1.0, context / 4.0), max(2.0, context)
    long = max(2.0, min(widest, prompt))
    chunks = (max(1.0, long / 4.0), long)
    return StepGrid(
        rows=rows,
        dense=tuple(parts for parts, _ in dense),
        mixed=tuple(at.of(prompt_rows_work, n) for n in rows) if states else tuple(parts for parts, _ in dense),
        head=tuple(head for _, head in dense),
        batches=batches,
        contexts=(near, far),
        attention=tuple(
            (at.of(decode_attention_work, n, context=near), at.of(decode_attention_work, n, context=far))
            for n in batches
        ),
        chunks=chunks,
        prefill=(
            at.of(prompt_attention_work, chunks[0], cached=0.0),
            at.of(prompt_attention_work, chunks[1], cached=0.0),
        ),
        late=at.last_chunk(prompt - long, chunk=long),
        placement=placement,
        launches=dense[0][0].kernels + dense[0][1].kernels + launched_apart(placement),
        drafts=draft_parts(placement, batches, context=near),
    )


def step_table(grid: StepGrid, overheads: Overheads) -> StepTable:
    """The step times of a replica: a grid of parts priced under an engine's overheads."""
    o, at = overheads, grid.placement
    launched = prompt_launch_s(at, o, kernels=grid.prompt_kernels)
    dense, mixed = (
        tuple(busy_s(parts, o, prompts=prompts) for parts in pieces)
        for prompts, pieces in ((False, grid.dense), (True, grid.mixed))
    )
    hidden = _overlap_s(grid.rows, dense, grid.dense, o)
    hidden_with_prompts = _overlap_s(grid.rows, mixed, grid.mixed, o)
    return StepTable(
        rows=grid.rows,
        dense_s=tuple(taken - less for taken, less in zip(dense, hidden, strict=True)),
        mixed_s=tuple(max(launched, taken - less) for taken, less in zip(mixed, hidden_with_prompts, strict=True)),
        beside_s=hidden if any(hidden) else (),
        head_s=tuple(busy_s(parts, o, prompts=False) for parts in grid.head),
        batches=grid.batches,
        attention_s=tuple(_line(grid.contexts, low, high, o) for low, high in grid.attention),
        chunk_s=_with_images(_curve(grid.chunks, grid.prefill, o, late=grid.late), at.encoder_s),
        overheads=o,
        layout=at.layout,
        graphs=at.graphs,
        hidden_s=o.hidden_s + o.launch_s * grid.launches,
        layers=float(at.model.num_layers or 1),
        speculation=at.speculation,
        drafting_s=drafting_s(grid.drafts, o, speculation=at.speculation),
        mixed_attention=at.mixed_attention,
        beams=at.beams,
        rung=weakest_rung((grid.dense[0].rung, grid.dense[-1].rung, grid.prefill[1].rung)),
    )


def _line(contexts: tuple[float, float], low: Parts, high: Parts, overheads: Overheads) -> tuple[float, float]:
    """Fixed time and time per token of context of decode attention."""
    near, far = contexts
    first, second = busy_s(low, overheads, prompts=False), busy_s(high, overheads, prompts=False)
    slope = max(0.0, (second - first) / (far - near))
    return max(0.0, first - slope * near), slope


def _curve(
    chunks: tuple[float, float],
    prefill: tuple[Parts, Parts],
    overheads: Overheads,
    *,
    late: tuple[float, Parts] | None = None,
) -> tuple[float, float, float]:
    """
    Prefill attention as fixed + linear q + square q (c + q/2): launch and square where that fits, else linear.

    Layers with a window stop growing with what is cached: there the square is what a `late` chunk takes longer than the
    first, and the rest of the first is linear.
    """
    q0, q1 = chunks
    t0, t1 = (busy_s(parts, overheads, prompts=True) for parts in prefill)
    if late is not None:
        cached, parts = late
        square = max(0.0, (busy_s(parts, overheads, prompts=True) - t1) / (q1 * cached))
        return 0.0, max(0.0, t1 / q1 - square * q1 / 2.0), square
    square = max(0.0, 2.0 * (t1 - t0) / (q1 * q1 - q0 * q0)) if q1 > q0 else 0.0
    fixed = t0 - square * q0 * q0 / 2.0
    if fixed >= 0.0:
        return fixed, 0.0, square
    square = max(0.0, 2.0 * (t1 / q1 - t0 / q0) / (q1 - q0))
    return 0.0, max(0.0, t1 / q1 - square * q1 / 2.0), square


def _with_images(chunk_s: tuple[float, float, float], encoder_s: tuple[float, float]) -> tuple[float, float, float]:
    """A vision encoder runs before the step that carries an image's tokens, and everybody in the step waits."""
    fixed, linear, square = chunk_s
    return fixed + encoder_s[0], linear + encoder_s[1], square


def _overlap_s(
    rows: tuple[float, ...], taken: tuple[float, ...], parts: tuple[Parts, ...], overheads: Overheads
) -> tuple[float, ...]:
    """
    What a step gains where half of its rows compute while the others are exchanged between nodes; 0 where nothing. [s]

    The shorter of both runs beside the longer. Products of half as many rows take more than half as long, for they read
    the same weights: an engine that gains nothing runs whole batches.
    """
    exchanged = tuple(each.exchange * overheads.collective for each in parts)
    if not any(exchanged):
        return tuple(0.0 for _ in rows)
    alone = tuple(whole - sent for whole, sent in zip(taken, exchanged, strict=True))
    halves = tuple(2.0 * value_at(rows, alone, x=max(1.0, each / 2.0)) for each in rows)
    return tuple(
        max(0.0, whole + sent - max(two, sent)) for whole, two, sent in zip(alone, halves, exchanged, strict=True)
    )


def _ladder_of_rows(most: float, widest: float) -> tuple[float, ...]:
    """Rows worth tabulating: the batch and its padded size, the widest mixed step, and powers of four between."""
    top = most + widest
    points = {1.0, captured_batch(most), most, top, widest}
    value = 4.0
    while value < top:
        points.add(value)
        value *= 4.0
    return tuple(sorted(points))
