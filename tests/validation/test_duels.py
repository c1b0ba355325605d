"""Figures of sources and groups: standings, duels and networks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.validation.samples import point, sample, training

from tonnage_accuracy.grouping import Labels
from tonnage_accuracy.network_groups import network_figures, own_figures, prompt_rows
from tonnage_accuracy.out_of_sample import group_errors, independent_figures, standing_figures
from tonnage_accuracy.peers import MEAN, medians_by_source
from tonnage_accuracy.rows import Row
from tonnage_accuracy.scoring import Score
from tonnage_accuracy.sheets import DUELS, duel_sentence


def rows(block: str, count: int) -> list[Row]:
    made = [sample(id=f"{block}-{place}") for place in range(count)]
    return [Row(id=row.id, block=block, layout="serving", cells=row.cells, table="new") for row in made]


def scores(of: list[Row], predicted: float | None) -> list[Score]:
    return [
        Score(
            id=row.id,
            block=row.block,
            kind="serve",
            quantity="tpot_ms",
            measured=10.0,
            labels=Labels(),
            predicted=predicted,
            low=9.0 if predicted else None,
            high=11.0 if predicted else None,
        )
        for row in of
    ]


def test_only_numbers_that_both_predict_count_and_the_mean_is_over_sources(tmp_path: Path) -> None:
    (tmp_path / "measurements").mkdir()
    (tmp_path / "measurements" / "groups.toml").write_text("unseen = ['new']\n", encoding="utf-8")
    many, few = rows("many", 40), rows("few", 10)
    theirs = [*scores(many, 11.0), *scores(few[:8], 15.0), *scores(few[8:], None)]
    ours = [*scores(many, 12.0), *scores(few, 10.0)]
    found = medians_by_source([*many, *few], theirs, ours=ours, root=tmp_path, fitted_on=["many"])
    lines = {line.source: line for line in found}
    assert set(lines) == {"many", "few", MEAN}
    assert (lines["few"].rows, lines["few"].asked) == (8, 10)
    assert lines["many"].theirs == pytest.approx(0.1) and lines["many"].ours == pytest.approx(0.2)
    assert (lines["many"].theirs_fitted, lines["few"].theirs_fitted) == (True, False)
    assert lines["few"].ours_source == 0.0, "a table that no fit has read is left out as it is"
    assert (lines["few"].theirs_coverage, lines[MEAN].theirs) == (1.0, pytest.approx(0.3))
    assert "nearer than ours in 1 of 2 groups" in duel_sentence("x", found)
    assert "have read 1 of them" in duel_sentence("x", found)
    shown = {row[1]: row for row in DUELS.rows(found)}
    assert shown["many"][7] == "theirs" and "theirs in sample" in shown["many"][-1]
    assert shown["few"][7] == "ours" and "2 not by both" in shown["few"][-1]


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


ROOT = Path(__file__).parents[2]


def row(id: str, **cells: str) -> Row:
    block = cells.pop("block", "X")
    return Row(id=id, block=block, layout="inference", cells={"id": id, **cells}, usable="unusable_reason" not in cells)


def score(id: str, quantity: str, *, kind: Any = "infer", measured: float = 1.0, predicted: float = 1.1) -> Score:
    return Score(
        id=id, block="X", kind=kind, quantity=quantity, labels=Labels(), measured=measured, predicted=predicted
    )


def test_each_row_counts_in_its_group_and_errors_are_medians() -> None:
    rows = [
        row("a", block="TIMM", kind="vision"), row("b", kind="speech"), row("c", block="TRT", kind="embedding"),
        row("d", engine="llamacpp", load="single_stream"), row("e", engine="vllm", load="single_stream"),
    ]  # fmt: skip
    scores = [
        score("a", "samples_per_s", predicted=1.2), score("a", "e2e_ms", predicted=9.0), score("b", "samples_per_s"),
        score("c", "e2e_ms", predicted=0.7), score("d", "tpot_ms", kind="serve", predicted=1.05),
        score("e", "tpot_ms", kind="serve", predicted=5.0),
    ]  # fmt: skip
    found = {figure.group: figure for figure in network_figures(rows, scores) if figure.value is not None}
    told = {group: (figure.rows, round(figure.value or 0.0, 3), figure.met) for group, figure in found.items()}
    assert told == {
        "vision (timm)": (1, 0.2, False),
        "speech": (1, 0.1, True),
        "encoders (TensorRT, FasterTransformer)": (1, 0.3, False),
        "one stream: llama.cpp, ExLlama, MLC": (1, 0.05, True),
    }


def test_prompts_alone_are_cases_with_one_token_on_one_accelerator_or_several() -> None:
    cells = {"engine": "llamacpp", "load": "single_stream", "phase": "prefill", "unusable_reason": "prefill_only"}
    rows = [
        row("one", **cells, num_accel="1", osl_tokens="0"),
        row("four", **cells, num_accel="4"),
        row("broken", **{**cells, "unusable_reason": "ANOMALY"}),
    ]
    taken = prompt_rows(rows)
    assert [item.id for item in taken] == ["one", "four"]
    assert all(item.usable and item.cells["osl_tokens"] == "1" for item in taken)
    scores = [score("one", "ttft_ms", kind="serve"), score("four", "ttft_ms", kind="serve", predicted=1.3)]
    found = {figure.figure: (figure.rows, figure.met) for figure in network_figures(taken, [], prompts=scores)}
    assert found == {
        "median error of the prompt on one accelerator": (1, True),
        "median error of the prompt over several accelerators": (1, False),
    }


def test_own_runs_are_within_a_quarter_of_what_the_measured_device_predicts() -> None:
    figures = own_figures(ROOT / "measurements" / "own")
    assert {figure.figure.split(" of ")[1].split("/")[0] for figure in figures} == {"images", "tokens"}
    assert all(figure.met and figure.rows == 2 for figure in figures)
    assert own_figures(ROOT / "docs") == ()
