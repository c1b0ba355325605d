"""A configuration becomes a placement: facts about its accelerator, link and engine joined for the engine floor."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tonnage.catalog.efficiency import ladder
from tonnage.catalog.overheads import engine_times
from tonnage.engine.overheads import Overheads
from tonnage.engine.steps import Placement
from tonnage.nouns.accelerator import Accelerator
from tonnage.nouns.answer import Basis
from tonnage.nouns.efficiency import Rung
from tonnage.nouns.model import Model
from tonnage.nouns.plan import Configuration
from tonnage.planner.calibrated import calibration_of, overheads_under

__all__ = ["BASIS_OF_RUNG", "overheads_of", "overheads_on", "place"]

BASIS_OF_RUNG: Final[dict[Rung, Basis]] = {
    "own": Basis.CALIBRATED,
    "architecture": Basis.DERIVED,
    "generation": Basis.DERIVED,
    "generic": Basis.DERIVED,
}
"""How a number is founded whose kernels stand on that rung."""


def place(model: Model, accelerator: Accelerator, *, configuration: Configuration) -> Placement:
    """The placement of a model in a configuration."""
    engine = configuration.engine.name
    return Placement(
        model=model,
        accelerator=accelerator,
        precision=configuration.precision,
        layout=configuration.layout,
        ladder=ladder(accelerator, family=engine),
        domain=max(accelerator.link.domain, accelerator.max_per_node or 1),
        graphs=configuration.engine.cuda_graphs is not False,
    )


@lru_cache(maxsize=32)
def overheads_of(engine: str) -> Overheads:
    """What the newest release of an engine adds to its kernels."""
    return Overheads(**engine_times(engine).values)


def overheads_on(accelerator: Accelerator, engine: str) -> Overheads:
    """The same on an accelerator whose user may have calibrated it."""
    own = calibration_of(accelerator, engine)
    return overheads_of(engine) if own is None else overheads_under(overheads_of(engine), own.stretch)
