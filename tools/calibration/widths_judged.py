"""
Do intervals and chances hold for sources that nobody had seen? Beside the widths of 8156d57e and one pooled width.

    python -m tools.calibration.widths_judged      half a minute

Rows of sources at first contact (measurements/first_contact), then every row as predicted without its source
(left_out.csv.gz); intervals are fitted without the source (left_out_errors.json.gz), those of 8156d57e too. One row is
drawn of each source, 200 times: coverage beside the 5 % quantile of a binomial of so many sources. The interval score
is that of Gneiting and Raftery in ln, sources alike. A chance is that of meeting limits at 0.7, 1 and 1.5 times the
prediction, of all latencies that a row states together.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import math
import random
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import NormalDist, mean, median
from typing import Final, NamedTuple

from tools.calibration.widths import ROOT, left_out, met, taught

from tonnage.catalog.spreads import KINDS, NINETY, TAKES, spread_of
from tonnage.core.error_model import joint_chance
from tonnage.domain.answer import Spread
from tonnage_accuracy.grouping import group_by, read_grouping
from tonnage_accuracy.intervals import FITTED
from tonnage_accuracy.left_out import left_out_widths
from tonnage_accuracy.quantities import QUANTITY_OF
from tonnage_accuracy.scoring import Score

BEFORE: Final = "8156d57e"
DRAWS: Final = 200
LIMITS: Final = (0.7, 1.0, 1.5)
BINS: Final = 5
JOINT: Final = {"serve": ("ttft_s", "tpot_s"), "train": ("step_s", "memory_peak_bytes"), "infer": ("samples_per_s",)}
"""What a row of a kind may have limits on, together."""


class Number(NamedTuple):
    """One number of a source, ln(measured / predicted), and by whose widths it should lie between which ends."""

    id: str
    source: str
    kind: str
    name: str
    left: float
    spreads: Mapping[str, Spread]
    """Empty of those who give none."""


def main() -> None:
    """Print every figure."""
    seen = list(numbers_of(left_out(taught())))
    judged = {"first contact": list(numbers_of(met(), beside=seen)), "source left out": seen}
    for (title, numbers), who in itertools.product(judged.items(), ("ours", BEFORE, "pooled")):
        print(f"\n{title}, {who}")
        for (kind, name), own in group_by(numbers, lambda n: (n.kind, n.name)).items():
            told = [n for n in own if who in n.spreads]
            if told:
                print(f"  {kind:6} {name:20} {line(told, who)}")
        print(f"  {'all':27} {line([n for n in numbers if len(n.spreads) == 3], who)}")
        reliability(numbers, who)


def numbers_of(every: Iterable[Score], beside: Sequence[Number] = ()) -> Iterator[Number]:
    """
    Every number that has an interval, once: of rates and times of the same requests the first.

    `beside` gives the pooled width where it is to be that of other sources.
    """
    publisher = read_grouping(ROOT).publisher
    ours, before = left_out_widths(ROOT, "source"), widths_before()
    seen: set[tuple[str, str]] = set()
    found: list[tuple[Score, str, str, float]] = []
    order = {name: place for place, name in enumerate(TAKES)}
    scores = sorted(every, key=lambda s: order.get((s.kind, QUANTITY_OF.get((s.kind, s.quantity), "")), -1))
    for one in scores:
        own = QUANTITY_OF.get((one.kind, one.quantity), "")
        name, sign = TAKES.get((one.kind, own), (own, 1.0))
        if name not in FITTED[one.kind] or (one.id, name) in seen or not one.predicted or not one.measured:
            continue
        seen.add((one.id, name))
        if one.kind == "train" and name == "step_s" and one.quantity != "step_time_s":
            sign = -1.0
        found.append((one, own, name, sign * math.log(one.measured / one.predicted)))
    for (kind, name), each in group_by(found, lambda item: (item[0].kind, item[2])).items():
        known = [(publisher(one.block), left) for one, _, _, left in each]
        others = [(n.source, n.left) for n in beside if (n.kind, n.name) == (kind, name)] or known
        sizes = group_by(((source, abs(left)) for source, left in others), lambda item: item[0])
        for one, own, _, left in each:
            source = publisher(one.block)
            spreads = {"pooled": Spread(pooled_width(sizes, without=source))}
            errors = ours.get(source, {}).get(kind, {})
            if name in errors:
                spreads["ours"] = spread_of(errors, kind, quantity=name, level=one.level)
            old = before.get((source, kind), before["", kind] if beside else None)
            if old and any(quantity == own for quantity, _ in old):
                spreads[BEFORE] = Spread(math.log(factor_before(old, own, one.level)))
            yield Number(one.id, source, kind, name, left, spreads)


def pooled_width(sizes: Mapping[str, Sequence[tuple[str, float]]], *, without: str) -> float:
    """The nine-tenths quantile of all other sources' errors, sources alike."""
    weighed = sorted((size, 1.0 / len(own)) for source, own in sizes.items() if source != without for _, size in own)
    reached, whole = 0.0, sum(weight for _, weight in weighed)
    for size, weight in weighed:
        reached += weight
        if reached >= 0.9 * whole:
            return size
    return math.inf


