"""One way for every kind of plan: offers are weighed where plans find them, and options compared by it."""

from datetime import date

import pytest

from tonnage.catalog import NOTHING
from tonnage.core.load_fields import read_filters
from tonnage.core.sites import sites
from tonnage.domain.requests.common import Filters
from tonnage.questions.ask import answer

TODAY = date(2026, 11, 23)
ASKED = {
    "model": "meta-llama/Llama-3.1-8B-Instruct", "rate": "4/s", "tpot": "50 ms", "quick": True,
    "provider": ["gcp"], "accelerator": ["h100-sxm5-80gb"],
}  # fmt: skip


def prices(filters: Filters) -> list:
    return [price for site in sites(filters, additions=NOTHING)[0] for offer in site.offers for price in offer.prices]


def test_only_terms_that_bind_and_are_asked_for_are_weighed() -> None:
    only = Filters(providers=("gcp",), accelerators=("h100-sxm5-80gb",))
    assert all(price.commitment is None for price in prices(only))
    both = Filters(providers=("gcp",), accelerators=("h100-sxm5-80gb",), terms=("on-demand", "reserved-1y"))
    held = {price.term: price.commitment for price in prices(both)}
    assert held["on-demand"] is None and held["reserved-3y"] is None
    one = held["reserved-1y"]
    assert one is not None and one.years == 1.0 and one.against == "" and 0 < one.stops_paying < 1
    assert one.whose in {"h100-sxm5-80gb", "all accelerators"} and one.pays_with[1] >= 3


def test_a_plan_says_the_fall_its_spread_and_where_the_term_stops_paying() -> None:
    from tonnage.questions.answers import document_of

    plan = answer("serve", {**ASKED, "term": ["on-demand", "reserved-1y"]}, today=TODAY)
    bill = plan.options[0].bill
    assert bill.term == "reserved-1y" and bill.commitment.usd_per_hour == bill.usd_per_instance_hour
    assert any(text.startswith("reserved-1y is compared by") for text in plan.provenance.assumed)
    said = str(document_of(plan).first)
    assert (
        "Commitment: reserved-1y" in said
        and "stops paying if on-demand prices fall by over" in said
        and "expected" in said
    )


@pytest.mark.parametrize(("fall", "term"), [("0 %", "reserved-1y"), ("89 %", "on-demand")])
def test_the_choice_of_a_term_hangs_on_the_fall(fall: str, term: str) -> None:
    plan = answer("serve", {**ASKED, "term": ["on-demand", "reserved-1y"], "price_fall": fall}, today=TODAY)
    assert plan.options[0].bill.term == term
    if term == "reserved-1y":
        assert plan.options[0].cost.value == plan.options[0].bill.usd_per_hour  # what is paid, not what is compared


def test_a_view_of_prices_is_read_with_its_bounds() -> None:
    assert read_filters({"price_fall": 0.2}).price_fall == 0.2
    from tonnage.errors import BadRequest

    with pytest.raises(BadRequest, match="price_fall"):
        answer("serve", {**ASKED, "price_fall": "95 %"}, today=TODAY)


@pytest.mark.parametrize(("months", "term"), [(3, "on-demand"), (36, "reserved-3y")])
def test_a_life_pays_a_term_to_its_end_and_takes_it_only_where_that_pays(months: int, term: str) -> None:
    serve = {name: value for name, value in ASKED.items() if name not in {"model", "quick"}}
    plan = answer(
        "lifecycle",
        {
            "model": ASKED["model"], "months": months, "finetune": {"method": "lora", "tokens": "1M"}, "quick": True,
            "serve": {**serve, "term": ["on-demand", "reserved-3y"]},
        },
        today=TODAY,
    )  # fmt: skip
    served = plan.serve.options[0]
    assert served.bill.term == term
    hours = months * 730.0
    assert plan.bill.part("serving") == pytest.approx(served.cost.value * hours)
