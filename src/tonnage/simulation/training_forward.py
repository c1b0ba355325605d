"""How long does one forward pass over the batch of an optimizer step take, without gradients?

What the passes of an old policy, a reference and a critic cost: the work of the step's own forward pass, with the
exchange and the launches that belong to it, through the same pipeline, whose bubble is that of one direction. Weights
that are gathered under full sharding are gathered once, where the whole step gathers twice and scatters gradients.
"""

from __future__ import annotations

from math import log2
from typing import Final

from msgspec.structs import replace

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.model import Model
from tonnage.domain.training import TrainCoefficients, TrainSetup
from tonnage.errors import BadRequest
from tonnage.physics.training_work import head_work, layer_work
from tonnage.simulation.training import (
    mean_turn_of,
    slowest_stage,
    stage_turn,
    times_of,
    turn_of,
)
from tonnage.simulation.training_exchanges import data_exchanges
from tonnage.simulation.training_times import Turn

__all__ = ["forward_time"]

_EXCHANGES_OF_STEP: Final = 2.0
"""Passes of a step without recomputation that exchange inside layers: forward and backward."""
_LAUNCHES_OF_STEP: Final = 3.0
"""Passes of kernels in the same: one forward, two backward."""
_SHARDED_EXCHANGES: Final = 3.0
"""Of full sharding in a step: weights gathered for either direction, gradients scattered."""


def forward_time(
    model: Model, *, accelerator: Accelerator, setup: TrainSetup, coefficients: TrainCoefficients
) -> Quantity:
    """
    One pass of all sequences of an optimizer step through the model as trained, without backward pass. [s]

    Raises
    ------
    BadRequest
        The model has no layers.
    """
    if not (model.layers or model.encoder):
        raise BadRequest(f"model: {model.id} has no layers to pass tokens through; give a language model")
    plain = replace(setup, recompute="none", reference="cached")
    times, layout = times_of(accelerator, plain, coefficients=coefficients), setup.layout
    groups = (*model.encoder, *model.layers)
    turns = [(g.count, turn_of(layer_work(g, model.hidden_size, setup=plain), times)) for g in groups]
    count, layer = sum(n for n, _ in turns), mean_turn_of(turns)
    head = turn_of(head_work(model, setup=plain), times)
    stage = stage_turn(layer, head, stage=slowest_stage(layer, head, count=count, layout=layout))
    mean = (count * _ahead(layer) + _ahead(head)) / layout.pp
    passes = setup.num_micro_batches
    gathered = 0.0
    if layout.sharding in {"zero3", "fsdp", "hsdp"}:
        each = sum(exchange.exposed_s for exchange in data_exchanges(model, times, stage=stage))
        gathered = passes * each / _SHARDED_EXCHANGES
    parts = (
        Quantity(name="passes", value=passes * _ahead(stage), basis=Basis.CALIBRATED),
        Quantity(name="bubble", value=(layout.pp - 1) / layout.vpp * mean, basis=Basis.CALIBRATED),
        Quantity(name="gathered weights", value=gathered, basis=Basis.CALIBRATED),
        Quantity(name="host", value=coefficients.step_s[setup.software.fitted], basis=Basis.CALIBRATED),
    )
    nodes = layout.ranks / max(1, times.links.domain)
    straggle = coefficients.straggler * log2(nodes) if nodes > 1 else 0.0
    waited = Quantity(name="stragglers", value=straggle * sum(part.value for part in parts), basis=Basis.CALIBRATED)
    return Quantity.of_parts("s", (*parts, waited))


def _ahead(turn: Turn) -> float:
    """The forward part of a stage's turn that recomputes nothing. [s]"""
    device = turn.compute + turn.elementwise - turn.backward
    return device + turn.exchange / _EXCHANGES_OF_STEP + turn.host / _LAUNCHES_OF_STEP
