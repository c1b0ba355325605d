"""One step of reinforcement learning: phases that add up, splits that can be, and published steps beside ours."""

from __future__ import annotations

import math
from typing import Any

import pytest

import tonnage
from tonnage.errors import BadRequest

CASE: dict[str, Any] = {
    "kind": "rl", "model": "llama-3.1-8b", "accelerator": "h100-sxm5-80gb", "count": 16, "prompts_per_step": 32,
    "responses_per_prompt": 8, "prompt_tokens": 200, "response_tokens": 1500, "max_response_tokens": 4096,
    "rollout_layout": {"tp": 2}, "train_layout": {"tp": 2, "pp": 1},
}  # fmt: skip


def predicted(**changes: Any) -> Any:
    return tonnage.predict({**CASE, **changes})


def adds_up(node: Any) -> bool:
    if not node.parts:
        return True
    values = [part.value for part in node.parts]
    total = max(values) if node.rule == "max" else node.times * sum(values)
    return math.isclose(total, node.value) and all(adds_up(part) for part in node.parts)


@pytest.mark.parametrize(
    "changes",
    [{}, {"rollout_count": 8, "staleness": 1}, {"rollout_count": 8, "staleness": 4, "partial_rollouts": True}],
)
def test_the_parts_of_a_step_add_up(changes: dict[str, object]) -> None:
    found = predicted(**changes)
    assert found.fits
    assert adds_up(found.step)
    assert found.step.value == found.step_s.value
    assert found.step_s.low < found.step_s.value


def test_a_step_waits_for_its_longest_response() -> None:
    short, long = (predicted(max_response_tokens=n).step_s for n in (2000, 16000))
    assert long.value > 1.5 * short.value


def test_staleness_hides_stragglers_and_passes_cost() -> None:
    fresh, stale = (predicted(rollout_count=8, staleness=staleness).step_s.value for staleness in (1, 8))
    assert stale < fresh
    fewer, plain, ppo = (predicted(**one).step_s for one in ({"reference": False}, {}, {"algorithm": "ppo"}))
    assert fewer.value < plain.value < ppo.value


def test_dynamic_sampling_generates_what_it_throws_away() -> None:
    plain, dapo = predicted(), predicted(algorithm="dapo")
    assert dapo.step.parts[0].value > plain.step.parts[0].value
    assert any("dynamic sampling keeps 33 %" in note for note in dapo.notes)


def test_a_reward_says_how_many_cores_it_needs() -> None:
    found = predicted(reward_s=2.0)
    cores = next(need for need in found.needs if need.name == "CPU cores for rewards")
    short = predicted(reward_s=2.0, reward_cores=cores.need / 4)
    assert short.step.value > found.step.value


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rollout_count": 16}, "leave none to train"),
        ({"staleness": 1}, "needs accelerators that only generate"),
        ({"partial_rollouts": True}, "every response ends before the update"),
        ({"rollout_layout": {"tp": 3}}, "do not divide the 16"),
        ({"train_layout": {"tp": 8, "pp": 4}}, "does not divide the 16"),
        ({"responses_per_prompt": 1}, "no group to compare"),
        ({"train_batch": 1000}, "must be 1 to the 256"),
        ({"kept": 1.5}, "at most 1"),
        ({"response_tokens": 5000.0}, "needs max_response_tokens above it"),
    ],
)
def test_what_contradicts_is_one_sentence(changes: dict[str, object], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        predicted(**changes)


def test_what_does_not_fit_is_an_answer() -> None:
    found = predicted(model="llama-3.1-70b", count=4, train_layout={"tp": 2, "pp": 1})
    assert not found.fits and found.step is None and found.why
