"""Many LoRA adapters on one base: three ways that compete, laws that hold for each, and errors that teach."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.command import told as command

import tonnage
from tonnage.errors import TonnageError

ASKED = {
    "model": "llama-3.1-8b", "rate": "8/s", "traffic": "chat", "accelerator": ["h100-sxm"], "ttft": "1 s",
    "tpot": "40 ms", "quick": True,
}  # fmt: skip


def plan(**changes: Any) -> Any:
    return tonnage.plan_serve(**ASKED | changes)


def kept(made: Any) -> list[str]:
    return [adapters.kept for o in made.options if (adapters := o.configuration.engine.adapters)]


@pytest.fixture(scope="module")
def many() -> Any:
    return plan(adapters=64, adapter_skew=1.0)


def test_few_stay_resident_and_thousands_are_swapped(many: Any) -> None:
    assert kept(many)[0] == "resident" and "swapped $" in many.trail[-1].because
    assert "64-lora-resident" in many.options[0].configuration.label()
    thousands = plan(adapters=2000, adapter_rank=64, adapter_skew=1.0)
    assert kept(thousands)[0] == "swapped"
    assert "wait" in thousands.trail[-1].because and "TTFT" in thousands.trail[-1].because
    assert thousands.options[0].bill.usd_per_hour >= many.options[0].bill.usd_per_hour


def test_memory_and_reason_name_the_adapters(many: Any) -> None:
    first = many.options[0]
    parts = {part.name: part.value for part in first.memory.parts}
    assert parts["weights: LoRA adapters, resident"] == 64 * 2 * 41_943_040
    assert many.trail[-1].question == "How are the 64 adapters kept?" and many.trail[-1].answer == "resident"
    # The tree of the first option opens with the adapters in its steps.
    assert "adapters: into the rank" in str(tonnage.to_dict(tonnage.explain(many)))


def test_merged_wins_where_the_base_alone_is_fast_enough_and_each_adapter_is_busy() -> None:
    busy = plan(adapters=2, adapter_rank=512, rate="60/s", tpot="12 ms")
    first = busy.options[0]
    assert kept(busy)[0] == busy.trail[-1].answer == "merged" and "resident $" in busy.trail[-1].because
    assert first.replicas % 2 == 0 and first.chance >= 0.8
    rare = plan(adapters=2, rate="2/s")
    assert kept(rare)[0] == "resident" and rare.options[0].replicas == 1


def test_none_is_the_plan_of_today() -> None:
    assert all(option.configuration.engine.adapters is None for option in plan().options)
    assert b"adapter" not in msgspec.json.encode(plan().options)


def test_plans_never_get_cheaper_with_more_adapters_or_rank() -> None:
    costs = [plan(adapters=n, rate="40/s").options[0].bill.usd_per_hour for n in (1, 40, 1000)]
    assert costs == sorted(costs)
    ranks = [plan(adapters=100, adapter_rank=r, rate="40/s").options[0].bill.usd_per_hour for r in (8, 300)]
    assert ranks == sorted(ranks)
    assert costs[0] >= plan(rate="40/s").options[0].bill.usd_per_hour


def script_of(made: Any, folder: Path, *, to: str) -> str:
    """The command of a plan's first option, in one line."""
    (folder / "plan.json").write_text(json.dumps(tonnage.to_dict(made)))
    done = command("export", folder / "plan.json", "--to", to, "-o", folder / to)
    assert done.exit_code == 0, done.output
    return (folder / to / "serve.sh").read_text().replace(" \\\n ", "")


def adapters_of(option: Any) -> dict[str, Any]:
    return tonnage.to_dict(option.configuration.engine.adapters)


def test_engines_get_their_own_flags(many: Any, tmp_path: Path) -> None:
    argv = script_of(many, tmp_path, to="vllm")
    assert "--enable-lora --max-loras 64 --max-lora-rank 16 --max-cpu-loras 64" in argv
    other = plan(adapters=2000, adapter_rank=24, adapter_skew=1.0, engine=["sglang"], adapter_targets="attention")
    argv = script_of(other, tmp_path, to="sglang")
    assert "--max-loaded-loras 2000 --max-lora-rank 24" in argv
    assert "--enable-lora --lora-target-modules q_proj k_proj v_proj o_proj" in argv
    # vLLM has slots of a few ranks alone.
    found = adapters_of(plan(adapters=20, adapter_rank=24).options[0])
    assert found.items() >= {"count": 20, "rank": 24, "slots": 20, "allocated": 32}.items()


def test_a_running_server_keeps_its_adapters_and_so_does_what_should_run_instead(tmp_path: Path) -> None:
    line = "vllm serve meta-llama/Llama-3.1-8B-Instruct --enable-lora --max-loras 8 --max-lora-rank 32"
    (tmp_path / "run.sh").write_text(f"{line} --max-cpu-loras 100\n")
    found = tonnage.plan_from_file(str(tmp_path / "run.sh"), accelerator="H100")
    today = adapters_of(found.serve.current.options[0])
    assert today.items() >= {"count": 100, "rank": 32, "slots": 8}.items()
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
