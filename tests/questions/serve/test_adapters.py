"""Many LoRA adapters on one base: three ways that compete, laws that hold for each, and errors that teach."""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec
import pytest

from tonnage import export
from tonnage.adopt import read_running
from tonnage.core.deployment import resolve
from tonnage.core.replica import Replica, replica_of
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.plan import ServePlan
from tonnage.domain.requests.common import Lengths
from tonnage.domain.requests.groups import Adapters
from tonnage.errors import TonnageError
from tonnage.questions.adopt.adopt import adopt
from tonnage.questions.adopt.question import adopt_request
from tonnage.questions.explain.explain import explain_plan
from tonnage.questions.launchable import launchable_option
from tonnage.questions.serve.plan import plan_serve
from tonnage.questions.serve.question import serve_request
from tonnage.simulation.adapters import busiest_share, merged_replicas, most_sequences

TODAY = date(2026, 11, 23)
ASKED = {
    "model": "llama-3.1-8b", "rate": "8/s", "traffic": "chat", "accelerator": ["h100-sxm"], "ttft": "1 s",
    "tpot": "40 ms", "quick": True,
}  # fmt: skip


def plan(**changes: Any) -> ServePlan:
    return plan_serve(serve_request({**ASKED, **changes}), today=TODAY)


def replica(adapters: Adapters | None, model: str = "llama-3.1-8b", part: str = "h100-sxm") -> Replica:
    case = ServeCase(
        model=model,
        accelerator=part,
        traffic=Traffic(rate_per_s=1.0),
        isl=512,
        osl=256,
        engine_options={} if adapters is None else {"adapters": adapters},
    )
    return replica_of(resolve(case), Lengths(prompt_tokens=512, output_tokens=256))


def kept(made: ServePlan) -> list[str]:
    return [adapters.kept for o in made.options if (adapters := o.configuration.engine.adapters)]


@pytest.fixture(scope="module")
def many() -> ServePlan:
    return plan(adapters=64, adapter_skew=1.0)


def test_few_stay_resident_and_thousands_are_swapped(many: ServePlan) -> None:
    assert kept(many)[0] == "resident" and "swapped" in kept(many)
    assert "64-lora-resident" in many.options[0].configuration.label()
    thousands = plan(adapters=2000, adapter_rank=64, adapter_skew=1.0)
    assert kept(thousands)[0] == "swapped"
    assert "wait" in thousands.trail[-1].because and "TTFT" in thousands.trail[-1].because
    assert thousands.options[0].bill.usd_per_hour >= many.options[0].bill.usd_per_hour


def test_memory_and_reason_name_the_adapters(many: ServePlan) -> None:
    first = many.options[0]
    parts = {part.name: part.value for part in first.memory.parts}
    assert parts["weights: LoRA adapters, resident"] == 64 * 2 * 41_943_040
    assert many.trail[-1].question == "How are the 64 adapters kept?" and many.trail[-1].answer == "resident"
    # The tree of the first option opens with the adapters in its steps.
    assert "adapters: into the rank" in str(msgspec.to_builtins(explain_plan(many)))


def test_merged_wins_where_the_base_alone_is_fast_enough_and_each_adapter_is_busy() -> None:
    busy = plan(adapters=2, adapter_rank=512, rate="60/s", tpot="12 ms")
    first = busy.options[0]
    assert kept(busy)[0] == busy.trail[-1].answer == "merged" and "resident $" in busy.trail[-1].because
    assert first.replicas % 2 == 0 and first.chance is not None and first.chance >= 0.8
    rare = plan(adapters=2, rate="2/s")
    assert kept(rare)[0] == "resident" and rare.options[0].replicas == 1


def test_none_is_the_plan_of_today() -> None:
    assert all(option.configuration.engine.adapters is None for option in plan().options)
    assert b"adapter" not in msgspec.json.encode(plan().options)
    one, none = replica(Adapters(count=4, rank=8, slots=0)), replica(None)
    assert one.times == none.times and one.kv_tokens == none.kv_tokens


@pytest.mark.parametrize("slots", ["all", 8])
@pytest.mark.parametrize("change", [{"count": 128}, {"rank": 64}, {"skew": 0.0}])
def test_more_adapters_higher_rank_and_less_skew_are_never_faster(slots: Any, change: dict[str, Any]) -> None:
    base = Adapters(count=64, rank=16, skew=1.0, slots=64 if slots == "all" else 8)
    worse = msgspec.structs.replace(base, **change)
    worse = msgspec.structs.replace(worse, slots=worse.count if slots == "all" else 8)
    good, bad = replica(base), replica(worse)
    assert good.times is not None and bad.times is not None
    assert bad.kv_tokens <= good.kv_tokens * 1.02  # fewer sequences leave a little more room for the cache
    assert bad.times.prefill_s >= good.times.prefill_s
    shared = min(len(good.times.batches), len(bad.times.batches)) - 1
    assert all(b >= g for b, g in zip(bad.times.decode_s[:shared], good.times.decode_s[:shared], strict=True))
    assert bad.max_num_seqs <= good.max_num_seqs


