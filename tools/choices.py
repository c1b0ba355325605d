"""
Laws that no choice between options may break, tried on plans drawn at random.

`make laws` asks some of every kind: serve, train, finetune, batch, infer and rl; budgets, fleets and lifecycles are
made of these.

Each law asks one question twice and compares what the first option costs (an hour of service, a whole run or batch;
where a budget alone limits pre-training or RL, its time). A plan in which no option has the confidence asked for counts
as infinitely dear, and a run without a deadline beyond the usual patience of its kind as dearer than those within it:

- `objective`: a looser TTFT, TPOT, latency, deadline or budget is never dearer; `confidence`: less of it is never
  dearer;
- `load`: fewer arrivals, requests in flight, items of a batch, steps, or tokens to train on in the same batches, are
  never dearer;
- `wider`: more accelerators, formats, engines or terms to choose from are never dearer;
- `price`: where every offer of one accelerator is twice as dear, that accelerator does not win if it did not before,
  and the plan is never cheaper.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from msgspec.structs import replace

from tonnage import catalog
from tonnage.domain.batch_plan import BatchOption
from tonnage.domain.infer_plan import InferOption
from tonnage.domain.plan import ServeOption
from tonnage.domain.train_plan import TrainOption
from tonnage.errors import TonnageError
from tonnage.pricing.bills import by_trust_and_cost
from tonnage.questions.ask import answer
from tonnage.questions.rl.question import RlOption
from tonnage.questions.serve.plan import serve_options
from tonnage.questions.serve.question import serve_request
from tonnage.questions.train.job import PATIENCE_S
from tonnage.questions.train.plan import train_options
from tonnage.questions.train.question import finetune_request, train_request
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
SAMPLED: Final = ("ultralytics/yolov8m", "openai/whisper-large-v3", "BAAI/bge-m3", "google/vit-base-patch16-224")
"""Networks: pictures, speech, texts."""
RL_MODELS: Final = ("Qwen/Qwen3-8B", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-32B")
DATACENTER: Final = ("A100", "H100", "H200", "B200", "MI300X")
ROUNDING: Final = 1e-9

Fields = dict[str, Any]
Draws = Callable[[random.Random], Fields]
Option = ServeOption | TrainOption | BatchOption | InferOption | RlOption
Options = tuple[Option, ...]


class Cost(NamedTuple):
    """What a plan is compared by, first things first."""

    secondary: bool
    """At a price that its seller does not state."""
    late: bool
    """A run without a deadline beyond the patience of its kind."""
    amount: float
    """An hour of service, a whole run or batch [USD], or a run's time [s]."""


DEAREST: Final = Cost(secondary=True, late=True, amount=math.inf)
"""Of a plan without an option that has the confidence."""


class Broken(NamedTuple):
    """A law that a pair of plans breaks."""

    law: str
    asked: Fields
    other: Fields
    cost: Cost
    cost_other: Cost


def drawn(draw: random.Random) -> Fields:
    """A question that an engineer may ask."""
    asked: Fields = {"model": draw.choice(MODELS), "traffic": draw.choice(TRAFFIC), "quick": True, **_hardware(draw)}
    asked |= {"rate": f"{draw.choice(RATES)}/s"} if draw.random() < 0.75 else {"concurrency": draw.choice(CLIENTS)}
    which = draw.choice(("ttft", "tpot", "both", "both"))
    if which != "tpot":
        asked["ttft"] = f"{draw.choice(TTFT_MS)} ms"
    if which != "ttft":
        asked["tpot"] = f"{draw.choice(TPOT_MS)} ms"
    return asked


def _hardware(
    draw: random.Random, parts: tuple[str, ...] = ACCELERATORS, *, kinds: tuple[int, ...] = (1, 2, 3)
) -> Fields:
    """Accelerators to choose from, and how sure the answer must be."""
    found = draw.sample(parts, draw.choice(kinds))
    return {"accelerator": found, "confidence": draw.choice((0.6, 0.8, 0.8, 0.9))}


def drawn_run(draw: random.Random) -> Fields:
    """A run of pre-training that an engineer may ask for."""
    return _run(draw, method="pretrain")


def drawn_finetune(draw: random.Random) -> Fields:
    """A fine-tune that an engineer may ask for."""
    return _run(draw, method=draw.choice(("full", "lora", "qlora")))


