"""
Both sides of a step of reinforcement learning: replicas that generate its responses, and training on them.

Rollout: on a deployment, as `predict` would time it, `simulation.rollout` drains the batch. Work of several steps that
may run at once (staleness) is drained together and divided: what the tail of one step leaves free, the next one uses.

Training: responses are packed first-fit decreasing on the lengths that one data-parallel rank gets, as training loops
do it; the bins of the fullest rank are its micro-batches. Attention inside a packed sequence is counted as if
it were one, which overstates it a little.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from tonnage.catalog.failures import run_fact
from tonnage.catalog.traffic import profile
from tonnage.core import train_estimate as estimate
from tonnage.core.calibration_use import Run, TrainRun
from tonnage.core.deployment import Deployment, deploy
from tonnage.core.error_model import ErrorModel
from tonnage.core.serving_traffic import grid_of, load_of
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.case import ServeCase, Traffic, TrainCase
from tonnage.domain.model import Model
from tonnage.domain.rl import RlCase
from tonnage.domain.training import TrainSetup
from tonnage.engines.registry import usual_software
from tonnage.errors import BadRequest
from tonnage.questions.rl.question import RlOption
from tonnage.questions.train.setup import Chosen, resolve_setup
from tonnage.record import Record
from tonnage.simulation.rollout import MAX_REQUESTS, Rollout, RolloutLoad, fullest_share, response_lengths, rollout
from tonnage.simulation.steps import step_table
from tonnage.simulation.training import forward_time


class Generation(Record, kw_only=True):
    """The responses of one step, generated on the replicas of one layout."""

    deployment: Deployment
    replicas: int
    responses: float
    """Generated for a step over all replicas, those thrown away included."""
    found: Rollout | None = None
    """Of one replica, over the steps that run together; absent = the model does not fit."""
    steps: int = 1
    """Steps whose responses are drained together."""
    waiting_s: float = 0.0
    """A response waits for its environment. [s]"""
    host_s: float = 0.0
    """Added to each decode step by the loop around the engine. [s]"""
    basis: Basis = Basis.DERIVED
    errors: ErrorModel | None = None

    @property
    def decode_s(self) -> float:
        """Of one step. [s]"""
        return self.found.decode_s / self.steps if self.found else 0.0

    @property
    def loop_s(self) -> float:
        """What the loop around the engine adds to the decoding of one step. [s]"""
        return self.found.steps * self.host_s / self.steps if self.found else 0.0

    @property
    def prefill_s(self) -> float:
        """Of one step. [s]"""
        return self.found.prefill_s / self.steps if self.found else 0.0

    @property
    def tail_s(self) -> float:
        """Of the decoding, what waits for stragglers. [s]"""
        return self.found.tail_s / self.steps if self.found else 0.0

    @property
    def total_s(self) -> float:
        """Time between two batches of responses. [s]"""
        return self.decode_s + self.loop_s + self.prefill_s + self.waiting_s / self.steps


def kept_share(case: RlCase) -> float:
    """Share of the generated responses that is trained on. [-]"""
    if case.kept is not None:
        return case.kept
    return run_fact("groups_kept").value if case.algorithm == "dapo" else 1.0


def together(case: RlCase) -> int:
    """
    Steps whose responses may be in flight at once: one where every batch ends before the weights change.

    Partial rollouts over an update keep engines as full as a batch more would.
    """
    return max(1, case.staleness) + int(case.partial_rollouts and case.staleness > 0)


def lengths_of(case: RlCase, count: int) -> tuple[float, ...]:
    """Response lengths of so many requests, after the distribution of the case's profile. [tokens]"""
    shape = profile(case.lengths).output_quantiles
    return response_lengths(shape, mean=case.response_tokens, longest=case.max_response_tokens, count=count)


def rollout_case(case: RlCase, model: Model, *, replicas: int, requests: float) -> ServeCase:
    """
    What `predict` would be asked about the rollout: all of a step's requests in flight, `requests` on each replica.

    Each token comes with its log-probability, and the loops run engines under Ray, which schedules a step only when the
    one before has ended; who runs it otherwise says `async_scheduling`.
    """
    return ServeCase(
        model=model,
        accelerator=case.accelerator,
        traffic=Traffic(concurrency=max(1.0, requests) * replicas),
        isl=max(1.0, case.given_tokens),
        osl=case.response_tokens,
        layout=case.rollout_layout,
        precision=case.rollout_precision,
        engine=case.engine,
        engine_options={"async_scheduling": False, **case.engine_options},
        replicas=replicas,
        links=case.links,
    )


def generation(case: RlCase, model: Model, *, accelerator: Accelerator, host_s: float = 0.0) -> Generation:
    """
    The rollout of a case; without a time (`found` None) where the model does not fit beside its cache. `host_s` is what
    the loop around the engine adds to each decode step. [s]
    """
    replicas = case.rollout_accelerators // case.rollout_layout.ranks
    responses = case.responses / kept_share(case)
    steps = together(case)
    each = max(1.0, responses / replicas)
    at = deploy(
        rollout_case(case, model, replicas=replicas, requests=each * steps), model=model, accelerator=accelerator
    )
    if not at.pool.verdict.ok:
        return Generation(deployment=at, replicas=replicas, responses=responses)
    load, table = load_of(at), step_table(grid_of(at), at.overheads)
    told_apart = max(1, min(MAX_REQUESTS, round(each * steps)))
    found = rollout(
        table,
        RolloutLoad(
            lengths=fullest_share(lengths_of(case, told_apart * replicas), shares=replicas),
            prompt_tokens=load.prompt_tokens,
            # Responses of one prompt share its cache on a replica; few replicas share a prompt.
            prompts=math.ceil(each * steps / case.responses_per_prompt),
            slots=load.slots,
            budget=load.budget,
            weight=each * steps / told_apart,
        ),
    )
    basis = at.basis_on(table.rung)
    return Generation(
        deployment=at,
        replicas=replicas,
        responses=responses,
        found=found,
        steps=steps,
        waiting_s=(case.turns - 1.0) * case.environment_s,
        host_s=host_s,
        basis=basis,
        errors=at.errors(basis, load="steady"),
    )


def both_sides(option: RlOption, model: Model, *, name: str) -> Iterator[Run]:
    """The rollout and the training of a step, each as calibrations know it."""
    responses = option.case.prompts_per_step * option.case.responses_per_prompt / option.replicas
    yield rollout_case(option.case, model, replicas=option.replicas, requests=responses)
    yield TrainRun(name, option.configuration)


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
    """
    Sequences of `size` tokens that lengths pack into, the longest first and each into the first that has room; a length
    beyond `size` has a sequence of its own.
    """
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
    The training of a case, packed, arranged and timed; `factor` is what the loop makes of every pass. [-]

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
        forward=forward_time(setup).spread(estimate.errors(setup).spread("step_s")),
        passes=passes_of(case),
        critics=int(case.algorithm == "ppo"),
        factor=factor,
    )


def _choose_layout(
    case: RlCase, model: Model, accelerator: Accelerator, *, batch: int, size: int, ranks: int
) -> Chosen:
    """
    The setup of the trainer, its open degrees chosen as `predict` chooses them, for a guessed number of packed
    sequences: `size` tokens each, and at least one for each of `ranks`.
    """
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
