"""A configuration becomes a placement: facts about its accelerator, link and engine joined for the engine floor."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from tonnage.catalog.efficiency import ladder
from tonnage.catalog.overheads import engine_times
from tonnage.engine.overheads import Overheads, ahead
from tonnage.engine.own_kernels import mixed_attention
from tonnage.engine.steps import Placement
from tonnage.engines.registry import engine_spec
from tonnage.engines.settings import release
from tonnage.nouns.accelerator import Accelerator
from tonnage.nouns.answer import Basis
from tonnage.nouns.efficiency import Rung
from tonnage.nouns.layout import Layout
from tonnage.nouns.model import Model
from tonnage.nouns.plan import Configuration
from tonnage.planner.calibrated import calibration_of, overheads_under

__all__ = ["BASIS_OF_RUNG", "overheads_of", "overheads_on", "place", "reachable"]

BASIS_OF_RUNG: Final[dict[Rung, Basis]] = {
    "own": Basis.CALIBRATED,
    "architecture": Basis.DERIVED,
    "generation": Basis.DERIVED,
    "generic": Basis.DERIVED,
}
"""How a number is founded whose kernels stand on that rung."""
HOPPER_BYTES_PER_S: Final = 36.4e9
"""Data-sheet bandwidth per multiprocessor beyond which Hopper parts gain nothing: H200's. [bytes/s]"""


def place(model: Model, accelerator: Accelerator, *, configuration: Configuration) -> Placement:
    """The placement of a model in a configuration."""
    engine = configuration.engine
    spec = engine_spec(engine.name)
    kernels = ladder(accelerator, family=spec.kernel_family)
    reach = overheads_of(engine.name, accelerator.vendor).reach_bytes_per_s
    return Placement(
        model=model,
        accelerator=reachable(accelerator, kernels.multiprocessors, reach=reach),
        precision=configuration.precision,
        # Layers spread over devices that take turns hold the memory of all and run at the speed of one.
        layout=Layout() if spec.layered and configuration.layout.tp == 1 else configuration.layout,
        ladder=kernels,
        domain=max(accelerator.link.domain, accelerator.max_per_node or 1),
        graphs=engine.cuda_graphs is not False,
        mixed_attention=mixed_attention(accelerator, model, one_call=spec.attends_in_one_call(release(engine))),
    )


def reachable(accelerator: Accelerator, multiprocessors: float | None, *, reach: float) -> Accelerator:
    """
    The accelerator with the bandwidth that its multiprocessors can ask for.

    A Hopper multiprocessor keeps about 28 GB/s in flight (H200: 132 of them reach 0.78 of 4.8 TB/s), so a part with
    few of them beside fast memory (H20: 78 at 4.0 TB/s) decodes at half of its data sheet. An engine whose kernels
    keep less in flight (llama.cpp) says how much: 1/b = 1/(data sheet) + 1/(multiprocessors x reach).
    """
    if multiprocessors is None:
        return accelerator
    reached = accelerator.memory_bytes_per_s
    if (accelerator.compute_capability or "").startswith("9."):
        reached = min(reached, multiprocessors * HOPPER_BYTES_PER_S)
    if reach:
        reached = 1.0 / (1.0 / reached + 1.0 / (multiprocessors * reach))
    if reached == accelerator.memory_bytes_per_s:
        return accelerator
    return msgspec.structs.replace(accelerator, memory_bytes_per_s=reached)


@lru_cache(maxsize=32)
def overheads_of(engine: str, vendor: str) -> Overheads:
    """What the newest release of an engine adds to its kernels on a vendor's parts, as `predict` takes it."""
    # Newest releases schedule ahead wherever `overlapped` says what that hides.
    return ahead(Overheads(**engine_times(engine, vendor=vendor).values), True)


def overheads_on(accelerator: Accelerator, engine: str) -> Overheads:
    """The same on an accelerator whose user may have calibrated it."""
    own, known = calibration_of(accelerator, engine), overheads_of(engine, accelerator.vendor)
    return known if own is None else overheads_under(known, own.stretch)
