"""One training configuration on one accelerator type: step time, throughput, memory, verdict.

The path: case -> nouns (model, accelerator) -> setup with every open degree chosen -> peak memory (does it
fit) -> step time -> result with intervals. What does not fit is answered with the reason and the shortfall.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import NOTHING, Additions
from tonnage.catalog.hub.resolve import resolve
from tonnage.core import train_estimate as estimate
from tonnage.core.board_power import watts_of
from tonnage.core.calibration_use import training_use
from tonnage.domain.answer import Evidence, Quantity
from tonnage.domain.calibration import TRAINING
from tonnage.domain.case import TrainCase, TrainResult
from tonnage.domain.model import Model
from tonnage.domain.precision import number_format
from tonnage.domain.training import TrainSetup
from tonnage.errors import BadRequest
from tonnage.physics.diffusion import latent_tokens, text_tokens
from tonnage.questions.predict.assumed import training_settings, with_assumed
from tonnage.questions.train.machine import training_load
from tonnage.questions.train.setup import Chosen, resolve_setup
from tonnage.units import show


def predict_train(case: TrainCase, *, additions: Additions = NOTHING, why: bool = False) -> TrainResult:
    """
    Step time, throughput and peak memory of a training case; `fits` is False, with the reason, when memory is short.

    Time fields are given even then: they say what the step would take if it fitted. With `why` the step is opened down
    to operators.

    Raises
    ------
    TonnageError
        The model, accelerator, optimizer or a format is unknown, or the degrees contradict the count.
    """
    result, setup = _predicted(case, additions)
    others = training_settings(case, setup)
    result = with_assumed(result, others, again=lambda other: _predicted(other, additions)[0])
    return replace(result, opened=step_numbers(setup)) if why else result


def _predicted(case: TrainCase, additions: Additions) -> tuple[TrainResult, TrainSetup]:
    """The result of a case, and the setup that it stands for."""
    _check(case)
    model = resolve(case.model, additions=additions)
    accelerator = catalog.predictable_accelerator(case.accelerator, additions)
    case = _with_tokens_of_images(case, model)
    if case.seq_len is None and model.groups:
        raise BadRequest("seq_len: a model with layers needs a sequence length; give the tokens of one sequence")
    chosen = resolve_setup(case, model=model, accelerator=accelerator)
    share = case.accelerator_fraction
    setup = chosen.setup if share == 1 else replace(chosen.setup, accelerator=accelerator.of_share(share))
    step, use = estimate.step(setup), training_use(setup)
    said = filter(None, (catalog.ambiguity(case.accelerator, additions), catalog.status_note(accelerator)))
    ranks = setup.layout.ranks
    limit_bytes = accelerator.driver_memory_bytes * share
    result = TrainResult(
        fits=chosen.fits,
        basis=step.basis,
        step_s=step,
        tokens_per_s_per_accelerator=estimate.rate(setup.global_batch * setup.seq_len / ranks, step, unit="tokens/s")
        if setup.seq_len > 1
        else None,
        samples_per_s_per_accelerator=estimate.rate(setup.global_batch / ranks, step, unit="samples/s"),
        mfu=estimate.mfu(setup, step_s=step.value),
        board_w=watts_of(training_load(setup, step), accelerator, share=share),
        memory_peak_bytes=estimate.memory(setup, case.memory_kind),
        layout=_layout(setup),
        level=estimate.errors(setup).level,
        why="" if chosen.fits else _shortfall(chosen, limit_bytes),
        notes=(*model.assumed, *said, *chosen.notes, *_batch_note(case, setup)),
        calibrations=() if use is None else (use,),
        id=case.id,
    )
    return result, setup


def _with_tokens_of_images(case: TrainCase, model: Model) -> TrainCase:
    """A diffusion transformer's sequence is its image's latent tokens and the text beside them."""
    if case.seq_len is not None or case.image_px is None or model.kind != "diffusion" or not model.layers:
        return case
    return replace(case, seq_len=round(latent_tokens(resolution=float(case.image_px)) + text_tokens(model)))


def step_numbers(setup: TrainSetup) -> tuple[Quantity, ...]:
    """
    A step, and the tokens (of networks without sequences, samples) per second and accelerator, opened down to
    operators.
    """
    from tonnage.simulation.training_tree import step_tree

    step, pace = step_tree(setup), estimate.pace(setup)
    if pace != 1.0:
        own = setup.accelerator.calibrations[setup.software.name + TRAINING]
        evidence = Evidence(tier="fitted", grid=f"{own.points} of your own runs", source=own.source, date=own.date)
        beyond = Quantity(name="your measurements", value=step.value * (pace - 1.0), unit="s", evidence=evidence)
        step = Quantity.total("step", (replace(step, name="predicted without them"), beyond), how=step.how)
    tokens = setup.seq_len > 1
    work = setup.global_batch * (setup.seq_len if tokens else 1) / setup.layout.ranks
    unit = "tokens/s" if tokens else "samples/s"
    what = f"{setup.global_batch} sequences of {setup.seq_len:,} tokens" if tokens else f"{setup.global_batch} samples"
    told = f"{what} on {setup.layout.ranks} accelerators over a step"
    name = f"{unit.removesuffix('/s')} per second and accelerator"
    return step, Quantity.rate(name, (step,), times=work, unit=unit, how=told)


def _check(case: TrainCase) -> None:
    """Refuses shares and lengths that are out of range; that numbers are positive, the reader of fields has looked."""
    number_format(case.precision)
    if case.recompute_share is not None and not 0 < case.recompute_share <= 1:
        raise BadRequest(
            f"recompute_share: {case.recompute_share} must be above 0 and at most 1 (0.5: every second layer)"
        )
    longest = case.seq_len or 1
    for name in ("mean_seq_len", "document_len"):
        value = getattr(case, name)
        if value is not None and not 1 <= value <= longest:
            raise BadRequest(f"{name}: {value:g} must be at least 1 and at most seq_len, {longest:,}")
    if not 0 < case.predicted_share <= 1:
        raise BadRequest(
            f"predicted_share: {case.predicted_share:g} must be above 0 and at most 1 (0.15: masked language models)"
        )
    if not 1 <= case.expert_load <= 1000:
        raise BadRequest(f"expert_load: {case.expert_load} must be at least 1, the fullest rank's tokens over the mean")
    if not 0 < case.accelerator_fraction <= 1:
        raise BadRequest(f"accelerator_fraction: {case.accelerator_fraction} must be above 0 and at most 1")


def _layout(setup: TrainSetup) -> dict[str, Any]:
    """Degrees and batches as results show them."""
    layout = setup.layout
    degrees: dict[str, Any] = {name: getattr(layout, name) for name in ("tp", "pp", "vpp", "cp", "ep", "dp")}
    if layout.etp:
        degrees["etp"] = layout.etp
    return degrees | {
        "sharding": layout.sharding,
        "sequence_parallel": setup.sequence_parallel,
        "micro_batch": setup.micro_batch,
        "num_micro_batches": setup.num_micro_batches,
        "global_batch": setup.global_batch,
        "recompute": setup.recompute,
        "software": setup.software.name,
    }


def _shortfall(chosen: Chosen, limit_bytes: float) -> str:
    """What the memory of one accelerator lacks, and its largest part."""
    need, accelerator = chosen.memory, chosen.setup.accelerator
    short = show(need.value - limit_bytes, "bytes")
    largest = max(need.parts, key=lambda part: part.value)
    return (
        f"needs {show(need.value, 'bytes')} of {show(limit_bytes, 'bytes')} on each {accelerator.name}, "
        f"{short} too much; largest part: {largest.name} {show(largest.value, 'bytes')}"
    )


def _batch_note(case: TrainCase, setup: TrainSetup) -> tuple[str, ...]:
    """A note where the global batch is not stated, or was timed as another that ranks can share."""
    if case.global_batch and setup.global_batch != case.global_batch:
        return (
            f"global batch {case.global_batch} is not a multiple of micro-batch x data-parallel ranks "
            f"({setup.micro_batch} x {setup.layout.dp}); timed as {setup.global_batch}",
        )
    if not case.global_batch:
        return (f"global batch not stated: {setup.global_batch}, one micro-step",)
    return ()
