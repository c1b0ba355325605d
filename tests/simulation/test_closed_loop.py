"""A number of clients that ask again: steady latencies of one replica and of separate pools."""

from typing import Any

import msgspec
import pytest

from tonnage.domain.engine_spec import Overheads
from tonnage.domain.layout import Layout
from tonnage.simulation import closed_loop as module
from tonnage.simulation.closed_loop import Load, closed_loop
from tonnage.simulation.disaggregated import Pools, disaggregated_loop
from tonnage.simulation.steps import StepTable

DECODE, PER_TOKEN = 0.010, 1e-4
"""A table in which a decode step takes 10 ms and every prompt token adds 0.1 ms."""


def table(**overheads: float) -> StepTable:
    rows = (1.0, 1e6)
    return StepTable(
        rows=rows,
        dense_s=(DECODE, DECODE),
        mixed_s=(DECODE, DECODE),
        head_s=(0.0, 0.0),
        batches=(1.0, 1e6),
        attention_s=((0.0, 0.0), (0.0, 0.0)),
        chunk_s=(0.0, PER_TOKEN, 0.0),
        overheads=Overheads(**overheads),
        layout=Layout(),
        graphs=False,
        rung="own",
    )


def load(**changes) -> Load:
    given = {"prompt_tokens": 1000.0, "output_tokens": 101.0, "budget": 8192.0, "slots": 64.0}
    return Load(**(given | changes))


PREFILL = DECODE + 1000 * PER_TOKEN


def test_one_client_waits_for_its_own_prompt_and_nothing_else() -> None:
    found = closed_loop(table(), load(), clients=1)
    assert found.ttft_s == pytest.approx(PREFILL)
    assert found.tpot_s == pytest.approx(DECODE)
    assert found.e2e_s == pytest.approx(PREFILL + 100 * DECODE)
    assert found.requests_per_s == pytest.approx(1 / found.e2e_s)


def test_prompts_that_start_together_share_a_step_within_the_budget() -> None:
    found = closed_loop(table(), load(), clients=8, requests_per_client=1)
    assert found.ttft_s == pytest.approx(DECODE + 8000 * PER_TOKEN)


