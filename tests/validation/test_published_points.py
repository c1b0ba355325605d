"""What published rows teach of each other, on numbers made up so that the answer is known."""

from pathlib import Path

import pytest

from tonnage_accuracy.published_points import MOST, PublishedNumber, published_numbers, taught_lines
from tonnage_accuracy.rows import read_rows
from tonnage_accuracy.scoring import score

ROOT = Path(__file__).parents[2]


def number(name: str, left: float, *, run: str = "r", publisher: str = "p", load: float = 8.0) -> PublishedNumber:
    return PublishedNumber(
        id=name,
        quantity="tpot_s",
        model="m",
        stack=("part", "engine"),
        setting="1.0 fp8 bf16",
        place=(load, 1000.0, 200.0, 1.0, 1.0, 1.0, 1.0),
        publisher=publisher,
        run=(publisher, run),
        left={"nothing": 0.0, "family": left, "source": left},
    )


def by_left_out(*numbers: PublishedNumber) -> dict[str, tuple[float, float, int]]:
    return {line.left_out: (line.before, line.after, line.taught) for line in taught_lines(numbers)}


def test_rows_of_one_run_teach_each_other_and_nothing_is_left_without_the_run() -> None:
    """All three are a fifth slower than predicted: two say most of it of the third."""
    found = by_left_out(*(number(f"row {load}", 0.2, load=load) for load in (4.0, 8.0, 16.0)))
    assert found["row"][1] < 0.4 * found["row"][0] and found["row"][2] == 3
    for kind in ("run", "stack", "family", "source"):
        assert found[kind][0] == found[kind][1] and found[kind][2] == 0


def test_another_run_teaches_until_its_publisher_is_left_out_too() -> None:
    found = by_left_out(number("a", 0.2, run="r1"), number("b", 0.2, run="r2"))
    assert found["run"][1] < 0.6 * found["run"][0] and found["source"][2] == 0
    contrary = by_left_out(number("a", 0.2, publisher="p"), number("b", -0.2, publisher="q"))
    assert contrary["source"][2] == 2 and contrary["source"][1] > 1.2 * contrary["source"][0], "harm is shown"


def test_a_point_never_predicts_itself() -> None:
    far = by_left_out(number("a", 1.0), number("b", 0.0))
    before, after, _ = far["row"]
    assert before == pytest.approx(0.5 * (1.0 - 2.718281828**-1.0), abs=0.01) and after > before


def test_numbers_of_real_rows_lie_where_the_product_asks() -> None:
    """At most sixteen rows of a run count, each with its place and what fits without its family leave."""
    path = ROOT / "measurements" / "serving_silicon.csv.gz"
    whole = [row for row in read_rows(path) if row.usable and row.cells.get("disaggregated") != "1"]
    rows = [row for row in whole if row.cells["model_id"] == "Qwen/Qwen3-32B"][:18]
    numbers = list(published_numbers(rows, score(rows), root=ROOT))
    assert numbers and all(len(one.place) == 7 and set(one.left) == {"nothing", "family", "source"} for one in numbers)
    assert {one.quantity for one in numbers} <= {"tpot_s", "ttft_s", "output_tokens_per_s"}
    by_run = {run: {one.id for one in numbers if one.run == run} for run in {one.run for one in numbers}}
    assert max(map(len, by_run.values())) <= MOST
