"""Axolotl: one YAML file for full, LoRA and QLoRA fine-tuning."""

from __future__ import annotations

from typing import Any, Final

from tonnage.domain.requests.train import FineTune
from tonnage.domain.train_plan import TrainOption, TrainPlan
from tonnage.errors import BadRequest
from tonnage.export.job import Job, attention_of, job
from tonnage.export.options import Options, whole
from tonnage.export.target import Target
from tonnage.export.text import yaml_text
from tonnage.export.trainer import SHARDED_8BIT, optimizer_called, read_switch, settle_trainer

PREFERENCES: Final = ("dpo", "kto", "orpo", "simpo")
"""Objectives that its setting `rl` takes."""
TARGET = Target(
    name="axolotl",
    title="Axolotl",
    version="0.19.0",
    files=("axolotl.yaml",),
    start="axolotl train axolotl.yaml",
    kinds=("finetune",),
    objectives=("sft", *PREFERENCES),
    source="axolotl.utils.schemas, 0.19.0",
)
OPTIMIZERS: Final = {
    "adamw": "adamw_torch_fused",
    "adamw-8bit": "adamw_bnb_8bit",
    "adafactor": "adafactor",
    "lion": "lion_pytorch",
    "muon": "muon",
    "sgd": "sgd",
}
OPTIONS = Options(
    programs=(("axolotl", "train"),),
    values={
        "base_model": ("model", str),
        "sequence_len": ("seq_len", whole),
        "micro_batch_size": ("micro_batch", whole),
        "gradient_accumulation_steps": ("accumulation", whole),
        "max_steps": ("steps", whole),
        "num_epochs": ("epochs", float),
        "optimizer": ("optimizer", optimizer_called),
        "adapter": ("adapter", str),
        "lora_r": ("lora_rank", whole),
        "save_steps": ("save_steps", whole),
        "tensor_parallel_size": ("tp", whole),
        "context_parallel_size": ("cp", whole),
        "expert_parallel_size": ("ep", whole),
        "dp_replicate_size": ("replicated", whole),
        "deepspeed": ("stage_file", str),
        "fsdp": ("fsdp", str),
        "fsdp_version": ("fsdp", str),
        "bf16": ("bf16", read_switch),
        "fp16": ("fp16", read_switch),
        "gradient_checkpointing": ("recomputes", read_switch),
        "fsdp_config.reshard_after_forward": ("reshards", read_switch),
        "fsdp_config.fsdp_sharding_strategy": ("fsdp", str),
    },
    flags={"load_in_4bit": ("four_bits", True), "peft_use_dora": ("dora", True), "sample_packing": ("packed", True)},
    settle=settle_trainer,
)
ALPHA_PER_RANK: Final = 2
"""lora_alpha over lora_r: it scales the update and costs nothing."""
LEARNING_RATE: Final = {True: 0.0002, False: 0.00002}
"""Where to start with adapters, and without: those of axolotl's examples for Llama 3 (lora-8b.yml, fft-8b.yaml)."""


def export(plan: TrainPlan, option: TrainOption) -> dict[str, str]:
    """`axolotl.yaml`."""
    made, asked = job(plan, option), plan.request
    assert isinstance(asked, FineTune)
    made.only_text(TARGET.title)
    made.only(TARGET.title, pp=1, ep=1)
    if made.optimizer not in OPTIMIZERS:
        raise BadRequest(f"Axolotl has no optimizer '{made.optimizer}'; plan with one of {', '.join(OPTIMIZERS)}")
    notes = [*made.lines, "Put your data into `datasets`; learning_rate is a start, not a part of the plan."]
    return {
        "axolotl.yaml": TARGET.head(notes)
        + yaml_text(_configuration(made, objective=asked.objective, cached=asked.reference == "cached"))
    }


def _configuration(made: Job, *, objective: str, cached: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "base_model": made.model,
        "datasets": [{"path": "your-name/your-data", "type": "chat_template"}],
        "output_dir": f"./{made.name}-{made.method}",
        "sequence_len": made.seq_len,
        "sample_packing": made.packed,
        "pad_to_sequence_len": made.packed,
        "micro_batch_size": made.micro_batch,
        "gradient_accumulation_steps": made.accumulation,
        "max_steps": made.steps,
        "optimizer": SHARDED_8BIT if _sharded(made) and made.optimizer == "adamw-8bit" else OPTIMIZERS[made.optimizer],
        "learning_rate": LEARNING_RATE[made.adapters],
        "lr_scheduler": "cosine",
        "bf16": made.precision != "fp16",
        "fp16": made.precision == "fp16",
        "gradient_checkpointing": made.recompute != "none",
        "attn_implementation": attention_of(made),
        "save_steps": made.checkpoint_steps,
        "logging_steps": 1,
    }
    if objective in PREFERENCES:
        # Answers are compared whole; the log-probabilities of the reference come from the frozen base or a copy of it.
        found |= {"rl": objective, "sample_packing": False, "pad_to_sequence_len": False}
        found["datasets"] = [{"path": "your-name/your-pairs", "type": "chat_template.default", "split": "train"}]
        found |= {"precompute_ref_log_probs": True} if cached else {}
    found |= _adapters(made) | _parallel(made)
    return found


def _adapters(made: Job) -> dict[str, Any]:
    if not made.adapters:
        return {}
    rank = made.lora_rank or 16
    return {
        "adapter": "qlora" if made.method == "qlora" else "lora",
        "load_in_4bit": made.method == "qlora",
        "lora_r": rank,
        "lora_alpha": ALPHA_PER_RANK * rank,
        "lora_dropout": 0.0,
        "lora_target_linear": True,
        "peft_use_dora": made.method == "dora",
    }


def _sharded(made: Job) -> bool:
    return made.count > 1 and made.layout.sharding != "none"


def _parallel(made: Job) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if made.layout.tp > 1:
        found["tensor_parallel_size"] = made.layout.tp
    if made.layout.cp > 1:
        found["context_parallel_size"] = made.layout.cp
    if _sharded(made):
        found |= {
            "dp_shard_size": made.per_node if made.layout.sharding == "hsdp" else made.layout.dp,
            "fsdp_version": 2,
            "fsdp_config": {
                "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
                "reshard_after_forward": made.layout.sharding not in ("zero1", "zero2"),
                "state_dict_type": "SHARDED_STATE_DICT",
                # Quantised by one rank alone, the weights never reach the others: axolotl refuses it.
                "cpu_ram_efficient_loading": made.method != "qlora",
                "offload_params": False,
            },
        }
        if made.layout.sharding == "hsdp":
            found["dp_replicate_size"] = made.nodes
    return found
