"""One truth: whatever question leads to a session workload, its prompts find what the simulated cache has of them."""

from __future__ import annotations

from datetime import date
from functools import cache
from typing import Any

import pytest

from tonnage.catalog.traffic import session_profiles
from tonnage.domain.case import ServeResult
from tonnage.domain.plan import ServePlan
from tonnage.errors import BadRequest
from tonnage.questions.ask import answer
from tonnage.questions.explain.explain import case_of_option, explain_plan
from tonnage.questions.fleet.answer import FleetPlan
from tonnage.questions.fleet.question import fleet_request
from tonnage.questions.lifecycle.question import LifecyclePlan
from tonnage.questions.own.question import OwnPlan
from tonnage.questions.predict.predict import predict
from tonnage.simulation.session_steady import SteadyTier, found_in, steady_turns, without_answers

TODAY = date(2026, 11, 23)
SMALL = "meta-llama/Llama-3.1-8B-Instruct"
SERVICE = {"model": SMALL, "traffic": "agent"}
LIMITS = {"ttft": "2 s", "tpot": "40 ms"}
OFFERS = {"provider": "aws", "region": "us-east-1", "accelerator": "H100", "term": "on-demand"}


def asked(kind: str, **fields: Any) -> Any:
    return answer(kind, fields, today=TODAY)


@cache
def served(**more: Any) -> ServePlan:
    plan = asked("serve", **{"rate": "30/s", "quick": True, **SERVICE, **LIMITS, **OFFERS, **more})
    assert isinstance(plan, ServePlan)
    return plan


@pytest.mark.parametrize("reuse", [True, False])
def test_a_fleet_of_one_workload_is_the_plan_of_it(reuse: bool) -> None:
    workload = {"name": "agents", "rate": "30/s", "reuse": reuse, **SERVICE, **LIMITS}
    whole = asked("fleet", **OFFERS, workloads=[workload], quick=True)
    assert isinstance(whole, FleetPlan)
    (replicas,) = whole.replicas
    # Of options that cost the same one is shown, so the cache's format is stated.
    plan = served(reuse=reuse, kv_precision=replicas.configuration.precision.kv)
    alone = {o.configuration: o.capacity.max_rate_per_s.value for o in plan.options}
    assert replicas.capacity_per_s == pytest.approx((alone[replicas.configuration],), rel=1e-9)


def test_what_is_owned_and_what_lives_on_take_more_where_caches_give() -> None:
    # `plan budget` asks for the options of the serving plan itself (tests/questions/budget).
    def own(reuse: bool) -> float:
        plan = asked("own", own="8 x H100", reuse=reuse, min_speed=25, **SERVICE)
        assert isinstance(plan, OwnPlan)
        return plan.groups[0].rows[0].output_tokens_per_s.value

    def life(reuse: bool) -> float:
        tuned = {"method": "lora", "examples": "10k", "tokens_per_example": 800, "epochs": 1, "deadline": "24 h"}
        serve = {"rate": "30/s", "traffic": "agent", "reuse": reuse, **LIMITS, **OFFERS}
        plan = asked("lifecycle", model=SMALL, months=12, finetune=tuned, serve=serve, quick=True)
        assert isinstance(plan, LifecyclePlan)
        return 1.0 / plan.serve.options[0].bill.usd_per_hour

    for way in (own, life):
        # Contexts last as long as their answers, which leaves what caches give less of the whole.
        assert way(True) > 1.1 * way(False), way.__name__


def test_requests_cut_by_length_are_no_sessions() -> None:
    cut = {"name": "agents", "rate": "4/s", "buckets": 3, **SERVICE}
    with pytest.raises(BadRequest, match="away from its cache; leave buckets out, or say reuse: no"):
        fleet_request({"workloads": [cut]})
    (read,) = fleet_request({"workloads": [{**cut, "traffic": "chat-sessions", "reuse": "no"}]}).workloads
    assert len(read.buckets) == 3


def test_what_is_worked_off_finds_nothing_in_a_fleet_either() -> None:
    (read,) = fleet_request({"workloads": [{"name": "night", "kind": "batch", "items": "1M", **SERVICE}]}).workloads
    assert read.serve is not None and not read.serve.sessions.reuse


def test_workers_that_hand_caches_over_keep_prompts_and_no_answers() -> None:
    turns = steady_turns(session_profiles()["chat-sessions"])
    apart = without_answers(turns)
    later = turns.gap_s < 1e9
    assert (apart.kept <= turns.kept).all() and (apart.kept[later] <= turns.before[later]).all()
    assert (apart.own == turns.prompt - turns.shared).all()
    everything = (SteadyTier(tokens=1e15),)
    hits = [float(found_in(one, everything, turns_per_s=1.0)[0].sum()) for one in (turns, apart)]
    answers = turns.output[turns.until_s < 1e9].sum()
    assert hits[0] - answers <= hits[1] < hits[0]


@pytest.fixture(scope="module")
def apart() -> ServePlan:
    large = {"model": "meta-llama/Llama-3.1-70B-Instruct", "rate": "10/s", "ttft": "2 s", "tpot": "15 ms"}
    plan = served(**large, provider="hyperstack", region="CANADA-1")
    assert plan.options[0].configuration.pools is not None
    return plan


def test_units_of_both_kinds_find_prompts_again(apart: ServePlan) -> None:
    first = apart.options[0]
    assert first.reuse is not None and not first.reuse.answers
    assert 0.4 < first.reuse.hit_rate <= first.reuse.unbounded
    sizes = apart.sessions.sizes if apart.sessions else ()
    none = next(size for size in sizes if size.name == "no reuse")
    assert [size.usd_per_hour for size in sizes if size.now] == [first.bill.usd_per_hour]
    assert none.usd_per_hour > first.bill.usd_per_hour and none.hit_rate == 0.0


def test_an_option_is_opened_with_the_hits_that_it_was_planned_with(apart: ServePlan) -> None:
    for plan in (served(), apart):
        first, case = plan.options[0], case_of_option(plan, 1)
        assert first.reuse is not None and case is not None and case.sessions is not None
        assert case.sessions.prefix_hits == pytest.approx(1 - first.reuse.computed_tokens / 8596, abs=0.01)
        result = predict(case)
        assert isinstance(result, ServeResult) and result.ttft_s is not None
        shown = explain_plan(plan)
        assert shown is not None and [node.name for node in shown.numbers][:2] == ["TTFT", "TPOT"]
    near = next(node for node in (explain_plan(served()) or pytest.fail()).numbers if node.name == "TTFT")
    beyond = next((part.value for part in near.parts if part.name == "beyond the steady state"), 0.0)
    # The tree has equal lengths; what long prompts add to the mean is a part beside it, with its name.
    assert 0.0 < beyond < 0.5 * near.value
