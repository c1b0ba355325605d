"""BreakEven points: exact where costs are simple, the nearest change first, intervals from errors, ties said (C11)."""

import math
from collections.abc import Sequence
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tonnage.core.break_even import Axis, Contender, break_even_along, break_even_prices
from tonnage.domain.answer import Quantity
from tonnage.domain.batch_plan import BatchOption, BatchPlan
from tonnage.domain.plan import BreakEven
from tonnage.questions.ask import answer
from tonnage.questions.budget.plan import LEAST, MOST, TOLERANCE, largest_rate


def option(name: str, usd: float, *, factor: float = 1.0, sure: bool = True, listed: bool = True) -> Contender:
    told = f"{name} leads"
    cost = Quantity(value=usd, unit="USD").within(factor)
    return Contender(name=name, cost=cost, told=told, sure=sure, listed=listed)


def rate(now: float = 1.0, **changes: float) -> Axis:
    return Axis(name="rate", now=now, unit="1/s", **changes)


def above(found: Sequence[BreakEven]) -> BreakEven:
    return next(flip for flip in found if flip.input.endswith("above"))


def below(found: Sequence[BreakEven]) -> BreakEven:
    return next(flip for flip in found if flip.input.endswith("below"))


@given(st.floats(0.2, 0.9), st.floats(1.2, 5.0), st.floats(0.05, 10.0))
def test_a_fixed_price_against_one_by_use_flips_where_they_meet(fixed: float, times: float, now: float) -> None:
    """The one costs its price, the other so much a request: they meet where the two are equal."""
    meets = now * times
    at = lambda x: [option("by use", x), option("fixed", meets)]  # noqa: E731
    found = above(break_even_along(rate(now), at=at))
    assert found.value == pytest.approx(meets, rel=0.006) and found.value >= meets * (1 - 1e-9)
    assert found.becomes == "fixed leads" and found.now == now and not found.ties
    meets = now * fixed
    at = lambda x: [option("fixed", meets), option("by use", x)]  # noqa: E731
    assert below(break_even_along(rate(now), at=at)).value == pytest.approx(meets, rel=0.006)


def test_steps_of_replicas_flip_at_the_nearest_change() -> None:
    """A large card of 10/s for 9, small ones of 1/s for 1 each: small up to 9, and no flip below."""
    at = lambda x: [option("small", math.ceil(x)), option("large", 9.5 * math.ceil(x / 10))]  # noqa: E731
    found = break_even_along(rate(2.0), at=at)
    assert [flip.input for flip in found] == ["rate above"]
    assert found[0].value == pytest.approx(9.0, rel=0.006)


def test_what_no_seller_prices_leads_only_what_is_less_sure() -> None:
    """As plans are ranked: by chance, then by who states the price, then by cost."""
    mine = lambda x: option("mine", x, sure=x < 4.0)  # noqa: E731
    cheaper = break_even_along(rate(), at=lambda x: [mine(x), option("other", 0.5, listed=False, sure=False)])
    assert cheaper == ()
    surer = above(break_even_along(rate(), at=lambda x: [mine(x), option("other", 0.5, listed=False)]))
    assert surer.value == pytest.approx(4.0, rel=0.006) and surer.becomes == "other leads" and not surer.ties


def test_the_interval_begins_with_a_tie_and_ends_beyond_doubt() -> None:
    at = lambda x: [option("leader", x, factor=1.2), option("other", 3.0, factor=1.1)]  # noqa: E731
    found = above(break_even_along(rate(), at=at))
    width = math.exp(math.hypot(math.log(1.2), math.log(1.1)))
    assert found.value == pytest.approx(3.0, rel=0.006)
    assert found.low == pytest.approx(3.0 / width, rel=0.012) and found.high == pytest.approx(3.0 * width, rel=0.012)
    assert not found.ties


def test_two_within_error_tie_now() -> None:
    at = lambda x: [option("leader", x, factor=1.5), option("other", 1.1, factor=1.5)]  # noqa: E731
    found = above(break_even_along(rate(), at=at))
    assert found.ties and found.low == 1.0 and found.high > found.value > 1.0


