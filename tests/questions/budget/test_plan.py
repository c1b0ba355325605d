"""What an amount buys: the inverted serving plan, the sizes of a run, and the sentences when it buys nothing."""

from __future__ import annotations

import json
import shlex
from functools import cache
from typing import Any

import pytest

import tonnage
from tonnage.errors import TonnageError

TOLERANCE = 0.02
"""Between the largest rate that was found to be paid and the next."""
LAWS = 2
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
SERVICE = {"traffic": "chat", "ttft": "1 s", "tpot": "50 ms", "accelerator": "L40S, H100"}


@cache
def bought(amount: str) -> Any:
    return tonnage.plan_budget(amount, LLAMA, **SERVICE)


def test_the_picture_shows_what_the_search_priced_and_the_budget() -> None:
    plan = bought("$3,000/month")
    best = plan.models[0]
    (chart,) = tonnage.charts(plan)
    rates, costs = zip(*best.priced, strict=True)
    assert best.rate_per_s == max(rates) and max(costs) <= 3000 and list(costs) == sorted(costs)
    points = [(one["x"], one["y"]) for one in chart.body["data"]["values"]]
    assert points == [*best.priced, (best.next_rate_per_s, best.next_usd_per_month)]
    ringed = [one for one in chart.body["data"]["values"] if one["first"]]
    assert [(one["x"], one["y"]) for one in ringed] == [(best.rate_per_s, best.usd_per_month)]
    assert '"budget $3,000"' in str(chart.vega()).replace("'", '"')


def test_sizes_for_a_sum_are_a_picture_too() -> None:
    plan = tonnage.plan_budget("$20,000", accelerator="H100", deadline="30 days")
    (chart,) = tonnage.charts(plan)
    told = [(one["x"], one["y"]) for one in chart.body["data"]["values"]]
    assert told == sorted((run.tokens / 1e9, run.loss) for run in plan.runs)


def test_the_rate_is_the_serving_plans_own() -> None:
    """The plan of the rate, simulated and without a budget, is what the budget buys; the next rate costs more."""
    best = bought("$3,000/month").models[0]
    assert best.usd_per_month <= 3000 and best.option.sure
    plan = tonnage.plan_serve(LLAMA, **SERVICE, rate=best.written_rate_per_s).options[0]
    assert plan.configuration == best.option.configuration and plan.capacity.simulated
    assert plan.usd_per_month == pytest.approx(best.usd_per_month)
    assert best.next_rate_per_s / best.rate_per_s == pytest.approx(1 + TOLERANCE)
    beyond = tonnage.plan_serve(LLAMA, **SERVICE, rate=best.next_rate_per_s).options[0]
    assert beyond.usd_per_month == pytest.approx(best.next_usd_per_month) and beyond.usd_per_month > 3000


def test_a_budget_buys_no_other_checkpoint_than_the_plan_without_one() -> None:
    """Four bits of somebody else's checkpoint would carry more for the money, but no plan takes it unasked."""
    asked = {"model": LLAMA, "traffic": "chat", "ttft": "1 s", "tpot": "50 ms", "accelerator": "RTX PRO 6000"}
    own, four = (
        tonnage.plan_budget("$3,000/month", **asked, **more).models[0] for more in ({}, {"precision": "nvfp4"})
    )
    assert own.option.configuration.precision.weights != "nvfp4" and own.rate_per_s < four.rate_per_s


def test_what_no_seller_states_buys_no_rate() -> None:
    """An A30 that one list of others' prices has cheaper would lead at any load; a budget is not spent on a rumour."""
    asked = {"model": LLAMA, "traffic": "chat", "accelerator": "A30, L4, L40S"}
    best = tonnage.plan_budget("$3,000/month", **asked).models[0]
    assert best.option.bill.trust == "primary"
    cheaper = tonnage.plan_serve(**asked, rate=best.rate_per_s * 1.1, quick=True)
    within = [one for one in cheaper.options if one.sure and one.usd_per_month <= 3000]
    assert within and all(one.bill.trust != "primary" for one in within)


def test_more_money_never_buys_less() -> None:
    rates = [
        bought(amount).models[0].rate_per_s
        for amount in ("$1,000/month", "$3,000/month", "$3,030/month", "$9,000/month")
    ]
    assert rates == sorted(rates) and rates[-1] > 2 * rates[0]


def test_a_budget_for_less_than_one_machine_says_what_the_least_costs() -> None:
    plan = bought("$10/month")
    assert not plan.feasible and plan.binding.short_by
    assert "costs $" in plan.sentence and plan.sentence.split(";")[0][:40] in plan._repr_html_()


