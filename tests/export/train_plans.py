"""Training plans to export: small, written out, independent of what the planner chooses today."""

from __future__ import annotations

from typing import Any

from tests.export.plans import BILL, taken

from tonnage.domain.answer import Quantity
from tonnage.domain.layout import TrainLayout
from tonnage.domain.plan import PLAN_SCHEMA, Provenance
from tonnage.domain.train_plan import FineTune, Run, Train, TrainConfiguration, TrainOption, TrainPlan

RUN = Run(
    steps=1000,
    training_s=36_000.0,
    validation_s=0.0,
    start_s=300.0,
    headroom_s=0.0,
    waiting_s=0.0,
    wall_s=Quantity(value=36_300.0, unit="s"),
    wall_p90_s=40_000.0,
    useful_time_fraction=Quantity(value=0.98, unit="fraction"),
    useful_p90=0.97,
    interruptions=0.1,
    between_s=1e6,
    recovery_s=300.0,
    checkpoint_bytes=1e11,
    blocking_s=1.0,
    write_s=50.0,
    checkpoint_interval_s=1800.0,
)
SHAPE = {"num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "swiglu": True, "ffn_hidden_size": 14336}


def train_plan(model: str = "meta-llama/Llama-3.1-8B", *, method: str = "full", **changes: Any) -> TrainPlan:
    """A plan with one option; `changes` go to its layout, configuration or bill."""
    layout = taken(TrainLayout(dp=8, sharding="zero3"), changes)
    configuration = taken(
        TrainConfiguration(
            accelerator="h100-sxm5-80gb",
            count=8,
            layout=layout,
            micro_batch=2,
            num_micro_batches=4,
            seq_len=4096,
            recompute="full",
            precision="bf16",
            weights="nf4" if method == "qlora" else "bf16",
            optimizer="adamw",
            software="fsdp",
            method=method,
        ),
        changes,
    )
    bill = taken(BILL, changes)
    shape = changes.pop("shape", SHAPE)
    vendor, family = changes.pop("vendor", "nvidia"), changes.pop("family", "")
    assert not changes, f"no such field: {changes}"
    option = TrainOption(
        configuration=configuration,
        accelerators=configuration.count,
        step_s=Quantity(value=36.0, unit="s"),
        tokens_per_s_per_accelerator=Quantity(value=9000.0, unit="tokens/s"),
        mfu=0.45,
        memory=Quantity(value=6e10, unit="bytes"),
        limit_bytes=8e10,
        run=RUN,
        bill=bill,
        cost=Quantity(value=806.0, unit="USD"),
        basis="derived",
    )
    pretrained = method == "pretrain"
    request = Train(model=model, tokens=1e9) if pretrained else FineTune(model=model, method=method, tokens=1e6)
    return TrainPlan(
        schema=PLAN_SCHEMA,
        kind="train" if pretrained else "finetune",
        feasible=True,
        sentence="Rent.",
        request=request,
        model={
            "id": model,
            "vendor": vendor,
            **({"family": family} if family else {}),
            **({"compute_capability": "9.0"} if vendor == "nvidia" else {}),
            **({"shape": shape} if shape else {}),
        },
        options=(option,),
        provenance=Provenance(version="0.1.0", catalogue={}, made="2026-11-21"),
    )


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
    "trl-qlora": ("trl", {"method": "qlora", "optimizer": "adamw-8bit"}),
    "torchtitan": (
        "torchtitan",
        {"method": "pretrain", "count": 16, "instances": 2, "tp": 2, "dp": 8, "sharding": "fsdp",
         "recompute": "selective",
         "shape": {**SHAPE, "group_query_attention": True, "num_query_groups": 8}},
    ),
    "maxtext": (
        "maxtext",
        {"method": "pretrain", "accelerator": "tpu-v5p", "count": 64, "instances": 16, "tp": 2, "dp": 32,
         "sharding": "fsdp", "vendor": "google", "provider": "gcp", "instance_type": "ct5p-hightpu-4t",
         "accelerators_per_instance": 4, "shape": {**SHAPE, "group_query_attention": True, "num_query_groups": 8}},
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
        {"method": "lora", "accelerator": "trainium1", "count": 16, "dp": 16, "vendor": "aws", "sharding": "none",
         "provider": "aws", "instance_type": "trn1.32xlarge", "accelerators_per_instance": 16, "family": "Llama3"},
    ),
}  # fmt: skip
"""Case -> target and changes of the plan."""
