"""Conformal factors: they hold on exchangeable groups, weigh groups and not rows, and need enough of them."""

import math
import random
from typing import Any

import pytest

from tonnage.accuracy.groups import Labels
from tonnage.accuracy.intervals import (
    ANY,
    FEWEST_GROUPS,
    SATURATED,
    Group,
    fit,
    leave_group_out_coverage,
    level_factor,
)
from tonnage.accuracy.scoring import Score


def named(number: int, block: str = "A") -> Group:
    return (block, f"m{number}", "", "")


def made(group: int, error: float, basis: str = "calibrated", **more: Any) -> Score:
    facts: dict[str, Any] = {"quantity": "tpot_ms", "labels": Labels(model=f"m{group}", engine="vllm"), **more}
    facts.setdefault("block", "A")
    return Score(
        id=f"{group}-{error}", kind="serve", measured=10.0, predicted=10.0 * math.exp(error), basis=basis,
        **facts,
    )  # fmt: skip


def test_nine_in_ten_of_unseen_groups_are_inside() -> None:
    chance = random.Random(7)
    residuals = {named(g): [abs(chance.gauss(0, 0.2)) for _ in range(5)] for g in range(400)}
    unseen = [abs(chance.gauss(0, 0.2)) for _ in range(4000)]
    limit = math.log(level_factor(residuals))
    assert sum(value <= limit for value in unseen) / len(unseen) == pytest.approx(0.9, abs=0.02)
    assert leave_group_out_coverage(residuals) == pytest.approx(0.9, abs=0.02)


def test_a_group_of_a_thousand_rows_weighs_no_more_than_one_of_two() -> None:
    residuals = {named(g): [0.1, 0.1] for g in range(50)}
    assert level_factor({**residuals, named(99): [3.0] * 1000}) == pytest.approx(math.exp(0.1))


def test_few_groups_give_the_largest_residual() -> None:
    assert level_factor({named(g): [0.1 * g] for g in range(5)}) == pytest.approx(math.exp(0.4))
    assert leave_group_out_coverage({named(1): [0.1], named(2): [0.2]}) is None


def test_a_level_needs_enough_groups_of_its_own() -> None:
    scores = [made(g, 0.1) for g in range(FEWEST_GROUPS)] + [made(100 + g, 0.9, "assumed") for g in range(3)]
    found = {factor.rung: factor for factor in fit(scores)}
    assert set(found) == {ANY, "calibrated", "calibrated:vllm"}
    assert found["calibrated"].factor == pytest.approx(math.exp(0.1))
    assert (found[ANY].groups, found[ANY].rows) == (FEWEST_GROUPS + 3, FEWEST_GROUPS + 3)
    assert found["calibrated"].quantity == "tpot_s"


def test_latencies_above_the_knee_are_a_level_of_their_own() -> None:
    scores = [made(g, 0.1) for g in range(20)] + [made(g, 2.0, saturated=True) for g in range(20, 40)]
    found = {factor.rung: factor.factor for factor in fit(scores)}
    assert found["calibrated"] == pytest.approx(math.exp(0.1))
    assert found[SATURATED] == pytest.approx(math.exp(2.0))


def test_coverage_on_another_source_shows_what_groups_of_one_source_hide() -> None:
    scores = [made(g, 0.1 if block != "B" else 0.5, block=block) for g, block in enumerate("ABC" * 20)]
    (pooled, *_) = fit(scores)
    assert pooled.rung == ANY
    assert pooled.coverage_90 == pytest.approx(1.0)
    assert pooled.coverage_blocks == pytest.approx(2 / 3)


def test_verdicts_and_unpredicted_rows_have_no_interval() -> None:
    nothing = Score(id="a", block="A", kind="serve", quantity="tpot_ms", measured=1.0, labels=Labels())
    assert fit([made(1, 0.0, quantity="fits"), nothing]) == []
