"""
Pairs of questions of which the second asks no more or may choose among more: does *cheapest* ever get dearer?

    python -m tools.monotone [--kind serve|batch|train|finetune|rl|fleet] [--pairs N] [--seed S]

Two prices of every plan are compared: *cheapest at 50 %*, the lowest among its options that have at least an even
chance, and *cheapest at the asked confidence*. The second of a pair has a looser TTFT, TPOT, deadline, budget or
confidence (no less than even), or one more part, format, engine, provider or term, or more accelerators to choose from.
Options in weights that nobody published, and unasked those of fewer than eight bits, rank behind those that load,
whatever they cost, as do those at a price that no seller states.
Both are asked through `answer`, as a request file is. Questions are drawn as for the laws of `tools/choices.py`, of
serving also those that are simulated. Pairs that got dearer are printed one a line; the exit code is 1 where there is
any. Runs that have no deadline, and that no count allowed ends within what is called patience, are not compared: there
the largest count of each part leads, so that the run ends, and costs a little more for each accelerator.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from tools.choices import (
    ACCELERATORS,
    DATACENTER,
    KINDS,
    RATES,
    TODAY,
    TPOT_MS,
    TTFT_MS,
    Cost,
    Draws,
    Fields,
    cost_of,
    dearer_than,
    kind_of,
    patience_of,
)  # fmt: skip

from tonnage.catalog import NOTHING
from tonnage.catalog.hub.resolve import resolve_text
from tonnage.domain.plan import PlanHeader, RankedPlan, ServePlan
from tonnage.domain.requests.serve import Batch, Serve
from tonnage.errors import TonnageError
from tonnage.questions.ask import answer
from tonnage.questions.fleet.answer import FleetPlan
from tonnage.questions.serve.limits import starts, unmade

EVEN: Final = 0.5
NEVER: Final = Cost(secondary=True, late=True, amount=math.inf)
PROVIDERS: Final = ("aws", "gcp", "azure", "lambda", "runpod", "verda", "hyperstack", "nebius", "crusoe", "oci")
FORMATS: Final = {"serve": ("bf16", "fp8", "nvfp4", "int4", "awq"), "batch": ("bf16", "fp8", "nvfp4", "int4", "awq")}
ENGINES: Final = ("vllm", "sglang", "trtllm")
SCALED: Final = (("ttft", "ms"), ("tpot", "ms"), ("deadline", "days"), ("budget", "USD"))
FLEET_MODELS: Final = ("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-32B", "openai/gpt-oss-120b")


class Cheapest(NamedTuple):
    """The two prices of a plan; `NEVER` where nothing has the chance."""

    even: Cost
    asked: Cost


class Dearer(NamedTuple):
    """A pair of which the second is dearer though it asks less."""

    price: str
    changed: str
    first: Fields
    second: Fields
    before: Cost
    after: Cost


def cheapest(plan: PlanHeader[Any], *, patience_s: float = math.inf) -> Cheapest:
    """The two prices of a plan: of an hour of service, of a whole run, batch or fleet."""
    if isinstance(plan, FleetPlan):
        found = Cost(False, False, plan.bill.value) if plan.bill is not None else NEVER
        return Cheapest(found, found)
    assert isinstance(plan, RankedPlan)
    options = plan.options

    def cost(option: Any) -> Cost:
        found = cost_of(option, patience_s=patience_s)
        # What somebody has to quantise first stands behind what loads, as prices that no seller states do.
        return found._replace(secondary=found.secondary or _lacks_checkpoint(plan, option))

    def least(kept: Iterable[Any]) -> Cost:
        return min(map(cost, kept), default=NEVER)

    even = least(o for o in options if o.chance is None or o.chance >= EVEN)
    if isinstance(plan, ServePlan) and options:
        behind = all(cost(option).secondary for option in options)
        even = min(even, *(Cost(behind, False, p.usd_per_hour) for p in plan.confidence_prices), NEVER)
    return Cheapest(even, least(o for o in options if o.sure))


def _lacks_checkpoint(plan: RankedPlan[Any, Any], option: Any) -> bool:
    """
    Whether an option of a service or batch is in weights that nobody published, or in ones that are only looked at
    where no other serves: of fewer than eight bits, unless asked for.
    """
    request = plan.request
    if not isinstance(request, Serve | Batch):
        return False
    run, model = option.configuration, resolve_text(request.model, additions=NOTHING)
    as_serve = Serve(model=request.model, lengths=request.lengths)
    given = request.precisions or starts(run.precision, as_serve, model=model, engine=run.engine.name)
    return not given or unmade(run, request=request, model=model)


def drawn_fleet(draw: random.Random) -> Fields:
    """A few services, and sometimes a batch, on one fleet."""
    loads: list[Fields] = [
        {
            "model": draw.choice(FLEET_MODELS),
            "rate": f"{draw.choice(RATES[:5])}/s",
            "traffic": draw.choice(("chat", "rag")),
            "ttft": f"{draw.choice(TTFT_MS)} ms",
            "tpot": f"{draw.choice(TPOT_MS[2:])} ms",
        }
        for _ in range(draw.choice((1, 2)))
    ]
    if draw.random() < 0.3:
        load = {"items": "300k", "window": "8 h", "prompt_tokens": 500, "output_tokens": 100}
        loads.append({"model": draw.choice(FLEET_MODELS), **load})
    return {"workloads": loads, "accelerator": draw.sample(DATACENTER, 2)}


def narrowed(asked: Fields, draw: random.Random) -> Fields:
    """A question that sometimes names where, in what, with what, and how many it may use: what a pair then widens."""
    fleet, kind = "workloads" in asked, "" if "workloads" in asked else kind_of(asked)
    more: Fields = {}
    if draw.random() < 0.4:
        more["provider"] = draw.sample(PROVIDERS, draw.choice((2, 4)))
    if not fleet and draw.random() < 0.3:
        more["max_accelerators"] = draw.choice((2, 4, 8, 16, 64))
    if kind in FORMATS and draw.random() < 0.3:
        more["precision"] = draw.sample(FORMATS[kind], 2)
    if kind in FORMATS and draw.random() < 0.3:
        more["engine"] = [draw.choice(ENGINES)]
    return asked | more


def looser(asked: Fields, draw: random.Random) -> Iterator[tuple[str, Fields]]:
    """Questions that ask less, or leave more to choose from, with what changed."""
    for name, unit in SCALED:
        if name in asked:
            yield name, asked | {name: f"{float(asked[name].split()[0]) * draw.uniform(1.02, 2.5):.5g} {unit}"}
    for i, load in enumerate(asked.get("workloads", ())):
        for name, unit in SCALED:
            if name in load:
                wider = load | {name: f"{float(load[name].split()[0]) * draw.uniform(1.02, 2.5):.5g} {unit}"}
                loads = [*asked["workloads"][:i], wider, *asked["workloads"][i + 1 :]]
                yield name, asked | {"workloads": loads}
    if "confidence" in asked:
        yield "confidence", asked | {"confidence": max(EVEN, round(asked["confidence"] - draw.uniform(0.02, 0.3), 3))}
    if "max_accelerators" in asked:
        yield "count", asked | {"max_accelerators": asked["max_accelerators"] * draw.choice((2, 3, 4))}
    for name, known in (
        ("accelerator", ACCELERATORS), ("provider", PROVIDERS), ("engine", ENGINES), ("precision", FORMATS["serve"])
    ):  # fmt: skip
        others = [one for one in known if one not in asked.get(name, known)]
        if others:
            yield name, asked | {name: [*asked[name], draw.choice(others)]}
    if "provider" in asked:
        # Who names a provider takes strangers' machines too, which nobody else is offered unasked.
        yield "provider", {name: value for name, value in asked.items() if name != "provider"} | {"community": True}
    # A fleet is offered spot and a year's commitment unasked.
    usual = ["on-demand", "spot", *(["reserved-1y", "reserved-3y"] if "workloads" in asked else [])]
    yield "term", asked | {"term": usual}


def prices_of(asked: Fields) -> Cheapest | None:
    """The two prices of a question's plan; None where it is refused."""
    kind = "fleet" if "workloads" in asked else kind_of(asked)
    try:
        plan = answer(kind, asked, today=TODAY)
    except TonnageError:
        return None
    if kind == "fleet":
        return cheapest(plan)
    return cheapest(plan, patience_s=patience_of(asked))


