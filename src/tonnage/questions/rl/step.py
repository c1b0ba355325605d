"""One step of reinforcement learning: generation, scoring, forward passes, training, and the way of the weights back.

On policy the phases follow each other. With staleness the two pools work beside each other and the longer one counts;
on shared accelerators they cannot. What changes hands between the phases is timed by published rates: weights into
running engines (`weight_update`), training states to the host and back where both share accelerators (`staging`).

Left out: what more or staler steps do to the learning itself. The answer is per step.
"""

from __future__ import annotations

import math
from typing import Any, Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import NOTHING, Additions
from tonnage.catalog.failures import run_fact
from tonnage.catalog.fitted import rl_coefficients
from tonnage.catalog.hub.resolve import resolve
from tonnage.core import train_estimate as estimate
from tonnage.core.calibration_use import serving_use, training_use
from tonnage.domain.accelerator import HostNeed
from tonnage.domain.answer import Basis, Quantity, weakest
from tonnage.domain.model import Model
from tonnage.domain.rl import ALGORITHMS, RlCase, RlCoefficients, RlResult
from tonnage.errors import BadRequest, UnknownName
from tonnage.physics.matrices import layer_matrices
from tonnage.physics.memory import weight_bytes
from tonnage.questions.rl.sides import Generation, Training, generation, together, training
from tonnage.units import percent, plural, show

GENERATION: Final = "rollout"
TRAINING: Final = "training"
WEIGHTS: Final = "weights"


def predict_rl(case: RlCase, *, additions: Additions = NOTHING, loop: RlCoefficients | None = None) -> RlResult:
    """
    Time of one step, opened, and the memory of both sides; `fits` is False, with the reason, where either is short.

    `loop` replaces what was fitted on published steps: `NOTHING_FITTED` leaves engines and trainer as they run alone.

    Raises
    ------
    TonnageError
        A name is unknown, or the split and the degrees contradict the count.
    """
    model = resolve(case.model, additions=additions)
    accelerator = catalog.predictable_accelerator(case.accelerator, additions)
    check_case(case)
    loop = loop or rl_coefficients()
    made = generation(case, model, accelerator=accelerator, host_s=loop.decode_step_s)
    trained = training(case, model, accelerator=accelerator, factor=loop.training)
    uses = serving_use(made.deployment.case, model=model, part=accelerator), training_use(trained.setup)
    return replace(step_of(case, made, trained=trained, error=loop.error), calibrations=tuple(filter(None, uses)))


def check_case(case: RlCase) -> None:
    """
    Refuses a split that cannot be, and settings that contradict.

    Raises
    ------
    BadRequest
        One sentence: the field, the value, what was expected.
    """
    if case.algorithm not in ALGORITHMS:
        raise UnknownName("algorithm", case.algorithm, known=ALGORITHMS)
    for name in ("count", "prompts_per_step", "responses_per_prompt"):
        if getattr(case, name) < 1:
            raise BadRequest(f"{name}: {getattr(case, name)} must be at least 1")
    if case.rollout_count is not None and not 0 < case.rollout_count < case.count:
        raise BadRequest(
            f"rollout_count: {case.rollout_count} of {case.count} accelerators leave none to train; give 1 to "
            f"{case.count - 1}, or leave it out to share all"
        )
    if case.rollout_count is None and case.staleness:
        raise BadRequest(
            f"staleness: {case.staleness} needs accelerators that only generate; give rollout_count, or staleness 0"
        )
    if case.partial_rollouts and not case.staleness:
        raise BadRequest("partial_rollouts: on policy every response ends before the update; give staleness 1 or more")
    ranks = case.rollout_layout.ranks
    number = case.rollout_accelerators
    if number % ranks:
        raise BadRequest(f"rollout_layout: replicas of {ranks} do not divide the {number} accelerators that generate")
    if case.kept is not None and not 0 < case.kept <= 1:
        raise BadRequest(f"kept: {case.kept:g} must be above 0 and at most 1, the share of responses trained on")
    if case.algorithm in {"grpo", "rloo", "dapo"} and case.responses_per_prompt < 2:
        raise BadRequest(
            f"responses_per_prompt: {case.responses_per_prompt} gives {case.algorithm} no group to compare in; "
            "give 2 or more, or algorithm ppo"
        )
    if case.train_batch is not None and not 0 < case.train_batch <= case.responses:
        raise BadRequest(f"train_batch: {case.train_batch} must be 1 to the {case.responses} responses of a step")


