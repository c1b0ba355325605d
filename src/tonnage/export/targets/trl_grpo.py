"""TRL: a configuration of `trl grpo`, whose engine shares the accelerators of the trainer."""

from __future__ import annotations

from typing import Final

from tonnage.export.kit import BadRequest, Fields, RlJob, Target

TARGET = Target(
    title="TRL GRPO",
    version="1.16.0",
    files=("trl.yaml",),
    start="accelerate launch --config_file fsdp.yaml -m trl.scripts.grpo --config trl.yaml",
    kinds=("rl",),
)
"""Source: trl/trainer/grpo_config.py 1.16.0, transformers/training_args.py 5.23.0."""
LOSSES: Final = {"grpo": "grpo", "dapo": "dapo"}
KL_WEIGHT: Final = 0.001
"""Of DeepSeek-R1, as TRL's own documentation of `beta` says; 0 loads no reference."""


def export(made: RlJob) -> str:
    """`trl.yaml`."""
    if made.case.algorithm not in LOSSES:
        raise BadRequest(f"algorithm: `trl grpo` runs grpo and dapo, not {made.case.algorithm}; export to verl")
    if made.case.staleness:
        raise BadRequest("staleness: these files share the accelerators; export to verl or nemo-rl, or plan 0")
    if not made.sharded:
        raise BadRequest("framework: TRL shards the trainer over all ranks; plan with --framework fsdp")
    notes = [*made.lines, "Add dataset_name and reward_funcs; `accelerate config` writes fsdp.yaml for your machines."]
    return TARGET.yaml(notes, _configuration(made))


def _configuration(made: RlJob) -> Fields:
    """The trainer's settings; TRL counts its steps by the optimizer's, so a step with several takes as many."""
    case = made.case
    micro = 1
    return {
        "model_name_or_path": made.model,
        "output_dir": f"./{made.name}-{case.algorithm}",
        "loss_type": LOSSES[case.algorithm],
        "num_generations": case.responses_per_prompt,
        "generation_batch_size": case.responses,
        "max_completion_length": int(case.max_response_tokens),
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": max(1, made.train_batch // (case.count * micro)),
        "max_steps": made.steps * max(1, case.responses // made.train_batch),
        "beta": KL_WEIGHT if case.reference else 0.0,
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_tensor_parallel_size": case.rollout_layout.tp,
        "vllm_gpu_memory_utilization": made.memory_share,
        "vllm_enable_sleep_mode": True,
        "bf16": True,
        "gradient_checkpointing": made.recompute != "none",
        "save_steps": made.checkpoint_steps,
    }
