"""NeMo-RL: a recipe over its GRPO base, shared or apart, with Megatron or DTensor training."""

from __future__ import annotations

from tonnage.export.kit import BadRequest, Fields, RlJob, Target

TARGET = Target(
    title="NeMo-RL",
    version="0.6",
    files=("nemo_rl.yaml",),
    start="uv run examples/run_grpo_math.py --config nemo_rl.yaml",
    kinds=("rl",),
)
"""Source: examples/configs/grpo_math_1B.yaml and its performance recipes, read 2026-11-22."""


def export(made: RlJob) -> str:
    """`nemo_rl.yaml`."""
    if made.case.algorithm == "ppo":
        raise BadRequest("algorithm: the recipe here has no critic; export ppo to verl, or plan grpo, rloo or dapo")
    if made.splits_nodes:
        raise BadRequest("rollout_count: NeMo-RL splits whole machines; plan a split of whole machines")
    notes = [*made.lines, "Put it beside examples/configs, whose grpo_math_1B.yaml it builds on."]
    return TARGET.yaml(notes, _recipe(made))


def _recipe(made: RlJob) -> Fields:
    """The recipe as changes of NeMo RL's own `grpo_math_1B.yaml`."""
    case = made.case
    grpo: Fields = {
        "num_prompts_per_step": case.prompts_per_step,
        "num_generations_per_prompt": case.responses_per_prompt,
        "max_num_steps": made.steps,
        "use_leave_one_out_baseline": case.algorithm == "rloo",
    }
    if case.algorithm == "dapo":
        grpo |= {"use_dynamic_sampling": True, "batch_multiplier": made.generated}
    if case.staleness:
        grpo["async_grpo"] = {"enabled": True, "max_trajectory_age_steps": case.staleness}
        if case.partial_rollouts:
            grpo["async_grpo"]["in_flight_weight_updates"] = True
    return {
        "defaults": "grpo_math_1B.yaml",
        "grpo": grpo,
        "loss_fn": {
            "reference_policy_kl_penalty": 0.01 if case.reference else 0.0,
            "use_importance_sampling_correction": bool(case.staleness),
        },
        "checkpointing": {"checkpoint_dir": f"results/{made.name}", "save_period": made.checkpoint_steps},
        "policy": _policy(made),
        "cluster": {"gpus_per_node": made.per_node, "num_nodes": made.nodes},
    }


def _policy(made: RlJob) -> Fields:
    """
    Trainer and rollouts: DTensor where the trainer shards all states, else Megatron.

    Rollouts have nodes of their own, accelerators of the only node, or share those of the trainer.
    """
    case, layout = made.case, made.layout
    separate = case.rollout_count is not None
    resources: Fields = {"gpus_per_node": made.per_node, "num_nodes": int(made.rollout_nodes)}
    if separate and made.nodes == 1:
        resources = {"gpus_per_node": case.rollout_count, "num_nodes": None}
    degrees = {"tensor_parallel_size": layout.tp, "context_parallel_size": layout.cp}
    return {
        "model_name": made.model,
        "tokenizer": {"name": made.model},
        "train_global_batch_size": made.train_batch,
        "train_micro_batch_size": 1,
        "logprob_batch_size": 1,
        "max_total_sequence_length": made.seq_len,
        "dtensor_cfg": {"enabled": made.sharded, "activation_checkpointing": made.recompute != "none", **degrees},
        "megatron_cfg": {
            "enabled": not made.sharded,
            "tensor_model_parallel_size": layout.tp,
            "pipeline_model_parallel_size": layout.pp,
            "context_parallel_size": layout.cp,
            "expert_model_parallel_size": layout.ep,
            "sequence_parallel": layout.tp > 1,
            "activation_checkpointing": made.recompute != "none",
        },
        "generation": {
            "backend": case.engine,
            "vllm_cfg": {
                "tensor_parallel_size": case.rollout_layout.tp,
                "gpu_memory_utilization": made.memory_share,
                "async_engine": bool(case.staleness),
            },
            "colocated": {"enabled": not separate, **({"resources": resources} if separate else {})},
        },
    }