def compared(draws: Draws, *, pairs: int, seed: int, told: Sequence[str] = ()) -> tuple[Counter[str], list[Dearer]]:
    """So many pairs: how many by what changed, and those in which a price rose. `told` keeps to some changes."""
    draw, counts, dearer = random.Random(seed), Counter[str](), list[Dearer]()
    while counts.total() < pairs:
        asked = narrowed(draws(draw), draw)
        others = [one for one in looser(asked, draw) if not told or one[0] in told]
        before = prices_of(asked) if others else None
        if before is None:
            continue
        for changed, other in draw.sample(others, min(3, len(others))):
            after = prices_of(other) if counts.total() < pairs else None
            if after is None:
                continue
            counts[changed] += 1
            for name, old, new in zip(("at 50 %", "as asked"), before, after, strict=True):
                # Less confidence asked is another question to the price at the old one, and the same to that at 50 %.
                if dearer_than(new, old) and not (old.late and new.late):
                    dearer.append(Dearer(name, changed, asked, other, old, new))
                    print(line(dearer[-1]), flush=True)
    return counts, dearer


def line(found: Dearer) -> str:
    """A pair as a line: what changed, both prices, and the fields of the first with what is other in the second."""
    other = {
        name: found.second.get(name)
        for name in sorted({*found.first, *found.second})
        if found.second.get(name) != found.first.get(name)
    }
    return (
        f"{found.price} {found.changed}: {_told(found.before)} -> {_told(found.after)}  "
        f"{json.dumps(found.first)} -> {json.dumps(other)}"
    )


