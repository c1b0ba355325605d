"""A fleet holds the confidence of each workload; more of it, more load or a tighter objective never cost less."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from tests.sweeps import FULL, examples

from tonnage import catalog
from tonnage.questions.answers import document_of
from tonnage.questions.fleet import plan as planning
from tonnage.questions.fleet.answer import FleetPlan
from tonnage.questions.fleet.candidate import candidates
from tonnage.questions.fleet.plan import plan_fleet
from tonnage.questions.fleet.question import fleet_request
from tonnage.questions.fleet.stock import stock
from tonnage.questions.serve.plan import plan_serve
from tonnage.questions.serve.question import serve_request

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
OFFERS = {"provider": "aws", "region": "us-east-1", "accelerator": "L4,A10G,L40S,H100", "term": "on-demand"}
CHAT: dict[str, Any] = {"name": "chat", "model": MODEL, "rate": 6.0, "traffic": "chat", "ttft": 1.0, "tpot": 0.06}
CODE: dict[str, Any] = {**CHAT, "name": "code", "model": "Qwen/Qwen2.5-Coder-7B", "traffic": "code", "rate": 2.0}
NIGHT: dict[str, Any] = {"name": "night", "kind": "batch", "model": MODEL, "items": "400k", "window": "22-6"}
SAME = 1e-6
ROUNDING = 1e-9


def planned(*workloads: dict[str, Any], **more: Any) -> FleetPlan:
    return plan_fleet(fleet_request({**OFFERS, "workloads": [_written(one) for one in workloads], **more}))


def _written(workload: dict[str, Any]) -> dict[str, Any]:
    units = {"rate": "/s", "ttft": " s", "tpot": " s"}
    return {name: f"{v:g}{units[name]}" if name in units else v for name, v in workload.items()}


def cost(plan: FleetPlan) -> float:
    return plan.bill.value if plan.feasible and plan.bill is not None else float("inf")


@pytest.mark.parametrize("seed", range(examples(2, full=8)))
def test_more_confidence_more_load_and_tighter_objectives_never_cost_less(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searched to the end, so that the gap of a search is no excuse."""
    monkeypatch.setattr(planning, "QUICK_GAP", 0.0)
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
    fields = {key: value for key, value in _written({**CHAT, "rate": 60.0}).items() if key != "name"}
    serving = plan_serve(serve_request({**where, **fields, "confidence": confidence}))
    fleet = plan_fleet(fleet_request({**where, "workloads": [fields], "confidence": confidence}))
    (mine,) = fleet.replicas
    alike = next(one for one in serving.options if one.configuration == mine.configuration)
    assert mine.hours[0].count == alike.replicas
    assert confidence == 0.5 or alike.replicas > 0.9 * serving.options[0].replicas


def test_the_fleet_holds_the_confidence_and_says_what_ten_points_more_cost() -> None:
    plan = planned(CHAT, CODE, NIGHT, accelerator="L4,L40S", confidence=0.75)
    assert plan.feasible and len(plan.checks) == 2
    assert all(one.chance is not None and one.chance >= 0.75 - ROUNDING for one in plan.checks)
    assert plan.surer is not None and plan.surer.usd_per_month is not None and plan.bill is not None
    assert plan.surer.usd_per_month >= plan.bill.value
    surer = planned(CHAT, CODE, NIGHT, accelerator="L4,L40S", confidence=0.85)
    assert surer.bill is not None
    assert plan.surer.usd_per_month == pytest.approx(surer.bill.value, rel=0.05)
    assert "75 % of each workload; 10 points more cost" in str(document_of(plan).first)


def test_a_workload_may_ask_for_more_than_the_others() -> None:
    plan = planned({**CHAT, "confidence": "95 %"}, CODE, confidence=0.6)
    held = {check.workload: check.chance for check in plan.checks}
    assert held["chat"] is not None and held["chat"] >= 0.95 - ROUNDING
    assert held["code"] is not None and held["code"] >= 0.6 - ROUNDING


def test_what_no_accelerator_has_names_the_confidence_that_one_has() -> None:
    tight = {**CHAT, "ttft": 0.5, "tpot": 0.03}
    plan = planned(tight, accelerator="L4", quick=True)
    assert not plan.feasible and plan.binding is not None and plan.binding.limit == "confidence"
    assert plan.binding.nearest is not None and "80 % asked for" in (plan.binding.reason or "")
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
    assert not plan.feasible and plan.binding is not None and plan.binding.limit == "confidence"
    assert "a request of 3,000 tokens answered with 200" in (plan.binding.reason or "")


def test_what_may_be_had_is_enough_with_less_confidence() -> None:
    """What is owned carries the load as predicted, but not with 97 %, and no quota alone stands in the way."""
    own = [{"accelerator": "L40S", "count": 2}]
    limits = [{"most": 0, "provider": "aws"}, {"most": 0, "region": "us-east-1"}]
    asked = {"own": own, "quotas": limits, "quick": True}
    likely, sure = (_most_on_two(confidence) for confidence in (0.5, 0.97))
    assert sure < 0.9 * likely
    load = {**CHAT, "rate": math.sqrt(likely * sure), "headroom": 0.0}
    assert planned(load, **asked, confidence=0.5).feasible
    plan = planned(load, **asked, confidence=0.97)
    assert not plan.feasible and plan.binding is not None and plan.binding.limit == "confidence"
    assert "97 % asked for" in plan.sentence
    assert not planned({**load, "rate": 1.1 * likely}, **asked, confidence=0.5).feasible
    assert planned({**load, "rate": 0.9 * sure}, **asked, confidence=0.97).feasible


def _most_on_two(confidence: float) -> float:
    """What two L40S carry of the chat at a confidence, on one configuration. [1/s]"""
    one = {**_written(CHAT), "headroom": 0.0}
    request = fleet_request({**OFFERS, "accelerator": "L40S", "workloads": [one], "confidence": confidence})
    held, _ = stock(request, additions=catalog.NOTHING)
    found, _, _ = candidates(request, 0, held=held, additions=catalog.NOTHING)
    return max(2 // each.ranks * each.rates[0] for each in found)
