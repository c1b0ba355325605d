"""
Are the page's sliders right? `python -m tools.benchmarks.sliders [QUESTIONS [SEED]]`

Random questions to serve, each at a random step of one of its sliders: price and replicas of the step as the page shows
it while one drags, beside the whole plan that is asked when one lets go; and the CPU seconds of both. Fails where fewer
than 95 % have the same replicas, or one is off by more than 5 % of the price.
"""

from __future__ import annotations

import random
import sys
import time
from statistics import median
from typing import Any, Final

import tonnage
from tonnage import catalog
from tonnage.core.kept_replicas import kept_replicas
from tonnage.web.tuning import sliders, step_of

MODELS: Final = ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct", "Qwen/Qwen3-30B-A3B")
OFF: Final = 0.05
SAME: Final = 0.95


def main() -> int:
    """Ask, compare, print a line each and the shares."""
    count, seed = map(int, [*sys.argv[1:], *("20", "1")[len(sys.argv) - 1 :]])
    draw = random.Random(seed)
    rows = []
    with kept_replicas(1024):
        for _ in range(count):
            rows.append(_one(draw))
            told, exact, step_s, plan_s = rows[-1]
            print(f"{told[0]:9.2f} $/h {told[1]:3} replicas, plan {exact[0]:9.2f} $/h {exact[1]:3}, "
                  f"CPU {step_s:5.2f} and {plan_s:5.2f} s", flush=True)  # fmt: skip
    price = [abs(told[0] / exact[0] - 1.0) for told, exact, *_ in rows if exact[0]]
    same = sum(told[1] == exact[1] for told, exact, *_ in rows) / len(rows)
    step_s, plan_s = (median(row[place] for row in rows) for place in (2, 3))
    print(f"{len(rows)} steps: the same replicas {same:.0%}, price off by at most {max(price, default=0.0):.1%}; "
          f"median CPU {step_s:.2f} s a step, {plan_s:.2f} s a plan")  # fmt: skip
    return 0 if same >= SAME and max(price, default=0.0) <= OFF else 1


def _one(draw: random.Random) -> tuple[tuple[float, int], tuple[float, int], float, float]:
    """A question at a random step: price and replicas as the slider has them and as the plan, and CPU seconds."""
    given: dict[str, Any] = {
        "model": draw.choice(MODELS), "traffic": draw.choice(("chat", "code", "rag", "summarise")),
        "rate": f"{draw.uniform(0.5, 30):.2g}/s", "ttft": draw.choice(("500 ms", "1 s", "3 s")),
        "tpot": draw.choice(("30 ms", "50 ms", "100 ms")),
        "quick": draw.choice(("true", "false")),
    }  # fmt: skip
    base = tonnage.plan_serve(**{**given, "quick": True})
    found = sliders(base, given)
    if not found:
        return _one(draw)
    slider = draw.choice(found)
    asked = {**given, slider.name: draw.choice(slider.steps)}
    began = time.process_time()
    told = step_of(asked, additions=catalog.NOTHING)
    middle = time.process_time()
    plan = tonnage.plan_serve(**{**asked, "quick": asked["quick"] == "true"})
    ended = time.process_time()
    # What the page calls cheapest: a price of third parties, which may be lower, is no choice beside a seller's own.
    first = next((plan.options[one.option] for one in plan.choices if one.name == "cheapest"), None)
    exact = (first.cost.value, first.replicas) if first is not None and first.sure else (0.0, 0)
    return (told.usd_per_hour or 0.0, told.replicas), exact, middle - began, ended - middle


if __name__ == "__main__":
    sys.exit(main())
