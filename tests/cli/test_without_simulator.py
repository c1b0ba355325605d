"""An installation without numba answers everything but simulations, and says what is missing in one sentence."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BY_AVERAGES = (
    "not simulated, for numba is not installed: ranked by averages, as --quick does; pip install 'tonnage[simulate]'"
)
EXAMPLES = Path(__file__).parents[2] / "examples"
ASKED = "plan serve meta-llama/Llama-3.1-8B-Instruct --rate 2/s --traffic chat --ttft 1s --accelerator h100"
COMMANDS = {
    "fit": "fit meta-llama/Llama-3.1-8B-Instruct --accelerator h100",
    "quick": f"{ASKED} --quick --json",
    "plan": f"{ASKED} --json",
    "screen": ASKED,
    "pools": f"{ASKED} --quick --pools --json",
    "fleet": f"plan {EXAMPLES / 'fleet-slices.yaml'} --json",
    "train": f"plan {EXAMPLES / 'lora-7b.yaml'} --json",
    "catalog": "catalog accelerators",
    "cost": f"cost rent-or-buy --file {EXAMPLES / 'rent-or-buy.yaml'}",
    "simulate": f"simulate {EXAMPLES / 'simulate-chat-8b.yaml'}",
}
PROGRAM = """
import json, sys
sys.modules["numba"] = sys.modules["llvmlite"] = None  # as if they were not installed
from click.testing import CliRunner
from tonnage.cli import root

found = {}
for name, command in json.load(sys.stdin).items():
    run = CliRunner().invoke(root, command.split())
    found[name] = {"code": run.exit_code, "out": run.stdout, "err": run.stderr}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Any]]:
    """Every command in one process that finds no numba."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(COMMANDS),
        env={**os.environ, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "simulate"])
def test_every_other_question_is_answered(answers: dict[str, dict[str, Any]], name: str) -> None:
    found = answers[name]
    assert found["code"] == 0, found["err"] or found["out"]


def test_a_plan_is_the_quick_one_and_says_so(answers: dict[str, dict[str, Any]]) -> None:
    plan, quick = json.loads(answers["plan"]["out"]), json.loads(answers["quick"]["out"])
    assert plan["options"] == quick["options"]
    assert plan["provenance"]["assumed"][0] == BY_AVERAGES
    assert BY_AVERAGES not in quick["provenance"]["assumed"]  # it was not to be simulated
    assert "quick" not in plan["request"]  # as it was asked
    assert "pip install 'tonnage[simulate]'" in " ".join(answers["screen"]["out"].split())


def test_what_needs_a_simulation_to_be_answered_at_all_is_left_out_and_said(answers: dict[str, dict[str, Any]]) -> None:
    plan = json.loads(answers["pools"]["out"])
    assert "pools" not in plan
    assert BY_AVERAGES in plan["provenance"]["assumed"]


def test_a_simulation_names_the_extra(answers: dict[str, dict[str, Any]]) -> None:
    assert answers["simulate"]["code"] == 2
    sentence = "tonnage: the simulator is not installed: pip install 'tonnage[simulate]' brings it\n"
    assert answers["simulate"]["err"] == sentence
