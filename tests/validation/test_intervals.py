"""Intervals of predictions, and what trusting them costs."""

import math
import random
from pathlib import Path
from typing import Any

import pytest
from tests.validation.samples import sample

from tonnage_accuracy.grouping import Labels
from tonnage_accuracy.intervals import ANY, LEAST_UPPER, MIN_GROUPS, UPPER, Factor, fit, levels_of
from tonnage_accuracy.left_out import left_out_predictions
from tonnage_accuracy.records import Regret
from tonnage_accuracy.regret import Latencies, confidence_regrets, latencies_of, regret_lines, reliability
from tonnage_accuracy.rows import Row, read_rows
from tonnage_accuracy.scoring import Score
from tonnage_accuracy.sheets import REGRET, RELIABILITY, confidence_sheet


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


ROOT = Path(__file__).parents[2]


def one(clients: int, tpot: float, **changes: object) -> Row:
    return sample(
        id=f"c{clients}", concurrency=clients, silicon_tpot_ms=tpot, silicon_ttft_ms=100, isl=1024, osl=1024, **changes
    )


ROWS = [one(8, 8.0), one(32, 9.5), one(64, 15.0), one(256, 40.0)]
"""More clients: more tokens per second, each later."""


def said(**tpot: float) -> Latencies:
    return latencies_of(
        {(id, name): value for id, each in tpot.items() for name, value in (("ttft_ms", 100.0), ("tpot_ms", each))}
    )


TRUTH = said(c8=8.0, c32=9.5, c64=15.0, c256=40.0)


def at(lines: list[Regret], limit: float | None) -> Regret:
    return next(line for line in lines if line.limit_ms == limit)


def test_the_truth_regrets_nothing() -> None:
    for line in regret_lines(ROWS, said=TRUTH):
        assert line.median_reached == line.median_frontier == line.kept == line.median_strict == 1.0
        assert line.median_over is None and line.random < 1.0


def test_an_error_that_all_share_costs_nothing_away_from_a_limit() -> None:
    lines = regret_lines(ROWS, said=said(c8=8.4, c32=9.9, c64=15.7, c256=42.0))
    assert at(lines, None).median_reached == 1.0 and at(lines, None).kept == 1.0


def test_a_prediction_too_slow_takes_the_slower_configuration() -> None:
    line = at(regret_lines(ROWS, said=said(c8=8.0, c32=11.0, c64=15.0, c256=40.0)), 10.0)
    rate = {clients: clients / (0.1 + tpot * (921.6 - 1) / 1e3) for clients, tpot in ((8, 8.0), (32, 9.5))}
    assert line.median_reached == pytest.approx(rate[8] / rate[32]) and line.kept == 1.0


def test_a_pick_that_misses_its_limit_is_counted_and_never_better_than_the_best() -> None:
    line = at(regret_lines(ROWS, said=said(c8=8.0, c32=9.5, c64=9.9, c256=40.0)), 10.0)
    assert line.kept == 0.0 and line.median_over == pytest.approx(0.5)
    assert line.median_reached == 1.0 and line.median_strict == 0.0 and line.median_frontier == 1.0


def test_picking_nothing_reaches_nothing() -> None:
    line = at(regret_lines(ROWS, said=said(c8=60.0, c32=60.0, c64=60.0, c256=60.0)), 50.0)
    assert line.median_reached == 0.0 and line.kept == 0.0 and line.questions == 1


def test_a_limit_that_nothing_measured_keeps_is_no_question() -> None:
    assert {line.limit_ms for line in regret_lines(ROWS[2:], said=TRUTH)} == {20.0, 35.0, 50.0, None}


def test_other_lengths_and_engines_are_other_questions() -> None:
    other = one(16, 8.0, engine="vllm")
    assert at(regret_lines([*ROWS, other], said=TRUTH), 50.0).questions == 1
    assert regret_lines([*ROWS, other], said=TRUTH, by="engine")[0].questions == 1  # a single vllm row is no choice
    assert regret_lines([], said=TRUTH) == []


