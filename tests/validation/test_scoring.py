"""Errors of predictions: by row, by quantity, by block."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.validation.predictors import crashing, fixed, refusing, too_big
from tests.validation.samples import point, row, sample, training

from tonnage.domain.case import Case, Latency, ServeCase, ServeResult
from tonnage_accuracy.metrics import absolute_error_share, bias, errors, half_width, is_covered, log_ratio, quantile
from tonnage_accuracy.rows import Row
from tonnage_accuracy.scoring import CRASH, by_block, by_quantity, reason_class, report_of, score


def rows(count: int = 40) -> list[Row]:
    return [point(id=f"X-{number}", isl_tokens=1000 + number) for number in range(count)]


def test_a_row_gives_one_score_for_each_quantity_in_order() -> None:
    found = list(score([point(), training(), sample()], predict=fixed))
    assert [(item.kind, item.quantity) for item in found] == [
        ("serve", "e2e_ms"),
        ("serve", "output_tokens_per_s"),
        ("train", "step_time_s"),
        ("train", "tokens_per_s_per_accel"),
        ("train", "fits"),
        ("serve", "ttft_ms"),
        ("serve", "tpot_ms"),
    ]
    first = found[0]
    assert (first.measured, first.predicted, first.low, first.high, first.basis) == (
        2560,
        2000,
        1000,
        4000,
        "calibrated",
    )
    assert first.labels.engine == "vllm"
    assert first.labels.load == "static_batch"


def test_rows_not_usable_are_passed_over() -> None:
    assert list(score([Row(id="a", block="a", layout="inference", cells={}, usable=False)], predict=fixed)) == []


def test_a_quantity_that_the_result_lacks_has_its_reason() -> None:
    found = list(score([training()], predict=fixed))
    assert [item.predicted for item in found] == [20.0, None, 0.0]
    assert found[1].reason == "predicted not to fit: 80 GB are too few"
    found = list(score([point(total_tokens_per_s=5)], predict=fixed))
    assert found[-1].reason == "no prediction of total_tokens_per_s"


def test_a_prompt_after_a_filled_cache_is_the_whole_less_its_beginning() -> None:
    def slow(case: Case) -> ServeResult:
        assert isinstance(case, ServeCase)
        first = 1e-6 * case.isl**2
        return ServeResult(fits=True, basis="derived", ttft_s=Latency(mean=first, low=first / 2, high=first * 2))

    prompt = point(isl_tokens=3000, cached_tokens=1000, ttft_mean_ms=8000, output_tokens_per_s_total=None, e2e_ms=None)
    (found,) = score([prompt], predict=slow)
    assert found.predicted == pytest.approx(8000), "9 s less 1 s"
    assert (found.low, found.high) == (pytest.approx(4000), pytest.approx(16000))


def test_a_crash_is_the_rows_reason_and_not_the_end() -> None:
    found = list(score(rows(), predict=crashing))
    lost = [item for item in found if item.predicted is None]
    assert len(found) == 80
    assert len({item.id for item in lost}) == 15
    assert {item.reason for item in lost} == {f"{CRASH}: ZeroDivisionError: float division by zero"}
    assert {item.measured for item in lost} == {2560.0, 800.0}


def test_reasons_begin_with_a_class_that_counts() -> None:
    reasons = [item.reason for item in score([point(isl_tokens=2000), point()], predict=refusing)]
    assert [reason_class(reason) for reason in reasons] == ["not in the catalogue"] * 2 + ["bad request"] * 2
    assert reason_class(f"{CRASH}: KeyError: 'x: y'") == f"{CRASH}: KeyError"
    assert reason_class("not stated: concurrency") == "not stated"
    assert all("\n" not in item.reason for item in score([point()], predict=too_big))


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"tp": "two"}, "bad cell tp"),
        ({"accelerator_id": None}, "accelerator not in the catalogue"),
        ({"isl_tokens": None}, "not stated"),
    ],
)
def test_a_row_that_is_no_case_is_counted(cells: dict[str, object], reason: str) -> None:
    found = list(score([point(**cells)], predict=fixed))
    assert found
    assert {reason_class(item.reason) for item in found} == {reason}


def test_a_measured_cell_that_cannot_be_read_loses_only_itself() -> None:
    bad, good = score([point(e2e_ms="fast")], predict=fixed)
    assert (bad.quantity, bad.measured, reason_class(bad.reason)) == ("e2e_ms", None, "bad cell e2e_ms")
    assert (good.quantity, good.predicted) == ("output_tokens_per_s", 1000)


def test_saturation_is_remembered_for_the_table_of_latencies() -> None:
    found = list(score([point(isl_tokens=9000), point()], predict=fixed))
    assert [item.saturated for item in found] == [True, True, False, False]


@pytest.mark.slow
def test_several_processes_give_the_same_scores_in_the_same_order() -> None:
    assert list(score(rows(), predict=fixed, workers=2)) == list(score(rows(), predict=fixed))


def served(block: str, **changes: object) -> Row:
    made = point(**changes)
    return row("inference", block=block, **made.cells)  # type: ignore[arg-type]


def test_a_block_has_a_line_for_each_quantity_with_its_errors() -> None:
    rows = [served("A", id="A-1", e2e_ms=1000), served("A", id="A-2", e2e_ms=4000), served("B", id="B-1", e2e_ms=2000)]
    lines = by_block(score(rows, predict=fixed))
    assert [(line.block, line.quantity, line.rows) for line in lines] == [
        ("A", "e2e_ms", 2),
        ("A", "output_tokens_per_s", 2),
        ("B", "e2e_ms", 1),
        ("B", "output_tokens_per_s", 1),
    ]
    assert lines[0].median_ape == pytest.approx(0.75)
    assert lines[0].bias == pytest.approx(0.0)
    assert lines[0].coverage_90 == 1.0
    assert lines[2].median_ape == 0.0


def test_skipped_rows_count_as_rows_and_by_reason() -> None:
    rows = [served("A", id="A-1"), served("A", id="A-2", isl_tokens=2000), served("A", id="A-3", tp="x")]
    line = by_block(score(rows, predict=crashing))[0]
    assert (line.rows, line.predicted) == (3, 1)
    assert line.skipped == {"internal error: ZeroDivisionError": 1, "bad cell tp": 1}


def test_nothing_predicted_leaves_the_errors_absent() -> None:
    line = by_block(score([served("A")], predict=too_big))[0]
    assert (line.predicted, line.median_ape, line.skipped) == (0, None, {"predicted not to fit": 1})


def test_latencies_above_the_knee_are_told_apart() -> None:
    rows = [served("A", id="A-1", e2e_ms=1000), served("A", id="A-2", e2e_ms=2000, isl_tokens=9000)]
    line = by_block(score(rows, predict=fixed))[0]
    assert (line.predicted, line.below_knee, line.below_knee_median_ape) == (2, 1, 1.0)
    assert by_block(score(rows, predict=fixed))[1].below_knee is None


def test_a_block_splits_by_a_label() -> None:
    rows = [served("A", id="A-1"), served("A", id="A-2", engine="sglang")]
    lines = by_block(score(rows, predict=fixed), by="engine")
    assert [(line.group, line.quantity, line.rows) for line in lines] == [
        ("sglang", "e2e_ms", 1),
        ("vllm", "e2e_ms", 1),
        ("sglang", "output_tokens_per_s", 1),
        ("vllm", "output_tokens_per_s", 1),
    ]


def test_a_report_counts_rows_and_names_crashes() -> None:
    rows = [served("A", id="A-1"), served("A", id="A-2", isl_tokens=2000)]
    report = report_of(list(score(rows, predict=crashing)), unusable=3)
    assert (report.rows, report.predicted, report.unusable) == (2, 1, 3)
    assert [crash.id for crash in report.crashes] == ["A-2"]
    assert report.schema == "tonnage.accuracy/1"


def test_runs_that_did_not_fit_are_counted_apart() -> None:
    facts = list(score([training(id="a-1", outcome="oom"), training(id="a-2", outcome="oom")], predict=fixed))
    report = report_of([], out_of_memory=facts)
    assert (report.out_of_memory, report.out_of_memory_found) == (2, 2)


def test_all_blocks_together_keep_kinds_apart() -> None:
    lines = by_quantity(score([point(), training(), sample()], predict=fixed))
    assert [(line.kind, line.quantity) for line in lines] == [
        ("serve", "ttft_ms"),
        ("serve", "tpot_ms"),
        ("serve", "e2e_ms"),
        ("serve", "output_tokens_per_s"),
        ("train", "step_time_s"),
        ("train", "tokens_per_s_per_accel"),
        ("train", "fits"),
    ]


positive = st.floats(1e-3, 1e6)


def test_errors_of_a_small_set_by_hand() -> None:
    found = errors([(110.0, 100.0), (80.0, 100.0), (100.0, 100.0)], [(90.0, 130.0), (75.0, 85.0), (None, None)])
    assert found.rows == 3
    assert found.median_ape == pytest.approx(0.1)
    assert found.mean_ape == pytest.approx(0.1)
    assert found.p90_ape == pytest.approx(0.18)
    assert found.bias == pytest.approx((1.1 * 0.8) ** (1 / 3) - 1)
    assert found.coverage_90 == pytest.approx(0.5)
    assert found.half_width == pytest.approx((40 / 220 + 10 / 160) / 2)


def test_nothing_to_compare_is_absent_and_not_zero() -> None:
    found = errors([])
    assert (found.rows, found.median_ape, found.bias, found.coverage_90) == (0, None, None, None)
    assert quantile([], 0.5) is None
    assert bias([(0.0, 1.0)]) is None


def test_a_verdict_is_right_or_wholly_wrong() -> None:
    assert [absolute_error_share(predicted=p, measured=m) for p, m in [(1, 1), (0, 1), (1, 0), (0, 0)]] == [0, 1, 1, 0]
    assert log_ratio(predicted=0, measured=1) is None


def test_an_interval_holds_its_ends() -> None:
    assert is_covered(measured=1.0, low=1.0, high=2.0) is True
    assert is_covered(measured=2.1, low=1.0, high=2.0) is False
    assert is_covered(measured=1.0, low=None, high=2.0) is None
    assert half_width(predicted=0.0, low=0.0, high=1.0) is None


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=30), st.floats(0.5, 2.0))
def test_bias_moves_with_the_predictions_and_ignores_the_unit(pairs: list[tuple[float, float]], factor: float) -> None:
    moved = bias([(p * factor, m) for p, m in pairs])
    scaled = bias([(p * 1e3, m * 1e3) for p, m in pairs])
    base = bias(pairs)
    assert moved is not None
    assert base is not None
    assert math.log1p(moved) - math.log1p(base) == pytest.approx(math.log(factor), abs=1e-6)
    assert scaled == pytest.approx(base, rel=1e-6, abs=1e-9)


@given(st.lists(positive, min_size=1, max_size=30), st.floats(0, 1))
def test_a_quantile_lies_within_and_rises_with_its_share(values: list[float], share: float) -> None:
    found, more = quantile(values, share), quantile(values, 1.0)
    assert min(values) <= found * (1 + 1e-12)
    assert found <= more * (1 + 1e-12)
