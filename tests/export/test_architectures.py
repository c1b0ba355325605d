"""Every architecture of the catalogue x every training target: written as the model is described, or refused."""

import json
import random
import shlex
import subprocess
import sys
from collections import Counter
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from tests.asked import Refused
from tests.command import told as command
from tests.export.plans import exported, targets_of, train_plan
from tests.sweeps import FULL

import tonnage

TARGETS = sorted(targets_of("train") | targets_of("finetune"))
LLAMA = "meta-llama/Meta-Llama-3.1-8B"
SAMPLE = 60


@cache
def catalogue() -> tuple[str, ...]:
    listed = command("catalog", "models", "--json").stdout
    every = sorted(row["id"] for row in json.loads(listed)["rows"])
    return tuple(every) if FULL else tuple(sorted({LLAMA, *random.Random(26).sample(every, SAMPLE)}))


PARTS = {
    "neuronx": {"accelerator": "trainium1", "sharding": "none"},
    "maxtext": {"accelerator": "tpu-v5p", "sharding": "fsdp"},
}
"""Accelerators of frameworks that run on none of NVIDIA's."""


def method(target: str) -> str:
    return "pretrain" if target in targets_of("train") else "full"


def written(name: str, target: str) -> dict[str, str] | str:
    """The files, or why there are none."""
    try:
        return exported(train_plan(name, method=method(target), **PARTS.get(target, {})), target)
    except Refused as refused:
        return str(refused)


def test_megatron_flags_read_back_are_the_description() -> None:
    counts: Counter[str] = Counter()
    for name in catalogue():
        found = written(name, "megatron")
        if isinstance(found, str):
            counts["refused"] += 1
            continue
        counts["written"] += 1
        _same(tonnage.model(name), found["pretrain.sh"])
    print(dict(counts))
    assert counts["written"] and counts["refused"]


def _same(model: Any, text: str) -> None:
    words = shlex.split(text.partition("pretrain_gpt.py")[2].replace("\\\n", " "))
    flags = {word: after for word, after in zip(words, [*words[1:], ""], strict=True) if word.startswith("--")}
    group = model.layers[-1]
    attention, feed = group.mixer, group.feed_forward
    numbers = {
        "--num-layers": sum(other.count for other in model.layers),
        "--hidden-size": model.hidden_size,
        "--num-attention-heads": attention.num_attention_heads,
        "--kv-channels": attention.head_dim,
    }
    if attention.num_key_value_heads != attention.num_attention_heads:
        numbers["--num-query-groups"] = attention.num_key_value_heads
    if hasattr(feed, "num_experts"):
        numbers |= {"--num-experts": feed.num_experts, "--moe-router-topk": feed.num_experts_per_tok}
        numbers["--moe-ffn-hidden-size"] = feed.moe_intermediate_size
    else:
        numbers["--ffn-hidden-size"] = feed.intermediate_size
    assert {flag: int(flags[flag]) for flag in numbers} == numbers, model.id
    assert ("--group-query-attention" in flags) is ("--num-query-groups" in numbers)
    assert ("--untie-embeddings-and-output-weights" in flags) is not model.tie_word_embeddings
    assert ("--qk-layernorm" in flags) is attention.qk_norm
    assert ("--add-qkv-bias" in flags) is (attention.bias and not attention.output_bias)
    assert "--swiglu" in flags and flags["--normalization"] == "RMSNorm"
    assert "$ROTARY" in text and "model_flags.py" in text


@pytest.mark.parametrize("target", [name for name in TARGETS if name != "megatron"])
def test_others_name_the_model_or_refuse(target: str) -> None:
    counts: Counter[str] = Counter()
    for name in catalogue():
        found = written(name, target)
        counts["refused" if isinstance(found, str) else "written"] += 1
        if isinstance(found, dict):
            text = "\n".join(found.values())
            assert name in text or name.rsplit("/", 1)[-1].lower().replace("-", "").replace(
                "meta", ""
            ) in text.lower().replace("_", "").replace("-", "")
    print(target, dict(counts))
    assert counts["written"]


def _flags(folder: Path, config: dict[str, Any], *widths: str) -> subprocess.CompletedProcess[str]:
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model_flags.py").write_text(files("tonnage.export").joinpath("data/model_flags.py.txt").read_text())
    argv = [sys.executable, str(folder / "model_flags.py"), str(folder), *widths]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


CONFIG = {
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "rope_theta": 500000.0,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
}
SCALED = {"rope_type": "llama3", "factor": 8.0}


@pytest.mark.parametrize(
    ("changes", "widths", "told"),
    [
        ({}, ("num_hidden_layers=32", "head_dim=128"), "--rotary-base 500000 --norm-epsilon 1e-05"),
        ({"rope_scaling": SCALED}, (), "--use-rope-scaling --rope-scaling-factor 8 --norm-epsilon"),
        ({"rope_theta": None, "rope_parameters": {"rope_theta": 1e6}}, (), "--rotary-base 1000000"),
        ({}, ("num_hidden_layers=31",), "config.json says num_hidden_layers 32, the plan 31"),
        ({"hidden_act": "gelu"}, (), "hidden_act gelu"),
        ({"rope_theta": None}, (), "Megatron-LM would take 10,000"),
        ({"rope_scaling": {"type": "yarn"}}, (), "scales positions by 'yarn'"),
    ],
)  # fmt: skip
def test_what_the_plan_does_not_hold_is_read_from_the_model_itself(
    changes: dict[str, Any], widths: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    done = _flags(tmp_path, {**CONFIG, **changes}, *widths)
    assert told in done.stdout + done.stderr
    assert (done.returncode == 0) is told.startswith("--")


@pytest.mark.parametrize("target", TARGETS)
def test_no_files_for_accelerators_that_the_framework_does_not_run_on(target: str) -> None:
    other = "h100-sxm5-80gb" if target in PARTS else "tpu-v5p"
    with pytest.raises(Refused, match=f"does not run on {other}"):
        exported(train_plan(LLAMA, method=method(target), accelerator=other), target)


def test_attention_follows_the_accelerator() -> None:
    for part, told in (
        ("t4", "sdpa"),
        ("h100-sxm5-80gb", "flash_attention_2"),
        ("a100-sxm4-80gb", "flash_attention_2"),
    ):
        made = train_plan(LLAMA, accelerator=part)
        for target, name in (("axolotl", "axolotl.yaml"), ("trl", "sft.yaml")):
            assert f"attn_implementation: {told}" in exported(made, target)[name]
