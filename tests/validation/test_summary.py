"""Scores together: one line for each block, kind and quantity; nothing predicted is nothing hidden."""

import pytest
from tests.validation.predictors import crashing, fixed, too_big
from tests.validation.samples import point, row, sample, training

from tonnage_accuracy.rows import Row
from tonnage_accuracy.scoring import by_block, by_quantity, report_of, score


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
