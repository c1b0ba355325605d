"""Cases of reinforcement learning on the command line: predict, simulate, explain, near."""

import json
from pathlib import Path

import pytest
from tests.command import told

import tonnage
from tonnage.errors import BadRequest

CASE = {
    "kind": "rl", "model": "llama-3.1-8b", "accelerator": "h100-sxm5-80gb", "count": 16, "prompts_per_step": 32,
    "responses_per_prompt": 8, "prompt_tokens": 200, "response_tokens": 1500, "max_response_tokens": 4096,
    "rollout_layout": {"tp": 2}, "train_layout": {"tp": 2, "pp": 1},
}  # fmt: skip


def test_predict_and_simulate_answer_the_same_case(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text(json.dumps(CASE), encoding="utf-8")
    predicted = told("predict", "--json", str(path))
    simulated = told("simulate", "--json", str(path))
    assert predicted.exit_code == simulated.exit_code == 0
    assert json.loads(predicted.output) == json.loads(simulated.output)
    shown = told("simulate", "--why", str(path))
    assert "fits" in shown.output and "decoding of stragglers" in shown.output


def test_what_contradicts_or_does_not_fit_ends_so(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text(json.dumps(CASE | {"staleness": 1}), encoding="utf-8")
    refused = told("simulate", str(path))
    assert refused.exit_code == 2 and "needs accelerators that only generate" in refused.output
    path.write_text(json.dumps(CASE | {"model": "llama-3.1-70b", "count": 4}), encoding="utf-8")
    assert told("simulate", str(path)).exit_code == 3


def test_what_is_not_opened_says_so() -> None:
    with pytest.raises(BadRequest, match="opened by"):
        tonnage.explain(CASE)
    with pytest.raises(BadRequest, match="no published steps"):
        tonnage.near(CASE)
