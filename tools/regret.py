"""
What would another rule of choice have reached on measured configurations? Rules replayed on the questions of the page.

    python -m tools.regret [--left-out source|family|accelerator|engine] [--sound]
    python -m tools.regret --bound    what small errors would reach: measured values with normal errors, known widths

The questions are those of `docs/accuracy.md`: a model, its lengths and an accelerator, of which several configurations
were measured, and a limit on the time per output token. A pick that misses its limit, or no pick, reaches and keeps
nothing. Each rule has no number of its own but the confidence: what it adds comes from theory or from a width that the
error model has already.

- `chance`: the fastest whose chance is at least the confidence, as plans choose;
- `likeliest`: the same, and where none has the confidence the one with the largest chance;
- `luck`: the chance of the fastest of n near options is lowered by what the largest of n normal errors is on average;
- `measured`: of what is within a tenth of the fastest, calibrated before derived before assumed;
- `surest`: of what is within a tenth of the fastest, the one with the largest chance;
- `expected`: the largest product of rate and chance, whatever the confidence;
- `student`: chances by Student's t with three degrees of freedom through the same 90 % interval, as peaked in the
  middle and as long in the tails as standardised residuals are;
- `near`: predictions moved to the posterior of the errors of other rows on the same accelerator and engine (never of
  the same question; of another source where sources are left out), half of whose variance they have in common (log of
  2026-11-21), and narrowed as far.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from tonnage.core.error_model import NINETY, chance_of
from tonnage_accuracy.contradictions import contradicting
from tonnage_accuracy.grouping import read_grouping
from tonnage_accuracy.out_of_sample import group_scores
from tonnage_accuracy.rows import Row, number, read_rows, text
from tonnage_accuracy.scoring import Score, score

ROOT: Final = Path(__file__).parents[1]
LIMITS_MS: Final = (10.0, 20.0, 35.0, 50.0)
SHARED: Final = 0.5
"""Of the variance of two rows on one part under one engine, what they have in common: log of 2026-11-21. [-]"""
T_NINETY: Final = 2.353363
"""Of Student's t with three degrees of freedom: the end of a 90 % interval. [-]"""
BOUNDS: Final = (0.03, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3)
"""Standard deviations of ln(measured / predicted) that are tried. [-]"""
DRAWS: Final = 6
NEAR: Final = 0.9
"""Rates from this share of the best on are near it. [-]"""
ORDER: Final = ("measured", "calibrated", "derived", "assumed")


class Point(NamedTuple):
    """One measured configuration: what it does, and what was said of it."""

    place: tuple[str, str]
    source: str
    tpot_ms: float
    rate: float
    said_ms: float
    said_rate: float
    sigma: float
    """Of the logarithm of its TPOT. [-]"""
    basis: str

    def chance(self, limit_ms: float) -> float:
        """Of keeping a limit. [-]"""
        gap = math.log(limit_ms / self.said_ms)
        return float(gap >= 0.0) if self.sigma <= 0.0 else chance_of(gap / self.sigma / NINETY)


Question = list[Point]
Truth = list[tuple[float, float]]
"""Of every configuration that was measured, predicted or not: TPOT and rate. [ms, tokens/s]"""
Rule = Callable[[Question, float], Point | None]


def student(point: Point, limit_ms: float) -> float:
    """Of keeping a limit, where errors are t-distributed with three degrees of freedom. [-]"""
    x = math.log(limit_ms / point.said_ms) / max(point.sigma, 1e-9) / NINETY * T_NINETY / math.sqrt(3.0)
    return 0.5 + (x / (1.0 + x * x) + math.atan(x)) / math.pi


def fastest(points: Iterable[Point]) -> Point | None:
    """The one with the largest predicted rate."""
    return max(points, key=lambda p: p.said_rate, default=None)


def by_chance(confidence: float, chance: Callable[[Point, float], float] = Point.chance) -> Rule:
    """The rule of plans."""
    return lambda points, limit: fastest(p for p in points if chance(p, limit) >= confidence)


def likeliest(confidence: float, rule: Rule | None = None) -> Rule:
    """A rule, and the largest chance where it picks nothing."""
    inner = rule or by_chance(confidence)
    return lambda points, limit: inner(points, limit) or max(points, key=lambda p: p.chance(limit), default=None)


def with_luck(confidence: float) -> Rule:
    """The chance lowered by the luck of the best of those that are near it."""

    def rule(points: Question, limit: float) -> Point | None:
        for p in sorted(points, key=lambda p: -p.said_rate):
            n = sum(NEAR <= other.said_rate / p.said_rate <= 1.0 / NEAR for other in points)
            gap = math.log(limit / p.said_ms) / max(p.sigma, 1e-9) - math.sqrt(1.0 - SHARED) * largest_of(n)
            if chance_of(gap / NINETY) >= confidence:
                return p
        return None

    return rule


