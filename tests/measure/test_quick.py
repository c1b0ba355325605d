"""Five minutes against a server that behaves as told: three points, and the calibration that they make."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.measure.stub import Stub, serving
from tonnage.cli import root
from tonnage.errors import BadRequest
from tonnage.measure.quick import measure_quick, quick_specs


def test_three_points_of_a_server(tmp_path: Path) -> None:
    with serving(Stub(ttft_s=0.02, itl_s=0.004)) as url:
        found = measure_quick(quick_specs(url, "m", lengths=(50, 8), most=9, duration_s=30.0), tmp_path)
    assert [point.concurrency for point in found.points] == [1, 3, 9]
    assert all(point.completed == 6 * point.concurrency and not point.failed for point in found.points)
    assert len(list(tmp_path.glob("quick-*.jsonl"))) == 3


def test_it_calibrates_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TONNAGE_HISTORY", "off")
    with serving(Stub(ttft_s=0.05, itl_s=0.03)) as url:
        told = CliRunner().invoke(
            root,
            [
                "measure",
                "quick",
                url,
                "--model",
                "m",
                "--as",
                "meta-llama/Llama-3.1-8B-Instruct",
                "--accelerator",
                "L4",
                "--engine",
                "vllm",
                "--weights",
                "fp8",
                "--most",
                "2",
                "--isl",
                "64",
                "--osl",
                "8",
                "--time",
                "30 s",
                "--output",
                str(tmp_path),
                "--json",
            ],
        )
    assert told.exit_code == 0, told.output
    found = json.loads(told.output[told.output.index("{") :])
    assert found["calibration"]["points"] == 2 and found["after"] < found["before"]
    assert list((tmp_path / "home" / "tonnage" / "catalog").glob("calibration-l4*-vllm.toml"))


def test_too_short_a_time_is_refused() -> None:
    with pytest.raises(BadRequest, match="too short for three loads"):
        quick_specs("http://h/v1", "m", lengths=(64, 16), duration_s=5.0)
