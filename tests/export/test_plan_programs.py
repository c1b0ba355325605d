"""NeMo and Trainium: programs that read the plan. Every field exists in the release, every decision arrives."""

import ast
import json
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from tests.asked import Refused
from tests.export.plans import SHAPE, TRAIN_CASES, exported, targets, train_plan

TARGETS = ("nemo", "neuronx")
TRAINIUM = {k: v for k, v in TRAIN_CASES["neuronx-lora"][1].items() if k != "method"}


def written(target: str, **changes: Any) -> dict[str, str]:
    return exported(train_plan(**changes), target)


def plan_of(target: str, **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(written(target, **changes)["plan.json"])
    return found


def options(target: str) -> dict[str, list[str] | None]:
    text = files("tonnage.export").joinpath(f"data/options/{target}.json").read_text(encoding="utf-8")
    found = json.loads(text)
    assert f" {found['version']}: " in targets()[target]
    return {name.removeprefix("--"): choices for name, choices in found["options"].items()}


@pytest.mark.parametrize("case", [name for name, (target, _) in TRAIN_CASES.items() if target in TARGETS])
def test_every_field_is_one_of_the_release(case: str) -> None:
    target, changes = TRAIN_CASES[case]
    found, known = plan_of(target, **changes), options(target)
    sections = {"nemo": ("provider", "train", "optimizer", "ddp", "checkpoint", "adapters"), "neuronx": ("arguments",)}
    named = [
        f"{section}.{name}" if target == "nemo" else name
        for section in sections[target]
        for name in found[section] or {}
    ]
    assert len(named) > 15 and set(named) <= set(known)
    if target == "nemo":
        assert found["mixed_precision"] in (known["mixed_precision"] or [])
        assert {f"provider.{name}" for name in found["widths"]} <= set(known)


@pytest.mark.parametrize("target", TARGETS)
def test_the_program_uses_every_key_of_the_plan(target: str) -> None:
    case = next(changes for other, changes in TRAIN_CASES.values() if other == target)
    program = written(target, **case)["train.py"]
    ast.parse(program)
    assert all(f'PLAN["{key}"]' in program for key in plan_of(target, **case))


def test_nemo_is_told_the_whole_layout() -> None:
    _, changes = TRAIN_CASES["nemo-pretrain"]
    found = plan_of("nemo", **changes)
    degrees = {
        "tensor_model_parallel_size": 4,
        "pipeline_model_parallel_size": 2,
        "context_parallel_size": 1,
        "expert_model_parallel_size": 1,
        "virtual_pipeline_model_parallel_size": 2,
    }
    assert {name: found["provider"][name] for name in degrees} == degrees
    assert found["train"] == {"micro_batch_size": 2, "global_batch_size": 2 * 4 * 8, "train_iters": 1000}
    assert found["provider"]["recompute_granularity"] == "selective" and found["provider"]["sequence_parallel"]
    assert found["mixed_precision"] == "bf16_with_fp8_current_scaling_mixed" and found["adapters"] is None
    assert found["widths"]["num_layers"] == 32 and found["widths"]["num_query_groups"] == 8
    whole = plan_of("nemo", sharding="zero3")
    assert whole["ddp"]["data_parallel_sharding_strategy"] == "optim_grads_params" and whole["ddp"]["use_megatron_fsdp"]
    assert whole["checkpoint"]["ckpt_format"] == "fsdp_dtensor"
    assert plan_of("nemo", method="dora", sharding="none")["adapters"] == {"dim": 16, "alpha": 32, "dropout": 0.0}


def test_a_chip_of_trainium_is_all_its_cores() -> None:
    found = plan_of("neuronx", method="lora", **{**TRAINIUM, "tp": 2, "dp": 8})
    assert found["arguments"]["tensor_parallel_size"] == 4
    assert found["arguments"]["max_steps"] == 1000 and found["arguments"]["save_steps"] == 50
    assert found["widths"] == {
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
    }


def started(target: str, folder: Path, **changes: Any) -> list[str]:
    """The words that launch.sh starts its program with."""
    for name, text in written(target, **changes).items():
        (folder / name).write_text(text)
    tool = folder / "torchrun"
    tool.write_text('#!/bin/bash\nprintf "%s\\0" "$@"\n')
    tool.chmod(0o755)
    env = {"PATH": f"{folder}:/usr/bin:/bin", "DATA": "d", "OUTPUT": "o", "WEIGHTS": "w", "LEADER_ADDRESS": "h"}
    done = subprocess.run(
        ["bash", "launch.sh", "--more"], cwd=folder, env=env, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.split("\0")[:-1]


def test_one_process_a_core_and_a_gpu(tmp_path: Path) -> None:
    words = started("neuronx", tmp_path, method="lora", **TRAINIUM)
    assert words[words.index("--nproc-per-node") + 1] == "32" and words[-2:] == ["train.py", "--more"]
    words = started("nemo", tmp_path, **{**TRAIN_CASES["nemo-pretrain"][1]})
    assert words[words.index("--nproc-per-node") + 1] == "8" and words[words.index("--nnodes") + 1] == "8"


@pytest.mark.parametrize(
    ("target", "changes", "told"),
    [
        ("nemo", {"method": "qlora"}, "no method 'qlora'"),
        ("nemo", {"sharding": "hsdp"}, "no sharding 'hsdp'"),
        ("nemo", {"sharding": "zero3", "pp": 2, "dp": 4}, "exclude each other"),
        ("nemo", {"optimizer": "lion"}, "no optimizer 'lion'"),
        ("nemo", {"accelerator": "tpu-v5p"}, "does not run on"),
        ("neuronx", {**TRAINIUM, "model": "mistralai/Mixtral-8x7B-v0.1"}, "types llama, qwen3"),
        ("neuronx", {**TRAINIUM, "sharding": "zero3"}, "no sharding 'zero3'"),
        ("neuronx", {**TRAINIUM, "precision": "fp8"}, "no precision 'fp8'"),
        ("neuronx", {**TRAINIUM, "tp": 32, "dp": 1}, "32 heads do not divide among 64 cores"),
        ("neuronx", {}, "does not run on h100"),
        ("megatron", {"sharding": "hsdp"}, "Megatron-LM shards as zero1"),
    ],
)  # fmt: skip
def test_what_it_cannot_do_is_one_sentence(target: str, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused, match=told):
        written(target, **changes)


def test_megatron_shards_as_planned() -> None:
    text = written("megatron", sharding="zero3")["pretrain.sh"]
    for words in ("--use-megatron-fsdp", "--data-parallel-sharding-strategy optim_grads_params", "fsdp_dtensor"):
        assert words in " ".join(text.split())
    assert "--use-megatron-fsdp" not in written("megatron", sharding="zero1")["pretrain.sh"]


@pytest.mark.parametrize("name", ["x/y; touch pwned", "a/$(touch pwned)", "a/`touch pwned`", "a/{{x}}", 'a/"x'])
@pytest.mark.parametrize("target", TARGETS)
def test_names_are_inert(target: str, name: str, tmp_path: Path) -> None:
    case = next(changes for other, changes in TRAIN_CASES.values() if other == target)
    plan = train_plan(name, **case)
    plan["model"] |= {"family": "Llama3", "shape": SHAPE}
    found = exported(plan, target)
    assert json.loads(found["plan.json"])["model"] == name.rstrip("/")
    (tmp_path / "launch.sh").write_text(found["launch.sh"])
    (tmp_path / "torchrun").write_text("#!/bin/bash\n")
    (tmp_path / "torchrun").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "DATA": "d", "OUTPUT": "o", "WEIGHTS": "w", "LEADER_ADDRESS": "h"}
    subprocess.run(["bash", "launch.sh"], cwd=tmp_path, env=env, check=True, timeout=60)
    assert {path.name for path in tmp_path.iterdir()} == {"launch.sh", "torchrun"}
