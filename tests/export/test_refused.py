"""Every condition on which files are refused, and beside it the plan that just passes: one row each."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.asked import Refused, printed
from tests.export.plans import TRAIN_CASES, TWO_NODES, exported, plan, train_plan

SGLANG = {"name": "sglang", "block_tokens": 1}
LLAMACPP = {"name": "llamacpp", "weights": "gguf-q4_k_m", "kv": "gguf-q8_0", "max_num_batched_tokens": 2048, "tp": 1}
LATENT = {"model": "deepseek-ai/DeepSeek-V2-Lite", "weights": "bf16", "kv": "bf16"}
MAXTEXT, TITAN, MEGATRON, TRAINIUM = (
    TRAIN_CASES[case][1] for case in ("maxtext", "torchtitan", "megatron", "neuronx-lora")
)
DPO = {"type": "finetune", "model": "meta-llama/Llama-3.1-8B", "method": "full", "tokens": 1e6, "objective": "dpo"}

SERVED: list[tuple[str, dict[str, Any], str]] = [
    ("vllm", {"model": "/data/llama"}, "is a file where the plan was made"),
    ("vllm", {"model": "someone/llama.gguf"}, "is a file where the plan was made"),
    ("vllm", {"model": "someone/llama"}, ""),
    ("vllm", {"named": " "}, "must have 1 to 512 characters"),
    ("vllm", {"named": f"a/{'b' * 511}"}, "must have 1 to 512 characters"),
    ("vllm", {"named": f"a/{'b' * 510}"}, ""),
    ("vllm", {"named": "-a/b"}, "would be read as an option"),
    ("kubernetes", {"name": "trtllm", "named": "a/b", **TWO_NODES}, "2 nodes, and TensorRT-LLM runs on one; .* vllm"),
    ("kubernetes", {"name": "trtllm", "named": "a/b"}, ""),
    ("dynamo", {"accelerator": "mi300x", "tp": 4}, "images are built for NVIDIA's parts, not for mi300x"),
    ("compose", {"accelerator": "tpu-v5e", "tp": 4}, "image and devices for 'tpu-v5e' are not known"),
    ("kubernetes", {"accelerator": "cpu-xeon-8480", "tp": 1}, "image and device plug-in for 'cpu-xeon-8480'"),
    ("slurm", {"model": "13B"}, "is a size or a shape"),
    ("llamacpp", {**LLAMACPP, "named": "a/GGUF", "dp": 2}, "neither data-parallel attention nor expert"),
    ("llamacpp", {**LLAMACPP, "named": "a/GGUF", "ep": 2, "tp": 2}, "neither data-parallel attention nor expert"),
    ("llamacpp", {**LLAMACPP, "named": "a/b"}, ""),
    ("llamacpp", {**LLAMACPP, "model": "a/b-gguf"}, ""),
    ("llamacpp", {**LLAMACPP, "model": "a/b"}, "llama.cpp reads GGUF and a/b is not"),
    ("trtllm", {"name": "trtllm", "named": "a/b", "tp": 1, "dp": 8}, ""),
    ("trtllm", {"name": "trtllm", "named": "a/b", "tp": 8}, ""),
    ("kserve", {"tp": 1, "dp": 16, "ep": 16, **LATENT}, ""),
    ("kserve", {"tp": 1, "dp": 12, "ep": 12, **LATENT}, ""),
    ("kserve", {"tp": 1, "dp": 17, "ep": 17, **LATENT}, "spans 3 nodes as tp 1 pp 1 dp 17, .* data parallelism alone"),
    ("kserve", {"tp": 16, "dp": 4, **LATENT}, "data parallelism alone"),
    ("ray-serve", {"tp": 1, "dp": 2}, "none for the other 1 of its 2 data-parallel ranks"),
    ("sglang", {**SGLANG, "tp": 1, "model": "meta-llama/Llama-3.1-70B"}, "quantises weights once all are loaded"),
    ("sglang", {**SGLANG, "tp": 1, "model": "meta-llama/Llama-3.1-70B", "weights": "bf16"}, ""),
]  # fmt: skip
TRAINED: list[tuple[str, dict[str, Any], str]] = [
    ("torchrun", {"accelerator": "my-card"}, ""),
    ("torchrun", {"accelerator": "tpu-v5p"}, "does not run on tpu-v5p"),
    ("jobset", {"accelerator": "my-card"}, "device plug-in and image for 'my-card' are not known"),
    ("jobset", {"accelerator": "tpu-v5p"}, "does not run on tpu-v5p"),
    ("jobset", {"named": "a/$(b)"}, "would read as a template"),
    ("slurm", {"pp": 2, "tp": 2, "sharding": "hsdp", "count": 8, "dp": 2}, "no framework's files can say this option"),
    ("torchrun", {"method": "pretrain", "model": "13B"}, ""),
    ("nemo", {"method": "pretrain", "model": "13B"}, "'13B' is a bare size; export to megatron"),
    ("megatron", {"method": "pretrain", "model": "13B"}, ""),
    ("maxtext", {"method": "pretrain", "accelerator": "h100-sxm5-80gb"}, "or plan with --vendor google"),
    ("axolotl", {"model": "google-bert/bert-base-uncased"}, "trains causal language models"),
    ("torchrun", {"model": "google-bert/bert-base-uncased"}, ""),
    ("torchrun", {"request": DPO}, "say nothing of dpo; dpo: "),
    ("axolotl", {"request": DPO}, ""),
    ("maxtext", {**MAXTEXT, "model": "someone/else"}, "MaxText files know"),
    ("maxtext", {**MAXTEXT, "model": "mistralai/Mistral-7B-v0.3", "named": "a/Mistral-7B-v0.2"}, "MaxText files know"),
    ("torchtitan", {**TITAN, "model": "someone/else"}, "no flavour of else"),
    ("torchtitan", {**TITAN, "model": "meta-llama/Llama-2-7b-hf", "named": "meta-llama/Llama-3.1-8B"},
     "no flavour of"),
    ("megatron", {**MEGATRON, "sharding": "zero3"}, "the option has zero3 and pp 2"),
    ("megatron", {**MEGATRON, "sharding": "zero3", "pp": 1, "vpp": 1, "count": 32}, ""),
    ("nemo", {"sharding": "zero3"}, ""),
    ("neuronx", {**TRAINIUM, "model": "mistralai/Mistral-7B-v0.1"}, "types llama, qwen3 and granite"),
    ("neuronx", {**TRAINIUM, "model": "Qwen/Qwen3-30B-A3B"}, "types llama, qwen3 and granite, without experts"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("made", "target", "told"),
    [pytest.param(make(**changes), target, told, id=f"{number}-{target}")
     for make, rows in ((plan, SERVED), (train_plan, TRAINED)) for number, (target, changes, told) in enumerate(rows)],
)  # fmt: skip
def test_a_condition_and_what_just_passes_it(made: Any, target: str, told: str) -> None:
    if not told:
        assert exported(made, target)
        return
    with pytest.raises(Refused, match=told):
        exported(made, target)


@pytest.mark.parametrize(
    ("target", "changes"),
    [
        ("axolotl", {"pp": 2, "tp": 2, "dp": 2, "count": 8, "sharding": "zero1"}),
        ("accelerate", {"tp": 2, "dp": 4, "count": 8, "sharding": "zero1"}),
        ("axolotl", {"model": "google-bert/bert-base-uncased"}),
        ("torchrun", TRAINIUM),
        ("skypilot", {"provider": "somewhere"}),
    ],
)
def test_what_a_refusal_names_instead_takes_the_plan(target: str, changes: dict[str, Any]) -> None:
    made = train_plan(**changes)
    with pytest.raises(Refused, match="; export to ") as refused:
        exported(made, target)
    named = re.split(", or | or ", str(refused.value).partition("; export to ")[2])
    instead = [name for name in named if not name.startswith("plan ")]
    assert instead and all(exported(made, name) for name in instead)


def test_the_list_shows_the_command_of_the_files_of_this_plan(tmp_path: Path) -> None:
    kept = tmp_path / "plan.json"
    kept.write_text(json.dumps(train_plan()), encoding="utf-8")
    lines = printed("export", str(kept), "--to", "list")[0].splitlines()
    starts = {line.split()[0]: line.rpartition(": ")[2] for line in lines if "not for this option" not in line}
    assert starts["slurm"] == "sbatch train.sbatch" and starts["skypilot"].startswith("sky jobs launch train.yaml")
