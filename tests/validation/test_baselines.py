"""The rivals: peaks alone, worked out by hand, and the best constant share of them."""

import pytest
from tests.validation.samples import point, training

from tonnage.domain.case import InferResult, ServeResult, TrainResult
from tonnage_accuracy.baselines import baseline_scores, constant_utilisation, raw_roofline
from tonnage_accuracy.cases import case_of
from tonnage_accuracy.scoring import score


def test_decode_is_weights_over_bandwidth_and_prefill_flop_over_peak() -> None:
    found = raw_roofline(case_of(point(concurrency_or_batch=1)))
    assert isinstance(found, ServeResult)
    assert found.tpot_s.mean == pytest.approx(8.03e9 * 2 / 2.039e12, rel=0.01)
    assert found.ttft_s.mean == pytest.approx(2 * 8.03e9 * 1024 / 312e12, rel=0.01)


def test_training_is_six_flop_a_parameter_and_token() -> None:
    found = raw_roofline(case_of(training(act_precision="bf16")))
    assert isinstance(found, TrainResult)
    assert found.tokens_per_s_per_accelerator.value == pytest.approx(989.4e12 / (6 * 8.03e9), rel=0.01)
    assert found.step_s.value == pytest.approx(128 * 8192 / 8 / found.tokens_per_s_per_accelerator.value)


def test_a_model_without_a_published_total_is_counted() -> None:
    own = raw_roofline(case_of(training(model_id=None, act_precision="bf16")))
    known = raw_roofline(case_of(training(act_precision="bf16")))
    assert isinstance(own, TrainResult)
    assert isinstance(known, TrainResult)
    assert own.step_s.value == pytest.approx(known.step_s.value, rel=0.08)


def test_a_vision_batch_is_its_multiply_adds_over_peak() -> None:
    row = point(kind="vision", model_id="timm/resnet50.a1_in1k", gmacs=4.11, image_px=224, phase=None)
    found = raw_roofline(case_of(row))
    assert isinstance(found, InferResult)
    assert found.latency_s.value == pytest.approx(16 * 8.22e9 / 312e12)


def test_the_constant_share_puts_half_of_the_rows_on_either_side() -> None:
    rows = [point(id="a-1", e2e_ms=4000), point(id="a-2", e2e_ms=9000), point(id="a-3", e2e_ms=90000)]
    ours = list(score(rows, predict=raw_roofline))
    (_, raw), (name, constant) = baseline_scores(rows, ours)
    assert name == "roofline at constant utilisation"
    own = [
        item.predicted / item.measured
        for item in constant
        if item.quantity == "e2e_ms" and item.predicted and item.measured
    ]
    assert sorted(own)[1] == pytest.approx(1.0)
    assert len(raw) == len(constant) == 6
    assert constant_utilisation([]) == []


def test_rivals_are_judged_only_where_we_predict() -> None:
    rows = [point(id="a-1"), point(id="a-2", tp="x")]
    ours = list(score(rows, predict=raw_roofline))
    for _, scores in baseline_scores(rows, ours):
        assert {item.id for item in scores} == {"a-1"}
