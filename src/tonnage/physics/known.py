"""What the setups of one training run, or the plans of one service, share: computed once in a search over many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tonnage.domain.training import TrainSetup

Known = dict[tuple[object, ...], Any]
"""What was computed for a run, whose places, software, layouts, batches and recomputation alone differ; or for a
service, whose rate, budget and confidence alone differ."""
Made = TypeVar("Made")


def remembered(known: Known | None, key: tuple[object, ...], *, made: Callable[[], Made]) -> Made:
    """What is known under a key, else made and kept there; made where nothing is kept."""
    if known is None:
        return made()
    if key not in known:
        known[key] = made()
    found: Made = known[key]
    return found


def within(setup: TrainSetup) -> tuple[object, ...]:
    """What cuts the layers of one rank, of all that a search chooses: equal for equal work of a micro-batch."""
    at = setup.layout
    cut = at.tp, at.cp, at.ep, at.etp, at.sequence_parallel, at.async_tp
    return setup.software.name, setup.accelerator.id, setup.accelerators_per_node, cut
