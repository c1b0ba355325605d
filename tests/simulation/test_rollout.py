"""Generation of a batch whose lengths have a long tail."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.rl.scoring import count_ordered, errors, median_error, rl_rows

from tonnage.catalog.traffic import profile
from tonnage.core.deployment import resolve
from tonnage.core.serving_traffic import grid_of
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.rl import NOTHING_FITTED
from tonnage.errors import BadRequest
from tonnage.questions.rl.sides import bins_of
from tonnage.simulation.rollout import RolloutLoad, fullest_share, response_lengths, rollout
from tonnage.simulation.steps import StepTable, step_table

MEASUREMENTS = Path(__file__).parents[2] / "measurements"
SHAPE = profile("reasoning").output_quantiles


@pytest.fixture(scope="module")
def table() -> StepTable:
    case = ServeCase(
        model="llama-3.1-8b", accelerator="h100-sxm5-80gb", traffic=Traffic(concurrency=64), isl=200, osl=1000
    )
    at = resolve(case)
    return step_table(grid_of(at), at.overheads)


def load(lengths: tuple[float, ...], slots: float = 64) -> RolloutLoad:
    return RolloutLoad(lengths=lengths, prompt_tokens=200, prompts=8, slots=slots, budget=8192)


@settings(max_examples=50, deadline=None)
@given(st.floats(0.05, 0.9), st.integers(16, 300))
def test_lengths_have_the_mean_and_end_at_the_longest(share: float, count: int) -> None:
    found = response_lengths(SHAPE, mean=8000 * share, longest=8000, count=count)
    assert len(found) == count and max(found) <= 8000
    assert math.isclose(sum(found) / count, 8000 * share, rel_tol=2e-3)


def test_a_mean_beyond_the_longest_is_one_sentence() -> None:
    with pytest.raises(BadRequest, match="needs max_response_tokens above it"):
        response_lengths(SHAPE, mean=8000, longest=8000, count=8)


def test_equal_lengths_are_one_batch(table: StepTable) -> None:
    found = rollout(table, load((1000.0,) * 32))
    assert found.tail_s == 0 and found.running == pytest.approx(32) and found.steps == 1000
    assert found.decode_s == pytest.approx(1000 * table.decode_s(32, 200 + 500), rel=1e-6)


def test_all_tokens_are_generated_whatever_the_slots(table: StepTable) -> None:
    lengths = response_lengths(SHAPE, mean=1000, longest=8000, count=128)
    wide, narrow = rollout(table, load(lengths, slots=128)), rollout(table, load(lengths, slots=16))
    assert wide.tokens == narrow.tokens == pytest.approx(sum(lengths))
    # Running requests x steps are the tokens of both, in however many steps.
    assert narrow.steps > wide.steps >= wide.longest
    assert wide.tail_s > 0.3 * wide.decode_s > 0


def test_weights_stand_for_several_requests(table: StepTable) -> None:
    once = rollout(table, load((500.0, 1000.0) * 16))
    twice = rollout(
        table, RolloutLoad(lengths=(500.0, 1000.0) * 8, prompt_tokens=200, prompts=8, slots=64, budget=8192, weight=2.0)
    )
    assert twice.decode_s == pytest.approx(once.decode_s) and twice.tokens == once.tokens


def test_the_fullest_replica_gets_at_least_the_mean() -> None:
    lengths = response_lengths(SHAPE, mean=1000, longest=8000, count=256)
    assert sum(fullest_share(lengths, shares=8)) >= sum(lengths) / 8
    assert fullest_share(lengths, shares=1) and len(fullest_share(lengths, shares=8)) == 32


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