def largest_of(n: int) -> float:
    """Mean of the largest of n standard normal numbers (Blom's approximation), by bisection. [-]"""
    if n <= 1:
        return 0.0
    want, low, high = (n - 0.375) / (n + 0.25), 0.0, 8.0
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if chance_of(middle / NINETY) < want else (low, middle)
    return low


def among_near(confidence: float, key: Callable[[Point, float], float]) -> Rule:
    """Of those with the confidence that are near the fastest of them, the first by a key."""

    def rule(points: Question, limit: float) -> Point | None:
        able = [p for p in points if p.chance(limit) >= confidence]
        best = fastest(able)
        return best and min((p for p in able if p.said_rate >= NEAR * best.said_rate), key=lambda p: key(p, limit))

    return rule


def expected(points: Question, limit: float) -> Point | None:
    """The largest product of rate and chance."""
    return max(points, key=lambda p: p.said_rate * p.chance(limit), default=None)


def rules(confidence: float) -> dict[str, Rule]:
    """All of them at a confidence."""
    return {
        f"chance {confidence:.0%}": by_chance(confidence),
        f"chance {confidence:.0%}, likeliest": likeliest(confidence),
        f"student {confidence:.0%}, likeliest": likeliest(confidence, by_chance(confidence, student)),
        f"luck {confidence:.0%}": with_luck(confidence),
        f"measured {confidence:.0%}": among_near(confidence, lambda p, _: ORDER.index(p.basis)),
        f"surest {confidence:.0%}": among_near(confidence, lambda p, limit: -p.chance(limit)),
        f"surest {confidence:.0%}, likeliest": likeliest(
            confidence, among_near(confidence, lambda p, limit: -p.chance(limit))
        ),
    }


def asked(rows: Iterable[Row], scores: Iterable[Score]) -> list[tuple[Question, Truth]]:
    """The questions with several configurations; what was not predicted is no option."""
    known: dict[str, dict[str, Score]] = defaultdict(dict)
    for item in scores:
        if item.predicted:
            known[item.id][item.quantity] = item
    grouping = read_grouping(ROOT)
    found: dict[tuple[str, ...], list[tuple[Point | None, float, float]]] = defaultdict(list)
    for row in rows:
        ttft, tpot = number(row, "silicon_ttft_ms"), number(row, "silicon_tpot_ms")
        clients, count, osl = (number(row, name) for name in ("concurrency", "num_accelerators", "osl_tokens"))
        if row.layout != "serving" or ttft is None or not (tpot and clients and count and osl):
            continue
        key = tuple(text(row, name) or "" for name in ("model_id", "accelerator_id", "isl", "osl"))
        rate = clients * osl / count / (ttft + tpot * (osl - 1.0)) * 1e3
        said = known[row.id]
        point = None
        if "ttft_ms" in said and "tpot_ms" in said:
            late, first = said["tpot_ms"], said["ttft_ms"].predicted or 0.0
            value = late.predicted or tpot
            wide = math.log(late.high / value) / NINETY if late.high else 0.0
            said_rate = clients * osl / count / (first + value * (osl - 1.0)) * 1e3
            place = (key[1], text(row, "engine") or "")
            point = Point(place, grouping.group(row, "source"), tpot, rate, value, said_rate, wide, late.basis)
        found[key].append((point, tpot, rate))
    return [
        (points, [(tpot, rate) for _, tpot, rate in own])
        for own in found.values()
        if len(own) > 1 and (points := [p for p, _, _ in own if p is not None])
    ]


def moved(questions: list[tuple[Question, Truth]], *, apart: bool) -> list[tuple[Question, Truth]]:
    """
    Predictions at the posterior of what rows near them say: of the same place, of another question, and of another
    source where those are kept `apart`.
    """
    near: dict[tuple[str, str], list[tuple[int, str, float]]] = defaultdict(list)
    for number_, (points, _) in enumerate(questions):
        for p in points:
            near[p.place].append((number_, p.source, math.log(p.tpot_ms / p.said_ms)))
    found = []
    for number_, (points, truth) in enumerate(questions):
        own = []
        for p in points:
            errors = [e for q, source, e in near[p.place] if q != number_ and not (apart and source == p.source)]
            share = len(errors) * SHARED / (1.0 + (len(errors) - 1) * SHARED) if errors else 0.0
            shift = share * sum(errors) / len(errors) if errors else 0.0
            said = p.said_ms * math.exp(shift)
            narrower = math.sqrt(1.0 - SHARED * share)
            rate = p.said_rate * math.exp(-shift)
            own.append(p._replace(said_ms=said, said_rate=rate, sigma=p.sigma * narrower))
        found.append((own, truth))
    return found


