"""What is worth measuring before a plan is bought: only what may change the choice, the most telling first."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command import told

import tonnage

Plan = dict[str, Any]
MODEL = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.fixture(scope="module")
def plan() -> Plan:
    some = ["h200-sxm-141gb", "h100-sxm5-80gb", "l40s", "rtx-pro-6000-bw-server"]
    limits = {"ttft": "500 ms", "tpot": "40 ms"}
    made = tonnage.plan_serve(MODEL, rate="20/s", traffic="chat", **limits, quick=True, accelerator=some)
    return {"kind": "serve", **tonnage.to_dict(made)}


@pytest.fixture
def worth(tmp_path: Path) -> Callable[[Plan], Any]:
    """What is worth measuring of a plan."""

    def measured(plan: Plan) -> Any:
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        done = told("measure", "plan", tmp_path / "plan.json", "--json")
        return json.loads(done.stdout) if done.exit_code == 0 else done.output

    return measured


def test_each_proposal_raises_the_chance(plan: Plan, worth: Callable[[Plan], Any]) -> None:
    found = worth(plan)
    chances = [found["sure_now"], *(proposal["sure_after"] for proposal in found["proposals"])]
    assert 0 < len(found["proposals"]) <= 3
    assert all(later - earlier >= 0.01 for earlier, later in itertools.pairwise(chances))
    for proposal in found["proposals"]:
        option = plan["options"][proposal["option"]]
        assert proposal["accelerator"] == option["configuration"]["accelerator"] and proposal["usd"] > 0
        assert proposal["loads"] == sorted(proposal["loads"]) and proposal["loads"][0] == 1.0


def test_nothing_is_proposed_where_nothing_competes(plan: Plan, worth: Callable[[Plan], Any]) -> None:
    alone = worth({**plan, "options": plan["options"][:1]})
    assert not alone.get("proposals") and "no measurement" in alone["sentence"]
    assert "no options" in worth({**plan, "options": []})


def test_what_is_known_exactly_is_not_measured(plan: Plan, worth: Callable[[Plan], Any]) -> None:
    def sharp(capacity: Plan) -> Plan:
        ends = {name: {"low": 0.999 * capacity[name]["value"], "high": 1.001 * capacity[name]["value"]}
                for name in ("max_rate_per_s", "tpot_s", "ttft_s")}  # fmt: skip
        return {**capacity, **{name: {**capacity[name], **each} for name, each in ends.items()}}

    options = [{**option, "capacity": sharp(option["capacity"])} for option in plan["options"]]
    found = worth({**plan, "options": options})
    assert found["sure_now"] > 0.97 and not found.get("proposals")


def test_the_command(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    said = told("measure", "plan", tmp_path / "plan.json")
    assert said.exit_code == 0 and "then right" in said.output and "chance of" in said.output
    machine = json.loads(told("measure", "plan", tmp_path / "plan.json", "--json").output)
    assert machine["schema"] == "tonnage.measure_plan/1"
