"""A fleet plan is cheaper than one kind alone, holds in simulation, adds up, and says what stands in the way."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

import msgspec
import pytest

import tonnage
from tonnage.errors import TonnageError

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
CHAT = {
    "name": "chat",
    "model": MODEL,
    "rate": "4/s",
    "ttft": "1 s",
    "tpot": "80 ms",
    "buckets": [
        {"share": "90 %", "prompt_tokens": 200, "output_tokens": 100},
        {"share": "10 %", "prompt_tokens": 1500, "output_tokens": 200},
    ],
}
AGENT = {"name": "agent", "model": MODEL, "rate": "1/s", "traffic": "chat", "ttft": "500 ms", "tpot": "30 ms"}
OFFERS = {"provider": "aws", "region": "us-east-1", "accelerator": "L4,A10G,H100", "term": "on-demand"}


def planned(*workloads: dict[str, Any], **more: Any) -> Any:
    return answered(json.dumps({**OFFERS, "workloads": workloads, **more}))


@cache
def answered(asked: str) -> Any:
    return tonnage.plan_fleet(**json.loads(asked))


def mixed() -> Any:
    return planned(CHAT, AGENT)


def test_a_mix_beats_the_best_single_kind_and_the_simulation_holds() -> None:
    plan = mixed()
    assert plan.feasible and len({one.accelerator for one in plan.instances}) > 1
    (alone,) = (one for one in plan.alternatives if one.name.startswith("one kind"))
    assert alone.more > 0.05
    assert {check.workload for check in plan.checks} == {"chat", "agent"}
    for check in plan.checks:
        assert check.meets and check.requests > 1000
        assert 0.8 <= check.chance <= 1.0
    chat = next(check for check in plan.checks if check.workload == "chat")
    assert chat.ttft_s <= 1.0
    assert chat.tpot_s <= 0.08


def test_a_part_of_a_large_instance_is_no_yardstick_for_a_small_load() -> None:
    # An eighth of a machine of MI300X put A100 out of the question, and the whole machine was rented for five times it.
    load = {"model": "openai/gpt-oss-120b", "rate": "3/s", "traffic": "chat", "ttft": "500 ms", "tpot": "50 ms"}
    asked = {"accelerator": "A100,MI300X", "quick": True, "workloads": [load]}
    few, more = (tonnage.plan_fleet(provider=names, **asked).bill for names in ("verda", "verda,crusoe"))
    assert more.value <= few.value


def test_the_bill_is_the_sum_of_its_lines_and_of_its_instances() -> None:
    plan = mixed()
    assert plan.bill.value == pytest.approx(math.fsum(part.value for part in plan.bill.parts), rel=1e-12)
    assert plan.bill.value == pytest.approx(math.fsum(one.usd_per_month for one in plan.instances), rel=1e-9)
    assert plan.bill.low <= plan.bill.value


def test_every_request_is_carried() -> None:
    plan = mixed()
    for name in ("chat", "agent"):
        rows = [one.carries for one in plan.replicas if one.workload == name]
        for shares in zip(*rows, strict=True):
            assert sum(shares) == pytest.approx(1.0, abs=1e-6)


def test_a_quota_too_small_says_by_how_much() -> None:
    plan = planned(AGENT, quick=True, accelerator="H100", quotas=[{"accelerator": "H100", "most": 0}])
    assert not plan.feasible
    assert plan.binding.limit == "quota" and (plan.binding.short_by or 0) >= 1
    assert "quota" in plan.sentence


def test_objectives_that_nothing_reaches_name_the_workload() -> None:
    plan = planned({**AGENT, "tpot": "0.1 ms"}, quick=True)
    assert not plan.feasible
    assert plan.binding.limit == "tpot" and "agent" in (plan.binding.reason or "")


def test_a_budget_too_small_says_what_is_needed() -> None:
    plan = planned(AGENT, quick=True, budget="1 USD/h")
    assert not plan.feasible and plan.binding.limit == "budget"
    assert plan.binding.short_by == pytest.approx(plan.bill.value / 730.0 - 1.0)


def test_what_is_owned_costs_nothing_more_and_is_used_first() -> None:
    rented = planned(AGENT, quick=True)
    assert rented.alternatives == rented.binds == ()
    assert (rented.bill.low or 0.0) < rented.bill.value < (rented.bill.high or 0.0)
    owned = planned(AGENT, quick=True, own=[{"accelerator": "H100", "count": 1}])
    assert owned.bill.value == 0.0 < rented.bill.value
    assert [one.term for one in owned.instances] == ["own"]


def test_zones_cost_more_and_survive_in_simulation() -> None:
    one, two = planned(CHAT), planned(CHAT, zones=2)
    assert two.bill.value > one.bill.value
    assert [check.lost for check in two.checks] == ["", "zone 1"] or [c.lost for c in two.checks] == ["", "zone 2"]
    assert all(check.meets for check in two.checks)


def test_a_batch_takes_spot_and_its_window() -> None:
    batch = {"name": "night", "kind": "batch", "model": MODEL, "items": "200k", "window": "22-6"}
    plan = planned(batch, term="on-demand,spot", quick=True)
    assert plan.feasible and {one.term for one in plan.instances} == {"spot"}
    for one in plan.replicas:
        for run in one.hours:
            assert not run.count or run.start >= 22 or run.stop <= 6


def test_cores_are_work_too() -> None:
    cores = {"name": "parse", "kind": "cpu", "rate": "10/s", "cpu_time": "1 s"}
    plan = tonnage.plan_fleet(provider="gcp", term="on-demand", workloads=[cores], quick=True)
    assert plan.feasible and sum(run.count for one in plan.replicas for run in one.hours) >= 10.0
    assert all(one.accelerator.startswith("cpu-") for one in plan.instances)


ROUTER = {
    "name": "router",
    "model": "Qwen/Qwen2.5-1.5B-Instruct",
    "rate": "5/s",
    "prompt_tokens": 300,
    "output_tokens": 16,
    "ttft": "200 ms",
    "tpot": "20 ms",
}
CAMERAS = {
    "name": "cameras",
    "kind": "infer",
    "model": "ultralytics/yolov8m",
    "streams": 12,
    "fps": 25,
    "resolution": 640,
    "latency": "100 ms",
}


def test_small_services_share_an_accelerator_in_slices() -> None:
    """Whole A100s: one each. In slices: one for both, a spare replica and all; the latencies hold."""
    on = {"accelerator": "A100 40GB", "provider": "gcp", "region": "us-central1"}
    router = {**ROUTER, "spare_replicas": 1, "confidence": "70%"}
    whole = planned(router, CAMERAS, **on)
    split = planned(router, CAMERAS, **on, slices=True)
    assert split.bill.value <= whole.bill.value / 2.0
    (profile,) = {one.slice for one in split.replicas}
    assert profile.startswith(("1g.", "2g.")) and all(check.meets for check in split.checks)
    counts = {one.workload: one.hours[0].count for one in split.replicas}
    assert counts["router"] >= 2 and sum(counts.values()) <= 7


def test_a_spare_replica_is_one_more_and_holds_without_it() -> None:
    alone, spared = planned(AGENT), planned({**AGENT, "spare_replicas": 1})
    assert spared.bill.value > alone.bill.value
    (lost,) = (check for check in spared.checks if check.lost)
    assert lost.meets and lost.lost == "1 replica"
    assert lost.replicas == next(check.replicas for check in spared.checks if not check.lost) - 1


def test_samples_take_as_many_accelerators_as_their_own_plan_says() -> None:
    fields = {key: value for key, value in CAMERAS.items() if key not in {"name", "kind"}} | {"streams": 400}
    where = {"accelerator": "L4", "provider": "gcp"}
    alone = tonnage.plan_infer(**fields, **where).options[0]
    plan = tonnage.plan_fleet(**where, term="on-demand", workloads=[{**CAMERAS, "streams": 400}])
    (mine,) = plan.replicas
    assert mine.hours[0].count == alone.count
    (check,) = plan.checks
    assert check.meets and check.e2e_s <= 0.1


def test_two_zones_of_three_may_be_lost() -> None:
    one, both = planned(AGENT, zones=3), planned(AGENT, zones=3, lost_zones=2)
    assert both.bill.value > one.bill.value
    assert all(check.meets for check in both.checks)
    assert {check.lost.count("and") for check in both.checks if check.lost} == {1}


def test_a_network_without_text_is_sent_to_its_own_question() -> None:
    with pytest.raises(TonnageError, match="plan infer"):
        planned({"model": "ultralytics/yolo11s", "rate": "1/s"})


def test_more_load_never_costs_less() -> None:
    costs = [planned({**AGENT, "rate": f"{rate}/s"}, quick=True).bill for rate in (1, 20, 60)]
    values = [bill.value for bill in costs if bill is not None]
    assert len(values) == 3 and values == sorted(values)


ODD: list[dict[str, Any]] = [
    {},
    {"workloads": []},
    {"workloads": {}},
    {"workloads": ["chat"]},
    {"workloads": [{}]},
    {"workloads": [{"model": "8B"}]},
    {"workloads": [{"model": "8B", "concurrency": 4}]},
    {"workloads": [{"model": "8B", "rate": "0/s"}]},
    {"workloads": [{"model": "8B", "rate": "4/s", "colour": "red"}]},
    {"workloads": [{"name": "a", "model": "8B", "rate": "4/s"}, {"name": "a", "model": "8B", "rate": "4/s"}]},
    {"workloads": [{"model": "8B", "rate": "4/s", "buckets": []}]},
    {"workloads": [{"model": "8B", "rate": "4/s", "buckets": 99}]},
    {"workloads": [{"model": "8B", "rate": "4/s", "buckets": [{"share": 0.5, "prompt_tokens": 1}]}]},
    {"workloads": [{"model": "8B", "rate": "4/s", "prompt_tokens": 9, "output_tokens": 9, "buckets": 3}]},
    {"workloads": [{"model": "8B", "items": "1k", "window": "6-6"}]},
    {"workloads": [{"model": "8B", "items": "1k", "window": "night"}]},
    {"workloads": [{"model": "8B", "items": "1k", "ttft": "1 s"}]},
    {"workloads": [{"kind": "cpu", "rate": "4/s"}]},
    {"workloads": [{"model": "8B", "rate": "4/s", "spot_share": "120 %"}]},
    {"workloads": [{"model": "8B", "rate": "4/s"}], "quotas": [{"accelerator": "H100"}]},
    {"workloads": [{"model": "8B", "rate": "4/s"}], "quotas": [{"most": 1, "provider": "nowhere"}]},
    {"workloads": [{"model": "8B", "rate": "4/s"}], "own": [{"accelerator": "H100", "count": 6, "per_node": 4}]},
    {"workloads": [{"model": "8B", "rate": "4/s"}], "own": [{"accelerator": "H100"}]},
    {"workloads": [{"model": "8B", "rate": "4/s"}], "zones": 0},
]


@pytest.mark.parametrize("values", ODD, ids=range(len(ODD)))
def test_what_makes_no_sense_is_one_teaching_sentence(values: dict[str, Any]) -> None:
    with pytest.raises(TonnageError) as caught:
        tonnage.plan_fleet(**values)
    assert "\n" not in str(caught.value) and len(str(caught.value)) > 20


def test_no_more_kinds_than_asked_for() -> None:
    two = planned(CHAT, AGENT, max_kinds="2")
    one = planned(CHAT, AGENT, max_kinds="1")
    assert len({line.accelerator for line in two.instances}) == 2
    assert one.feasible and len({line.accelerator for line in one.instances}) == 1
    assert one.bill.value >= two.bill.value
    # The least used of the two is what carries everything alone for the least.
    (alone,) = (other for other in two.alternatives if other.name.startswith("one kind"))
    kind = one.instances[0].accelerator.partition("-")[0].upper()
    assert alone.name.startswith(f"one kind alone: {kind} "), "l40s-48gb is an L40S"
    assert one.bill.value <= alone.usd_per_month * 1.05


def test_what_a_kind_less_would_cost_by_bounds_is_no_fleet_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {one.name.split(":")[0]: one for one in mixed().alternatives}
    for where in ("alternatives", "plan"):
        monkeypatch.setattr(f"tonnage.questions.fleet.{where}.takes_long", lambda problem: True)
    answered.cache_clear()
    quick = {one.name.split(":")[0]: one for one in mixed().alternatives}
    answered.cache_clear()
    assert quick.keys() == found.keys()
    for name, one in quick.items():
        assert one.usd_per_month == pytest.approx(found[name].usd_per_month, rel=0.15), name
    assert any("no fleet was sought" in one.what for one in quick.values())


def test_a_fleet_with_more_room_is_surer() -> None:
    """Of one arrangement; where objectives are tight, another is taken that keeps them as surely."""
    asked = {**AGENT, "rate": "6/s", "ttft": "1 s", "tpot": "60 ms"}
    tight, roomy = (
        planned({**asked, "headroom": room}, accelerator="L4", confidence="50 %") for room in ("2 %", "40 %")
    )
    assert tight.replicas[0].configuration == roomy.replicas[0].configuration
    (low,), (high,) = tight.checks, roomy.checks
    assert low.chance < high.chance


def test_a_chance_below_the_confidence_is_said_beside_the_objectives_that_hold() -> None:
    """G4: the simulated hour may hold where errors of the prediction leave less than what was asked for."""
    made = mixed()
    replace = msgspec.structs.replace
    doubtful, surely = (
        replace(made, checks=tuple(replace(check, chance=chance) for check in made.checks))._repr_html_()
        for chance in (0.741, 0.85)
    )
    assert "holds (74 %, below the 80 % asked for)" in doubtful and "below the 80 %" not in surely
