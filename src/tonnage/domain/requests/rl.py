"""The question of `tonnage plan rl`: accelerators for rollouts and for training of reinforcement learning."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tonnage.domain.layout import SERVING_ENGINE
from tonnage.domain.requests.common import CONFIDENCE, MODEL, Filters
from tonnage.domain.requests.field import Field, Group
from tonnage.domain.requests.train import Budget, Checkpoint, Deadline, Headroom, Optimizer, Spares, Validation

__all__ = ["Rl"]


class Rl(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="rl"):
    """So many steps of PPO, GRPO, RLOO or DAPO on a model."""

    model: Annotated[str, MODEL]
    steps: Annotated[float, Field(reads="count", high=1e8, help="steps of rollout and training: 200")]
    response_tokens: Annotated[float, Field(reads="tokens", high=1e7, help="mean length of a response")]
    """As generated, cut ones included. [tokens]"""
    max_response_tokens: Annotated[
        float | None, Field(reads="tokens", high=1e7, help="where a response is cut; otherwise four times the mean")
    ] = None
    """Where a response is cut. [tokens]"""
    prompt_tokens: Annotated[float, Field(reads="tokens", high=1e7, help="mean length of a prompt")] = 512.0
    algorithm: Annotated[
        Literal["grpo", "rloo", "dapo", "ppo"], Field(group="Training", help="grpo, rloo, dapo or ppo")
    ] = "grpo"
    prompts_per_step: Annotated[int, Field(reads="integer", high=1e6, help="prompts of one step")] = 64
    responses_per_prompt: Annotated[int, Field(reads="integer", high=1e5, help="responses of one prompt: a group")] = 16
    train_batch: Annotated[
        int | None, Field(reads="integer", group="Training", high=1e8, help="responses of an optimizer step; or all")
    ] = None
    """Responses of an optimizer step; absent = all of the step's at once."""
    staleness: Annotated[
        int, Field(reads="integer", low=-1.0, high=64, help="steps a response may be old; 0 = on policy, shared parts")
    ] = 0
    """0 = generation and training in turn on the same accelerators; more = beside each other on their own."""
    partial_rollouts: Annotated[
        bool, Field(reads="flag", help="responses are carried on over an update of the weights")
    ] = False
    reference: Annotated[
        bool | None, Field(reads="flag", group="Training", help="a frozen reference is passed too (KL penalty)")
    ] = None
    """Absent = where the algorithm's paper has a KL penalty: all but dapo."""
    kept: Annotated[
        float | None, Field(reads="fraction", high=1.0, help="share of the responses that is trained on")
    ] = None
    """Absent = all, or a third with dynamic sampling (dapo). [-]"""
    turns: Annotated[float, Field(reads="count", high=1e5, help="turns of a conversation with an environment")] = 1.0
    environment_s: Annotated[
        float, Field(name="environment", reads="s", low=-1e-9, high=1e6, help="the environment's answer to one turn")
    ] = 0.0
    """The environment's answer to one turn. [s]"""
    observation_tokens: Annotated[
        float, Field(reads="tokens", low=-1e-9, high=1e7, help="tokens that each of its answers adds")
    ] = 0.0
    reward_s: Annotated[
        float, Field(name="reward", reads="s", low=-1e-9, high=1e6, help="CPU time to score one response")
    ] = 0.0
    """CPU time to score or verify one response. [s]"""
    engine: Annotated[str, Field(group="Model and engine", known="engines", help="that generates: vllm or sglang")] = (
        SERVING_ENGINE
    )
    framework: Annotated[str | None, Field(group="Training", help="that trains: megatron, fsdp, …")] = None
    precision: Annotated[
        str, Field(group="Training", known="formats", help="what products of training are computed in: bf16, fp8")
    ] = "bf16"
    rollout_precision: Annotated[
        str, Field(group="Model and engine", known="formats", help="weights of the rollout engines: bf16, fp8")
    ] = "bf16"
    optimizer: Optimizer = "adamw"
    deadline_s: Deadline = None
    budget_usd: Budget = None
    confidence: Annotated[float, CONFIDENCE] = 0.8
    """The plan is the cheapest option that keeps deadline and budget with at least this chance. [-]"""
    filters: Annotated[Filters, Group()] = Filters()
    count: Annotated[
        int | None,
        Field(reads="integer", group="Accelerators", high=1e6, help="exactly this many, of both sides"),
    ] = None
    rollout_count: Annotated[
        int | None, Field(reads="integer", group="Accelerators", high=1e6, help="exactly this many that only generate")
    ] = None
    """Only with staleness; absent = the best split is searched."""
    validation: Validation = 0.02
    headroom: Headroom = 0.1
    checkpoint: Checkpoint = "async"
    spares: Spares = None
