"""Clients on separate pools: the run agrees with itself, and with what the compact simulation says."""

from __future__ import annotations

import numpy as np
import pytest
from tests.simulation.test_router import REPLICA, chat

from tonnage.errors import BadRequest
from tonnage.simulation.router import simulate_clients_of_pools, simulate_disaggregated
from tonnage.simulation.simulated import requests_of

PAIR = (REPLICA, REPLICA)


@pytest.mark.parametrize(("clients", "workers"), [(1, (1, 1)), (7, (1, 2)), (40, (2, 1)), (60, (3, 2))])
def test_each_answer_lets_one_request_go(clients: int, workers: tuple[int, int]) -> None:
    requests = chat(600, 1.0)
    moved = np.full(600, 0.03)
    run = simulate_clients_of_pools(PAIR, requests=requests, clients=clients, workers=workers, transfer_s=moved)
    sent, back = run.requests.sent_s, np.sort(run.last_s)
    assert (sent[:clients] == 0.0).all()
    assert sent[clients:] == pytest.approx(back[: 600 - clients], rel=1e-9)
    # The same times of sending, played as they are, give the same ends.
    again = simulate_disaggregated(PAIR, requests=run.requests, workers=workers, transfer_s=moved)
    assert again.last_s == pytest.approx(run.last_s, rel=1e-9)
    in_flight = (run.last_s - sent)[: 600 - clients].sum() / sent[-1]
    assert in_flight == pytest.approx(clients, rel=0.15)


def test_clients_think_before_they_send_again() -> None:
    plain = requests_of(np.zeros(40), np.full(40, 200), output=np.full(40, 20), think_s=np.full(40, 2.0))
    run = simulate_clients_of_pools(PAIR, requests=plain, clients=1, workers=(1, 1), transfer_s=np.zeros(40))
    assert run.requests.sent_s[1:] - run.last_s[:-1] == pytest.approx(2.0)


def test_somebody_must_send() -> None:
    with pytest.raises(BadRequest, match="clients 0"):
        simulate_clients_of_pools(PAIR, requests=chat(5, 1.0), clients=0, workers=(1, 1), transfer_s=np.zeros(5))
