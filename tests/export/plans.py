"""
Plans to export: small, kept as files, independent of what the planner chooses today; and what `tonnage export` writes.
"""

import json
import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.asked import Refused, printed

FOLDER = Path(__file__).parent
SERVE, FINETUNE = (FOLDER.joinpath(f"{kind}_plan.json").read_text(encoding="utf-8") for kind in ("serve", "finetune"))
"""Three replicas of one configuration, and one run of eight accelerators."""
METHODS = {"train": "pretrain", "finetune": "full"}


def exported(made: Any, target: str, *options: str) -> dict[str, str]:
    """
    The files that `tonnage export` writes for a plan, by their names.

    Raises
    ------
    Refused
        It writes none; one sentence says why.
    """
    with TemporaryDirectory() as folder:
        try:
            _, told = printed("export", "-", "--to", target, "-o", folder, *options, text=json.dumps(made))
        except Refused:
            assert not any(Path(folder).iterdir())
            raise
        names = re.findall(rf"^wrote {re.escape(folder)}/(.+)$", told, re.MULTILINE)
        return {name: Path(folder, name).read_bytes().decode() for name in names}


@cache
def targets() -> dict[str, str]:
    """What `tonnage export --to list` says of each target: release, files, command."""
    lines = printed("export", "-", "--to", "list")[0].splitlines()
    return {line.split()[0]: line for line in lines}


def files_of(target: str) -> set[str]:
    """Names that files of a target may have."""
    return set(targets()[target].partition(": ")[2].partition("; ")[0].split(", "))


@cache
def targets_of(kind: str) -> frozenset[str]:
    """Targets that take plans of a kind, as one says that takes none of it."""
    made, other = (plan(), "torchrun") if kind == "serve" else (train_plan(method=METHODS[kind]), "vllm")
    with pytest.raises(Refused, match=f"not '{kind}'; {kind}: ") as told:
        exported(made, other)
    return frozenset(str(told.value).rpartition(f"; {kind}: ")[2].split(", "))


def plan(model: str = "meta-llama/Llama-3.1-70B-Instruct", **changes: Any) -> Any:
    """The kept plan to serve; `changes` go to its option, bill, configuration, layout, precision, engine or model."""
    made = json.loads(SERVE)
    made["request"]["model"] = made["model"]["id"] = model
    configuration = made["options"][0]["configuration"]
    parts = (configuration["layout"], configuration["precision"], configuration["engine"])
    return _changed(made, changes, *parts, *_others(made))


def train_plan(model: str = "meta-llama/Llama-3.1-8B", *, method: str = "full", **changes: Any) -> Any:
    """The kept plan to fine-tune, or one to pre-train; `changes` as in `plan`."""
    made = json.loads(FINETUNE)
    configuration = made["options"][0]["configuration"]
    configuration |= {"method": method, "weights": "nf4" if method == "qlora" else "bf16"}
    made["request"]["model"] = made["model"]["id"] = model
    if method == "pretrain":
        made |= {"kind": "train", "request": {"type": "train", "model": model, "tokens": 1e9}}
    else:
        made["request"]["method"] = method
    return _changed(made, changes, configuration["layout"], *_others(made))


def _others(made: Any) -> tuple[dict[str, Any], ...]:
    option = made["options"][0]
    return option["configuration"], option["bill"], option, made["request"], made["model"], made


def _changed(made: Any, changes: dict[str, Any], *places: dict[str, Any]) -> Any:
    """The plan with each change at the first place that has a field of its name."""
    for name, value in changes.items():
        next(place for place in places if name in place)[name] = value
    return made


ZERO = {
    "shape": "bursts", "source": "", "period_s": 3600.0, "interval_s": 60.0, "rates_per_s": [1.0, 0.0],
    "replicas": [1, 0], "usable_per_s": 4.2, "cold_start": {"value": 95.0, "unit": "s"}, "ways": [],
    "wasted_share": 0.8, "best": "scale-to-zero",
    "valleys": {"replica_hours_per_day": 0.0, "requests_per_day": 0.0, "output_tokens_per_day": 0.0,
                "usd_per_day": 0.0},
}  # fmt: skip
"""Requests come in bursts, and everything is off between them."""
TWO_NODES = {"tp": 8, "pp": 2, "max_model_len": 131072, "replicas": 2, "instances": 4}
"""Changes that make a replica span two instances."""