def test_the_page_says_who_and_when() -> None:
    rows = REGRET.rows(regret_lines(ROWS, said=TRUTH, who="family left out"))
    assert ("family left out", "10 ms") in [row[:2] for row in rows] and rows[-1][1] == "all"
    assert REGRET.rows([]) == []


def test_left_out_predictions_decide_well_too() -> None:
    """Fits without the model family, on the published points: half of the picks are within 3 % of the best."""
    stored = left_out_predictions(ROOT, "family")
    rows = [row for row in read_rows(ROOT / "measurements" / "serving_silicon.csv.gz") if row.usable]
    every = regret_lines(rows, said=latencies_of({key: item.predicted for key, item in stored.items()}))[-1]
    assert every.questions > 200 and every.median_reached >= 0.97
    assert every.median_reached > every.random + 0.2


def test_a_confidence_passes_over_what_may_miss_its_limit() -> None:
    guess = said(c8=8.0, c32=9.5, c64=9.9, c256=40.0)  # the third is 15 ms in truth
    lines = {line.rule: line for line in confidence_regrets(ROWS, said=guess, widths=lambda id: 1.3, margins=True)}
    at_10 = [(lines[rule].reached[0], lines[rule].kept[0]) for rule in ("chance 50%", "chance 90%", "margin 0%")]
    assert at_10[0] == at_10[2] == (0.0, 0.0)  # by the estimate alone it picks that one
    assert at_10[1][1] == 1.0 and 0.0 < at_10[1][0] < 1.0
    none_has_it = [line.unanswered for rule, line in lines.items() if rule.startswith("chance") and "else" not in rule]
    assert len(none_has_it) == 6 and none_has_it == sorted(none_has_it)


def test_where_nothing_has_the_confidence_the_likeliest_is_picked() -> None:
    guess = said(c8=9.9, c32=11.0, c64=17.0, c256=45.0)  # 52 % at most at 10 ms, and 8 clients keep it
    lines = {line.rule: line for line in confidence_regrets(ROWS, said=guess, widths=lambda id: 1.3, margins=True)}
    alone, likeliest = lines["chance 80%, else no answer"], lines["chance 80%"]
    assert alone.unanswered == likeliest.unanswered > 0
    assert alone.kept[0] == 0.0 and likeliest.kept[0] == 1.0 and likeliest.reached[1:] >= alone.reached[1:]


def test_what_was_not_predicted_is_no_option_and_alone_no_question() -> None:
    def fast_alone(id: str) -> tuple[float, float] | None:
        return None if id != ROWS[2].id else TRUTH(id)

    known = {line.rule: line for line in confidence_regrets(ROWS, said=fast_alone, widths=lambda id: 1.3)}
    assert known["chance 80%"].questions == 4 and known["chance 80%"].kept[0] == 0.0  # 15 ms is all there is to pick
    assert confidence_regrets(ROWS, said=lambda id: None, widths=lambda id: 1.3) == []
    assert regret_lines(ROWS, said=lambda id: None) == []


def test_the_truth_with_any_confidence_keeps_every_limit() -> None:
    for line in confidence_regrets(ROWS, said=TRUTH, widths=lambda id: 1.0001):
        assert line.kept == (1.0,) * len(line.limits_ms) and min(line.reached) > 0.999
    (one,) = reliability(ROWS, said=TRUTH, widths=lambda id: 1.0001)
    assert one.held == 1.0 and one.said > 0.99 and one.high == 1.0


def test_the_page_shows_reached_and_kept_by_limit() -> None:
    lines = confidence_regrets(ROWS, said=TRUTH, widths=lambda id: 1.2)
    rows = {row[:2]: row for row in confidence_sheet(lines).rows(lines)}
    assert rows["this fit", "chance 80%"][-1] == "100% / 100%"
    assert RELIABILITY.rows(reliability(ROWS, said=TRUTH, widths=lambda id: 1.2))[0][1] == "chance said"
    assert confidence_sheet([]).rows([]) == []
