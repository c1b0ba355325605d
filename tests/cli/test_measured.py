"""Measurements kept in the user's folder: a line of every first screen that they moved, and `--calibration none`."""

from pathlib import Path

import click
import pytest
from tests.command import told

from tonnage.cli import root

OTHER = "Qwen/Qwen3-8B"
OWN = """
[[calibration]]
schema = "tonnage.calibration/3"
accelerator = "h100-sxm5-80gb"
engine = "vllm"
engine_version = "0.27"
date = "2026-11-20"
machine = ""
models = ["meta-llama/Meta-Llama-3.1-8B"]
points = 3
memory = 1.3
attention = 1
compute = 1.2
links = 1
host = 1
step = "5000 us"
request = "0 us"
carried = 0.5
"""
"""Longer than the catalogue has it on four ranks."""
BATCH = ["plan", "batch", OTHER, "--items", "100k", "--prompt-tokens", "400", "--output-tokens", "60"]
RL = ["plan", "rl", OTHER, "--steps", "50", "--prompts-per-step", "16", "--responses-per-prompt", "8",
      "--response-tokens", "1000", "--count", "8"]  # fmt: skip
TAKEN = (
    *(f"plan {kind}" for kind in ("serve", "batch", "train", "finetune", "rl", "lifecycle", "fleet", "own", "budget")),
    "predict", "simulate", "compare", "explain", "local", "adopt", "advise", "diagnose", "check", "verify", "sweep",
    "web", "mcp",
)  # fmt: skip


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with measurements of another model on H100 under vLLM."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "tonnage" / "catalog" / "calibration-h100-sxm5-80gb-vllm.toml"
    path.parent.mkdir(parents=True)
    path.write_text(OWN, encoding="utf-8")
    return path


def said(*words: str) -> str:
    found = told(*words)
    assert found.exit_code == 0, found.output
    return " ".join(found.output.split())


@pytest.mark.parametrize("command", [BATCH, RL])
def test_another_model_of_the_stack_is_moved_and_the_first_screen_says_so(command: list[str], kept: Path) -> None:
    asked = (*command, "-a", "H100", "--today", "2026-11-23")
    moved, left_out = said(*asked), said(*asked, "--calibration", "none")
    assert "Your measurements: TPOT x1." in moved
    assert "(H100 SXM5 80 GB, vLLM 0.27, 3 points with Llama 3.1 8B of 2026-11-20). --calibration none" in moved
    kept.unlink()
    assert left_out == said(*asked) and "measurements:" not in left_out
    assert moved != left_out


def test_measurements_of_another_part_are_not_named(kept: Path) -> None:
    assert "measurements:" not in said(*BATCH, "-a", "L40S")


def test_the_reasons_list_all_that_is_known_of_them(kept: Path) -> None:
    why = said(*BATCH, "-a", "H100", "--why")
    assert "output tokens/s x0." in why and "50 %" in why and kept.name[:12] in why


def test_published_rows_are_named_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    words = ("plan", "serve", "deepseek-ai/DeepSeek-R1", "--rate", "1/s", "--traffic", "chat", "-a", "H200", "--quick",
             "--engine", "sglang")  # fmt: skip
    assert "Published measurements: " in said(*words, "--calibration", "published")
    assert "measurements:" not in said(*words)


@pytest.mark.parametrize("name", TAKEN)
def test_every_command_whose_answer_rests_on_them_takes_the_option(name: str) -> None:
    command: click.Command = root
    for word in name.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    options = {spelt for option in command.params for spelt in option.opts}
    assert {"--calibration", "--additions"} <= options