@pytest.mark.parametrize("clients", [1, 6, 40, 900])
def test_pieces_of_a_long_prompt_are_played_together_as_one_by_one(
    clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reads what the pieces before it left in the cache, beside answers that grow."""
    grows = msgspec.structs.replace(table(), attention_s=((0.0, 1e-8), (0.0, 1e-2)), chunk_s=(0.0, PER_TOKEN, 1e-9))
    long = load(prompt_tokens=90_000.0, spread=(0.9, 1.1))
    at_once = closed_loop(grows, long, clients=clients)
    monkeypatch.setattr(module, "_alike", lambda prompts, running: 1)
    one_by_one = closed_loop(grows, long, clients=clients)
    for name in ("ttft_s", "tpot_s", "e2e_s", "requests_per_s"):
        assert getattr(at_once, name) == pytest.approx(getattr(one_by_one, name), rel=1e-9)


def test_an_idle_engine_begins_with_the_first_prompt_and_the_others_join_its_next_step() -> None:
    found = closed_loop(table(), load(one_first=True), clients=4, requests_per_client=1)
    rest = DECODE + 3000 * PER_TOKEN
    assert found.ttft_s == pytest.approx((PREFILL + 3 * (PREFILL + rest)) / 4)
    assert found.tpot_s == pytest.approx((rest + 99 * DECODE + 3 * 100 * DECODE) / 400)


def test_prompts_beyond_the_budget_queue_behind_each_other() -> None:
    found = closed_loop(table(), load(budget=1000.0, mixed=False), clients=4, requests_per_client=1)
    assert found.ttft_s == pytest.approx(PREFILL * (1 + 2 + 3 + 4) / 4)


def test_prompt_steps_of_their_own_stop_every_decode() -> None:
    apart = closed_loop(table(), load(budget=1000.0, mixed=False), clients=2, requests_per_client=1)
    # The first client has its token and waits for the second prompt before its 100 steps.
    assert apart.tpot_s == pytest.approx((DECODE + DECODE + PREFILL / 100) / 2)


def test_slots_make_the_rest_wait() -> None:
    free = closed_loop(table(), load(), clients=8)
    full = closed_loop(table(), load(slots=4.0), clients=8)
    assert full.saturated
    assert not free.saturated
    assert full.ttft_s > free.ttft_s + 50 * DECODE


def test_slots_are_empty_at_the_end_of_a_run_whose_answers_differ() -> None:
    def busy(each: int, **changes: Any) -> float:
        found = closed_loop(table(), load(prompt_tokens=1.0, **changes), clients=16, requests_per_client=each)
        return found.requests_per_s * found.e2e_s / 16

    assert busy(5) == pytest.approx(1.0, abs=1e-3)
    differ = {"output_tokens": 500.0, "spread": (0.0, 1.0)}
    # Uniform answers, counted in the longest: 80 have 40 in all; when the last begins, 15 that run have a third left on
    # average and the longest of them 0.78: (40 - 5 - 0.5) / 16 + 0.78 = 2.94 in place of 40 / 16.
    assert busy(5, **differ) == pytest.approx(2.5 / 2.94, abs=0.03)
    assert busy(50, **differ) == pytest.approx(25.0 / 25.44, abs=0.01)


def test_cohorts_stand_for_many_clients() -> None:
    few = closed_loop(table(), load(slots=1e4), clients=32)
    many = closed_loop(table(), load(slots=1e4), clients=33)
    assert many.tpot_s == pytest.approx(few.tpot_s, rel=0.1)
    assert many.ttft_s == pytest.approx(few.ttft_s, rel=0.2)


@pytest.mark.parametrize("prompt_tokens", [500.0, 1000.0, 4000.0])
def test_two_clients_get_no_less_than_one(prompt_tokens: float) -> None:
    """Where a second client costs nothing in decode, not even an unlucky draw of lengths makes both slower than one."""
    spread = load(spread=(0.9, 1.1), prompt_tokens=prompt_tokens)
    one, two = (closed_loop(table(), spread, clients=clients) for clients in (1, 2))
    assert two.requests_per_s > one.requests_per_s


def test_percentiles_are_ordered() -> None:
    found = closed_loop(table(), load(spread=(0.5, 1.5)), clients=20)
    p50, p95, p99 = found.ttft_tail_s
    assert 0 < p50 <= p95 <= p99
    assert found.tpot_tail_s[0] <= found.tpot_tail_s[2]


def test_host_time_adds_to_every_step() -> None:
    plain = closed_loop(table(), load(), clients=1)
    slower = closed_loop(table(step_s=0.002, request_s=0.05), load(), clients=1)
    assert slower.tpot_s == pytest.approx(plain.tpot_s + 0.002)
    assert slower.ttft_s == pytest.approx(plain.ttft_s + 0.052)


def test_prompts_wait_for_company_until_their_patience_ends() -> None:
    wide = {"spread": (0.5, 1.5), "output_tokens": 1001.0}
    alone = closed_loop(table(), load(**wide), clients=16)
    few = closed_loop(table(), load(company=4.0, patience=1000.0, **wide), clients=16)
    hasty = closed_loop(table(), load(company=4.0, patience=5.0, **wide), clients=16)
    assert alone.ttft_s < hasty.ttft_s < few.ttft_s
    assert hasty.ttft_s < alone.ttft_s + 6 * DECODE
    # While prompts wait fewer requests are decoded, and steps with several of them stop the others less often.
    assert few.tpot_s < alone.tpot_s


def test_nobody_waits_for_company_where_nothing_runs() -> None:
    found = closed_loop(table(), load(company=8.0, patience=60.0), clients=1)
    assert found.ttft_s == pytest.approx(PREFILL)


def test_first_tokens_leave_together_where_one_forward_holds_every_prompt_that_has_a_seat() -> None:
    alone = closed_loop(table(), load(budget=1000.0, mixed=False, together=True), clients=1)
    four = closed_loop(table(), load(budget=1000.0, mixed=False, together=True), clients=4, requests_per_client=1)
    assert alone.ttft_s == pytest.approx(PREFILL)
    assert four.ttft_s == pytest.approx(4 * PREFILL)
    # Nobody decodes before all have begun, so that no later prompt stops a decode.
    assert four.tpot_s == pytest.approx(DECODE)


def test_whoever_has_no_seat_begins_with_the_next_forward() -> None:
    found = closed_loop(
        table(), load(budget=1000.0, mixed=False, together=True, slots=2.0), clients=4, requests_per_client=1
    )
    first, answer = 2 * PREFILL, 100 * DECODE
    assert found.ttft_s == pytest.approx((first + first + answer + first) / 2)


POOLS = Pools(
    prefill=table(), prefill_workers=2, decode=table(), decode_workers=2, slots=64.0, budget=1000.0, transfer_s=0.02
)
SHAPE = {"prompt_tokens": 1000.0, "output_tokens": 201.0, "together": True}


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
