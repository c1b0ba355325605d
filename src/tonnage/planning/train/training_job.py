"""
One training configuration, settled: its step and its memory with their intervals, for plans and predictions alike.

`setup.resolve_setup` makes the setup of a case, `search` those of a plan; whatever is said of either is said here.
"""

from __future__ import annotations

import msgspec

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.model import Model
from tonnage.domain.precision import number_format
from tonnage.domain.training import TrainCoefficients, TrainSetup
from tonnage.physics.efficiency import peak_flop_per_s
from tonnage.physics.parameters import layer_parameters
from tonnage.physics.training_memory import EXACT, training_memory
from tonnage.planning.error_model import ErrorModel, train_level
from tonnage.simulation.training import model_flop, step_time

__all__ = ["TrainingJob", "layer_weights", "mfu"]


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
    def errors(self) -> ErrorModel:
        """How sure its numbers are: by what they rest on, method, structure, software."""
        level = train_level(
            self.model, basis=self.basis.value, method=self.setup.method, software=self.setup.software.name
        )
        return ErrorModel(kind="train", level=level)

    def step(self, counted: Accelerator | None = None) -> Quantity:
        """One optimizer step; `counted` is the device that is counted where that is a share of the part. [s]"""
        found = step_time(
            self.model, accelerator=counted or self.accelerator, setup=self.setup, coefficients=self.coefficients
        )
        return msgspec.structs.replace(found, basis=self.basis).within(self.errors.factor("step_s"))

    def memory(self, kind: str = "device") -> Quantity:
        """Peak of the fullest accelerator, by what is counted: allocated, reserved, device. [bytes]"""
        found = training_memory(
            self.model,
            accelerator=self.accelerator,
            setup=self.setup,
            coefficients=self.coefficients,
            memory_kind=kind,
        )
        return self.bounded(found)

    def bounded(self, memory: Quantity) -> Quantity:
        """A peak with its interval, which never goes below what follows from counts and formats alone."""
        least = sum(part.value for part in memory.parts if part.name in EXACT)
        errors = self.errors
        upper = errors.factor("memory_peak_bytes_upper")
        return memory.within(errors.factor("memory_peak_bytes"), least=least, above=upper)


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
