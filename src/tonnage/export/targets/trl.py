"""TRL: the configuration of `trl sft` for full, LoRA, QLoRA and DoRA fine-tuning, and Accelerate's beside it."""

from __future__ import annotations

from tonnage.export.kit import (
    DATA_PARALLEL,
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
from tonnage.export.targets.accelerate import configuration, machines

TARGET = Target(
    title="TRL",
    version="1.16.0",
    files=("sft.yaml", "accelerate.yaml", "launch.sh"),
    start="bash launch.sh, on every node",
    kinds=("finetune",),
    most=DATA_PARALLEL,
    text_only=True,
    carried=1,
    install="trl[peft,quantization]==1.16.0 torchao",
    words={
        # transformers.training_args.OptimizerNames, 5.23.0.
        "optimizer": {
            "adamw": "adamw_torch_fused",
            "adamw-8bit": "adamw_bnb_8bit",
            "adafactor": "adafactor",
            "lion": "lion_32bit",
            "sgd": "sgd",
        },
    },
)
"""Source: trl.SFTConfig, trl.ModelConfig, 1.16.0; transformers.TrainingArguments, 5.23.0."""

OPTIONS = Options(
    programs=(("trl", "sft"), ("sft.py",), ("trl", "dpo"), ("dpo.py",)),
    counts={
        "max_length": "seq_len",
        "max_seq_length": "seq_len",
        "per_device_train_batch_size": "micro_batch",
        "gradient_accumulation_steps": "accumulation",
        "lora_r": "lora_rank",
        "save_steps": "save_steps",
    },
    texts={
        "model_name_or_path": "model",
        "deepspeed": "stage_file",
        "fsdp": "fsdp",
    },
    values={
        "max_steps": ("steps", int),
        "num_train_epochs": ("epochs", float),
        "optim": ("optimizer", optimizer_called),
        "bf16": ("bf16", read_switch),
        "fp16": ("fp16", read_switch),
        "gradient_checkpointing": ("recomputes", read_switch),
    },
    flags={
        "use_peft": ("adapter", True),
        "load_in_4bit": ("four_bits", True),
        "use_dora": ("dora", True),
        "packing": ("packed", True),
        "bf16": ("bf16", True),
        "fp16": ("fp16", True),
        "gradient_checkpointing": ("recomputes", True),
    },
    settle=settle_trainer,
)


def export(made: Job) -> Files:
    """`sft.yaml`, `accelerate.yaml` and `launch.sh`."""
    notes = [*made.lines, "Put your data into `dataset_name`; learning_rate is a start, not a part of the plan."]
    # Started again, it goes on from the newest checkpoint; the configuration alone would begin anew.
    start = (
        f'LAST="$(ls -d {_output(made)}/checkpoint-* 2>/dev/null | sort -V | tail -n1 || true)"\n'
        "exec trl sft --config sft.yaml --accelerate_config accelerate.yaml"
        ' \\\n  ${LAST:+--resume_from_checkpoint "$LAST"}'
    )
    return {
        "sft.yaml": TARGET.yaml(notes, _sft(made)),
        "accelerate.yaml": TARGET.yaml(made.lines, configuration(made)),
        "launch.sh": TARGET.script(made.lines, f'{start}{machines(made)} "$@"\n'),
    }


def _output(made: Job) -> str:
    return f"./{made.name}-{made.method}"


def _sft(made: Job) -> Fields:
    """The trainer's settings for supervised fine-tuning; data and learning rate are placeholders for the user."""
    found: Fields = {
        "model_name_or_path": made.model,
        "dataset_name": "your-name/your-data",
        "output_dir": _output(made),
        "max_length": made.seq_len,
        "packing": made.packed,
        "per_device_train_batch_size": made.micro_batch,
        "gradient_accumulation_steps": made.accumulation,
        "max_steps": made.steps,
        "optim": optimizer_of(made, TARGET),
        "learning_rate": LEARNING_RATE[made.adapters],
        "bf16": made.precision == "bf16",
        "fp16": made.precision == "fp16",
        # FSDP recomputes by its own switch (accelerate.yaml); the trainer refuses both.
        "gradient_checkpointing": made.recompute != "none" and not made.sharded,
        "attn_implementation": attention_of(made),
        "save_strategy": "steps",
        "save_steps": made.checkpoint_steps,
        "save_total_limit": KEPT,
        "logging_steps": 1,
        "use_peft": made.adapters,
    }
    if made.adapters:
        found |= {
            "lora_r": made.rank,
            "lora_alpha": made.alpha,
            "lora_dropout": 0.0,
            "lora_target_modules": ["all-linear"],
            "load_in_4bit": made.method == "qlora",
            "use_dora": made.method == "dora",
        }
    return found
