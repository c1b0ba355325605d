"""`tonnage local` from a terminal: one screen, JSON, exit codes, sentences."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tonnage.cli import root

DATA = Path(__file__).parents[1] / "data" / "machine"


def run(*args: str) -> Result:
    return CliRunner().invoke(root, ["local", *args], env={"COLUMNS": "100"})


@pytest.mark.parametrize("name", ["RTX 4090", "M4 Max 64GB", "CPU", "RTX 3060", "Ryzen AI Max 395", "2 x RTX 3090"])
def test_the_first_screen_is_24_lines_of_100_columns(name: str) -> None:
    found = run("-a", name)
    assert found.exit_code == 0, found.output
    lines = found.output.rstrip().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100
    assert "llama-server -hf " in found.output


def test_json_holds_rows_with_intervals() -> None:
    answer = json.loads(run("-a", "RTX 4090", "--json").output)
    row = answer["rows"][0]
    assert row["decode_per_s"]["low"] < row["decode_per_s"]["value"] < row["decode_per_s"]["high"]
    assert answer["device"] == "rtx-4090"


@pytest.mark.parametrize(
    "file", ["nvidia-smi.xml", "nvidia-smi.csv", "rocm-smi.json", "system_profiler.json", "sinfo.txt"]
)
def test_a_recorded_output_is_a_machine(file: str) -> None:
    found = run("--from", str(DATA / file))
    assert found.exit_code == 0, found.output


def test_this_machine_is_an_answer() -> None:
    found = run()
    assert found.exit_code in (0, 3) or "--accelerator" in found.stderr


def test_a_machine_too_small_is_infeasible() -> None:
    found = run("-a", "GTX 1660", "--memory", "6 GB", "--model", "gpt-oss-120b")
    assert found.exit_code == 3
    assert "None of 1" in found.output


def test_a_name_nobody_knows_is_one_sentence() -> None:
    found = run("-a", "RTX 40900")
    assert found.exit_code == 2
    assert "rtx-4090" in found.stderr
    assert len(found.stderr.splitlines()) == 1
