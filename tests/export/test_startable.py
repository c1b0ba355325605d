"""The first answer can be started: options that need a checkpoint nobody named come after those that do not."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.command import told as run

import tonnage

LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"
COMMON = (
    "meta-llama/Llama-3.1-8B-Instruct", LLAMA_70B, "meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen3-32B",
    "Qwen/Qwen3-235B-A22B", "mistralai/Mistral-Small-24B-Instruct-2501", "openai/gpt-oss-120b",
    "deepseek-ai/DeepSeek-V3",
)  # fmt: skip


def chat(model: str, *, accelerator: str = "B200", rate: str = "4/s", **more: object) -> Any:
    """A chat on parts that multiply four bits, by averages."""
    return tonnage.plan_serve(
        model, rate=rate, traffic="chat", ttft="1 s", tpot="50 ms", accelerator=accelerator, quick=True, **more
    )


def kept(plan: object, folder: Path) -> str:
    path = folder / "plan.json"
    path.write_text(json.dumps(tonnage.to_dict(plan)), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("model", COMMON)
def test_the_first_option_of_a_common_model_can_be_started(model: str, tmp_path: Path) -> None:
    path = kept(chat(model, accelerator="B200,H200"), tmp_path)
    for target in ("vllm", "kubernetes", "skypilot", "slurm"):
        written = run("export", path, "--to", target)
        assert written.exit_code == 0 and model in written.stdout, f"{target}: {written.stderr}"


def test_what_another_checkpoint_would_save_is_told_with_its_price_and_the_way_there() -> None:
    plan = chat(LLAMA_70B, rate="6/s")
    named = chat(LLAMA_70B, rate="6/s", precision=["nvfp4"])
    (told,) = [one for one in plan.rejected if one.verdict.limit == "checkpoint"]
    price = f"${named.options[0].bill.usd_per_hour:.2f}/h"
    assert named.options[0].cost.value < plan.options[0].cost.value
    assert price in (told.verdict.reason or "") and told.verdict.nearest == "precision nvfp4"
    asked = ("--rate", "6/s", "--traffic", "chat", "--ttft", "1 s", "--tpot", "50 ms", "--accelerator", "B200")
    shown = run("plan", "serve", LLAMA_70B, *asked, "--quick").stdout
    assert "Cheaper: " in shown and price in shown


@pytest.mark.parametrize(
    ("model", "precision", "able"),
    [
        (LLAMA_70B, "nvfp4", "--precision bf16 or fp8"),
        ("openai/gpt-oss-120b", "fp8", "--precision mxfp4"),  # experts are stored in four bits
        ("deepseek-ai/DeepSeek-V3", "bf16", "--precision fp8_block"),  # no engine widens a quantised checkpoint
    ],
)
def test_a_named_format_is_taken_at_its_word_and_its_export_names_both_ways_out(
    model: str, precision: str, able: str, tmp_path: Path
) -> None:
    plan = chat(model, precision=[precision], rate="1/s")
    assert {option.configuration.precision.weights for option in plan.options} == {precision}
    path = kept(plan, tmp_path)
    refused = run("export", path, "--to", "vllm")
    assert refused.exit_code == 2 and refused.stderr.count("\n") == 1
    assert "--checkpoint ID" in refused.stderr and able in refused.stderr
    named = run("export", path, "--to", "vllm", "--checkpoint", "example/checkpoint")
    assert named.exit_code == 0 and "example/checkpoint" in named.stdout


def test_a_model_that_is_stored_in_four_bits_is_started_so(tmp_path: Path) -> None:
    plan = chat("nvidia/Llama-3.1-70B-Instruct-FP4")
    assert plan.options[0].configuration.precision.weights == "nvfp4"
    assert run("export", kept(plan, tmp_path), "--to", "vllm").exit_code == 0


def test_another_checkpoint_is_planned_where_nothing_else_serves(tmp_path: Path) -> None:
    plan = chat("meta-llama/Llama-3.1-405B-Instruct", accelerator="B300", rate="0.1/s", max_accelerators=1)
    assert plan.feasible and plan.options[0].configuration.precision.weights == "nvfp4"
    assert "--checkpoint ID" in run("export", kept(plan, tmp_path), "--to", "vllm").stderr


def test_tensorrt_llm_quantises_nothing_while_loading(tmp_path: Path) -> None:
    plan = chat(LLAMA_70B, accelerator="H200", engine=["trtllm"])
    assert plan.options[0].configuration.precision.weights == "bf16"
    assert run("export", kept(plan, tmp_path), "--to", "trtllm").exit_code == 0


def test_batches_fleets_and_owned_machines_start_too(tmp_path: Path) -> None:
    batch = tonnage.plan_batch(LLAMA_70B, items="100k", traffic="chat", accelerator="B200")
    assert run("export", kept(batch, tmp_path), "--to", "vllm-batch").exit_code == 0
    asked = {"name": "chat", "model": LLAMA_70B, "rate": "4/s", "traffic": "chat"}
    fleet = tonnage.plan_fleet(workloads=[asked], accelerator="B200", quick=True)
    assert {found.configuration.precision.weights for found in fleet.replicas} <= {"bf16", "fp8"}
    owned = tonnage.plan_own("8 x B200", model=LLAMA_70B)
    assert {row.weights for group in owned.groups for row in group.rows} <= {"bf16", "fp8"}
