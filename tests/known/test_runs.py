"""Published runs and servers, planned with their layout withheld: enough of them, found and about as fast."""

import csv
from pathlib import Path

from tools.known.runs import Planned, planned, planned_server, published_runs, published_servers, sum_of

PAGE = Path(__file__).parents[2] / "docs" / "known" / "planned-runs.csv"
RUNS = published_runs()
SERVERS = published_servers()


def test_a_hundred_runs_of_ten_sources_are_asked_about() -> None:
    assert len(RUNS) >= 100 and len({row.block for row, _, _ in RUNS}) >= 10


def test_every_fifth_is_planned_as_fast_as_published_and_as_predicted() -> None:
    found = [one for one in (planned(*run) for run in RUNS[::5]) if isinstance(one, Planned)]
    assert len(found) >= 0.9 * len(RUNS[::5])
    error, _, inside, fast = sum_of(found)
    assert error <= 0.15 and inside >= 0.9 and fast >= 0.9


def test_servers_are_planned_as_fast_as_their_own_layout_is_predicted() -> None:
    assert len(SERVERS) >= 100 and len({row.block for row, _, _ in SERVERS}) >= 4
    found = [one for one in (planned_server(*server) for server in SERVERS[::8]) if isinstance(one, Planned)]
    assert len(found) >= 0.9 * len(SERVERS[::8])
    _, _, inside, fast = sum_of(found)
    assert inside >= 0.75 and fast >= 0.9


def test_latent_attention_is_spread_over_ranks_of_a_rack() -> None:
    """DeepSeek-R1 on GB200: two and four ranks of TP were all that was looked at; DP4 EP4 is 2.3 times as fast."""
    found = next(planned_server(*server) for server in SERVERS if server[0].id == "TRTLLM-0844")
    assert isinstance(found, Planned) and " dp" in found.layout and found.planned > 0.8 * found.predicted


def test_experts_are_spread_where_the_software_does_it_without_a_pipeline() -> None:
    """DeepSeek-V3 under AutoModel on 1,024 H100 fits with experts over ranks alone, and ran at 865 tokens/s each."""
    found = next(planned(*run) for run in RUNS if run[0].id == "automodel-004")
    assert isinstance(found, Planned) and found.inside


def test_the_table_in_the_repository_is_of_these_runs() -> None:
    with PAGE.open(encoding="utf-8") as lines:
        kept = {line["row"] for line in csv.DictReader(lines)}
    asked = {row.id for row, *_ in (*RUNS, *SERVERS)}
    assert kept <= asked and len(kept) >= 0.95 * len(asked)
