"""
Does the plan itself find the best published training runs? Their accelerators over those that it would need.

    python -m tools.bests            prints every run of bests.toml; exit status 1 where one lies outside 0.85 to 1.15

The plan is asked with the published count, tokens and accelerator, and its layout is free. What it takes there, against
the published time, says how many accelerators it needs for that time: 1 = as many, below 1 = the plan is the faster.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from tonnage.planning.ask import answer

RUNS = Path(__file__).parent / "bests.toml"
LOW, HIGH = 0.85, 1.15
"""Accelerators that the plan needs over the published, within which it is right. [-]"""


class Found(NamedTuple):
    """One run and what the plan says of it."""

    name: str
    published: int
    needed: float
    layout: str
    source: str

    @property
    def ratio(self) -> float:
        """Accelerators needed over those published. [-]"""
        return self.needed / self.published

    @property
    def right(self) -> bool:
        """Whether it lies within the bounds."""
        return LOW <= self.ratio <= HIGH


def found_by(run: dict[str, Any]) -> Found:
    """The plan for one run; more accelerators than any are needed where nothing does it."""
    plan = answer(run["kind"], run["ask"])
    count = run["accelerators"]
    if not plan.options:
        return Found(run["name"], count, float("inf"), plan.sentence, run["source"])
    best = plan.options[0]
    if "hours" in run:
        slower = best.run.wall_s.value / 3600.0 / run["hours"]
    else:
        slower = run["tokens_per_s"] / best.tokens_per_s_per_accelerator.value
    c = best.configuration
    return Found(run["name"], count, count * slower, f"{c.degrees()}, {c.software}, {c.precision}", run["source"])


def main() -> int:
    """Print the table."""
    every = [found_by(run) for run in tomllib.loads(RUNS.read_text())["run"]]
    for one in every:
        verdict = "" if one.right else "   outside"
        print(f"{one.ratio:5.2f}x  {one.name}: published {one.published:,}, the plan needs {one.needed:,.0f}{verdict}")
        print(f"        {one.layout}; {one.source}")
    print(f"{sum(one.right for one in every)} of {len(every)} between {LOW:g} and {HIGH:g}")
    return 0 if all(one.right for one in every) else 1


if __name__ == "__main__":
    sys.exit(main())
