"""The first answer can be started: options that need a checkpoint nobody named come after those that do not."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.command import told as run

import tonnage

LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"
BASE_70B = "meta-llama/Llama-3.1-70B"
"""Of which nobody is known to have published another format."""
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
    folder.mkdir(exist_ok=True)
    path = folder / "plan.json"
    path.write_text(json.dumps(tonnage.to_dict(plan)), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("model", COMMON)
def test_the_first_option_of_a_common_model_can_be_started(model: str, tmp_path: Path) -> None:
    path = kept(chat(model, accelerator="B200,H200"), tmp_path)
    for target in ("vllm", "kubernetes", "dstack", "slurm"):
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
        (BASE_70B, "nvfp4", "--precision bf16 or fp8"),
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
    assert "nvidia/Llama-3.1-405B-Instruct-NVFP4" in run("export", kept(plan, tmp_path), "--to", "vllm").stdout


def test_tensorrt_llm_quantises_nothing_while_loading(tmp_path: Path) -> None:
    plan = chat(BASE_70B, accelerator="H200", engine=["trtllm"])
    assert plan.options[0].configuration.precision.weights == "bf16"
    assert run("export", kept(plan, tmp_path), "--to", "trtllm").exit_code == 0
    known = chat(LLAMA_70B, accelerator="H200", engine=["trtllm"])
    assert known.options[0].configuration.precision.weights == "fp8"
    assert "nvidia/Llama-3.1-70B-Instruct-FP8 " in run("export", kept(known, tmp_path), "--to", "trtllm").stdout


@pytest.mark.parametrize(
    ("model", "engine", "precision", "checkpoint"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", "vllm", "nvfp4", "nvidia/Llama-3.3-70B-Instruct-NVFP4"),
        ("Llama-3.3-70B-Instruct", "sglang", "nvfp4", "nvidia/Llama-3.3-70B-Instruct-NVFP4"),
        ("deepseek-ai/DeepSeek-R1", "vllm", "nvfp4", "nvidia/DeepSeek-R1-NVFP4-v2"),
        ("meta-llama/Llama-3.3-70B-Instruct", "vllm", "int4", "RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16"),
    ],
)
def test_a_published_checkpoint_stands_on_screen_in_json_and_in_every_file(
    model: str, engine: str, precision: str, checkpoint: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "plan.json")
    load = ("--rate", "2/s", "--traffic", "chat", "--tpot", "80 ms", "-a", "B200", "--quick", "-o", path)
    shown = run("plan", "serve", model, "--engine", engine, "--precision", precision, *load).stdout
    kept = json.loads(Path(path).read_text(encoding="utf-8"))
    assert kept["model"]["checkpoints"] == {precision: checkpoint}
    terms = kept["model"]["checkpoint_terms"][precision]
    assert "licence: " in terms and f"Loads {checkpoint} ({terms}), " in " ".join(shown.split())
    for target in (engine, "kubernetes", "dstack", "compose", "slurm"):
        written = run("export", path, "--to", target)
        assert written.exit_code == 0, written.stderr
        assert f"Checkpoint: {checkpoint} (" in written.stdout and "not verified" in written.stdout
    other = run("export", path, "--to", "kubernetes", "--checkpoint", "example/mine")
    assert "example/mine" in other.stdout and checkpoint not in other.stdout


def test_a_head_names_size_and_licence_of_the_checkpoint_that_its_file_loads(tmp_path: Path) -> None:
    plan = chat("meta-llama/Llama-3.1-8B-Instruct", accelerator="H100", engine=["trtllm"], precision=["fp8"])
    written = run("export", kept(plan, tmp_path), "--to", "trtllm").stdout
    head = " ".join(written.replace("#", " ").split())
    assert "nvidia/Llama-3.1-8B-Instruct-FP8 (fp8 by nvidia, published 2024-10, 9.08 GB, licence: Llama 3.1," in head


def test_weights_that_are_quantised_only_once_all_are_loaded_have_to_fit_before(tmp_path: Path) -> None:
    asked = {"precision": ["fp8"], "rate": "0.2/s", "max_accelerators": 1}
    scout = "meta-llama/Llama-4-Scout-17B-16E-Instruct"  # 218 GB in 16 bits, 109 in eight
    sglang, vllm = (kept(chat(scout, accelerator="H200", engine=[name], **asked), tmp_path / name)
                    for name in ("sglang", "vllm"))  # fmt: skip
    assert "nvidia/Llama-4-Scout-17B-16E-Instruct-FP8 " in run("export", sglang, "--to", "sglang").stdout
    streams = run("export", vllm, "--to", "vllm").stdout
    assert f"serve {scout} " in streams and "--quantization fp8" in streams
    unknown = kept(chat(BASE_70B, accelerator="gh200-96gb", engine=["sglang"], **asked), tmp_path / "base")
    refused = run("export", unknown, "--to", "sglang")
    assert refused.exit_code == 2 and "once all are loaded" in refused.stderr and "--engine vllm" in refused.stderr


def test_a_format_without_a_checkpoint_is_a_risk_of_the_plan() -> None:
    asked = ("--rate", "1/s", "--traffic", "chat", "--precision", "nvfp4", "-a", "B200", "--quick")
    shown = run("plan", "serve", BASE_70B, *asked).stdout
    assert "no checkpoint in nvfp4 is known here" in shown and "Loads " not in shown


def test_a_format_that_somebody_has_to_make_first_stands_behind_those_that_load(tmp_path: Path) -> None:
    both, alone = (chat(BASE_70B, precision=names, rate="4/s") for names in (["nvfp4", "fp8"], ["nvfp4"]))
    weights = [option.configuration.precision.weights for option in both.options if option.sure]
    assert weights[0] == "fp8" and "nvfp4" in weights and "fp8" not in weights[weights.index("nvfp4") :]
    assert both.options[0].cost.value > alone.options[0].cost.value
    assert "of those whose checkpoint is known" in both.options[0].verdict
    behind = next(option for option in both.options if option.configuration.precision.weights == "nvfp4")
    assert "no checkpoint in nvfp4 is known: quantise one first" in behind.verdict
    assert alone.options[0].configuration == behind.configuration and "quantise one first" in alone.options[0].verdict
    (told,) = [one for one in both.rejected if one.verdict.limit == "checkpoint"]
    assert told.verdict.nearest == "precision nvfp4"
    assert run("export", kept(both, tmp_path), "--to", "vllm").exit_code == 0


def test_a_published_format_leads_where_it_is_the_cheapest() -> None:
    plan = chat(LLAMA_70B, precision=["nvfp4", "fp8"], rate="4/s")
    assert (
        plan.options[0].configuration.precision.weights == "nvfp4" and "whose checkpoint" not in plan.options[0].verdict
    )


def test_of_a_batch_too_a_format_that_loads_comes_first() -> None:
    plan = tonnage.plan_batch(BASE_70B, items="100k", traffic="chat", accelerator="B200", precision=["nvfp4", "fp8"])
    weights = [option.configuration.precision.weights for option in plan.options]
    assert weights[0] == "fp8" and "quantise one first" in plan.options[weights.index("nvfp4")].verdict


def test_llama_cpp_is_given_files_that_it_reads(tmp_path: Path) -> None:
    plan = chat("Qwen/Qwen3-8B", accelerator="L40S", engine=["llamacpp"], precision=["gguf-q8_0"], rate="0.2/s")
    written = run("export", kept(plan, tmp_path), "--to", "llamacpp")
    assert written.exit_code == 0 and "--hf-repo Qwen/Qwen3-8B-GGUF:Q8_0" in written.stdout


def test_batches_fleets_and_owned_machines_start_too(tmp_path: Path) -> None:
    batch = tonnage.plan_batch(LLAMA_70B, items="100k", traffic="chat", accelerator="B200")
    assert run("export", kept(batch, tmp_path), "--to", "vllm-batch").exit_code == 0
    asked = {"name": "chat", "model": LLAMA_70B, "rate": "4/s", "traffic": "chat"}
    fleet = tonnage.plan_fleet(workloads=[asked], accelerator="B200", quick=True)
    assert {found.configuration.precision.weights for found in fleet.replicas} <= {"bf16", "fp8"}
    owned = tonnage.plan_own("8 x B200", model=LLAMA_70B)
    assert {row.weights for group in owned.groups for row in group.rows} <= {"bf16", "fp8"}


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_plan_screen_flags_and_image_are_of_one_release(engine: str, tmp_path: Path) -> None:
    path = str(tmp_path / "plan.json")
    asked = ("--rate", "2/s", "--traffic", "chat", "-a", "H200", "--quick", "--engine", engine, "-o", path)
    shown = run("plan", "serve", LLAMA_70B, *asked).stdout
    release = json.loads(Path(path).read_text(encoding="utf-8"))["model"]["engines"][engine]
    assert f" {release.removesuffix('.0')}" in shown
    assert f" {release}. Written by Tonnage" in run("export", path, "--to", engine).stdout
    (image,) = {
        line.strip() for line in run("export", path, "--to", "kubernetes").stdout.splitlines() if "image:" in line
    }
    assert image.rpartition(":")[2].removeprefix("v").startswith(release)


@pytest.mark.parametrize("name", ["Llama-3.1-8B-Instruct", "llama 3.1 8b instruct"])
def test_a_name_without_an_owner_starts_the_tuning_that_it_names(name: str, tmp_path: Path) -> None:
    written = run("export", kept(chat(name, accelerator="H100", precision=["bf16"]), tmp_path), "--to", "vllm")
    assert written.exit_code == 0, written.output
    assert "vllm serve meta-llama/Llama-3.1-8B-Instruct " in written.output
