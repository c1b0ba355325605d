"""Reports of other tools come out in our definitions."""

import json
from pathlib import Path

import msgspec
import pytest

from tonnage.errors import BadFact
from tonnage.measure.importers import read_report

DATA = Path(__file__).parents[1] / "data" / "measure"


def test_guidellm_tpot_is_what_it_calls_inter_token_latency() -> None:
    path = DATA / "guidellm_0.8.1.json"
    found = read_report(path)
    assert (found.tool, found.tool_version, found.model) == ("guidellm", "0.8.1", "tiny")
    assert [point.concurrency for point in found.points] == [1, 4]
    theirs = json.loads(path.read_bytes())["benchmarks"][1]["metrics"]
    point = found.points[1]
    assert point.completed == 308
    assert point.tpot_s.mean == pytest.approx(theirs["inter_token_latency_ms"]["successful"]["mean"] / 1e3)
    assert point.tpot_s.mean < theirs["time_per_output_token_ms"]["successful"]["mean"] / 1e3
    assert point.e2e_s.p95 == pytest.approx(theirs["request_latency"]["successful"]["percentiles"]["p95"])
    assert point.ttft_s.p99 == pytest.approx(0.028, rel=0.01)
    assert point.itl_s is None


def test_guidellm_requests_are_used_when_all_are_there(tmp_path: Path) -> None:
    document = json.loads((DATA / "guidellm_0.8.1.json").read_bytes())
    for benchmark in document["benchmarks"]:
        kept = benchmark["requests"]["successful"]
        benchmark["metrics"]["request_totals"]["successful"] = len(kept)
    path = tmp_path / "whole.json"
    path.write_text(json.dumps(document))
    point = read_report(path).points[0]
    first = document["benchmarks"][0]["requests"]["successful"][0]
    times = first["info"]["timings"]
    assert point.ttft_s.count == len(document["benchmarks"][0]["requests"]["successful"])
    slowest = times["last_token_iteration"] - times["targeted_start"]
    assert point.e2e_s.most == pytest.approx(slowest, rel=0.5)
    assert point.ttft_s.most >= times["first_token_iteration"] - times["targeted_start"] - 1e-9


def test_aiperf_rates_are_by_the_servers_count() -> None:
    found = read_report(DATA / "aiperf_0.13.0.json")
    point = found.points[0]
    assert (found.model, point.concurrency, point.completed) == ("tiny", 4, 60)
    assert point.output_tokens == 32.0  # the server's; its own tokenizer says 39.7
    assert point.output_tokens_per_s == pytest.approx(1920 / 2.293856)
    assert point.tpot_s is None and point.itl_s is None
    assert any("39.7" in note for note in found.notes)
    assert point.e2e_s.p99 == pytest.approx(0.1991, rel=0.01)


def test_aiperf_requests_give_tpot_and_itl_by_definition() -> None:
    path = DATA / "aiperf_0.13.0_requests_head.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    point = read_report(path).points[0]
    tpot = [
        (line["metrics"]["request_latency"]["value"] - line["metrics"]["time_to_first_token"]["value"])
        / (line["metrics"]["usage_completion_tokens"]["value"] - 1)
        / 1e3
        for line in lines
    ]
    gaps = [gap for line in lines for gap in line["metrics"]["inter_chunk_latency"]["value"]]
    assert point.tpot_s.mean == pytest.approx(sum(tpot) / len(tpot))
    assert point.itl_s.mean == pytest.approx(sum(gaps) / len(gaps) / 1e3)
    assert point.itl_s.count == len(gaps)


def test_vllm_bench_keeps_what_it_has_and_leaves_out_the_rest() -> None:
    point = read_report(DATA / "vllm_bench_0.32.0.json").points[0]
    assert (point.rate_per_s, point.concurrency, point.completed) == (5.0, None, 20)
    assert point.tpot_s.p99 == pytest.approx(0.9876e-3, rel=1e-3)
    assert point.tpot_s.p95 is None
    assert point.itl_s.mean == pytest.approx(0.238e-3, rel=1e-3)
    assert point.output_tokens == pytest.approx(414 / 20)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no tool known"),
        ("{", "neither"),
        ("[]", "no tool known"),
        ('{"a": 1}', "no tool known"),
        ("4", "no tool known"),
        ('{"aiperf_version": 1, "input_config": 4}', "cannot be read"),
        ('{"metadata": {"guidellm_version": "9"}, "benchmarks": [{}]}', "cannot be read"),
        ('{"schema": "tonnage.measurement/1"}', "cannot be read"),
        ('{"schema": "tonnage.measurement-log/1"}', "cannot be read"),
    ],
)
def test_a_file_of_nobody_is_one_sentence(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(BadFact, match=says):
        read_report(path)


def test_our_own_json_comes_back_the_same(tmp_path: Path) -> None:
    found = read_report(DATA / "guidellm_0.8.1.json")
    path = tmp_path / "ours.json"
    path.write_bytes(msgspec.json.encode(found))
    assert read_report(path) == found
