"""`--own` with any plan: nothing is rented, never more is taken than is there, and its power is what it costs (G1)."""

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
