"""The check command: exit codes, Markdown, JSON."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tonnage.cli import root

REQUEST = "plan: serve\nmodel: 8B\nrate: {rate}\ntraffic: chat\naccelerator: [L4, L40S]\nquick: true\n{more}"
TODAY = ("--today", "2026-11-21")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(root, arguments, prog_name="tonnage")


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
