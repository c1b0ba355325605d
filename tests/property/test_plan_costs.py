"""The cost of every plan is the sum of its lines, of the listed price and the hours the provider charges; a month is
730 hours (D1, D2)."""

import math
import re
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage import catalog
from tonnage.core.deployment import resolve
from tonnage.domain.answer import Basis, Spread
from tonnage.domain.batch_plan import BatchPlan
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.plan import Bill, Configuration, ServePlan
from tonnage.domain.precision import Precision
from tonnage.domain.train_plan import TrainPlan
from tonnage.pricing.bills import HOURS_PER_MONTH
from tonnage.pricing.terms import billing_rules, charged_hours
from tonnage.questions.ask import answer
from tonnage.questions.batch.work import Candidate, Work, candidate_of
from tonnage.questions.lifecycle.question import LifecyclePlan
from tonnage.simulation.simulated import Served

TODAY = date(2026, 11, 21)
EIGHT = "meta-llama/Llama-3.1-8B-Instruct"
SOME = "H100,B200,L4,MI300X,RTX 4090,tpu-v5e,tpu-v6e"


def listed(bill: Bill) -> float:
    """The price of the offer that a bill names; a slice of a torus costs its chips. [USD/h]"""
    name, _, slice_of = bill.instance_type.partition(" ")
    chips = math.prod(map(int, slice_of.split("x"))) if re.fullmatch(r"\d+(x\d+)+", slice_of) else 1
    kind = name if chips > 1 or slice_of == "1x1" else bill.instance_type
    found = {
        chips * (offer.usd_per_hour(bill.term) or 0.0)
        for offer in catalog.offers()
        if (offer.provider, offer.instance_type, offer.region, offer.as_of)
        == (bill.provider, kind, bill.region, bill.as_of)
    }
    assert bill.usd_per_instance_hour in found, bill
    return bill.usd_per_instance_hour


SERVING: list[dict[str, Any]] = [
    {"rate": "3/s", "traffic": "chat"},
    {"rate": "40/s", "traffic": "chat", "ttft": "1 s", "tpot": "50 ms", "spare_replicas": 1},
    {"concurrency": 300, "traffic": "rag", "term": "spot"},
]


@pytest.mark.parametrize("fields", SERVING)
def test_serving_costs_its_instances_at_their_listed_price(fields: dict[str, Any]) -> None:
    plan = answer("serve", {"model": EIGHT, "accelerator": SOME, "quick": True, **fields}, today=TODAY)
    assert isinstance(plan, ServePlan) and plan.options
    for option in plan.options:
        assert option.cost.value == option.bill.usd_per_hour == sum(part.value for part in option.cost.parts)
        assert option.cost.value == option.bill.instances * listed(option.bill)
        assert option.usd_per_month == option.cost.value * HOURS_PER_MONTH and HOURS_PER_MONTH == 730.0
    assert any("730 hours" in text for text in plan.provenance.assumed)


@pytest.mark.parametrize("fields", [{"items": "2M"}, {"items": "50M", "deadline": "6 h"}, {"items": 1000}])
def test_a_batch_costs_its_charged_hours(fields: dict[str, Any]) -> None:
    plan = answer("batch", {"model": EIGHT, "accelerator": SOME, **fields}, today=TODAY)
    assert isinstance(plan, BatchPlan) and plan.options
    for option in plan.options:
        assert option.cost.value == sum(part.value for part in option.cost.parts)
        hourly = option.bill.instances * listed(option.bill)
        assert option.cost.value == pytest.approx(hourly * option.billed_hours, rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("train", {"model": "7B", "tokens": "20B", "deadline": "20 days"}),
        ("finetune", {"model": EIGHT, "method": "lora", "tokens": "10M", "term": "on-demand,spot"}),
    ],
)
def test_a_run_costs_its_charged_hours_spares_included(kind: str, fields: dict[str, Any]) -> None:
    plan = answer(kind, {"accelerator": SOME, **fields}, today=TODAY)
    assert isinstance(plan, TrainPlan) and plan.options
    for option in plan.options:
        assert option.cost.value == sum(part.value for part in option.cost.parts)
        rules = billing_rules(catalog.providers().get(option.bill.provider))
        hours = charged_hours(option.run.billed_s, rules=rules, term=option.bill.term)
        rented = option.cost.value - option.cost.part("storage")
        assert rented == pytest.approx(option.bill.instances * listed(option.bill) * hours, rel=1e-9)
        assert option.cost.low <= option.cost.value <= option.cost.high
        assert math.isfinite(option.cost.value)


