"""Runs of training share a fleet with what serves, keep their hours and their chance, and say why they cannot."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest

from tonnage.errors import BadRequest
from tonnage.questions.answers import document_of
from tonnage.questions.ask import plan_of_text
from tonnage.questions.fleet.answer import FleetPlan
from tonnage.questions.fleet.hours import hours_of, paces_of
from tonnage.questions.fleet.plan import plan_fleet
from tonnage.questions.fleet.question import fleet_request
from tonnage.questions.own.question import own_request
from tonnage.report.document import as_json

CHAT = {
    "name": "chat",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "rate": "30/s",
    "traffic": "chat",
    "day": "consumer",
    "ttft": "1 s",
    "tpot": "60 ms",
}
TUNE = {
    "name": "tuning",
    "kind": "finetune",
    "model": "meta-llama/Llama-3.1-8B",
    "tokens": "50M",
    "every_run": "1 day",
}
PRETRAIN = {"name": "small", "kind": "train", "model": "gpt2", "tokens": "20B", "every_run": "7 days"}
OWN = {"name": "node", "accelerator": "H100", "count": 4, "per_node": 4}
OFFERS = {"provider": "lambda", "accelerator": "H100", "term": "on-demand", "quick": True}


def planned(*workloads: dict[str, Any], **more: Any) -> FleetPlan:
    return plan_fleet(fleet_request({**OFFERS, "workloads": list(workloads), **more}))


def usd(plan: FleetPlan) -> float:
    assert plan.bill is not None
    return plan.bill.value


@cache
def shared() -> FleetPlan:
    return planned(CHAT, TUNE, own=[OWN])


def test_a_run_takes_the_hours_that_serving_leaves_of_what_is_owned() -> None:
    plan, chat = shared(), planned(CHAT, own=[OWN])
    (run,) = plan.runs
    assert not run.passing and run.accelerators <= 4
    assert usd(plan) <= usd(chat) * 1.001
    slots = [0.0] * 24
    for one in plan.replicas:
        if one.where == "node":
            each = run.accelerators if one.configuration is None else one.configuration.layout.ranks
            for span in one.hours:
                for hour in range(span.start, span.stop):
                    slots[hour] += each * span.count
    assert max(slots) <= 4.0


def test_a_run_by_itself_pays_whole_instances_for_its_own_time_alone() -> None:
    plan = planned(TUNE, max_accelerators=8)
    (run,), (rent,) = plan.runs, plan.instances
    assert run.passing
    hours = run.allowed_s / 3600.0 * 730.0 / 24.0
    instances = math.ceil(run.accelerators / rent.accelerators_per_instance)
    assert usd(plan) == pytest.approx(instances * hours * rent.usd_per_instance_hour, rel=1e-6)
    assert run.allowed_s >= run.wall_s.value
    assert plan.most_accelerators(rent) == instances * rent.accelerators_per_instance
    assert f"{instances * hours:,.3g} instance hours a month" in str(document_of(plan))


def test_time_and_memory_hold_with_the_confidence_which_costs() -> None:
    bold, sure = (planned({**TUNE, "confidence": share}) for share in ("60 %", "95 %"))
    assert bold.runs[0].chance >= 0.599 and sure.runs[0].chance >= 0.949
    assert usd(sure) > usd(bold)


def test_twice_the_runs_cost_no_less_and_a_window_neither() -> None:
    once = usd(planned(TUNE))
    assert usd(planned({**TUNE, "every_run": "12 h"})) == pytest.approx(2.0 * once, rel=1e-3)
    assert usd(planned({**TUNE, "window": "22-6"})) >= once * (1.0 - 1e-3)


def test_work_of_every_day_does_not_wait_for_another_day() -> None:
    weekly = {**PRETRAIN, "deadline": "3 days"}
    request = fleet_request({**OFFERS, "workloads": [weekly, {**TUNE, "window": "22-6"}]})
    hours = hours_of(request)
    assert hours.total_h == 168.0 and sum(hours.loads[0][p] for p in hours.period_of) == 72
    shares = [share for _, share in paces_of(hours, 1)]
    assert sorted(shares) == pytest.approx([3 / 7, 4 / 7])
    plan = plan_fleet(request)
    (night,) = (one for one in plan.replicas if one.workload == "tuning")
    run = next(one for one in plan.runs if one.workload == "tuning")
    for day in range(7):
        worked = sum(
            span.count * max(0, min(span.stop, 24 * day + 24) - max(span.start, 24 * day)) for span in night.hours
        )
        assert worked * 3600.0 == pytest.approx(run.allowed_s, rel=1e-6)


def test_what_cannot_end_in_time_is_an_answer() -> None:
    plan = planned({**PRETRAIN, "tokens": "5000T"}, own=[OWN])
    assert not plan.feasible and plan.binding is not None and "small" in (plan.binding.reason or "")


def test_the_plan_is_read_again_and_shown() -> None:
    plan = shared()
    assert plan_of_text(as_json(plan), "plan.json") == plan
    first = str(document_of(plan).first)
    assert "tuning:" in first and "on what stands" in first


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"every_run": "", "deadline": ""}, "every_run is missing"),
        ({"deadline": "2 days"}, "overlaps with the next"),
        ({"deadline": "5 h"}, "less than a day"),
        ({"spot_share": "50 %"}, "spot_share means nothing"),
        ({"rate": "1/s"}, "rate means nothing"),
        ({"tokens": ""}, "no data is given"),
    ],
)
def test_what_contradicts_is_refused(fields: dict[str, str], said: str) -> None:
    asked = {name: value for name, value in {**TUNE, **fields}.items() if value}
    with pytest.raises(BadRequest, match=said):
        fleet_request({**OFFERS, "workloads": [asked]})


def test_fields_of_runs_mean_nothing_elsewhere() -> None:
    with pytest.raises(BadRequest, match="every_run only means something"):
        fleet_request({**OFFERS, "workloads": [{**CHAT, "every_run": "1 day"}]})


@pytest.mark.parametrize("where", ["workload", "fleet", "own"])
def test_lora_adapters_are_refused_with_what_to_do(where: str) -> None:
    asked = {"adapters": "64", "adapter-rank": "16"}
    with pytest.raises(BadRequest, match=r"adapters: an? (fleet|inventory) plans no LoRA .* plan serve MODEL"):
        if where == "own":
            own_request({"own": "8 x A100 80GB", **asked})
        else:
            inside, beside = (asked, {}) if where == "workload" else ({}, asked)
            fleet_request({**OFFERS, "workloads": [{**CHAT, **inside}], **beside})
