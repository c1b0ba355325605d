"""
What a target needs to know of a plan of reinforcement learning: read once, checked, counted out over machines.

Learning rate, reward and data are no part of a plan; files name where they go and leave them to the user.
"""

from __future__ import annotations

import math
from typing import Final

from tonnage.domain.layout import TrainLayout
from tonnage.domain.rl import RlCase
from tonnage.errors import BadRequest
from tonnage.export.deployment import checkpoint_of, offer_line
from tonnage.export.text import label, safe_name
from tonnage.questions.rl.answer import RlOption, RlPlan
from tonnage.record import Record

SHARDED: Final = frozenset({"fsdp", "hsdp", "zero3"})
CACHE_SHARE: Final = {True: 0.6, False: 0.85}
"""Of an accelerator's memory that the engine takes: shared with a trainer whose states are parked, and alone. [-]"""


class RlJob(Record, kw_only=True):
    """One option, ready to be written down."""

    model: str
    name: str
    case: RlCase
    layout: TrainLayout
    sharded: bool
    """The trainer shards weights over all ranks, instead of splitting tensors and layers."""
    recompute: str
    per_node: int
    nodes: int
    rollout_nodes: float
    """Of them, those that only generate; 0 where all are shared."""
    seq_len: int
    steps: int
    train_batch: int
    memory_share: float
    checkpoint_steps: int
    lines: tuple[str, ...]

    @property
    def generated(self) -> int:
        """Groups generated for each that DAPO keeps; three where the plan does not say."""
        return 3 if self.case.kept is None else round(1 / self.case.kept)

    @property
    def splits_nodes(self) -> bool:
        """Whether a machine of several is shared between the sides."""
        return self.case.rollout_count is not None and not self.whole_nodes and self.nodes > 1

    @property
    def whole_nodes(self) -> bool:
        """Whether both sides have whole machines."""
        return self.rollout_nodes == int(self.rollout_nodes)


def rl_job(plan: RlPlan, option: RlOption) -> RlJob:
    """
    The option as targets read it.

    Raises
    ------
    BadRequest
        The plan names no checkpoint that can be loaded, or one that no file can hold safely.
    """
    case, configuration, bill = option.case, option.configuration, option.bill
    per_node = max(1, min(case.count, int(bill.accelerators_per_instance)))
    model = safe_name(checkpoint_of(plan), what="model")
    if case.turns > 1:
        raise BadRequest("turns: these files start single-turn rollouts; an environment's own files start its turns")
    return RlJob(
        model=model,
        name=label(model),
        case=case,
        layout=configuration.layout,
        sharded=configuration.layout.sharding in SHARDED,
        recompute=configuration.recompute,
        per_node=per_node,
        nodes=math.ceil(case.count / per_node),
        rollout_nodes=(case.rollout_count or 0) / per_node,
        seq_len=configuration.seq_len,
        steps=math.ceil(option.run.steps),
        train_batch=case.train_batch or case.responses,
        memory_share=CACHE_SHARE[option.shared],
        checkpoint_steps=max(1, round(option.run.checkpoint_interval_s / option.step_s.value)),
        lines=(
            f"Plan of {plan.provenance.made}: {case.algorithm} of {model} on {case.count} x {case.accelerator}.",
            f"{offer_line(bill)}, about {option.run.wall_s.value / 3600:,.1f} h, ${option.cost.value:,.0f} in all.",
            f"Step {option.step_s.value:.3g} s. Reward, data and learning rate are yours, and no part of the plan.",
        ),
    )
