"""
Does the plan itself find the best published runs? Their accelerators over those that it would need.

    python -m tools.bests            prints every run of bests.toml; exit status 1 where one lies outside 0.85 to 1.15

The plan is asked with the published count, tokens and accelerator, and its layout is free. What it takes there, against
the published time, says how many accelerators it needs for that time: 1 = as many, below 1 = the plan is the faster.

Serving is compared pool by pool, as the best figures are published: a decode pool alone, with as many requests on each
accelerator at most and no more time per token than were published. Layout and count are those of the search: the fewest
accelerators, in whole replicas, that make as many tokens as the published pool made. The pace of one accelerator over
the published is printed beside it, since whole replicas hide differences that are smaller than one.
"""

from __future__ import annotations

import math
import sys
import tomllib
from bisect import bisect_left
from pathlib import Path
from typing import Any, NamedTuple

from tonnage import catalog
from tonnage.catalog.hub.resolve import resolve
from tonnage.core.replica import build_replica, concurrency_limit
from tonnage.domain.layout import Engine
from tonnage.domain.plan import Configuration
from tonnage.domain.precision import Precision
from tonnage.domain.requests.common import Lengths
from tonnage.optimize.layouts import WIDEST, replica_layouts
from tonnage.questions.ask import answer
from tonnage.simulation.capacity import ReplicaTimes

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
    if run["kind"] == "decode":
        return decode_pool(run)
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
    return Found(run["name"], count, count * slower, f"{c.layout.label}, {c.software}, {c.precision}", run["source"])


def decode_pool(run: dict[str, Any]) -> Found:
    """The layout of a decode pool with the most output tokens per second and accelerator within what was published."""
    ask = run["ask"]
    model, part = resolve(ask["model"]), catalog.accelerator(ask["accelerator"])
    lengths = Lengths(prompt_tokens=float(ask["prompt_tokens"]), output_tokens=float(ask["output_tokens"]))
    seats, limit_s = int(run["batch"]), float(run["tpot_ms"]) / 1e3
    load = float(run["tokens_per_s"]) * int(run["accelerators"])
    best, told = (math.inf, 0.0), "nothing fits"
    node = part.max_per_node or 8
    for layout in replica_layouts(model, part, per_node=node, max_ranks=WIDEST, domain=min(WIDEST, part.link.domain)):
        configuration = Configuration(
            accelerator=part.id,
            layout=layout,
            precision=Precision(**ask["precision"]),
            engine=Engine(
                name=ask["engine"],
                max_num_seqs=max(1, seats * layout.ranks // layout.dp),
                memory_fraction=ask.get("memory_fraction"),
            ),
        )
        replica = build_replica(model=model, accelerator=part, configuration=configuration, lengths=lengths)
        if replica.times is None:
            continue
        most = min(concurrency_limit(replica, lengths), seats * layout.ranks)
        steps = ((most * i / 40, decode_step_s(replica.times, most * i / 40)) for i in range(1, 41))
        batch, step_s = max(((b, s) for b, s in steps if s <= limit_s), default=(0.0, 1.0))
        pace = batch / step_s
        found = (math.ceil(load / pace) * layout.ranks, -pace / layout.ranks) if pace else (math.inf, 0.0)
        if found < best:
            best = found
            told = (
                f"{configuration.label()}, {batch / layout.ranks:.0f} requests on each, TPOT {step_s * 1e3:.1f} ms, "
                f"each {pace / layout.ranks / run['tokens_per_s']:.2f} of the published pace"
            )
    return Found(run["name"], run["accelerators"], best[0], told, run["source"])


def decode_step_s(times: ReplicaTimes, batch: float) -> float:
    """A decode step of so many requests on a replica, between the batches that are known. [s]"""
    at = min(max(bisect_left(times.batches, batch), 1), len(times.batches) - 1)
    low, high = times.batches[at - 1], times.batches[at]
    share = min(1.0, max(0.0, (batch - low) / (high - low)))
    return times.decode_s[at - 1] + share * (times.decode_s[at] - times.decode_s[at - 1])


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
