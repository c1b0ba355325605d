"""
Writes docs/rules-of-thumb.md: rules of thumb beside what Tonnage computes and what was measured.

    python -m tools.calibration.rules_of_thumb            rewrites the page
    python -m tools.calibration.rules_of_thumb --check    fails when the kept page differs

What was measured comes from measurements/*.csv.gz: pairs of rows that differ in the accelerator alone, and peaks of
memory per parameter. Prices are aged from the catalogue's own date, so that the page does not change with the day.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from pathlib import Path
from statistics import median

from msgspec.structs import replace

from tonnage import catalog
from tonnage.domain.published import FolkRule
from tonnage.planning.folklore.rules import folklore
from tonnage.report.folklore import folklore_page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "rules-of-thumb.md"
AS_OF = date(2026, 11, 21)
Row = dict[str, str]


def page(rules: Sequence[FolkRule] | None = None) -> str:
    """The page as it is now; `rules` where they are computed already."""
    training, inference, silicon = (_rows(name) for name in ("training", "inference", "serving_silicon"))
    measured: dict[str, Callable[[], str]] = {
        "training-bytes": lambda: _bytes_per_parameter(training),
        "adapters": lambda: _over_base(training),
        "qlora-70b": lambda: _qlora(training),
        "h100-over-a100": lambda: _trained_and_served(
            training, inference, over="h100-sxm5-80gb", under="a100-sxm4-80gb"
        ),
        "h200-over-h100": lambda: _decoded(silicon, inference, over="h200-sxm-141gb", under="h100-sxm5-80gb"),
        "b200-over-h100": lambda: _decoded(silicon, inference, over="b200-sxm-180gb", under="h100-sxm5-80gb"),
        "spot-saves": _advised,
    }
    known = folklore(AS_OF) if rules is None else rules
    return folklore_page(
        [replace(rule, measured=measured[rule.id]()) if rule.id in measured else rule for rule in known]
    )


def _rows(name: str) -> list[Row]:
    with gzip.open(ROOT / "measurements" / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["usable"] == "1"]


def _bytes_per_parameter(rows: list[Row]) -> str:
    """Peak of all accelerators together over the parameters, of full fine-tunes with AdamW."""
    found = sorted(
        float(row["peak_mem_gb"]) * float(row["num_accel"] or 1) / float(row["params_b"])
        for row in rows
        if row["method"] == "full-ft" and row["peak_mem_gb"] and row["params_b"] and row["optimizer"] == "adamw"
    )
    return (
        f"{len(found)} full fine-tunes with AdamW: {found[0]:.0f} to {found[-1]:.0f} bytes per parameter, median "
        f"{median(found):.0f} (runs that keep every state in 16 bits need 8 before activations)"
    )


def _over_base(rows: list[Row]) -> str:
    found = sorted(
        float(row["peak_mem_gb"]) / (2.0 * float(row["params_b"])) - 1.0
        for row in rows
        if row["method"] == "lora" and row["peak_mem_gb"] and row["params_b"] and row["num_accel"] in {"", "1"}
    )
    if not found:
        return ""
    inside = sum(share <= 0.2 for share in found)
    return (
        f"base and {found[0]:.0%} to {found[-1]:.0%} more, median {median(found):.0%}; {inside} of {len(found)} runs "
        f"on one accelerator stay below 20 %"
    )


def _qlora(rows: list[Row]) -> str:
    """The largest model measured at short sequences, scaled to 70B by its parameters."""
    short = [
        row
        for row in rows
        if row["method"] == "qlora" and row["peak_mem_gb"] and row["params_b"] and float(row["seq_len"]) <= 2048
    ]
    largest = max(short, key=lambda row: float(row["params_b"]))
    each = float(largest["peak_mem_gb"]) * float(largest["num_accel"] or 1) / float(largest["params_b"])
    return (
        f"no 70B at hand in {len(short)} runs; {largest['model']} took {each:.2f} GB per billion parameters over "
        f"{largest['num_accel']} accelerators, which would be {each * 70:.0f} GB at 70B"
    )


def _pairs(rows: Iterable[Row], *, over: str, under: str, keys: tuple[str, ...], value: str) -> list[float]:
    """Ratios of one quantity between rows that agree in every key and differ in the accelerator."""
    groups: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["accelerator_id"] in {over, under} and row[value]:
            groups[tuple(row[key] for key in keys)][row["accelerator_id"]].append(float(row[value]))
    return sorted(
        median(group[over]) / median(group[under]) for group in groups.values() if over in group and under in group
    )


def _spread(ratios: list[float], what: str) -> str:
    if not ratios:
        return ""
    low, high = _eight_in_ten(ratios)
    return f"{what}: median {median(ratios):.1f}x in {len(ratios)} pairs, eight in ten from {low:.1f} to {high:.1f}x"


def _eight_in_ten(found: list[float]) -> tuple[float, float]:
    """The tenth and the ninetieth percentile of sorted numbers."""
    last = len(found) - 1
    return found[round(last * 0.1)], found[round(last * 0.9)]


def _trained_and_served(training: list[Row], inference: list[Row], *, over: str, under: str) -> str:
    trained = _pairs(
        training, over=over, under=under, keys=("block", "model", "method", "seq_len", "precision", "framework"),
        value="tokens_per_s_per_accel_eff",
    )  # fmt: skip
    served = _pairs(
        inference, over=over, under=under,
        keys=("model_id", "engine", "weight_precision", "isl", "osl", "concurrency_or_batch", "num_accel", "mode"),
        value="output_tokens_per_s_per_accel",
    )  # fmt: skip
    return "; ".join(text for text in (_spread(trained, "training"), _spread(served, "serving")) if text)


def _decoded(silicon: list[Row], inference: list[Row], *, over: str, under: str) -> str:
    steps = _pairs(
        silicon, over=under, under=over,
        keys=("engine", "model_path", "precision", "mode", "isl", "osl", "batch_size", "tp_size", "pp_size",
              "attention_dp_size", "moe_tp_size", "moe_ep_size", "concurrency"),
        value="silicon_tpot_ms",
    )  # fmt: skip
    served = _pairs(
        inference, over=over, under=under,
        keys=("model_id", "engine", "weight_precision", "isl", "osl", "concurrency_or_batch", "num_accel", "mode"),
        value="output_tokens_per_s_per_accel",
    )  # fmt: skip
    return "; ".join(text for text in (_spread(steps, "time per token"), _spread(served, "serving")) if text)


def _advised() -> str:
    saved = sorted(record.savings_fraction for record in catalog.spot_records())
    inside = sum(0.6 <= share <= 0.9 for share in saved) / len(saved)
    what = f"AWS advisor, {len(saved)} instances and regions over 30 days"
    return f"{what}: median {median(saved):.0%}, {inside:.0%} in range"


def main() -> int:
    """Write the page, or compare it."""
    now = page()
    if "--check" in sys.argv[1:]:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != now)
    PAGE.write_text(now, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
