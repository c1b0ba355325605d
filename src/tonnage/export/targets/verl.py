"""verl: a script of hydra overrides for PPO, GRPO, RLOO and DAPO, shared or one step off policy."""

from __future__ import annotations

import shlex
from typing import Final

from tonnage.export.kit import BadRequest, Fields, RlJob, Target, lines

TARGET = Target(
    title="verl",
    version="0.9.1",
    files=("verl.sh",),
    start="bash verl.sh",
    kinds=("rl",),
)
"""Source: verl/trainer/config/_generated_ppo_*trainer.yaml and verl/experimental/one_step_off_policy, 0.9.1."""
LONGEST_PROMPT: Final = 4
"""Times the mean: longer prompts are filtered out. [-]"""
ESTIMATORS: Final = {"grpo": "grpo", "dapo": "grpo", "rloo": "rloo", "ppo": "gae"}


def export(made: RlJob) -> str:
    """`verl.sh`."""
    if made.case.staleness > 1:
        raise BadRequest("staleness: verl's files here know 0 and 1; plan with --staleness 1")
    if made.case.staleness and not made.whole_nodes:
        raise BadRequest("rollout_count: verl splits whole machines; plan a count of several machines")
    module = "verl.experimental.one_step_off_policy.main_ppo" if made.case.staleness else "verl.trainer.main_ppo"
    config = ("one_step_off_" if made.case.staleness else "") + (
        "ppo_trainer" if made.sharded else "ppo_megatron_trainer"
    )
    words = [shlex.quote(f"{name}={value}") for name, value in _overrides(made).items()]
    words.insert(1, 'data.train_files="${DATA:?}"')
    notes = [*made.lines, "Set DATA to your parquet file and add your reward function as an argument."]
    return TARGET.script(notes, "\n" + lines([f"python3 -m {module} --config-name={config}", *words, '"$@"']))


def _overrides(made: RlJob) -> Fields:
    """
    Hydra's overrides of verl's own settings, name to value.

    DAPO generates more groups than it keeps: three for each where the plan does not say.
    """
    case, actor, rollout = made.case, "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    generated = 3 if case.algorithm == "dapo" and case.kept is None else round(1 / (case.kept or 1.0))
    found: Fields = {
        "algorithm.adv_estimator": ESTIMATORS[case.algorithm],
        "data.train_batch_size": case.prompts_per_step,
        "data.max_prompt_length": int(LONGEST_PROMPT * case.prompt_tokens),
        "data.max_response_length": int(case.max_response_tokens),
        "actor_rollout_ref.model.path": made.model,
        f"{actor}.ppo_mini_batch_size": max(1, made.train_batch // case.responses_per_prompt),
        f"{actor}.use_dynamic_bsz": True,
        f"{actor}.ppo_max_token_len_per_gpu": made.seq_len,
        f"{actor}.use_kl_loss": case.reference,
        f"{rollout}.name": case.engine,
        f"{rollout}.n": case.responses_per_prompt,
        f"{rollout}.tensor_model_parallel_size": case.rollout_layout.tp,
        f"{rollout}.gpu_memory_utilization": made.memory_share,
        "trainer.n_gpus_per_node": made.per_node,
        "trainer.nnodes": made.nodes - int(made.rollout_nodes),
        "trainer.total_training_steps": made.steps,
        "trainer.save_freq": made.checkpoint_steps,
    }
    if generated > 1:
        found |= {"algorithm.filter_groups.enable": True, "data.gen_batch_size": generated * case.prompts_per_step}
    if case.staleness:
        found |= {"rollout.nnodes": int(made.rollout_nodes), "rollout.n_gpus_per_node": made.per_node}
        # Its own configuration looks for the trainer's in a checkout that it is started from.
        found |= {"hydra.searchpath": "[pkg://verl.trainer.config]"}
    return found | _trainer(made)


def _trainer(made: RlJob) -> Fields:
    """How the trainer is arranged; states are parked on the host where the engines share its accelerators."""
    layout, actor, parked = made.layout, "actor_rollout_ref.actor", not made.case.staleness
    if made.sharded:
        return {
            f"{actor}.fsdp_config.param_offload": parked,
            f"{actor}.fsdp_config.optimizer_offload": parked,
            f"{actor}.ulysses_sequence_parallel_size": layout.cp,
            "actor_rollout_ref.model.enable_gradient_checkpointing": made.recompute != "none",
        }
    inner = f"{actor}.megatron"
    found: Fields = {
        f"{inner}.tensor_model_parallel_size": layout.tp,
        f"{inner}.pipeline_model_parallel_size": layout.pp,
        f"{inner}.context_parallel_size": layout.cp,
        f"{inner}.expert_model_parallel_size": layout.ep,
        f"{inner}.param_offload": parked,
        f"{inner}.optimizer_offload": parked,
    }
    if layout.vpp > 1:
        found[f"{inner}.virtual_pipeline_model_parallel_size"] = layout.vpp
    if made.recompute != "none":
        found[f"{inner}.override_transformer_config.recompute_granularity"] = made.recompute
    return found
