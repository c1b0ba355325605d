"""
Published steps of reinforcement learning beside predicted ones, and the two constants fitted on them.

    python -m tools.rl            prints the page
    python -m tools.rl --write    fits, writes the constants, and rewrites docs/rl-accuracy.md

The page scores every row three times: with nothing fitted, with both constants, and with constants fitted on the other
models. The software-engineering row stands apart: its sandboxes' time is not published.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

from tools.rl.memory import section
from tools.rl.scoring import (
    RlRow,
    best_split,
    count_ordered,
    errors,
    fit_constants,
    left_out,
    median_error,
    rl_case,
    rl_rows,
)

from tonnage.catalog.fitted import rl_coefficients
from tonnage.domain.rl import NOTHING_FITTED
from tonnage.questions.rl.step import predict_rl

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "rl-accuracy.md"
CONSTANTS = ROOT / "src" / "tonnage" / "catalog" / "data" / "training" / "rl.toml"
DAY = "2026-11-23"


def page(rows: list[RlRow]) -> str:
    """The page as Markdown."""
    apart, scored = [row for row in rows if row.agentic], [row for row in rows if not row.agentic]
    loop = rl_coefficients()
    plain, both, unseen = errors(scored, loop=NOTHING_FITTED), errors(scored, loop=loop), left_out(scored)
    right, pairs = count_ordered(scored, loop=NOTHING_FITTED)
    lines = [
        "# Reinforcement learning: predicted against published steps",
        "",
        "`python -m tools.rl --write` makes this page from `measurements/rl_2.csv.gz` (NVIDIA NeMo-RL v0.6, GRPO on",
        "H100) and `measurements/rl_recipes.csv` (which accelerators generate, from that repository's",
        "recipes). Layouts, splits and batches are those published; prompts are taken as 150 tokens.",
        "",
        "| constants | median error of a step | rows within 25 % |",
        "|---|---:|---:|",
        *(
            f"| {name} | {median_error(found):.0%} | {sum(abs(math.expm1(e)) <= 0.25 for e in found)} of {len(found)} |"
            for name, found in (
                ("none fitted on these rows", plain),
                (f"two: {loop.decode_step_s * 1e3:g} ms a decode step, trainer x {loop.training:g}", both),
                ("two, fitted on the other models", unseen),
            )
        ),
        "",
        f"Pairs of 16-bit rows of one model in the measured order, nothing fitted: {right} of {pairs}.",
        "",
        "| row | measured | none fitted | two fitted | fitted on other models |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {row.label()} | {row.measured_s:g} s | " + " | ".join(f"{math.expm1(e):+.0%}" for e in (a, b, c)) + " |"
            for row, a, b, c in zip(scored, plain, both, unseen, strict=True)
        ),
        *(f"| {row.label()} (apart) | {row.measured_s:g} s | {math.expm1(e):+.0%} | | |"
          for row, e in zip(apart, errors(apart, loop=NOTHING_FITTED), strict=True)),
        "",
        "Splits that a plan ranks first, with both sides' layouts open:",
        "",
        "| row | published | first | its step against the published split's, both predicted |",
        "|---|---|---|---:|",
        *(_split(row) for row in rows if row.recipe["rollout_gpus"] and not row.agentic),
        "",
        "What is off: on-policy steps of DeepSeek-V3 take twice as long as predicted. Its trainer and its hand-over",
        "of 1.3 TB of weights are most of what the published step has beside its rollout, and no source times them.",
        "The software-engineering row is predicted as one long answer; it is hundreds of short turns between",
        "sandboxes, whose waiting nobody prints. The rates of weight updates (`weight_update`, `weight_tensor`) are",
        "published by others; that a tensor's own cost counts was looked for after the first errors were seen, and",
        "lowered the median without constants by a third.",
        "",
        *section(),
    ]  # fmt: skip
    return "\n".join(lines)


def _split(row: RlRow) -> str:
    """The published and the first-ranked split, and the step of the second over that of the first."""
    first, published = best_split(row), predict_rl(rl_case(row)).step_s
    assert published is not None
    rollout, count = int(row.recipe["rollout_gpus"]), int(row.cells["gpus"])
    gain = first.step_s / published.value - 1.0
    return f"| {row.label()} | {rollout} + {count - rollout} | {first.rollout} + {first.training} | {gain:+.0%} |"


def main(arguments: list[str]) -> int:
    rows = rl_rows(ROOT / "measurements")
    scored = [row for row in rows if not row.agentic]
    if "--write" in arguments:
        loop = fit_constants(scored)
        unseen = sorted(abs(e) for e in left_out(scored))
        error = math.exp(unseen[math.ceil(0.9 * len(unseen)) - 1])
        CONSTANTS.write_text(
            "# What loops of reinforcement learning add to engine and trainer; the meaning of each: domain/rl.py.\n"
            "# Written by `python -m tools.rl --write` on measurements/rl_2.csv.gz.\n"
            f"decode_step_s = {loop.decode_step_s:g}\ntraining = {loop.training:g}\nerror = {error:.3g}\n"
            f'source = "tools/rl on measurements/rl_2.csv.gz ({DAY})"\nfitted = "{DAY}"\n',
            encoding="utf-8",
        )
        rl_coefficients.cache_clear()
        PAGE.write_text(page(rows), encoding="utf-8")
    else:
        print(page(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
