"""Hugging Face Accelerate: its configuration file and the command that launches a script with it."""

from __future__ import annotations

from tonnage.export.kit import DATA_PARALLEL, Fields, Files, Job, Target
from tonnage.export.targets.torchrun import PORT, SCRIPT

TARGET = Target(
    title="Hugging Face Accelerate",
    version="1.15.0",
    files=("accelerate.yaml", "launch.sh"),
    start="SCRIPT=train.py bash launch.sh, on every node",
    kinds=("train", "finetune"),
    most=DATA_PARALLEL,
)
"""Source: accelerate.commands.config.config_args.ClusterConfig, 1.15.0."""


def export(made: Job) -> Files:
    """`accelerate.yaml` and `launch.sh`."""
    notes = [
        *made.lines,
        f"The script makes micro-batches of {made.micro_batch} x {made.seq_len} tokens, {made.accumulation} to a step,",
        f"for {made.steps} steps, and saves every {made.checkpoint_steps} of them.",
    ]
    start = f'exec accelerate launch --config_file accelerate.yaml{machines(made)} \\\n  "$SCRIPT" "$@"\n'
    return {
        "accelerate.yaml": TARGET.yaml(made.lines, configuration(made)),
        "launch.sh": TARGET.script(notes, start, needs=SCRIPT),
    }


def machines(made: Job) -> str:
    """The options of a launcher on one of several machines."""
    if made.nodes == 1:
        return ""
    rank = ' \\\n  --machine_rank "${NODE_RANK:?0 on the first node}"'
    return (
        rank + f' \\\n  --main_process_ip "${{LEADER_ADDRESS:?address of the first node}}" --main_process_port {PORT}'
    )


def configuration(made: Job) -> Fields:
    """The fields of Accelerate's own configuration."""
    kind = "FSDP" if made.sharded else "MULTI_GPU" if made.count > 1 else "NO"
    found: Fields = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": kind,
        "mixed_precision": made.precision if made.precision in ("bf16", "fp16", "fp8") else "no",
        "num_machines": made.nodes,
        "num_processes": made.count,
        "machine_rank": 0,
        "main_training_function": "main",
        "rdzv_backend": "static",
        "same_network": True,
        "use_cpu": False,
    }
    if made.sharded:
        found["fsdp_config"] = {
            "fsdp_version": 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": made.layout.sharding not in ("zero1", "zero2"),
            "fsdp_activation_checkpointing": made.recompute != "none",
            # Weights that one rank alone quantises never reach the others (axolotl 0.19.0 refuses the pair).
            "fsdp_cpu_ram_efficient_loading": made.method != "qlora",
            "fsdp_offload_params": False,
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        }
    return found
