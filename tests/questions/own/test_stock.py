"""`--own` with any plan: nothing is rented, never more is taken than is there, and its power is what it costs (G1)."""

import math

import pytest

import tonnage
from tonnage.catalog import NOTHING
from tonnage.core.load_fields import read_filters
from tonnage.core.sites import sites
from tonnage.core.stock import machine_size, owned_counts
from tonnage.domain.requests.common import Filters
from tonnage.errors import BadRequest

TWO = ("8 x A100 80GB", "4 x L40S")


def test_groups_of_one_part_are_added_and_sizes_reach_up_to_a_machine() -> None:
    filters = Filters(owned=("8 x A100 80GB", "4 x A100 80GB, 2 x L40S"))
    assert owned_counts(filters) == {"a100-sxm4-80gb": 12, "l40s": 2}
    large, small = sites(filters, additions=NOTHING)[0]
    assert [offer.count for offer in large.offers] == [8.0, 4.0, 2.0, 1.0] and large.stock == 12
    assert [offer.count for offer in small.offers] == [2.0, 1.0] and small.stock == 2
    assert [machine_size(count, 8) for count in (1, 3, 6, 9, 100)] == [1, 2, 4, 8, 8]


def test_an_hour_costs_its_power_or_what_the_user_says() -> None:
    (site,) = sites(Filters(owned=("4 x L40S",)), additions=NOTHING)[0]
    whole, one = site.offers[0].usd_per_hour("on-demand"), site.offers[-1].usd_per_hour("on-demand")
    assert whole is not None and one is not None and math.isclose(whole, 4 * one)
    assert 0.35 * 0.05 < one < 1.5 * 0.35 * 0.3  # a board of 350 W between $0.05 and $0.30 a kWh, with its host
    (stated,) = sites(Filters(owned=("4 x L40S",), own_prices=("l40s=0.5",)), additions=NOTHING)[0]
    assert stated.offers[0].usd_per_hour("on-demand") == 2.0


def test_filters_leave_out_what_is_owned_too() -> None:
    found, lost = sites(Filters(owned=TWO, accelerators=("l40s",)), additions=NOTHING)
    assert [site.accelerator.id for site in found] == ["l40s"] and [one.what for one in lost] == ["a100-sxm4-80gb"]


@pytest.mark.parametrize("said", ["nonsense 3000", "CPU"])
def test_what_is_no_accelerator_is_refused(said: str) -> None:
    with pytest.raises(BadRequest):
        read_filters({"own": (said,)}, NOTHING)


def test_a_plan_takes_what_is_there_and_says_what_renting_would_do() -> None:
    fields = {"model": "llama-3.1-8b", "own": list(TWO), "quick": True}
    able = tonnage.plan_serve(**fields, rate="20/s")
    assert able.feasible
    assert {option.configuration.accelerator for option in able.options} <= {"a100-sxm4-80gb", "l40s"}
    assert {option.bill.provider for option in able.options} == {"yours"}
    there = {"a100-sxm4-80gb": 8, "l40s": 4}
    assert all(option.bill.accelerators <= there[option.configuration.accelerator] for option in able.options)
    short = tonnage.plan_serve(**fields, rate="5000/s")
    assert not short.feasible and short.binding is not None and short.binding.limit == "count"
    assert any("without --own" in said for said in short.relaxing)


def test_training_looks_at_all_of_what_is_there_and_at_no_more() -> None:
    plan = tonnage.plan_train(model="7B", tokens="10B", own=["8 x A100 80GB"])
    assert max(option.configuration.count for option in plan.options) == 8
    many = tonnage.plan_train(model="7B", tokens="10B", own=["8 x A100 80GB"], count=16)
    assert not many.feasible
