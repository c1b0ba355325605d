"""One way for every kind of plan: offers are weighed where plans find them, and options compared by it."""

import html
import re
from typing import Any

import pytest

import tonnage
from tonnage.errors import BadRequest

ASKED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct", "rate": "4/s", "tpot": "50 ms", "quick": True,
    "provider": ["gcp"], "accelerator": ["h100-sxm5-80gb"],
}  # fmt: skip


def test_a_plan_says_the_fall_its_spread_and_where_the_term_stops_paying() -> None:
    plan = tonnage.plan_serve(**ASKED, term=["on-demand", "reserved-1y"])
    bill = plan.options[0].bill
    assert bill.term == "reserved-1y" and bill.commitment.usd_per_hour == bill.usd_per_instance_hour
    assert any(text.startswith("reserved-1y is compared by") for text in plan.provenance.assumed)
    said = html.unescape(re.sub(r"<[^>]+>", "", plan._repr_html_()))  # type: ignore[attr-defined]
    assert (
        "Commitment: reserved-1y" in said
        and "stops paying if on-demand prices fall by over" in said
        and "expected" in said
    )


@pytest.mark.parametrize(("fall", "term"), [("0 %", "reserved-1y"), ("89 %", "on-demand")])
def test_the_choice_of_a_term_hangs_on_the_fall(fall: str, term: str) -> None:
    plan = tonnage.plan_serve(**ASKED, term=["on-demand", "reserved-1y"], price_fall=fall)
    assert plan.options[0].bill.term == term
    if term == "reserved-1y":
        assert plan.options[0].cost.value == plan.options[0].bill.usd_per_hour  # what is paid, not what is compared


def test_a_view_of_prices_is_read_with_its_bounds() -> None:
    assert tonnage.plan_serve(**ASKED, price_fall=0.2).request.filters.price_fall == 0.2
    with pytest.raises(BadRequest, match="price_fall"):
        tonnage.plan_serve(**ASKED, price_fall="95 %")


@pytest.mark.parametrize(("months", "term"), [(3, "on-demand"), (36, "reserved-3y")])
def test_a_life_pays_a_term_to_its_end_and_takes_it_only_where_that_pays(months: int, term: str) -> None:
    serve = {name: value for name, value in ASKED.items() if name not in {"model", "quick"}}
    serve["term"] = ["on-demand", "reserved-3y"]
    tune = {"method": "lora", "tokens": "1M"}
    plan = tonnage.plan_lifecycle(ASKED["model"], months=months, finetune=tune, quick=True, serve=serve)
    served = plan.serve.options[0]
    assert served.bill.term == term
    hours = months * 730.0
    assert plan.bill.part("serving") == pytest.approx(served.cost.value * hours)
