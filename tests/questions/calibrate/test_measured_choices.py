"""Choices after measurements: what is measured is known, kin moves with it, and two proposals do not harm."""

from __future__ import annotations

import numpy as np
import pytest
from tools.worth import Case, choose, competing, proposed, right, shared, told

import tonnage
from tonnage.core.ranking import weighed_usd_per_h
from tonnage.questions.calibrate import worth
from tonnage_accuracy.regret import Point


def point(engine: str, *, said_ms: float, tpot_ms: float, rate: float) -> Point:
    return Point(tpot_ms, rate * said_ms / tpot_ms, said_ms, rate, factor=1.4, engine=engine)


FAST = point("a", said_ms=14.0, tpot_ms=25.0, rate=1000.0)
SURE = point("b", said_ms=12.0, tpot_ms=12.0, rate=900.0)
KIN = point("a", said_ms=13.0, tpot_ms=22.0, rate=800.0)
POINTS = [FAST, SURE, KIN]
CASE = Case(POINTS, 20.0)


def test_a_measured_configuration_is_known_and_moves_its_kin_most() -> None:
    after = told(POINTS, [0])
    assert after[0].said_tpot_ms == FAST.tpot_ms and after[0].said_rate == FAST.rate
    assert after[2].said_tpot_ms / KIN.said_tpot_ms > after[1].said_tpot_ms / SURE.said_tpot_ms > 1.0
    assert after[2].factor < KIN.factor and shared(FAST, KIN) > shared(FAST, SURE) > 0.0
    assert told(POINTS, []) == POINTS


def test_a_choice_that_misses_its_limit_is_wrong_until_it_is_measured() -> None:
    first = choose(POINTS, CASE.limit)
    assert first == 0 and not right(CASE, [])
    rivals = competing(POINTS, first)
    assert rivals[0] == 0 and set(rivals) == {0, 1, 2}
    wanted = proposed(POINTS, rivals, CASE.limit)
    assert 0 in wanted, "what leads and may miss the limit"
    assert right(CASE, wanted)


def test_the_best_is_of_those_within_the_limit() -> None:
    assert pytest.approx(900.0) == CASE.best


def test_a_slow_stack_needs_more_replicas_and_misses_its_objective() -> None:
    limits = {"ttft": "500 ms", "tpot": "40 ms", "accelerator": "L40S,H100"}
    plan = tonnage.plan_serve("meta-llama/Llama-3.1-8B-Instruct", rate="20/s", traffic="chat", **limits, quick=True)
    one = worth._rivals(plan)[0]
    faster = np.array([-6.0, 0.0, 6.0])
    slow, usual, quick = worth._costs(one, faster, limits=(None, None))
    assert slow > usual >= quick and usual == pytest.approx(weighed_usd_per_h(one.option))
    assert np.isinf(worth._costs(one, faster, limits=(None, one.option.capacity.tpot_s.value * 1.01))[0])
