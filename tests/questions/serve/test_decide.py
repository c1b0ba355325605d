"""The mean field prunes, the simulator decides: on a margin that was measured, with the same requests for all."""

import math
from datetime import date
from typing import Any

import pytest
from msgspec.structs import replace
from tests.questions.serve.test_break_even import ASKED, flips_of, leader, part
from tests.sweeps import FULL

from tonnage import catalog
from tonnage.catalog.hub.resolve import resolve
from tonnage.core.sites import sites
from tonnage.domain.plan import Configuration, ServePlan
from tonnage.questions.serve.capacity_search import draw_requests, search_capacity
from tonnage.questions.serve.chance import MARGIN
from tonnage.questions.serve.decide import CONTENDERS
from tonnage.questions.serve.option import Candidate
from tonnage.questions.serve.plan import _configurations, outcome_of, plan_serve
from tonnage.questions.serve.question import serve_request

TODAY = date(2026, 11, 21)
SOME = "H100,L4,L40S,A100-PCIE-80GB,B200,MI300X,RTX-4090"
MAKERS = ("H100,MI300X,L4", "A100-PCIE-80GB,B200", "L40S,MI300X", "RTX-4090,H100", "L4,B200")
LOADS = {
    "chat": {"traffic": "chat", "ttft": "1 s", "tpot": "50 ms"},
    "tight chat": {"traffic": "chat", "ttft": "300 ms", "tpot": "25 ms"},
    "code": {"traffic": "code", "ttft": "3 s", "tpot": "100 ms"},
    "short prompts": {"traffic": "batch", "ttft": "1 s", "tpot": "50 ms", "model": "Qwen/Qwen3-30B-A3B"},
    "no objective": {"traffic": "chat"},
}


def plan(**changes: Any) -> ServePlan:
    given = {"model": "meta-llama/Llama-3.1-8B", "rate": "30/s", "accelerator": SOME, **LOADS["chat"], **changes}
    return plan_serve(serve_request({k: v for k, v in given.items() if v}), today=TODAY)


@pytest.fixture(scope="module")
def chat() -> ServePlan:
    return plan()


@pytest.mark.parametrize(
    ("load", "some"), [(load, SOME if FULL else few) for load, few in zip(LOADS, MAKERS, strict=True)]
)
def test_no_replica_takes_more_than_the_margin_says(load: str, some: str) -> None:
    request = serve_request({"model": "meta-llama/Llama-3.1-8B", "rate": "20/s", "accelerator": some, **LOADS[load]})
    model = resolve(request.model, additions=catalog.NOTHING)
    requests = draw_requests(request)
    places, _ = sites(request.filters, additions=catalog.NOTHING)
    tries = [(site, one) for site in places for one in _configurations(request, model, site, startable=True)]
    outcomes = [
        outcome_of(request, model, site=site, configuration=one)
        for site, one in tries
        if isinstance(one, Configuration)
    ]
    candidates = [one for one in outcomes if isinstance(one, Candidate)]
    assert len(candidates) >= 3
    for c in candidates:
        found = search_capacity(request, c.replica, requests=requests, guess=c.best, close=False).found
        assert found.low_per_s <= MARGIN * c.best.rate_per_s, c.configuration.label()


def test_those_shown_are_simulated_and_their_lower_bound_is_planned_with(chat: ServePlan) -> None:
    for option in [o for o in chat.options if o.sure][:CONTENDERS]:
        seen = option.capacity.simulated
        assert 0 < seen.low_per_s <= seen.rate_per_s <= seen.high_per_s
        assert option.capacity.max_rate_per_s.value == seen.low_per_s
        assert seen.resource in {"kv", "batch limit", "compute", "bandwidth", "host"}
        assert seen.cause in option.capacity.binds_text and seen.cause in option.verdict


@pytest.fixture(scope="module")
def alone() -> ServePlan:
    return plan(accelerator="H100")


def test_the_same_request_has_the_same_plan(alone: ServePlan) -> None:
    assert plan(accelerator="H100") == alone


def test_quick_does_not_simulate(chat: ServePlan) -> None:
    quick = plan(quick=True)
    assert quick.simulated == 0 < chat.simulated <= chat.evaluated
    assert all(option.capacity.simulated is None for option in quick.options)


def test_what_was_left_as_an_estimate_could_not_have_come_among_the_first(chat: ServePlan) -> None:
    first = sorted(o.bill.usd_per_hour for o in chat.options if o.sure and o.capacity.simulated)
    left = [o.bill.usd_per_hour for o in chat.options if o.capacity.simulated is None]
    assert left and len(first) >= CONTENDERS and min(left) > first[0]


def test_a_number_of_clients_and_no_objective_are_simulated_too(chat: ServePlan) -> None:
    clients = plan(rate=None, concurrency="200", accelerator="H100")
    best = clients.options[0]
    assert best.capacity.simulated is not None
    assert best.capacity.concurrency == pytest.approx(200 / best.replicas, rel=0.15)
    free = plan(ttft=None, tpot=None)
    assert free.options[0].capacity.simulated is not None
    assert free.options[0].capacity.binds in {"kv", "batch", "compute"}
    assert free.options[0].bill.usd_per_hour <= chat.options[0].bill.usd_per_hour


def test_burstier_arrivals_never_need_less(alone: ServePlan) -> None:
    asked = alone.request
    assert asked.shape.dispersion < 4.0
    bursty = (replace(asked, shape=replace(asked.shape, dispersion=dispersion)) for dispersion in (4.0, 16.0))
    plans = (alone, *(plan_serve(request, today=TODAY) for request in bursty))
    costs = [made.options[0].bill.usd_per_hour for made in plans]
    assert costs == sorted(costs) and costs[0] < costs[-1]


def test_longer_requests_change_the_answer_where_planning_again_says_so() -> None:
    """Capacities between doublings are drawn on logarithms: the change lies within a tenth."""
    request = serve_request({**ASKED, "rate": "6/s"})
    now = plan_serve(request, today=TODAY)

    def at_lengths(share: float) -> ServePlan:
        """All lengths that much longer: typed ones would all be alike, and queue less."""
        names = ("prompt_tokens", "output_tokens", "prompt_p95", "output_p95")
        longer = replace(request.lengths, **{name: getattr(request.lengths, name) * share for name in names})
        return plan_serve(replace(request, lengths=longer), today=TODAY)

    found = flips_of(now, "tokens of a request above")
    if not found:
        pytest.skip("no flip with these prices")
    share = found[0].value / (found[0].now or 1.0)
    # Past the change the first option may lead again, with one replica more.
    assert {leader(at_lengths(share * beyond)) for beyond in (1.02, 1.1)} - {leader(now)}
    assert part(at_lengths(math.sqrt(share))) == part(now), "half-way there"


def test_what_is_as_sure_as_asked_leads_though_its_checkpoint_has_to_be_made() -> None:
    asked = {"traffic": "rag", "rate": "20/s", "ttft": "300 ms", "confidence": 0.6, "accelerator": "B200,H200"}
    sure = [option.sure for option in plan(model="mistralai/Mixtral-8x7B-v0.1", quick=True, **asked).options]
    assert sure == sorted(sure, reverse=True) and len(set(sure)) == 2
