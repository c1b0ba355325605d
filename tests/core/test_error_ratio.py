"""Ties: the same configuration at two prices never, different parts within error, and by how much (C11)."""

import math
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.catalog.fitted import causes
from tonnage.core.error_model import Pair, Ratio, correlation, ratio, tie_ratio, within_text
from tonnage.domain.answer import Quantity
from tonnage.domain.batch_plan import BatchOption
from tonnage.domain.plan import Configuration, ServeOption
from tonnage.domain.train_plan import TrainOption
from tonnage.questions.ask import answer

TODAY = date(2026, 11, 21)
FACTORS = st.floats(1.0, 4.0)
ASKED: dict[str, dict[str, Any]] = {
    "serve": {
        "model": "meta-llama/Llama-3.1-8B-Instruct", "rate": "30/s", "traffic": "chat", "ttft": "2 s", "tpot": "60 ms",
        "quick": True, "accelerator": "H100,A100,L40S,L4",
    },
    "train": {"model": "7B", "tokens": "100B", "deadline": "30 days"},
    "batch": {
        "model": "meta-llama/Llama-3.1-8B-Instruct", "items": "1000000", "prompt_tokens": "512", "output_tokens": "64",
        "deadline": "12 h",
    },
}  # fmt: skip


def cost(usd: float, factor: float) -> Quantity:
    return Quantity(value=usd, unit="USD").within(factor)


def weighed(*pairs: Pair) -> Ratio:
    found = ratio(*pairs)
    assert found is not None
    return found


@given(st.floats(0.1, 100.0), st.floats(1.01, 10.0), FACTORS)
def test_the_same_configuration_at_two_prices_is_the_ratio_of_the_prices(usd: float, dearer: float, f: float) -> None:
    pair = Pair(cost(usd * dearer, f), cost(usd, f), 1.0)
    assert weighed(pair) == pytest.approx((dearer, dearer, dearer))
    assert tie_ratio(pair) is None
    assert within_text(weighed(pair)) == within_text(None) == ""


@given(st.floats(1.0, 10.0), FACTORS, FACTORS)
def test_errors_of_different_parts_add_in_squares(dearer: float, f: float, g: float) -> None:
    found = weighed(Pair(cost(dearer, f), cost(1.0, g)))
    width = math.hypot(math.log(f), math.log(g))
    assert math.log(found.high / found.value) == pytest.approx(width)
    assert math.log(found.value / found.low) == pytest.approx(width)


@given(st.floats(1.0, 3.0), FACTORS, FACTORS, st.floats(0.0, 0.99), st.floats(0.0, 0.99))
def test_the_more_is_shared_the_narrower_between_equals(d: float, f: float, g: float, a: float, b: float) -> None:
    less, more = sorted((a, b))
    wide, narrow = (weighed(Pair(cost(d, f), cost(1.0, f), each)) for each in (less, more))
    assert narrow.low >= wide.low * (1 - 1e-9) and narrow.high <= wide.high * (1 + 1e-9)
    # An error that only one has stays, whatever is shared.
    assert weighed(Pair(cost(d, f), Quantity(value=1.0, unit="USD"), less)).high == pytest.approx(d * f)


@given(st.floats(0.5, 5.0), FACTORS, st.floats(0.1, 10.0), FACTORS)
def test_a_half_that_is_the_same_takes_its_share_of_the_error_away(a: float, f: float, same: float, g: float) -> None:
    own = weighed(Pair(cost(1.5 * a, f), cost(a, f)))
    sums = weighed(Pair(cost(1.5 * a, f), cost(a, f)), Pair(cost(same, g), cost(same, g), 1.0))
    assert sums.value < own.value
    assert math.log(sums.high / sums.value) <= math.log(own.high / own.value) + math.log(g) * 0.5 + 1e-9
    none = weighed(Pair(cost(same, g), cost(same, g), 1.0))
    assert none == pytest.approx((1.0, 1.0, 1.0))


def test_a_step_of_replicas_counts_at_either_end_of_the_speed() -> None:
    """3 singles for 9 or a box for 10: as fast as the other, and were it slower the box would be the cheaper."""
    singles, box = (
        Quantity(value=9.0, unit="USD/h", low=6.0, high=18.0),
        Quantity(value=10.0, unit="USD/h", low=10.0, high=10.0),
    )
    found = tie_ratio(Pair(box, singles, 1.0))
    assert found is not None and found.low == pytest.approx(10 / 18) and found.high == pytest.approx(10 / 6)


def test_what_cannot_be_weighed_ties_with_nothing() -> None:
    assert ratio(Pair(cost(1.0, 2.0), Quantity(value=0.0, unit="USD"))) is None
    assert tie_ratio(Pair(Quantity(value=1.0, unit="USD"), cost(1.0, 2.0))) is None
    # Cheaper than the first and yet behind it: it lost for another reason.
    assert tie_ratio(Pair(cost(0.5, 2.0), cost(1.0, 2.0))) is None
    assert correlation(None, None) == 0.0


def test_a_tie_is_told_with_its_ends() -> None:
    found = tie_ratio(Pair(cost(1.1, 1.2), cost(1.0, 1.2)))
    assert found is not None and within_text(found) == " (0.85x-1.42x within error)"
    assert tie_ratio(Pair(cost(1.4, 1.2), cost(1.0, 1.2))) is None


@pytest.mark.parametrize("question", ASKED)
def test_every_plan_ties_by_the_same_rule(question: str) -> None:
    """Different parts tie where the ratio's interval holds 1; the verdict says how far; one at two prices does not."""
    options: tuple[ServeOption | TrainOption | BatchOption, ...]
    options = answer(question, ASKED[question], today=TODAY).options  # type: ignore[union-attr]
    first = options[0]
    assert not first.ties and len(options) > 3
    for option in options[1:]:
        pair = Pair(option.cost, first.cost, correlation(option.configuration, first.configuration))
        found = tie_ratio(pair) if option.sure is first.sure else None
        assert option.ties is (found is not None), option.verdict
        assert ("within error)" in option.verdict.partition(";")[0]) is (option.ties and found != (1.0, 1.0, 1.0))
        if option.ties and found is not None and found.high > found.low * 1.001:
            assert f"{found.low:.2f}x-{found.high:.2f}x" in option.verdict


def test_the_same_configuration_elsewhere_does_not_tie_and_overlapping_intervals_are_no_reason() -> None:
    asked = {**ASKED["batch"], "accelerator": "H100", "term": "on-demand,spot", "provider": "runpod"}
    made = answer("batch", asked, today=TODAY)
    first, *others = made.options  # type: ignore[union-attr]
    same = [o for o in others if o.configuration == first.configuration and o.cost.value > 1.2 * first.cost.value]
    assert same and not any(option.ties for option in same)
    assert any((option.cost.low or 0.0) <= (first.cost.high or 0.0) for option in same)


def test_one_part_under_one_engine_shares_every_cause() -> None:
    options = answer("serve", ASKED["serve"], today=TODAY).options  # type: ignore[union-attr]
    made: dict[tuple[str, str], Configuration] = {}
    for one in options:
        made.setdefault((one.configuration.accelerator, one.configuration.engine.name), one.configuration)
    here, there = list(made.values())[:2]
    assert correlation(here, here) == 1.0 and correlation(here, there) < 0.2
    wider = type(here)(**{name: getattr(here, name) for name in here.__struct_fields__} | {"intra_link": "other"})
    assert correlation(here, wider) == pytest.approx(sum(cause.share for cause in causes("serve")))
