"""What watches a plan that runs: its own limits, the engine's documented names, and no name of a plan file."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from tests.asked import Refused
from tests.export.plans import CASES, WATCHED, exported, plan
from tests.export.test_hostile import HOSTILE, NAMES

from tonnage.engines.registry import metrics_of

ENGINES = ("vllm", "sglang", "trtllm", "llamacpp")


def rules_file(model: str = "meta-llama/Llama-3.1-70B-Instruct", **changes: Any) -> str:
    return exported(plan(model, **{**WATCHED, **changes}), "prometheus")["tonnage.rules.yaml"]


def rules(**changes: Any) -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load(rules_file(**changes))["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def dashboard(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(exported(plan(**{**WATCHED, **changes}), "grafana")["dashboard.json"])
    return found


def expressions(**changes: Any) -> list[str]:
    panels = dashboard(**changes)["panels"]
    queried = [target["expr"] for panel in panels for target in panel["targets"]]
    return [*(rule["expr"] for rule in rules(**changes).values()), *queried]


def test_limits_are_the_plans_own() -> None:
    found = rules()
    assert found["TonnageTTFTOverObjective"]["expr"].endswith(" > 0.8")
    assert found["TonnageTPOTOverObjective"]["expr"].endswith(" > 0.05")
    assert found["TonnageLoadOverCapacity"]["expr"].endswith(" > 18"), "three replicas of six requests a second"
    assert found["TonnageLoadOverPlan"]["expr"].endswith(" > 4")
    assert found["TonnageReplicasMissing"]["expr"].endswith(" < 3")
    steps = [panel["fieldConfig"]["defaults"]["thresholds"]["steps"][-1]["value"] for panel in dashboard()["panels"]]
    assert {0.8, 0.05, 20.0, 18.0} <= set(steps)


def test_a_prediction_that_ends_below_the_objective_warns_before() -> None:
    made = plan(**WATCHED)
    made["options"][0]["capacity"]["ttft_s"] = {"value": 0.4, "unit": "s", "low": 0.3, "high": 0.6}
    text = exported(made, "prometheus")["tonnage.rules.yaml"]
    assert "TonnageTTFTBeyondPrediction" in text and "> 0.6" in text
    assert "TonnageTPOTBeyondPrediction" not in text, "it has no interval"


@pytest.mark.parametrize("engine", ENGINES)
def test_expressions_ask_for_names_that_the_engine_documents(engine: str) -> None:
    page = metrics_of(engine)
    known = {name + end for one in page.series.values() for name in one.names for end in ("", "_bucket")} | {"up"}
    for expression in expressions(name=engine):
        asked = set(re.findall(r"([a-zA-Z_:][\w:]*)\{", expression))
        assert asked <= known and (asked or expression.startswith("vector(")), expression


@pytest.mark.parametrize("engine", ENGINES)
def test_a_comparison_holds_for_every_spelling_of_a_series(engine: str) -> None:
    """`a or b > 1` compares b alone, so each side of a comparison is one term in parentheses."""
    for alert, rule in rules(name=engine).items():
        left, _, right = re.split(r" ([<>]) ", rule["expr"], maxsplit=1)
        for side in (left, right):
            depth, outside = 0, ""
            for character in side:
                depth += (character == "(") - (character == ")")
                outside += character if depth == 0 else ""
            assert depth == 0 and " or " not in outside, alert


def test_what_an_engine_does_not_state_is_said() -> None:
    text = rules_file(name="llamacpp")
    assert "# TTFT: llama.cpp states none" in text and "TonnageTTFT" not in text
    assert "TPOT mean" in text and "tokens_predicted_seconds_total" in text and "--metrics" in text
    assert "states no TTFT, E2E" in dashboard(name="llamacpp")["description"]


def test_an_engine_without_a_page_is_refused_with_the_reason() -> None:
    for target in ("prometheus", "grafana"):
        with pytest.raises(Refused, match="no documented metrics page"):
            exported(plan(**WATCHED, name="hf"), target)


@settings(max_examples=150)
@given(NAMES)
def test_no_name_reaches_an_expression_or_a_template(model: str) -> None:
    try:
        made = plan(model, provider=model, region=model, instance_type=model, **WATCHED)
        text = exported(made, "prometheus")["tonnage.rules.yaml"]
        shown = json.loads(exported(made, "grafana")["dashboard.json"])
    except Refused:
        return
    assert all(line.startswith("#") for line in text.split("groups:\n")[0].splitlines())
    (group,) = yaml.safe_load(text)["groups"]
    job = group["name"].removeprefix("tonnage-")
    assert re.fullmatch(r"[a-z0-9-]*", job)
    plain = rules()
    for rule in group["rules"]:
        like = json.dumps(plain[rule["alert"]]).replace("llama-3-1-70b-instruct", job)
        assert json.dumps(rule) == like, "it differs from another plan's by the job alone"
    expected = json.dumps(dashboard()).replace("llama-3-1-70b-instruct", job)
    shown["uid"] = json.loads(expected)["uid"] = ""
    told = json.loads(expected)
    told["uid"] = ""
    assert shown == told


@pytest.mark.parametrize("model", HOSTILE[:4])
def test_promtool_reads_the_rules_where_it_is_installed(model: str, tmp_path: Path) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed")
    (tmp_path / "rules.yaml").write_text(rules_file(model))
    subprocess.run([program, "check", "rules", "rules.yaml"], cwd=tmp_path, check=True, capture_output=True)


def test_every_engine_with_a_page_has_a_case() -> None:
    assert {changes.get("name", "vllm") for target, changes in CASES.values() if target == "prometheus"} == set(ENGINES)
