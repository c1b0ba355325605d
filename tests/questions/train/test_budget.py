"""A budget that buys no run is answered with the least that buys one, which works as it is written."""

import re

import pytest

import tonnage

RUN = {"model": "1B", "tokens": "20B", "seq_len": "2048", "accelerator": "H100,A100,L40S"}


@pytest.mark.parametrize("deadline", [None, "10 days"])
def test_the_nearest_budget_is_the_least_that_gets_an_answer(deadline: str | None) -> None:
    limits = {} if deadline is None else {"deadline": deadline}
    leads = tonnage.plan_train(**RUN, **limits).options[0].cost.value
    refused = tonnage.plan_train(**RUN, **limits, budget=f"${leads / 2:.0f}")
    assert not refused.feasible and refused.binding.limit == "budget"
    named = re.match(r"budget \$([\d,.]+) on ", refused.binding.nearest or "")
    assert named is not None, refused.sentence
    usd = float(named[1].replace(",", ""))
    assert usd <= leads + 1.0
    assert tonnage.plan_train(**RUN, **limits, budget=f"${usd:.2f}").feasible
    assert not tonnage.plan_train(**RUN, **limits, budget=f"${usd - 1.0:.2f}").feasible


def test_a_budget_between_what_is_sure_and_what_is_not_has_the_answer_that_is_named() -> None:
    tune = {"model": "Llama-3.1-70B", "method": "lora", "examples": "80000", "tokens_per_example": "900"}
    refused = tonnage.plan_finetune(**tune, budget="$5")
    named = re.match(r"budget \$([\d,.]+) on .*, (\d+) % sure", refused.binding.nearest or "")
    assert named is not None, refused.sentence
    found = tonnage.plan_finetune(**tune, budget=f"${named[1]}")
    assert found.feasible and found.options[0].chance == pytest.approx(int(named[2]) / 100, abs=0.02)
