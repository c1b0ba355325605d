"""The highest rate that keeps limits: a result of the prediction, as it is one of the benchmark."""

import pytest
from msgspec.structs import replace
from tests.validation.samples import point

from tonnage.domain.case import ServeCase, ServeResult, Traffic
from tonnage.errors import BadFact
from tonnage.questions.predict.predict import predict
from tonnage_accuracy.cases import case_of
from tonnage_accuracy.limited import Limits, at_highest_rate, limits_of
from tonnage_accuracy.scoring import score_row

SERVER = {
    "load": "open_loop",
    "request_rate_qps": 3.0,
    "concurrency_or_batch": None,
    "ttft_p99_limit_ms": 2000,
    "tpot_p99_limit_ms": 60,
    "tpot_mean_ms": 40,
}


def served(tpot_s: float) -> ServeResult:
    case = case_of(point(**SERVER))
    assert isinstance(case, ServeCase)
    found = at_highest_rate(case, Limits(2.0, tpot_s), predict=predict)
    assert isinstance(found, ServeResult)
    return found


def test_a_percent_more_breaks_a_limit_and_the_rate_keeps_them() -> None:
    found, case = served(0.06), case_of(point(**SERVER))
    assert found.tpot_s and found.tpot_s.p99 and found.requests_per_s and isinstance(case, ServeCase)
    assert found.tpot_s.p99 <= 0.06
    more = predict(replace(case, traffic=Traffic(rate_per_s=found.requests_per_s.value * 1.03)))
    assert isinstance(more, ServeResult) and more.tpot_s and more.tpot_s.p99
    assert more.saturated or more.tpot_s.p99 > 0.06


def test_tighter_limits_take_less_and_the_stated_rate_decides_nothing() -> None:
    rates = [found.value for found in (served(t).requests_per_s for t in (0.03, 0.06)) if found]
    assert rates[0] < rates[1]
    (other,) = (s for s in score_row(point(**SERVER | {"request_rate_qps": 6.0}), predict) if s.quantity == "tpot_ms")
    (same,) = (s for s in score_row(point(**SERVER), predict) if s.quantity == "tpot_ms")
    assert other.predicted == pytest.approx(same.predicted, rel=0.05)


def test_a_rate_is_less_sure_than_a_step_and_a_first_token_does_not_run_away() -> None:
    found = served(0.06)
    rate, first = found.output_tokens_per_s, found.ttft_s
    assert rate and rate.low and rate.high and first and first.low and first.high
    assert rate.low < rate.value < rate.high
    assert first.high / first.mean == pytest.approx(first.mean / first.low)


def test_limits_that_nothing_keeps_are_said_to_be() -> None:
    with pytest.raises(BadFact, match="no rate is predicted"):
        served(1e-6)
    assert limits_of(point(load="open_loop", request_rate_qps=3.0)) is None