def _told(cost: Cost) -> str:
    flags = "".join(word for word, on in ((" secondary", cost.secondary), (" late", cost.late)) if on)
    return f"{cost.amount:.6g}{flags}"


def simulated(draws: Draws) -> Draws:
    """The same questions with a simulator where one has its say."""

    def draw(source: random.Random) -> Fields:
        return {name: value for name, value in draws(source).items() if name != "quick"}

    return draw


DRAWS: Final[dict[str, Draws]] = {
    "serve": simulated(KINDS["serve"]),
    **{kind: KINDS[kind] for kind in ("batch", "train", "finetune", "rl")},
    "fleet": drawn_fleet,
}


def main() -> None:
    """Print the pairs that got dearer and a count for each kind; the exit code is 1 where there are any."""
    parser = argparse.ArgumentParser(prog="python -m tools.monotone", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--kind", choices=DRAWS, nargs="+", default=list(DRAWS))
    parser.add_argument("--pairs", type=int, default=1000, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--change", nargs="+", default=[], help="only pairs that differ in these fields")
    asked = parser.parse_args()
    any_dearer = False
    for kind in asked.kind:
        start = time.process_time()
        counts, dearer = compared(DRAWS[kind], pairs=asked.pairs, seed=asked.seed, told=asked.change)
        by = Counter(found.price for found in dearer)
        told = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        took_s = time.process_time() - start
        print(
            f"{kind}: {counts.total()} pairs ({told}), dearer: {by['at 50 %']} at 50 %, {by['as asked']} as asked; "
            f"{took_s:.0f} CPU s"
        )
        any_dearer |= bool(dearer)
    sys.exit(any_dearer)


if __name__ == "__main__":
    main()
