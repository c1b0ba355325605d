"""Settings that a case leaves open are named with what their other value gives, and widen the interval."""

from typing import Any

import tonnage

SERVED: dict[str, Any] = {
    "kind": "serve",
    "model": "deepseek-ai/DeepSeek-R1",
    "accelerator": "h200",
    "engine": "sglang",
    "layout": {"tp": 8},
    "traffic": {"concurrency": 64, "start": "together"},
    "isl": 4000,
    "osl": 1000,
}
TRAINED: dict[str, Any] = {
    "kind": "train",
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "h100",
    "count": 8,
    "seq_len": 8192,
    "global_batch": 64,
}


def named(case: dict[str, Any]) -> dict[str, Any]:
    return {one.setting: one for one in tonnage.predict(case).assumed}


def test_each_open_setting_that_moves_a_number_is_named_with_its_other_value() -> None:
    found = named(SERVED)
    assert {"engine release", "max_num_batched_tokens", "attention data parallelism", "length spread"} <= set(found)
    other = tonnage.predict({**SERVED, "engine_options": {"max_num_batched_tokens": 2048}})
    assert found["max_num_batched_tokens"].numbers["ttft_s"] == other.ttft_s.mean


def test_the_interval_holds_what_every_other_value_gives() -> None:
    result: Any = tonnage.predict(SERVED)
    said = [one.numbers["ttft_s"] for one in result.assumed if "ttft_s" in one.numbers]
    assert said
    assert result.ttft_s.low <= min(said) and max(said) <= result.ttft_s.high


def test_what_a_case_states_is_no_assumption() -> None:
    stated = {
        "engine_version": "0.5.10",
        "length_spread": [0.8, 1.0],
        "engine_options": {"chunked-prefill-size": 8192},  # SGLang's own name
    }
    assert set(named({**SERVED, **stated, "layout": {"tp": 1, "dp": 8, "ep": 8}})) == set()


def test_recomputation_that_nobody_stated_is_named_and_stated_is_not() -> None:
    assert "step_s" in named(TRAINED)["recompute"].numbers
    assert named({**TRAINED, "recompute": "none"}) == {}
