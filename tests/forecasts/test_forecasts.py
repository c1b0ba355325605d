"""Forecasts are made once, keep their hash, and are scored by rows of the same case alone."""

import hashlib
import json
from pathlib import Path

import pytest
from tools.forecasts import __main__ as tool
from tools.forecasts.__main__ import SUMS, Forecast, Outcome, check, forecasts, make, outcomes, report

from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.layout import Layout
from tonnage.domain.precision import Precision
from tonnage_accuracy.rows import Row

KEPT = Path(__file__).parents[2] / "forecasts"
CASE = ServeCase(
    model="meta-llama/Llama-3.3-70B-Instruct",
    accelerator="mi455x",
    engine="vllm",
    isl=1000,
    osl=1000,
    layout=Layout(tp=2),
    precision=Precision(weights="fp8", activations="fp8"),
    traffic=Traffic(concurrency=32),
)
NUMBERS = {"tpot_ms": {"value": 10.0, "low": 8.0, "high": 12.0}}


def row(**changes: str) -> Row:
    cells = {
        "model_id": "meta-llama/Llama-3.3-70B-Instruct", "accelerator_id": "mi455x", "engine": "vllm", "num_accel": "2",
        "tp": "2", "weight_precision": "fp8", "act_precision": "fp8", "load": "closed_loop", "isl_tokens": "1024",
        "concurrency_or_batch": "32", "osl_tokens": "1000", "tpot_mean_ms": "12.5", "kv_precision": "fp16",
    }  # fmt: skip
    return Row(id="later-1", block="later", layout="inference", cells=cells | changes)


def test_a_day_is_forecast_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "cases", lambda problems: iter([("one", CASE)]))
    problems = make("2030-01-01", tmp_path)
    text = (tmp_path / "2030-01-01.jsonl").read_text()
    assert "1 forecasts" in problems[-1] and json.loads(text)["predicted"]["tpot_ms"]["low"] > 0
    with pytest.raises(FileExistsError, match="never edited"):
        make("2030-01-01", tmp_path)
    assert (tmp_path / "2030-01-01.jsonl").read_text() == text and check(tmp_path) == []
    assert [found.case for found in forecasts(tmp_path)] == [CASE]


def test_an_edit_a_loss_and_an_addition_are_seen(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text("{}\n")
    digest = hashlib.sha256(b"{}\n").hexdigest()
    (tmp_path / SUMS).write_text(f"{digest}  a.jsonl\n{digest}  c.jsonl\n")
    assert [sentence.split(":")[0] for sentence in check(tmp_path)] == ["b.jsonl", "c.jsonl"]
    (tmp_path / "a.jsonl").write_text("{ }\n")
    assert "a.jsonl: was edited" in check(tmp_path)


def test_only_the_same_case_answers_a_forecast() -> None:
    known = [Forecast("2030-01-01", "one", CASE, NUMBERS)]
    (found,) = outcomes([row()], known)
    assert found.measured == 12.5 and found.error == pytest.approx(0.2) and not found.covered
    for changes in (
        {"tp": "4", "num_accel": "4"},
        {"concurrency_or_batch": "64"},
        {"isl_tokens": "2048"},
        {"accelerator_id": "mi355x"},
        {"weight_precision": "bf16"},
        {"engine": "sglang"},
    ):
        assert not list(outcomes([row(**changes)], known)), changes


def test_the_report_counts_what_lies_inside() -> None:
    known = Forecast("2030-01-01", "one", CASE, NUMBERS)
    text = report([Outcome(known, "r1", "tpot_ms", 10.0), Outcome(known, "r2", "tpot_ms", 20.0)])
    assert "tpot_ms: 2 numbers, median error 25.0 %, 1 inside" in text
    assert report([]) == "No forecast is answered by these rows."


def test_the_forecasts_of_the_repository_are_as_they_were_made() -> None:
    assert check(KEPT) == [] and len(list(forecasts(KEPT))) >= 200
