"""What would change a batch plan, checked by planning again at the flip (C11)."""

from functools import cache
from typing import Any

import pytest
from tests.command import rented

import tonnage

MARKET = "B200,B300,H100,H200,MI355X,L40S"
"""Those that lead, or come to lead, of all that are rented."""
MORE: dict[str, Any] = {"items": 100e6}
"""As many as only on-demand accelerators finish in time: with fewer, or with longer, spot ones lead."""
SHORT: dict[str, Any] = {
    "items": 20_000, "prompt_tokens": 256, "output_tokens": 51, "deadline": None, "max_accelerators": None,
    "accelerator": None,
}  # fmt: skip
"""So little work that starting and rounding decide: the first option is not among the cheapest by the item."""
ASKED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "items": 50e6,
    "prompt_tokens": 800,
    "output_tokens": 150,
    "deadline": "8 h",
    "max_accelerators": 64,
    "accelerator": MARKET,
}


@cache
def plan(**changes: Any) -> Any:
    made = tonnage.plan_batch(**ASKED | changes)
    assert made.options
    return made


def leader(made: Any) -> tuple[str, str]:
    best = made.options[0]
    return best.configuration.accelerator, best.bill.term


def flip_of(made: Any, words: str) -> Any:
    return next((flip for flip in made.break_even if flip.input == words), None)


@pytest.fixture(scope="module")
def now() -> Any:
    return plan()


@pytest.mark.parametrize(
    ("words", "field", "unit", "step", "asked"),
    [("items above", "items", "", 1.02, {}), ("items below", "items", "", 0.98, MORE),
     ("deadline above", "deadline", " s", 1.02, MORE), ("deadline below", "deadline", " s", 0.98, {})],
)  # fmt: skip
def test_the_whole_plan_agrees_on_both_sides_of_a_flip(
    words: str, field: str, unit: str, step: float, asked: dict[str, Any]
) -> None:
    now = plan(**asked)
    flip = flip_of(now, words)
    beyond, before = (plan(**asked | {field: f"{flip.value * factor:.0f}{unit}"}) for factor in (step, 1 / step))
    assert leader(before) == leader(now)
    assert leader(beyond) != leader(now)
    assert rented(beyond).partition(" x ")[2] in flip.becomes


def test_a_price_below_its_flip_makes_the_rival_lead(now: Any) -> None:
    flip = now.break_even[0]
    assert "below" in flip.input and flip.unit == "USD/h" and flip.value < flip.now
    assert flip.low < flip.value < flip.high
    assert flip.ties == (flip.high >= flip.now)


def test_longer_items_change_the_answer_where_planning_again_says_so(now: Any) -> None:
    """Rates between doublings are drawn on logarithms: the change lies within a tenth of the flip."""
    flip = flip_of(now, "tokens of an item above")
    assert flip.now == 950
    share = flip.value / 950
    beyond = plan(prompt_tokens=800 * share * 1.1, output_tokens=150 * share * 1.1)
    assert leader(beyond) != leader(now)


def test_a_flip_of_the_length_is_counted_from_the_option_that_leads() -> None:
    now = plan(**SHORT)
    flips = [(flip_of(now, f"tokens of an item {side}"), step) for side, step in (("above", 1.1), ("below", 1 / 1.1))]
    known = [(flip.value / flip.now * step, flip) for flip, step in flips if flip is not None]
    assert known
    for share, flip in known:
        beyond = plan(**SHORT | {"prompt_tokens": 256 * share, "output_tokens": 51 * share})
        assert leader(beyond) != leader(now), flip


def test_where_the_cheapest_by_the_item_leads_less_work_and_more_time_change_nothing() -> None:
    """B200, H100 and A100 cost about the same by the item: whole instances decide between them. L40S costs more."""
    two = {"accelerator": "b200-sxm-180gb,l40s"}
    few = plan(items=ASKED["items"] / 8, **two)
    assert flip_of(few, "items below") is None and flip_of(few, "deadline above") is None
    for changes in ({"items": ASKED["items"] / 64}, {"items": ASKED["items"] / 8, "deadline": "64 h"}):
        assert leader(plan(**changes, **two)) == leader(few)


def test_without_a_deadline_none_is_named() -> None:
    made = plan(deadline=None, max_accelerators=None)
    assert not [flip for flip in made.break_even if flip.input.startswith("deadline")]


def test_a_tie_is_said_in_the_line(now: Any) -> None:
    ties = [flip for flip in now.break_even if flip.ties]
    assert now._repr_html_().count("not distinguishable as it is") == len(ties)
    for flip in ties:
        if flip.now is not None and flip.low is not None and flip.high is not None:
            assert flip.low <= flip.now <= flip.high
