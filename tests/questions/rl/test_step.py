"""One step of reinforcement learning: phases that add up, splits that can be, and published steps beside ours."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from msgspec.structs import replace
from tools.rl.scoring import count_ordered, errors, median_error, rl_rows

from tonnage.domain.answer import Quantity
from tonnage.domain.case import TrainCaseLayout
from tonnage.domain.layout import Layout
from tonnage.domain.rl import NOTHING_FITTED, RlCase
from tonnage.errors import BadRequest
from tonnage.questions.predict.case_lines import case_of_object
from tonnage.questions.predict.predict import predict
from tonnage.questions.rl.sides import bins_of
from tonnage.questions.rl.step import predict_rl

MEASUREMENTS = Path(__file__).parents[3] / "measurements"

CASE = RlCase(
    model="llama-3.1-8b",
    accelerator="h100-sxm5-80gb",
    count=16,
    prompts_per_step=32,
    responses_per_prompt=8,
    prompt_tokens=200,
    response_tokens=1500,
    max_response_tokens=4096,
    rollout_layout=Layout(tp=2),
    train_layout=TrainCaseLayout(tp=2, pp=1),
)


def adds_up(node: Quantity) -> bool:
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
    found = predict_rl(replace(CASE, **changes))
    assert found.fits and found.step is not None and found.step_s is not None
    assert adds_up(found.step)
    assert found.step.value == found.step_s.value
    assert found.step_s.low is not None and found.step_s.low < found.step_s.value


def test_a_step_waits_for_its_longest_response() -> None:
    short, long = (predict_rl(replace(CASE, max_response_tokens=n)).step_s for n in (2000, 16000))
    assert short is not None and long is not None and long.value > 1.5 * short.value


def test_staleness_hides_stragglers_and_passes_cost() -> None:
    apart = replace(CASE, rollout_count=8, staleness=1)
    steps = [predict_rl(case).step_s for case in (apart, replace(apart, staleness=8))]
    assert steps[0] is not None and steps[1] is not None and steps[1].value < steps[0].value
    fewer = predict_rl(replace(CASE, reference=False)).step_s
    plain = predict_rl(CASE).step_s
    ppo = predict_rl(replace(CASE, algorithm="ppo")).step_s
    assert fewer is not None and plain is not None and ppo is not None
    assert fewer.value < plain.value < ppo.value


def test_dynamic_sampling_generates_what_it_throws_away() -> None:
    plain, dapo = predict_rl(CASE), predict_rl(replace(CASE, algorithm="dapo"))
    assert dapo.step is not None and plain.step is not None
    assert dapo.step.parts[0].value > plain.step.parts[0].value
    assert any("dynamic sampling keeps 33%" in note for note in dapo.notes)


def test_a_reward_says_how_many_cores_it_needs() -> None:
    found = predict_rl(replace(CASE, reward_s=2.0))
    cores = next(need for need in found.needs if need.name == "CPU cores for rewards")
    short = predict_rl(replace(CASE, reward_s=2.0, reward_cores=cores.need / 4))
    assert short.step is not None and found.step is not None and short.step.value > found.step.value


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rollout_count": 16}, "leave none to train"),
        ({"staleness": 1}, "needs accelerators that only generate"),
        ({"partial_rollouts": True}, "every response ends before the update"),
        ({"rollout_layout": Layout(tp=3)}, "do not divide the 16"),
        ({"train_layout": TrainCaseLayout(tp=8, pp=4)}, "does not divide the 16"),
        ({"responses_per_prompt": 1}, "no group to compare"),
        ({"train_batch": 1000}, "must be 1 to the 256"),
        ({"kept": 1.5}, "at most 1"),
        ({"response_tokens": 5000.0}, "needs max_response_tokens above it"),
    ],
)
def test_what_contradicts_is_one_sentence(changes: dict[str, object], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        predict_rl(replace(CASE, **changes))


def test_what_does_not_fit_is_an_answer() -> None:
    found = predict_rl(replace(CASE, model="llama-3.1-70b", count=4, train_layout=TrainCaseLayout(tp=2, pp=1)))
    assert not found.fits and found.step is None and found.why


def test_predict_takes_the_case_as_an_object() -> None:
    raw = {
        "kind": "rl", "model": "llama-3.1-8b", "accelerator": "h100-sxm5-80gb", "count": 16, "prompts_per_step": 32,
        "responses_per_prompt": 8, "prompt_tokens": 200, "response_tokens": 1500, "max_response_tokens": 4096,
        "rollout_layout": {"tp": 2}, "train_layout": {"tp": 2, "pp": 1}, "staleness": 0,
    }  # fmt: skip
    assert predict(case_of_object(raw)) == predict_rl(CASE)  # type: ignore[comparison-overlap]


def test_packing_puts_the_longest_first() -> None:
    assert bins_of((6.0, 4.0, 5.0, 5.0), size=10.0) == 2
    assert bins_of((7.0, 7.0, 7.0), size=10.0) == 3


def test_published_steps() -> None:
    """G8: median 25 % with nothing fitted on the rows, 15 % with two constants, 8 of 9 pairs in order."""
    rows = [row for row in rl_rows(MEASUREMENTS) if not row.agentic]
    assert median_error(errors(rows, loop=NOTHING_FITTED)) <= 0.25
    assert median_error(errors(rows)) <= 0.15
    right, pairs = count_ordered(rows, loop=NOTHING_FITTED)
    assert pairs == 9 and right >= 8
