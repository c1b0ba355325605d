"""The order said once for all kinds: the sure before the cheap, ties within error, the cheaper one at a risk."""

from datetime import date

import pytest
from msgspec.structs import replace

from tonnage.core.ranking import at_risk, surely_cheapest, tie_with_first, with_verdicts
from tonnage.domain.answer import Quantity
from tonnage.domain.batch_plan import BatchOption, BatchPlan
from tonnage.questions.ask import answer


@pytest.fixture(scope="module")
def option() -> BatchOption:
    plan = answer(
        "batch",
        {"model": "Qwen/Qwen3-8B", "items": "10k", "prompt_tokens": 100, "output_tokens": 10, "accelerator": ["L40S"]},
        today=date(2026, 7, 1),
    )
    assert isinstance(plan, BatchPlan)
    return plan.options[0]


def costing(option: BatchOption, usd: float, *, factor: float = 1.2, sure: bool = True, on: str = "") -> BatchOption:
    run = replace(option.configuration, accelerator=on or option.configuration.accelerator)
    cost = Quantity(value=usd, unit="USD").within(factor)
    return replace(option, cost=cost, sure=sure, configuration=run)


def test_the_sure_before_the_cheap(option: BatchOption) -> None:
    ranked = sorted([costing(option, 1.0, sure=False), costing(option, 3.0), costing(option, 2.0)], key=surely_cheapest)
    assert [one.cost.value for one in ranked] == [2.0, 3.0, 1.0]
    risky = at_risk(ranked)
    assert risky is not None and risky.cost.value == 1.0
    assert at_risk(ranked[:2]) is None and at_risk(ranked[2:]) is None and at_risk(()) is None


def test_where_none_has_the_confidence_the_likeliest_leads(option: BatchOption) -> None:
    doubtful = [
        replace(costing(option, usd, sure=False), chance=chance) for usd, chance in ((1.0, 0.4), (9.0, 0.7), (2.0, 0.7))
    ]
    assert [one.cost.value for one in sorted(doubtful, key=surely_cheapest)] == [2.0, 9.0, 1.0]
    assert sorted([*doubtful, costing(option, 50.0)], key=surely_cheapest)[0].cost.value == 50.0


def test_each_place_has_its_reason_and_ties_are_said(option: BatchOption) -> None:
    options = (
        costing(option, 10.0),
        costing(option, 10.5, on="h100-sxm5-80gb"),
        costing(option, 90.0, on="h100-sxm5-80gb"),
        costing(option, 9.0, sure=False),
    )
    said = with_verdicts(
        options,
        lead=lambda o: "cheapest",
        arithmetic=lambda o: f"${o.cost.value:g}",
        risk=lambda o: "" if o.sure else "late",
    )
    assert said[0].verdict == "cheapest; $10" and not said[0].ties
    assert said[1].ties and "1.05x the first's cost (" in said[1].verdict and "within error)" in said[1].verdict
    assert not said[2].ties and said[2].verdict == "9.00x the first's cost; $90"
    assert not said[3].ties and said[3].verdict == "0.90x the first's cost; late; $9"
    assert tie_with_first(options[3], options[0]) is None
    assert with_verdicts((), lead=str, arithmetic=str, risk=str) == ()
