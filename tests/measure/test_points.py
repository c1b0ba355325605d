"""Rows as people paste them, metrics pages and the history, as measurements that a calibration takes."""

import json
import platform
from pathlib import Path

import msgspec
import pytest

from tests.command import told as answer_of
from tests.measure.diagnose.pages import vllm
from tests.measure.stub import Stub, serving
from tonnage.domain.measurement import MEASUREMENT_SCHEMA, Latency, Measurement, Point
from tonnage.errors import BadRequest, TonnageError
from tonnage.measure.history import place_of, remember
from tonnage.measure.points import read_pasted, read_pasted_training, read_points
from tonnage.measure.share import shared_rows
from tonnage.report.document import as_json
from tonnage_accuracy.rows import read_rows
from tonnage_accuracy.scoring import score


def test_a_training_run_keeps_the_unit_of_its_peak_and_one_without_runs_is_refused(tmp_path: Path) -> None:
    rows = ("step 1.9 s, peak 61 GB at batch 8 on 8 H100", "step 1.9 s, peak 61 GiB at batch 8 on 8 H100")
    peaks = [read_pasted_training(row).runs[0].memory.peak_bytes for row in rows]
    assert peaks == [61e9, 61 * 2**30]
    file = tmp_path / "run.json"
    file.write_text(as_json(msgspec.structs.replace(read_pasted_training(rows[0]), runs=())))
    for command in (("diagnose", str(file)), ("measure", "capacity", str(file), "--tokens", "1e9")):
        done = answer_of(*command)
        assert done.exit_code == 2 and "length >= 1" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("TPOT 21 ms at 32 clients", (None, 0.021, None, 32.0, None)),
        ("TTFT 0.4 s, 1.2k tok/s with 64 users, 2048/256 tokens", (0.4, None, 1200.0, 64.0, None)),
        ("throughput 1,450 tokens/s at concurrency 64", (None, None, 1450.0, 64.0, None)),
        ("itl=9.5ms, ttft=120ms @ 4 req/s", (0.12, 0.0095, None, None, 4.0)),
        ("mean TPOT: 900 us at 1 stream", (None, 0.0009, None, 1.0, None)),
    ],
)
def test_a_pasted_row(text: str, said: tuple[float | None, ...]) -> None:
    point = read_pasted(text, prompt_tokens=1024, output_tokens=128).points[0]
    means = tuple(None if of is None else of.mean for of in (point.ttft_s, point.tpot_s))
    assert (*means, point.output_tokens_per_s, point.concurrency, point.rate_per_s) == pytest.approx(said)
    assert (point.prompt_tokens, point.output_tokens) == ((2048, 256) if "2048" in text else (1024, 128))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("TPOT 21 ms at 32 clients on a rainy day", "is not understood"),
        ("TPOT 21 at 32 clients", "is not understood"),
        ("TPOT 21 ms", "name one load"),
        ("TPOT 21 ms at 32 clients and 4 req/s", "name one load"),
        ("64 clients", "nothing measured"),
        ("x" * 501, "at most 500"),
    ],
)
def test_what_is_missing_or_not_understood_is_named(text: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        read_pasted(text, prompt_tokens=1024, output_tokens=128)


def test_lengths_are_asked_for() -> None:
    with pytest.raises(BadRequest, match="add '1024/256 tokens'"):
        read_pasted("TPOT 21 ms at 32 clients")
    with pytest.raises(BadRequest, match="nothing measured"):
        read_points([])


def test_a_saved_metrics_page_is_one_load(tmp_path: Path) -> None:
    page = tmp_path / "metrics.txt"
    page.write_text(vllm(running=6, e2e=(1.0, 2.0, 3.0), ttft=(0.2, 0.3, 0.1)))
    point = read_points([str(page)])[0].points[0]
    assert (point.concurrency, point.prompt_tokens, point.output_tokens) == (6, 400, 100)
    assert point.ttft_s.mean == pytest.approx(0.2)
    idle = tmp_path / "idle.txt"
    idle.write_text(vllm(running=0, e2e=(1.0,), ttft=(0.2,)))
    with pytest.raises(TonnageError, match="requests that ran"):
        read_points([str(idle)])


@pytest.mark.parametrize(
    ("page", "share"),
    [
        ("vllm:num_requests_running 1\nvllm:prefix_cache_queries_total 800\nvllm:prefix_cache_hits_total 200\n", 0.25),
        ("vllm:gpu_prefix_cache_queries_total 50\nvllm:gpu_prefix_cache_hits_total 20\n", 0.4),
        (
            "sglang:num_running_reqs 1\nsglang:prompt_tokens_total 900\n"
            'sglang:cached_tokens_total{cache_source="host"} 9\n'
            'sglang:cached_tokens_total{cache_source="device"} 441\n',
            0.5,
        ),
        ("sglang:num_running_reqs 1\nsglang:prompt_tokens_total 900\nsglang:cache_hit_rate 0.3\n", 0.3),
        # llama.cpp counts as prompt tokens those that it computed.
        (
            "llamacpp:requests_processing 1\nllamacpp:prompt_tokens_total 60\nllamacpp:prompt_tokens_cached_total 40\n",
            0.4,
        ),
        ("trtllm_prompt_tokens_total 60\ntrtllm_prompt_cached_tokens_total 15\n", 0.25),
    ],
    ids=["vllm", "vllm 0.8", "sglang", "sglang 0.4", "llama.cpp", "trtllm"],
)
def test_counters_of_a_prefix_cache_are_read(page: str, share: float, tmp_path: Path) -> None:
    saved = tmp_path / "metrics.prom"
    saved.write_text(page)
    told = answer_of("diagnose", str(saved), "--json")
    assert json.loads(told.stdout)["evidence"]["cached_share"] == pytest.approx(share)


def test_a_page_whose_prompts_were_cached_calibrates_nothing(tmp_path: Path) -> None:
    page, out = tmp_path / "metrics.prom", tmp_path / "own.toml"
    stack = ["--model", "meta-llama/Llama-3.1-8B-Instruct", "--accelerator", "H100", "--engine", "vllm"]
    asked = ["calibrate", str(page), *stack, "--out", str(out)]
    text = vllm(running=6, e2e=(1.0, 2.0, 3.0), ttft=(0.2, 0.3, 0.1))
    page.write_text(f"{text}vllm:prefix_cache_queries_total 1200\nvllm:prefix_cache_hits_total 720\n")
    told = answer_of(*asked)
    assert (
        told.exit_code == 2 and "60 % of the prompt tokens at load 6" in told.output and "over the 20 %" in told.output
    )
    assert not out.exists()
    page.write_text(f"{text}vllm:prefix_cache_queries_total 1200\nvllm:prefix_cache_hits_total 12\n")
    assert answer_of(*asked).exit_code == 0 and out.exists()


def test_names_are_checked_before_a_live_page_is_read(tmp_path: Path) -> None:
    stub = Stub()
    with serving(stub) as url:
        for wrong in (["--accelerator", "H10O"], ["--engine", "vlm"], ["--model", "llama-3.1-8b-instrukt"]):
            told = answer_of("calibrate", url, "--accelerator", "H100", "--engine", "vllm", *wrong)
            assert told.exit_code == 2 and wrong[1] in told.output
    assert not stub.heads


def test_the_history_is_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TONNAGE_HISTORY", str(tmp_path / "own.sqlite"))
    place = place_of()
    assert place is not None
    kept = Measurement(schema=MEASUREMENT_SCHEMA, tool="x", model="m", points=(Point(concurrency=2.0, completed=8),))
    number = remember(kept, place=place)
    assert msgspec.to_builtins(read_points([f"history:{number}"])[0].points) == msgspec.to_builtins(kept.points)
    with pytest.raises(BadRequest, match="history:N"):
        read_points(["history:last"])


def test_shared_rows_tell_the_stack_and_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As written, read back by the scorer of published rows and predicted; nothing of the machine is in them."""
    db = tmp_path / "own.sqlite"
    monkeypatch.setenv("TONNAGE_HISTORY", str(db))
    place = place_of()
    assert place is not None
    point = Point(
        concurrency=8.0,
        requests=80,
        completed=80,
        prompt_tokens=1024,
        output_tokens=128,
        ttft_s=Latency(mean=0.1, p99=0.4),
        tpot_s=Latency(mean=0.01),
        output_tokens_per_s=700.0,
    )
    failed = msgspec.structs.replace(point, failures={"refused": 60})
    measured = Measurement(
        schema=MEASUREMENT_SCHEMA,
        tool="x",
        model="secret-name",
        url="http://secret-host:8000",
        date="2026-11-22T10:00:00",
        points=(point, failed),
    )
    number, out = remember(measured, place=place), tmp_path / "rows.csv"
    given = ["history", "share", str(number), "--model", "meta-llama/Llama-3.1-8B-Instruct", "--accelerator", "H100"]
    asked = answer_of(*given, "--engine", "vllm", "-o", str(out), given="n\n")
    assert asked.exit_code == 0 and "closed_loop" in asked.output and not out.exists()
    told = answer_of(*given, "--engine", "vllm", "-o", str(out), "--yes")
    assert told.exit_code == 0, told.output
    text = out.read_text()
    assert "secret" not in text and platform.node() not in text
    rows = list(read_rows(out))
    assert len(rows) == 1 and rows[0].id.startswith("OWN-")
    assert (rows[0].cells["ttft_p99_ms"], rows[0].cells["requests_per_client"]) == ("400", "10")
    scores = {item.quantity: item for item in score(rows)}
    assert scores["tpot_ms"].measured == 10.0 and scores["tpot_ms"].predicted and not scores["tpot_ms"].reason
    # 16 GB of weights take 4.8 ms to be read: no server answers faster, so nobody shall learn from such a row.
    impossible = msgspec.structs.replace(measured, points=(msgspec.structs.replace(point, tpot_s=Latency(mean=0.001)),))
    other = str(remember(impossible, place=place))
    refused = answer_of(*given[:2], other, *given[3:], "--engine", "vllm", "-o", str(out), "--yes")
    assert refused.exit_code == 2 and "TPOT 1 ms at 8 at once contradicts H100" in refused.output
    disowned = msgspec.structs.replace(measured, notes=("Not to be used: the client was late.",))
    other = str(remember(disowned, place=place))
    refused = answer_of(*given[:2], other, *given[3:], "--engine", "vllm", "-o", str(out), "--yes")
    assert refused.exit_code == 2 and "own note forbids its numbers: Not to be used: the client" in refused.output
    with pytest.raises(BadRequest, match="nothing to share"):
        shared_rows(msgspec.structs.replace(measured, points=(failed,)), {})
