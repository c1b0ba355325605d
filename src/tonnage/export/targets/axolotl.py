"""Axolotl: one YAML file for full, LoRA and QLoRA fine-tuning, and what starts it on each of several machines."""

from __future__ import annotations

from typing import Final

from tonnage.export.kit import (
    KEPT,
    LEARNING_RATE,
    Fields,
    Files,
    Job,
    Options,
    Target,
    attention_of,
    optimizer_called,
    optimizer_of,
    read_switch,
    settle_trainer,
)
from tonnage.export.targets.torchrun import processes

PREFERENCES: Final = ("dpo", "kto", "orpo", "simpo")
"""Objectives that its setting `rl` takes."""
TARGET = Target(
    title="Axolotl",
    version="0.19.0",
    files=("axolotl.yaml", "launch.sh"),
    start="axolotl train axolotl.yaml",
    starts={"launch.sh": "LEADER_ADDRESS=... bash launch.sh, on every machine"},
    kinds=("finetune",),
    most={"pp": 1, "ep": 1},
    text_only=True,
    objectives=("sft", *PREFERENCES),
    words={
        "optimizer": {
            "adamw": "adamw_torch_fused",
            "adamw-8bit": "adamw_bnb_8bit",
            "adafactor": "adafactor",
            "lion": "lion_pytorch",
            "muon": "muon",
            "sgd": "sgd",
        },
    },
)
"""Source: axolotl.utils.schemas, axolotl.cli.utils.train, 0.19.0."""
TEMPLATE: Final = "tokenizer_default_fallback_chatml"
"""
The tokenizer's own chat template, and ChatML where it has none: base models have none, and axolotl stops without one.

Source: axolotl.utils.chat_templates.base, 0.19.0.
"""
OPTIONS = Options(
    programs=(("axolotl", "train"),),
    counts={
        "sequence_len": "seq_len",
        "micro_batch_size": "micro_batch",
        "gradient_accumulation_steps": "accumulation",
        "max_steps": "steps",
        "lora_r": "lora_rank",
        "save_steps": "save_steps",
        "tensor_parallel_size": "tp",
        "context_parallel_size": "cp",
        "expert_parallel_size": "ep",
        "dp_replicate_size": "replicated",
    },
    texts={
        "base_model": "model",
        "adapter": "adapter",
        "deepspeed": "stage_file",
        "fsdp": "fsdp",
        "fsdp_version": "fsdp",
        "fsdp_config.fsdp_sharding_strategy": "fsdp",
    },
    values={
        "num_epochs": ("epochs", float),
        "optimizer": ("optimizer", optimizer_called),
        "bf16": ("bf16", read_switch),
        "fp16": ("fp16", read_switch),
        "gradient_checkpointing": ("recomputes", read_switch),
        "fsdp_config.reshard_after_forward": ("reshards", read_switch),
    },
    flags={"load_in_4bit": ("four_bits", True), "peft_use_dora": ("dora", True), "sample_packing": ("packed", True)},
    settle=settle_trainer,
)


def export(made: Job) -> Files:
    """`axolotl.yaml`; where it takes several machines, `launch.sh` for each."""
    notes = [
        *made.lines,
        "Put your data into `datasets`; learning_rate is a start, not a part of the plan.",
        "A tokenizer without a chat template (of a base model) gets ChatML, which the run then teaches.",
    ]
    files = {"axolotl.yaml": TARGET.yaml(notes, _configuration(made))}
    if made.nodes > 1:
        start = (
            f"exec axolotl train axolotl.yaml --launcher torchrun -- \\\n  {processes(made, per_node=made.per_node)}\n"
        )
        lines = [*made.lines, f"Run this on each of {made.nodes} machines, axolotl.yaml beside it."]
        files["launch.sh"] = TARGET.script(lines, start)
    return files


def _configuration(made: Job) -> Fields:
    """`axolotl.yaml` as a mapping; data and learning rate are placeholders for the user."""
    found: Fields = {
        "base_model": made.model,
        "datasets": [{"path": "your-name/your-data", "type": "chat_template"}],
        "chat_template": TEMPLATE,
        "output_dir": f"./{made.name}-{made.method}",
        "sequence_len": made.seq_len,
        "sample_packing": made.packed,
        "pad_to_sequence_len": made.packed,
        "micro_batch_size": made.micro_batch,
        "gradient_accumulation_steps": made.accumulation,
        "max_steps": made.steps,
        "optimizer": optimizer_of(made, TARGET),
        "learning_rate": LEARNING_RATE[made.adapters],
        "lr_scheduler": "cosine",
        "bf16": made.precision != "fp16",
        "fp16": made.precision == "fp16",
        "gradient_checkpointing": made.recompute != "none",
        "attn_implementation": attention_of(made),
        "save_steps": made.checkpoint_steps,
        "save_total_limit": KEPT,
        "logging_steps": 1,
    }
    if made.objective in PREFERENCES:
        # Answers are compared whole; the log-probabilities of the reference come from the frozen base or a copy of it.
        found |= {"rl": made.objective, "sample_packing": False, "pad_to_sequence_len": False}
        found["datasets"] = [{"path": "your-name/your-pairs", "type": "chat_template.default", "split": "train"}]
        found |= {"precompute_ref_log_probs": True} if made.reference == "cached" else {}
    found |= _adapters(made) | _parallel(made)
    return found


def _adapters(made: Job) -> Fields:
    """Settings of LoRA, QLoRA and DoRA; none for full fine-tuning."""
    if not made.adapters:
        return {}
    return {
        "adapter": "qlora" if made.method == "qlora" else "lora",
        "load_in_4bit": made.method == "qlora",
        "lora_r": made.rank,
        "lora_alpha": made.alpha,
        "lora_dropout": 0.0,
        "lora_target_linear": True,
        "peft_use_dora": made.method == "dora",
    }


def _parallel(made: Job) -> Fields:
    """How the run is split: tensors, context and FSDP, those degrees alone that are above 1."""
    found: Fields = {}
    if made.layout.tp > 1:
        found["tensor_parallel_size"] = made.layout.tp
    if made.layout.cp > 1:
        found["context_parallel_size"] = made.layout.cp
    if made.sharded:
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
