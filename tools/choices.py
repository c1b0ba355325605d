"""
Laws that no choice between options may break, tried on plans drawn at random.

    python -m tools.choices [--questions N] [--seed S] [--law NAME] [--simulated]

Each law asks one question twice and compares what the first option costs; a plan in which no option has the confidence
asked for counts as infinitely dear:

- `objective`: a looser TTFT or TPOT is never dearer; `confidence`: less of it is never dearer;
- `load`: fewer arrivals, or fewer requests in flight, are never dearer;
- `wider`: more accelerators, formats, engines or terms to choose from are never dearer;
- `price`: where every offer of one accelerator is twice as dear, that accelerator does not win if it did not before,
  and the plan is never cheaper.

Prints the comparisons and the broken ones by law; the exit code is 1 where one is broken.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from tonnage import catalog
from tonnage.domain.money import Price
from tonnage.domain.plan import ServeOption
from tonnage.errors import TonnageError
from tonnage.planning.requests.serve import serve_request
from tonnage.planning.serve.plan import serve_options
from tonnage.pricing.bills import by_trust_and_cost

TODAY: Final = date(2026, 11, 21)
MODELS: Final = (
    "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct", "13B", "Qwen/Qwen3-32B",
    "mistralai/Mixtral-8x7B-v0.1", "openai/gpt-oss-120b", "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-235B-A22B",
)  # fmt: skip
ACCELERATORS: Final = (
    "A100",
    "H100",
    "H200",
    "L40S",
    "B200",
    "MI300X",
    "L4",
    "A10G",
    "RTX-4090",
    "B300",
    "L40",
    "A6000",
)
TRAFFIC: Final = ("chat", "rag", "agent", "code")
TTFT_MS: Final = (150, 300, 500, 800, 1200, 2000, 4000)
TPOT_MS: Final = (8, 12, 20, 30, 50, 80, 120)
RATES: Final = (0.2, 1.0, 3.0, 8.0, 20.0, 60.0)
CLIENTS: Final = (1, 4, 16, 60, 250)
ROUNDING: Final = 1e-9

Fields = dict[str, Any]


class Broken(NamedTuple):
    """A law that a pair of plans breaks."""

    law: str
    asked: Fields
    other: Fields
    usd: float
    usd_other: float


def drawn(draw: random.Random) -> Fields:
    """A question that an engineer may ask."""
    asked: Fields = {
        "model": draw.choice(MODELS), "traffic": draw.choice(TRAFFIC), "quick": True,
        "accelerator": draw.sample(ACCELERATORS, draw.choice((1, 2, 3))),
        "confidence": draw.choice((0.6, 0.8, 0.8, 0.9)),
    }  # fmt: skip
    asked |= {"rate": f"{draw.choice(RATES)}/s"} if draw.random() < 0.75 else {"concurrency": draw.choice(CLIENTS)}
    which = draw.choice(("ttft", "tpot", "both", "both"))
    if which != "tpot":
        asked["ttft"] = f"{draw.choice(TTFT_MS)} ms"
    if which != "ttft":
        asked["tpot"] = f"{draw.choice(TPOT_MS)} ms"
    return asked


def planned(asked: Fields) -> tuple[ServeOption, ...] | None:
    """The options in their order; None where the question is refused."""
    try:
        return serve_options(serve_request(asked), today=TODAY)
    except TonnageError:
        return None


def cost(options: tuple[ServeOption, ...]) -> tuple[bool, float]:
    """
    Of the first option, infinite where none has the confidence; prices of sellers rank before all others. [USD/h]
    """
    if not options or not options[0].sure:
        return True, math.inf
    return by_trust_and_cost(options[0].bill)


def dearer_than(one: tuple[bool, float], other: tuple[bool, float]) -> bool:
    """Whether a cost ranks behind another, rounding aside."""
    return one[0] > other[0] or (one[0] == other[0] and one[1] > other[1] * (1.0 + ROUNDING))


def looser(asked: Fields, draw: random.Random) -> Iterator[tuple[str, Fields]]:
    """Questions whose answer may not be dearer, by law."""
    for name in ("ttft", "tpot"):
        if name in asked:
            yield "objective", asked | {name: f"{float(asked[name].split()[0]) * draw.uniform(1.02, 2.5):.4g} ms"}
    yield "confidence", asked | {"confidence": asked["confidence"] - draw.uniform(0.02, 0.3)}
    if "rate" in asked:
        yield "load", asked | {"rate": f"{float(asked['rate'][:-2]) * draw.uniform(0.1, 0.98):.4g}/s"}
    else:
        yield "load", asked | {"concurrency": asked["concurrency"] * draw.uniform(0.1, 0.98)}
    others = [one for one in ACCELERATORS if one not in asked["accelerator"]]
    yield "wider", asked | {"accelerator": [*asked["accelerator"], *draw.sample(others, 2)]}
    yield "wider", asked | {"engine": ["vllm", "sglang"]}
    yield "wider", asked | {"term": ["on-demand", "spot"]}


@contextmanager
def dearer(accelerator: str) -> Iterator[None]:
    """Every offer of an accelerator at twice its price."""
    known = catalog.offers

    def doubled(*given: Any, **named: Any) -> Any:
        return tuple(
            replace(o, prices=tuple(Price(term=p.term, usd_per_hour=2.0 * p.usd_per_hour) for p in o.prices))
            if o.accelerator == accelerator
            else o
            for o in known(*given, **named)
        )

    catalog.offers = doubled
    try:
        yield
    finally:
        catalog.offers = known


def compared(asked: Fields, draw: random.Random, *, law: str | None) -> Iterator[tuple[str, Broken | None]]:
    """The laws around one question: each with what breaks it."""
    base = planned(asked)
    if base is None:
        return
    for name, other in looser(asked, draw):
        if law not in {None, name}:
            continue
        found = planned(other)
        if found is not None:
            bad = dearer_than(cost(found), cost(base))
            yield name, Broken(name, asked, other, cost(base)[1], cost(found)[1]) if bad else None
    if law in {None, "price"} and base:
        kind = draw.choice(sorted({o.configuration.accelerator for o in base}))
        with dearer(kind):
            after = planned(asked)
        assert after is not None
        won = bool(after) and after[0].configuration.accelerator == kind
        before = base[0].configuration.accelerator == kind
        bad = (won and not before) or dearer_than(cost(base), cost(after))
        yield "price", Broken("price", asked, {"dearer": kind}, cost(base)[1], cost(after)[1]) if bad else None


def sweep(
    questions: int, *, seed: int, law: str | None = None, simulated: bool = False
) -> tuple[Counter[str], list[Broken]]:
    """Comparisons around so many questions, drawn with a seed: comparisons by law, and what is broken."""
    draw, counts, broken = random.Random(seed), Counter[str](), list[Broken]()
    for _ in range(questions):
        asked = drawn(draw) | ({"quick": False} if simulated else {})
        for name, bad in compared(asked, draw, law=law):
            counts[name] += 1
            broken += [bad] if bad is not None else []
    return counts, broken


def main() -> None:
    """Print the laws; the exit code is 1 where one is broken."""
    parser = argparse.ArgumentParser(prog="python -m tools.choices", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--questions", type=int, default=60, help="each is asked about eight times")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--law", choices=("objective", "confidence", "load", "wider", "price"))
    parser.add_argument("--simulated", action="store_true", help="plans as simulated, not by averages alone")
    asked = parser.parse_args()
    start = time.process_time()
    counts, broken = sweep(asked.questions, seed=asked.seed, law=asked.law, simulated=asked.simulated)
    for name, count in counts.items():
        print(f"{name:12s} {count:5d} comparisons, {sum(bad.law == name for bad in broken)} broken")
    for bad in broken[:20]:
        changed = {key: value for key, value in bad.other.items() if bad.asked.get(key) != value}
        print(f"  {bad.law}: {bad.asked} at ${bad.usd:.2f}/h, with {changed} ${bad.usd_other:.2f}/h")
    print(
        f"{asked.questions} questions, {sum(counts.values())} comparisons with another plan, {len(broken)} broken, "
        f"{time.process_time() - start:.0f} CPU s"
    )
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
