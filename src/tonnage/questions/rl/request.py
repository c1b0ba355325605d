"""The question of `tonnage plan rl`: accelerators for rollouts and for training of reinforcement learning."""

from __future__ import annotations

from typing import Annotated, Literal

from tonnage.domain.layout import SERVING_ENGINE
from tonnage.domain.requests.common import Confidence, Filters, ModelName
from tonnage.domain.requests.field import MAY_BE_NOTHING, Field, Group, accelerator_field, engine_field, training_field
from tonnage.domain.requests.train import Budget, Checkpoint, Deadline, Headroom, Optimizer, Spares, Validation
from tonnage.record import SparseRecord


class Rl(SparseRecord, kw_only=True, tag="rl"):
    """So many steps of PPO, GRPO, RLOO or DAPO on a model."""

    model: ModelName
    steps: Annotated[float, Field("steps of rollout and training: 200", high=1e8)]
    response_tokens: Annotated[float, Field("mean length of a response", "tokens", high=1e7)]
    """As generated, cut ones included. [tokens]"""
    max_response_tokens: Annotated[
        float | None, Field("where a response is cut; otherwise four times the mean", "tokens", high=1e7)
    ] = None
    """Where a response is cut. [tokens]"""
    prompt_tokens: Annotated[float, Field("mean length of a prompt", "tokens", high=1e7)] = 512.0
    algorithm: Annotated[Literal["grpo", "rloo", "dapo", "ppo"], training_field("grpo, rloo, dapo or ppo")] = "grpo"
    prompts_per_step: Annotated[int, Field("prompts of one step", high=1e6)] = 64
    responses_per_prompt: Annotated[int, Field("responses of one prompt: a group", high=1e5)] = 16
    train_batch: Annotated[int | None, training_field("responses of an optimizer step; or all", high=1e8)] = None
    """Responses of an optimizer step; absent = all of the step's at once."""
    staleness: Annotated[int, Field("steps a response may be old; 0 = on policy, shared parts", low=-1.0, high=64)] = 0
    """0 = generation and training in turn on the same accelerators; more = beside each other on their own."""
    partial_rollouts: Annotated[bool, Field("responses are carried on over an update of the weights")] = False
    reference: Annotated[bool | None, training_field("a frozen reference is passed too (KL penalty)")] = None
    """Absent = where the algorithm's paper has a KL penalty: all but dapo."""
    kept: Annotated[float | None, Field("share of the responses that is trained on", "fraction", high=1.0)] = None
    """Absent = all, or a third with dynamic sampling (dapo). [-]"""
    turns: Annotated[float, Field("turns of a conversation with an environment", high=1e5)] = 1.0
    environment_s: Annotated[
        float, Field("the environment's answer to one turn", "s", name="environment", low=MAY_BE_NOTHING, high=1e6)
    ] = 0.0
    """The environment's answer to one turn. [s]"""
    observation_tokens: Annotated[
        float, Field("tokens that each of its answers adds", "tokens", low=MAY_BE_NOTHING, high=1e7)
    ] = 0.0
    reward_s: Annotated[
        float, Field("CPU time to score one response", "s", name="reward", low=MAY_BE_NOTHING, high=1e6)
    ] = 0.0
    """CPU time to score or verify one response. [s]"""
    engine: Annotated[str, engine_field("that generates: vllm or sglang", known="engines")] = SERVING_ENGINE
    framework: Annotated[str | None, training_field("that trains: megatron, fsdp, …")] = None
    precision: Annotated[
        str, training_field("what products of training are computed in: bf16, fp8", known="formats")
    ] = "bf16"
    rollout_precision: Annotated[str, engine_field("weights of the rollout engines: bf16, fp8", known="formats")] = (
        "bf16"
    )
    optimizer: Optimizer = "adamw"
    deadline_s: Deadline = None
    budget_usd: Budget = None
    confidence: Confidence = 0.8
    """The plan is the cheapest option that keeps deadline and budget with at least this chance. [-]"""
    filters: Annotated[Filters, Group()] = Filters()
    count: Annotated[int | None, accelerator_field("exactly this many, of both sides", high=1e6)] = None
    rollout_count: Annotated[int | None, accelerator_field("exactly this many that only generate", high=1e6)] = None
    """Only with staleness; absent = the best split is searched."""
    validation: Validation = 0.02
    headroom: Headroom = 0.1
    checkpoint: Checkpoint = "async"
    spares: Spares = None
