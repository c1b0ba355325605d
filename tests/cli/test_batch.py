"""`tonnage plan batch`: file and flags agree, plans can be explained, exit codes kept."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from tonnage.cli import root

ROOT = Path(__file__).parents[2]
BATCH = [
    "plan", "batch", "meta-llama/Llama-3.1-8B-Instruct", "--items", "50M", "--prompt-tokens", "800",
    "--output-tokens", "150", "--deadline", "8 h", "--max-accelerators", "64",
]  # fmt: skip
TODAY = ["--today", "2026-11-21"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(root, list(arguments))


def test_the_example_and_the_flags_give_the_same_plan() -> None:
    by_file = run("plan", str(ROOT / "examples" / "nightly-batch.yaml"), "--json", *TODAY)
    by_flags = run(*BATCH, "--json", *TODAY)
    assert by_file.exit_code == 0 and by_file.output == by_flags.output
    plan = json.loads(by_file.output)
    assert plan["schema"] == "tonnage.plan/1" and plan["kind"] == "batch"


def test_answers_in_a_sentence_then_tables_then_reasons() -> None:
    result = run(*BATCH, *TODAY)
    assert result.exit_code == 0 and result.output.startswith("Rent ")
    for title in ("What haste costs", "Spot or on-demand?", "Why this one", "Taken as given"):
        assert title in result.output


def test_explain_opens_a_written_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    assert run(*BATCH, "-o", str(path), *TODAY).exit_code == 0
    result = run("explain", str(path))
    assert result.exit_code == 0
    for title in ("Cost of the job", "Memory of one accelerator", "Electricity and carbon", "billing:"):
        assert title in result.output
    assert run("explain", str(path), "--option", "999").exit_code == 2


def test_what_cannot_be_done_exits_three_and_bad_requests_two() -> None:
    late = run(*BATCH, "--deadline", "15 min", *TODAY)
    assert late.exit_code == 3 and "Nearest: deadline" in late.output
    assert run(*BATCH, "--deadline", "8", *TODAY).exit_code == 2
    assert run("plan", "batch", "13B", *TODAY).exit_code == 2
