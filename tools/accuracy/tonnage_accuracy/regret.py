"""
Would following a prediction have been a good decision? Picks among measured configurations, judged by what they reach.

A question is a model, its lengths and an accelerator, of which several configurations were measured, and a limit on
the time per output token. The pick is the configuration with the most output tokens per second and accelerator among
those *predicted* to keep the limit. Truth has its own best among those *measured* to keep it. Errors that all
configurations share cost nothing here, and small errors at a limit may cost much, so that this says something else
than a median error.

A pick that turns out to miss its limit is not forgiven: it is counted, and a second share compares it with the best
measured configuration at the TPOT that it really has.

`confidence_regrets` asks the same of a plan's own rule: the best among those whose *chance* of keeping the limit is at
least a confidence, else the likeliest, a miss counted as nothing; beside it the rules that were tried before: no answer
where none has the confidence, and a margin under the limit. `reliability` holds the chances against what happened.

What was not predicted is no option, and a question without a predicted configuration is not asked; the best measured
may be one that was not predicted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from tonnage.catalog.spreads import chance_of, end_of
from tonnage.core.ranking import unlikely
from tonnage_accuracy.grouping import group_by
from tonnage_accuracy.metrics import quantile
from tonnage_accuracy.records import ConfidenceRegret, Regret, Reliability
from tonnage_accuracy.rows import Row, number, text
from tonnage_accuracy.scoring import Score

LIMITS_MS: Final = (10.0, 20.0, 35.0, 50.0)
"""Times per output token that are asked for. [ms]"""
CONFIDENCES: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
DEFAULT: Final = 0.8
MARGINS: Final = (0.0, 0.03, 0.06, 0.1, 0.15)
"""Shares of the limit that a pick keeps below it: the rule that was tried before. [-]"""
BINS: Final = (0.5, 0.6, 0.7, 0.75, 0.85, 0.95, 1.0)
"""Chances of picks that are counted together."""
SAME: Final = 1e-9

Latencies = Callable[[str], tuple[float, float] | None]
"""Row id -> TTFT and TPOT [ms]; none where nothing was predicted."""
Widths = Callable[[str], float | None]
"""Row id -> the 90 % factor of its TPOT; none where there is no interval. [-]"""


class Point(NamedTuple):
    """One measured configuration: what it does, and what was said of it."""

    tpot_ms: float
    rate: float
    """Output tokens per second and accelerator, measured."""
    said_tpot_ms: float | None
    said_rate: float
    factor: float | None = None
    """The 90 % factor of what was said."""
    engine: str = ""

    def ease(self, limit_ms: float) -> float:
        """How far the error may go until a limit is missed, as `chance_of` takes it."""
        if self.said_tpot_ms is None:
            return -math.inf
        room = math.log(limit_ms / self.said_tpot_ms)
        return end_of(room >= 0.0) if self.factor is None or self.factor <= 1.0 else room / math.log(self.factor)

    def chance(self, limit_ms: float) -> float:
        """Of keeping a limit, as predicted. [-]"""
        return chance_of(self.ease(limit_ms))


def regret_lines(rows: Iterable[Row], *, said: Latencies, by: str = "", who: str = "") -> list[Regret]:
    """
    One line per limit, then one over all of them; empty where no row is of a serving point.

    Parameters
    ----------
    rows : iterable of Row
        Usable rows of any layout; serving rows of at least two configurations per question count.
    said : callable
        What is predicted for a row.
    by : str, optional
        A column whose value is part of the question too: engine asks for the best configuration of one engine.
    who : str, optional
        Whose predictions these are.
    """
    known = questions(rows, said=said, by=by)
    picked = {limit: [pick for own in known if (pick := _pick(own, limit)) is not None] for limit in LIMITS_MS}
    lines = [_line(found, limit_ms=limit, by=by, who=who) for limit, found in picked.items() if found]
    every = [pick for found in picked.values() for pick in found]
    return [*lines, _line(every, limit_ms=None, by=by, who=who)] if every else []


def questions(rows: Iterable[Row], *, said: Latencies, by: str = "", widths: Widths | None = None) -> list[list[Point]]:
    """The measured configurations of each question that has several."""
    questions = group_by(
        [row for row in rows if row.layout == "serving"],
        lambda row: tuple(text(row, name) for name in ("model_id", "accelerator_id", "isl", "osl", by) if name),
    )
    found = ([p for row in own if (p := _point(row, said, widths)) is not None] for own in questions.values())
    return [points for points in found if len(points) > 1 and any(p.said_tpot_ms is not None for p in points)]


def confidence_regrets(
    rows: Iterable[Row], *, said: Latencies, widths: Widths, who: str = "", margins: bool = False
) -> list[ConfidenceRegret]:
    """
    One line per confidence: what a plan's rule reaches and keeps under each limit; empty without serving points.

    Parameters
    ----------
    rows : iterable of Row
    said : callable
        What is predicted for a row.
    widths : callable
        How sure that is.
    who : str, optional
        Whose predictions these are.
    margins : bool, optional
        Lines for the rules that were tried before too.
    """
    known = questions(rows, said=said, widths=widths)
    if not known:
        return []
    found = [
        _by_rule(known, _likely(confidence), who=who, rule=f"chance {confidence:.0%}", likeliest=True)
        for confidence in CONFIDENCES
    ]
    if margins:
        found.append(_by_rule(known, _likely(DEFAULT), who=who, rule=f"chance {DEFAULT:.0%}, else no answer"))
        found += [_by_rule(known, _below(margin), who=who, rule=f"margin {margin:.0%}") for margin in MARGINS]
    return found


def reliability(rows: Iterable[Row], *, said: Latencies, widths: Widths, who: str = "") -> list[Reliability]:
    """Picks at several confidences by the chance said of them, and how many of them kept their limit."""
    picks: dict[tuple[int, float, int], tuple[float, bool]] = {}
    for place, own in enumerate(questions(rows, said=said, widths=widths)):
        for limit in LIMITS_MS:
            for confidence in CONFIDENCES:
                pick = _pick_of(own, limit, _likely(confidence))
                if pick is not None:
                    picks[place, limit, own.index(pick)] = pick.chance(limit), pick.tpot_ms <= limit
    found = []
    for low, high in pairwise(BINS):
        own_bin = [pick for pick in picks.values() if low <= pick[0] < high or (high == 1.0 and pick[0] == 1.0)]
        if own_bin:
            chances, held = zip(*own_bin, strict=True)
            found.append(
                Reliability(
                    who=who,
                    low=low,
                    high=high,
                    plans=len(own_bin),
                    said=sum(chances) / len(own_bin),
                    held=sum(held) / len(own_bin),
                )
            )
    return found


Allowed = Callable[[Point, float], bool]


def _likely(confidence: float) -> Allowed:
    """Those whose chance is at least a confidence."""
    return lambda point, limit_ms: point.chance(limit_ms) >= confidence - SAME


def _below(margin: float) -> Allowed:
    """Those that are predicted to stay so far below the limit."""
    return lambda point, limit_ms: point.said_tpot_ms is not None and point.said_tpot_ms <= (1.0 - margin) * limit_ms


def _pick_of(points: list[Point], limit_ms: float, allowed: Allowed) -> Point | None:
    return max((p for p in points if allowed(p, limit_ms)), key=lambda p: p.said_rate, default=None)


def _by_rule(
    known: list[list[Point]], allowed: Allowed, *, who: str, rule: str, likeliest: bool = False
) -> ConfidenceRegret:
    """
    What a rule reaches and keeps under each limit; no answer reaches and keeps nothing, and is counted either way.

    `likeliest`: where the rule allows nothing, the option is picked that plans rank first then (`core.ranking`).
    """
    reached, kept, unanswered, questions = [], [], 0, 0
    for limit in LIMITS_MS:
        shares, held = [], 0
        for points in known:
            best = max((p.rate for p in points if p.tpot_ms <= limit), default=None)
            if best is None:
                continue
            pick = _pick_of(points, limit, allowed)
            unanswered += pick is None
            if pick is None and likeliest:
                told = [p for p in points if p.said_tpot_ms is not None]
                pick = max(told, key=lambda p: (-unlikely(p.chance(limit), sure=False), p.said_rate))
            good = pick is not None and pick.tpot_ms <= limit
            shares.append(min(1.0, pick.rate / best) if pick is not None and good else 0.0)
            held += good
        questions += len(shares)
        reached.append(sum(shares) / max(1, len(shares)))
        kept.append(held / max(1, len(shares)))
    return ConfidenceRegret(
        who=who,
        rule=rule,
        questions=questions,
        unanswered=unanswered,
        limits_ms=LIMITS_MS,
        reached=tuple(reached),
        kept=tuple(kept),
    )


def predictions_of(scores: Iterable[Score]) -> tuple[Latencies, Widths]:
    """What scores say of rows, and how sure they are of the TPOT."""
    known = [item for item in scores if item.predicted]
    said = latencies_of({(item.id, item.quantity): item.predicted for item in known if item.predicted})
    widths = {
        item.id: item.high / item.predicted
        for item in known
        if item.quantity == "tpot_ms" and item.high and item.predicted
    }
    return said, widths.get


def latencies_of(values: Mapping[tuple[str, str], float]) -> Latencies:
    """Latencies by row id from a table by row id and quantity."""

    def said(id: str) -> tuple[float, float] | None:
        ttft, tpot = values.get((id, "ttft_ms")), values.get((id, "tpot_ms"))
        return None if ttft is None or tpot is None else (ttft, tpot)

    return said


class _Pick(NamedTuple):
    """One question answered."""

    reached: float
    """Measured rate of the pick over the best measured rate that keeps the limit, at most 1; 0 = nothing was picked."""
    frontier: float
    """The same over the best measured rate at the pick's own measured TPOT."""
    kept: bool
    """The pick keeps the limit."""
    over: float
    """Measured TPOT of the pick over the limit. [-]"""
    choices: int
    """Configurations that keep the limit, measured."""
    random: float
    """What a choice among those at random reaches on average."""