WATCHED = {"slo": {"ttft_s": 0.8, "tpot_s": 0.05, "e2e_s": 20.0}}
"""Objectives, for what watches them."""

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "vllm": ("vllm", {}),
    "vllm-two-nodes": ("vllm", TWO_NODES),
    "vllm-experts": ("vllm", {"model": "deepseek-ai/DeepSeek-V3", "checkpoint": "fp8_block", "weights": "fp8_block",
                              "kv": "bf16", "tp": 1, "dp": 8, "ep": 8}),
    "sglang": ("sglang", {"name": "sglang", "block_tokens": 1, "tp": 1, "dp": 4, "ep": 4}),
    "sglang-two-nodes": ("sglang", {"name": "sglang", **TWO_NODES}),
    "trtllm": ("trtllm", {"name": "trtllm", "named": "nvidia/Llama-3.1-70B-Instruct-FP8"}),
    "llamacpp": ("llamacpp", {"name": "llamacpp", "weights": "gguf-q4_k_m", "kv": "gguf-q8_0", "max_num_seqs": 4,
                              "named": "bartowski/Meta-Llama-3.1-70B-Instruct-GGUF", "accelerator": "rtx-4090",
                              "max_num_batched_tokens": 2048}),
    "compose": ("compose", {}),
    "compose-amd": ("compose", {"accelerator": "mi300x", "tp": 4}),
    "budget": ("budget", {"provider": "aws", "instance_type": "p5.48xlarge"}),
    "kubernetes": ("kubernetes", {}),
    "kubernetes-spot-eks": ("kubernetes", {"term": "spot", "provider": "aws", "instance_type": "p5.48xlarge"}),
    "kubernetes-two-nodes": ("kubernetes", TWO_NODES),
    "kubernetes-zero": ("kubernetes", {"day": ZERO}),
    "skypilot": ("skypilot", {"term": "spot"}),
    "skypilot-two-nodes": ("skypilot", TWO_NODES),
    "dstack": ("dstack", {"accelerator": "a100-sxm4-80gb"}),
    "slurm": ("slurm", {"term": "spot"}),
    "slurm-two-nodes": ("slurm", TWO_NODES),
    "ray-serve": ("ray-serve", {}),
    "terraform": ("terraform", {}),
    "dynamo": ("dynamo", {}),
    "dynamo-pools": ("dynamo", {"pools": {"prefill_workers": 2, "decode_workers": 6}}),
    "kserve": ("kserve", {"term": "spot", "provider": "aws", "instance_type": "p5.48xlarge"}),
    "karpenter": ("karpenter", {"term": "spot", "provider": "aws", "instance_type": "p5.48xlarge"}),
    "prometheus": ("prometheus", WATCHED),
    "prometheus-sglang": ("prometheus", {**WATCHED, "name": "sglang"}),
    "prometheus-trtllm": ("prometheus", {**WATCHED, "name": "trtllm"}),
    "prometheus-llamacpp": ("prometheus", {**WATCHED, "name": "llamacpp"}),
    "grafana": ("grafana", WATCHED),
    "grafana-llamacpp": ("grafana", {**WATCHED, "name": "llamacpp"}),
    "vllm-pools": ("vllm", {"pools": {"prefill_workers": 4, "decode_workers": 2, "units": 2}}),
    "kubernetes-pools": ("kubernetes", {"pools": {"prefill_workers": 4, "decode_workers": 2, "units": 2}}),
    "llm-d": ("llm-d", {"pools": {"prefill_workers": 2, "decode_workers": 6}}),
}  # fmt: skip
"""Golden file -> target and what differs from the plain plan."""

SHAPE = {"num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "swiglu": True, "ffn_hidden_size": 14336}
"""The widths of a decoder whose name nobody knows."""
SIXTEEN = {"count": 16, "dp": 16, "instances": 2}
TRAIN_CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "torchrun": ("torchrun", {}),
    "torchrun-two-nodes-hsdp": ("torchrun", {**SIXTEEN, "sharding": "hsdp", "term": "spot"}),
    "accelerate": ("accelerate", {}),
    "accelerate-two-nodes": ("accelerate", {**SIXTEEN, "sharding": "zero2"}),
    "deepspeed": ("deepspeed", {}),
    "deepspeed-two-nodes": ("deepspeed", {**SIXTEEN, "sharding": "zero1", "recompute": "none"}),
    "axolotl-lora": ("axolotl", {"method": "lora", "count": 1, "dp": 1, "sharding": "none"}),
    "axolotl-qlora": ("axolotl", {"method": "qlora", "optimizer": "adamw-8bit"}),
    "axolotl-full": ("axolotl", {}),
    "axolotl-two-nodes": ("axolotl", SIXTEEN),
    "trl-qlora": ("trl", {"method": "qlora", "optimizer": "adamw-8bit"}),
    "torchtitan": (
        "torchtitan",
        {"method": "pretrain", "count": 16, "instances": 2, "tp": 2, "dp": 8, "sharding": "fsdp",
         "recompute": "selective"},
    ),
    "maxtext": (
        "maxtext",
        {"method": "pretrain", "accelerator": "tpu-v5p", "count": 64, "instances": 16, "tp": 2, "dp": 32,
         "sharding": "fsdp", "provider": "gcp", "instance_type": "ct5p-hightpu-4t",
         "accelerators_per_instance": 4},
    ),
    "megatron-uneven": (
        "megatron",
        {"model": "meta-llama/Llama-3.1-405B", "method": "pretrain", "count": 256, "instances": 32, "tp": 8, "pp": 16,
         "vpp": 8, "dp": 2, "sharding": "zero1"},
    ),
    "megatron": (
        "megatron",
        {"method": "pretrain", "count": 64, "instances": 8, "tp": 4, "pp": 2, "vpp": 2, "dp": 8, "sharding": "zero1",
         "sequence_parallel": True, "recompute": "selective", "precision": "fp8"},
    ),
    "nemo-pretrain": (
        "nemo",
        {"method": "pretrain", "count": 64, "instances": 8, "tp": 4, "pp": 2, "vpp": 2, "dp": 8, "sharding": "zero1",
         "sequence_parallel": True, "recompute": "selective", "precision": "fp8"},
    ),
    "nemo-lora": ("nemo", {"method": "lora", "sharding": "none"}),
    "neuronx-lora": (
        "neuronx",
        {"method": "lora", "accelerator": "trainium1", "count": 16, "dp": 16, "sharding": "none",
         "provider": "aws", "instance_type": "trn1.32xlarge", "accelerators_per_instance": 16},
    ),
}  # fmt: skip
"""Case -> target and changes of the plan."""
