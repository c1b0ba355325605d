"""A budget that buys no run is answered with the least that buys one, which works as it is written."""

import re

import pytest

import tonnage

RUN = {"model": "1B", "tokens": "20B", "seq_len": "2048", "accelerator": "H100,A100,L40S"}


@pytest.mark.parametrize("deadline", [None, "10 days"])
def test_the_nearest_budget_is_what_the_run_costs_that_leads_without_one(deadline: str | None) -> None:
    limits = {} if deadline is None else {"deadline": deadline}
    least = tonnage.plan_train(**RUN, **limits).options[0].cost.value
    refused = tonnage.plan_train(**RUN, **limits, budget=f"${least / 2:.0f}")
    assert not refused.feasible and refused.binding.limit == "budget"
    named = re.match(r"budget \$([\d,.]+) on ", refused.binding.nearest or "")
    assert named is not None, refused.sentence
    usd = float(named[1].replace(",", ""))
    assert least <= usd <= least + 1.0
    assert tonnage.plan_train(**RUN, **limits, budget=f"${usd:.2f}").feasible
