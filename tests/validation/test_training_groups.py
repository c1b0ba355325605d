"""Groups of training rows beside what they are to reach: which rows count, by which number, and against what."""

import pytest
from tests.validation.samples import training

from tonnage_accuracy.grouping import labels_of
from tonnage_accuracy.left_out import LeftOut
from tonnage_accuracy.records import Figure
from tonnage_accuracy.rows import Row
from tonnage_accuracy.scoring import Score
from tonnage_accuracy.training_groups import (
    Compared,
    compared_layouts,
    layout_figures,
    scaling_errors,
    speeds_of,
    training_figures,
)


def scored(row: Row, quantity: str, measured: float, predicted: float) -> Score:
    return Score(
        id=row.id,
        block=row.block,
        kind="train",
        quantity=quantity,
        measured=measured,
        predicted=predicted,
        low=predicted / 2,
        high=predicted * 2,
        labels=labels_of(row),
        level="calibrated",
    )


def figure(found: tuple[Figure, ...], group: str, words: str) -> Figure:
    return next(one for one in found if one.group == group and words in one.figure)


def test_a_row_counts_once_by_the_first_speed_that_it_prints() -> None:
    row = training(id="foundry-1")
    scores = [scored(row, "tokens_per_s_per_accel", 100, 50), scored(row, "step_time_s", 10, 11)]
    (speed,) = speeds_of([row], scores)
    assert speed.error == pytest.approx(0.1)
    assert speed.factor == pytest.approx(1.1)


def test_a_rate_that_is_half_is_a_step_that_is_twice() -> None:
    row = training()
    (speed,) = speeds_of([row], [scored(row, "tokens_per_s_per_accel", 100, 50)])
    assert speed.factor == pytest.approx(2.0)


def test_growth_is_judged_per_doubling_and_only_within_one_job() -> None:
    few, many = training(id="a-1", num_accel=8), training(id="a-2", num_accel=32)
    other = training(id="a-3", num_accel=64, seq_len=2048)
    scores = [
        scored(few, "step_time_s", 10, 10),
        scored(many, "step_time_s", 10, 12.1),
        scored(other, "step_time_s", 1, 9),
    ]
    speeds = speeds_of([few, many, other], scores)
    assert scaling_errors(speeds) == [pytest.approx(0.1)]
    assert scaling_errors(speeds, per_doubling=False) == [pytest.approx(0.21)]


def test_groups_are_held_against_their_bounds_in_sample_and_left_out() -> None:
    row = training(id="foundry-1", block="foundry")
    scores = [scored(row, "step_time_s", 10, 10.4), scored(row, "fits", 1, 1)]
    stored = {"source": {(row.id, "step_time_s"): LeftOut(predicted=12.0, level="calibrated:whole:dense:megatron")}}
    found = training_figures([row], scores, stored=stored)
    inside = figure(found, "language models", "median error of the step")
    assert (inside.rows, inside.value, inside.met) == (1, pytest.approx(0.04), True)
    assert figure(found, "language models", "left out").value == pytest.approx(0.2)
    assert figure(found, "language models", "left out").met is False
    assert figure(found, "fits or not", "right").value == 1.0
    assert not [one for one in found if one.group == "TPU"]


def test_runs_that_did_not_fit_count_among_the_verdicts() -> None:
    ran, failed = training(id="x-1"), training(id="x-2", outcome="oom")
    found = training_figures([ran], [scored(ran, "fits", 1, 1)], out_of_memory=[scored(failed, "fits", 0, 1)])
    assert figure(found, "fits or not", "right").value == 0.5
    assert figure(found, "fits or not", "did not").value == 0.5
    assert figure(found, "fits or not", "did not").met is False


def test_the_fastest_rows_of_sweeps_are_counted_apart_from_all() -> None:
    def one(ratio: float, fastest: bool, degrees: bool = True) -> Compared:
        return Compared(id="", block="", ratio=ratio, fastest=fastest, degrees=degrees, printed="", best="")

    found = layout_figures([one(1.0, True), one(1.04, True, degrees=False), one(1.5, False), one(1.06, True)])
    assert [(line.rows, line.value) for line in found] == [
        (3, pytest.approx(2 / 3)),
        (2, pytest.approx(1 / 2)),
        (4, pytest.approx(2 / 4)),
    ]
    assert found[0].met is False
    assert found[2].met is True  # nothing is asked of it
    assert layout_figures([]) == ()


def test_a_published_layout_is_held_against_the_search_and_open_ones_are_passed_over() -> None:
    stated = training(id="b-1", block="b", tp=8, pp=1, cp=1, ep=1, dp=1, sharding="none", act_precision="bf16")
    slower = training(id="b-2", block="b", tp=1, pp=8, cp=1, ep=1, dp=1, act_precision="bf16", step_time_s_eff=30)
    left_open = training(id="b-3", block="b")
    found = {one.id: one for one in compared_layouts([stated, slower, left_open])}
    assert "b-3" not in found
    assert found["b-1"].ratio > 1.0
    assert found["b-1"].fastest
    assert not any(one.fastest for name, one in found.items() if name != "b-1")
