"""A replica under the load of a request, as the mean field of the search asks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tonnage.core.length_spread import later_tokens, long_answer
from tonnage.core.replica import Replica, concurrency_limit
from tonnage.domain.requests.serve import Serve
from tonnage.simulation.capacity import ReplicaLoad, Steady

if TYPE_CHECKING:
    from tonnage.simulation.pool_capacity import Unit


def load_of(request: Serve, replica: Replica) -> ReplicaLoad:
    """What the mean field is asked: lengths, burstiness, objectives, the most requests at once."""
    lengths = request.lengths
    return ReplicaLoad(
        output_tokens=lengths.output_tokens,
        output_tail_tokens=lengths.output_p95 or long_answer(lengths),
        answers=later_tokens(lengths),
        dispersion=request.shape.dispersion,
        slo=request.slo,
        max_concurrency=concurrency_limit(replica, request.lengths),
    )


def state_of(request: Serve, replica: Replica, *, unit: Unit | None = None) -> Steady:
    """A replica that fits under the load of a request, or a unit of it as a worker."""
    assert replica.times is not None, "whoever asks has looked whether the model fits"
    return Steady(replica.times, load_of(request, replica), unit)
