"""What would change a training plan, checked by planning again at the flip (C11), and cost against time (D6)."""

from functools import cache
from typing import Any

import pytest
from tests.command import rented

import tonnage

MARKET = "B200,H100,H200,A100"
"""Those that lead, or come to lead, of all that are rented."""
ASKED: dict[str, Any] = {
    "model": "7B", "tokens": "100B", "deadline": "8 days", "accelerator": MARKET, "confidence": "60%"
}  # fmt: skip
"""Surer, and memory's odds choose between arrangements of one count, of which flips know one: they come 3 % early."""


@cache
def plan(**changes: Any) -> Any:
    return tonnage.plan_train(**ASKED | changes)


def leader(made: Any) -> str:
    best = made.options[0]
    return f"{best.accelerators} x {best.configuration.accelerator}"


def flip_of(made: Any, words: str) -> Any:
    return next((flip for flip in made.break_even if flip.input.startswith(words)), None)


@pytest.fixture(scope="module")
def now() -> Any:
    return plan()


@pytest.mark.parametrize(
    ("words", "field", "unit", "step"),
    [("deadline below", "deadline", " s", 0.98), ("deadline above", "deadline", " s", 1.02),
     ("tokens to train on above", "tokens", "", 1.03)],
)  # fmt: skip
def test_the_whole_plan_agrees_on_both_sides_of_a_flip(
    now: Any, words: str, field: str, unit: str, step: float
) -> None:
    flip = flip_of(now, words)
    if flip is None:
        pytest.skip(f"no flip of {words} with these prices")
    beyond, before = (plan(**{field: f"{flip.value * factor:.0f}{unit}"}) for factor in (step, 1 / step))
    assert leader(before) == leader(now) and leader(beyond) != leader(now)
    assert flip.becomes.startswith(rented(beyond))


def test_some_flip_of_the_deadline_and_of_prices_is_known(now: Any) -> None:
    assert flip_of(now, "deadline")
    prices = [flip for flip in now.break_even if flip.unit == "USD/h"]
    assert prices and all(f.low is not None and f.high is not None and f.low < f.value < f.high for f in prices)


def test_a_budget_too_near_the_cost_takes_another_or_nothing() -> None:
    """Where the chance of keeping the budget falls below the confidence: above the cost, within its interval."""
    few = {"accelerator": "H100,B200", "provider": "nebius"}
    made = plan(budget="$20000", **few)
    flip = flip_of(made, "budget below")
    cost = made.options[0].cost
    assert 0.99 * cost.value <= flip.value <= cost.high
    more, less = (plan(budget=f"${flip.value * share:.0f}", **few) for share in (1.02, 0.98))
    assert leader(more) == leader(made) and (not less.options or leader(less) != leader(made))


def test_the_frontier_trades_money_for_time(now: Any) -> None:
    points = sorted((now.options[i] for i in now.frontier), key=lambda o: o.cost.value)
    walls = [point.run.wall_s.value for point in points]
    assert len(points) > 1 and walls == sorted(walls, reverse=True)