def _run(draw: random.Random, *, method: str) -> Fields:
    """A run of one method, within a deadline, a budget, both, or what is usual for its kind."""
    long = method == "pretrain"
    asked: Fields = {
        "model": draw.choice(TRAINED),
        "tokens": draw.choice(TOKENS[method]),
        **_hardware(draw),
    }
    asked |= {} if long else {"method": method}
    # Where it is open, shorter runs take smaller batches, which are slower: another job, not less of the same.
    asked |= {"global_batch": draw.choice((256, 1024)) if long else 64} if draw.random() < 0.6 else {}
    which = draw.choice(("deadline", "deadline", "budget", "both", "neither"))
    if which in {"deadline", "both"}:
        asked["deadline"] = f"{draw.choice((4, 10, 30, 90) if long else (0.2, 0.5, 1, 3))} days"
    if which in {"budget", "both"}:
        asked["budget"] = f"{draw.choice((5e3, 3e4, 2e5, 2e6) if long else (20, 100, 500))} USD"
    return asked


def drawn_batch(draw: random.Random) -> Fields:
    """Prompts to answer by a time."""
    return {
        "model": draw.choice(MODELS),
        "items": draw.choice(("20k", "300k", "3M", "30M")),
        "prompt_tokens": draw.choice((200, 1000, 4000)),
        "output_tokens": draw.choice((20, 200, 800)),
        **_hardware(draw),
    } | _limits(draw, deadlines=(0.1, 0.5, 2, 7), budgets=(100, 1e3, 1e4))


def drawn_samples(draw: random.Random) -> Fields:
    """A load of pictures, sounds or texts."""
    model = draw.choice(SAMPLED)
    asked: Fields = {"model": model, **_hardware(draw)}
    if "whisper" in model:
        return asked | {"audio": draw.choice((20, 300, 5000))}
    asked |= {"rate": f"{draw.choice((20, 400, 3000, 20000))}/s"}
    asked |= {"seq_len": draw.choice((64, 512))} if "bge" in model else {}
    return asked | ({"latency": f"{draw.choice((10, 30, 100, 500))} ms"} if draw.random() < 0.75 else {})


def drawn_rl(draw: random.Random) -> Fields:
    """Steps of reinforcement learning."""
    return {
        "model": draw.choice(RL_MODELS),
        "steps": draw.choice((50, 200, 1000)),
        "response_tokens": draw.choice((500, 2000, 6000)),
        **_hardware(draw, DATACENTER, kinds=(1, 2)),
    } | _limits(draw, deadlines=(0.5, 2, 7, 30), budgets=(300, 3e3, 3e4))


def _limits(draw: random.Random, *, deadlines: tuple[float, ...], budgets: tuple[float, ...]) -> Fields:
    """A deadline, a budget, or both."""
    which, asked = draw.choice(("deadline", "deadline", "budget", "both")), Fields()
    if which != "budget":
        asked["deadline"] = f"{draw.choice(deadlines)} days"
    if which != "deadline":
        asked["budget"] = f"{draw.choice(budgets)} USD"
    return asked


def kind_of(asked: Fields) -> str:
    """The kind of plan that a question asks for, by its load."""
    loads = {"tokens": "train", "items": "batch", "audio": "infer", "steps": "rl"}
    found = next((kind for name, kind in loads.items() if name in asked), "serve")
    found = "finetune" if "method" in asked else found
    return "infer" if asked["model"] in SAMPLED else found


def planned(asked: Fields) -> Options | None:
    """The options in their order; None where the question is refused."""
    kind = kind_of(asked)
    try:
        if kind in {"batch", "infer", "rl"}:
            return getattr(answer(kind, asked, today=TODAY), "options", ())
        if kind == "serve":
            return serve_options(serve_request(asked), today=TODAY)
        request = finetune_request(asked) if kind == "finetune" else train_request(asked)
        return train_options(request, additions=catalog.NOTHING, today=TODAY)
    except TonnageError:
        return None


def cost(options: Options, *, patience_s: float = math.inf) -> Cost:
    """
    Of the first option, infinite where none has the confidence; sellers' own prices, then runs in time, rank first.

    An hour of service, or a whole run [USD]. `patience_s` is what a run may take.
    """
    if not options or not options[0].sure:
        return DEAREST
    return cost_of(options[0], patience_s=patience_s)


