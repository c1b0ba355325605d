"""
Train with Megatron-Bridge (NeMo Framework) as plan.json says; written by Tonnage.

The network is built by the bridge from the model's own config.json (rotary base, scaling, norms, experts), and the
widths that were planned are held against it. Every setting of plan.json is put into the field of its name; a field
that the installed release lacks stops the start. DATA is what it trains on, OUTPUT a shared folder for checkpoints.
"""

import json
import os
from pathlib import Path
from typing import Any

from megatron.bridge import AutoBridge
from megatron.bridge.data.builders import ChatSFTPreprocessingConfig, GPTSFTDatasetConfig, HFDatasetSourceConfig
from megatron.bridge.data.packing import PackedSequenceSpecs
from megatron.bridge.peft.dora import DoRA
from megatron.bridge.peft.lora import LoRA
from megatron.bridge.training.config import (
    CheckpointConfig,
    ConfigContainer,
    DistributedDataParallelConfig,
    GPTDatasetConfig,
    LoggerConfig,
    OptimizerConfig,
    RNGConfig,
    SchedulerConfig,
    TokenizerConfig,
    TrainingConfig,
    ValidationConfig,
)

PLAN = json.loads(Path(__file__).with_name("plan.json").read_text(encoding="utf-8"))
SMALLEST_RATE = 0.1  # the learning rate decays to this share of its start


def put(target: Any, settings: dict[str, Any]) -> Any:
    """Each setting into the field of its name."""
    for name, value in settings.items():
        if not hasattr(target, name):
            raise SystemExit(f"{type(target).__name__} of this release has no {name}; plan.json was written for another")
        setattr(target, name, value)
    return target


def network() -> Any:
    """The model's own description, split as planned."""
    provider = AutoBridge.from_hf_pretrained(PLAN["model"]).to_megatron_provider(load_weights=False)
    for name, planned in PLAN["widths"].items():
        built = getattr(provider, name, None)
        if name == "num_query_groups" and built is None:
            built = provider.num_attention_heads
        if built != planned:
            raise SystemExit(f"{PLAN['model']} has {name} {built}, the plan {planned}: plan again with this model")
    return put(provider, PLAN["provider"])


def data() -> Any:
    """Tokenised text by its prefix for pre-training; conversations of a data set of the Hub, or of files, otherwise."""
    if PLAN["method"] == "pretrain":
        return GPTDatasetConfig(
            seq_length=PLAN["seq_length"], data_path=os.environ["DATA"], split="9999,8,2", random_seed=1234,
            reset_attention_mask=False, reset_position_ids=False, eod_mask_loss=False, num_dataset_builder_threads=1,
            dataloader_type="single",
        )  # fmt: skip
    return GPTSFTDatasetConfig(
        seq_length=PLAN["seq_length"],
        hf_dataset=HFDatasetSourceConfig(path_or_dataset=os.environ["DATA"], split="train"),
        preprocessing=ChatSFTPreprocessingConfig(),
        do_validation=False,
        do_test=False,
        enable_offline_packing=PLAN["packed"],
        offline_packing_specs=PackedSequenceSpecs(
            packed_sequence_size=PLAN["seq_length"], pad_seq_to_mult=2 * PLAN["provider"]["context_parallel_size"]
        )
        if PLAN["packed"]
        else None,
    )


def configuration() -> ConfigContainer:
    """Everything that a start needs."""
    rate, adapters = float(os.environ.get("LEARNING_RATE", PLAN["learning_rate"])), PLAN["adapters"]
    kinds = {"lora": LoRA, "dora": DoRA}
    return ConfigContainer(
        model=network(),
        train=put(TrainingConfig(), PLAN["train"]),
        validation=ValidationConfig(eval_iters=0),
        optimizer=put(OptimizerConfig(lr=rate, min_lr=SMALLEST_RATE * rate), PLAN["optimizer"]),
        scheduler=SchedulerConfig(lr_decay_style="cosine", lr_decay_iters=PLAN["train"]["train_iters"]),
        ddp=put(DistributedDataParallelConfig(), PLAN["ddp"]),
        dataset=data(),
        logger=LoggerConfig(log_interval=1),
        tokenizer=TokenizerConfig(tokenizer_type="HuggingFaceTokenizer", tokenizer_model=PLAN["model"]),
        checkpoint=put(
            CheckpointConfig(save=os.environ["OUTPUT"], load=os.environ["OUTPUT"]),
            {**PLAN["checkpoint"], "pretrained_checkpoint": os.environ.get("WEIGHTS")},
        ),
        rng=RNGConfig(seed=1234),
        mixed_precision=PLAN["mixed_precision"],
        peft=put(kinds[PLAN["method"]](), adapters) if adapters else None,
    )


if __name__ == "__main__":
    from megatron.bridge.training.finetune import finetune
    from megatron.bridge.training.gpt_step import forward_step
    from megatron.bridge.training.pretrain import pretrain

    if PLAN["method"] != "pretrain" and "WEIGHTS" not in os.environ:
        raise SystemExit("WEIGHTS is missing: folder of the checkpoint to start from, as the Hub stores it")
    (pretrain if PLAN["method"] == "pretrain" else finetune)(configuration(), forward_step)
