"""Groups weigh the same, and nothing that a row measured is counted twice."""

from collections.abc import Sequence

import pytest
from tests.validation.samples import point, sample, training

from tonnage_accuracy.grouping import Labels
from tonnage_accuracy.out_of_sample import group_errors, independent_figures, standing_figures
from tonnage_accuracy.rows import Row
from tonnage_accuracy.scoring import Score


@pytest.mark.parametrize(
    ("row", "present", "counted"),
    [
        (sample(), ("ttft_ms", "tpot_ms"), {"ttft_ms": "TTFT", "tpot_ms": "TPOT"}),
        (point(), ("e2e_ms", "output_tokens_per_s", "total_tokens_per_s"), {"output_tokens_per_s": "output rate"}),
        (point(), ("tpot_ms", "e2e_ms", "output_tokens_per_s"), {"tpot_ms": "TPOT"}),
        (
            point(load="closed_loop"),
            ("ttft_ms", "tpot_ms", "e2e_ms", "output_tokens_per_s", "total_tokens_per_s"),
            {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "output_tokens_per_s": "output rate"},
        ),
        (point(phase="prefill"), ("ttft_ms",), {"ttft_ms": "prompt"}),
        (point(), ("e2e_ms",), {"e2e_ms": "output rate"}),
        (
            training(),
            ("step_time_s", "tokens_per_s_per_accel", "samples_per_s_per_accel", "peak_mem_gb", "fits"),
            {"step_time_s": "training step", "peak_mem_gb": "peak memory"},
        ),
        (point(kind="vision"), ("e2e_ms", "samples_per_s", "memory_gb"), {"e2e_ms": "networks"}),
    ],
)
def test_a_row_counts_once_for_each_thing_it_measured(
    row: Row, present: Sequence[str], counted: dict[str, str]
) -> None:
    assert independent_figures(row, present) == counted


def scored(block: str, errors: Sequence[float], **more: object) -> tuple[list[Row], list[Score]]:
    """Rows of a block with these errors of the time per token; intervals of a fifth either way."""
    rows = [sample(id=f"{block}-{place}", **more) for place, _ in enumerate(errors)]
    rows = [Row(id=row.id, block=block, layout=row.layout, cells=row.cells) for row in rows]
    scores = [
        Score(
            id=row.id,
            block=block,
            kind="serve",
            quantity="tpot_ms",
            measured=10.0,
            predicted=10.0 * (1 + error),
            low=8.0 * (1 + error),
            high=12.0 * (1 + error),
            labels=Labels(),
        )
        for row, error in zip(rows, errors, strict=True)
    ]
    return rows, scores


def test_a_crowded_source_weighs_as_much_as_a_small_one() -> None:
    rows, scores = scored("crowd", [0.1] * 500)
    more, worse = scored("few", [0.5] * 8)
    none, lonely = scored("too few", [9.0] * 7)
    lines = group_errors([*rows, *more, *none], [*scores, *worse, *lonely], group=lambda row: row.block, fewest=8)
    assert [(line.group, line.rows, round(line.median_ape, 6)) for line in lines] == [
        ("few", 8, 0.5),
        ("crowd", 500, 0.1),
    ]
    (line,) = standing_figures(lines, left_out="source")
    assert (line.groups, line.rows, line.worst_group, line.over_40) == (2, 508, "few", 1)
    assert (line.mean, line.median) == (pytest.approx(0.3), pytest.approx(0.3))
    assert (line.coverage_mean, line.coverage_least, line.coverage_least_group) == (0.5, 0.0, "few")
    assert line.half_width == pytest.approx(0.2)


def test_numbers_without_a_prediction_are_counted_beside_the_others() -> None:
    rows, scores = scored("A", [0.1] * 10)
    lost = [
        Score(id=s.id, block="A", kind="serve", quantity="tpot_ms", measured=10.0, labels=Labels()) for s in scores[:2]
    ]
    (line,) = group_errors(rows, [*lost, *scores[2:]], group=lambda row: row.block, fewest=8)
    assert (line.rows, line.missing) == (8, 2)


def test_an_open_setting_is_named_where_it_may_explain_a_large_error() -> None:
    rows, scores = scored("A", [0.6] * 8)
    lines = group_errors(rows, scores, group=lambda row: row.block, fewest=8, unknown=lambda rows: "prompt length")
    (line,) = standing_figures(lines, left_out="family")
    assert (line.over_40, line.over_40_unknown, line.left_out) == (1, 1, "family")
