"""Runs of training share a fleet with what serves, keep their hours and their chance, and say why they cannot."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import msgspec
import pytest

import tonnage
from tonnage.errors import BadRequest

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


def planned(*workloads: dict[str, Any], **more: Any) -> Any:
    return tonnage.plan_fleet(**OFFERS, workloads=list(workloads), **more)


def usd(plan: Any) -> float:
    return float(plan.bill.value)


@cache
def shared() -> Any:
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
    assert f"{instances * hours:,.3g} instance hours a month" in plan._repr_html_()


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
    plan = planned(weekly, {**TUNE, "window": "22-6"})
    (week,) = (one for one in plan.replicas if one.workload == "small")
    assert sum(span.stop - span.start for span in week.hours if span.count) <= 72
    (night,) = (one for one in plan.replicas if one.workload == "tuning")
    run = next(one for one in plan.runs if one.workload == "tuning")
    for day in range(7):
        worked = sum(
            span.count * max(0, min(span.stop, 24 * day + 24) - max(span.start, 24 * day)) for span in night.hours
        )
        assert worked * 3600.0 == pytest.approx(run.allowed_s, rel=1e-6)


def test_what_cannot_end_in_time_is_an_answer() -> None:
    plan = planned({**PRETRAIN, "tokens": "5000T"}, own=[OWN])
    assert not plan.feasible and "small" in (plan.binding.reason or "")


def test_the_plan_is_read_again_and_shown() -> None:
    plan = shared()
    assert msgspec.json.decode(msgspec.json.encode(plan), type=type(plan)) == plan
    shown = plan._repr_html_()
    assert "tuning:" in shown and "on what stands" in shown


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
        planned(asked)


def test_fields_of_runs_mean_nothing_elsewhere() -> None:
    with pytest.raises(BadRequest, match="every_run only means something"):
        planned({**CHAT, "every_run": "1 day"})


@pytest.mark.parametrize("where", ["workload", "fleet", "own"])
def test_lora_adapters_are_refused_with_what_to_do(where: str) -> None:
    asked = {"adapters": "64", "adapter-rank": "16"}
    with pytest.raises(BadRequest, match=r"adapters: an? (fleet|inventory) plans no LoRA .* plan serve MODEL"):
        if where == "own":
            tonnage.plan_own("8 x A100 80GB", **asked)
        else:
            inside, beside = (asked, {}) if where == "workload" else ({}, asked)
            planned({**CHAT, **inside}, **beside)
