"""The training side of a step: the responses packed into sequences, passed forward and trained on.

Packing is first-fit decreasing on the lengths that one data-parallel rank gets, as training loops of reinforcement
learning do it; the bins of the fullest rank are its micro-batches. Attention inside a packed sequence is counted as if
it were one, which overstates it a little.
"""

from __future__ import annotations

import math

import msgspec

from tonnage.core import train_estimate as estimate
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Quantity
from tonnage.domain.case import TrainCase
from tonnage.domain.model import Model
from tonnage.domain.rl import RlCase
from tonnage.domain.training import TrainSetup
from tonnage.engines.training import usual_software
from tonnage.errors import BadRequest
from tonnage.questions.rl.rollout import lengths_of
from tonnage.questions.train.setup import Chosen, resolve_setup
from tonnage.record import Record
from tonnage.simulation.training import forward_time


class Training(Record, kw_only=True):
    """What the trainer does with the responses of one step."""

    setup: TrainSetup
    notes: tuple[str, ...]
    """What was chosen, not stated."""
    optimizer_steps: int
    step: Quantity
    """One optimizer step of the policy. [s]"""
    forward: Quantity
    """One forward pass over the same sequences. [s]"""
    passes: tuple[str, ...]
    """Forward passes of a step, by what they are for."""
    critics: int = 0
    """Models beside the policy that are trained as well."""
    factor: float = 1.0
    """What the loop makes of every pass over unequal sequences. [-]"""

    @property
    def forward_s(self) -> float:
        """All forward passes of a step. [s]"""
        return self.factor * len(self.passes) * self.optimizer_steps * self.forward.value

    @property
    def update_s(self) -> float:
        """All optimizer steps of a step. [s]"""
        return self.factor * (1 + self.critics) * self.optimizer_steps * self.step.value

    @property
    def total_s(self) -> float:
        """From the last response to the new weights. [s]"""
        return self.forward_s + self.update_s


def passes_of(case: RlCase) -> tuple[str, ...]:
    """Forward passes over the responses of a step, by what they are for."""
    wanted = (("old policy", case.old_policy), ("reference", case.reference), ("critic", case.algorithm == "ppo"))
    return tuple(name for name, runs in wanted if runs)


def bins_of(lengths: tuple[float, ...], *, size: float) -> int:
    """Sequences of `size` tokens that lengths pack into, the longest first and each into the first that has room."""
    free: list[float] = []
    for length in sorted(lengths, reverse=True):
        place = next((i for i, left in enumerate(free) if left >= length), None)
        if place is None:
            free.append(size - length)
        else:
            free[place] -= length
    return len(free)


def training(case: RlCase, model: Model, *, accelerator: Accelerator, factor: float = 1.0) -> Training:
    """
    The training of a case, packed, arranged and timed.

    Raises
    ------
    BadRequest
        The degrees do not fill the accelerators that train, or the batch cannot be spread over them.
    """
    count, said = case.train_accelerators, case.train_layout
    fixed = (said.tp or 1) * (said.pp or 1) * (said.cp or 1)
    if count < 1 or count % fixed:
        raise BadRequest(
            f"train_layout: tp x pp x cp = {fixed} does not divide the {count} accelerators that train; "
            "change a degree, count or rollout_count"
        )
    batch = min(case.train_batch or case.responses, case.responses)
    size = int(64 * math.ceil((case.given_tokens + case.max_response_tokens) / 64))
    chosen = _choose_layout(case, model, accelerator, batch=batch, size=size, ranks=count // fixed)
    dp = chosen.setup.layout.dp
    # The fullest rank's bins are what all wait for; degrees chosen for a guessed batch keep their place.
    lengths = lengths_of(case, max(1, math.ceil(batch / dp)))
    turns = bins_of(tuple(case.given_tokens + length for length in lengths), size=size)
    setup = msgspec.structs.replace(chosen.setup, micro_batch=1, num_micro_batches=max(1, turns))
    return Training(
        setup=setup,
        notes=chosen.notes,
        optimizer_steps=math.ceil(case.responses / batch),
        step=estimate.step(setup),
        forward=forward_time(setup).within(estimate.errors(setup).factor("step_s")),
        passes=passes_of(case),
        critics=int(case.algorithm == "ppo"),
        factor=factor,
    )


def _choose_layout(
    case: RlCase, model: Model, accelerator: Accelerator, *, batch: int, size: int, ranks: int
) -> Chosen:
    """The setup of the trainer, its open degrees chosen as `predict` chooses them; at most so many data-parallel."""
    sequences = max(1, round(batch * (case.given_tokens + case.response_tokens) / size))
    asked = TrainCase(
        model=model,
        accelerator=case.accelerator,
        method="full",
        count=case.train_accelerators,
        accelerators_per_node=case.accelerators_per_node,
        links=case.links,
        layout=case.train_layout,
        precision=case.precision,
        micro_batch=1,
        global_batch=max(sequences, ranks),
        seq_len=size,
        recompute=case.recompute,
        optimizer=case.optimizer,
        objective="grpo",
        framework=case.framework or usual_software("pretrain")[0][0].example,
        memory_kind="device",
    )
    return resolve_setup(asked, model=model, accelerator=accelerator)
