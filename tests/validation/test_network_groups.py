"""Groups of networks and single streams: which rows they take, prompts alone, and own runs beside their prediction."""

from pathlib import Path
from typing import Any

from tonnage_accuracy.grouping import Labels
from tonnage_accuracy.network_groups import network_figures, own_figures, prompt_rows
from tonnage_accuracy.rows import Row
from tonnage_accuracy.scoring import Score

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
