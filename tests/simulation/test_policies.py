"""Each engine's rules as limits, and what batches that start together do to their requests."""

import math
from typing import Any

import numpy as np
import pytest
from tests.simulation.test_serving import table

from tonnage.domain.layout import Engine
from tonnage.engines.registry import resolve_engine
from tonnage.errors import BadRequest, TonnageError
from tonnage.simulation.policies import Pool, limits_of
from tonnage.simulation.serving import Simulated, simulate
from tonnage.simulation.simulated import Limits, ReplicaArrays, requests_of

STEP_S = 0.01


def limits(name: str = "vllm", **options: Any) -> Limits:
    pool = Pool(tokens=1e5, token_bytes=1e5, accelerators=2)
    return limits_of(
        resolve_engine(Engine(name=name, max_num_seqs=8, max_num_batched_tokens=512)), pool, options=options
    )


def played(rules: Limits, sent: list[float], output: list[int]) -> Simulated:
    times = table(8, 600, decode_s=STEP_S, step_s=STEP_S)
    requests = requests_of(np.array(sent), np.full(len(sent), 100), output=np.array(output))
    return simulate(ReplicaArrays(times, rules), requests=requests)


def test_nobody_joins_a_static_batch() -> None:
    sent, output = [0.0, 0.0, 0.001], [10, 100, 10]
    apart = played(limits(batching="static", batch_size=2), sent, output)
    together = played(limits(), sent, output)
    assert apart.started_s[2] == pytest.approx(apart.last_s[1])
    assert together.started_s[2] < 2 * STEP_S
    assert (apart.e2e_s >= together.e2e_s - 1e-12).all()


def test_a_seat_of_a_static_batch_is_computed_to_the_end() -> None:
    times = table(8, 600, step_s=STEP_S)._replace(decode_s=STEP_S * np.arange(9.0))
    requests = requests_of(np.zeros(2), np.full(2, 100), output=np.array([1, 51]))
    static = simulate(ReplicaArrays(times, limits(batching="static")), requests=requests)
    assert static.last_s[1] == pytest.approx(STEP_S + 50 * 2 * STEP_S)
    alone = simulate(ReplicaArrays(times, limits()), requests=requests)
    assert alone.last_s[1] == pytest.approx(STEP_S + 50 * STEP_S)


def test_a_dynamic_batch_starts_when_full_or_when_its_first_has_waited() -> None:
    rules = limits(batching="dynamic", batch_size=2, batch_wait="50 ms")
    full = played(rules, [0.0, 0.02, 5.0], [1, 1, 1])
    assert full.started_s == pytest.approx([0.02, 0.02, 5.05])
    eager = played(limits(batching="static", batch_size=2), [0.0, 0.02, 5.0], [1, 1, 1])
    assert eager.started_s == pytest.approx([0.0, 0.02, 5.0])


def test_a_batch_takes_the_cache_of_its_answers() -> None:
    rules = limits(batching="static")._replace(num_blocks=2 * 200)
    found = played(rules, [0.0] * 4, [100] * 4)
    assert len({round(x, 9) for x in found.started_s}) == 2
    assert not found.preempted.any()


def test_libraries_without_a_server_run_batches_to_their_end() -> None:
    assert limits("hf").gather == 8
    assert limits("hf", batching="continuous").gather == 0
    assert limits("vllm").gather == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batching": "dynamical"}, "dynamic"),
        ({"batching": "dynamic"}, "batch_wait"),
        ({"batching": "dynamic", "batch_wait": "-1 s"}, "batch_wait"),
        ({"batching": "static", "batch_wait": "1 s"}, "dynamic"),
        ({"batch_size": 4}, "batching"),
        ({"batching": "static", "batch_size": 0}, "batch_size"),
        ({"batching": "static", "batch_size": 1.5}, "batch_size"),
        ({"batch": 3}, "scheduler option"),
        ({"host_cache": "1 GB"}, "host_link"),
        ({"host_link": "1 GB/s"}, "host_cache"),
        ({"host_cache": "-1 GB", "host_link": "1 GB/s"}, "above 0"),
    ],
)
def test_what_cannot_be_scheduled(options: dict[str, Any], said: str) -> None:
    with pytest.raises(TonnageError, match=said):
        limits(**options)


def test_drafts_need_their_acceptance() -> None:
    with pytest.raises(BadRequest, match="acceptance"):
        limits_of(resolve_engine(Engine(name="vllm", speculative_tokens=2)), Pool(tokens=1e5))


def test_engines_differ_in_whom_they_send_back() -> None:
    assert limits("vllm").victim == 0 and limits("vllm", priority=True).victim == 1
    assert limits("sglang").victim == 2 and not limits("sglang").mixed
    assert limits_of(resolve_engine(Engine(name="sglang", mixed_chunk=True)), Pool(tokens=1e5)).mixed
    assert limits("trtllm").reserve_output and not limits("trtllm", max_utilization=True).reserve_output


def test_host_memory_holds_what_its_bytes_hold() -> None:
    found = limits(host_cache="1 GB", host_link="10 GB/s")
    assert found.host_blocks == 5000
    assert found.recall_token_s == pytest.approx(1e-5)
    with pytest.raises(BadRequest, match="grow"):
        kept = {"host_cache": "1 GB", "host_link": "1 GB/s"}
        limits_of(resolve_engine(Engine(name="vllm")), Pool(tokens=1e5), options=kept)


def test_recalled_requests_are_not_computed_again() -> None:
    rules = limits()._replace(num_blocks=350)
    sent, output = [0.0] * 3, [120] * 3
    again = played(rules, sent, output)
    back = played(rules._replace(host_blocks=1000, recall_token_s=1e-6), sent, output)
    assert again.preempted.any() and back.preempted.any()
    assert back.recalled_tokens > 0 and again.recalled_tokens == 0
    assert back.prompt_tokens < again.prompt_tokens
    slow = played(rules._replace(host_blocks=1000, recall_token_s=1e-3), sent, output)
    assert slow.last_s.max() > back.last_s.max()


def test_a_prompt_lies_on_one_of_several_ranks() -> None:
    rules = limits_of(resolve_engine(Engine(max_num_seqs=8, max_num_batched_tokens=512)), Pool(tokens=1e5, ranks=4))
    assert rules.budget == 4 * 512 and rules.threshold == 512
    assert limits().threshold == 0
    options = {"long_prefill_token_threshold": 64}
    chosen = limits_of(resolve_engine(Engine(max_num_seqs=8)), Pool(tokens=1e5, ranks=4), options=options)
    assert chosen.threshold == 64


def test_the_rank_with_most_of_the_prompts_ends_the_step() -> None:
    # On 4 ranks a lone prompt takes as long as four prompts of its length at once, if those fell evenly.
    even = table(8, 8000)._replace(mixed_s=np.arange(8009.0) * 1e-4, ranks=4.0)
    rules = limits()._replace(budget=2048, threshold=512)
    took = [
        float(
            simulate(
                ReplicaArrays(even, rules), requests=requests_of(np.zeros(n), np.full(n, 400), output=np.ones(n, int))
            ).last_s[0]
        )
        for n in (1, 4)
    ]
    assert took[0] == pytest.approx(took[1]) == pytest.approx(0.16)
    uneven = even._replace(uneven=math.sqrt(8 * math.log(4)))
    four = requests_of(np.zeros(4), np.full(4, 400), output=np.ones(4, int))
    taken = float(simulate(ReplicaArrays(uneven, rules), requests=four).last_s[0])
    assert taken == pytest.approx(0.16 * (1 + math.sqrt(2 * math.log(4))), rel=1e-3)