def step_of(case: RlCase, made: Generation, *, trained: Training, error: float) -> RlResult:
    """
    The step of a rollout and a training; `error` is the least 90 % factor of its interval. Where either side does not
    fit, memory, layout and the reason alone.
    """
    pool, setup = made.deployment.pool, trained.setup
    basis = weakest((estimate.basis(setup), made.basis))
    rollout_memory = pool.memory if pool.verdict.ok else pool.need
    memory = estimate.memory(setup)
    layout = _layout(case, made, trained)
    notes = (*made.deployment.notes, *trained.notes, *_notes(case, made))
    driver_bytes = setup.accelerator.driver_memory_bytes
    why = "" if pool.verdict.ok else f"rollout: {pool.verdict.reason}"
    if not why and memory.value > driver_bytes:
        why = (
            f"training needs {show(memory.value, 'bytes')} of {show(driver_bytes, 'bytes')} on the fullest accelerator"
        )
    short = RlResult(
        fits=False,
        basis=Basis.DERIVED,
        rollout_memory=rollout_memory,
        train_memory=memory,
        layout=layout,
        why=why,
        notes=notes,
        id=case.id,
    )
    if why:
        return short
    tree = _tree(case, made, trained)
    factor = _factor(tree, made, trained, least=error)
    step = Quantity(value=tree.value, unit="s", basis=basis).within(factor)
    tokens = case.responses * (case.given_tokens + case.response_tokens) / case.count
    return replace(
        short,
        fits=True,
        basis=basis,
        step_s=step,
        step=tree,
        tokens_per_s_per_accelerator=estimate.rate(tokens, step, unit="tokens/s"),
        rollout_tokens_per_s_per_accelerator=made.responses
        * case.response_tokens
        / made.total_s
        / case.rollout_accelerators,
        binds=_binds(tree),
        needs=_needs(case, made, trained),
    )


def _tree(case: RlCase, made: Generation, trained: Training) -> Quantity:
    """The step, opened into phases and their parts."""
    rolled, learned, moved = _rollout_node(case, made), _training_node(trained), _weights_node(case, made, trained)
    if case.staleness:
        pools = Quantity.longest(
            "rollout beside training", (rolled, learned), how="the two pools work at once; the longer one counts"
        )
        return Quantity.total("step", (pools, moved), how="then the new weights are handed over")
    return Quantity.total("step", (rolled, learned, moved), how="on policy: one after the other")


def _rollout_node(case: RlCase, made: Generation) -> Quantity:
    """Generation of a step's responses by its parts; the model must fit. [s]"""
    assert made.found is not None
    replicas = f"{made.responses:,.0f} responses on {made.replicas} replicas, {made.found.running:,.0f} at once on each"
    parts = (
        _leaf("prompts", made.prefill_s, "each prompt once, its responses share the cache"),
        _leaf("decoding while at least half of the slots are busy", made.decode_s - made.tail_s),
        _leaf("decoding of stragglers", made.tail_s, f"the longest response has {made.found.longest:,.0f} tokens"),
        _leaf("loop around the engine", made.loop_s, "log-probabilities and hand-over of each token (fitted)"),
        _leaf("environment", made.waiting_s / made.steps, f"{case.turns - 1:g} x {show(case.environment_s, 's')}"),
        _leaf("reward beyond generation", _reward_s(case, made), "scores that are not there when the last token is"),
    )  # fmt: skip
    return Quantity.total(GENERATION, parts, how=replicas)


def _training_node(trained: Training) -> Quantity:
    """Forward passes and optimizer steps of a step, the loop's factor on each. [s]"""
    steps, over = trained.optimizer_steps, trained.factor
    passes = tuple(
        _leaf(f"log-probabilities or values: {name}", over * steps * trained.forward.value, "one forward pass")
        for name in trained.passes
    )
    update = _leaf("policy", over * steps * trained.step.value, plural(steps, "optimizer step"))
    critic = _leaf("critic", over * trained.critics * steps * trained.step.value, "trained like the policy")
    return Quantity.total(TRAINING, (*passes, update, critic))


def _weights_node(case: RlCase, made: Generation, trained: Training) -> Quantity:
    """
    The way of new weights into the engines, of all replicas at once; on shared accelerators also of training states to
    the host and back. [s]
    """
    at = made.deployment
    held = weight_bytes(at.placement.model, at.placement.precision, layout=at.memory_layout).value
    total = held * at.memory_layout.ranks
    moved, each = total / run_fact("weight_update").value, run_fact("weight_tensor").value
    tensors = _tensors(at.placement.model)
    how = f"{show(total, 'bytes')} in {tensors:,.0f} tensors"
    parts = [_leaf("weights into the engines", max(moved, tensors * each) + run_fact("weight_metadata").value, how)]
    if case.rollout_count is None:
        states = _states(trained)
        each = states / run_fact("staging").value
        parts.append(_leaf("training states to the host", each, f"{show(states, 'bytes')} of each accelerator"))
        parts.append(_leaf("training states back", each))
    return Quantity.total(WEIGHTS, tuple(parts))


