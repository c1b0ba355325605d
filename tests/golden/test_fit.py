"""Whole answers of `tonnage fit`; a change that moves one says why."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from tests.conftest import Golden

from tonnage.cli import root

ANSWERS = {
    "fit-8b-h100.txt": ("meta-llama/Llama-3.1-8B-Instruct", "-a", "h100-sxm5-80gb", "--engine-version", "0.19"),
    "fit-70b-fp8-tp2.txt": (
        "meta-llama/Llama-3.1-70B-Instruct", "-a", "h100-sxm5-80gb", "--tp", "2", "--precision", "fp8",
        "--concurrency", "64", "--engine-version", "0.19",
    ),
    "fit-deepseek-v3.txt": (
        "deepseek-ai/DeepSeek-V3", "-a", "h200-sxm-141gb", "--dp", "8", "--ep", "8", "--engine", "sglang",
        "--engine-version", "0.5.8",
    ),
    "fit-gguf-llamacpp.txt": (
        "meta-llama/Llama-3.1-8B-Instruct", "-a", "rtx-4090", "--engine", "llamacpp", "--precision", "gguf-q4_k_m",
        "--context", "32k",
    ),
    "fit-smallest-8b.txt": ("meta-llama/Llama-3.1-8B-Instruct", "--precision", "fp8", "--engine-version", "0.19"),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_fit_answers(name: str, golden: Golden) -> None:
    result = CliRunner().invoke(root, ["fit", *ANSWERS[name], "--offline"], prog_name="tonnage")
    assert result.exit_code in {0, 3}, result.stderr
    golden.check(name, "\n".join(line.rstrip() for line in result.stdout.splitlines()) + "\n")
