"""Separate pools of workers under clients that wait for their answers: the run that agrees with itself.

The simulators of the two pools take requests as they are sent (`router.simulate_disaggregated`), but a client sends
its next request only when the last one has ended. So the run is simulated with guessed times of sending, the times are
replaced by those that its ends imply, and so on until nothing changes. What happens before a time depends on nothing
after it: every turn settles at least the requests that follow the first answers after what is settled, so that the
turns end with the exact run. Each turn looks one round of the clients further and no more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from tonnage.errors import BadRequest
from tonnage.simulation.router import simulate_disaggregated
from tonnage.simulation.serving import Simulated, never_admitted, select_requests
from tonnage.simulation.simulated import Floats, Limits, Requests, StepArrays

__all__ = ["MOST_TURNS", "simulate_clients_of_pools"]

MOST_TURNS: Final = 2_000
"""Turns after which a run that has not settled is an error of ours."""
_SAME_S: Final = 1e-9


def simulate_clients_of_pools(
    tables: tuple[StepArrays, StepArrays],
    limits: tuple[Limits, Limits],
    *,
    requests: Requests,
    clients: int,
    workers: tuple[int, int],
    transfer_s: Floats,
    delivery_s: float = 0.0,
    watch: Callable[[int, int], None] | None = None,
) -> Simulated:
    """
    So many clients on two pools: all start together, whoever has an answer sends the next request of the list.

    Parameters are those of `simulate_disaggregated`; times of sending are filled in.
    """
    import numpy as np

    if clients < 1:
        raise BadRequest(f"clients {clients} must be at least 1")
    bad = never_admitted(requests, limits[1]) | never_admitted(requests, limits[0])
    asked, moved = select_requests(requests, ~bad), np.asarray(transfer_s, float)[~bad]
    n = len(asked.prompt)
    if not n:
        raise BadRequest("no request fits the cache of one worker of each pool; there is nothing to simulate")
    sent, settled, looked = np.zeros(n), 0, min(n, clients)
    for _ in range(MOST_TURNS):
        first = select_requests(asked, np.arange(n) < looked)._replace(sent_s=sent[:looked].copy())
        run = simulate_disaggregated(
            tables,
            limits,
            requests=first,
            workers=workers,
            transfer_s=moved[:looked],
            delivery_s=delivery_s,
            watch=None if watch is None else partial(_watch_progress, watch, settled, n),
        )
        if run.partial:
            return run._replace(num_refused=int(bad.sum()))
        back = np.sort(run.last_s + first.think_s)
        ahead = min(n, looked + clients)
        following = np.concatenate((np.zeros(min(clients, n)), back))[:ahead]
        same = np.abs(following[:looked] - sent[:looked]) <= _SAME_S * np.maximum(1.0, np.abs(sent[:looked]))
        settled = looked if same.all() else int(np.argmin(same))
        if settled == n:
            return run._replace(num_refused=int(bad.sum()))
        sent[:ahead], looked = following, ahead
    raise AssertionError(f"the run did not settle in {MOST_TURNS} turns")


def _watch_progress(watch: Callable[[int, int], None], settled: int, total: int, _answered: int, _all: int) -> None:
    """Says how much of the run is settled; how far a turn of it has come is no news."""
    watch(settled, total)
