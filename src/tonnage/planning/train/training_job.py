"""
One training configuration, settled: its step and its memory with their intervals, for plans and predictions alike.

`setup.resolve_setup` makes the setup of a case, `search` those of a plan; whatever is said of either is said here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.calibration import TRAINING
from tonnage.domain.model import Model
from tonnage.domain.precision import number_format
from tonnage.domain.training import TrainCoefficients, TrainSetup
from tonnage.physics.efficiency import peak_flop_per_s
from tonnage.physics.parameters import layer_parameters
from tonnage.physics.training_memory import EXACT, training_memory
from tonnage.planning.error_model import ErrorModel, train_level
from tonnage.simulation.training import model_flop, step_time

if TYPE_CHECKING:
    from tonnage.domain.train_plan import TrainConfiguration

__all__ = [
    "TrainingJob", "exact_bytes", "layer_weights", "measured_training", "mfu", "place_of_setup", "setting_of",
    "step_pace",
]  # fmt: skip


class TrainingJob(msgspec.Struct, frozen=True, kw_only=True):
    """A model in training on accelerators in a setup without open choices."""

    model: Model
    accelerator: Accelerator
    setup: TrainSetup
    coefficients: TrainCoefficients

    @property
    def basis(self) -> Basis:
        """Calibrated where the fit has seen the architecture or the one it grew from by name, derived elsewhere."""
        generation = self.accelerator.architecture.partition(" ")[0]
        return Basis.CALIBRATED if generation in self.coefficients.gemm else Basis.DERIVED

    @property
    def own(self) -> dict[str, tuple[float, float]]:
        """By quantity: what the user's own measurements of this model make of it, and how sure it then is. [-]"""
        name = self.setup.software.name
        return measured_training(self.model.id, accelerator=self.accelerator, software=name, setup=self.setup)

    @property
    def errors(self) -> ErrorModel:
        """How sure its numbers are: by what they rest on, method, structure, software."""
        level = train_level(
            self.model, basis=self.basis.value, method=self.setup.method, software=self.setup.software.name
        )
        sure = {name: sure for name, (_, sure) in self.own.items()}
        if "memory_peak_bytes" in sure:
            # Far from what was measured it is as sure as without, never less.
            usual = ErrorModel(kind="train", level=level)
            for name in ("memory_peak_bytes_upper", "memory_peak_bytes"):
                sure[name] = min(sure["memory_peak_bytes"], usual.factor(name))
        own = self.accelerator.calibrations.get(self.setup.software.name + TRAINING) if sure else None
        return ErrorModel(
            kind="train", level=level, calibration=None if own is None else msgspec.structs.replace(own, factors=sure)
        )

    def step(self, counted: Accelerator | None = None) -> Quantity:
        """One optimizer step; `counted` is the device that is counted where that is a share of the part. [s]"""
        found = step_time(
            self.model, accelerator=counted or self.accelerator, setup=self.setup, coefficients=self.coefficients
        )
        found = self._as_measured(msgspec.structs.replace(found, basis=self.basis), "step_s")
        return found.within(self.errors.factor("step_s"))

    def _as_measured(self, found: Quantity, name: str) -> Quantity:
        """The same, all its parts longer or larger by what the user measured near this configuration."""
        by, _ = self.own.get(name, (1.0, 1.0))
        if by == 1.0:
            return found
        parts = tuple(msgspec.structs.replace(part, value=part.value * by) for part in found.parts)
        return msgspec.structs.replace(found, value=found.value * by, parts=parts)

    def peak(self, kind: str = "device") -> Quantity:
        """
        Peak of the fullest accelerator, by what is counted: allocated, reserved, device. [bytes]

        What the user measured moves its loose part alone: weights and states follow from counts and formats.
        """
        found = training_memory(
            self.model,
            accelerator=self.accelerator,
            setup=self.setup,
            coefficients=self.coefficients,
            memory_kind=kind,
        )
        by, _ = self.own.get("memory_peak_bytes", (1.0, 1.0))
        if by == 1.0:
            return found
        parts = (
            part if part.name in EXACT else msgspec.structs.replace(part, value=part.value * by) for part in found.parts
        )
        return Quantity.of_parts("bytes", tuple(parts))

    def memory(self, kind: str = "device") -> Quantity:
        """The same with its interval."""
        return self.bounded(self.peak(kind))

    def bounded(self, memory: Quantity) -> Quantity:
        """A peak with its interval, which never goes below what follows from counts and formats alone."""
        least = exact_bytes(memory)
        errors = self.errors
        upper = errors.factor("memory_peak_bytes_upper")
        return memory.within(errors.factor("memory_peak_bytes"), least=least, above=upper)


def exact_bytes(peak: Quantity) -> float:
    """Of a peak, what follows from counts and formats alone. [bytes]"""
    return sum(part.value for part in peak.parts if part.name in EXACT)


def measured_training(
    model: str, *, accelerator: Accelerator, software: str, setup: TrainSetup | TrainConfiguration
) -> dict[str, tuple[float, float]]:
    """What a user's calibration says of a configuration, by quantity (`planning.drift.trained`); empty without one."""
    own = accelerator.calibrations.get(software + TRAINING) if accelerator.calibrations else None
    if own is None or not own.learnt:
        return {}
    from tonnage.planning.drift import trained

    return trained(own, model=model, place=place_of_setup(setup), setting=setting_of(setup))


def place_of_setup(setup: TrainSetup | TrainConfiguration) -> tuple[float, ...]:
    """A configuration as `Learnt` keeps it."""
    of = setup.layout
    return (*map(float, (of.ranks, of.tp, of.pp, of.cp, setup.micro_batch, setup.global_batch, setup.seq_len)),)


def setting_of(setup: TrainSetup | TrainConfiguration) -> str:
    """What makes it another kind of configuration."""
    return f"{setup.method} {setup.recompute} {setup.precision} {setup.layout.sharding}"


def step_pace(model: Model, *, accelerator: Accelerator, setup: TrainSetup) -> float:
    """Factor on a step by what the user measured near this configuration. [-]"""
    found = measured_training(model.id, accelerator=accelerator, software=setup.software.name, setup=setup)
    return found.get("step_s", (1.0, 1.0))[0]


def layer_weights(model: Model) -> float:
    """Weights of the layers that one token passes, ends apart. [parameters]"""
    return sum(group.count * layer_parameters(group, model.hidden_size, active=True) for group in model.layers)


def mfu(model: Model, *, accelerator: Accelerator, setup: TrainSetup, step_s: float, share: float = 1.0) -> float:
    """
    Model FLOP of a step over the dense 16-bit peak (fp32's own where that is computed in) in its time.

    Parameters
    ----------
    model, accelerator, setup
        What runs where.
    step_s : float
        One optimizer step. [s]
    share : float, optional
        Share of the catalogue's part that one counted device is. [-]
    """
    wide = number_format(setup.precision).bits >= 16
    peak = peak_flop_per_s(accelerator, number_format(setup.precision if wide else "bf16").compute) * share
    return model_flop(model, setup=setup) / (setup.layout.ranks * step_s * peak)