def _pick(points: list[Point], limit_ms: float) -> _Pick | None:
    """None where no measured configuration keeps the limit: no pick can be right."""
    able = [point for point in points if point.tpot_ms <= limit_ms]
    if not able:
        return None
    best = max(point.rate for point in able)
    random = sum(point.rate for point in able) / len(able) / best
    offered = [point for point in points if point.said_tpot_ms is not None and point.said_tpot_ms <= limit_ms]
    if not offered:
        return _Pick(0.0, 0.0, False, math.inf, len(able), random)
    pick = max(offered, key=lambda point: point.said_rate)
    there = max(point.rate for point in points if point.tpot_ms <= max(pick.tpot_ms, limit_ms) * (1 + SAME))
    return _Pick(
        reached=min(1.0, pick.rate / best),
        frontier=pick.rate / there,
        kept=pick.tpot_ms <= limit_ms,
        over=pick.tpot_ms / limit_ms,
        choices=len(able),
        random=random,
    )


def _point(row: Row, said: Latencies, widths: Widths | None = None) -> Point | None:
    ttft, tpot = number(row, "silicon_ttft_ms"), number(row, "silicon_tpot_ms")
    clients, accelerators, osl = (number(row, name) for name in ("concurrency", "num_accelerators", "osl_tokens"))
    if ttft is None or not tpot or not clients or not accelerators or not osl:
        return None
    each = clients * osl / accelerators
    guess = said(row.id)
    return Point(
        tpot_ms=tpot,
        rate=each / _answer_s(ttft, tpot, osl),
        said_tpot_ms=None if guess is None else guess[1],
        said_rate=0.0 if guess is None else each / _answer_s(*guess, osl),
        factor=None if widths is None else widths(row.id),
        engine=text(row, "engine"),
    )


