"""The simulate command: sentence first, JSON whole, a row for each request, one sentence for each mistake."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.command import told as answer_of
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
CASE = """
model: meta-llama/Llama-3.1-8B-Instruct
accelerator: H100
traffic: {profile: chat, rate: 5/s, requests: 2000, seed: 3}
slo: {ttft: 1 s, tpot: 50 ms}
"""


def run(*arguments: str, text: str | None = None) -> tuple[int, str, str]:
    done = answer_of("simulate", *arguments, given=text)
    return done.exit_code, done.stdout, done.stderr


def test_answers_in_a_sentence() -> None:
    code, out, _ = run("-", "--why", text=CASE)
    assert code == 0 and out.startswith("Llama 3.1 8B Instruct · 1 x NVIDIA H100 SXM5 80 GB · vLLM")
    assert "\n  Within the objectives: p95 TTFT" in out and "preemptions" not in out
    assert "running" in out and "Azure" in out


def test_json_and_rows_agree(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    code, out, _ = run("-", "--json", "--requests", str(path), text=CASE)
    found = json.loads(out)
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert code == 0 and found["schema"] == "tonnage.simulate/1"
    assert found["requests"] == len(rows) == 2000
    mean = sum(float(row["ttft_s"]) for row in rows) / len(rows)
    assert found["ttft_s"]["mean"] == pytest.approx(mean)
    assert found["ttft_s"]["p50"] <= found["ttft_s"]["p95"] <= found["ttft_s"]["p99"]
    assert len(found["occupancy"]["at_s"]) == len(found["occupancy"]["running"])


def test_rows_as_parquet_hold_what_the_csv_holds(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    short = CASE.replace("requests: 2000", "requests: 50").replace(
        "profile: chat", "prompt_tokens: 900, output_tokens: 1"
    )
    for name in ("rows.csv", "rows.parquet"):
        assert run("-", "--requests", str(tmp_path / name), text=short)[0] == 0
    rows = duckdb.sql(f"select ttft_s, tpot_s from '{tmp_path / 'rows.parquet'}' order by request").fetchall()
    with (tmp_path / "rows.csv").open(encoding="utf-8") as file:
        plain = list(csv.DictReader(file))
    assert [float(row["ttft_s"]) for row in plain] == [ttft for ttft, _ in rows]
    assert {row["tpot_s"] for row in plain} == {""} and {tpot for _, tpot in rows} == {None}


@pytest.mark.parametrize("suffix", ["html", "svg", "png"])
def test_pictures(tmp_path: Path, suffix: str) -> None:
    if suffix != "html":
        pytest.importorskip("vl_convert")
    path = tmp_path / f"seen.{suffix}"
    assert run("-", "--plot", str(path), text=CASE.replace("2000", "200"))[0] == 0
    begins = {"html": b"<!doctype html>", "svg": b"<svg", "png": b"\x89PNG"}[suffix]
    content = path.read_bytes()
    assert content[:20].lower().startswith(begins.lower())
    if suffix != "png":
        assert b"What happened over time" in content and b"Latency by percentile" in content


@pytest.mark.parametrize(
    ("flag", "path", "says"),
    [
        ("--requests", "rows.xlsx", "must end in .csv or .parquet"),
        ("--requests", "no/such/folder/rows.csv", "does not exist"),
        ("--plot", "seen.gif", "must end in .svg, .png, .html"),
    ],
)
def test_a_file_that_cannot_be_written_is_said_before_the_run(flag: str, path: str, says: str) -> None:
    code, out, err = run("-", flag, path, text=CASE.replace("requests: 2000", "requests: 20000000"))
    assert code == 2 and not out and says in err and err.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal and a signal of POSIX")
def test_a_long_run_shows_a_bar_and_ctrl_c_leaves_what_was_done(tmp_path: Path) -> None:
    import os
    import pty
    import select
    import signal
    import time

    rows = tmp_path / "rows.csv"
    case = tmp_path / "long.yaml"
    case.write_text(
        "model: meta-llama/Llama-3.1-8B-Instruct\naccelerator: H100\nslo: {ttft: 1 s}\ncapacity: true\n"
        "traffic: {prompt_tokens: 1k, output_tokens: 8k, length_spread: [0.5, 1.5], rate: 18/min, requests: 500000}\n"
    )
    ours, theirs = pty.openpty()
    # A background job of a shell ignores SIGINT, and so would all that it starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    started = subprocess.Popen(
        [sys.executable, "-m", "tonnage", "simulate", str(case), "--json", "--requests", str(rows)],
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    signal.signal(signal.SIGINT, before)
    os.close(theirs)
    seen, limit = b"", time.monotonic() + PATIENCE_S
    while b"of 500,000 requests" not in seen and time.monotonic() < limit and started.poll() is None:
        if select.select([ours], [], [], 0.2)[0]:
            seen += os.read(ours, 4096)
    assert b"\r[" in seen, seen
    started.send_signal(signal.SIGINT)
    out, _ = started.communicate(timeout=PATIENCE_S)
    os.close(ours)
    assert started.returncode == 130
    found = json.loads(out)
    assert found["partial"] and 0 < found["requests"] < 500_000 and "partial" in found["sentence"]
    assert "capacity" not in found
    with rows.open(encoding="utf-8") as file:
        answered = sum(1 for row in csv.DictReader(file) if row["e2e_s"])
    assert answered == found["requests"]


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert run("-", "--json", text=CASE)[1] == run("-", "--json", text=CASE)[1]
    assert run("-", "--json", text=CASE)[1] != run("-", "--json", text=CASE.replace("seed: 3", "seed: 4"))[1]


def test_what_does_not_fit_is_an_answer() -> None:
    code, out, _ = run("-", text=CASE.replace("Llama-3.1-8B-Instruct", "Llama-3.1-405B-Instruct"))
    assert code == 3 and out.startswith("Llama 3.1 405B Instruct") and "It does not run" in out


def test_a_fleet_that_scales_to_zero_says_what_it_cost() -> None:
    traffic = "traffic: {profile: chat, rate: 0.5/s, requests: 2000, process: on-off, on_for: 60 s, off_for: 20 min}"
    scaling = "replicas: 2\nscaling: {in_flight: 20, cold_start: 90 s, keep: 60 s, fewest: 0}\n"
    case = f"model: meta-llama/Llama-3.1-8B-Instruct\naccelerator: H100\n{traffic}\n{scaling}"
    found = json.loads(run("-", "--json", text=case)[1])
    assert found["fleet"]["mean_replicas"] < 1.0 and found["fleet"]["cold_hits"] > 0
    assert found["ttft_s"]["p99"] > 30.0
    always = json.loads(run("-", "--json", text=case.replace("fewest: 0", "fewest: 1"))[1])
    assert always["fleet"]["cold_hits"] == 0
    assert always["ttft_s"]["p99"] < 30.0
    assert always["fleet"]["paid_replica_hours"] > found["fleet"]["paid_replica_hours"]


def test_a_log_is_played_as_recorded(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("time,prompt_tokens,output_tokens\n" + "".join(f"{i * 0.5},{100 + i},20\n" for i in range(60)))
    case = f"model: meta-llama/Llama-3.1-8B-Instruct\naccelerator: H100\ntraffic: {{trace: {log}}}\n"
    code, out, _ = run("-", "--json", text=case)
    found = json.loads(out)
    assert code == 0 and found["requests"] == 60
    assert found["span_s"] == pytest.approx(29.5, abs=1.0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("rate: 5/s", "rate: 5 GB"), "rate"),
        (("rate: 5/s", "rate: -5/s"), "out of range; expected at least 0"),
        (("rate: 5/s, ", ""), "no load"),
        (("rate: 5/s", "rate: 5/s, concurrency: 8"), "contradict"),
        (("profile: chat", "profile: chatt"), "chat"),
        (("profile: chat", "prompt_tokens: 100"), "output_tokens is missing"),
        (
            ("accelerator: H100", "accelerator: H100\nprecision: fp8"),
            "precision must hold 'name: value' lines (weights, kv,",
        ),
        (("profile: chat", "trace: none.csv"), "does not exist"),
        (("requests: 2000", "requests: 0"), "requests: '0' is out of range"),
        (("slo:", "sl:"), "did you mean 'slo'"),
        (("ttft: 1 s", "ttft: 500"), "may be 500 s or 500 ms; write which"),
        (("accelerator: H100", ""), "accelerator is missing"),
        (("seed: 3", "process: wandering, window: 7 s"), "dispersion"),
        (("seed: 3", "process: sometimes"), "process"),
        (("slo:", "scaling: {in_flight: 0, cold_start: 5 s}\nslo:"), "in_flight"),
        (("slo:", "replicas: 0\nslo:"), "replicas"),
    ],
)
def test_mistakes_get_one_sentence(change: tuple[str, str], says: str) -> None:
    code, out, err = run("-", text=CASE.replace(*change))
    assert code == 2 and not out
    assert says in err and err.count("\n") == 1 and "Traceback" not in err


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/simulate-*.yaml")), ids=lambda path: path.stem)
def test_examples_run(path: Path) -> None:
    code, out, err = run(str(path), "--json")
    assert code == 0, err
    assert json.loads(out)["ttft_s"]["p95"] > 0


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("engine_options: {max_num_seq: 1}", "did you mean 'max_num_seqs'"),
        ("precision: {weight: fp8}", "did you mean 'precision.weights'"),
    ],
)
def test_no_setting_is_passed_over(line: str, told: str) -> None:
    code, out, said = run("-", text=CASE + line)
    assert (code, out) == (2, "") and told in said and len(said.splitlines()) == 1