def _tensors(model: Model) -> float:
    """Matrices of a checkpoint: gates are stored beside what they gate, each expert by itself. [tensors]"""
    found = 2.0
    for group in model.groups:
        matrices = layer_matrices(group, group.hidden_size or model.hidden_size)
        found += group.count * sum(matrix.copies * (2 if "gate_up" in matrix.name else 1) for matrix in matrices)
    return found


def _states(trained: Training) -> float:
    """What an accelerator keeps between optimizer steps, and must not hold while it generates. [bytes]"""
    return estimate.exact_bytes(estimate.peak(trained.setup, "allocated"))


def _reward_s(case: RlCase, made: Generation) -> float:
    """Scoring that generation does not hide: the last response's own, and what the cores are behind. [s]"""
    if not case.reward_s:
        return 0.0
    behind = 0.0
    if case.reward_cores:
        behind = max(0.0, made.responses * case.reward_s / case.reward_cores - made.total_s)
    return behind + (case.reward_s if not case.staleness else 0.0)


def _leaf(name: str, seconds: float, how: str = "") -> Quantity:
    return Quantity(name=name, value=seconds, unit="s", how=how)


def _factor(tree: Quantity, made: Generation, trained: Training, *, least: float) -> float:
    """
    The 90 % factor of a step [-], at least the fit's. Errors of generation and training are independent, so their
    shares add in squares; where both work at once, the larger counts.
    """
    serve = made.errors.spread("output_tokens_per_s").width if made.errors else 0.0
    train = estimate.errors(trained.setup).spread("step_s").width
    spread = (serve * made.total_s, train * trained.total_s)
    if any(part.rule == "max" for part in tree.parts):
        return max(least, math.exp(max(spread) / tree.value))
    return max(least, math.exp(math.hypot(*spread) / tree.value))


def _binds(tree: Quantity) -> str:
    """The phase that the step waits for longest."""
    phases = [phase for part in tree.parts for phase in (part.parts if part.rule == "max" else (part,))]
    return max(phases, key=lambda phase: phase.value).name


def _layout(case: RlCase, made: Generation, trained: Training) -> dict[str, Any]:
    """Accelerators and degrees of both sides, as answers show them."""
    degrees, setup = trained.setup.layout, trained.setup
    rollout = {name: getattr(case.rollout_layout, name) for name in ("tp", "pp", "dp", "ep")}
    train: dict[str, Any] = {name: getattr(degrees, name) for name in ("tp", "pp", "vpp", "cp", "ep", "dp")}
    return {
        "rollout": {
            "accelerators": case.rollout_accelerators,
            "replicas": made.replicas,
            "engine": case.engine,
            **rollout,
        },
        "training": {
            "accelerators": case.train_accelerators,
            **train,
            "sharding": degrees.sharding,
            "recompute": setup.recompute,
            "micro_batches": setup.num_micro_batches,
            "seq_len": setup.seq_len,
            "software": setup.software.name,
            "optimizer_steps": trained.optimizer_steps,
        },
    }


def _needs(case: RlCase, made: Generation, trained: Training) -> tuple[HostNeed, ...]:
    """
    What the hosts must bring for all accelerators together: cores that score, and memory for states where accelerators
    are shared.
    """
    needs = []
    if case.reward_s:
        cores = made.responses * case.reward_s / made.total_s
        needs.append(
            HostNeed(
                name="CPU cores for rewards",
                need=math.ceil(cores),
                unit="cores",
                has=case.reward_cores,
                enough=None if case.reward_cores is None else case.reward_cores >= cores,
                why=f"{made.responses:,.0f} responses of {show(case.reward_s, 's')} within one rollout",
            )
        )
    if case.rollout_count is None:
        states = _states(trained) * case.count
        needs.append(
            HostNeed(name="host memory for training states", need=states, unit="bytes", why="parked while generating")
        )
    return tuple(needs)


def _notes(case: RlCase, made: Generation) -> tuple[str, ...]:
    """What a step takes as given: lengths, dynamic sampling, staleness."""
    said = [f"response lengths follow the profile '{case.lengths}', scaled to a mean of {case.response_tokens:,.0f}"]
    if case.kept is None and case.algorithm == "dapo":
        fact = run_fact("groups_kept")
        said.append(f"dynamic sampling keeps {percent(fact.value)} of the generated responses: {fact.source}")
    if case.staleness:
        steps = "step" if case.staleness == 1 else "steps"
        said.append(
            f"responses are up to {case.staleness} {steps} old; the answer is per step and says nothing of learning"
        )
    if together(case) > 1:
        said.append(f"responses of {together(case)} steps are in flight together, which hides their stragglers")
    return tuple(said)