def _answer_s(ttft_ms: float, tpot_ms: float, output_tokens: float) -> float:
    """A closed loop of clients sends the next request when an answer ends: this is its period. [s]"""
    return (ttft_ms + tpot_ms * (output_tokens - 1.0)) / 1e3


def _line(picks: list[_Pick], *, limit_ms: float | None, by: str, who: str) -> Regret:
    reached = [pick.reached for pick in picks]
    missed = [pick.over - 1.0 for pick in picks if not pick.kept and math.isfinite(pick.over)]
    return Regret(
        who=who,
        limit_ms=limit_ms,
        by=by,
        questions=len(picks),
        choices=quantile([float(pick.choices) for pick in picks], 0.5) or 0.0,
        median_reached=quantile(reached, 0.5) or 0.0,
        mean_reached=sum(reached) / len(reached),
        p10_reached=quantile(reached, 0.1) or 0.0,
        median_strict=quantile([pick.reached if pick.kept else 0.0 for pick in picks], 0.5) or 0.0,
        median_frontier=quantile([pick.frontier for pick in picks], 0.5) or 0.0,
        kept=sum(pick.kept for pick in picks) / len(picks),
        median_over=quantile(missed, 0.5),
        random=quantile([pick.random for pick in picks], 0.5) or 0.0,
    )
