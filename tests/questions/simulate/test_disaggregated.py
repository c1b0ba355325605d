"""Prefill and decode on workers of their own: what moves, what it costs, what it cannot be combined with."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.domain.simulate import Simulated
from tonnage.errors import BadRequest
from tonnage.questions.simulate.simulate import simulate, simulation_of

ONE = {"tp": 1}
SPLIT = {"prefill_workers": 1, "prefill": ONE, "decode_workers": 1, "decode": ONE}
CASE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "accelerator": "H100",
    "traffic": {"profile": "chat", "rate": "10/s", "requests": "1500"},
    "disaggregation": SPLIT,
}


def told(**changes: Any) -> Simulated:
    return simulate(simulation_of({**CASE, **changes}))


def test_answers_do_not_wait_for_prompts_of_others() -> None:
    apart, together = told(), told(disaggregation=None, replicas=2)
    assert apart.requests == together.requests == 1500
    assert apart.itl_s is not None and together.itl_s is not None
    assert apart.itl_s.p99 is not None and together.itl_s.p99 is not None
    assert apart.itl_s.p99 < 0.5 * together.itl_s.p99
    assert apart.fleet is None


def test_moving_the_cache_takes_longer_for_longer_prompts() -> None:
    runs: list[Any] = []
    lengths = {"rate": "0.01/s", "requests": "20", "output_tokens": "2", "process": "even"}
    for prompt in ("1k", "8k"):
        simulate(simulation_of({**CASE, "traffic": {**lengths, "prompt_tokens": prompt}}), keep=runs.append)
    short, long = ((run.first_s - run.started_s).mean() for run in runs)
    kept = 8_000 * 2 * 32 * 8 * 128 * 2  # tokens, keys and values, layers, heads, elements, bytes
    assert long - short > 0.5 * 7 / 8 * kept / 400e9
    assert long < 1.0


def test_clients_wait_for_their_answers() -> None:
    runs: list[Any] = []
    traffic = {"profile": "chat", "concurrency": "8", "requests": "200"}
    found = simulate(simulation_of({**CASE, "traffic": traffic}), keep=runs.append)
    assert found.requests == 200 and found.requests_per_s is not None and found.e2e_s is not None
    begins, ends = sorted(runs[0].requests.sent_s), sorted(runs[0].last_s)
    assert begins[:8] == [0.0] * 8
    assert begins[8:] == pytest.approx(ends[: 200 - 8])


def test_a_part_of_a_run_of_clients_says_so() -> None:
    def stop(_handed: int, _all: int) -> None:
        raise KeyboardInterrupt

    traffic = {"profile": "chat", "concurrency": "8", "requests": "200"}
    assert simulate(simulation_of({**CASE, "traffic": traffic}), watch=stop).partial


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"traffic": {"profile": "chat", "concurrency": "8", "requests": "4000"}}, "500 for each of 8 clients"),
        ({"capacity": True, "slo": {"ttft": "1 s"}}, "capacity is of one pool"),
        ({"scaling": {"in_flight": 3, "cold_start": "1 s"}}, "scaling is of one pool"),
        ({"replicas": 2}, "prefill_workers and decode_workers instead"),
        ({"disaggregation": {**SPLIT, "decode_workers": 0}}, "each pool needs at least 1"),
        ({"disaggregation": {"prefill_workers": 1}}, "missing required field"),
    ],
)
def test_what_contradicts_it_is_said(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(BadRequest, match=named):
        told(**changes)


def test_a_pool_that_cannot_hold_the_model_is_an_answer() -> None:
    found = told(model="meta-llama/Llama-3.1-70B-Instruct", disaggregation={**SPLIT, "decode": {"tp": 4}})
    assert not found.fits and found.sentence.startswith("It does not run")
