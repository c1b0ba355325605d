"""The compare command: ways of one file, plans, simulations and cases of several, and files that do not match."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tests.command import told

ROOT = Path(__file__).parents[2]
WAYS = """
model: meta-llama/Llama-3.1-8B-Instruct
accelerator: H100
traffic: {profile: chat, rate: 5/s, requests: 500}
slo: {ttft: 1 s, tpot: 50 ms}
ways:
  as it is: {}
  one at a time: {engine_options: {max_num_seqs: 1}}
"""
CASES = [
    {
        "kind": "serve",
        "id": tp,
        "model": "13B",
        "accelerator": "H200",
        "traffic": {"concurrency": 8},
        "isl": 1024,
        "osl": 256,
        "layout": {"tp": int(tp)},
    }
    for tp in ("1", "2")
]


def run(*arguments: str, text: str | None = None) -> Result:
    return told("compare", *arguments, given=text)


def test_ways_as_a_table_as_json_and_as_a_picture(tmp_path: Path) -> None:
    page = tmp_path / "ways.html"
    done = run("-", "--plot", str(page), text=WAYS)
    assert done.exit_code == 0 and done.output.startswith(
        "2 configurations: as it is, one at a time\n\n  Best is as it is: 4."
    )
    assert "one at a time" in done.output and "p95 TTFT" in done.output
    assert "Latency of each way" in page.read_text(encoding="utf-8")
    found = json.loads(run("-", "--json", text=WAYS).output)
    assert found["schema"] == "tonnage.compare/1" and found["sides"] == ["as it is", "one at a time"]
    assert found["best"] == "as it is"


def test_two_plans(tmp_path: Path) -> None:
    paths = []
    for name in ("H100", "L40S"):
        paths.append(str(tmp_path / f"{name}.json"))
        asked = ["plan", "serve", "meta-llama/Llama-3.1-8B", "--rate", "4/s", "--traffic", "chat"]
        done = told(*asked, "--accelerator", name, "--output", paths[-1])
        assert done.exit_code == 0
    done = run(*paths, "--why")
    assert done.exit_code == 0 and "costs least: Rent" in " ".join(done.output.split())
    assert done.output.startswith("Llama 3.1 8B · 2 configurations: H100, L40S")
    assert "H100" in done.output and "L40S" in done.output and "cost of 1M output tokens" in done.output


def test_cases_in_lines_and_in_files(tmp_path: Path) -> None:
    lines = tmp_path / "cases.jsonl"
    lines.write_text("\n".join(json.dumps(case) for case in CASES))
    together = run(str(lines))
    assert together.exit_code == 0 and "\n  2 gives most output tokens" in together.output
    paths = []
    for i, case in enumerate(CASES):
        paths.append(str(tmp_path / f"{i}.json"))
        Path(paths[-1]).write_text(json.dumps(case), encoding="utf-8")
    assert run(*paths).output == together.output


def test_simulations_of_two_files_say_when_their_requests_differ(tmp_path: Path) -> None:
    base = WAYS.partition("ways:")[0]
    for name, text in (("a", base), ("b", base.replace("H100", "L40S")), ("c", base.replace("5/s", "6/s"))):
        (tmp_path / f"{name}.yaml").write_text(text)
    same, other = (run(str(tmp_path / "a.yaml"), str(tmp_path / f"{name}.yaml")) for name in "bc")
    assert same.exit_code == other.exit_code == 0
    assert "requests are not the same" not in same.output and "requests are not the same" in other.output


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"a.yaml": WAYS, "b.json": json.dumps(CASES[0])}, "case and simulation cannot be compared"),
        ({"b.json": json.dumps(CASES[0])}, "holds one case; name a second file"),
        ({"a.yaml": WAYS, "b.yaml": WAYS}, "holds ways of its own"),
        ({"a.jsonl": '{"kind": "serve"\n'}, "line 1"),
        ({"a.yaml": "ways: {a: {}}"}, "model is missing"),
        ({}, "does not exist"),
    ],
)
def test_files_that_do_not_match_are_one_sentence(tmp_path: Path, files: dict[str, Any], says: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = run(*(str(tmp_path / name) for name in files or ("none.yaml",)))
    assert done.exit_code == 2 and says in done.output and done.output.count("\n") == 1


def test_the_example_runs() -> None:
    done = run(str(ROOT / "examples/compare-batching.yaml"))
    assert done.exit_code == 0 and "apart" in done.output and "continuous" in done.output
