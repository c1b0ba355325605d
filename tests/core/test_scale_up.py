"""Racks whose trays are rented one by one are planned as one domain; chips of a torus in the slices that are sold."""

from datetime import date

import pytest

from tonnage import catalog
from tonnage.core.sites import Site, domain_of, reach_of, sites, with_slices
from tonnage.domain.plan import ServePlan
from tonnage.questions.serve.plan import plan_serve
from tonnage.questions.serve.question import serve_request

TODAY = date(2026, 11, 22)


def site_of(accelerator: str) -> Site:
    request = serve_request({"model": "8B", "rate": "1/s", "traffic": "chat", "accelerator": accelerator})
    return sites(request.filters, additions=catalog.NOTHING)[0][0]


def planned(model: str, **asked: str | None) -> ServePlan:
    fields = {"model": model, "traffic": "chat", "quick": True, "tpot": "80 ms", **asked}
    return plan_serve(serve_request(fields), today=TODAY)


def test_a_rack_reaches_over_its_trays_less_the_spare_ones_and_a_board_over_itself() -> None:
    rack = site_of("gb200-nvl72")
    domain = domain_of(rack)
    assert domain is not None and rack.per_node == domain.packages_per_tray == 4
    assert reach_of(rack) == domain.usable_packages == 64
    board = site_of("h200")
    assert domain_of(board) is None and reach_of(board) == board.per_node == 8


def test_deepseek_r1_on_gb200_is_planned_over_several_trays_and_says_so() -> None:
    # Mostly answers: with long prompts every rank of a wide replica waits for one rank's prompt, and trays alone win.
    load = {"rate": "100/s", "prompt_tokens": "64", "output_tokens": "1024", "traffic": None, "tpot": "50 ms"}
    plan = planned("deepseek-ai/DeepSeek-R1", accelerator="gb200-nvl72", **load)
    wide = [option for option in plan.options if option.configuration.layout.ranks > 4]
    assert {option.configuration.layout.ep for option in wide} >= {8}
    assert all(option.configuration.layout.pp == 1 for option in wide)
    assert any("trays of one rack" in said for said in plan.provenance.assumed)


def test_a_chip_of_a_torus_is_rented_in_the_slices_of_its_vendor() -> None:
    chips = site_of("tpu-v5p")
    (sliced,) = with_slices([chips])
    assert {offer.count for offer in sliced.offers} == {4.0, 8.0, 32.0, 64.0} and sliced.per_node == 64
    one, four = chips.offers[0], sliced.offers[0]
    term = one.prices[0].term
    assert four.usd_per_hour(term) == pytest.approx(4.0 * (one.usd_per_hour(term) or 0.0))
    assert list(with_slices([site_of("h200")])) == [site_of("h200")]


def test_a_model_larger_than_a_chip_fits_a_slice() -> None:
    plan = planned("llama-3.1-70b", rate="4/s", accelerator="tpu-v6e")
    assert plan.feasible and plan.options[0].configuration.layout.tp == 8
    assert plan.options[0].bill.instance_type.endswith("2x4")
