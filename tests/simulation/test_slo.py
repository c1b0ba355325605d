"""Capacity within objectives: the answers theory knows, and the directions that must hold."""

import math

import numpy as np
import pytest
from tests.simulation.test_serving import table

from tonnage.domain.requests.common import Slo
from tonnage.errors import BadRequest
from tonnage.simulation.simulated import Limits, ReplicaArrays, Requests, StepArrays, requests_of
from tonnage.simulation.slo import fluid_bound, slo_capacity

SEATS = 64
LIMITS = Limits(max_num_seqs=SEATS, budget=2048, block_tokens=16, num_blocks=4000)
TIMES = table(SEATS, 2048, decode_s=0.01, token_s=2e-5, step_s=0.01)
REPLICA = ReplicaArrays(TIMES, LIMITS)


def chat(n: int, seed: int = 0) -> Requests:
    pick = np.random.default_rng(seed)
    prompt = np.maximum(1, pick.lognormal(6.0, 0.8, n))
    return requests_of(np.cumsum(pick.exponential(1.0, n)), prompt, output=np.maximum(1, pick.lognormal(4.5, 0.7, n)))


def single() -> tuple[StepArrays, Limits]:
    limits = Limits(max_num_seqs=1, budget=1 << 20, block_tokens=1, num_blocks=1 << 30)
    return table(1, 1 << 20, token_s=1e-5), limits


def test_mm1_has_a_known_capacity() -> None:
    # P(T > t) = exp(-(mu - lambda) t): one in twenty is over t at lambda = mu - ln(20) / t.
    n, mean, most = 100_000, 0.1, 1.0
    pick = np.random.default_rng(2)
    prompts = np.maximum(1, pick.exponential(mean / 1e-5, n))
    requests = requests_of(np.cumsum(pick.exponential(1.0, n)), prompts, output=np.ones(n))
    times, limits = single()
    found = slo_capacity(ReplicaArrays(times, limits), requests=requests, slo=Slo(e2e_s=most))
    expected = 1.0 / mean - math.log(20.0) / most
    assert found.rate_per_s == pytest.approx(expected, rel=0.05)
    assert found.low_per_s <= found.rate_per_s <= found.high_per_s
    assert found.low_per_s <= expected * 1.02 and found.high_per_s >= expected * 0.98


def test_a_wider_objective_never_lowers_capacity() -> None:
    requests = chat(8000)
    rates = [slo_capacity(REPLICA, requests=requests, slo=Slo(tpot_s=tpot)).rate_per_s for tpot in (0.015, 0.02, 0.05)]
    assert rates == sorted(rates) and rates[0] < rates[-1]


def test_no_schedule_beats_the_fluid_bound() -> None:
    requests = chat(8000)
    found = slo_capacity(REPLICA, requests=requests, slo=Slo(e2e_s=1000.0))
    assert found.limit == "backlog"
    assert 0.6 * fluid_bound(REPLICA, requests) < found.rate_per_s


def test_less_cache_lowers_capacity_and_is_named() -> None:
    requests, slo = chat(8000), Slo(ttft_s=1.0, tpot_s=0.1)
    wide = slo_capacity(REPLICA, requests=requests, slo=slo)
    tight = slo_capacity(ReplicaArrays(TIMES, LIMITS._replace(num_blocks=500)), requests=requests, slo=slo)
    assert tight.rate_per_s < wide.rate_per_s
    assert tight.resource == "kv" and "cache" in tight.cause


def test_few_seats_are_named() -> None:
    found = slo_capacity(
        ReplicaArrays(TIMES, LIMITS._replace(max_num_seqs=8)), requests=chat(8000), slo=Slo(ttft_s=1.0)
    )
    assert found.resource == "batch limit"


def test_what_nothing_meets_has_no_capacity() -> None:
    found = slo_capacity(REPLICA, requests=chat(4000), slo=Slo(tpot_s=0.001))
    assert found.rate_per_s == found.low_per_s == 0.0
    assert found.limit == "tpot"


def test_twenty_simulations_at_most() -> None:
    found = slo_capacity(REPLICA, requests=chat(4000), slo=Slo(ttft_s=0.5), start=1e-3)
    assert found.simulations <= 20


@pytest.mark.parametrize(
    ("slo", "n", "says"),
    [
        (Slo(), 1000, "no objective"),
        (Slo(ttft_s=1.0), 100, "too few"),
        (Slo(ttft_s=1.0, percentile=100.0), 1000, "between"),
    ],
)
def test_what_cannot_be_asked(slo: Slo, n: int, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        slo_capacity(REPLICA, requests=chat(n), slo=slo)