def test_an_interval_is_open_where_no_doubt_ends() -> None:
    at = lambda x: [option("leader", x, factor=9.0), option("other", 2.0, factor=9.0)]  # noqa: E731
    assert above(break_even_along(rate(), at=at)).high is None


def test_a_leader_that_falls_out_flips_and_nothing_is_an_answer() -> None:
    at = lambda x: [option("fast", 5.0), *([option("cheap", 1.0)] if x >= 0.5 else [])] if x > 0.2 else []  # noqa: E731
    found = below(break_even_along(rate(), at=at, nothing="nothing is fast enough"))
    assert found.value == pytest.approx(0.5, rel=0.006) and found.becomes == "fast leads"
    last = lambda x: [option("fast", 5.0)] if x > 0.2 else []  # noqa: E731
    assert below(break_even_along(rate(), at=last, nothing="none")).becomes == "none"


def test_what_is_not_sure_never_takes_over() -> None:
    at = lambda x: [option("sure", x), option("guess", 0.1 + x / 2, sure=False)]  # noqa: E731
    assert break_even_along(rate(), at=at) == ()


def test_bounds_are_kept_and_no_option_is_no_flip() -> None:
    at = lambda x: [option("leader", x), option("other", 3.0)]  # noqa: E731
    assert break_even_along(rate(most=2.0), at=at) == ()
    assert break_even_along(rate(up=False), at=at) == ()
    assert break_even_along(rate(), at=lambda x: []) == ()


def test_asking_again_is_asked_little() -> None:
    asked = []

    def at(x: float) -> list[Contender]:
        asked.append(x)
        return [option("leader", x), option("other", 3.0)]

    break_even_along(rate(), at=at)
    assert len(asked) < 80 and len(asked) == len(set(asked)) + 1


@pytest.fixture(scope="module")
def rented() -> BatchOption:
    fields = {
        "model": "Qwen/Qwen3-8B",
        "items": "10k",
        "prompt_tokens": 100,
        "output_tokens": 10,
        "accelerator": "L40S",
    }
    plan = answer("batch", fields, today=date(2026, 7, 1))
    assert isinstance(plan, BatchPlan)
    return plan.options[0]


def priced(like: BatchOption, name: str, price: float, usd: float, *, factor: float = 1.2) -> BatchOption:
    bill = replace(
        like.bill, instance_type="x8", term="on-demand", usd_per_instance_hour=price, accelerators_per_instance=8.0
    )
    run = replace(like.configuration, accelerator=name)
    return replace(like, configuration=run, bill=bill, cost=Quantity(value=usd, unit="USD").within(factor))


def test_a_rivals_price_is_where_it_would_cost_the_same(rented: BatchOption) -> None:
    prices = (("a", 2.0, 100.0), ("b", 4.0, 200.0), ("b", 5.0, 250.0), ("a", 1.0, 110.0))
    found = break_even_prices([priced(rented, *one) for one in prices])
    assert [flip.input for flip in found] == ["8 x b (x8, on-demand) below"]
    assert found[0].value == pytest.approx(2.0) and found[0].now == 4.0 and not found[0].ties
    assert found[0].low < 2.0 < found[0].high < 4.0


def test_a_rival_within_error_ties(rented: BatchOption) -> None:
    first, second = priced(rented, "a", 2.0, 100.0, factor=1.5), priced(rented, "b", 4.0, 110.0, factor=1.5)
    assert break_even_prices([first, second])[0].ties
    assert break_even_prices([]) == ()


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(st.floats(1e-3, 1e4), min_size=1, max_size=6), least=st.floats(0.1, 5.0))
def test_any_step_function_is_inverted(steps: list[float], least: float) -> None:
    """The bracket ends around the last rate that can be paid, a step of `TOLERANCE` wide."""
    ends = sorted(steps)
    payable = ends[len(ends) // 2] * least

    def price(rate: float) -> Any:
        return SimpleNamespace(bill=SimpleNamespace(usd_per_hour=rate)) if rate <= payable else None

    found = largest_rate(price, payable)
    if found is None:
        assert payable < LEAST * (1.0 + TOLERANCE)
    else:
        _, low, high = found
        assert low <= payable and (payable < high or low >= MOST / (1.0 + TOLERANCE))
        assert high / low == pytest.approx(1.0 + TOLERANCE)
