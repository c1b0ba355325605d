"""Reinforcement learning: one step of rollout and training, and a plan of accelerators for both.

A step generates a batch of responses, scores them, takes the log-probabilities of the old policy and of a reference,
trains on them, and hands the new weights back. `RlCase` fixes everything about it (`tonnage predict`, `tonnage
simulate`); `tonnage plan rl` searches over layouts and splits and returns an `RlPlan`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from tonnage.domain.accelerator import HostNeed
from tonnage.domain.answer import Quantity
from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.case import Links, TrainCaseLayout
from tonnage.domain.layout import SERVING_ENGINE, Layout
from tonnage.domain.requests.common import (
    LINKS,
    CaseId,
    CaseModel,
    EngineName,
    EngineSettings,
    Formats,
    OptimizerName,
    PerNode,
    Recomputed,
    RunsOn,
)
from tonnage.domain.requests.field import MAY_BE_NOTHING, Field, Group, accelerator_field, training_field
from tonnage.record import Record, SparseRecord

Algorithm = Literal["grpo", "rloo", "dapo", "ppo"]
ALGORITHMS: tuple[str, ...] = ("grpo", "rloo", "dapo", "ppo")


class RlCoefficients(Record, kw_only=True, forbid_unknown_fields=True):
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


class RlCase(SparseRecord, kw_only=True, tag_field="kind", tag="rl"):
    """One step of reinforcement learning on `count` accelerators of one type."""

    model: CaseModel
    accelerator: RunsOn
    count: Annotated[int, accelerator_field("accelerators for rollout and training together")]
    prompts_per_step: Annotated[int, Field("prompts of one step")]
    responses_per_prompt: Annotated[int, Field("responses to each prompt")]
    prompt_tokens: Annotated[float, Field("mean of a prompt", "tokens")]
    response_tokens: Annotated[float, Field("mean of a response as generated, cut ones included", "tokens")]
    max_response_tokens: Annotated[float, Field("where responses are cut", "tokens")]
    algorithm: Annotated[Algorithm, training_field("how the policy is updated")] = "grpo"
    train_batch: Annotated[
        int | None, training_field("responses of an optimizer step; absent = all of the step's at once")
    ] = None
    rollout_count: Annotated[
        int | None,
        accelerator_field("accelerators that only generate; absent = the same ones generate and train in turn"),
    ] = None
    staleness: Annotated[
        int, training_field("steps that a response may be older than the weights it trains; 0 = on policy", low=-1.0)
    ] = 0
    partial_rollouts: Annotated[bool, training_field("responses are carried on over an update of the weights")] = False
    rollout_layout: Annotated[Layout, Group(name="rollout_layout")] = Layout()
    train_layout: Annotated[TrainCaseLayout, Group(name="train_layout")] = TrainCaseLayout()
    precision: Annotated[str, training_field("what the products of training are computed in", known="formats")] = "bf16"
    rollout_precision: Formats = None
    engine: EngineName = SERVING_ENGINE
    engine_options: EngineSettings = {}
    framework: Annotated[str | None, training_field("trainer; absent = what large trainings usually run on")] = None
    recompute: Recomputed = None
    optimizer: OptimizerName = "adamw"
    old_policy: Annotated[
        bool, training_field("log-probabilities under the policy that trains are computed before it changes")
    ] = True
    reference: Annotated[
        bool, training_field("log-probabilities under a frozen reference are computed as well (a KL penalty)")
    ] = True
    kept: Annotated[
        float | None,
        training_field(
            "share of the responses that is trained on; absent = all, or what dynamic sampling keeps", "fraction"
        ),
    ] = None
    turns: Annotated[float, Field("of a conversation with an environment")] = 1.0
    environment_s: Annotated[float, Field("the environment's answer to one turn", "s", low=MAY_BE_NOTHING)] = 0.0
    observation_tokens: Annotated[
        float, Field("what the environment adds to the context each time", "tokens", low=MAY_BE_NOTHING)
    ] = 0.0
    reward_s: Annotated[float, Field("CPU time to score or verify one response", "s", low=MAY_BE_NOTHING)] = 0.0
    reward_cores: Annotated[float | None, Field("CPU cores that score; absent = enough to keep up with generation")] = (
        None
    )
    lengths: Annotated[
        str, Field("profile whose distribution of answers the responses' lengths follow", known="profiles")
    ] = "reasoning"
    links: Annotated[Links, LINKS] = Links()
    accelerators_per_node: PerNode = None
    id: CaseId = None

    @property
    def responses(self) -> int:
        """Of one step, as they are trained on."""
        return self.prompts_per_step * self.responses_per_prompt

    @property
    def given_tokens(self) -> float:
        """What a response is not: the prompt and what the environment adds. [tokens]"""
        return self.prompt_tokens + (self.turns - 1.0) * self.observation_tokens

    @property
    def rollout_accelerators(self) -> int:
        """Accelerators that generate."""
        return self.count if self.rollout_count is None else self.rollout_count

    @property
    def train_accelerators(self) -> int:
        """Accelerators that train: those that generate as well where all are shared."""
        return self.count - (self.rollout_count or 0)


class RlResult(SparseRecord, kw_only=True, tag_field="kind", tag="rl"):
    """Prediction for a case of reinforcement learning; the step is absent when it does not fit."""

    fits: bool
    basis: str
    step_s: Quantity | None = None
    step: Quantity | None = None
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
    calibrations: tuple[CalibrationUse, ...] = ()
    """Measurements that moved these numbers: the user's own, or published ones that were asked for."""
    notes: tuple[str, ...] = ()
    id: str | None = None

    @property
    def level(self) -> str:
        """Nothing: the width of the interval is that of the fit on published steps."""
        return ""

    @property
    def opened(self) -> tuple[Quantity, ...]:
        """The step as predictions of other kinds open theirs."""
        return () if self.step is None else (self.step,)
