"""Intervals of predictions, and what trusting them costs."""

import math
from pathlib import Path
from statistics import mean

import numpy as np
import pytest
from tests.validation.samples import sample

from tonnage_accuracy.grouping import Labels
from tonnage_accuracy.intervals import Pooling, Residual, fit, pooled, residuals
from tonnage_accuracy.left_out import left_out_predictions
from tonnage_accuracy.records import Regret
from tonnage_accuracy.regret import Latencies, confidence_regrets, latencies_of, regret_lines, reliability
from tonnage_accuracy.rows import Row, read_rows
from tonnage_accuracy.scoring import Score
from tonnage_accuracy.sheets import REGRET, RELIABILITY, confidence_sheet

CHANCE = np.random.default_rng(7)
POOLING = Pooling(source=30.0, number=3.0, words=0.3, first=0.01)


def drawn(sources: int, *, own: float = 0.15, each: float = 0.1, bias: float = 0.0, numbers: int = 8, level: str = "a",
          name: str = "s") -> list[Residual]:  # fmt: skip
    """Residuals as the model says they come about."""
    return [
        Residual(f"{name}{source}", level, bias + u + each * float(CHANCE.standard_t(3.0)))
        for source in range(sources)
        for u in [own * float(CHANCE.standard_t(30.0))]
        for _ in range(numbers)
    ]


def test_simulated_sources_give_back_their_spread_and_nine_in_ten() -> None:
    held, shares = [], []
    for _ in range(4):
        found = fit(drawn(40), POOLING)
        unseen = drawn(2000, numbers=1)
        held.append(sum(abs(one.value - found.bias) <= found.width for one in unseen) / len(unseen))
        shares.append(found.shared)
        assert found.words["a"] == pytest.approx(1.0, abs=0.05) and found.sources == 40
    assert sum(held) / len(held) == pytest.approx(0.9, abs=0.02)
    assert sum(shares) / len(shares) == pytest.approx(0.15**2 / (0.15**2 + 0.1**2), abs=0.1)


def test_a_bias_moves_the_interval_and_does_not_widen_it() -> None:
    plain, moved = fit(drawn(40), POOLING), fit(drawn(40, bias=0.2), POOLING)
    assert moved.bias == pytest.approx(0.2, abs=0.06) and moved.width == pytest.approx(plain.width, rel=0.25)


def test_few_sources_make_an_interval_wider_than_many_of_the_same_spread() -> None:
    few, many = (mean(fit(drawn(n), POOLING).width for _ in range(6)) for n in (3, 60))
    assert few > many


def test_a_thousand_numbers_of_one_source_count_as_eight() -> None:
    quiet, crowd = drawn(20), Residual("crowd", "a", 1.0)
    few, many = (fit(quiet + [crowd] * count, POOLING).width for count in (8, 1000))
    assert many == pytest.approx(few, rel=1e-3)


def test_words_of_harder_cases_widen() -> None:
    harder = drawn(15, own=0.45, each=0.3, level="b", name="h")
    found = fit(drawn(30) + harder, POOLING).words
    assert found["a"] < 1.0 and found["b"] > 1.5


def test_what_is_fitted_is_found_by_evidence() -> None:
    """Degrees of freedom: normal errors are told from those with three."""
    normal = [one._replace(value=0.1 * float(CHANCE.normal())) for one in drawn(20)]
    assert pooled([normal]).number > pooled([drawn(20, own=0.01, numbers=20)]).number


def made(quantity: str, error: float, *, id: str = "1", kind: str = "serve", block: str = "A") -> Score:
    return Score(
        id=id,
        block=block,
        kind=kind,
        quantity=quantity,
        measured=math.exp(error),
        predicted=1.0,
        level="a",
        labels=Labels(),
    )


def test_rates_and_times_of_the_same_requests_are_one_number() -> None:
    both = [made("e2e_ms", -0.2), made("output_tokens_per_s", 0.2), made("e2e_ms", -0.3, id="2")]
    found = residuals([*both, made("tokens_per_s_per_accel", 0.1, kind="train")], source=lambda block: f"of {block}")
    assert [one.value for one in found["serve", "output_tokens_per_s"]] == pytest.approx([0.2, 0.3])
    assert found["train", "step_s"][0].value == pytest.approx(-0.1), "a step is one over its rate"
    assert {one.source for own in found.values() for one in own} == {"of A"}


def test_verdicts_and_unpredicted_rows_have_no_residual() -> None:
    nothing = Score(id="a", block="A", kind="serve", quantity="tpot_ms", measured=1.0, labels=Labels())
    assert residuals([made("fits", 0.0), nothing]) == {}


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