def test_the_best_model_at_a_rate_is_the_best_by_score() -> None:
    fields = {"amount": "$800/month", "rate": "0.5/s", "traffic": "chat", "tpot": "100 ms", "accelerator": "L40S"}
    plan: Any = tonnage.plan_budget(**fields)
    scores = [one.stands.score for one in plan.models]
    assert len(scores) >= 3 and scores == sorted(scores, reverse=True)
    assert all(one.usd_per_month <= 800 for one in plan.models)
    coding: Any = tonnage.plan_budget(**{**fields, "traffic": "code"})
    assert (plan.benchmark, coding.benchmark) == ("MMLU-Pro", "LiveCodeBench v6")
    assert [one.model for one in coding.models] != [one.model for one in plan.models]


@cache
def trained(amount: str, **more: str) -> Any:
    return tonnage.plan_budget(amount, purpose="training", accelerator="H100", **more)


def test_a_sum_trains_the_size_that_the_law_calls_best() -> None:
    plan = trained("$20,000")
    first, *smaller = plan.runs
    assert 13_000 <= first.cost.value <= 20_000 <= first.cost.high
    assert 15 <= first.tokens / first.parameters <= 25 and len(plan.laws) == LAWS
    low, high = plan.optimal_range
    assert low < high and low <= first.parameters * 1.01 and first.parameters <= high * 1.01
    for before, run in zip(plan.runs, smaller, strict=False):
        assert run.parameters < before.parameters and run.tokens > before.tokens and run.loss > first.loss
        assert run.cost.value <= 20_000 and run.loss_low <= run.loss <= run.loss_high
        assert run.usd_per_million_output_tokens < first.usd_per_million_output_tokens
        assert run.saves_share and run.pays_after_tokens and run.pays_after_tokens > 0
    assert plan.tunes and all(one.cost.value <= 20_000 for one in plan.tunes)


def test_a_run_that_a_sum_buys_has_the_chance_that_its_plan_is_asked_for() -> None:
    first = trained("$20,000").runs[0]
    size, tokens = f"{first.parameters / 1e9:.4g}B", f"{first.tokens:.0f}"
    asked = {"model": size, "tokens": tokens, "seq_len": 4096, "deadline": "90 days", "accelerator": "H100"}
    best = tonnage.plan_train(**asked, budget="$20,000").options[0]
    assert best.sure and best.cost.value == pytest.approx(first.cost.value, rel=0.02)
    less = tonnage.plan_train(**asked, budget="$17,500").options
    assert not less or not less[0].sure


def test_more_money_trains_better_and_less_data_a_larger_model() -> None:
    assert trained("$60,000").runs[0].loss < trained("$20,000").runs[0].loss
    little = trained("$20,000", tokens="20B").runs[0]
    assert little.tokens <= 20e9 and little.parameters > trained("$20,000").runs[0].parameters
    assert little.loss > trained("$20,000").runs[0].loss


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "amount is missing"),
        ({"amount": "$3,000/month"}, "name a model for its largest rate"),
        ({"amount": "$3,000/fortnight", "model": "8B"}, "by no time that is known"),
        ({"amount": "$3,000", "model": "8B", "purpose": "serving"}, "names no time"),
        ({"amount": "$3/h", "purpose": "training"}, "is by time"),
        ({"amount": "$3/h", "model": "8B", "tokens": "1B"}, "tokens only means something"),
        ({"amount": "$50,000", "rate": "1/s"}, "rate only means something"),
        ({"amount": "$50,000", "model": "8B"}, "write '\\$50,000/month' for what serves"),
        ({"amount": "$50,000", "model": "8B", "purpose": "training"}, "training finds the size itself"),
        ({"amount": "-5", "purpose": "training"}, "amount"),
        ({"amount": "much/month", "model": "8B"}, "amount"),
        ({"amount": "$1e300/month", "model": "8B"}, "amount"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(fields: dict[str, str], said: str) -> None:
    with pytest.raises(TonnageError, match=said):
        tonnage.plan_budget(**{"amount": None, **fields})


def test_the_command_of_its_plan_asks_the_same_question() -> None:
    from tests.command import told

    asked = ["plan", "budget", "$3,000/month", LLAMA, "--traffic", "chat", "--ttft", "1 s", "--tpot", "50 ms"]
    screen = " ".join(told(*asked, "--accelerator", "L40S, H100").output.split())
    command = shlex.split(screen.partition("Its plan: `")[2].partition("`")[0])
    plan = json.loads(told(*command[1:], "--json").output)
    best = bought("$3,000/month").models[0]
    assert plan["request"]["lengths"]["profile"] == "chat"
    assert (plan["request"]["slo"]["ttft_s"], plan["request"]["slo"]["tpot_s"]) == (1.0, 0.05)
    assert plan["options"][0]["usd_per_month"] == pytest.approx(best.usd_per_month)
