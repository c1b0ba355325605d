"""What the money of an option buys: every way of counting, each from the option's own numbers (D1, D2, D5)."""

from datetime import date
from functools import cache

import pytest
from msgspec.structs import replace

from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.questions.answers import show
from tonnage.questions.serve.plan import plan_serve
from tonnage.questions.serve.question import serve_request
from tonnage.report.wording import account_texts


@cache
def plan() -> ServePlan:
    asked = {"model": "meta-llama/Llama-3.1-8B", "rate": "6/s", "traffic": "chat", "quick": True}
    return plan_serve(serve_request(asked), today=date(2026, 11, 21))


def option() -> ServeOption:
    return plan().options[0]


def test_the_plan_prints_month_tokens_requests_and_electricity(capsys: pytest.CaptureFixture[str]) -> None:
    show(plan(), top=1, why=True)
    printed = " ".join(capsys.readouterr().out.split())
    for text in account_texts(option()):
        assert " ".join(text.split()) in printed
    assert "What the money buys" in printed and "without VAT" in printed and "730 h" in printed


def test_each_way_of_counting_multiplies_back_to_the_bill() -> None:
    best, lengths = option(), plan().request.lengths
    costs, an_hour = best.unit_costs, 6 * 3600
    assert costs is not None
    answers, prompts = an_hour * lengths.output_tokens / 1e6, an_hour * lengths.prompt_tokens / 1e6
    for counted in (
        costs.usd_per_million_output_tokens * answers,
        costs.usd_per_million_blended_tokens * (answers + prompts),
        costs.usd_per_million_input_share * prompts + costs.usd_per_million_answer_share * answers,
        costs.usd_per_request * an_hour,
        an_hour / costs.requests_per_usd,
    ):
        assert counted == pytest.approx(best.bill.usd_per_hour, rel=1e-9)


def test_what_is_not_known_is_said_and_never_a_number() -> None:
    dark = " ".join(account_texts(replace(option(), energy=None, billing=None)))
    assert "not published" in dark and "kWh" not in dark and "egress" not in dark
    rules, use = option().billing, option().energy
    assert rules is not None and use is not None
    silent = replace(
        option(), billing=replace(rules, egress_usd_per_gb=None), energy=replace(use, kg_co2_per_month=None)
    )
    told = " ".join(account_texts(silent))
    assert "egress not published" in told and "the grid of this region is not known" in told and "CO2" not in told
