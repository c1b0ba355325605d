"""Predictions and sweeps where someone looks: a first screen of named rows; a file or pipe gets the lines as ever."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tests.command import told

CASE: dict[str, Any] = {
    "kind": "serve",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "accelerator": "h100-sxm5-80gb",
    "traffic": {"concurrency": 8},
    "isl": 512,
    "osl": 128,
}
TRAIN: dict[str, Any] = {
    "kind": "train",
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "h100-sxm5-80gb",
    "count": 8,
    "seq_len": 4096,
    "global_batch": 64,
    "framework": "megatron",
}
INFER: dict[str, Any] = {"kind": "infer", "model": "ultralytics/yolov8m", "accelerator": "t4", "batch": 8}


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Someone looks at standard output."""
    for command in ("predict", "sweep"):
        monkeypatch.setattr(f"tonnage.cli.{command}.on_terminal", lambda: True)


def asked(*args: str, given: str = "", width: int = 100) -> Result:
    return told(*args, given=given, width=width)


@pytest.mark.usefixtures("looked_at")
@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_one_prediction_is_named_with_its_intervals(width: int) -> None:
    result = asked("predict", given=json.dumps(CASE), width=width)
    lines = result.stdout.splitlines()
    assert result.exit_code == 0 and lines[0].startswith("Llama 3.1 8B Instruct · 1 x NVIDIA H100")
    assert len(lines) <= 24 and max(map(len, lines)) <= width
    ttft = json.loads(asked("predict", "--json", given=json.dumps(CASE)).stdout)["ttft_s"]
    assert f"TTFT {ttft['mean'] * 1e3:.3g} ms (" in result.stdout
    assert "--why" in lines[-1] + lines[-2] and "{" not in result.stdout


@pytest.mark.usefixtures("looked_at")
def test_cases_of_all_kinds_share_a_table_and_refused_ones_are_counted() -> None:
    given = [CASE, TRAIN, INFER, {**CASE, "accelerator": "h100-smx5"}]
    result = asked("predict", given="\n".join(map(json.dumps, given)), width=140)
    text = " ".join(result.stdout.split())
    assert result.exit_code == 2
    assert "4 cases: 3 fit, 0 do not, 1 refused." in text and "case 4: " in text and "did you mean" in text
    assert all(head in text for head in ("TTFT", "step", "samples/s"))
    many = asked("predict", given="\n".join([json.dumps(CASE)] * 20))
    assert len(many.stdout.splitlines()) <= 24 and "8 more cases: --all." in many.stdout
    opened = asked("predict", "--why", given=json.dumps(CASE)).stdout
    assert "TPOT: " in opened and "matrix products" in opened


@pytest.mark.usefixtures("looked_at")
def test_published_results_near_a_case_stand_on_its_first_screen() -> None:
    seen = asked("predict", "--near", "3", given=json.dumps(CASE)).stdout
    assert len(seen.splitlines()) <= 24 and "{" not in seen
    assert "Published near this case" in seen and "differs in" in seen and seen.count("TPOT") > 1
    several = asked("predict", "--near", "2", given="\n".join([json.dumps(CASE)] * 2)).stdout
    assert "Published near" not in several.replace("Published results near each case: --why", "")
    assert (
        asked("predict", "--near", "2", "--why", given="\n".join([json.dumps(CASE)] * 2)).stdout.count(
            "Published near Llama 3.1 8B Instruct"
        )
        == 2
    )
    lines = asked("predict", "--near", "2", "--json", given=json.dumps(CASE)).stdout
    assert len(json.loads(lines)["near"]) == 2


def test_a_pipe_gets_lines_and_so_does_a_terminal_that_asks(looked_at: None) -> None:
    seen = asked("predict", "--json", given=json.dumps(CASE)).stdout
    assert json.loads(seen)["fits"] is True


@pytest.mark.usefixtures("looked_at")
def test_a_sweep_shows_its_rows_and_still_writes_the_file(tmp_path: Path) -> None:
    path, out = tmp_path / "s.yaml", tmp_path / "s.csv"
    path.write_text(
        f"sweep: predict\nbase: {json.dumps(CASE)}\ngrid: {{isl: [128, 512, 2048]}}\ntake: {{ttft_s: ttft_s.mean}}\n"
    )
    result = asked("sweep", str(path), "--workers", "1", "-o", str(out))
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "3 points of predict: 3 answered, 0 refused; 3 asked now, the rest known before."
    assert len(lines) <= 24 and "isl" in result.stdout and "ttft s: from " in result.stdout
    assert len(out.read_text().splitlines()) == 4


@pytest.mark.usefixtures("looked_at")
def test_a_sweep_counts_what_is_refused_and_hides_what_is_beyond_a_screen(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    grid = {"isl": [100 + n for n in range(30)] + [-1]}
    path.write_text(json.dumps({"sweep": "predict", "base": CASE, "grid": grid, "take": {"fits": "fits"}}))
    first, every = (asked("sweep", str(path), "--workers", "1", *more).stdout for more in ((), ("--all",)))
    assert first.startswith("31 points of predict: 30 answered, 1 refused; 31 asked now"), first
    rows = [sum(line.split()[:1] == [str(100 + n)] for line in text.splitlines() for n in range(30))
            for text in (first, every)]  # fmt: skip
    assert rows == [12, 30], first


@pytest.mark.usefixtures("looked_at")
def test_results_of_mlperf_beside_a_prediction_say_that_nobody_verified_the_figures() -> None:
    bert = {
        "kind": "infer",
        "model": "google-bert/bert-large-uncased",
        "accelerator": "h100-nvl-94gb",
        "batch": 64,
        "count": 4,
    }
    seen = " ".join(asked("predict", "--near", "12", "--why", given=json.dumps(bert)).stdout.split())
    assert "mlcommons/inference_results_v4.1" in seen and "not verified by MLCommons" in seen
    assert "MLCommons" not in asked("predict", "--near", "3", given=json.dumps(TRAIN)).stdout
