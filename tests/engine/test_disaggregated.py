"""Prefill and decode pools in a closed loop of clients."""

import msgspec
import pytest
from tests.engine.test_closed_loop import DECODE, PER_TOKEN, table

from tonnage.engine.disaggregated import Pools, disaggregated_loop

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
    assert found.requests_per_s <= 2 / service
    more = disaggregated_loop(msgspec.structs.replace(POOLS, prefill_workers=4), clients=120, **SHAPE)
    assert more.requests_per_s > found.requests_per_s


def test_a_run_holds_the_start_as_its_share() -> None:
    steady = disaggregated_loop(POOLS, clients=40, **SHAPE)
    run = disaggregated_loop(POOLS, clients=40, requests_per_client=10, **SHAPE)
    assert run.ttft_s > steady.ttft_s
