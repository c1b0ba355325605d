"""One truth: whatever question leads to a session workload, its prompts find what the simulated cache has of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import tonnage
from tonnage.errors import BadRequest

SMALL = "meta-llama/Llama-3.1-8B-Instruct"
SERVICE = {"model": SMALL, "traffic": "agent"}
LIMITS = {"ttft": "2 s", "tpot": "40 ms"}
OFFERS = {"provider": "aws", "region": "us-east-1", "accelerator": "H100", "term": "on-demand"}


def asked(kind: str, **fields: Any) -> Any:
    return getattr(tonnage, f"plan_{kind}")(**fields)


@cache
def served(**more: Any) -> Any:
    return asked("serve", **{"rate": "30/s", "quick": True, **SERVICE, **LIMITS, **OFFERS, **more})


@pytest.mark.parametrize("reuse", [True, False])
def test_a_fleet_of_one_workload_is_the_plan_of_it(reuse: bool) -> None:
    # At even odds a fleet plans with what is predicted, as the plan shows it; surer ones keep some of it back.
    workload = {"name": "agents", "rate": "30/s", "reuse": reuse, "confidence": "50%", **SERVICE, **LIMITS}
    whole = asked("fleet", **OFFERS, workloads=[workload], quick=True)
    (replicas,) = whole.replicas
    # Of options that cost the same one is shown, so the cache's format is stated.
    plan = served(reuse=reuse, confidence="50%", kv_precision=replicas.configuration.precision.kv)
    alone = {o.configuration: o.capacity.max_rate_per_s.value for o in plan.options}
    assert replicas.capacity_per_s == pytest.approx((alone[replicas.configuration],), rel=1e-9)


def test_what_is_owned_and_what_lives_on_take_more_where_caches_give() -> None:
    # `plan budget` asks for the options of the serving plan itself (tests/questions/budget).
    def own(reuse: bool) -> float:
        plan = asked("own", own="8 x H100", reuse=reuse, min_speed=25, **SERVICE)
        return plan.groups[0].rows[0].output_tokens_per_s.value

    def life(reuse: bool) -> float:
        tuned = {"method": "lora", "examples": "10k", "tokens_per_example": 800, "epochs": 1, "deadline": "24 h"}
        serve = {"rate": "30/s", "traffic": "agent", "reuse": reuse, **LIMITS, **OFFERS}
        plan = asked("lifecycle", model=SMALL, months=12, finetune=tuned, serve=serve, quick=True)
        return 1.0 / plan.serve.options[0].bill.usd_per_hour

    for way in (own, life):
        # Contexts last as long as their answers, which leaves what caches give less of the whole.
        assert way(True) > 1.1 * way(False), way.__name__


def test_requests_cut_by_length_are_no_sessions() -> None:
    cut = {"name": "agents", "rate": "4/s", "buckets": 3, **SERVICE}
    with pytest.raises(BadRequest, match="away from its cache; leave buckets out, or say reuse: no"):
        asked("fleet", **OFFERS, workloads=[cut])
    read = asked("fleet", **OFFERS, workloads=[{**cut, "traffic": "chat-sessions", "reuse": "no"}], quick=True)
    assert len(read.request.workloads[0].buckets) == 3


def test_what_is_worked_off_finds_nothing_in_a_fleet_either() -> None:
    night = {"name": "night", "kind": "batch", "items": "1M", **SERVICE}
    (read,) = asked("fleet", **OFFERS, workloads=[night], quick=True).request.workloads
    assert not read.serve.sessions.reuse


@pytest.fixture(scope="module")
def apart() -> Any:
    large = {"model": "meta-llama/Llama-3.1-70B-Instruct", "rate": "10/s", "ttft": "2 s", "tpot": "15 ms"}
    plan = served(**large, provider="hyperstack", region="CANADA-1")
    assert plan.options[0].configuration.pools is not None
    return plan


def test_units_of_both_kinds_find_prompts_again(apart: Any) -> None:
    first = apart.options[0]
    assert not first.reuse.answers
    assert 0.4 < first.reuse.hit_rate <= first.reuse.unbounded
    sizes = apart.sessions.sizes if apart.sessions else ()
    none = next(size for size in sizes if size.name == "no reuse")
    assert [size.usd_per_hour for size in sizes if size.now] == [first.bill.usd_per_hour]
    assert none.usd_per_hour > first.bill.usd_per_hour and none.hit_rate == 0.0
