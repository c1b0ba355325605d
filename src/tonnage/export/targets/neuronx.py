"""
AWS Trainium through optimum-neuron (NxD): a program that reads the plan, and the model from the Hub.

A planned rank is a chip, and Neuron's rank is a core of it: the cores of a chip split each layer between them, so that
a chip holds what was planned for it. Releases up to this one cannot go on from a checkpoint; the file says so.
"""

from __future__ import annotations

from typing import Any, Final

from tonnage.domain.train_plan import TrainOption, TrainPlan
from tonnage.errors import BadRequest
from tonnage.export.job import Job, job
from tonnage.export.target import Target
from tonnage.export.targets.torchrun import planned_program

TARGET = Target(
    name="neuronx",
    title="optimum-neuron for AWS Trainium",
    version="0.4.3",
    files=("launch.sh", "train.py", "plan.json"),
    start="DATA=... OUTPUT=... bash launch.sh, on every node",
    kinds=("train", "finetune"),
    vendors=("aws",),
    carried=1,
    install="optimum-neuron[training]==0.4.3",
    source="optimum.neuron.trainers.training_args, models.training of the optimum-neuron 0.4.3 wheel",
)
CORES: Final = {"trainium1": 2, "trainium2": 4, "trainium3": 4}
"""Ranks of a chip: its NeuronCores, on Trainium2 and 3 two of them as one logical core, the runtime's default."""
FAMILIES: Final = ("Llama", "Meta", "CodeLlama", "TinyLlama", "Yi", "SmolLM2", "Qwen3", "Granite")
"""Families whose networks it can train: model types llama, qwen3 and granite, none with experts."""
OPTIMIZERS: Final = {"adamw": "adamw_torch", "sgd": "sgd"}
ALPHA_PER_RANK: Final = 2
LEARNING_RATE: Final = {"pretrain": 3e-4, "full": 2e-5, "lora": 2e-4}
WIDTHS: Final = {
    "num_layers": "num_hidden_layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_attention_heads",
    "num_query_groups": "num_key_value_heads",
    "ffn_hidden_size": "intermediate_size",
}
"""Planned widths -> fields of config.json."""


def export(plan: TrainPlan, option: TrainOption) -> dict[str, str]:
    """`launch.sh`, `train.py` and `plan.json`."""
    made = job(plan, option)
    made.only_text(TARGET.title)
    written = settings(made)
    cores = CORES[made.accelerator]
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
    return planned_program(TARGET, made, settings=written, lines=lines, needs=needs, exports=exports, per_node=ranks)


def settings(made: Job) -> dict[str, Any]:
    """
    What the program reads: arguments of NeuronTrainingArguments by their own names.

    Raises
    ------
    BadRequest
        A network, a chip or a setting that optimum-neuron has not.
    """
    made.only(TARGET.title, cp=1, ep=1, vpp=1)
    layout, title = made.layout, TARGET.title
    if made.accelerator not in CORES:
        raise BadRequest(f"{title}: cores of {made.accelerator} are not known here; known: {', '.join(CORES)}")
    if not made.family.startswith(FAMILIES) or made.shape.get("num_experts"):
        raise BadRequest(
            f"{title} {TARGET.version} trains networks of the types llama, qwen3 and granite, without experts; "
            f"{made.name} is not known as one"
        )
    for what, value, known in (
        ("method", made.method, LEARNING_RATE),
        ("optimizer", made.optimizer, OPTIMIZERS),
        ("precision", made.precision, ("bf16",)),
        ("sharding", layout.sharding, ("none", "zero1")),
        ("recompute", made.recompute, ("full", "none")),
    ):
        if value not in known:
            raise BadRequest(f"{title} has no {what} '{value}'; plan with {', '.join(known)}, or take another option")
    split = layout.tp * CORES[made.accelerator]
    heads = made.shape.get("num_attention_heads", split)
    if heads % split:
        raise BadRequest(f"{heads} heads do not divide among {split} cores of {layout.tp} chips; plan another layout")
    known = {**made.widths, **made.shape}
    return {
        "model": made.model,
        "method": made.method,
        "packed": made.packed,
        "seq_length": made.seq_len,
        "learning_rate": LEARNING_RATE[made.method],
        "widths": {theirs: known[ours] for ours, theirs in WIDTHS.items() if ours in known},
        "arguments": {
            "per_device_train_batch_size": made.micro_batch,
            "gradient_accumulation_steps": made.accumulation,
            "max_steps": made.steps,
            "bf16": True,
            "optim": OPTIMIZERS[made.optimizer],
            "gradient_checkpointing": made.recompute == "full",
            "tensor_parallel_size": split,
            "disable_sequence_parallel": False,
            "pipeline_parallel_size": layout.pp,
            "pipeline_parallel_num_microbatches": made.accumulation if layout.pp > 1 else -1,
            "zero_1": layout.sharding == "zero1",
            "save_strategy": "steps",
            "save_steps": made.checkpoint_steps,
            "async_save": made.asynchronous,
            "logging_steps": 1,
            "lr_scheduler_type": "cosine",
        },
        "adapters": {
            "r": made.lora_rank or 16,
            "lora_alpha": ALPHA_PER_RANK * (made.lora_rank or 16),
            "lora_dropout": 0.0,
            "target_modules": "all-linear",
        }
        if made.adapters
        else None,
    }
