"""The cost command: sentence first, JSON whole, exit codes kept."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from tests.command import told as answer_of

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*arguments: str) -> Result:
    return answer_of("cost", "rent-or-buy", *arguments, "--today", "2026-11-21", width=80)


def test_answers_in_a_sentence_and_opens_everything() -> None:
    result = run("H100", "--why")
    assert result.exit_code == 0 and result.output.startswith("rent or buy 8 x NVIDIA H100 SXM5 80 GB")
    assert "Rent   Verda" in result.output and "likely to be cheaper" in result.output
    for title in ("Where the money of owning goes", "What decides it", "What the rules of thumb become", "--interest"):
        assert title in result.output


def test_json_has_the_schema_and_every_price() -> None:
    answer = json.loads(run("H100", "--json").output)
    assert answer["schema"] == "tonnage.cost/1" and answer["kind"] == "rent-or-buy"
    assert {"owning", "rents", "tornado", "claims", "inputs"} <= set(answer)
    assert all(given["source"] for given in answer["inputs"])


def test_a_file_and_flags_give_the_same_answer(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("cost: rent-or-buy\nmachine: H200\nutilisation: 55 %\ninterest: 6 %\n")
    by_file = run("--file", str(path), "--json").output
    assert by_file == run("H200", "--utilisation", "55 %", "--interest", "6 %", "--json").output
    assert by_file != run("--file", str(path), "--interest", "9 %", "--json").output  # a flag wins over the file


def test_a_request_file_may_stand_where_the_machine_does() -> None:
    path = str(EXAMPLES / "rent-or-buy.yaml")
    assert run(path, "--json").output == run("--file", path, "--json").output


def test_nothing_to_compare_exits_three() -> None:
    result = run("dgx-spark")
    assert result.exit_code == 3 and "no price to compare" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["H100", "--utilisation", "0"], "utilisation"),
        (["nonsense"], "no machine"),
        (["H100", "--power", "700"], "no unit"),
        (["H100", "--powr", "700 W"], "did you mean '--power'"),
    ],
)
def test_a_mistake_is_one_sentence_and_code_two(arguments: list[str], told: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2 and told in result.output and "Traceback" not in result.output


def test_the_start_up_of_the_examples_is_told_what_decides() -> None:
    """Eight H100 at work in under half of their hours: rent from the cheapest, own rather than a hyperscaler's."""
    answer = json.loads(run("--file", str(EXAMPLES / "rent-or-buy.yaml"), "--json").output)
    rents = [rent for rent in answer["rents"] if rent["term"] == "on-demand"]
    by_price = sorted(rents, key=lambda rent: float(rent["usd_per_accelerator_hour"]))
    assert answer["sentence"].startswith("Rent")
    assert not by_price[0].get("owning_wins") and by_price[0]["break_even_utilisation"] > 0.45
    assert by_price[-1]["kind"] == "hyperscaler" and by_price[-1]["owning_wins"]
    told = sum(part["value"] for part in answer["owning"]["parts"])
    assert answer["owning"]["value"] == pytest.approx(told)
