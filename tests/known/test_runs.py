"""Published training runs, planned with their layout withheld: enough of them, found and about as fast."""

import csv
from pathlib import Path

from tools.known.runs import Planned, planned, published_runs, sum_of

PAGE = Path(__file__).parents[2] / "docs" / "known" / "planned-runs.csv"
RUNS = published_runs()


def test_a_hundred_runs_of_ten_sources_are_asked_about() -> None:
    assert len(RUNS) >= 100 and len({row.block for row, _, _ in RUNS}) >= 10


def test_every_fifth_is_planned_as_fast_as_published_and_as_predicted() -> None:
    found = [one for one in (planned(*run) for run in RUNS[::5]) if isinstance(one, Planned)]
    assert len(found) >= 0.9 * len(RUNS[::5])
    error, _, inside, fast = sum_of(found)
    assert error <= 0.15 and inside >= 0.9 and fast >= 0.9


def test_experts_are_spread_where_the_software_does_it_without_a_pipeline() -> None:
    """DeepSeek-V3 under AutoModel on 1,024 H100 fits with experts over ranks alone, and ran at 865 tokens/s each."""
    found = next(planned(*run) for run in RUNS if run[0].id == "automodel-004")
    assert isinstance(found, Planned) and found.inside


def test_the_table_in_the_repository_is_of_these_runs() -> None:
    with PAGE.open(encoding="utf-8") as lines:
        kept = {line["row"] for line in csv.DictReader(lines)}
    assert kept <= {row.id for row, _, _ in RUNS} and len(kept) >= 0.95 * len(RUNS)
