"""What the money of an option buys: every way of counting, each from the option's own numbers (D1, D2, D5)."""

import html
import re
from typing import Any

import pytest
from msgspec.structs import replace

import tonnage


@pytest.fixture(scope="module")
def plan() -> Any:
    asked = {"model": "meta-llama/Llama-3.1-8B", "rate": "6/s", "traffic": "chat", "accelerator": "L4,L40S,H100"}
    return tonnage.plan_serve(**asked, quick=True)


def shown(plan: Any, **changes: Any) -> str:
    """What the report says that the plan's first option, changed so, buys."""
    changed = replace(plan, options=(replace(plan.options[0], **changes), *plan.options[1:]))
    said = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", changed._repr_html_())).split())
    return said.partition("What the money buys")[2].partition("Buy tokens instead")[0]


def test_the_plan_says_month_tokens_requests_and_electricity(plan: Any) -> None:
    best, said = plan.options[0], shown(plan)
    costs, use = best.unit_costs, best.energy
    for text in (
        f"${best.usd_per_month:,.0f} a month of 730 h, without VAT",
        f"${best.idle_usd_per_month:,.0f} of it for capacity that the mean load leaves unused",
        f"time billed by: {best.billing.stated}",
        f"by the time each takes: ${costs.usd_per_million_input_share:,.3g} input, "
        f"${costs.usd_per_million_answer_share:,.3g} output; ${costs.usd_per_million_blended_tokens:,.3g} over both",
        f"${costs.usd_per_request * 1e3:,.3g} per thousand requests at the mean load",
        f"{use.kwh_per_month:,.0f} kWh a month with cooling", f"{use.kg_co2_per_month:,.0f} kg CO2 a month",
    ):  # fmt: skip
        assert text in said, text


def test_each_way_of_counting_multiplies_back_to_the_bill(plan: Any) -> None:
    best, lengths = plan.options[0], plan.request.lengths
    costs, an_hour = best.unit_costs, 6 * 3600
    answers, prompts = an_hour * lengths.output_tokens / 1e6, an_hour * lengths.prompt_tokens / 1e6
    for counted in (
        costs.usd_per_million_output_tokens * answers,
        costs.usd_per_million_blended_tokens * (answers + prompts),
        costs.usd_per_million_input_share * prompts + costs.usd_per_million_answer_share * answers,
        costs.usd_per_request * an_hour,
        an_hour / costs.requests_per_usd,
    ):
        assert counted == pytest.approx(best.bill.usd_per_hour, rel=1e-9)


def test_what_is_not_known_is_said_and_never_a_number(plan: Any) -> None:
    dark = shown(plan, energy=None, billing=None)
    assert "power is not published" in dark and "kWh a month" not in dark and "egress" not in dark
    rules, use = plan.options[0].billing, plan.options[0].energy
    told = shown(plan, billing=replace(rules, egress_usd_per_gb=None), energy=replace(use, kg_co2_per_month=None))
    assert "egress not published" in told and "the grid of this region is not known" in told
    assert "kg CO2 a month" not in told