def test_plans_never_get_cheaper_with_more_adapters_or_rank() -> None:
    costs = [plan(adapters=n, rate="40/s").options[0].bill.usd_per_hour for n in (1, 40, 1000)]
    assert costs == sorted(costs)
    ranks = [plan(adapters=100, adapter_rank=r, rate="40/s").options[0].bill.usd_per_hour for r in (8, 300)]
    assert ranks == sorted(ranks)
    assert costs[0] >= plan(rate="40/s").options[0].bill.usd_per_hour


def test_punica_adds_about_two_milliseconds_a_token() -> None:
    # arXiv 2310.18547, abstract: 2 ms a token, for batches of 32 on A100, rank 16, every request another adapter.
    for model in ("llama-2-7b", "llama-2-13b"):
        own = replica(Adapters(count=1000, rank=16, slots=32), model, "a100-sxm-80gb").times
        base = replica(None, model, "a100-sxm-80gb").times
        assert own is not None and base is not None
        added = own.decode_s[own.batches.index(16.0)] - base.decode_s[base.batches.index(16.0)]
        assert 1e-3 < added < 4e-3


def test_replica_sets_of_merged_adapters_share_nothing() -> None:
    four = Adapters(count=4, rank=8)
    assert merged_replicas(four, needed=0.5, spare=0, zones=1) == 4
    assert merged_replicas(four, needed=0.5, spare=1, zones=1) == 8
    assert merged_replicas(Adapters(count=2, rank=8, skew=1.0), needed=3.0, spare=0, zones=1) == 3
    assert busiest_share(Adapters(count=2, rank=8, skew=1.0), 3.0, replicas=3, spare=0, zones=1) == pytest.approx(1.0)
    assert busiest_share(four, 8.0, replicas=4, spare=0, zones=1) == pytest.approx(2.0)
    assert most_sequences(Adapters(count=64, rank=8, slots=8)) >= 8
    assert most_sequences(Adapters(count=64, rank=8, slots=8, skew=1.5)) > most_sequences(
        Adapters(count=64, rank=8, slots=8)
    )


def test_engines_get_their_own_flags(many: ServePlan) -> None:
    made, option = launchable_option(many)
    argv = export.export(made, option, to="vllm")["serve.sh"].replace(" \\\n ", "")
    assert "--enable-lora --max-loras 64 --max-lora-rank 16 --max-cpu-loras 64" in argv
    other = plan(adapters=2000, adapter_rank=24, adapter_skew=1.0, engine=["sglang"], adapter_targets="attention")
    made, option = launchable_option(other)
    argv = export.export(made, option, to="sglang")["serve.sh"].replace(" \\\n ", "")
    assert "--max-loaded-loras 2000 --max-lora-rank 24" in argv
    assert "--enable-lora --lora-target-modules q_proj k_proj v_proj o_proj" in argv
    # vLLM has slots of a few ranks alone.
    assert plan(adapters=20, adapter_rank=24).options[0].configuration.engine.adapters == Adapters(
        count=20, rank=24, slots=20, allocated=32
    )


def test_a_running_server_keeps_its_adapters_and_so_does_what_should_run_instead() -> None:
    line = "vllm serve meta-llama/Llama-3.1-8B-Instruct --enable-lora --max-loras 8 --max-lora-rank 32"
    text = f"{line} --max-cpu-loras 100\n"
    asked = adopt_request({"file": text, "accelerator": "H100"})
    found = adopt(asked, read_running(text, name="run.sh"), today=TODAY)
    assert found.serve is not None and found.serve.current is not None and found.serve.better is not None
    today = found.serve.current.options[0].configuration.engine.adapters
    assert today == Adapters(count=100, rank=32, slots=8)
    instead = [option.configuration.engine.adapters for option in found.serve.better.options]
    assert instead and all(one is not None and one.count == 100 for one in instead)
    assert "--adapters 100 --adapter-rank 32" in found.command


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"adapters": 0}, "adapters: '0' is out of range"),
        ({"adapter_rank": 8}, "says nothing without adapters"),
        ({"adapters": 64, "adapter_rank": 1024}, "above 512, the largest that vLLM has slots for"),
        ({"adapters": 64, "adapter_rank": 0}, "adapter_rank"),
        ({"adapters": 64, "engine": ["trtllm"]}, "too many to merge"),
        ({"adapters": 64, "adapter_skew": -1}, "adapter_skew"),
        ({"adapters": 64, "adapter_targets": "foo_proj"}, "no adapter target 'foo_proj'"),
        ({"adapters": 64, "pools": True}, "pools and adapters contradict"),
    ],
)
def test_errors_say_what_to_change(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(TonnageError, match=told):
        plan(**changes)
