"""Axolotl's files: attention that the part has, a start on several machines, a checkpoint, any tokenizer."""

import subprocess
from pathlib import Path

import pytest
import yaml
from tests.export.plans import TRAIN_CASES, exported, train_plan

import tonnage


@pytest.mark.parametrize(
    ("part", "wanted"), [("T4", "attn_implementation: sdpa"), ("A10G", "attn_implementation: flash_attention_2")]
)
def test_no_flash_attention_2_before_ampere(part: str, wanted: str) -> None:
    plan = tonnage.plan_finetune("meta-llama/Llama-2-7b-hf", method="qlora", tokens="1M", accelerator=part)
    (text,) = exported(tonnage.to_dict(plan), "axolotl").values()
    assert wanted in text and text.count("attn_implementation") == 1


def test_two_machines_are_started_by_torchrun_on_each(tmp_path: Path) -> None:
    """The script is run: what it would start meets at the leader's address with the processes of both machines."""
    files = exported(train_plan(**TRAIN_CASES["axolotl-two-nodes"][1]), "axolotl")
    for name, text in {**files, "axolotl": '#!/bin/sh\necho "$@"\n'}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "axolotl").chmod(0o755)

    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        return subprocess.run(
            ["bash", "launch.sh"], cwd=tmp_path, env=path | environment, capture_output=True, text=True, check=False
        )

    given = run(LEADER_ADDRESS="10.0.0.4").stdout.split()
    assert given[:5] == ["train", "axolotl.yaml", "--launcher", "torchrun", "--"]
    options = dict(zip(given[5::2], given[6::2], strict=True))
    processes = int(options["--nnodes"]) * int(options["--nproc-per-node"])
    assert processes == yaml.safe_load(files["axolotl.yaml"])["dp_shard_size"] == 16
    assert options["--rdzv-endpoint"] == "10.0.0.4:29500"
    alone = run()
    assert alone.returncode and "address of the first node" in alone.stderr
    assert "launch.sh" not in exported(train_plan(), "axolotl")


@pytest.mark.parametrize(("interval_s", "saved"), [(1800.0, 50), (1e6, 1000)])
def test_a_run_saves_at_its_end_at_the_latest(interval_s: float, saved: int) -> None:
    made = train_plan()
    made["options"][0]["run"]["checkpoint_interval_s"] = interval_s
    told = yaml.safe_load(exported(made, "axolotl")["axolotl.yaml"])
    assert (told["save_steps"], told["max_steps"]) == (saved, 1000)


@pytest.mark.parametrize("objective", ["sft", "dpo"])
def test_a_base_models_tokenizer_gets_a_template(objective: str) -> None:
    made = train_plan()
    made["request"]["objective"] = objective
    text = exported(made, "axolotl")["axolotl.yaml"]
    assert yaml.safe_load(text)["chat_template"] == "tokenizer_default_fallback_chatml" and "ChatML" in text
