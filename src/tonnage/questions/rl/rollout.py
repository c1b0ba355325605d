"""The rollout side of a step: replicas of a deployment that generate its responses, as `predict` would time them.

The deployment is the one way from a configuration to an engine's steps and its cache (`planning.deployment`); on it
`simulation.rollout` drains the batch. Work of several steps that may run at once (staleness) is drained together and
divided: what the tail of one step leaves free, the next one uses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tonnage.catalog.failures import run_fact
from tonnage.catalog.traffic import profile
from tonnage.core.calibration_use import Run, TrainRun
from tonnage.core.deployment import Deployment, deploy
from tonnage.core.error_model import ErrorModel
from tonnage.core.serving_traffic import grid_of, load_of
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Basis
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.model import Model
from tonnage.domain.rl import RlCase
from tonnage.questions.rl.answer import RlOption
from tonnage.record import Record
from tonnage.simulation.rollout import MAX_REQUESTS, Rollout, RolloutLoad, fullest_share, response_lengths, rollout
from tonnage.simulation.steps import step_table


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
    What `predict` would be asked about the rollout: all of a step's requests in flight.

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
    """The rollout of a case; without a time where the model does not fit beside its cache."""
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
