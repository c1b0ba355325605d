"""
How much of their error do two runs of one model share? What catalog/data/intervals/causes.csv rests on; writes nothing.

    python tools/calibration/shared.py

The residuals are those of tools/calibration/left_out.csv.gz, each predicted without its model's family. Pairs are
rows of
one model (serving: of the same lengths too); of each model the mean product of two residuals over their mean square.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from statistics import mean, median
from typing import Final, NamedTuple

from tonnage_accuracy.left_out import left_out_predictions
from tonnage_accuracy.quantities import measured_numbers
from tonnage_accuracy.rows import Row, text, usable_rows

ROOT: Final = Path(__file__).parents[2]
ASKED: Final = (
    ("serving", "tpot_ms"), ("training", "step_time_s"), ("training", "tokens_per_s_per_accel"),
    ("inference", "samples_per_s"),
)  # fmt: skip
MOST: Final = 400
"""Rows of one model that are paired."""


class Residual(NamedTuple):
    """Of one row: the question it answers, what ran it, and the logarithm of predicted over measured."""

    question: tuple[str, ...]
    accelerator: str
    software: str
    error: float


SAME: Final = (
    "block", "model_id", "accelerator_id", "engine", "isl_tokens", "osl_tokens", "tp", "tp_norm", "ep", "ep_norm", "dp",
    "attention_dp_norm", "concurrency", "concurrency_or_batch", "num_accelerators", "num_accel", "weight_precision",
    "moe_weight_precision", "kv_precision", "disaggregated", "prefill_num_workers", "decode_num_workers",
)  # fmt: skip
"""Columns of one configuration under one load."""


def releases(rows: list[Row], quantity: str) -> list[float]:
    """How far the measured ratio of two releases is from the predicted, of every configuration that has two. [ln]"""
    stored = left_out_predictions(ROOT, "source")
    found: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        release = text(row, "engine_version") or text(row, "backend_version")
        for one in (
            measured_numbers(row) if release and not re.fullmatch("[0-9a-f]{7,}", release) else ()
        ):  # commits of one week are no releases
            known = stored.get((row.id, quantity))
            if one.quantity == quantity and known is not None and one.value > 0:
                place = tuple(text(row, name) for name in SAME)
                found[place][release].append(math.log(one.value / known.predicted))
    pairs = (combinations(map(mean, of.values()), 2) for of in found.values())
    return sorted(abs(a - b) for own in pairs for a, b in own)


def main() -> None:
    """Print the correlation of pairs by what they have in common, and how releases of one configuration differ."""
    rows = usable_rows(ROOT)
    for layout, quantity in ASKED:
        found: dict[str, list[float]] = defaultdict(list)
        asked: dict[tuple[str, ...], list[Residual]] = defaultdict(list)
        for one in residuals([row for row in rows if row.layout == layout], quantity):
            asked[one.question].append(one)
        for own in asked.values():
            for alike, correlation in correlations(own[:: len(own) // MOST + 1]).items():
                found[alike].append(correlation)
        for alike, each in sorted(found.items()):
            print(f"{layout:10} {quantity:24} same {alike:24} {median(each):6.2f}  median of {len(each)} models")
    for quantity in ("ttft_ms", "tpot_ms", "output_tokens_per_s"):
        apart = releases(rows, quantity)
        within = math.exp(apart[int(0.9 * len(apart))])
        print(
            f"two releases: {quantity:24} {len(apart):4} pairs, nine of ten within x{within:.2f} of what was predicted"
        )


def residuals(rows: list[Row], quantity: str) -> Iterator[Residual]:
    """Of every row that states the quantity and was predicted without its family."""
    stored = left_out_predictions(ROOT, "family")
    for row in rows:
        if text(row, "disaggregated") == "1":
            continue
        names = ("model_id", "isl", "osl") if row.layout == "serving" else ("model_id",)
        for one in measured_numbers(row):
            known = stored.get((row.id, one.quantity))
            if one.quantity == quantity and known is not None and one.value > 0:
                yield Residual(
                    question=tuple(text(row, name) for name in names),
                    accelerator=text(row, "accelerator_id"),
                    software=text(row, "engine"),
                    error=math.log(known.predicted / one.value),
                )


def correlations(own: list[Residual]) -> dict[str, float]:
    """By what pairs have in common; around nothing, because a common bias is shared too."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for one, other in combinations(own, 2):
        names = [name for name in ("accelerator", "software") if getattr(one, name) == getattr(other, name)]
        both = sums[" and ".join(names) or "model alone"]
        both[0] += one.error * other.error
        both[1] += (one.error**2 + other.error**2) / 2.0
    return {alike: product / square for alike, (product, square) in sums.items() if square > 0}


if __name__ == "__main__":
    main()
