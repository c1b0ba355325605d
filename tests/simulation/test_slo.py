"""Latency objectives: what is measured of a run, and the highest rate that keeps them."""

import math

import numpy as np
import pytest
from tests.simulation.test_serving import table

from tonnage.domain.requests.common import Slo
from tonnage.errors import BadRequest
from tonnage.simulation.arrivals import stretched
from tonnage.simulation.metrics import (
    e2e_s,
    goodput_per_s,
    quantile,
    summary,
    tpot_s,
    ttft_s,
)
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
    found = slo_capacity(ReplicaArrays(times, limits), sent=stretched(requests), slo=Slo(e2e_s=most))
    expected = 1.0 / mean - math.log(20.0) / most
    assert found.rate_per_s == pytest.approx(expected, rel=0.05)
    assert found.low_per_s <= found.rate_per_s <= found.high_per_s
    assert found.low_per_s <= expected * 1.02 and found.high_per_s >= expected * 0.98


def test_a_wider_objective_never_lowers_capacity() -> None:
    requests = chat(8000)
    rates = [
        slo_capacity(REPLICA, sent=stretched(requests), slo=Slo(tpot_s=tpot)).rate_per_s for tpot in (0.015, 0.02, 0.05)
    ]
    assert rates == sorted(rates) and rates[0] < rates[-1]


def test_no_schedule_beats_the_fluid_bound() -> None:
    requests = chat(8000)
    found = slo_capacity(REPLICA, sent=stretched(requests), slo=Slo(e2e_s=1000.0))
    assert found.limit == "backlog"
    assert 0.6 * fluid_bound(REPLICA, requests) < found.rate_per_s


def test_less_cache_lowers_capacity_and_is_named() -> None:
    requests, slo = chat(8000), Slo(ttft_s=1.0, tpot_s=0.1)
    wide = slo_capacity(REPLICA, sent=stretched(requests), slo=slo)
    tight = slo_capacity(ReplicaArrays(TIMES, LIMITS._replace(num_blocks=500)), sent=stretched(requests), slo=slo)
    assert tight.rate_per_s < wide.rate_per_s
    assert tight.resource == "kv" and "cache" in tight.cause


def test_few_seats_are_named() -> None:
    found = slo_capacity(
        ReplicaArrays(TIMES, LIMITS._replace(max_num_seqs=8)), sent=stretched(chat(8000)), slo=Slo(ttft_s=1.0)
    )
    assert found.resource == "batch limit"


def test_what_nothing_meets_has_no_capacity() -> None:
    found = slo_capacity(REPLICA, sent=stretched(chat(4000)), slo=Slo(tpot_s=0.001))
    assert found.rate_per_s == found.low_per_s == 0.0
    assert found.limit == "tpot"


def test_twenty_simulations_at_most() -> None:
    found = slo_capacity(REPLICA, sent=stretched(chat(4000)), slo=Slo(ttft_s=0.5), start=1e-3)
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
        slo_capacity(REPLICA, sent=stretched(chat(n)), slo=slo)


TOKENS = [2.0, 2.1, 2.3, 2.6]


def test_end_to_end_is_first_token_and_the_tokens_after_it() -> None:
    ttft = ttft_s(sent_s=1.0, first_s=TOKENS[0])
    tpot = tpot_s(first_s=TOKENS[0], last_s=TOKENS[-1], output_tokens=4)
    assert ttft + 3 * tpot == pytest.approx(e2e_s(sent_s=1.0, last_s=TOKENS[-1]))


def test_one_token_has_no_time_per_token() -> None:
    assert math.isnan(tpot_s(first_s=1.0, last_s=1.0, output_tokens=1))
    found = tpot_s(first_s=np.array([1.0, 1.0]), last_s=np.array([1.0, 2.0]), output_tokens=np.array([1, 11]))
    assert math.isnan(found[0]) and found[1] == pytest.approx(0.1)


def test_goodput_needs_all_objectives_at_once() -> None:
    ttft, tpot = np.array([0.1, 0.9, 0.1, 0.1]), np.array([0.02, 0.02, 0.09, math.nan])
    seen = {"ttft_s": ttft, "tpot_s": tpot, "e2e_s": np.array([1.0, 1.0, 1.0, math.nan])}
    both = Slo(ttft_s=0.5, tpot_s=0.05)
    assert goodput_per_s(seen, both, span_s=2.0) == 0.5
    with pytest.raises(BadRequest, match="span_s"):
        goodput_per_s(seen, both, span_s=0.0)


def test_percentiles_are_numpys() -> None:
    values = np.random.default_rng(0).exponential(1.0, 1001)
    found = summary(np.append(values, math.nan))
    assert found.count == 1001
    assert found.p95 == pytest.approx(np.percentile(values, 95))
    assert quantile(sorted(values), 0.37) == pytest.approx(np.quantile(values, 0.37))
    assert summary(np.array([math.nan])) is None
