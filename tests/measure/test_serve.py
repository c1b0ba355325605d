"""An endpoint measured: loads, latencies, lateness, capacity."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import msgspec
import pytest
from msgspec.structs import replace

from tests.command import told as command
from tests.measure.stub import Stub, serving
from tests.patience import PATIENCE_S
from tonnage.domain.measurement import Latency, Load, Measurement, Point
from tonnage.domain.requests.common import Slo
from tonnage.errors import BadRequest
from tonnage.measure.capacity import Demand, capacity_of
from tonnage.measure.records import Spec, read_log
from tonnage.measure.serve import measure_serve
from tonnage.measure.summary import MIN_LATE_S, is_late


def spec(url: str, **changes: object) -> Spec:
    plain = Spec(
        url=url,
        kind="chat",
        model="m",
        load=Load(concurrency=4, requests=40, warmup=4, duration_s=20.0),
        prompt_tokens=50,
        output_tokens=8,
        timeout_s=5.0,
    )
    return replace(plain, **changes)


def test_a_closed_loop_reports_what_the_server_does(tmp_path: Path) -> None:
    stub = Stub(ttft_s=0.02, itl_s=0.01)
    with serving(stub) as url:
        found = measure_serve(spec(url), tmp_path / "a.jsonl")
    point = found.points[0]
    assert (point.completed, point.failed, point.concurrency) == (40, 0, 4)
    assert (point.prompt_tokens, point.output_tokens) == (50, 8)
    assert 0.02 <= point.ttft_s.p50 == pytest.approx(median(stub.first_s), rel=0.25, abs=0.01)
    assert 0.01 <= point.tpot_s.p50 == pytest.approx(median(stub.gap_s[-40:]), rel=0.25)
    assert point.itl_s.count == 40 * 7
    assert point.e2e_s.mean == pytest.approx(point.ttft_s.mean + 7 * point.tpot_s.mean, rel=1e-6)
    assert point.output_tokens_per_s == pytest.approx(8 * point.requests_per_s)
    at_once = point.requests_per_s * point.e2e_s.mean  # Little's law
    assert 2.5 < at_once <= 4.0 + 1e-6


def test_an_open_loop_counts_from_the_intended_time(tmp_path: Path) -> None:
    """One slot of 50 ms under 40 requests a second: the queue grows, and every latency shows its wait."""
    load = Load(rate_per_s=40.0, arrivals="constant", requests=30, duration_s=20.0)
    with serving(Stub(ttft_s=0.05, itl_s=0.0, slots=1)) as url:
        found = measure_serve(spec(url, load=load, slo=Slo(ttft_s=0.1)), tmp_path / "a.jsonl")
    point = found.points[0]
    assert point.completed == 30
    # A busy machine makes the server slower than it was told, never faster.
    assert point.ttft_s.most >= 30 * 0.05 - 29 / 40
    assert point.ttft_s.most == pytest.approx(point.duration_s - 29 / 40, abs=0.02)
    assert point.goodput_per_s < 0.4 * point.requests_per_s


@pytest.mark.parametrize("arrivals", ["constant", "poisson", "gamma"])
def test_arrivals_have_the_rate_that_was_asked(arrivals: str) -> None:
    from itertools import islice

    from tonnage.measure.load import gaps

    drawn = list(islice(gaps(Load(rate_per_s=5.0, arrivals=arrivals, burstiness=0.5), seed=1), 20_000))
    mean = sum(drawn) / len(drawn)
    spread = sum((gap - mean) ** 2 for gap in drawn) / len(drawn) / mean**2
    assert mean == pytest.approx(0.2, rel=0.03)
    assert spread == pytest.approx({"constant": 0.0, "poisson": 1.0, "gamma": 2.0}[arrivals], rel=0.1, abs=1e-9)


Swept = tuple[Measurement, Path]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """More and more at once of a server that answers four: what was found, and the file."""
    path = tmp_path_factory.mktemp("swept") / "a.jsonl"
    load = Load(concurrency=1, requests=24, duration_s=20.0)
    with serving(Stub(ttft_s=0.03, itl_s=0.0, slots=4)) as url:
        return measure_serve(spec(url, load=load, sweep="concurrency", most=64.0), path), path


def test_a_sweep_finds_where_more_at_once_stops_paying(swept: Swept) -> None:
    found, _ = swept
    assert found.knee.limit == "throughput" and found.knee.first_bad > found.knee.level
    # Four at once are all it serves. A busy machine may take noise for a gain, but never measures more than that.
    best = max(point.requests_per_s for point in found.points)
    assert 2 < found.knee.turns_at < 8  # four answer at once
    assert found.knee.level >= 3 and 0.7 * best <= found.knee.requests_per_s <= 4 / 0.03 * 1.01


def test_a_sweep_of_rates_stops_where_the_queue_grows(tmp_path: Path) -> None:
    load = Load(rate_per_s=10.0, arrivals="constant", requests=30, duration_s=20.0)
    with serving(Stub(ttft_s=0.03, itl_s=0.0, slots=2)) as url:  # at most 66 a second
        found = measure_serve(spec(url, load=load, sweep="rate", most=1000.0), tmp_path / "a.jsonl")
    assert found.knee.limit == "queue"
    # A machine too busy for the client finds an earlier knee, and the measurement says why; never a later one.
    late = any("client itself was late" in note for note in found.notes)
    assert (10 if late else 40) <= found.knee.level <= 80


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("500", "http 500"), ("429", "http 429"), ("garbage", "malformed"), ("cut", "cut"),
     ("slow", "timeout"), ("error", "server error"), ("mute", "empty")],
)  # fmt: skip
def test_each_fault_is_counted_by_kind_and_the_rest_is_measured(fault: str, kind: str, tmp_path: Path) -> None:
    def every_fourth(number: int) -> str:
        return fault if number > 2 and number % 4 == 0 else ""

    with serving(Stub(fault=every_fourth)) as url:
        found = measure_serve(spec(url, timeout_s=0.4), tmp_path / "a.jsonl")
    point = found.points[0]
    assert set(point.failures) == {kind}
    assert point.completed + point.failed == 40 and point.completed >= 25
    assert found.stopped is None


def test_a_waiting_connection_that_was_closed_costs_a_new_one_and_is_said(tmp_path: Path) -> None:
    with serving(Stub(fault=lambda number: "reset" if number == 20 else "")) as url:
        found = measure_serve(spec(url), tmp_path / "a.jsonl")
    assert found.points[0].completed == 40 and any("sent again" in note for note in found.notes)


def test_resets_of_new_connections_are_failures(tmp_path: Path) -> None:
    with serving(Stub(fault=lambda number: "reset" if number > 20 else "")) as url:
        found = measure_serve(spec(url), tmp_path / "a.jsonl")
    assert set(found.points[0].failures) == {"reset"} and found.points[0].completed <= 20


def test_a_storm_of_errors_stops_the_run_and_keeps_what_was_measured(tmp_path: Path) -> None:
    load = Load(concurrency=2, requests=5000, duration_s=20.0)
    with serving(Stub(fault=lambda number: "429" if number > 30 else "")) as url:
        found = measure_serve(spec(url, load=load), tmp_path / "a.jsonl")
    assert "failed" in found.stopped and "429" in found.stopped
    assert found.points[0].completed == 28 and found.points[0].failed < 40


def test_a_server_that_dies_is_one_sentence_and_nothing_is_lost(tmp_path: Path) -> None:
    stub = Stub()

    def dying(number: int) -> str:
        if number == 60:
            stub.down()
        return ""

    stub.fault = dying
    asked = ["--model", "m", "--concurrency", "4", "--requests", "5000", "--output-tokens", "4"]
    with serving(stub) as url:
        result = command("measure", "serve", url, *asked, "--output", str(tmp_path / "a.jsonl"))
    assert result.exit_code == 2
    assert "stopped early" in result.stderr and "Traceback" not in result.stderr
    done = [outcome for outcome in read_log(tmp_path / "a.jsonl").outcomes if outcome.failure is None]
    assert 50 <= len(done) <= 60


def test_a_server_that_dies_mid_sweep_keeps_its_loads_and_the_sweep_goes_on_with_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    load = Load(concurrency=1, requests=24, duration_s=20.0)
    dead = Stub(ttft_s=0.01, itl_s=0.0, slots=4)

    def dying(number: int) -> str:
        if number > 70:
            dead.down()  # type: ignore[misc]
            return "reset"
        return ""

    dead.fault = dying
    with serving(dead) as url:
        asked = spec(url, load=load, sweep="concurrency", most=16.0)
        found = measure_serve(asked, path)
        port = dead.port
    assert "server is gone" in found.stopped
    kept = {(o.stage, o.index) for o in read_log(path).outcomes if o.failure is None}
    assert len(found.points) >= 2 and found.points[0].completed == 24 and len(kept) >= 48
    with serving(Stub(ttft_s=0.01, itl_s=0.0, slots=4, port=port)):
        whole = measure_serve(asked, path, resume=True)
    assert whole.stopped is None and whole.knee is not None
    assert kept <= {(o.stage, o.index) for o in read_log(path).outcomes if o.failure is None}
    assert all(point.completed == point.requests for point in whole.points)


def test_a_clock_that_is_set_moves_no_latency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = time.time, {"count": 0}

    def stepping() -> float:
        calls["count"] += 1
        return real() + (3600.0 if calls["count"] % 2 else -3600.0)

    monkeypatch.setattr(time, "time", stepping)
    with serving(Stub(ttft_s=0.02, itl_s=0.005)) as url:
        found = measure_serve(spec(url), tmp_path / "a.jsonl")
    point = found.points[0]
    assert point.completed == 40 and 0.02 <= point.ttft_s.p50 < 5.0
    outcomes = read_log(tmp_path / "a.jsonl").outcomes
    assert all(o.intended_s <= o.sent_s <= o.first_s <= o.last_s <= o.end_s < 60.0 for o in outcomes)


@pytest.mark.parametrize("status", ["500", "503", "429"])
def test_storms_that_pass_are_counted_and_the_run_goes_on(status: str, tmp_path: Path) -> None:
    with serving(Stub(fault=lambda number: status if 20 < number <= 30 else "")) as url:
        found = measure_serve(spec(url, load=Load(concurrency=2, requests=80, duration_s=20.0)), tmp_path / "a.jsonl")
    point = found.points[0]
    assert point.failures == {f"http {status}": 10} and point.completed == 70 and found.stopped is None


def test_a_slow_loris_ends_at_the_timeout_and_blocks_nobody(tmp_path: Path) -> None:
    started = time.monotonic()
    with serving(Stub(fault=lambda number: "slow" if number in {10, 20} else "")) as url:
        found = measure_serve(spec(url, timeout_s=2.0), tmp_path / "a.jsonl")
    assert found.points[0].failures == {"timeout": 2} and found.points[0].completed == 38
    assert time.monotonic() - started < PATIENCE_S


def test_a_measured_sweep_becomes_replicas_for_the_peak_and_its_spares(swept: Swept, tmp_path: Path) -> None:
    found, path = replace(swept[0], notes=()), tmp_path / "calm.json"  # a busy machine marks its runs
    path.write_bytes(msgspec.json.encode(found))
    sustained = max(point.requests_per_s for point in found.points)
    answer = capacity_of(found, Demand(rate_per_s=10 * sustained, peak_to_mean=1.5, headroom=0.25, spare=1))
    assert answer.needed == 20 and answer.replicas == 21 and answer.spare == 1
    assert answer.sustained_per_s == pytest.approx(sustained)
    asked = ["measure", "capacity", str(path), "--rate", f"{sustained}/s", "--headroom", "0%", "--spare", "1", "--json"]
    assert json.loads(command(*asked).stdout)["replicas"] == 2


def test_no_server_is_one_sentence(tmp_path: Path) -> None:
    with serving(Stub()) as url:
        pass
    with pytest.raises(BadRequest, match="connection refused"):
        measure_serve(spec(url), tmp_path / "a.jsonl")
    assert not (tmp_path / "a.jsonl").exists()


@pytest.mark.parametrize(
    ("usage", "says"),
    [
        (None, "absent"),
        ({"prompt_tokens": "many", "completion_tokens": "some"}, "not a count"),
        ({"prompt_tokens": 5, "completion_tokens": 3}, "fewer tokens"),
        ({"prompt_tokens": 5, "completion_tokens": 4000}, "more tokens"),
        ({"prompt_tokens": -1, "completion_tokens": True}, "not a count"),
    ],
)
def test_a_count_that_cannot_be_true_is_replaced_and_said(usage: object, says: str, tmp_path: Path) -> None:
    with serving(Stub(usage=lambda prompt, wanted: usage)) as url:
        found = measure_serve(spec(url), tmp_path / "a.jsonl")
    assert found.points[0].output_tokens == 8
    assert any(says in note for note in found.notes)


def test_a_cache_that_answered_is_said_and_calibrates_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that had half of every prompt: its word in the answer, in the notes, and against a calibration."""
    monkeypatch.setenv("TONNAGE_HISTORY", "off")

    def usage(prompt: int, wanted: int) -> object:
        cached = {"cached_tokens": prompt // 2}
        return {"prompt_tokens": prompt, "completion_tokens": wanted, "prompt_tokens_details": cached}

    path, out = tmp_path / "a.jsonl", tmp_path / "own.toml"
    asked = ["--model", "m", "--concurrency", "2", "--requests", "10", "--prompt-tokens", "100", "--output-tokens", "4"]
    with serving(Stub(ttft_s=0.05, itl_s=0.02, usage=usage)) as url:
        told = command("measure", "serve", url, *asked, "--output", str(path), "--json")
    found = json.loads(told.stdout)
    assert found["points"][0]["cached_share"] == pytest.approx(0.5, abs=0.01)
    said = "50 % of the prompt tokens at load 2 came from the server's prefix cache, over the 20 %"
    assert [note for note in found["notes"] if said in note and note.startswith("Not to be used")]
    assert "Not to be used" in told.stderr
    stack = ["--model", "meta-llama/Llama-3.1-8B-Instruct", "--accelerator", "L4", "--engine", "vllm"]
    refused = command("calibrate", str(path), *stack, "--weights", "fp8", "--out", str(out))
    assert refused.exit_code == 2 and "own note forbids its numbers" in refused.output and not out.exists()
    sized = command("measure", "capacity", str(path), "--rate", "1/s", "--json")
    assert sized.exit_code == 2 and not sized.stdout
    assert "measure again, since the measurement's own note forbids its numbers: Not to be used: " in sized.stderr


@pytest.mark.parametrize(
    ("count", "share"), [(25, 0.25), (0, 0.0), (-3, None), ("many", None), (True, None), (1000, None), (None, None)]
)
def test_a_count_of_cached_tokens_that_cannot_be_is_none(count: object, share: float | None, tmp_path: Path) -> None:
    truth = {"prompt_tokens": 100, "completion_tokens": 8, "prompt_tokens_details": {"cached_tokens": count}}
    with serving(Stub(usage=lambda prompt, wanted: truth)) as url:
        assert measure_serve(spec(url), tmp_path / "a.jsonl").points[0].cached_share == share


def test_a_full_disk_is_one_sentence() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    from tonnage.measure.records import StageEnd, append

    file = os.open("/dev/full", os.O_WRONLY)
    try:
        with pytest.raises(BadRequest, match="no space left"):
            append(file, StageEnd(stage=0))
    finally:
        os.close(file)


def test_a_disk_that_fills_up_midway_stops_the_run_and_keeps_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = {"lines": 0}
    write = os.write

    def until_full(file: int, data: bytes) -> int:
        if data.startswith(b'{"type":"request"'):
            written["lines"] += 1
            if written["lines"] > 10:
                raise OSError(28, "No space left on device")
        return write(file, data)

    monkeypatch.setattr("tonnage.measure.records.os.write", until_full)
    path = tmp_path / "a.jsonl"
    with serving(Stub()) as url:
        with pytest.raises(BadRequest, match=r"no space left.*--resume"):
            measure_serve(spec(url), path)
        monkeypatch.undo()
        assert len(read_log(path).outcomes) == 10
        found = measure_serve(spec(url), path, resume=True)
    assert found.points[0].completed == 40


def test_kill_9_loses_nothing_and_the_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with serving(Stub(ttft_s=0.05)) as url:  # 3 s in all: time to be killed in
        arguments = ["measure", "serve", url, "--model", "m", "--concurrency", "2", "--requests", "120",
                     "--prompt-tokens", "40", "--output-tokens", "4", "--output", str(path)]  # fmt: skip
        child = subprocess.Popen([sys.executable, "-m", "tonnage", *arguments], stderr=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and not (path.exists() and path.read_bytes().count(b"\n") > 30):
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.wait()
        with path.open("ab") as file:
            file.write(b'{"type":"request","segm')  # as a power cut may leave it
        before = {outcome.index for outcome in read_log(path).outcomes}
        assert 25 <= len(before) < 120
        result = command(*arguments, "--resume", "--json")
    assert result.exit_code == 0, result.stderr
    log = read_log(path)
    assert len(log.segments) == 2 and len(log.outcomes) == len({o.index for o in log.outcomes}) == 120 + 2
    assert before <= {outcome.index for outcome in log.outcomes if outcome.segment == 0}
    found = json.loads(result.stdout)
    assert found["schema"] == "tonnage.measurement/1" and found["points"][0]["completed"] == 120


def test_resuming_another_measurement_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with serving(Stub()) as url:
        measure_serve(spec(url), path)
        with pytest.raises(BadRequest, match="output_tokens 8, not 9"):
            measure_serve(spec(url, output_tokens=9), path, resume=True)
        with pytest.raises(BadRequest, match="exists"):
            measure_serve(spec(url), path)


def test_the_key_reaches_the_server_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-very-secret-0123456789"
    monkeypatch.setenv("MY_KEY", key)
    monkeypatch.setenv("TONNAGE_HISTORY", str(tmp_path / "history.sqlite"))
    path = tmp_path / "a.jsonl"
    arguments = ["--model", "m", "--key-env", "MY_KEY", "--concurrency", "2", "--requests", "60",
                 "--output-tokens", "4", "--output", str(path)]  # fmt: skip
    stub = Stub(fault=lambda number: "500" if number > 10 else "")
    with serving(stub) as url:
        result = command("measure", "serve", url, *arguments)
    assert any(key.encode() in head for head in stub.heads)
    assert "no more for ***" in result.output + result.stderr
    assert key not in result.stdout and key not in result.stderr
    refusing = Stub(fault=lambda number: "401")
    with serving(refusing) as url:
        result = command("measure", "serve", url, *arguments[:-1], str(tmp_path / "b.jsonl"))
    assert result.exit_code == 2 and key not in result.stderr and "--key-env" in result.stderr
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {"a.jsonl", "history.sqlite"} <= {file.name for file in written}
    assert not [file.name for file in written if key.encode() in file.read_bytes()]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ftp://x"], "expected the address"),
        (["http://user:pw@127.0.0.1:1"], "keys do not belong"),
        (["http://127.0.0.1:1", "--rate", "4"], "has no unit"),
        (["http://127.0.0.1:1", "--rate", "4/s", "--concurrency", "2"], "contradict"),
        (["http://127.0.0.1:1", "--concurrency", "0"], "--concurrency"),
        (["http://127.0.0.1:1", "--requests", "10000000000"], "--requests"),
        (["http://127.0.0.1:1", "--key-env", "NOT_SET_ANYWHERE"], "is not set"),
        (["http://127.0.0.1:1", "--resume"], "--output"),
        (["http://127.0.0.1:1", "--sweep", "--concurrency", "8", "--most", "4"], "--most"),
    ],
)
def test_a_bad_request_is_one_sentence(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = command("measure", "serve", *arguments, "--model", "m")
    assert result.exit_code == 2
    sentence = result.stderr.strip().splitlines()[-1]
    assert sentence.startswith("tonnage: ") and says in sentence, result.stderr


def point(delay_s: float | None, ttft_s: float | None) -> Point:
    return Point(completed=9, client_delay_s=delay_s, ttft_s=None if ttft_s is None else Latency(count=9, p50=ttft_s))


@pytest.mark.parametrize(
    ("delay_s", "ttft_s", "late"),
    [
        (0.010, 0.100, True),
        (0.004, 0.100, False),
        (0.006, 0.100, True),
        (MIN_LATE_S, 0.002, False),
        (None, 0.1, False),
        (0.5, None, False),
    ],
)
def test_more_than_a_twentieth_of_what_is_measured(delay_s: float | None, ttft_s: float | None, late: bool) -> None:
    assert is_late(point(delay_s, ttft_s)) is late
