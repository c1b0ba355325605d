"""
How far is what averages say of a replica from its simulation? Latencies over traffics, models and parts.

    python -m tools.benchmarks.averages

Each question (traffic x model x accelerator x objectives) is asked as `plan serve` asks it; its cheapest configuration
by averages is then simulated. Printed: what requests see at shares of the simulated capacity, averages over simulated,
of each question and over all.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator
from typing import Final, NamedTuple

from tonnage.catalog import NOTHING
from tonnage.catalog.hub.resolve import resolve
from tonnage.core.sites import sites
from tonnage.domain.requests.serve import Serve
from tonnage.questions.serve import decide, plan
from tonnage.questions.serve.capacity_search import SearchedCapacity, draw_requests, point_at, search_capacity
from tonnage.questions.serve.option import Candidate
from tonnage.questions.serve.question import serve_request
from tonnage.questions.serve.variations import sure_cost

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

    def ratios(self) -> Iterator[tuple[float, dict[str, float]]]:
        """At shares of the simulated capacity: averages over simulated, by latency."""
        if self.simulated is None:
            return
        for share in SHARES:
            rate = share * self.simulated.best.rate_per_s
            mine, _ = self.averages.state.at_rate(rate)
            theirs = point_at(self.request, self.search, share=rate)
            yield share, {name: getattr(mine, name) / getattr(theirs, name) for name in FIELDS}


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


def main() -> None:
    """Print every question, and what it comes to."""
    found: dict[str, list[float]] = {name: [] for name in FIELDS}
    for traffic, (model, accelerator), (ttft, tpot) in itertools.product(TRAFFIC, PAIRS, OBJECTIVES):
        one = compared(traffic, model, accelerator, ttft=ttft, tpot=tpot)
        for share, ratios in one.ratios() if one is not None else ():
            print(f"{one.what} {share:.0%}  " + "  ".join(f"{name[:-2]} {ratio:.2f}" for name, ratio in ratios.items()))
            for name, ratio in ratios.items():
                found[name].append(ratio)
    for name, ratios in found.items():
        off = sorted(abs(math.log(ratio)) for ratio in ratios)
        half, most = (math.exp(off[int(len(off) * share)]) for share in (0.5, 0.9))
        print(
            f"{name[:-2]:10} median {statistics.median(ratios):.2f}, half within x {half:.2f}, nine tenths x {most:.2f}"
        )


if __name__ == "__main__":
    main()
