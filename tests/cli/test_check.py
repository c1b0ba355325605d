"""The check command: exit codes, Markdown, JSON."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tests.command import told as run

REQUEST = "plan: serve\nmodel: 8B\nrate: {rate}\ntraffic: chat\naccelerator: [L4, L40S]\nquick: true\n{more}"
TODAY = ("--today", "2026-11-21")


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plan of the request, and the request beside it."""
    folder = tmp_path_factory.mktemp("baseline")
    (folder / "request.yaml").write_text(REQUEST.format(rate="4/s", more=""))
    assert run("plan", str(folder / "request.yaml"), "-o", str(folder / "plan.json"), *TODAY).exit_code == 0
    return folder


@pytest.fixture
def folder(baseline: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(baseline, tmp_path / "checked"))


def checked(folder: Path, *more: str) -> Result:
    return run("check", str(folder / "request.yaml"), "--baseline", str(folder / "plan.json"), *TODAY, *more)


def test_unchanged_exits_zero(folder: Path) -> None:
    result = checked(folder, "--tolerance", "0%")
    assert result.exit_code == 0 and "Nothing moved" in result.stdout


def test_changed_exits_one_and_writes_a_comment(folder: Path) -> None:
    (folder / "request.yaml").write_text(REQUEST.format(rate="40/s", more=""))
    result = checked(folder, "--markdown", str(folder / "comment.md"))
    assert result.exit_code == 1 and result.stdout.startswith("Changed: ")
    comment = (folder / "comment.md").read_text()
    assert comment.startswith("### Tonnage: Changed: ") and "| accelerators |" in comment


def test_json_has_the_schema(folder: Path) -> None:
    answer = json.loads(checked(folder, "--json").stdout)
    assert answer["schema"] == "tonnage.check/1" and answer["changed"] is False and answer["feasible"] is True
    assert {"what", "before", "now"} <= set(answer["changes"][-1])


def test_infeasible_now_exits_three(folder: Path) -> None:
    (folder / "request.yaml").write_text(REQUEST.format(rate="4/s", more="tpot: 1us\n"))
    result = checked(folder)
    assert result.exit_code == 3 and "infeasible now" in result.stdout


@pytest.mark.parametrize(
    ("request_text", "more", "told"),
    [
        ("model: x\n", (), "does not say what to plan"),
        ("plan: sing\n", (), "no kind of plan"),
        ("plan: serve\n", (), "model is missing"),
        (None, ("--tolerance", "-5%"), "tolerance"),
        (None, ("--tolerance", "5 apples"), "apples"),
    ],
)
def test_mistakes_are_one_sentence(folder: Path, request_text: str | None, more: tuple[str, ...], told: str) -> None:
    if request_text is not None:
        (folder / "request.yaml").write_text(request_text)
    result = checked(folder, *more)
    assert result.exit_code == 2 and told in result.stderr and result.stderr.count("\n") == 1


def test_a_baseline_that_is_no_plan_is_told(folder: Path) -> None:
    (folder / "plan.json").write_text('{"schema": "tonnage.fit/1"}')
    result = checked(folder)
    assert result.exit_code == 2 and "tonnage.plan/2" in result.stderr


def edited(folder: Path, **changes: Any) -> Path:
    """The kept plan's first option with other values."""
    plan = json.loads((folder / "plan.json").read_text())
    plan["options"][0] |= changes
    (folder / "plan.json").write_text(json.dumps(plan))
    return folder


def costing(folder: Path, share: float, tolerance: float = 0.05) -> dict[str, Any]:
    """The check of a plan that cost that share of what it costs now."""
    cost = json.loads((folder / "plan.json").read_text())["options"][0]["cost"]
    edited(folder, cost={**cost, "value": share * cost["value"]})
    found: dict[str, Any] = json.loads(checked(folder, "--tolerance", str(tolerance), "--json").stdout)
    return found


@pytest.mark.parametrize(
    ("share", "tolerance", "worse"),
    [(1.0, 0.0, None), (1.0 / 1.049, 0.05, None), (1.0 / 1.051, 0.05, True), (1.0 / 0.951, 0.05, None),
     (1.0 / 0.949, 0.05, False), (1.0 / 1.49, 0.5, None), (1.0 / 1.51, 0.5, True), (2.0, 0.4, False)],
)  # fmt: skip
def test_a_move_counts_exactly_when_it_exceeds_the_tolerance_and_dearer_is_worse(
    folder: Path, share: float, tolerance: float, worse: bool | None
) -> None:
    found = costing(folder, share, tolerance)
    (cost,) = (change for change in found["changes"] if change["what"] == "cost")
    assert found["changed"] is cost.get("beyond", False) is (worse is not None) and cost.get("worse") is worse
    assert {"cost", "ttft", "tpot", "accelerators", "configuration"} <= {change["what"] for change in found["changes"]}


def test_another_accelerator_is_a_change_whatever_the_figures_say(folder: Path) -> None:
    run_on = json.loads((folder / "plan.json").read_text())["options"][0]["configuration"]
    edited(folder, configuration={**run_on, "accelerator": "h200-sxm-141gb"})
    found = json.loads(checked(folder, "--tolerance", "900%", "--json").stdout)
    assert [change["what"] for change in found["changes"] if change.get("beyond")] == ["configuration"]


def test_nothing_before_and_nothing_now_is_no_change(folder: Path) -> None:
    (folder / "request.yaml").write_text(REQUEST.format(rate="4/s", more="tpot: 1us\n"))
    run("plan", str(folder / "request.yaml"), "-o", str(folder / "plan.json"), *TODAY)
    found = json.loads(checked(folder, "--json").stdout)
    assert found["changed"] is False and found["feasible"] is False


def test_another_kind_is_refused(folder: Path) -> None:
    run("plan", "batch", "8B", "--items", "1k", "-a", "L4", "-o", str(folder / "plan.json"))
    result = checked(folder)
    assert result.exit_code == 2 and "answers another kind of question" in result.stderr


def test_markdown_holds_what_moved_and_no_markup_of_a_name(folder: Path) -> None:
    hostile = "x/<img src=x onerror=alert(1)>|[a](b) # title @team"
    option = json.loads((folder / "plan.json").read_text())["options"][0]
    cost, run_on = option["cost"], {**option["configuration"], "accelerator": hostile}
    edited(folder, cost={**cost, "value": cost["value"] / 1.238}, configuration=run_on)
    checked(folder, "--markdown", str(folder / "comment.md"))
    text = (folder / "comment.md").read_text()
    assert "**+23.8 %**" in text and "title" in text
    assert "<img" not in text and "[a](b)" not in text and "@team" not in text and "\n# title" not in text
    assert text.count("|---|---|---|---|") == 2