def line(own: Sequence[Number], who: str) -> str:
    """Sources, mean coverage of the draws beside the least of a binomial, score, least coverage, half-width."""
    by = group_by(own, lambda n: (n.source, n.kind, n.name))
    chance, draws = random.Random(1), []
    for _ in range(DRAWS):
        draws.append(mean(_inside(chance.choice(each), who) for each in by.values()))
    shares = {key: mean(_inside(n, who) for n in each) for key, each in by.items()}
    score = mean(mean(_score(n, who) for n in each) for each in by.values())
    half = median((n.spreads[who].at(1.0) - n.spreads[who].at(-1.0)) / 2.0 for n in own)
    least = min(shares, key=lambda key: shares[key])
    return (
        f"{len(by):3} sources  covered {mean(draws):.3f} (5 % of a binomial: {_least(len(by))} of {len(by)} = "
        f"{_least(len(by)) / len(by):.3f})  score {score:.3f}  half-width {half:.3f}  "
        f"least {shares[least]:.2f} ({least[0]})"
    )


def _inside(one: Number, who: str) -> bool:
    of = one.spreads[who]
    return abs(one.left - of.bias) <= of.width


def _score(one: Number, who: str) -> float:
    of = one.spreads[who]
    return 2.0 * of.width + 2.0 / 0.1 * max(0.0, abs(one.left - of.bias) - of.width)


def _least(count: int) -> int:
    """The 5 % quantile of how many of so many 90 % intervals hold."""
    reached = 0.0
    for held in range(count + 1):
        reached += math.comb(count, held) * 0.9**held * 0.1 ** (count - held)
        if reached > 0.05:
            return held
    return count


def reliability(numbers: Iterable[Number], who: str) -> None:
    """Chances of meeting all limits in five bins, sources alike, and the Brier score."""
    said: list[tuple[str, float, bool]] = []
    for own in group_by(numbers, lambda n: n.id).values():
        asked = [n for n in own if n.name in JOINT[n.kind] and who in n.spreads]
        for limit in LIMITS if asked else ():
            ends, held = [], []
            for n in asked:
                rate = n.name == "samples_per_s"
                left, bias = (-n.left, -n.spreads[who].bias) if rate else (n.left, n.spreads[who].bias)
                ends.append((math.log(limit) - bias) / n.spreads[who].width)
                held.append(left <= math.log(limit))
            said.append((f"{own[0].source} {own[0].kind}", _joint(ends, who), all(held)))
    weight = {source: 1.0 / len(each) for source, each in group_by(said, lambda item: item[0]).items()}
    whole = sum(weight[source] for source, _, _ in said)
    brier = sum(weight[source] * (chance - held) ** 2 for source, chance, held in said) / whole
    print(f"  chance of meeting all: Brier score {brier:.4f}, {len(said)} chances of {len(weight)} sources")
    for place in range(BINS):
        mine = [item for item in said if place / BINS <= item[1] < (place + 1) / BINS + (place == BINS - 1)]
        own = sum(weight[source] for source, _, _ in mine)
        if own:
            told, kept = (sum(weight[item[0]] * float(item[i]) for item in mine) / own for i in (1, 2))
            print(f"    said {told:.3f}  held {kept:.3f}  gap {kept - told:+.3f}  ({own / whole:.0%} of the chances)")


def _joint(ends: Sequence[float], who: str) -> float:
    if who == "ours":
        return joint_chance(ends)
    normal = NormalDist()
    return math.prod(normal.cdf(end * NINETY) for end in ends) if len(ends) > 1 else normal.cdf(ends[0] * NINETY)


def widths_before() -> dict[tuple[str, str], dict[tuple[str, str], float]]:
    """Factors of 8156d57e without each source, by source and kind of case; under no source as shipped."""
    found: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
    for one in _before(gzip.decompress(_shown("tools/calibration/left_out_widths.csv.gz"))):
        if one["left_out"] == "source":
            found.setdefault((one["group"], one["kind"]), {})[one["quantity"], one["rung"]] = float(one["factor"])
    for kind in KINDS:
        lines = _before(_shown(f"src/tonnage/catalog/data/intervals/{kind}.csv"))
        found["", kind] = {(one["quantity"], one["rung"]): float(one["factor"]) for one in lines}
    return found


def _shown(path: str) -> bytes:
    return subprocess.run(["git", "show", f"{BEFORE}:{path}"], cwd=ROOT, capture_output=True, check=True).stdout


def _before(table: bytes) -> Iterable[dict[str, str]]:
    return csv.DictReader(io.StringIO(table.decode()))


def factor_before(rows: Mapping[tuple[str, str], float], quantity: str, level: str) -> float:
    """A level without a row drops its last word until it has one; light and crowded loads then try steady."""
    words = level.split(":")
    loads = [words, [words[0], "steady", *words[2:]]] if words[1:2] in (["light"], ["crowded"]) else [words]
    names = [":".join(of[:kept]) for of in loads for kept in range(len(of), 1, -1)]
    return next(rows[quantity, name] for name in (*names, words[0], "any") if (quantity, name) in rows)


if __name__ == "__main__":
    main()