def cost_of(option: Option, *, patience_s: float = math.inf) -> Cost:
    """Of one option, as `cost` says; infinite where nobody rents what it needs."""
    if option.bill is None:
        return DEAREST
    secondary, usd = by_trust_and_cost(option.bill)
    if isinstance(option, TrainOption | RlOption):
        wall_s = option.run.wall_s.value
        return Cost(secondary, wall_s > patience_s, option.cost.value)
    return Cost(secondary, False, option.cost.value if isinstance(option, BatchOption) else usd)


def accelerator_of(option: Option) -> str:
    """What an option runs on."""
    return option.accelerator if isinstance(option, InferOption) else option.configuration.accelerator


def patience_of(asked: Fields) -> float:
    """What a run takes at most where runs that do come first: no deadline is given, and the cheapest leads. [s]"""
    return math.inf if "deadline" in asked else PATIENCE_S.get(kind_of(asked), math.inf)


def dearer_than(one: Cost, other: Cost) -> bool:
    """Whether a cost ranks behind another, rounding aside."""
    return one[:2] > other[:2] or (one[:2] == other[:2] and one.amount > other.amount * (1.0 + ROUNDING))


def looser(asked: Fields, draw: random.Random) -> Iterator[tuple[str, Fields]]:
    """Questions whose answer may not be dearer, by law."""
    for name in ("ttft", "tpot", "latency"):
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
    elif "items" in asked:
        yield "load", asked | {"items": math.ceil(read(asked["items"], "count") * draw.uniform(0.1, 0.98))}
    elif "steps" in asked:
        yield "load", asked | {"steps": math.ceil(asked["steps"] * draw.uniform(0.1, 0.98))}
    for name in ("concurrency", "audio"):
        if name in asked:
            yield "load", asked | {name: asked[name] * draw.uniform(0.1, 0.98)}
    others = [one for one in ACCELERATORS if one not in asked["accelerator"]]
    yield "wider", asked | {"accelerator": [*asked["accelerator"], *draw.sample(others, 2)]}
    if kind_of(asked) in {"serve", "batch"}:
        yield "wider", asked | {"engine": ["vllm", "sglang"]}
    yield "wider", asked | {"term": ["on-demand", "spot"]}


@contextmanager
def dearer(accelerator: str) -> Iterator[None]:
    """Every offer of an accelerator at twice its price."""
    known = catalog.offers

    def doubled(*given: Any, **named: Any) -> Any:
        return tuple(
            replace(o, prices=tuple(replace(p, usd_per_hour=2.0 * p.usd_per_hour) for p in o.prices))
            if o.accelerator == accelerator
            else o
            for o in known(*given, **named)
        )

    with patch.object(catalog, "offers", doubled):
        yield


def compared(asked: Fields, draw: random.Random, *, law: str | None) -> Iterator[tuple[str, Broken | None]]:
    """The laws around one question: each with what breaks it."""
    base, patience_s = planned(asked), patience_of(asked)
    if base is None:
        return
    now = cost(base, patience_s=patience_s)
    for name, other in looser(asked, draw):
        if law not in {None, name}:
            continue
        found = planned(other)
        if found is not None:
            then = cost(found, patience_s=patience_s)
            yield name, Broken(name, asked, other, now, then) if dearer_than(then, now) else None
    if law in {None, "price"} and base:
        kind = draw.choice(sorted(set(map(accelerator_of, base))))
        with dearer(kind):
            after = planned(asked)
        assert after is not None
        won = bool(after) and accelerator_of(after[0]) == kind
        before = accelerator_of(base[0]) == kind
        then = cost(after, patience_s=patience_s)
        bad = (won and not before) or dearer_than(now, then)
        yield "price", Broken("price", asked, {"dearer": kind}, now, then) if bad else None


KINDS: Final[dict[str, Draws]] = {
    "serve": drawn, "train": drawn_run, "finetune": drawn_finetune, "batch": drawn_batch, "infer": drawn_samples,
    "rl": drawn_rl,
}  # fmt: skip
"""Kind of plan -> how its questions are drawn."""


def sweep(
    questions: int, *, seed: int, law: str | None = None, draws: Draws = drawn
) -> tuple[Counter[str], list[Broken]]:
    """Comparisons around so many questions, drawn with a seed: comparisons by law, and what is broken."""
    draw, counts, broken = random.Random(seed), Counter[str](), list[Broken]()
    for _ in range(questions):
        asked = draws(draw)
        for name, bad in compared(asked, draw, law=law):
            counts[name] += 1
            broken += [bad] if bad is not None else []
    return counts, broken
