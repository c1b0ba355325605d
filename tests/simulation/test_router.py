"""Several replicas: routed, scaled, and split into pools of prefill and decode."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.simulation.test_serving import table

from tonnage.errors import BadRequest
from tonnage.simulation.router import (
    Scaling,
    fleet_of,
    idle_of_bursts,
    idle_of_poisson,
    replicas_of_day,
    simulate_clients_of_pools,
    simulate_disaggregated,
    simulate_fleet,
)
from tonnage.simulation.serving import select_requests, simulate
from tonnage.simulation.simulated import Limits, ReplicaArrays, Requests, requests_of

SEATS = 16
TIMES = table(SEATS, 1024, decode_s=0.01, token_s=1e-5, step_s=0.012)
LIMITS = Limits(max_num_seqs=SEATS, budget=1024, block_tokens=16, num_blocks=800)
REPLICA = ReplicaArrays(TIMES, LIMITS)


def chat(n: int, rate: float, seed: int = 0) -> Requests:
    pick = np.random.default_rng(seed)
    return requests_of(
        np.cumsum(pick.exponential(1.0 / rate, n)), pick.integers(50, 800, n), output=pick.integers(10, 200, n)
    )


def test_a_fleet_of_one_is_the_simulator() -> None:
    requests = chat(3000, 8.0)
    alone, fleet = (
        simulate(REPLICA, requests=requests),
        simulate_fleet(REPLICA, requests=requests, replicas=1),
    )
    assert fleet.last_s.tolist() == alone.last_s.tolist()
    assert fleet.mean_replicas == pytest.approx(1.0)


def test_taking_turns_is_every_third_request_for_each() -> None:
    requests = chat(3000, 20.0)
    fleet = simulate_fleet(REPLICA, requests=requests, replicas=3, rule="round-robin")
    assert fleet.replica.tolist() == [i % 3 for i in range(3000)]
    mine = np.arange(3000) % 3 == 1
    own = select_requests(requests, mine)
    assert fleet.last_s[mine].tolist() == simulate(REPLICA, requests=own).last_s.tolist()


def test_the_least_loaded_waits_least() -> None:
    requests = chat(20_000, 44.0)
    turns, least = (
        simulate_fleet(REPLICA, requests=requests, replicas=4, rule=rule) for rule in ("round-robin", "least-loaded")
    )
    assert np.percentile(least.ttft_s, 95) < np.percentile(turns.ttft_s, 95)


def test_nothing_is_lost_when_replicas_come_and_go() -> None:
    pick = np.random.default_rng(3)
    bursts = np.sort(np.concatenate([pick.normal(1000 * (1 + i), 60, 3000) for i in range(4)]))
    requests = requests_of(bursts - bursts[0], pick.integers(50, 800, 12_000), output=pick.integers(10, 200, 12_000))
    scaling = Scaling(in_flight=8, fewest=1, cold_start_s=20.0, every_s=5.0, keep_s=60.0)
    run = simulate_fleet(REPLICA, requests=requests, replicas=12, scaling=scaling)
    assert np.isfinite(run.last_s).all() and (run.first_s > run.requests.sent_s).all()
    assert 1.0 < run.mean_replicas < 8.0
    static = simulate_fleet(REPLICA, requests=requests, replicas=12)
    assert static.mean_replicas == pytest.approx(12.0)
    assert np.percentile(static.ttft_s, 99) <= np.percentile(run.ttft_s, 99)


def test_a_longer_cold_start_never_helps() -> None:
    pick = np.random.default_rng(4)
    sent = np.sort(np.concatenate([pick.uniform(600 * i, 600 * i + 60, 1500) for i in range(5)]))
    requests = requests_of(sent, np.full(7500, 300), output=np.full(7500, 60))
    waits = []
    for cold in (1.0, 30.0, 120.0):
        scaling = Scaling(in_flight=8, cold_start_s=cold, every_s=5.0, keep_s=60.0)
        waits.append(float(simulate_fleet(REPLICA, requests=requests, replicas=8, scaling=scaling).ttft_s.mean()))
    assert waits == sorted(waits) and waits[0] < waits[-1]


def test_scale_to_zero_pays_for_little_and_hits_cold() -> None:
    sent = np.repeat(np.arange(20) * 600.0, 5) + np.tile(np.arange(5) * 0.2, 20)
    requests = requests_of(sent, np.full(100, 100), output=np.full(100, 20))
    scaling = Scaling(in_flight=8, fewest=0, cold_start_s=30.0, every_s=5.0, keep_s=60.0)
    run = simulate_fleet(REPLICA, requests=requests, replicas=2, scaling=scaling)
    assert run.cold_hits >= 20
    assert run.mean_replicas < 0.3
    assert run.ttft_s.max() >= 30.0 and np.isfinite(run.last_s).all()
    # Paid: a cold start and the time it is kept, for each of the twenty visits.
    assert run.paid_s.sum() == pytest.approx(20 * (30.0 + 60.0), rel=0.25)


def test_disaggregation_keeps_prompts_out_of_answers() -> None:
    heavy = table(SEATS, 1024, decode_s=0.01, token_s=3e-4, step_s=0.012)
    requests = chat(4000, 4.0)
    transfer = 0.02 + requests.prompt * 1e-6
    each = ReplicaArrays(heavy, LIMITS)
    pair = (each, each)
    apart = simulate_disaggregated(pair, requests=requests, workers=(1, 1), transfer_s=transfer)
    mixed = simulate_fleet(ReplicaArrays(heavy, LIMITS), requests=requests, replicas=2)
    assert np.isfinite(apart.last_s).all() and len(apart.last_s) == 4000
    several = requests.output > 1
    answer = apart.last_s - apart.first_s
    assert (apart.first_s - apart.started_s > transfer)[several].all()
    assert np.percentile(answer[several], 95) < np.percentile((mixed.last_s - mixed.first_s)[several], 95)
    slow = simulate_disaggregated(pair, requests=requests, workers=(1, 1), transfer_s=transfer + 1.0)
    assert slow.ttft_s[several].mean() == pytest.approx(apart.ttft_s[several].mean() + 1.0, rel=0.01)
    assert slow.e2e_s[several].mean() == pytest.approx(apart.e2e_s[several].mean() + 1.0, rel=0.01)


def test_what_cannot_be_scaled() -> None:
    with pytest.raises(BadRequest, match="scaling"):
        simulate_fleet(REPLICA, requests=chat(10, 1.0), replicas=2, scaling=Scaling(in_flight=0.0))
    with pytest.raises(BadRequest, match="replicas"):
        simulate_fleet(REPLICA, requests=chat(10, 1.0), replicas=0)


PAIR = (REPLICA, REPLICA)


@pytest.mark.parametrize(("clients", "workers"), [(1, (1, 1)), (7, (1, 2)), (40, (2, 1)), (60, (3, 2))])
def test_each_answer_lets_one_request_go(clients: int, workers: tuple[int, int]) -> None:
    requests = chat(600, 1.0)._replace(sent_s=np.zeros(600))
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


@given(st.integers(1, 50), st.integers(2, 5))
def test_a_zone_can_be_lost(needed: int, zones: int) -> None:
    total = fleet_of(needed, zones=zones)
    assert total - math.ceil(total / zones) >= needed
    assert total == needed + 1 or total - 1 - math.ceil((total - 1) / zones) < needed


def test_idle_replicas() -> None:
    poisson = idle_of_poisson(rate_per_s=1 / 600, timeout_s=600)
    assert poisson.cold_share == pytest.approx(math.exp(-1))


def test_idle_between_bursts_is_what_drawn_bursts_leave() -> None:
    on_s, off_s, rate, timeout = 300.0, 1500.0, 0.2, 120.0
    rng, at, sent = np.random.default_rng(5), 0.0, []
    for _ in range(4000):
        length = rng.exponential(on_s)
        sent.append(at + np.sort(rng.uniform(0.0, length, rng.poisson(rate * length))))
        at += length + rng.exponential(off_s)
    gaps = np.diff(np.concatenate(sent))
    found = idle_of_bursts(on_s=on_s, off_s=off_s, rate_on_per_s=rate, timeout_s=timeout, start_s=0.0)
    assert found.cold_share == pytest.approx((gaps > timeout).mean(), rel=0.05)
    assert found.on_share == pytest.approx(np.minimum(gaps, timeout).sum() / gaps.sum(), rel=0.05)


def test_a_day() -> None:
    rates = [2.0] * 12 + [10.0] * 12
    found = replicas_of_day(rates, interval_s=3600, capacity_per_s=2.5, lead_s=600)
    # An hour before the rise (and before the day repeats, none) replicas are started.
    assert found == (1,) * 11 + (4,) * 13


@given(st.lists(st.floats(0.0, 50.0), min_size=2, max_size=48), st.floats(0.0, 7200.0))
def test_longer_leads_never_cost_less(rates: list[float], lead: float) -> None:
    def of(lead_s: float) -> int:
        return sum(replicas_of_day(rates, interval_s=3600, capacity_per_s=3.0, lead_s=lead_s))

    assert of(lead) <= of(lead + 3600)
