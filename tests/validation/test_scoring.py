"""Every usable row and quantity has a line: predicted, or with a reason that can be counted."""

import pytest
from tests.validation.predictors import crashing, fixed, refusing, too_big
from tests.validation.samples import point, sample, training

from tonnage.domain.case import Case, Latency, ServeCase, ServeResult
from tonnage_accuracy.rows import Row
from tonnage_accuracy.scoring import CRASH, reason_class, score


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
