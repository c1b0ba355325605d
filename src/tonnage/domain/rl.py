"""Reinforcement learning: one step of rollout and training, and a plan of accelerators for both.

A step generates a batch of responses, scores them, takes the log-probabilities of the old policy and of a reference,
trains on them, and hands the new weights back. `RlCase` fixes everything about it (`tonnage predict`, `tonnage
simulate`); `tonnage plan rl` searches over layouts and splits and returns an `RlPlan`.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from tonnage.domain.accelerator import HostNeed
from tonnage.domain.answer import Quantity
from tonnage.domain.breakdown import Node
from tonnage.domain.case import Links, TrainCaseLayout
from tonnage.domain.layout import SERVING_ENGINE, Layout
from tonnage.domain.precision import Precision

__all__ = ["ALGORITHMS", "NOTHING_FITTED", "Algorithm", "RlCase", "RlCoefficients", "RlResult"]

Algorithm = Literal["grpo", "rloo", "dapo", "ppo"]
ALGORITHMS: tuple[str, ...] = ("grpo", "rloo", "dapo", "ppo")


class RlCoefficients(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the loop around engine and trainer adds, fitted on published steps; its file dates it."""

    decode_step_s: float = 0.0
    """Added to each decode step: log-probabilities of each token, workers that Ray calls. [s]"""
    training: float = 1.0
    """Factor on all passes of the trainer: unequal sequences, experts that nothing balances, no captured graphs. [-]"""
    error: float = 1.0
    """90 % factor of a step: nine in ten published ones lie between value / error and value x error, each predicted by
    a fit without its model. [-]"""
    source: str = ""
    fitted: str = ""
    """Date of the fit, ISO."""


NOTHING_FITTED: Final = RlCoefficients()
"""Engine and trainer as they run alone."""


class RlCase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="rl"):
    """One step of reinforcement learning on `count` accelerators of one type."""

    model: Any
    """Catalogue id, Hugging Face id, path, bare size, or an inline description."""
    accelerator: str
    count: int
    """For rollout and training together."""
    prompts_per_step: int
    responses_per_prompt: int
    prompt_tokens: float
    """Mean of a prompt. [tokens]"""
    response_tokens: float
    """Mean of a response as generated, cut ones included. [tokens]"""
    max_response_tokens: float
    """Where responses are cut. [tokens]"""
    algorithm: Algorithm = "grpo"
    train_batch: int | None = None
    """Responses of an optimizer step; absent = all of the step's at once."""
    rollout_count: int | None = None
    """Accelerators that only generate; absent = the same ones generate and train in turn."""
    staleness: int = 0
    """Steps that a response may be older than the weights it trains; 0 = on policy, generation and training in turn."""
    partial_rollouts: bool = False
    """Responses are carried on over an update of the weights, so that nothing waits for the longest one."""
    rollout_layout: Layout = Layout()
    """Of one replica of the engine."""
    train_layout: TrainCaseLayout = TrainCaseLayout()
    precision: str = "bf16"
    """Of the products of training."""
    rollout_precision: Precision | None = None
    engine: str = SERVING_ENGINE
    engine_options: dict[str, Any] = {}
    framework: str | None = None
    """Of the trainer; absent = what large trainings usually run on."""
    recompute: Literal["none", "selective", "full"] | None = None
    optimizer: str = "adamw"
    old_policy: bool = True
    """Log-probabilities under the policy that trains are computed before it changes."""
    reference: bool = True
    """Log-probabilities under a frozen reference are computed as well (a KL penalty)."""
    kept: float | None = None
    """Share of the generated responses that is trained on; absent = all, or what dynamic sampling keeps. [-]"""
    turns: float = 1.0
    """Of a conversation with an environment."""
    environment_s: float = 0.0
    """The environment's answer to one turn. [s]"""
    observation_tokens: float = 0.0
    """What it adds to the context each time. [tokens]"""
    reward_s: float = 0.0
    """CPU time to score or verify one response. [s]"""
    reward_cores: float | None = None
    """CPU cores that score; absent = enough to keep up with generation, and the answer says how many."""
    lengths: str = "reasoning"
    """Profile of the catalogue whose distribution of answers the responses' lengths follow."""
    links: Links = Links()
    accelerators_per_node: int | None = None
    id: str | None = None


class RlResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="rl"):
    """Prediction for a case of reinforcement learning; the step is absent when it does not fit."""

    fits: bool
    basis: str
    step_s: Quantity | None = None
    step: Node | None = None
    """The same opened: phases that add up or of which the longest counts, then their parts."""
    tokens_per_s_per_accelerator: Quantity | None = None
    """Prompt and response tokens that are trained on, over all accelerators. [tokens/s]"""
    rollout_tokens_per_s_per_accelerator: float | None = None
    """Generated tokens over the accelerators and the time of generation. [tokens/s]"""
    binds: str = ""
    """rollout, training or weights: the phase that the step waits for longest."""
    rollout_memory: Quantity | None = None
    """Of the fullest accelerator while it generates. [bytes]"""
    train_memory: Quantity | None = None
    """The same while it trains. [bytes]"""
    layout: dict[str, Any] | None = None
    """Replicas and degrees of both sides, the chosen ones included."""
    needs: tuple[HostNeed, ...] = ()
    why: str = ""
    notes: tuple[str, ...] = ()
    id: str | None = None

    @property
    def level(self) -> str:
        """Nothing: the width of the interval is that of the fit on published steps."""
        return ""

    @property
    def opened(self) -> tuple[Node, ...]:
        """The step as predictions of other kinds open theirs."""
        return () if self.step is None else (self.step,)
