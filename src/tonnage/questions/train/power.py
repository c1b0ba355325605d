"""
What do boards draw in a training step? Its phases, each at its own state, weighted by how long they take.

Products run at the rate that the step's time leaves them, element-wise work and the optimizer at the memory rate that
training sustains; exchanges that nothing hides, bubbles and stragglers keep kernels on the board that poll; what waits
for the host or for input leaves it idle. Power was fitted on serving alone (`pricing.energy`). That training has
the same coefficients is an assumption: its interval holds the published runs (`tests/paper/test_training_power.py`).
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tonnage.core.board_power import SUM, Used, spread, used_by
from tonnage.core.host import LoadShare
from tonnage.domain.answer import Quantity
from tonnage.domain.precision import number_format
from tonnage.domain.training import TrainSetup
from tonnage.physics.training_time import sustained_bytes_per_s, training_peak
from tonnage.physics.training_work import head_work, layer_work
from tonnage.physics.work import Operator
from tonnage.pricing.energy import board_share
from tonnage.simulation.training import model_flop

PRODUCTS: Final = "compute"
STREAMED: Final = frozenset({"element-wise", "optimizer"})
"""Parts of a step that run at the rate of memory."""
WAITING: Final = frozenset({"host", "input"})
"""Parts in which nothing runs on the board."""


def training_load(setup: TrainSetup, step: Quantity) -> LoadShare:
    """
    Mean draw of a board over its limit while steps follow each other.

    Parameters
    ----------
    setup : TrainSetup
        What runs where.
    step : Quantity
        One optimizer step, opened into its parts as `estimate.step` does. [s]
    """
    seconds = {part.name: part.value for part in step.parts}
    computing = seconds.get(PRODUCTS, 0.0)
    streamed = sustained_bytes_per_s(setup) / setup.accelerator.memory_bytes_per_s
    used = _products(setup).times(1.0 / computing) if computing > 0.0 else Used()
    on_host = frozenset({"optimizer"}) if setup.offload != "none" else frozenset()
    drawn = 0.0
    for name, spent in seconds.items():
        if name == PRODUCTS:
            share = board_share(weights=used.weights, others=used.others, products=used.products)
        elif name in STREAMED - on_host:
            share = board_share(weights=0.0, others=streamed, products=0.0)
        else:
            share = board_share(weights=0.0, others=0.0, products=0.0, busy=float(name not in WAITING | on_host))
        drawn += spent * share
    phases = ", ".join(
        f"{name} {spent / step.value:.0%}" for name, spent in sorted(seconds.items(), key=lambda one: -one[1])[:3]
    )
    return spread(drawn / step.value, f"by phases of the step ({phases}), not measured in training: {SUM}")


def _products(setup: TrainSetup) -> Used:
    """What the products of one optimizer step take of the mean board's peaks. [s]"""
    part, ranks = setup.accelerator, setup.layout.ranks
    if not setup.model.groups:
        return Used(products=model_flop(setup) / ranks / training_peak(part, number_format(setup.precision).compute))
    return used_by(_of_passes(setup), part).times(setup.num_micro_batches / setup.layout.pp)


def _of_passes(setup: TrainSetup) -> list[Operator]:
    """Products of one micro-batch through all layers and the head, as often as each pass runs; cut by no pipeline."""
    model = setup.model
    forwards = 1.0 + setup.further_passes + (setup.recompute_share if setup.recompute == "full" else 0.0)
    layers = [(float(g.count), layer_work(g, model.hidden_size, setup=setup)) for g in model.groups]
    found = []
    for count, work in (*layers, (1.0, head_work(setup))):
        for times, ops in ((count * forwards, work.forward), (count, work.backward)):
            found += [replace(op, count=op.count * times) for op in ops if op.kind != "elementwise"]
    return found
