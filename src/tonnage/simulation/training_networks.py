"""How long does one step of a network without layers take? By its FLOP and the traffic of its activation values.

CNNs, detectors and U-Nets are known by totals of one sample. Training computes three times the forward FLOP and passes
over every kept value many times; what style of convolution it has decides how often.
"""

from __future__ import annotations

from typing import Final

from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.model import Model
from tonnage.domain.precision import number_format
from tonnage.physics.network import network_totals
from tonnage.physics.optimizers import optimizer, step_bytes
from tonnage.physics.training_memory import held_parameters, recipe
from tonnage.physics.training_time import (
    by_architecture,
    eager_bytes_per_s,
    half_rate_share,
    sustained_bytes_per_s,
    training_peak,
    transfer_s,
)
from tonnage.simulation.training_times import Times, exposed_s

__all__ = ["network_step_parts"]

_FROZEN_FLOP_PER_VALUE: Final = 4200.0
"""Forward FLOP per activation value of a latent model's encoder: 1.1 TFLOP over 0.26 G values (counted, 512 px)."""

_WINOGRAD: Final = 1.5
"""Multiplications that fp32 convolutions save by Winograd's transform: 2.25 in 3 x 3 ones (arXiv 1509.09308)."""


def network_step_parts(model: Model, times: Times) -> tuple[Quantity, ...]:
    """Parts of one step: FLOP three times, passes over activation values, exchange, optimizer, input."""
    setup, c, card = times.setup, times.coefficients, times.accelerator
    flop, values = network_totals(model, image_px=setup.image_px)
    share = by_architecture(c.gemm, card.architecture) * c.convolution
    dtype = number_format(setup.precision).compute
    # The transform is of two dimensions, and volumes have three.
    saved = 1.0 if setup.network_style == "volume" else _WINOGRAD
    share *= {"tf32": c.wide, "fp32": c.single * saved}.get(dtype, 1.0)
    share = half_rate_share(card, dtype, share=share)
    samples = setup.micro_batch * setup.num_micro_batches
    size = 4.0 if dtype in {"fp32", "tf32"} else 2.0
    compute = (3.0 * flop + setup.frozen_flop) * samples / (training_peak(card, dtype) * share)
    rate, streamed = sustained_bytes_per_s(card, c), eager_bytes_per_s(card, setup, coefficients=c)
    separable = setup.network_style == "separable"
    unturned = c.channels_last if setup.channels_last and size < 4 else 1.0
    passes = c.network_passes * (c.separable if separable else c.network_wide if size == 4 else unturned)
    values += setup.frozen_flop / _FROZEN_FLOP_PER_VALUE / 3.0
    moved = passes * values * size * samples / streamed
    weights = held_parameters(model, setup=setup).total
    reduce = transfer_s("all_reduce", weights * size, ranks=setup.layout.dp, stride=1, links=times.links)
    kept = recipe(setup)
    chosen = optimizer(setup.optimizer)
    stepped = step_bytes(
        weight_bytes=kept.weights,
        grad_bytes=kept.gradients * chosen.passes,
        master_bytes=kept.master,
        state_bytes=kept.state,
    )
    return (
        Quantity(name="compute", value=compute, basis=Basis.CALIBRATED),
        Quantity(name="element-wise", value=moved, basis=Basis.CALIBRATED),
        Quantity(name="DP communication", value=exposed_s(reduce, (compute + moved) / 2, overlap=c.data_overlap)),
        Quantity(name="optimizer", value=weights * stepped / rate),
        Quantity(name="input", value=c.image_s * samples, basis=Basis.CALIBRATED),
        Quantity(name="host", value=c.step_s[setup.software.fitted], basis=Basis.CALIBRATED),
    )
