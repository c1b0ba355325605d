"""An accelerator of the user's own is named like any other, in every kind of plan and prediction."""

from pathlib import Path

import pytest
from tests.command import told

CARD = """
[[accelerator]]
id = "my-card"
name = "My card"
segment = "workstation"
architecture = "cuda"
memory = "48 GiB"
memory_bw = "900 GB/s"
peak.fp32 = "50 TFLOP/s"
peak.bf16 = "150 TFLOP/s"
source = "its maker"
checked = "2026-11-23"
"""
MODEL = "meta-llama/Llama-3.2-1B"


@pytest.mark.parametrize(
    "asked",
    [
        ["plan", "serve", MODEL, "--rate", "1/s", "--engine", "llamacpp"],
        ["plan", "batch", MODEL, "--items", "1000", "--engine", "llamacpp"],
        ["plan", "finetune", MODEL, "--method", "lora", "--tokens", "1M"],
        ["plan", "train", MODEL, "--tokens", "1M"],
    ],
)
def test_a_plan_takes_it(asked: list[str], tmp_path: Path) -> None:
    (tmp_path / "card.toml").write_text(CARD)
    owned = ["-a", "my-card", "--price", "my-card=$1/h", "--additions", str(tmp_path / "card.toml")]
    done = told(*asked, *owned)
    assert done.exit_code == 0, done.output
    assert "my-card" in done.output
