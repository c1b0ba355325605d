"""How sure is a training prediction, and what share of the peak is it? Asked by plans and by single predictions."""

from __future__ import annotations

from tonnage.engine.training import model_flop
from tonnage.nouns.accelerator import Accelerator
from tonnage.nouns.answer import Basis
from tonnage.nouns.model import Model
from tonnage.nouns.precision import number_format
from tonnage.nouns.training import TrainCoefficients, TrainSetup
from tonnage.physics.operators import peak_flop_per_s
from tonnage.physics.parameters import layer_parameters
from tonnage.planner.levels import train_level

__all__ = ["basis_of", "layer_weights", "level_of", "mfu"]


def basis_of(accelerator: Accelerator, coefficients: TrainCoefficients) -> Basis:
    """Calibrated where the fit has seen the architecture, derived elsewhere."""
    return Basis.CALIBRATED if accelerator.architecture in coefficients.gemm else Basis.DERIVED


def level_of(
    model: Model, *, accelerator: Accelerator, setup: TrainSetup, coefficients: TrainCoefficients
) -> str:  # fmt: skip
    """What the width of its intervals is looked up by: what it rests on, method, structure, software."""
    basis = basis_of(accelerator, coefficients)
    return train_level(model, basis=basis.value, method=setup.method, software=setup.software.name)


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
