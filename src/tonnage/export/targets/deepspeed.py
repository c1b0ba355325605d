"""DeepSpeed: its JSON configuration and the command that launches a script with it."""

from __future__ import annotations

from typing import Final

from tonnage.export.kit import DATA_PARALLEL, Fields, Files, Job, Target, json_text
from tonnage.export.targets.torchrun import SCRIPT

TARGET = Target(
    title="DeepSpeed",
    version="0.19.8",
    files=("deepspeed.json", "launch.sh"),
    start="SCRIPT=train.py bash launch.sh",
    kinds=("train", "finetune"),
    most=DATA_PARALLEL,
    carried=5,
    software=("deepspeed",),
    install="deepspeed==0.19.8",
)
"""Source: deepspeed.runtime.zero.config.DeepSpeedZeroConfig, 0.19.8; www.deepspeed.ai/docs/config-json."""
STAGES: Final = {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3, "hsdp": 3}


def export(made: Job) -> Files:
    """`deepspeed.json` and `launch.sh`."""
    hosts = ""
    if made.nodes > 1:
        hosts = ' \\\n  --hostfile "${HOSTFILE:?lines of HOST slots=' + str(made.per_node) + '}"'
        hosts += f" --num_nodes {made.nodes}"
    notes = [*made.lines, f"Run for {made.steps} steps; save every {made.checkpoint_steps} of them."]
    if made.recompute != "none":
        notes.append(
            "The plan recomputes activations, which a script switches on: model.gradient_checkpointing_enable()."
        )
    start = f'exec deepspeed --num_gpus {made.per_node}{hosts} \\\n  "$SCRIPT" --deepspeed deepspeed.json "$@"\n'
    return {
        "deepspeed.json": json_text(_configuration(made)),
        "launch.sh": TARGET.script(notes, start, needs=SCRIPT),
    }


def _configuration(made: Job) -> Fields:
    """The DeepSpeed configuration of a job: batches, ZeRO stage by the plan's sharding, precision and optimizer."""
    stage = STAGES[made.layout.sharding]
    zero: Fields = {"stage": stage}
    if stage:
        zero |= {"overlap_comm": True, "contiguous_gradients": True}
    if stage == 3:
        zero |= {"stage3_gather_16bit_weights_on_model_save": True}
    if made.layout.sharding == "hsdp":
        zero |= {"zero_hpz_partition_size": made.per_node}
    found: Fields = {
        "train_micro_batch_size_per_gpu": made.micro_batch,
        "gradient_accumulation_steps": made.accumulation,
        "train_batch_size": made.global_batch,
        "gradient_clipping": 1.0,
        "zero_optimization": zero,
    }
    if made.precision in ("bf16", "fp16"):
        found[made.precision] = {"enabled": True}
    if made.recompute != "none":
        found["activation_checkpointing"] = {"partition_activations": False, "contiguous_memory_optimization": False}
    return found
