"""
What is said of a training setup: its step and its memory with their intervals, for plans and predictions alike.

`setup.resolve_setup` makes the setup of a case, `search` those of a plan; whatever is said of either is said here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tonnage.core.error_model import ErrorModel, train_level
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.calibration import TRAINING
from tonnage.domain.precision import number_format
from tonnage.domain.training import TrainSetup
from tonnage.physics.efficiency import peak_flop_per_s
from tonnage.physics.known import Known
from tonnage.physics.training_memory import EXACT, training_memory
from tonnage.simulation.training import model_flop, step_time

if TYPE_CHECKING:
    from tonnage.domain.train_plan import TrainConfiguration


def basis(setup: TrainSetup) -> Basis:
    """Calibrated where the fit has seen the architecture or the one it grew from by name, derived elsewhere."""
    generation = setup.accelerator.architecture.partition(" ")[0]
    return Basis.CALIBRATED if generation in setup.coefficients.gemm else Basis.DERIVED


def _own(setup: TrainSetup) -> dict[str, tuple[float, float]]:
    """By quantity: what the user's own measurements of this model make of it, and how sure it then is. [-]"""
    return own_factors(setup, model=setup.model.id, accelerator=setup.accelerator, software=setup.software.name)


def errors(setup: TrainSetup) -> ErrorModel:
    """The error model of a setup: by what it rests on, method, structure and software; the user's own widths first."""
    software = setup.software.name
    level = train_level(setup.model, basis=basis(setup).value, method=setup.method, software=software)
    sure = {name: sure for name, (_, sure) in _own(setup).items()}
    if "memory_peak_bytes" in sure:
        # Far from what was measured it is as sure as without, never less.
        usual = ErrorModel(kind="train", level=level).spread("memory_peak_bytes")
        sure["memory_peak_bytes"] = min(sure["memory_peak_bytes"], math.exp(usual.width))
    own = setup.accelerator.calibrations.get(software + TRAINING) if sure else None
    return ErrorModel(kind="train", level=level, calibration=None if own is None else replace(own, factors=sure))


def step(setup: TrainSetup) -> Quantity:
    """One optimizer step, all its parts longer or shorter by what the user measured near the setup. [s]"""
    found, by = replace(step_time(setup), basis=basis(setup)), pace(setup)
    if by != 1.0:
        parts = tuple(replace(part, value=part.value * by) for part in found.parts)
        found = replace(found, value=found.value * by, parts=parts)
    return found.spread(errors(setup).spread("step_s"))


def rate(amount: float, step: Quantity, *, unit: str) -> Quantity:
    """So much a step as an amount per second, with the step's interval turned round."""
    assert step.low is not None and step.high is not None
    return Quantity(
        value=amount / step.value, unit=unit, low=amount / step.high, high=amount / step.low, basis=step.basis
    )


def peak(setup: TrainSetup, kind: str = "need", *, known: Known | None = None) -> Quantity:
    """
    Peak of the fullest accelerator, without an interval, by what is counted: allocated, reserved, device, need. [bytes]

    What the user measured moves its other parts alone, not weights and states, which follow from counts and formats.
    """
    found = training_memory(setup, memory_kind=kind, known=known)
    by, _ = _own(setup).get("memory_peak_bytes", (1.0, 1.0))
    if by == 1.0:
        return found
    parts = (part if part.name in EXACT else replace(part, value=part.value * by) for part in found.parts)
    return Quantity.of_parts("bytes", tuple(parts))


def memory(setup: TrainSetup, kind: str = "need") -> Quantity:
    """`peak` with its interval. [bytes]"""
    return with_interval(peak(setup, kind), setup)


def with_interval(memory: Quantity, setup: TrainSetup) -> Quantity:
    """A peak with its interval, which never goes below what follows from counts and formats alone."""
    return memory.spread(errors(setup).spread("memory_peak_bytes"), least=exact_bytes(memory))


def exact_bytes(peak: Quantity) -> float:
    """Of a peak, what follows from counts and formats alone. [bytes]"""
    return sum(part.value for part in peak.parts if part.name in EXACT)


def own_factors(
    setup: TrainSetup | TrainConfiguration, *, model: str, accelerator: Accelerator, software: str
) -> dict[str, tuple[float, float]]:
    """What a user's calibration says of a configuration, by quantity (`core.drift.trained`); empty without one."""
    own = accelerator.calibrations.get(software + TRAINING) if accelerator.calibrations else None
    if own is None or not own.learnt:
        return {}
    from tonnage.core.drift import trained

    return trained(own, model=model, place=place_of_setup(setup), setting=setting_of(setup))


def place_of_setup(setup: TrainSetup | TrainConfiguration) -> tuple[float, ...]:
    """A configuration as `Learnt` keeps it."""
    of = setup.layout
    return (*map(float, (of.ranks, of.tp, of.pp, of.cp, setup.micro_batch, setup.global_batch, setup.seq_len)),)


def setting_of(setup: TrainSetup | TrainConfiguration) -> str:
    """What makes it another kind of configuration."""
    return f"{setup.method} {setup.recompute} {setup.precision} {setup.layout.sharding}"


def pace(setup: TrainSetup) -> float:
    """Factor on a step by what the user measured near this setup. [-]"""
    return _own(setup).get("step_s", (1.0, 1.0))[0]


def mfu(setup: TrainSetup, *, step_s: float) -> float:
    """
    Model FLOP of a step over what all accelerators could do in its time at the dense 16-bit peak, or fp32's own. [-]

    Parameters
    ----------
    setup : TrainSetup
        What runs where.
    step_s : float
        One optimizer step. [s]
    """
    wide = number_format(setup.precision).bits >= 16
    peak = peak_flop_per_s(setup.accelerator, number_format(setup.precision if wide else "bf16").compute)
    return model_flop(setup) / (setup.layout.ranks * step_s * peak)
