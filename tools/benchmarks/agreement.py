"""
Do `predict`, plans and `simulate` say the same of one load, and does none of them jump?

`python -m tools.benchmarks.agreement [--cases N] [--seed S] [--kind KIND …]`
draws deployments at random (dense models, mixtures of experts, llama.cpp with few slots, prompts of which a cache holds
a part, separate pools) under arrivals at 10 to 80 % of what a replica takes, or clients within it, and compares mean
TTFT and TPOT of the three; whether `saturated` is the most that clients bring; and how far 1 % more of a length, of the
rate or of the step's budget moves them. A jump is named where it has a cause: a prompt that needs one more step of the
budget (`chunk`), or one more request than fits (`seats`). The exit code is 1 where fewer than nine in ten agree.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

import tonnage
from tonnage.core.deployment import Deployment, resolve
from tonnage.core.replica import rank_budget, replica_of, state_of
from tonnage.core.serving_traffic import mean_lengths, open_load
from tonnage.domain.case import ServeCase
from tonnage.domain.requests.serve import Serve
from tonnage.errors import TonnageError

DENSE: Final = (
    "Qwen/Qwen2.5-3B", "mistralai/Mistral-7B-v0.3", "meta-llama/Meta-Llama-3.1-8B", "google/gemma-2-9b",
    "google/gemma-3-27b-it", "Qwen/Qwen3-32B", "meta-llama/Meta-Llama-3.1-70B",
)  # fmt: skip
MIXTURES: Final = (
    "openai/gpt-oss-20b", "Qwen/Qwen3-30B-A3B", "mistralai/Mixtral-8x7B-v0.1", "deepseek-ai/DeepSeek-V2-Lite",
    "zai-org/GLM-4.5-Air", "openai/gpt-oss-120b", "Qwen/Qwen3-235B-A22B", "deepseek-ai/DeepSeek-V3",
)  # fmt: skip
PARTS: Final = ("h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm-180gb", "mi300x", "a100-sxm4-80gb", "l40s")
KINDS: Final = ("dense", "mixture", "llamacpp", "sessions", "pools")
CLOSE: Final = 1.1
"""Ratio within which two numbers agree. [-]"""
JUMP: Final = 1.2
"""Ratio by which 1 % of an input moves a number at most. [-]"""
AGREE: Final = 0.9
"""Of the cases. [-]"""
RAMPS: Final = 40
"""Times the requests in flight that are simulated at a rate: a run of 10,000 with 5,500 of them is a ramp."""
MOST: Final = 250_000
"""Requests simulated at most."""


class Drawn(NamedTuple):
    """One deployment and its load."""

    kind: str
    case: dict[str, Any]
    traffic: dict[str, Any]
    at: Deployment

    @property
    def told(self) -> str:
        """In one line."""
        c, load = self.case, self.traffic.get("rate_per_s")
        said = f"{load:.3g}/s" if load else f"{self.traffic['concurrency']} clients"
        more = {k: c[k] for k in ("engine_options", "sessions") if k in c} or ""
        deployed = f"{c['model']} {c['accelerator']} {c['layout']} {c['engine']}"
        return f"{self.kind} {deployed} {c['isl']:.0f}/{c['osl']:.0f} {said} {more}"


def draw(rng: random.Random, kinds: tuple[str, ...]) -> Drawn | None:
    """A case; none where it does not fit or cannot be asked."""
    kind, tp = rng.choice(kinds), rng.choice((1, 2, 4, 8))
    small = kind == "llamacpp"
    models = DENSE if kind == "dense" else MIXTURES if kind == "mixture" else DENSE[:4] + MIXTURES[:2]
    layout = {"tp": 1 if small else tp}
    if kind == "mixture" and tp > 1 and rng.random() < 0.3:
        layout = {"dp": tp, "ep": tp}
    case: dict[str, Any] = {
        "model": rng.choice(models if small or kind in {"dense", "mixture"} else DENSE + MIXTURES),
        "accelerator": rng.choice(("h100-sxm5-80gb", "rtx-4090", "l40s") if small else PARTS),
        "engine": "llamacpp" if small else rng.choice(("vllm", "sglang", "trtllm")),
        "layout": layout,
        "isl": float(round(math.exp(rng.uniform(math.log(64), math.log(8192))))),
        "osl": float(round(math.exp(rng.uniform(math.log(32), math.log(2048))))),
    }
    if small:
        case |= {"precision": {"weights": "gguf-q4_k_m"}, "engine_options": {"max_num_seqs": rng.choice((1, 4, 8, 16))}}
    if kind == "sessions":
        case["sessions"] = {"prefix_hits": round(rng.uniform(0.1, 0.9), 2)}
    if kind == "pools":
        workers = {"prefill_workers": rng.choice((1, 2)), "decode_workers": rng.choice((1, 2, 3))}
        case["disaggregation"] = {**workers, "prefill": layout, "decode": layout}
    share, by_rate = rng.random(), kind == "sessions" or (kind != "pools" and rng.random() < 0.6)
    try:
        at = resolve(msgspec.convert({**case, "traffic": {"rate_per_s": 1.0}}, ServeCase))
        if not at.pool.verdict.ok:
            return None
        state = open_load(at)
    except TonnageError:
        return None
    traffic: dict[str, Any] = {"rate_per_s": (0.1 + 0.7 * share) * state.full.rate_per_s}
    if not by_rate:
        traffic = {"concurrency": max(1, round(math.exp(share * math.log(min(0.8 * state.most, 256.0)))))}
    return Drawn(kind, case, traffic, at)


def predicted(one: Drawn, **changes: float) -> tuple[float, float]:
    """Mean TTFT and TPOT of `predict`. [s]"""
    traffic = {name: value * changes.get(name, 1.0) for name, value in one.traffic.items()}
    case = {**one.case, **{name: one.case[name] * changes.get(name, 1.0) for name in ("isl", "osl")}}
    found = tonnage.predict({"kind": "serve", **case, "traffic": traffic})
    assert found.ttft_s is not None and found.tpot_s is not None
    return found.ttft_s.mean, found.tpot_s.mean


def planned(one: Drawn) -> tuple[float, float]:
    """Mean TTFT and TPOT of the steady state that a plan evaluates for this configuration. [s]"""
    lengths, rate = mean_lengths(one.at), one.traffic.get("rate_per_s")
    request = Serve(model="", lengths=lengths, rate_per_s=rate, concurrency=one.traffic.get("concurrency"))
    state = state_of(request, replica_of(one.at, lengths))
    point = state.at_rate(rate)[0] if rate else state.at(float(one.traffic["concurrency"]))
    return point.ttft_mean_s, point.tpot_mean_s


def simulated(one: Drawn) -> tuple[float, float]:
    """Mean TTFT and TPOT of `simulate`. [s]"""
    kept = ("model", "accelerator", "engine", "precision", "engine_options", "disaggregation")
    fields = {name: one.case[name] for name in kept if name in one.case}
    fields |= {} if "disaggregation" in fields else {"layout": one.case["layout"]}
    clients, rate = one.traffic.get("concurrency"), one.traffic.get("rate_per_s")
    # Clients start together: what queues then is to be little of the run.
    load = {"concurrency": clients, "requests": max(2000, 200 * clients)} if clients else {}
    if "disaggregation" in fields:
        load["requests"] = min(max(300, 60 * clients), 240 * clients)
    if rate:  # the ramp to a steady state lasts as long as a request
        first_s, token_s = planned(one)
        running = rate * (first_s + token_s * one.case["osl"])
        load = {"rate": f"{rate:.9f}/s", "requests": max(10_000, min(RAMPS * round(running), MOST))}
    lengths = {"prompt_tokens": one.case["isl"], "output_tokens": one.case["osl"]}
    hits = one.case.get("sessions", {}).get("prefix_hits", 0.0)
    found = tonnage.simulate(**fields, traffic={**lengths, **load, "cached_share": hits})
    return found.ttft_s.mean, found.tpot_s.mean


def apart(one: float, other: float) -> float:
    """The larger over the smaller. [-]"""
    return max(one / other, other / one)


def jumps(one: Drawn) -> Iterator[str]:
    """Inputs of which 1 % moves TTFT or TPOT by more than `JUMP`, with the threshold that is crossed, or without."""
    before, budget = predicted(one), rank_budget(one.at, one.case["isl"])
    for name in ("isl", "osl", "rate_per_s"):
        if name in one.traffic or name in one.case:
            after = predicted(one, **{name: 1.01})
            if max(map(apart, before, after)) > JUMP:
                steps = [math.ceil(one.case["isl"] * by / budget) for by in (1.0, 1.01)]
                yield f"{name}: {'chunk' if name == 'isl' and steps[0] < steps[1] else 'unnamed'}"


def main() -> int:
    """Prints who differs, and how many agree by kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", nargs="*", choices=KINDS, default=list(KINDS))
    asked = parser.parse_args()
    rng, seen, good, moved = random.Random(asked.seed), Counter[str](), Counter[str](), Counter[str]()
    while sum(seen.values()) < asked.cases:
        one = draw(rng, tuple(asked.kind))
        if one is None:
            continue
        try:
            first, second = predicted(one), simulated(one)
        except TonnageError as error:
            print(f"left out: {one.told}: {error}")
            continue
        third = first if one.kind == "pools" else planned(one)
        load = "rate" if "rate_per_s" in one.traffic else "clients"
        seen[f"{one.kind} {load}"] += 1
        ratios = [max(apart(a, b), apart(c, b)) for a, b, c in zip(first, second, third, strict=True)]
        good[f"{one.kind} {load} TTFT"] += ratios[0] <= CLOSE
        good[f"{one.kind} {load} TPOT"] += ratios[1] <= CLOSE
        good["both"] += max(ratios) <= CLOSE
        if one.kind != "pools":
            moved.update(jumps(one))
            most, state = open_load(one.at).full.rate_per_s, open_load(one.at, in_flight=True)
            good["saturated"] += all(
                state.at(max(1.0, c * state.most)).rate_per_s <= 1.01 * most for c in (0.1, 0.9, 3.0)
            )
        if max(ratios) > CLOSE:
            told = ", ".join(
                f"{a * 1e3:.4g} / {c * 1e3:.4g} / {b * 1e3:.4g} ms"
                for a, b, c in zip(first, second, third, strict=True)
            )
            print(f"{one.told}: predict / plan / simulate TTFT, TPOT {told}", flush=True)
    for name, count in sorted(seen.items()):
        if count:
            print(
                f"{name}: of {count}, TTFT {good[name + ' TTFT']}, TPOT {good[name + ' TPOT']} within {CLOSE - 1:.0%}"
            )
    alone = sum(count for name, count in seen.items() if not name.startswith("pools"))
    print(f"both within {CLOSE - 1:.0%}: {good['both']} of {sum(seen.values())}")
    print(f"saturated is the most over clients: {good['saturated']} of {alone}")
    print(f"jumps above {JUMP - 1:.0%} for 1 % of an input: {dict(moved)}")
    return good["both"] < AGREE * sum(seen.values())


if __name__ == "__main__":
    sys.exit(main())