def reached(questions: list[tuple[Question, Truth]], rule: Rule) -> tuple[list[float], list[float], int]:
    """Mean share of the measured best and share of limits that are kept, by limit; questions without a pick."""
    best_shares, kept_shares, none = [], [], 0
    for limit in LIMITS_MS:
        shares, kept = [], 0
        for points, truth in questions:
            best = max((rate for tpot, rate in truth if tpot <= limit), default=None)
            if best is None:
                continue
            pick = rule(points, limit)
            good = pick is not None and pick.tpot_ms <= limit
            shares.append(min(1.0, pick.rate / best) if pick is not None and good else 0.0)
            kept += good
            none += pick is None
        best_shares.append(sum(shares) / max(1, len(shares)))
        kept_shares.append(kept / max(1, len(shares)))
    return best_shares, kept_shares, none


def bound(questions: list[tuple[Question, Truth]], *, confidence: float) -> None:
    """
    What the plan's rule reaches where predictions are the measured values with normal errors of a known width.

    Half of the variance is common to a part and engine, which is no worse than none (log of 2026-11-23).
    """
    print(f"errors of a known width, rule of plans at {confidence:.0%}: reached / kept, mean of 20, 35, 50 ms")
    for sigma in BOUNDS:
        best, kept = [0.0] * len(LIMITS_MS), [0.0] * len(LIMITS_MS)
        for seed in range(DRAWS):
            found = reached(with_errors(questions, sigma, random.Random(seed)), likeliest(confidence))
            best = [a + b / DRAWS for a, b in zip(best, found[0], strict=True)]
            kept = [a + b / DRAWS for a, b in zip(kept, found[1], strict=True)]
        cells = "  ".join(f"{a:4.0%} /{b:4.0%}" for a, b in zip(best, kept, strict=True))
        print(f"{sigma:5.0%}   {cells}   {sum(best[1:]) / 3:4.0%} /{sum(kept[1:]) / 3:4.0%}")


def with_errors(
    questions: list[tuple[Question, Truth]], sigma: float, draw: random.Random
) -> list[tuple[Question, Truth]]:
    """Measured values as predictions, with errors of a width that is known."""
    found = []
    for points, truth in questions:
        common = {place: draw.gauss(0.0, 1.0) for place in dict.fromkeys(p.place for p in points)}
        own = []
        for p in points:
            error = sigma * (math.sqrt(SHARED) * common[p.place] + math.sqrt(1.0 - SHARED) * draw.gauss(0.0, 1.0))
            said, rate = p.tpot_ms * math.exp(error), p.rate * math.exp(-error)
            own.append(p._replace(said_ms=said, said_rate=rate, sigma=sigma))
        found.append((own, truth))
    return found


def main() -> None:
    """Print what each rule reaches and keeps."""
    parser = argparse.ArgumentParser(prog="python -m tools.regret", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--left-out", choices=("source", "family", "accelerator", "engine"))
    parser.add_argument("--confidence", type=float, nargs="+", default=[0.6, 0.7, 0.8, 0.9])
    parser.add_argument("--sound", action="store_true", help="without rows that contradict themselves")
    parser.add_argument("--bound", action="store_true", help="what errors of a known width would reach")
    given = parser.parse_args()
    paths = sorted((ROOT / "measurements").glob("*.csv.gz"))
    rows = [row for path in paths for row in read_rows(path) if row.usable and row.layout == "serving"]
    scores = list(score(rows))
    if given.left_out:
        scores = list(group_scores(rows, scores, root=ROOT, kind=given.left_out))
    doubted = contradicting(rows) if given.sound else set[str]()
    usual = asked([row for row in rows if row.id not in doubted], scores)
    if given.bound:
        bound(usual, confidence=given.confidence[0] if len(given.confidence) == 1 else 0.8)
        return
    print(f"{given.left_out or 'nothing'} left out: reached / kept at 10, 20, 35, 50 ms, mean of the last three")
    near = moved(usual, apart=given.left_out == "source")
    for name, questions in (("", usual), ("near, ", near)):
        every = {"expected": expected} | {n: r for c in given.confidence for n, r in rules(c).items()}
        for title, rule in every.items():
            best, kept, none = reached(questions, rule)
            cells = "  ".join(f"{a:4.0%} /{b:4.0%}" for a, b in zip(best, kept, strict=True))
            print(
                f"{name + title:32s} {cells}   {sum(best[1:]) / 3:4.0%} /{sum(kept[1:]) / 3:4.0%}   unanswered {none}"
            )


if __name__ == "__main__":
    main()
