"""How long a replica of a simulated fleet takes to start: as given, or the machine, the weights and the warm-up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tonnage.domain.simulate import Simulation
from tonnage.errors import BadRequest
from tonnage.physics.memory import weight_bytes
from tonnage.planning.cold_start import cold_start
from tonnage.planning.deployment import Deployment
from tonnage.units import show

if TYPE_CHECKING:
    from tonnage.simulation.router import Scaling

__all__ = ["scaling_of"]


def scaling_of(asked: Simulation, at: Deployment) -> tuple[Scaling | None, tuple[str, ...]]:
    """The autoscaler as the engine takes it, and what was taken for granted of a start."""
    from tonnage.simulation.router import Scaling

    given = asked.scaling
    if given is None:
        return None, ()
    start_s = given.cold_start_s
    notes: tuple[str, ...] = ()
    if start_s is None:
        held = weight_bytes(at.placement.model, at.placement.precision, layout=at.memory_layout).value
        found = cold_start(
            weight_bytes=held * at.memory_layout.ranks, provider=given.provider or "the provider",
            start_from=given.start_from, graphs=at.placement.graphs,
        )  # fmt: skip
        start_s = found.total_s
        opened = ", ".join(f"{part.name} {show(part.value, 's')}" for part in found.parts)
        notes = (f"a replica starts in {show(start_s, 's')}: {opened} ({found.source})",)
    elif given.provider or given.start_from != "network":
        raise BadRequest("scaling: cold_start is given, so start_from and provider have nothing to say; leave them out")
    scaling = Scaling(
        in_flight=given.in_flight, fewest=given.fewest, cold_start_s=start_s, every_s=given.every_s, keep_s=given.keep_s
    )
    return scaling, notes
