"""
What do the prefill workers of a unit find again of its sessions' prompts, and what does the unit then take?

Prefill workers keep the cache of prompts, one after the other as replicas do; answers are made elsewhere, and the next
turn computes them anew. The router sends a session to the worker that has its context. Every prompt's whole cache is
moved to its decode worker, found again or not, because that one keeps nothing between turns.

Left out: decode workers that give caches back, and stores that they write answers to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tonnage.core.deployment import Deployment
from tonnage.core.replica import Replica, replica_of
from tonnage.core.session_reuse import with_reuse
from tonnage.core.steady_state import state_of
from tonnage.domain.requests.common import Lengths
from tonnage.domain.requests.serve import Serve
from tonnage.simulation.capacity import Point, Steady

if TYPE_CHECKING:
    from tonnage.simulation.pool_capacity import Unit


def unit_within(request: Serve, deployment: Deployment, *, unit: Unit) -> tuple[Replica, Steady | None]:
    """A worker with what it finds again, and the unit of as many of them; None = they do not hold the model."""

    def build(lengths: Lengths) -> Replica:
        return replica_of(deployment, lengths)

    def of(worker: Replica) -> Steady | None:
        return state_of(request, worker, unit=unit) if worker.times else None

    def best_of(worker: Replica) -> Point | None:
        made = of(worker)
        best = made.largest()[0] if made else None
        return best and replace(best, rate_per_s=best.rate_per_s / unit.prefill)

    worker = with_reuse(request, build=build, best_of=best_of, answers=False)
    return worker, of(worker)