def test_a_life_costs_what_its_halves_and_the_move_cost() -> None:
    plan = answer(
        "lifecycle",
        {
            "model": EIGHT,
            "months": 6,
            "retrainings": 2,
            "quick": True,
            "finetune": {"method": "lora", "tokens": "20M", "accelerator": SOME},
            "serve": {"rate": "2/s", "traffic": "chat", "accelerator": SOME},
        },
        today=TODAY,
    )
    assert isinstance(plan, LifecyclePlan) and plan.bill is not None
    bill = plan.bill
    assert bill.value == sum(part.value for part in bill.parts)
    assert bill.part("making") == plan.make.options[0].cost.value * 3
    assert bill.part("serving") == pytest.approx(plan.serve.options[0].cost.value * 6 * HOURS_PER_MONTH, rel=1e-12)


# Instances of a batch job

OFFER = next(offer for offer in catalog.offers() if offer.instance_type == "p5.48xlarge" and not offer.history)


AT = resolve(
    ServeCase(
        model=EIGHT,
        accelerator="h100-sxm5-80gb",
        traffic=Traffic(saturated=True),
        isl=800.0,
        osl=150.0,
    )
)


def rented(items: float, rate: float = 20.0, ranks: int = 1, *, term: str) -> Candidate:
    """A job of so many items on one offer, each replica on so many accelerators."""
    work = Work(
        configuration=Configuration(
            accelerator="h100-sxm5-80gb", layout=Layout(tp=ranks), precision=Precision(), engine=Engine(name="vllm")
        ),
        items=items,
        at=AT,
        served=Served(ttft_s=1.0, tpot_s=0.2, e2e_s=30.0, requests_per_s=rate, running=64.0),
        error=Spread(math.log(1.4)),
        basis=Basis.DERIVED,
        weight_bytes=16e9,
    )
    found = candidate_of(work, OFFER, term=term)
    assert found is not None
    return found


@settings(max_examples=60)
@given(st.floats(1e3, 1e9), st.floats(0.1, 500.0), st.integers(1, 64), st.sampled_from(["on-demand", "spot"]))
def test_more_instances_are_never_slower_and_time_times_price_is_the_cost(
    items: float, rate: float, instances: int, term: str
) -> None:
    at = rented(items, rate, term=term)
    one, more = (at.run(n) for n in (instances, instances + 1))
    assert more.wall_s <= one.wall_s * (1 + 1e-12)
    assert one.usd == pytest.approx(instances * at.usd_per_hour * one.billed_hours, rel=1e-9)
    assert all(part.value >= 0 for part in one.parts)


@settings(max_examples=60)
@given(
    st.floats(1e3, 1e9), st.floats(0.1, 500.0), st.floats(900.0, 1e6), st.sampled_from([1, 2, 8, 16]),
    st.sampled_from(["on-demand", "spot"]),
)  # fmt: skip
def test_the_instances_for_a_deadline_meet_it_and_one_fewer_does_not(
    items: float, rate: float, deadline_s: float, ranks: int, term: str
) -> None:
    at = rented(items, rate, ranks, term=term)
    needed = at.instances_by(deadline_s, speed=1.0)
    assert at.run(needed).wall_s <= deadline_s * (1 + 1e-6)
    step = 2 if ranks == 16 else 1
    if needed > step:
        assert at.run(needed - step).wall_s > deadline_s * (1 - 1e-6)


def test_a_deadline_shorter_than_the_start_cannot_be_met() -> None:
    assert rented(1e6, term="on-demand").instances_by(60.0, speed=1.0) is None
