"""The mean field: Little's law holds, load grows latency, objectives bind."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.domain.requests.common import Slo
from tonnage.simulation.capacity import CLOSE, Steady, at_concurrency, of_clients
from tonnage.simulation.mean_step import ReplicaLoad, ReplicaTimes

TIMES = ReplicaTimes(
    batches=(1.0, 8.0, 64.0, 256.0),
    decode_s=(0.008, 0.0085, 0.012, 0.025),
    prefill_s=0.05,
    prefill_tail_s=0.18,
    prefill_work_s=0.045,
)
LOAD = ReplicaLoad(output_tokens=211, output_tail_tokens=451, max_concurrency=200.0)


@given(st.floats(0.05, 200.0))
def test_littles_law(concurrency: float) -> None:
    point = at_concurrency(TIMES, LOAD, concurrency=concurrency)
    assert point.rate_per_s * (LOAD.output_tokens - 1) * point.tpot_mean_s == pytest.approx(concurrency, rel=1e-6)


@given(st.floats(0.05, 100.0), st.floats(1.0, 2.0))
def test_more_load_never_shortens_a_latency(concurrency: float, more: float) -> None:
    low = at_concurrency(TIMES, LOAD, concurrency=concurrency)
    high = at_concurrency(TIMES, LOAD, concurrency=concurrency * more)
    assert high.tpot_mean_s >= low.tpot_mean_s
    assert high.ttft_tail_s >= low.ttft_tail_s
    assert high.rate_per_s >= low.rate_per_s


def test_without_objectives_memory_binds() -> None:
    point, limit = Steady(TIMES, LOAD).largest()
    assert limit == "kv"
    assert point.concurrency == pytest.approx(200.0)


@pytest.mark.parametrize(
    ("field", "value", "limit"), [("tpot_s", 0.02, "tpot"), ("ttft_s", 0.5, "ttft"), ("e2e_s", 10.0, "e2e")]
)
def test_the_binding_objective_is_named_and_met(field: str, value: float, limit: str) -> None:
    point, binds = Steady(TIMES, msgspec.structs.replace(LOAD, slo=Slo(**{field: value}))).largest()
    assert binds == limit
    reached = {"tpot": point.tpot_tail_s, "ttft": point.ttft_tail_s, "e2e": point.e2e_tail_s}[limit]
    assert 0.9 * value <= reached <= value


def test_an_impossible_objective_is_an_answer() -> None:
    load = msgspec.structs.replace(LOAD, slo=Slo(tpot_s=0.001))
    assert Steady(TIMES, load).largest() == (None, "tpot")


def test_burstier_arrivals_lower_capacity() -> None:
    calm = msgspec.structs.replace(LOAD, slo=Slo(ttft_s=0.4))
    a, _ = Steady(TIMES, calm).largest()
    b, _ = Steady(TIMES, msgspec.structs.replace(calm, dispersion=8.0)).largest()
    assert b.rate_per_s < a.rate_per_s


def test_at_rate_finds_the_rate() -> None:
    assert Steady(TIMES, LOAD).at_rate(4.0)[0].rate_per_s == pytest.approx(4.0, rel=0.01)


def test_short_answers_behind_long_prompts_have_the_longest_tail() -> None:
    """As often as a step carries a piece of a prompt, an answer of two tokens is that step alone."""
    pieces = msgspec.structs.replace(TIMES, prefill_s=2.0, prefill_work_s=1.5, prefill_uneven=1.5, step_share=2.0)
    pieces = msgspec.structs.replace(pieces, chunk_s=0.7)
    alike = msgspec.structs.replace(LOAD, output_tokens=149)
    mixed = msgspec.structs.replace(alike, answers=((0.25, 2.0), (0.25, 20.0), (0.25, 120.0), (0.25, 450.0)))
    one, other = (at_concurrency(pieces, load, concurrency=1.0) for load in (alike, mixed))
    assert one.tpot_mean_s == other.tpot_mean_s
    assert one.tpot_tail_s < 0.8 * other.tpot_tail_s < other.tpot_tail_s < 0.008 + 2.2 * 0.7


def test_uneven_prompts_and_bursts_lengthen_waits() -> None:
    uneven = msgspec.structs.replace(TIMES, prefill_uneven=4.0)
    bursty = msgspec.structs.replace(LOAD, dispersion=8.0)
    calm = at_concurrency(TIMES, LOAD, concurrency=30.0)
    for times, load in ((uneven, LOAD), (TIMES, bursty)):
        point = at_concurrency(times, load, concurrency=30.0)
        assert point.ttft_mean_s > calm.ttft_mean_s and point.tpot_tail_s > calm.tpot_tail_s
        assert point.rate_per_s == calm.rate_per_s


def test_saturated_is_the_most_that_clients_bring() -> None:
    full = Steady(TIMES, LOAD).full.rate_per_s
    rates = [of_clients(TIMES, LOAD, clients=n).rate_per_s for n in (1.0, 20.0, 200.0, 4000.0)]
    assert rates[:3] == sorted(rates[:3]) and rates[2:] == pytest.approx([full, full], rel=CLOSE)


@given(st.floats(1.0, 1000.0))
def test_clients_are_in_flight(clients: float) -> None:
    point = of_clients(TIMES, LOAD, clients=clients)
    whole = point.ttft_mean_s + (LOAD.output_tokens - 1) * point.tpot_mean_s
    assert point.rate_per_s * whole == pytest.approx(clients, rel=1e-3)


def test_a_client_alone_meets_nobody() -> None:
    point = of_clients(TIMES, LOAD, clients=1.0)
    assert (point.ttft_mean_s, point.tpot_mean_s) == pytest.approx((TIMES.prefill_s, TIMES.decode_s[0]), rel=1e-3)


def test_who_finds_no_seat_waits_for_one() -> None:
    """Four slots at four fifths of what they take: about half of Erlang's wait."""
    few = msgspec.structs.replace(LOAD, max_concurrency=4.0)
    rate = 0.8 * Steady(TIMES, few).full.rate_per_s
    point, free = (Steady(TIMES, load).at_rate(rate)[0] for load in (few, LOAD))
    assert 0.2 < point.ttft_mean_s - free.ttft_mean_s < 1.0 and point.tpot_mean_s < 1.1 * free.tpot_mean_s


def test_clients_beside_prompts_of_a_hundred_steps() -> None:
    """Cards that pass sums through the host: 16 clients got two thirds of the rate of 8, from a search that ended."""
    times = ReplicaTimes(
        batches=(1.0, 8.0, 16.0, 32.0, 64.0),
        decode_s=(0.015, 0.053, 0.087, 0.147, 0.246),
        prefill_s=10.5,
        prefill_tail_s=10.5,
        prefill_work_s=10.45,
        together=((1.0, 0.0, 1.0), (2.0, 10.45, 1.0), (3.0, 20.96, 2.0), (32.0, 324.8, 16.5)),
        separate=True,
        step_share=0.5,
    )
    load = ReplicaLoad(output_tokens=512, output_tail_tokens=512)
    rates = [of_clients(times, load, clients=float(n)).rate_per_s for n in range(4, 33)]
    assert min(rates) > 0.95 * max(rates)
