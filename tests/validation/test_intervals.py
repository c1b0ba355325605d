"""Factors: they hold on exchangeable groups, weigh groups and not rows, and lean on their parents."""

import math
import random
from typing import Any

import pytest

from tonnage_accuracy.grouping import Labels
from tonnage_accuracy.intervals import ANY, LEAST_UPPER, MIN_GROUPS, UPPER, Factor, fit, levels_of
from tonnage_accuracy.scoring import Score


def made(group: int, error: float, level: str = "calibrated:steady", **more: Any) -> Score:
    facts: dict[str, Any] = {"quantity": "tpot_ms", "labels": Labels(model=f"m{group}", engine="vllm"), **more}
    facts.setdefault("block", "A")
    facts.setdefault("kind", "serve")
    return Score(
        id=f"{group}-{error}",
        measured=10.0,
        predicted=10.0 * math.exp(error),
        level=level,
        **facts,
    )


def fitted(scores: list[Score]) -> dict[str, Factor]:
    return {factor.rung: factor for factor in fit(scores)}


def test_nine_in_ten_of_unseen_groups_are_inside() -> None:
    chance = random.Random(7)
    own = [chance.gauss(0, 0.2) for _ in range(200)]
    scores = [
        made(g, middle + chance.gauss(0, 0.1), block=f"B{g % 20}") for g, middle in enumerate(own) for _ in range(5)
    ]
    unseen = [abs(chance.gauss(0, math.hypot(0.2, 0.1))) for _ in range(4000)]
    found = fitted(scores)[ANY]
    limit = math.log(found.factor)
    assert sum(value <= limit for value in unseen) / len(unseen) == pytest.approx(0.9, abs=0.03)
    assert found.coverage_90 == pytest.approx(0.9, abs=0.02)
    assert found.coverage_rows == pytest.approx(0.9, abs=0.02)
    assert type(found.coverage_rows) is float, "as JSON writes it"


def test_few_groups_hold_all_they_have() -> None:
    """Of six groups nine tenths are no more than the widest: the next one may well lie beyond it."""
    errors = (0.01, 0.02, 0.03, 0.04, 0.05, 0.2)
    assert math.log(fitted([made(g, e, level="") for g, e in enumerate(errors)])[ANY].factor) == pytest.approx(0.2)


def test_a_group_of_a_thousand_rows_does_not_set_the_width() -> None:
    crowd = [made(99, 3.0)] * 1000
    assert fitted([made(g, 0.1) for g in range(50)] + crowd)[ANY].factor < math.exp(3.0)


def test_a_source_of_many_groups_weighs_as_the_root_of_them() -> None:
    """64 groups of one publisher are off by 0.1, one group each of four others by 0.5: 8 against 4, not 64."""
    crowd = [made(g, 0.1, level="", block="crowd") for g in range(64)]
    others = [made(100 + g, 0.5, level="", block=f"B{g}") for g in range(4)]
    assert math.log(fitted(crowd + others)[ANY].factor) == pytest.approx(0.5)
    many = [made(g, 0.1, level="", block=f"C{g}") for g in range(64)]
    assert math.log(fitted(many + others)[ANY].factor) == pytest.approx(0.1)


def test_words_that_tell_nothing_are_dropped() -> None:
    """Eight sources, each in a level of its own choosing, all off alike: one width for all."""
    chance = random.Random(3)
    scores = [
        made(g, chance.gauss(0, 0.2), level=f"calibrated:{'light' if g % 2 else 'steady'}", block=f"B{g % 8}")
        for g in range(160)
    ]
    assert set(fitted(scores)) == {ANY}
    telling = [
        made(g, chance.gauss(0, 0.05 if g % 2 else 0.4), level=f"calibrated:{'light' if g % 2 else 'steady'}",
             block=f"B{g % 8}")
        for g in range(160)
    ]  # fmt: skip
    found = fitted(telling)
    assert found["calibrated:light"].factor < found[ANY].factor < found["calibrated:steady"].factor


def test_a_level_needs_enough_groups_of_its_own() -> None:
    few = [made(200 + g, 0.9, "assumed", block=f"B{g}") for g in range(MIN_GROUPS - 1)]
    scores = [made(g, 0.1 if g < 20 else 0.6, "calibrated:a" if g < 20 else "calibrated:b", block=f"B{g % 5}")
              for g in range(40)]  # fmt: skip
    found = fitted(scores + few)
    assert set(found) == {ANY, "calibrated", "calibrated:a", "calibrated:b"}
    assert (found[ANY].groups, found[ANY].rows) == (40 + MIN_GROUPS - 1,) * 2
    assert found[ANY].quantity == "tpot_s"


def test_a_level_of_few_sources_leans_on_its_parent_and_one_of_many_does_not() -> None:
    def width(sources: int) -> float:
        good = [made(g, 0.1, "calibrated:steady", block=f"B{g % sources}") for g in range(60)]
        bad = [made(1000 + g, 1.0, "calibrated:open", block=f"C{g % 20}") for g in range(60)]
        return math.log(fitted(good + bad)["calibrated:steady"].factor)

    assert 0.1 < width(60) < width(20) < width(3) < 1.0


def test_loads_that_are_harder_get_wider_intervals() -> None:
    steady = [made(g, 0.1, block=f"B{g}") for g in range(30)]
    found = fitted(steady + [made(g, 2.0, "calibrated:saturated", block=f"B{g}") for g in range(30, 60)])
    assert found["calibrated:saturated"].factor > 3 * found["calibrated:steady"].factor


def test_rates_and_times_of_training_share_one_width() -> None:
    scores = [made(g, 0.1 if g % 2 else 0.3, quantity="step_time_s") for g in range(20)]
    rates = [made(g, -0.1 if g % 2 else -0.3, quantity="tokens_per_s_per_accel") for g in range(20)]
    found = fit([Score(**{f: getattr(s, f) for f in s.__struct_fields__} | {"kind": "train"}) for s in scores + rates])
    assert {factor.quantity for factor in found} == {"step_s"}


def test_the_upper_end_of_a_peak_is_fitted_on_what_lies_above() -> None:
    """Half the groups lie far below: that widens the interval, and makes no peak less likely to fit."""
    chance = random.Random(11)
    errors = [(chance.gauss(0, 0.2) if g % 2 else -chance.uniform(0.5, 1.0)) for g in range(300)]
    peaks = [made(g, -error, kind="train", quantity="peak_mem_gb") for g, error in enumerate(errors)]
    found = {factor.quantity: factor for factor in fit(peaks) if factor.rung == ANY}
    upper = math.log(found[UPPER["memory_peak_bytes"]].factor)
    assert sum(error <= upper for error in errors) / len(errors) == pytest.approx(0.95, abs=0.02)
    assert upper < 0.6 * math.log(found["memory_peak_bytes"].factor)
    lucky = [made(g, 0.5, kind="train", quantity="peak_mem_gb") for g in range(20)]
    least = {f.quantity: f.factor for f in fit(lucky) if f.rung == ANY}["memory_peak_bytes_upper"]
    assert math.log(least) == pytest.approx(LEAST_UPPER)


def test_verdicts_and_unpredicted_rows_have_no_interval() -> None:
    nothing = Score(id="a", block="A", kind="serve", quantity="tpot_ms", measured=1.0, labels=Labels())
    assert fit([made(1, 0.0, quantity="fits"), nothing]) == []


def test_levels_of_a_number_begin_with_all_of_them() -> None:
    assert levels_of("") == [ANY]
    assert levels_of("derived:open") == [ANY, "derived", "derived:open"]
