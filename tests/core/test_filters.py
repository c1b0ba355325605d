"""A filter leaves offers out and changes nothing about those that it leaves: same machines, links and prices."""

from collections.abc import Callable
from math import inf
from typing import Any

import pytest

import tonnage

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
CHAT = {"model": MODEL, "rate": "4/s", "traffic": "chat", "quick": True}
TRAIN = {"model": "meta-llama/Llama-3.1-8B", "tokens": "100B", "seq_len": "8192", "deadline": "30 days"}
TUNE = {"method": "full", "tokens": "100M"}

Ask = tuple[Callable[..., Any], dict[str, Any], str]
ASKED: dict[str, Ask] = {
    "train": (tonnage.plan_train, TRAIN, "b200,b300"),
    "finetune": (tonnage.plan_finetune, {"model": MODEL, **TUNE}, "h100,h100-pcie"),
    "rl": (tonnage.plan_rl, {"model": MODEL, "steps": "50", "prompts_per_step": "16", "responses_per_prompt": "8",
                             "response_tokens": "1000", "count": "4"}, "b200"),
    "serve": (tonnage.plan_serve, CHAT, "b200,h100-pcie"),
    "batch": (tonnage.plan_batch, {"model": MODEL, "items": "100k", "deadline": "8 h", "prompt_tokens": "400",
                                   "output_tokens": "60"}, "b200,h100-pcie"),
}  # fmt: skip
KEPT = ({"provider": "verda"}, {"max_accelerators": "4"}, {"eu": True})


def least_usd(plan: Any) -> float:
    """What the first option costs where it is sure; a run in all, a service by the hour."""
    first = next(iter(plan.options), None)
    return inf if first is None or not first.sure or first.bill.trust != "primary" else float(first.cost.value)


@pytest.mark.parametrize("kind", ASKED)
def test_what_a_filter_leaves_is_no_cheaper_than_without_it(kind: str) -> None:
    function, fields, accelerators = ASKED[kind]
    usd = least_usd(function(**fields, accelerator=accelerators))
    assert usd < inf
    for kept in KEPT:
        assert least_usd(function(**fields, accelerator=accelerators, **kept)) >= usd * (1 - 1e-9), kept


def test_a_life_costs_no_less_under_a_filter() -> None:
    def bill(**kept: Any) -> float:
        kept["accelerator"] = "h100,h100-pcie"
        parts = {"finetune": {**TUNE, **kept}, "serve": {"rate": "4/s", "traffic": "chat", **kept}}
        plan = tonnage.plan_lifecycle(MODEL, months="12", quick=True, **parts)
        return inf if plan.bill is None else plan.bill.value

    assert bill(provider="verda") >= bill() * (1 - 1e-9)


def test_a_fleet_costs_no_less_under_a_filter() -> None:
    run = {"name": "tune", "kind": "finetune", "model": MODEL, **TUNE, "every_run": "1 day"}

    def bill(**kept: Any) -> float:
        plan = tonnage.plan_fleet(workloads=[run], accelerator="h100,h100-pcie", quick=True, **kept)
        return inf if plan.bill is None else plan.bill.value

    assert bill(provider="verda") >= bill() * (1 - 1e-3)  # both within the gap of the programme


def test_a_budget_trains_no_more_under_a_filter() -> None:
    def most(**kept: Any) -> float:
        plan = tonnage.plan_budget("$5,000", purpose="training", deadline="20 days", accelerator="b200", **kept)
        return max((run.tokens * run.parameters for run in plan.runs), default=0.0)

    assert most(provider="verda") <= most() * (1 + 1e-9)


def test_parts_of_machines_are_not_joined_where_a_filter_leaves_nothing_larger() -> None:
    plan = tonnage.plan_train(**TRAIN, accelerator="b200,b300", provider="verda")
    assert plan.feasible
    assert all(option.accelerators <= option.bill.accelerators_per_instance for option in plan.options)
