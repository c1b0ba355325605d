"""
How far is what averages say of a replica from its simulation? Capacities and latencies over traffics, models and parts.

    python -m tools.benchmarks.averages [--traffic NAME ...] [--model NAME ...] [--latencies]

Each question (traffic x model x accelerator x objectives) is asked as `plan serve` asks it; its cheapest configuration
by averages is then simulated. Printed: what one replica takes of both, and the replicas that a load of `LOAD` times the
simulated capacity calls for, at the confidence asked for. With `--latencies` also what requests see at shares of the
simulated capacity, averages over simulated.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage.catalog import NOTHING
from tonnage.catalog.hub.resolve import resolve
from tonnage.core.sites import sites
from tonnage.domain.requests.serve import Serve
from tonnage.questions.serve import decide, plan
from tonnage.questions.serve.capacity_search import SearchedCapacity, draw_requests, point_at, search_capacity
from tonnage.questions.serve.option import Candidate, needed_of
from tonnage.questions.serve.reading import serve_request
from tonnage.questions.serve.variations import sure_cost
from tonnage.simulation.capacity import Point

TRAFFIC: Final = ("chat", "code", "rag", "long-chat", "summarise", "reasoning", "agent", "batch")
PAIRS: Final = (
    ("meta-llama/Llama-3.1-8B-Instruct", "L40S"),
    ("meta-llama/Llama-3.1-8B-Instruct", "H100"),
    ("Qwen/Qwen3-32B", "H100"),
    ("Qwen/Qwen3-32B", "B300"),
    ("meta-llama/Llama-3.1-70B-Instruct", "H200"),
    ("openai/gpt-oss-120b", "H100"),
)
OBJECTIVES: Final = (("1 s", "30 ms"), ("3 s", "50 ms"), ("8 s", "100 ms"))
LOAD: Final = 20.0
"""Of the simulated capacity of one replica: so many replicas that whole numbers hide nothing. [-]"""
WITHIN: Final = 1.5
SHARES: Final = (0.3, 0.6, 0.9)
FIELDS: Final = ("ttft_mean_s", "ttft_tail_s", "tpot_mean_s", "tpot_tail_s", "e2e_tail_s")


class Compared(NamedTuple):
    """One question, answered both ways."""

    what: str
    request: Serve
    averages: Candidate
    simulated: Candidate | None
    """None = a lone request misses the objectives, simulated."""
    search: SearchedCapacity

    @property
    def ratio(self) -> float:
        """Capacity by averages over simulated capacity."""
        return self.averages.best.rate_per_s / self.simulated.best.rate_per_s if self.simulated else math.inf

    def counts(self) -> tuple[int, int]:
        """Replicas for the same load, by averages and simulated."""
        assert self.simulated is not None
        asked = replace(self.request, rate_per_s=LOAD * self.simulated.best.rate_per_s)
        return needed_of(asked, self.averages), needed_of(asked, self.simulated)


def compared(traffic: str, model_name: str, accelerator: str, *, ttft: str, tpot: str) -> Compared | None:
    """The cheapest configuration by averages, and its simulation; None where averages find none."""
    asked = {"model": model_name, "rate": "20/s", "traffic": traffic, "ttft": ttft, "tpot": tpot}
    request = serve_request({**asked, "accelerator": accelerator})
    model = resolve(request.model)
    open_sites = sites(request.filters, additions=NOTHING)[0]
    outcomes = plan._worth_it(request, model, open_sites, times=math.inf, startable=True)
    found = [one for one in outcomes if isinstance(one, Candidate)]
    best = min(found, key=lambda one: sure_cost(request, one), default=None)
    if best is None:
        return None
    requests = draw_requests(request)
    tested = search_capacity(request, best.replica, requests=requests, guess=best.best, close=False)
    seen = decide._with_simulation(request, best, tested=tested)
    what = f"{traffic:9} {model.id.split('/')[-1]:22} {best.configuration.label():44} {ttft:>4} {tpot:>6}"
    return Compared(what, request, best, seen if isinstance(seen, Candidate) else None, tested)


def latencies(one: Compared) -> Iterator[tuple[float, Point, Point]]:
    """At shares of the simulated capacity: by averages, and simulated."""
    if one.simulated is None:
        return
    for share in SHARES:
        rate = share * one.simulated.best.rate_per_s
        by, _ = one.averages.state.at_rate(rate)
        yield share, by, point_at(one.request, one.search, share=rate)


def main(arguments: list[str] | None = None) -> None:
    """Prints the table and what it comes to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traffic", nargs="*", default=TRAFFIC)
    parser.add_argument("--model", nargs="*", default=("",))
    parser.add_argument("--latencies", action="store_true")
    given = parser.parse_args(arguments)
    ratios: list[float] = []
    spreads: dict[str, list[float]] = {name: [] for name in FIELDS}
    asked = itertools.product(given.traffic, PAIRS, OBJECTIVES)
    for traffic, (model, accelerator), (ttft, tpot) in asked:
        if not any(name in model for name in given.model):
            continue
        one = compared(traffic, model, accelerator, ttft=ttft, tpot=tpot)
        if one is None:
            continue
        if one.simulated is None:
            print(f"{one.what}  simulated, a lone request misses {one.search.found.limit}", flush=True)
            continue
        ratios.append(_row(one))
        for share, mine, theirs in latencies(one) if given.latencies else ():
            parts = {name: getattr(mine, name) / getattr(theirs, name) for name in FIELDS}
            for name, ratio in parts.items():
                spreads[name].append(ratio)
            print(f"    {share:.0%}  " + "  ".join(f"{name[:-2]} {ratio:.2f}" for name, ratio in parts.items()))
    _print_sums(ratios, spreads)


def _row(one: Compared) -> float:
    """Prints a question's row; replicas by averages over simulated."""
    assert one.simulated is not None
    by, played = one.counts()
    first, second = (f"{side.best.rate_per_s:7.3g} {side.binds:5}" for side in (one.averages, one.simulated))
    print(f"{one.what}  {first} {second} {by:4} {played:4} {by / played:5.2f}", flush=True)
    return by / played


def _print_sums(ratios: list[float], spreads: dict[str, list[float]]) -> None:
    if ratios:
        within = sum(1.0 / WITHIN <= ratio <= WITHIN for ratio in ratios)
        print(
            f"{len(ratios)} compared; counts by averages over simulated: median {statistics.median(ratios):.2f},"
            f" {min(ratios):.2f} to {max(ratios):.2f}; {within} within a factor of {WITHIN:g}"
        )
    for name, found in spreads.items():
        if found:
            off = sorted(abs(math.log(ratio)) for ratio in found)
            half, most = (math.exp(off[int(len(off) * share)]) for share in (0.5, 0.9))
            print(
                f"  {name[:-2]:10} median {statistics.median(found):.2f}, half within x {half:.2f},"
                f" nine tenths within x {most:.2f}"
            )


if __name__ == "__main__":
    main()
