"""Reports of other tools come out in our definitions."""

import json
import re
from pathlib import Path

import pytest

import tonnage
from tests.asked import Fields, Refused, told
from tonnage.errors import BadRequest

DATA = Path(__file__).parents[1] / "data" / "measure"
SUMMARY = (DATA / "mlperf_log_summary.txt").read_text(encoding="utf-8")


def read_report(path: Path) -> Fields:
    """What `tonnage measure import` answers."""
    found: Fields = told("measure", "import", str(path))
    return found


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


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("guidellm_0.8.1.json", 73 / 74),
        ("aiperf_0.13.0.json", 0.05 / 64),
        ("aiperf_0.13.0_requests_head.jsonl", 0.0),
        ("vllm_bench_0.32.0.json", None),
    ],
)
def test_what_a_tool_was_told_of_the_prefix_cache_is_kept(name: str, share: float | None) -> None:
    found = read_report(DATA / name)
    assert found.points[0].cached_share == (None if share is None else pytest.approx(share))
    try:
        tonnage.calibrate(str(DATA / name), model="8B", accelerator="L4", engine="vllm")
        said = ""
    except BadRequest as why:
        said = str(why)
    disowned = "99 % of the prompt tokens at load 4 came from the server's prefix cache"
    assert (disowned in said) is ("forbids" in said) is name.startswith("guidellm")


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
        ('{"schema": "tonnage.measurement-log/1", "type": "stage", "stage": 0}\n', "the first line is no header"),
        ('{"aiperf_version": [' + "{}," * 1_300_000 + "{}]}", "too many values to be read at once"),
        (SUMMARY.replace("llama2-70b", "llama2\u202e70b"), r"holds the character U\+202E"),
        (re.sub("^Completed .*\n", "", SUMMARY, flags=re.MULTILINE), "no completed samples or tokens per second"),
    ],
)
def test_a_file_of_nobody_is_one_sentence(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(Refused, match=says):
        read_report(path)


@pytest.mark.parametrize(("left_out", "rate", "tokens"), [("tokens", 101.87, None), ("samples", None, 29715.28)])
def test_mlperf_rates_stand_alone(left_out: str, rate: float | None, tokens: float | None, tmp_path: Path) -> None:
    path = tmp_path / "summary.txt"
    path.write_text(re.sub(f"^Completed {left_out} .*\n", "", SUMMARY, flags=re.MULTILINE))
    (point,) = read_report(path).points
    assert (point.requests_per_s, point.output_tokens_per_s) == (rate, tokens)


def test_our_own_json_comes_back_the_same(tmp_path: Path) -> None:
    found = read_report(DATA / "guidellm_0.8.1.json")
    path = tmp_path / "ours.json"
    path.write_bytes(json.dumps(found).encode())
    assert read_report(path) == found


def test_mlperf_server_is_an_open_loop_with_the_queue_in_it() -> None:
    found = read_report(DATA / "mlperf_log_summary.txt")
    point = found.points[0]
    assert (found.tool, found.model, point.rate_per_s) == ("MLPerf LoadGen", "llama2-70b-Server-SUT", 102.71)
    assert point.requests_per_s == 101.87 and point.output_tokens_per_s == 29715.28
    assert point.output_tokens == pytest.approx(29715.28 / 101.87)
    assert point.ttft_s.mean == pytest.approx(0.963332124) and point.ttft_s.p99 == pytest.approx(1.760966679)
    assert point.tpot_s.p99 == pytest.approx(0.164964162)
    assert point.e2e_s.p50 == pytest.approx(32.917446649)


def test_mlperf_offline_has_no_latencies_and_invalid_runs_say_so(tmp_path: Path) -> None:
    text = (DATA / "mlperf_log_summary.txt").read_text()
    path = tmp_path / "summary.txt"
    path.write_text(text.replace("Server", "Offline").replace(": VALID", ": INVALID"))
    found = read_report(path)
    assert found.points[0].ttft_s is None and found.points[0].rate_per_s is None
    assert any("INVALID" in note for note in found.notes) and any("queue" in note for note in found.notes)


def test_mlperf_detail_log_says_the_same(tmp_path: Path) -> None:
    values = {
        "loadgen_version": "5.1.1", "effective_scenario": "Server", "result_validity": "VALID",
        "effective_target_qps": 4.0,
        "result_scheduled_samples_per_sec": 4.1, "result_completed_samples_per_sec": 4.0,
        "result_completed_tokens_per_second": 800.0, "result_query_count": 2400,
        "result_first_token_mean_latency_ns": 3e8, "result_first_token_99.00_percentile_latency_ns": 9e8,
        "result_time_to_output_token_mean": 2e7, "result_time_per_output_token_99.00_percentile_ns": 4e7,
    }  # fmt: skip
    path = tmp_path / "mlperf_log_detail.txt"
    path.write_text("".join(f":::MLLOG {json.dumps({'key': k, 'value': v})}\n" for k, v in values.items()))
    point = read_report(path).points[0]
    assert (point.rate_per_s, point.completed, point.output_tokens) == (4.1, 2400, 200.0)
    assert point.ttft_s.p99 == pytest.approx(0.9) and point.tpot_s.mean == pytest.approx(0.02)
    assert point.e2e_s is None


def llmperf_request(*, e2e: float, ttft: float, tokens: int, error: int | None = None) -> dict[str, object]:
    """As llmperf writes one: its inter-token latency is the whole time over all tokens."""
    return {
        "error_code": error,
        "error_msg": "",
        "inter_token_latency_s": e2e / max(tokens, 1),
        "ttft_s": ttft,
        "end_to_end_latency_s": e2e,
        "request_output_throughput_token_per_s": tokens / e2e,
        "number_total_tokens": tokens + 100,
        "number_output_tokens": tokens,
        "number_input_tokens": 100,
    }


def test_llmperf_tpot_is_not_what_it_calls_inter_token_latency(tmp_path: Path) -> None:
    path = tmp_path / "individual_responses.json"
    rows = [llmperf_request(e2e=2.0, ttft=1.0, tokens=11), llmperf_request(e2e=1.0, ttft=0.5, tokens=0, error=500)]
    path.write_text(json.dumps(rows))
    point = read_report(path).points[0]
    assert point.tpot_s.mean == pytest.approx(0.1)  # (2 - 1) / 10; its own figure is 2 / 11
    assert (point.completed, point.failures) == (1, {"errors": 1})
    assert point.itl_s is None and point.output_tokens_per_s is None


def test_llmperf_summary_gives_no_tpot(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_text(
        json.dumps(
            {
                "version": "2023-08-31",
                "name": "x_summary",
                "model": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
                "num_concurrent_requests": 5,
                "results_inter_token_latency_s_mean": 0.0119,
                "results_ttft_s_mean": 0.2538,
                "results_ttft_s_quantiles_p95": 0.49,
                "results_end_to_end_latency_s_mean": 1.184,
                "results_number_input_tokens_mean": 256,
                "results_number_output_tokens_mean": 100,
                "results_num_requests_started": 50,
                "results_number_errors": 0,
                "results_num_completed_requests": 50,
                "results_mean_output_throughput_token_per_s": 335.4,
                "results_num_completed_requests_per_min": 198.0,
            }
        )
    )
    found = read_report(path)
    point = found.points[0]
    assert (found.tool, point.concurrency, point.completed) == ("llmperf", 5, 50)
    assert point.tpot_s is None and point.itl_s is None and any("TPOT" in note for note in found.notes)
    assert point.requests_per_s == pytest.approx(3.3) and point.ttft_s.p95 == 0.49
