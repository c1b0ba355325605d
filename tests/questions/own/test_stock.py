"""`--own` with any plan: nothing is rented, never more is taken than is there, and its power is what it costs (G1)."""

from functools import partial

import pytest

import tonnage
from tonnage.errors import BadRequest

TWO = ("8 x A100 80GB", "4 x L40S")


@pytest.mark.parametrize("said", ["nonsense 3000", "CPU"])
def test_what_is_no_accelerator_is_refused(said: str) -> None:
    with pytest.raises(BadRequest):
        tonnage.plan_serve("8B", rate="1/s", own=[said])


def test_a_plan_takes_what_is_there_and_says_what_renting_would_do() -> None:
    fields = {"model": "llama-3.1-8b", "own": list(TWO), "quick": True}
    able = tonnage.plan_serve(**fields, rate="20/s")
    assert able.feasible
    assert {option.configuration.accelerator for option in able.options} <= {"a100-sxm4-80gb", "l40s"}
    assert {option.bill.provider for option in able.options} == {"yours"}
    there = {"a100-sxm4-80gb": 8, "l40s": 4}
    assert all(option.bill.accelerators <= there[option.configuration.accelerator] for option in able.options)
    short = tonnage.plan_serve(**fields, rate="5000/s")
    assert not short.feasible and short.binding.limit == "count"
    assert any("without --own" in said for said in short.relaxing)


def test_training_looks_at_all_of_what_is_there_and_at_no_more() -> None:
    plan = tonnage.plan_train(model="7B", tokens="10B", own=["8 x A100 80GB"])
    assert max(option.configuration.count for option in plan.options) == 8
    many = tonnage.plan_train(model="7B", tokens="10B", own=["8 x A100 80GB"], count=16)
    assert not many.feasible


JOBS = {
    "rl": {"model": "7B", "steps": 100, "prompts_per_step": 64, "response_tokens": 2000},
    "train": {"model": "7B", "tokens": "10B"},
    "finetune": {"model": "8B", "method": "lora", "examples": "50k", "tokens_per_example": 800},
    "batch": {"model": "8B", "items": "5M", "prompt_tokens": 400, "output_tokens": 60},
}


@pytest.mark.parametrize("kind", JOBS)
def test_a_job_on_owned_accelerators_takes_them_all_unless_time_or_a_price_is_stated(kind: str) -> None:
    plan = partial(getattr(tonnage, f"plan_{kind}"), **JOBS[kind])
    free = plan(own=["8 x H100"])
    first = free.options[0]
    assert first.accelerators == 8 and "soonest" in first.verdict
    times = [(one.wall_s if kind == "batch" else one.run.wall_s).value for one in free.options if one.sure]
    assert times[0] == min(times)
    names = {choice.name: free.options[choice.option] for choice in free.choices}
    cheapest = names.get("cheapest", first)
    assert cheapest is first or cheapest.cost.value < first.cost.value
    fewest = {
        plan(own=["8 x H100"], **more).options[0].accelerators
        for more in ({"price": "H100=$2/h"}, {"deadline": "9 days"})
    }
    assert max(fewest) < 8
