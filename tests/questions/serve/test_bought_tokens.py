"""Buying tokens against renting what makes them (G11): prices of the list, and a load from which renting wins."""

from datetime import date
from functools import cache

import pytest
from msgspec.structs import replace

from tonnage.catalog import token_prices
from tonnage.domain.plan import ServePlan
from tonnage.domain.requests.common import Filters, Lengths
from tonnage.domain.requests.serve import Serve
from tonnage.questions.serve.plan import plan_serve
from tonnage.questions.serve.tokens import tokens_instead

TODAY = date(2026, 11, 22)
DEAR = "deepseek-ai/DeepSeek-R1"
MODEL = "meta-llama/Llama-3.3-70B-Instruct"


@cache
def planned(rate_per_s: float, model: str = MODEL) -> ServePlan:
    asked = Serve(
        model=model,
        lengths=Lengths(prompt_tokens=1000, output_tokens=200),
        rate_per_s=rate_per_s,
        filters=Filters(accelerators=("h200-sxm-141gb",), providers=("nebius",)),
        quick=True,
    )
    return plan_serve(asked, today=TODAY)


def test_the_load_costs_its_tokens_at_the_listed_prices() -> None:
    instead = planned(1.0).tokens
    assert instead is not None
    for one in instead.options:
        assert one.usd_per_hour == pytest.approx(
            3600 * (1000 * one.usd_per_million_input + 200 * one.usd_per_million_output) / 1e6
        )
        assert one.page.startswith("https://")
    costs = [one.usd_per_request for one in instead.options]
    assert costs == sorted(costs)
    listed = {(p.provider, p.name) for p in token_prices(MODEL) if p.trusted}
    assert {(one.provider, one.name) for one in instead.options} <= listed
    assert instead.times == pytest.approx(planned(1.0).options[0].bill.usd_per_hour / instead.options[0].usd_per_hour)


def test_renting_wins_from_the_stated_load_and_not_below() -> None:
    small = planned(0.01, DEAR).tokens
    assert small is not None and small.wins_from_per_s is not None
    assert small.times > 3
    above, below = (planned(small.wins_from_per_s * factor, DEAR).tokens for factor in (1.02, 0.9))
    assert above is not None and below is not None
    assert above.times <= 1.0 < below.times


def test_a_price_that_no_load_reaches_is_said_to_win() -> None:
    plan = planned(1.0)
    cheap = tuple(
        replace(one, bill=replace(one.bill, usd_per_instance_hour=one.bill.usd_per_instance_hour * 50))
        for one in plan.options
    )
    instead = tokens_instead(plan.request, cheap, model=MODEL)
    assert instead is not None and instead.wins_from_per_s is None
    assert "renting wins at no load" in instead.sentence


def test_others_tunes_and_unlisted_models_have_no_price_of_theirs() -> None:
    plan = planned(1.0)
    named = tokens_instead(plan.request, plan.options, model="meta-llama/Meta-Llama-3.1-8B")
    assert named is not None and not any("distill" in one.name.lower() for one in named.options)
    assert tokens_instead(plan.request, plan.options, model="somebody/unheard-of") is None
    assert tokens_instead(plan.request, (), model=MODEL) is None
