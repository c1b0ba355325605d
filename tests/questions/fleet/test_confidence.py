"""A fleet holds the confidence of each workload; more of it, more load or a tighter objective never cost less."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.sweeps import FULL, examples

import tonnage

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
OFFERS = {"provider": "aws", "region": "us-east-1", "accelerator": "L4,A10G,L40S,H100", "term": "on-demand"}
CHAT: dict[str, Any] = {"name": "chat", "model": MODEL, "rate": 6.0, "traffic": "chat", "ttft": 1.0, "tpot": 0.06}
CODE: dict[str, Any] = {**CHAT, "name": "code", "model": "Qwen/Qwen2.5-Coder-7B", "traffic": "code", "rate": 2.0}
NIGHT: dict[str, Any] = {"name": "night", "kind": "batch", "model": MODEL, "items": "400k", "window": "22-6"}
SAME = 1e-6
ROUNDING = 1e-9


def planned(*workloads: dict[str, Any], **more: Any) -> Any:
    return tonnage.plan_fleet(**{**OFFERS, "workloads": list(workloads), **more})


def cost(plan: Any) -> float:
    return plan.bill.value if plan.feasible and plan.bill is not None else float("inf")


@pytest.mark.parametrize("seed", range(examples(2, full=8)))
def test_more_confidence_more_load_and_tighter_objectives_never_cost_less(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searched to the end, so that the gap of a search is no excuse."""
    monkeypatch.setattr("tonnage.questions.fleet.plan.QUICK_GAP", 0.0)
    rng = random.Random(seed)
    sizes = {"rate": rng.uniform(0.5, 30.0), "ttft": rng.uniform(0.3, 2.0), "tpot": rng.uniform(0.02, 0.08)}
    base, sure = {**rng.choice([CHAT, CODE]), **sizes}, rng.choice([0.6, 0.7, 0.8])
    beside = rng.sample([NIGHT], rng.randrange(2))

    def asked(confidence: float = sure, **changed: float) -> float:
        some = OFFERS["accelerator"] if FULL else "L4,H100"
        return cost(planned({**base, **changed}, *beside, confidence=confidence, accelerator=some, quick=True))

    own = asked()
    factor = rng.uniform(1.1, 1.8)
    assert asked(min(0.99, sure + rng.uniform(0.05, 0.2))) >= own * (1.0 - SAME)
    assert asked(rate=base["rate"] / factor) <= own * (1.0 + SAME)
    assert asked(ttft=base["ttft"] * factor) <= own * (1.0 + SAME)
    assert asked(tpot=base["tpot"] * factor) <= own * (1.0 + SAME)


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95])
def test_a_fleet_of_one_workload_takes_as_many_replicas_as_its_serving_plan(confidence: float) -> None:
    where = {"provider": "aws", "accelerator": "L40S", "term": "on-demand", "quick": True}
    fields = {key: value for key, value in {**CHAT, "rate": 60.0}.items() if key != "name"}
    serving = tonnage.plan_serve(**where, **fields, confidence=confidence)
    fleet = tonnage.plan_fleet(**where, workloads=[fields], confidence=confidence)
    (mine,) = fleet.replicas
    alike = next(one for one in serving.options if one.configuration == mine.configuration)
    assert mine.hours[0].count == alike.replicas
    assert confidence == 0.5 or alike.replicas > 0.9 * serving.options[0].replicas


def test_the_fleet_holds_the_confidence_and_says_what_ten_points_more_cost() -> None:
    plan = planned(CHAT, CODE, NIGHT, accelerator="L4,L40S", confidence=0.75)
    assert plan.feasible and len(plan.checks) == 2
    assert all(one.chance is not None and one.chance >= 0.75 - ROUNDING for one in plan.checks)
    assert plan.surer.usd_per_month >= plan.bill.value
    surer = planned(CHAT, CODE, NIGHT, accelerator="L4,L40S", confidence=0.85)
    assert plan.surer.usd_per_month == pytest.approx(surer.bill.value, rel=0.05)
    assert "75 % of each workload; 10 points more cost" in plan._repr_html_()


def test_a_workload_may_ask_for_more_than_the_others() -> None:
    plan = planned({**CHAT, "confidence": "95 %"}, CODE, confidence=0.6)
    held = {check.workload: check.chance for check in plan.checks}
    assert held["chat"] >= 0.95 - ROUNDING
    assert held["code"] >= 0.6 - ROUNDING


def test_what_no_accelerator_has_names_the_confidence_that_one_has() -> None:
    tight = {**CHAT, "ttft": 0.3, "tpot": 0.03}
    plan = planned(tight, accelerator="L4", quick=True)
    assert not plan.feasible and plan.binding.limit == "confidence"
    assert "80 % asked for" in (plan.binding.reason or "")
    nearest = float(plan.binding.nearest.removeprefix("confidence ").removesuffix(" %")) / 100.0
    assert plan.binding.short_by == pytest.approx(0.8 - nearest, abs=0.011)
    assert planned(tight, accelerator="L4", confidence=nearest, quick=True).feasible


def test_lengths_that_no_accelerator_takes_surely_enough_are_named() -> None:
    lengths = [
        {"share": "90 %", "prompt_tokens": 200, "output_tokens": 100},
        {"share": "10 %", "prompt_tokens": 3000, "output_tokens": 200},
    ]
    both = {**CHAT, "rate": 1.0, "ttft": 0.5, "tpot": 0.08, "buckets": lengths}
    del both["traffic"]
    plan = planned(both, accelerator="L4", confidence=0.97, quick=True)
    assert not plan.feasible and plan.binding.limit == "confidence"
    assert "a request of 3,000 tokens answered with 200" in (plan.binding.reason or "")


@pytest.mark.parametrize(
    ("workload", "parts", "more"),
    [
        ({"model": "Qwen/Qwen3-32B", "rate": "8/s", "traffic": "rag", "ttft": "800 ms", "tpot": "20 ms"},
         "MI300X,A100", {"tpot": "36.803 ms"}),  # less was found again at the capacity of averages
        ({"model": "openai/gpt-oss-120b", "rate": "8/s", "traffic": "chat", "ttft": "300 ms", "tpot": "20 ms"},
         "MI300X,A100", {"tpot": "30.153 ms"}),  # one scale for all latencies
        ({"model": MODEL, "rate": "20/s", "traffic": "chat", "ttft": "4 s", "tpot": "50 ms"},
         "A100,H200", {"accelerator": "A100,H200,H100"}),  # a spot price was the yardstick of firm ones
    ],
)  # fmt: skip
def test_simulated_fleets_that_ask_less_or_choose_among_more_are_never_dearer(
    workload: dict[str, Any], parts: str, more: dict[str, str]
) -> None:
    own = tonnage.plan_fleet(workloads=[workload], accelerator=parts)
    looser = workload | {name: value for name, value in more.items() if name in workload}
    other = tonnage.plan_fleet(workloads=[looser], accelerator=more.get("accelerator", parts))
    assert cost(other) <= cost(own) * (1.0 + SAME)
