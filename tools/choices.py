"""
Laws that no choice between options may break, tried on plans drawn at random.

    python -m tools.choices [--kind serve|train] [--questions N] [--seed S] [--law NAME] [--simulated]

Each law asks one question twice and compares what the first option costs (an hour of service, a whole run; where a
budget alone limits a run, its time); a plan in which no option has the confidence asked for counts as infinitely dear:

- `objective`: a looser TTFT, TPOT, deadline or budget is never dearer; `confidence`: less of it is never dearer;
- `load`: fewer arrivals, or fewer requests in flight, or fewer tokens to train on in the same batches, are
  never dearer;
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from tonnage import catalog
from tonnage.domain.money import Price
from tonnage.domain.plan import ServeOption
from tonnage.domain.train_plan import TrainOption
from tonnage.errors import TonnageError
from tonnage.planning.requests.serve import serve_request
from tonnage.planning.requests.train import finetune_request, train_request
from tonnage.planning.serve.plan import serve_options
from tonnage.planning.train.plan import train_options
from tonnage.pricing.bills import by_trust_and_cost
from tonnage.units import read

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
TRAINED: Final = (
    "meta-llama/Llama-3.2-1B", "7B", "meta-llama/Meta-Llama-3.1-8B", "13B", "30B", "meta-llama/Meta-Llama-3.1-70B",
    "mistralai/Mixtral-8x7B-v0.1",
)  # fmt: skip
TOKENS: Final = {"pretrain": ("10B", "100B", "1T"), "full": ("20M", "200M"), "lora": ("20M", "200M"), "qlora": ("50M",)}
ROUNDING: Final = 1e-9

Fields = dict[str, Any]
Draws = Callable[[random.Random], Fields]
Options = tuple[ServeOption, ...] | tuple[TrainOption, ...]


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


def drawn_run(draw: random.Random) -> Fields:
    """A run to train or fine-tune that an engineer may ask for."""
    method = draw.choice(("pretrain", "pretrain", "full", "lora", "qlora"))
    long = method == "pretrain"
    asked: Fields = {
        "model": draw.choice(TRAINED),
        "tokens": draw.choice(TOKENS[method]),
        "accelerator": draw.sample(ACCELERATORS, draw.choice((1, 2, 3))),
        "confidence": draw.choice((0.6, 0.8, 0.8, 0.9)),
    }
    asked |= {} if long else {"method": method}
    # Where it is open, shorter runs take smaller batches, which are slower: another job, not less of the same.
    asked |= {"global_batch": draw.choice((256, 1024)) if long else 64} if draw.random() < 0.6 else {}
    which = draw.choice(("deadline", "deadline", "budget", "both"))
    if which != "budget":
        asked["deadline"] = f"{draw.choice((4, 10, 30, 90) if long else (0.2, 0.5, 1, 3))} days"
    if which != "deadline":
        asked["budget"] = f"{draw.choice((5e3, 3e4, 2e5, 2e6) if long else (20, 100, 500))} USD"
    return asked


def planned(asked: Fields) -> Options | None:
    """The options in their order; None where the question is refused."""
    try:
        if "tokens" not in asked:
            return serve_options(serve_request(asked), today=TODAY)
        request = finetune_request(asked) if "method" in asked else train_request(asked)
        return train_options(request, additions=catalog.NOTHING, today=TODAY)
    except TonnageError:
        return None


def cost(options: Options, *, fastest: bool = False) -> tuple[bool, float]:
    """
    Of the first option, infinite where none has the confidence; prices of sellers rank before all others.

    An hour of service, or a whole run [USD]; with `fastest` the run's time [s].
    """
    if not options or not options[0].sure:
        return True, math.inf
    first, (secondary, usd) = options[0], by_trust_and_cost(options[0].bill)
    if isinstance(first, TrainOption):
        return secondary, first.run.wall_s.value if fastest else first.cost.value
    return secondary, usd


def by_time(asked: Fields) -> bool:
    """Whether the fastest leads: only money limits the run."""
    return "budget" in asked and "deadline" not in asked


def dearer_than(one: tuple[bool, float], other: tuple[bool, float]) -> bool:
    """Whether a cost ranks behind another, rounding aside."""
    return one[0] > other[0] or (one[0] == other[0] and one[1] > other[1] * (1.0 + ROUNDING))


def looser(asked: Fields, draw: random.Random) -> Iterator[tuple[str, Fields]]:
    """Questions whose answer may not be dearer, by law."""
    for name in ("ttft", "tpot"):
        if name in asked:
            yield "objective", asked | {name: f"{float(asked[name].split()[0]) * draw.uniform(1.02, 2.5):.4g} ms"}
    for name, unit in (("deadline", "days"), ("budget", "USD")):
        if name in asked:
            yield "objective", asked | {name: f"{float(asked[name].split()[0]) * draw.uniform(1.02, 2.5):.5g} {unit}"}
    yield "confidence", asked | {"confidence": asked["confidence"] - draw.uniform(0.02, 0.3)}
    if "global_batch" in asked:
        yield "load", asked | {"tokens": read(asked["tokens"], "tokens") * draw.uniform(0.1, 0.98)}
    elif "rate" in asked:
        yield "load", asked | {"rate": f"{float(asked['rate'][:-2]) * draw.uniform(0.1, 0.98):.4g}/s"}
    elif "concurrency" in asked:
        yield "load", asked | {"concurrency": asked["concurrency"] * draw.uniform(0.1, 0.98)}
    others = [one for one in ACCELERATORS if one not in asked["accelerator"]]
    yield "wider", asked | {"accelerator": [*asked["accelerator"], *draw.sample(others, 2)]}
    if "tokens" not in asked:
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
    base, fastest = planned(asked), by_time(asked)
    if base is None:
        return
    now = cost(base, fastest=fastest)
    for name, other in looser(asked, draw):
        if law not in {None, name}:
            continue
        found = planned(other)
        if found is not None:
            then = cost(found, fastest=fastest)
            yield name, Broken(name, asked, other, now[1], then[1]) if dearer_than(then, now) else None
    if law in {None, "price"} and base:
        kind = draw.choice(sorted({o.configuration.accelerator for o in base}))
        with dearer(kind):
            after = planned(asked)
        assert after is not None
        won = bool(after) and after[0].configuration.accelerator == kind
        before = base[0].configuration.accelerator == kind
        then = cost(after, fastest=fastest)
        bad = (won and not before) or dearer_than(now, then)
        yield "price", Broken("price", asked, {"dearer": kind}, now[1], then[1]) if bad else None


def sweep(
    questions: int, *, seed: int, law: str | None = None, simulated: bool = False, draws: Draws = drawn
) -> tuple[Counter[str], list[Broken]]:
    """Comparisons around so many questions, drawn with a seed: comparisons by law, and what is broken."""
    draw, counts, broken = random.Random(seed), Counter[str](), list[Broken]()
    for _ in range(questions):
        asked = draws(draw) | ({"quick": False} if simulated else {})
        for name, bad in compared(asked, draw, law=law):
            counts[name] += 1
            broken += [bad] if bad is not None else []
    return counts, broken


def main() -> None:
    """Print the laws; the exit code is 1 where one is broken."""
    parser = argparse.ArgumentParser(prog="python -m tools.choices", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--kind", choices=("serve", "train"), default="serve")
    parser.add_argument("--questions", type=int, default=60, help="each is asked about eight times")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--law", choices=("objective", "confidence", "load", "wider", "price"))
    parser.add_argument("--simulated", action="store_true", help="plans as simulated, not by averages alone")
    asked = parser.parse_args()
    start = time.process_time()
    draws = drawn if asked.kind == "serve" else drawn_run
    counts, broken = sweep(asked.questions, seed=asked.seed, law=asked.law, simulated=asked.simulated, draws=draws)
    for name, count in counts.items():
        print(f"{name:12s} {count:5d} comparisons, {sum(bad.law == name for bad in broken)} broken")
    for bad in broken[:20]:
        changed = {key: value for key, value in bad.other.items() if bad.asked.get(key) != value}
        print(f"  {bad.law}: {bad.asked} at {bad.usd:.6g}, with {changed} {bad.usd_other:.6g}")
    print(
        f"{asked.questions} questions, {sum(counts.values())} comparisons with another plan, {len(broken)} broken, "
        f"{time.process_time() - start:.0f} CPU s"
    )
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
