"""OpenRLHF: a Ray job of PPO, GRPO, RLOO and DAPO; DeepSpeed trains, vLLM generates, shared or asynchronous."""

from __future__ import annotations

import shlex
from typing import Final

from tonnage.domain.layout import TrainLayout
from tonnage.export.kit import BadRequest, Fields, RlJob, Target, lines

TARGET = Target(
    title="OpenRLHF",
    version="0.11.2",
    files=("openrlhf.sh",),
    start="DATA=... REWARD=reward.py bash openrlhf.sh, on the head of a Ray cluster",
    kinds=("rl",),
)
"""Source: openrlhf/cli/train_ppo_ray.py and openrlhf/trainer of the wheel, 0.11.2, read 2026-11-22."""
ESTIMATORS: Final = {"grpo": "group_norm", "dapo": "group_norm", "rloo": "rloo", "ppo": "gae"}
STAGES: Final = {"zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3}
"""DeepSpeed's ZeRO stage of each way to shard; FSDP shards what stage 3 shards."""
OPTIMIZERS: Final = {"adamw": "adam", "muon": "muon"}
KL_WEIGHT: Final = 0.01
"""The program's own default of `algo.kl.init_coef`; 0 loads no reference."""


def export(made: RlJob) -> str:
    """`openrlhf.sh`."""
    _check(made)
    words = ["python3 -m openrlhf.cli.train_ppo_ray", *_lines(_options(made)), '"$@"']
    elsewhere = [] if made.software == "deepspeed" else [f"Times are those of {made.software}, not of DeepSpeed."]
    notes = [
        *made.lines,
        *elsewhere,
        "Set DATA to your prompts and REWARD to your Python file with reward_func; one pass over DATA is at most",
        "the planned steps: with fewer prompts add --train.num_episodes. Ray runs on every machine before this starts.",
    ]
    return TARGET.script(notes, "\n" + lines(words))


def _check(made: RlJob) -> None:
    """What the program cannot be told is refused, each with the field that says it."""
    case, layout = made.case, made.layout
    formats = case.rollout_precision
    if case.engine != "vllm":
        raise BadRequest(f"engine: OpenRLHF generates with vllm, not {case.engine}; export to verl, or plan with vllm")
    if case.rollout_layout.ranks > case.rollout_layout.tp or case.rollout_layout.ep > 1:
        raise BadRequest("rollout_layout: OpenRLHF's engines split tensors alone; plan tp alone, or export to verl")
    if made.software not in ("deepspeed", "fsdp"):
        raise BadRequest(
            f"framework: OpenRLHF trains with DeepSpeed, and the option was timed for {made.software}; plan with"
            " --framework deepspeed or fsdp, or export to verl, which has megatron"
        )
    if layout.pp > 1 or layout.ep > 1 or _stage(layout) is None:
        raise BadRequest(
            "layout: OpenRLHF's trainer has no pipeline, spreads no experts and shards over all ranks, so not pp"
            f" {layout.pp}, ep {layout.ep} and {layout.sharding}; choose another option, or export to verl"
        )
    if case.precision != "bf16" or (formats is not None and {*formats.by_name().values()} - {"bf16", None}):
        raise BadRequest("precision: OpenRLHF's options name no format of weights or cache but 16 bits; plan with bf16")
    if case.optimizer not in OPTIMIZERS:
        raise BadRequest(f"optimizer: OpenRLHF has {', '.join(OPTIMIZERS)}, not {case.optimizer}; plan with adamw")
    if case.staleness and case.rollout_count is None:
        raise BadRequest("staleness: OpenRLHF's engines that run ahead have accelerators of their own; plan a split")
    if made.splits_nodes:
        raise BadRequest("rollout_count: OpenRLHF's trainer takes whole machines; plan a split of whole machines")


def _stage(layout: TrainLayout) -> int | None:
    """DeepSpeed's ZeRO stage, absent where it has none; 1 on one rank of data, whose states it leaves whole."""
    return 1 if layout.sharding == "none" and layout.dp == 1 else STAGES.get(layout.sharding)


def _trainers(made: RlJob) -> tuple[int, int]:
    """Machines that train, and the accelerators of each that do."""
    case = made.case
    if case.rollout_count is None or made.nodes > 1:
        return made.nodes - int(made.rollout_nodes), made.per_node
    return 1, case.train_accelerators


def _options(made: RlJob) -> Fields:
    """Options by their names; True is a switch."""
    case, layout = made.case, made.layout
    nodes, per_node = _trainers(made)
    separate = case.rollout_count is not None
    ranks = {"actor": True, "ref": case.reference, "critic": case.algorithm == "ppo"}
    found: Fields = {"actor.model_name_or_path": made.model, "train.colocate_all": True}
    for role in (role for role, there in ranks.items() if there):
        found |= {f"{role}.num_nodes": nodes, f"{role}.num_gpus_per_node": per_node}
    found |= {
        "vllm.num_engines": case.rollout_accelerators // case.rollout_layout.tp,
        "vllm.tensor_parallel_size": case.rollout_layout.tp,
        "vllm.gpu_memory_utilization": made.memory_share,
        "vllm.enable_sleep": not separate,
        "ds.enable_sleep": not separate,
        "ds.zero_stage": _stage(layout),
        "ds.tensor_parallel_size": layout.tp,
        "ds.ring_attn_size": layout.cp,
        "ds.param_dtype": case.precision,
        "ds.packing_samples": True,
        "train.dynamic_batch_enable": True,
        "train.max_tokens_per_gpu": made.seq_len,
        "actor.gradient_checkpointing_enable": made.recompute != "none",
        "actor.optim": OPTIMIZERS[case.optimizer],
        "algo.advantage.estimator": ESTIMATORS[case.algorithm],
        "algo.kl.init_coef": KL_WEIGHT if case.reference else 0,
        "rollout.batch_size": case.prompts_per_step,
        "rollout.n_samples_per_prompt": case.responses_per_prompt,
        "rollout.max_new_tokens": int(case.max_response_tokens),
        "data.max_len": made.seq_len,
        "data.max_samples": made.steps * case.prompts_per_step,
        "train.batch_size": made.train_batch,
        "ckpt.save_steps": made.checkpoint_steps,
        "ckpt.output_dir": f"./{made.name}-{case.algorithm}",
    }
    if case.reference and case.algorithm != "ppo":
        found |= {"algo.kl.use_loss": True, "algo.kl.estimator": "k3"}
    if case.algorithm == "dapo":
        found |= {"algo.dynamic_filtering_enable": True, "data.max_samples": made.generated * found["data.max_samples"]}
    if case.staleness:
        found |= {
            "train.async_enable": True,
            "train.async_queue_size": case.staleness,
            "train.partial_rollout_enable": case.partial_rollouts,
            "algo.advantage.is_correction_level": "token",
        }
    return found


def _lines(options: Fields) -> list[str]:
    """One option a line, quoted; switches that are off are left out."""
    given = [
        f"--{name}" if value is True else f"--{name} {shlex.quote(str(value))}"
        for name, value in options.items()
        if value is not False
    ]
    return ['--data.prompt_dataset "${DATA:?}"', '--reward.remote_url "${REWARD:?}"', *given]
