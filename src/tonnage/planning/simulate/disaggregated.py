"""Prompts on one pool of workers, answers on another: the run, with the cache moved between them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tonnage.domain.simulate import Simulation
from tonnage.errors import BadRequest
from tonnage.planning.deployment import Deployment
from tonnage.planning.replica_arrays import ReplicaArrays
from tonnage.planning.simulate.traffic import Traced
from tonnage.simulation.pool_capacity import one_transfer_s
from tonnage.simulation.step_parts import Placement

if TYPE_CHECKING:
    from tonnage.simulation.serving import Simulated as Run

__all__ = ["cache_transfer_s", "check_disaggregated", "run_disaggregated"]

MAX_PER_CLIENT: Final = 250
"""Requests of a client of separate pools, at most: the run is simulated anew for each round of its clients."""
USUAL_PER_CLIENT: Final = 40


def check_disaggregated(asked: Simulation) -> None:
    """
    What pools apart cannot be combined with.

    Raises
    ------
    BadRequest
        A field that means one kind of replica, or no workers.
    """
    split = asked.disaggregation
    if split is None:
        return
    clients, requests = asked.traffic.concurrency, asked.traffic.num_requests
    if clients and requests and requests > MAX_PER_CLIENT * clients:
        raise BadRequest(
            f"traffic.requests: {requests} are {requests / clients:.0f} for each of {clients} clients; with"
            f" disaggregation a client sends at most {MAX_PER_CLIENT}"
        )
    for name, given in (("scaling", asked.scaling is not None), ("capacity", asked.capacity)):
        if given:
            raise BadRequest(f"{name} is of one pool; leave it out, or leave out disaggregation")
    if asked.replicas != 1:
        raise BadRequest("replicas: with disaggregation write prefill_workers and decode_workers instead")
    if split.prefill_workers < 1 or split.decode_workers < 1:
        raise BadRequest(
            f"disaggregation: {split.prefill_workers} prefill and {split.decode_workers} decode workers; "
            "each pool needs at least 1"
        )


def run_disaggregated(
    asked: Simulation,
    sides: tuple[tuple[Deployment, ReplicaArrays], tuple[Deployment, ReplicaArrays]],
    *,
    traffic: Traced,
    watch: Callable[[int, int], None] | None,
) -> Run:
    """The run of two pools, prefill and decode, each with its own layout and scheduler."""
    import numpy as np

    from tonnage.simulation.router import simulate_clients_of_pools, simulate_disaggregated
    from tonnage.simulation.serving import select_requests

    split, clients, requests = asked.disaggregation, asked.traffic.concurrency, traffic.requests
    assert split is not None
    (at, first), (_, second) = sides
    if clients is not None and asked.traffic.num_requests is None:
        requests = select_requests(requests, np.arange(len(requests.prompt)) < USUAL_PER_CLIENT * clients)
    play = partial(simulate_clients_of_pools, clients=clients) if clients is not None else simulate_disaggregated
    return play(
        (first.table, second.table),
        (first.limits, second.limits),
        requests=requests,
        workers=(split.prefill_workers, split.decode_workers),
        transfer_s=cache_transfer_s(at.placement, requests.prompt),
        delivery_s=first.delivery_s,
        watch=watch,
    )


def cache_transfer_s(placement: Placement, prompt: Any, *, leaves_node: bool = True) -> Any:
    """
    Seconds for each prompt's cache from the ranks that made it to their peers: affine in its length.

    Over the network, unless both pools lie within one node.
    """
    mean = max(1.0, float(prompt.mean()))
    own = one_transfer_s(placement, mean, leaves_node=leaves_node)
    slope = (one_transfer_s(placement, 2.0 * mean, leaves_node=leaves_node) - own) / mean
    return own + slope * (prompt - mean)
