"""A plan of reinforcement learning: accelerators for rollouts and for training, their layouts, time and money.

`tonnage plan rl` returns one; its JSON is of the same schema as other plans, `kind` is "rl".
"""

from __future__ import annotations

from tonnage.domain.answer import Quantity
from tonnage.domain.plan import Configuration, RankedPlan
from tonnage.domain.rl import RlCase
from tonnage.domain.train_plan import RunOption
from tonnage.questions.rl.request import Rl
from tonnage.record import SparseRecord

__all__ = ["Rl"]


class RlSplit(SparseRecord, kw_only=True):
    """One way to divide the first option's accelerators, and what each side takes of a step."""

    rollout: int
    """Accelerators that generate."""
    training: int
    """Accelerators that train."""
    rollout_s: float
    training_s: float
    step_s: float


class RlOption(RunOption, kw_only=True):
    """One accelerator type at one count, split, arranged on both sides; its configuration is the trainer's."""

    case: RlCase
    """What `predict` is asked about it."""
    rollout: Configuration
    """Of one replica that generates."""
    replicas: int
    rollout_accelerators: int
    """The same accelerators as `train_accelerators` where they are shared."""
    train_accelerators: int
    step: Quantity
    """Opened into phases and their parts."""
    rollout_tokens_per_s_per_accelerator: float
    binds: str
    rollout_memory: Quantity

    @property
    def shared(self) -> bool:
        """Whether the same accelerators generate and train in turn."""
        return self.case.rollout_count is None

    @property
    def phases(self) -> tuple[Quantity, ...]:
        """Phases of the step, wherever in its tree they stand."""
        return tuple(phase for part in self.step.parts for phase in (part.parts if part.rule == "max" else (part,)))


class RlPlan(RankedPlan[Rl, RlOption], kw_only=True, tag_field="kind", tag="rl"):
    """The answer to a request for reinforcement learning."""

    splits: tuple[RlSplit, ...] = ()
    """Other splits of the first option's accelerators; empty where they are shared."""
    off_policy: str = ""
    """What responses of one step ago would save, where the request is on policy."""
