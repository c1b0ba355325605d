"""
AWS Trainium through optimum-neuron (NxD): a program that reads the plan, and the model from the Hub.

A planned rank is a chip, and Neuron's rank is a core of it: the cores of a chip split each layer between them, so that
a chip holds what was planned for it. Releases up to this one cannot go on from a checkpoint; the file says so.
"""

from __future__ import annotations

from typing import Final

from tonnage.export.kit import BadRequest, Fields, Files, Job, Target
from tonnage.export.targets.torchrun import planned_program

TARGET = Target(
    title="optimum-neuron for AWS Trainium",
    version="0.4.3",
    files=("launch.sh", "train.py", "plan.json"),
    start="DATA=... OUTPUT=... bash launch.sh, on every node",
    kinds=("train", "finetune"),
    most={"cp": 1, "ep": 1, "vpp": 1},
    text_only=True,
    vendors=("aws",),
    carried=1,
    install="optimum-neuron[training]==0.4.3",
    words={
        # Ranks of a chip: its NeuronCores, on Trainium2 and 3 two of them as one logical core, the runtime's default.
        "accelerator": {"trainium1": 2, "trainium2": 4, "trainium3": 4},
        "precision": {"bf16": True},
        "optimizer": {"adamw": "adamw_torch", "sgd": "sgd"},
        "recompute": {"full": True, "none": False},
        "sharding": {"none": False, "zero1": True},
        # Learning rates to start from.
        "method": {"pretrain": 3e-4, "full": 2e-5, "lora": 2e-4},
    },
)
"""Source: optimum.neuron.trainers.training_args, models.training of the optimum-neuron 0.4.3 wheel."""
FAMILIES: Final = ("Llama", "Meta", "CodeLlama", "TinyLlama", "Yi", "SmolLM2", "Qwen3", "Granite")
"""Families whose networks it can train: model types llama, qwen3 and granite, none with experts."""
WIDTHS: Final = {
    "num_layers": "num_hidden_layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_attention_heads",
    "num_query_groups": "num_key_value_heads",
    "ffn_hidden_size": "intermediate_size",
}
"""Planned widths -> fields of config.json."""


def export(made: Job) -> Files:
    """`launch.sh`, `train.py` and `plan.json`."""
    written = settings(made)
    cores = TARGET.word("accelerator", made.accelerator)
    lines = [
        f"Each chip is {cores} ranks: its cores split the layers, so that a chip holds what was planned for it.",
        "OUTPUT is a folder that every node sees. DATA is a data set: an id of the Hub or a folder; for pre-training",
        f"one of token ids, {made.seq_len:,} a row, as datasets.save_to_disk writes it.",
        f"{TARGET.title} {TARGET.version} cannot go on from a checkpoint: an interruption starts the run again.",
        "The first start compiles the network for the planned shapes.",
    ]
    needs = {"DATA": "what to train on", "OUTPUT": "shared folder for checkpoints"}
    exports = "DATA OUTPUT NEURON_CC_FLAGS=--model-type=transformer MALLOC_ARENA_MAX=64"
    ranks = made.per_node * cores
    return planned_program(
        TARGET,
        made,
        program="neuronx.py.txt",
        settings=written,
        lines=lines,
        needs=needs,
        exports=exports,
        per_node=ranks,
    )


def settings(made: Job) -> Fields:
    """
    What the program reads: arguments of NeuronTrainingArguments by their own names.

    Raises
    ------
    BadRequest
        A network, a chip or a setting that optimum-neuron has not.
    """
    layout = made.layout
    if not made.family.startswith(FAMILIES) or made.shape.get("num_experts"):
        raise BadRequest(
            f"{TARGET.title} {TARGET.version} trains networks of the types llama, qwen3 and granite, without experts; "
            f"{made.name} is not known as one"
        )
    split = layout.tp * TARGET.word("accelerator", made.accelerator)
    heads = made.shape.get("num_attention_heads", split)
    if heads % split:
        raise BadRequest(f"{heads} heads do not divide among {split} cores of {layout.tp} chips; plan another layout")
    known = {**made.widths, **made.shape}
    return {
        "model": made.model,
        "method": made.method,
        "packed": made.packed,
        "seq_length": made.seq_len,
        "learning_rate": TARGET.word("method", made.method),
        "widths": {theirs: known[ours] for ours, theirs in WIDTHS.items() if ours in known},
        "arguments": {
            "per_device_train_batch_size": made.micro_batch,
            "gradient_accumulation_steps": made.accumulation,
            "max_steps": made.steps,
            "bf16": TARGET.word("precision", made.precision),
            "optim": TARGET.word("optimizer", made.optimizer),
            "gradient_checkpointing": TARGET.word("recompute", made.recompute),
            "tensor_parallel_size": split,
            "disable_sequence_parallel": False,
            "pipeline_parallel_size": layout.pp,
            "pipeline_parallel_num_microbatches": made.accumulation if layout.pp > 1 else -1,
            "zero_1": TARGET.word("sharding", layout.sharding),
            "save_strategy": "steps",
            "save_steps": made.checkpoint_steps,
            "async_save": made.asynchronous,
            "logging_steps": 1,
            "lr_scheduler_type": "cosine",
        },
        "adapters": {
            "r": made.rank,
            "lora_alpha": made.alpha,
            "lora_dropout": 0.0,
            "target_modules": "all-linear",
        }
        if made.adapters
        else None,
    }
