"""Prefill and decode pools in a closed loop of clients."""

import msgspec
import pytest
from tests.simulation.test_closed_loop import DECODE, PER_TOKEN, table

from tonnage.simulation.disaggregated import Pools, disaggregated_loop

POOLS = Pools(
    prefill=table(), prefill_workers=2, decode=table(), decode_workers=2, slots=64.0, budget=1000.0, transfer_s=0.02
)
SHAPE = {"prompt_tokens": 1000.0, "output_tokens": 201.0}


def test_a_lone_client_sees_prefill_transfer_and_clean_steps() -> None:
    found = disaggregated_loop(POOLS, clients=1, **SHAPE)
    assert found.ttft_s == pytest.approx(DECODE + 1000 * PER_TOKEN + 0.02, rel=0.05)
    assert found.tpot_s == pytest.approx(DECODE)


def test_prompts_never_lengthen_decode_steps() -> None:
    assert disaggregated_loop(POOLS, clients=60, **SHAPE).tpot_s == pytest.approx(DECODE)


def test_the_prefill_pool_bounds_the_rate() -> None:
    service = DECODE + 1000 * PER_TOKEN
    found = disaggregated_loop(POOLS, clients=120, **SHAPE)
    assert found.requests_per_s == pytest.approx(2 / service, rel=0.02)
    more = disaggregated_loop(msgspec.structs.replace(POOLS, prefill_workers=4), clients=120, **SHAPE)
    assert more.requests_per_s > found.requests_per_s


def test_a_run_holds_the_start_as_its_share() -> None:
    short = disaggregated_loop(POOLS, clients=40, requests_per_client=1, **SHAPE)
    service = DECODE + 1000 * PER_TOKEN
    assert short.ttft_s == pytest.approx(service * (1 + 40 / 2) / 2 + 0.02, rel=0.06)  # all queue behind each other
    run = disaggregated_loop(POOLS, clients=40, requests_per_client=5, **SHAPE)
    assert run.ttft_s < disaggregated_loop(POOLS, clients=40, requests_per_client=2, **SHAPE).ttft_s < short.ttft_s


def test_lengths_that_differ_bring_clients_back_in_bunches() -> None:
    even = disaggregated_loop(POOLS, clients=16, requests_per_client=10, **SHAPE)
    uneven = disaggregated_loop(
        msgspec.structs.replace(POOLS, spread=(0.8, 1.0)), clients=16, requests_per_client=10, **SHAPE
    )
    assert uneven.ttft_s > even.ttft_s


@pytest.mark.parametrize("clients", [32, 120])
def test_who_waits_for_a_seat_waits_for_the_first_token(clients: int) -> None:
    # Half as many seats as clients: everyone waits as long as an answer takes, on either way of counting clients.
    free = msgspec.structs.replace(POOLS, prefill_workers=40)
    tight = msgspec.structs.replace(free, slots=clients / 4)
    found = disaggregated_loop(tight, clients=clients, requests_per_client=20, **SHAPE)
    assert found.saturated
    assert found.ttft_s == pytest.approx(200 * DECODE, rel=0.1)
    assert found.requests_per_s == pytest.approx(clients / 2 / (200 * DECODE), rel=0.1)
    assert not disaggregated_loop(free, clients=clients, **SHAPE).saturated


def test_cohorts_stand_for_clients() -> None:
    single = disaggregated_loop(POOLS, clients=32, requests_per_client=5, **SHAPE)
    grouped = disaggregated_loop(POOLS, clients=33, requests_per_client=5, **SHAPE)
    assert grouped.ttft_s == pytest.approx(single.ttft_s, rel=0.1)
    assert grouped.e2e_s == pytest.approx(single.e2e_s, rel=0.1)
