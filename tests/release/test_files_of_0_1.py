"""Files that 0.1 wrote open, are carried on with, and its plans of each kind are made again."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import Result
from tests.command import told
from tests.sweeps import FULL

DATA = Path(__file__).parents[1] / "data"
OLD = DATA / "release-0.1"
PLANS = sorted((DATA / "schema1").glob("*.json"))
FEW = {"infer", "serve-infeasible"}  # test_verify.py takes serve and train
AGAIN = [path for path in PLANS if FULL or path.stem in FEW]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with copies, for opening a store may write to it."""
    shutil.copytree(OLD, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("TONNAGE_HISTORY", str(tmp_path / "history.sqlite"))
    return tmp_path


def run(*arguments: str) -> Result:
    done = told(*arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_a_history_opens_with_every_figure_and_takes_more(desk: Path) -> None:
    listed = json.loads(run("history", "list", "--json").stdout)["entries"]
    assert sorted(row["kind"] for row in listed) == ["serve", "serve", "train"]
    exported = run("history", "export")
    assert exported.exit_code == 0 and len(exported.stdout.splitlines()) == 3
    imported = json.loads(run("measure", "import", str(DATA / "measure" / "vllm_bench_0.32.0.json"), "--json").stdout)
    kept = json.loads(run("history", "show", "1", "--json").stdout)
    assert kept["points"] == imported["points"]
    run("measure", "import", str(DATA / "measure" / "aiperf_0.13.0.json"))
    assert len(json.loads(run("history", "list", "--json").stdout)["entries"]) == 4


@pytest.mark.parametrize("name", ["sweep-fit", "sweep-plan"])
def test_a_sweep_asks_nothing_again_and_shows_the_same_table(name: str, desk: Path) -> None:
    done = run("sweep", str(desk / f"{name}.yaml"), "--workers", "1", "-o", str(desk / "again.csv"))
    assert done.exit_code == 0 and " 0 asked now" in done.output
    assert (desk / "again.csv").read_text(encoding="utf-8") == (OLD / f"{name}.csv").read_text(encoding="utf-8")


def test_a_sweep_goes_on_with_what_is_new(desk: Path) -> None:
    path = desk / "sweep-fit.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("32k]", "32k, 64k]"), encoding="utf-8")
    assert "6 points, 2 asked now" in run("sweep", str(path), "--workers", "1", "-o", str(desk / "more.csv")).output


@pytest.mark.parametrize("path", AGAIN, ids=lambda path: path.stem)
def test_a_plan_is_made_again_from_its_own_request(path: Path) -> None:
    done = run("verify", str(path), "--json")
    found = json.loads(done.stdout)
    assert done.exit_code == 1 and not found["same"]  # formulas moved since, and it does not say its data
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert found["version_before"] == "0.1.0" and found["question"]
    moved = {where for where, _, _ in found["first"]}
    assert "kind" not in moved and not any(where.startswith("request") for where in moved)
    assert kept["kind"] in path.stem
