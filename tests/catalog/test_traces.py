"""Public request logs: fetched once, every format read, every fault said with its line."""

import contextlib
import gzip
import json
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.command import told as command
from tests.traces import trace_file

from tonnage.catalog import traces
from tonnage.catalog.traces import fetch_trace, find_trace, public_trace, public_traces, read_trace
from tonnage.errors import BadFact, UnknownName

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
)
MOONCAKE = (
    '{"timestamp": 0, "input_length": 1000, "output_length": 5, "hash_ids": [7, 9]}\n'
    '{"timestamp": 3000, "input_length": 700, "output_length": 6, "hash_ids": [7, 11]}\n'
)
VLLM = '{"request_id": "a", "input_toks": 10, "output_toks": 20, "arrival_time": 5.5, "queued_ts": 100.25}\n'
USAGE = '{"created": 1700000000, "usage": {"prompt_tokens": 12, "completion_tokens": 0}}\n'


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trace"
    path.write_text(text, encoding="utf-8")
    return path


def test_azure(tmp_path: Path) -> None:
    found = read_trace(written(tmp_path, AZURE))
    assert found.sent_s.tolist() == pytest.approx([0.0, 4.314579], abs=1e-5)
    assert found.prompt.tolist() == [374, 396] and found.output.tolist() == [44, 109]


def test_mooncake_in_a_gzip(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl.gz"
    path.write_bytes(gzip.compress(MOONCAKE.encode()))
    found = read_trace(path)
    assert found.sent_s.tolist() == [0.0, 3.0]
    assert found.offsets.tolist() == [0, 2, 4] and found.blocks.tolist() == [0, 1, 0, 2]
    assert found.hash_tokens == 512


def test_logs_of_engines_and_of_their_clients(tmp_path: Path) -> None:
    assert read_trace(written(tmp_path, VLLM)).prompt.tolist() == [10]
    assert read_trace(written(tmp_path, USAGE)).output.tolist() == [1]


def test_a_part_of_a_log(tmp_path: Path) -> None:
    assert len(read_trace(written(tmp_path, AZURE), limit=1).sent_s) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no requests"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "no requests"),
        ("time,prompt_tokens\n0,5\n", "line 1 has no output length"),
        ("a,b,c\n1,2,3\n", "line 1 has no time"),
        ("time,prompt_tokens,output_tokens\n5,5,5\n4,5,5\n", "line 3: 4 s is earlier"),
        ("time,prompt_tokens,output_tokens\n-1,5,5\n", "line 2: time -1"),
        ("time,prompt_tokens,output_tokens\nnan,5,5\n", "line 2: time nan"),
        ("time,prompt_tokens,output_tokens\n0,-5,5\n", "line 2: prompt length '-5'"),
        ("time,prompt_tokens,output_tokens\n0,5,nan\n", "line 2: output length 'nan'"),
        ("time,prompt_tokens,output_tokens\n0,5,inf\n", "line 2: output length 'inf'"),
        ("time,prompt_tokens,output_tokens\n0,5,much\n", "line 2: output length 'much'"),
        ("time,prompt_tokens,output_tokens\n0,5\n", "line 2 has 2 columns"),
        ("time,prompt_tokens,output_tokens\ntomorrow,5,5\n", "line 2: 'tomorrow' is no time"),
        ('{"time": 0, "prompt_tokens": 1, "output_tokens": 1}\n{"time": 1,\n', "line 2 is not a JSON object"),
        ('{"time": null, "prompt_tokens": 1, "output_tokens": 1}\n', "line 1"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": 5}\n', "hash_ids"),
        (MOONCAKE.replace("[7, 9]", str([*range(9)])), "request 1: 1,000 tokens and 9 block ids contradict"),
    ],
)
def test_faults_are_said_with_their_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadFact, match=says) as caught:
        read_trace(written(tmp_path, text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [16, 64, 512])
@pytest.mark.parametrize("partly_filled", [True, False])
def test_block_ids_say_how_many_tokens_a_block_has(tmp_path: Path, size: int, partly_filled: bool) -> None:
    lines = ""
    for at, prompt in enumerate((900, 1_530, 7_001, 12_288)):
        ids = list(range(-(-prompt // size) if partly_filled else prompt // size))
        lines += f'{{"timestamp": {at}, "input_length": {prompt}, "output_length": 5, "hash_ids": {ids}}}\n'
    assert read_trace(written(tmp_path, lines)).hash_tokens == size


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(BadFact, match="does not exist"):
        read_trace(tmp_path / "none.csv")
    with pytest.raises(BadFact, match="folder"):
        read_trace(tmp_path)
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes(gzip.compress(AZURE.encode() * 50)[:60])
    with pytest.raises(BadFact, match="damaged"):
        read_trace(damaged)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x01" * 9)
    with pytest.raises(BadFact, match="not text"):
        read_trace(tmp_path / "binary")


@pytest.mark.parametrize("packed", [False, True])
def test_a_large_log_is_never_in_memory(tmp_path: Path, packed: bool) -> None:
    line = '{"created": %d, "text": "%s", "usage": {"prompt_tokens": 12, "completion_tokens": 3}}\n'
    path = tmp_path / "large"
    with gzip.open(path, "wt", compresslevel=1) if packed else path.open("w") as file:
        for i in range(12_000):
            file.write(line % (i, "x" * 4_000))
    tracemalloc.start()
    part = read_trace(path, limit=10)
    whole = read_trace(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(part.sent_s) == 10 and len(whole.sent_s) == 12_000
    assert peak < 2e6  # of 48 MB


def test_a_log_cut_short_in_its_middle_is_said(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    rows = "".join(f"{i},{i * 7919 % 5000},{i * 104729 % 900}\n" for i in range(60_000))
    whole = gzip.compress(("time,prompt_tokens,output_tokens\n" + rows).encode())
    path.write_bytes(whole[: len(whole) * 2 // 3])
    assert len(read_trace(path, limit=100).sent_s) == 100
    with pytest.raises(BadFact, match="damaged gzip"):
        read_trace(path)


def test_every_public_log_names_its_licence() -> None:
    assert all(trace.licence and trace.cite and trace.requests > 0 for trace in public_traces().values())
    with pytest.raises(UnknownName, match="mooncake-conversation"):
        public_trace("mooncake-conversatoin")


def test_the_list_shows_licences() -> None:
    done = command("catalog", "traces", "--json")
    rows = json.loads(done.output)["rows"]
    assert {row["name"] for row in rows} == set(public_traces())
    assert all(row["licence"] and row["repository"] for row in rows)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("azure2023-conv", "azure2023_conv.csv.gz"),
        ("azure2023-code", "azure2023_code.csv.gz"),
        ("mooncake-conversation", "mooncake_fast25_conversation.jsonl.gz"),
        ("mooncake-synthetic", "mooncake_fast25_synthetic.jsonl.gz"),
    ],
)
def test_the_real_ones(name: str, file: str) -> None:
    assert len(read_trace(trace_file(file)).sent_s) == public_trace(name).requests


HEAD = "time,prompt_tokens,output_tokens\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + "1700000000000,5,5\n", "line 2: time 1700000000000 counts milliseconds of the clock; write seconds"),
        (HEAD + "0,5,5\n1700000000000000,5,5\n", "line 3: .* counts microseconds"),
        (USAGE.replace("1700000000", "1700000000000000000"), "line 1: .* counts nanoseconds"),
        (
            MOONCAKE.replace(": 0,", ": 1700000000,").replace("3000", "1700000003"),
            "line 1: .* counts seconds .* hash_ids",
        ),
        (AZURE.replace("46.6805900", "46.1e5"), "line 2: '2023-11-16 18:15:46.1e5' is no time"),
        (AZURE.replace("46.6805900", "61.5"), "line 2: time .* is no time"),
        (AZURE.replace("46.6805900", "46+02:00"), "line 3 has dates for a time where .* dates with an offset"),
        (AZURE.replace("2023-11-16 18:15:46.6805900", "1700158546"), "line 3 has dates .* where .* have numbers"),
        (AZURE.replace("11-16", "13-16"), "no calendar has it"),
        (HEAD + "1_5,5,5\n", "line 2"),
        (HEAD + '"0,5",5,5\n', "line 2: '0,5' is no time"),
        ("time,prompt_tokens,prompt_tokens,output_tokens\n0,5,6,5\n", "names the column 'prompt_tokens' twice"),
        ('{"time": 0, "time": 9, "prompt_tokens": 1, "output_tokens": 1}\n', "line 1 gives 'time' twice"),
        ('{"time": 0, "Time": 9, "prompt_tokens": 1, "output_tokens": 1}\n', "line 1 gives 'Time' twice"),
        ('{"time": 0, "prompt_tokens": 7, "usage": {"prompt_tokens": 1, "completion_tokens": 1}}\n', "twice"),
        ("time,prompt_tokens,input_tokens,output_tokens\n0,5,6,5\n", "prompt length twice, as 'prompt_tokens' and as"),
        ("timestamp,time,prompt_tokens,output_tokens\n0,5,6,5\n", "the time twice, as 'timestamp' and as 'time'"),
        ('{"time": 0, "prompt_len": 7, "usage": {"prompt_tokens": 8, "completion_tokens": 1}}\n', "as 'prompt_len'"),
        (HEAD + "".join(f"{45246.5 + i / 86400:.8f},9,9\n" for i in range(60)), "these are days of a spreadsheet"),
        ('{"time": true, "prompt_tokens": 1, "output_tokens": 1}\n', "line 1: time True is no time"),
        ('{"time": 0, "prompt_tokens": true, "output_tokens": 1}\n', "line 1: prompt length 'True'"),
        (MOONCAKE + '{"timestamp": 4000, "input_length": 7, "output_length": 6}\n', "line 3 has no hash_ids"),
        (MOONCAKE.replace("[7, 9]", "[true]"), "hash_ids must be a list"),
        (MOONCAKE.replace("[7, 9]", '["%s"]' % ("x" * 99)), "more than 64 characters"),
    ],
)
def test_what_would_be_read_as_something_else_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadFact, match=says) as caught:
        read_trace(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_what_looks_like_a_mistake_and_is_none_is_read(tmp_path: Path) -> None:
    same = '{"time": 0, "prompt_tokens": 7, "usage": {"prompt_tokens": 7, "completion_tokens": 1}}\n'
    assert len(read_trace(written(tmp_path, same)).sent_s) == 1
    afternoon = HEAD + "".join(f"{45246 + i},9,9\n" for i in range(60))
    assert read_trace(written(tmp_path, afternoon)).sent_s[-1] == 59.0


@pytest.mark.parametrize("zone", ["Z", "+00:00", "+0000"])
def test_dates_with_their_distance_from_utc(tmp_path: Path, zone: str) -> None:
    rows = f"2023-11-16T18:15:46.5{zone},3,4\n2023-11-16T18:15:50{zone},3,4\n"
    assert read_trace(written(tmp_path, HEAD + rows)).sent_s.tolist() == [0.0, 3.5]
    moved = rows.replace(f"50{zone}", "50-01:00")
    assert read_trace(written(tmp_path, HEAD + moved)).sent_s.tolist() == [0.0, 3603.5]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "row",
    [
        lambda i: f"{i * 0.37:.2f},{i % 900},{i % 7}",
        lambda i: f'"{i}","{i % 900}","{i % 7}"',
        lambda i: f"2023-11-16 18:{i // 60 % 60:02d}:{i % 60:02d}.{i % 10}805900,{i % 900},{i % 7}",
        lambda i: f"2023-11-16T18:{i // 60 % 60:02d}:{i % 60:02d}{'.25' if i % 3 == 0 else ''}Z,{i % 900},{i % 7}.0",
    ],
)
def test_a_piece_at_once_is_what_its_lines_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: Callable[[int], str], ending: str
) -> None:
    path = tmp_path / "trace.csv"
    lines = [HEAD.strip(), *map(row, range(3_000))]
    path.write_bytes(ending.join([*lines, ""]).encode())
    monkeypatch.setattr("tonnage.catalog.traces.PIECE", 4_096)
    at_once = read_trace(path)
    monkeypatch.setattr("tonnage.catalog.trace_columns._take_at_once", lambda log, piece: False)
    assert read_trace(path) == at_once and len(at_once.sent_s) == 3_000


def test_json_lines_at_once_are_what_they_are_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = (json.dumps([i, f"b{i % 5}", i + 1]) for i in range(2_000))
    rows = [
        f'{{"timestamp": {i * 40}, "input_length": {1_025 + i % 512}, "output_length": 3, "hash_ids": {x}}}'
        for i, x in enumerate(ids)
    ]
    path = written(tmp_path, "\n".join(rows))
    monkeypatch.setattr("tonnage.catalog.traces.PIECE", 4_096)
    at_once = read_trace(path)
    monkeypatch.setattr("tonnage.catalog.trace_columns._take_at_once", lambda log, piece: False)
    assert read_trace(path) == at_once and at_once.offsets[-1] == 6_000


@pytest.mark.parametrize(
    ("text", "most", "says"),
    [
        (b"\n" * 2_500_000, {}, "1,000,000 empty lines"),
        (b"\r\n" * 2_500_000, {}, "1,000,000 empty lines"),
        (HEAD.encode() + b"0,1,1\n" * 99, {"MAX_REQUESTS": 50}, "more than 50 requests"),
        (MOONCAKE.encode(), {"MAX_BLOCKS": 3}, "line 2: more than 3 block ids"),
        (MOONCAKE.encode(), {"MAX_DISTINCT": 2}, "line 2: more than 2 different block ids"),
        (HEAD.encode() + b"0" * 5_000_000, {}, "line 2 is longer than 4 MiB"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_what_would_never_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, most: dict[str, int], says: str, packed: bool
) -> None:
    for name, limit in most.items():
        monkeypatch.setattr(f"tonnage.catalog.trace_columns.{name}", limit)
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(text, 1) if packed else text)
    with pytest.raises(BadFact, match=says):
        read_trace(path)


def test_a_packed_file_that_unpacks_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.gz"
    path.write_bytes(gzip.compress(HEAD.encode() + b"0,1,1\n" * 300_000))
    assert len(read_trace(path).sent_s) == 300_000
    monkeypatch.setattr("tonnage.catalog.traces.UNPACKED_FREE", 1_000_000)
    with pytest.raises(BadFact, match="unpacks to over 100 times its size"):
        read_trace(path)


def test_a_reader_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tonnage.catalog.traces.PIECE", 1_000)
    told: list[tuple[int, int]] = []
    path = written(tmp_path, HEAD + "0,1,1\n" * 9_000)
    read_trace(path, watch=lambda done, size: told.append((done, size)))
    assert len(told) > 5 and told == sorted(told) and told[-1] == (path.stat().st_size,) * 2


NAME = "azure2023-code"
ROWS = 8_819
LOG = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:{i // 600:02d}:{i // 10 % 60:02d}.{i % 10}00,{100 + i % 50},{1 + i % 9}\n" for i in range(ROWS)
)
PATHS: list[str] = []


class Answer(BaseHTTPRequestHandler):
    """The log at its path; a short one, one that breaks off, and none under other repositories' names."""

    def do_GET(self) -> None:
        PATHS.append(self.path)
        body = LOG.encode()
        base = self.path.partition("/Azure")[0]
        if base == "/gone":
            self.send_error(404)
            return
        if base == "/away":
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self.server.server_port}{self.path[len(base) :]}")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body) if base != "/short" else len(body) // 2))
        self.end_headers()
        if base == "/slow":
            with contextlib.suppress(OSError):
                for byte in body:
                    self.wfile.write(bytes([byte]))
                    time.sleep(0.02)
            return
        self.wfile.write(body[: len(body) // 2] if base in ("/short", "/broken") else body)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[str]:
    PATHS.clear()
    listening = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.server_port}"
    listening.shutdown()
    listening.server_close()


def test_a_log_is_fetched_once_and_kept(server: str, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    kept = fetch_trace(NAME, folder=tmp_path, base=server, watch=lambda done, total: seen.append((done, total)))
    assert kept == tmp_path / "azure2023-code.csv" and kept.read_text() == LOG
    assert PATHS == ["/Azure/AzurePublicDataset/HEAD/data/AzureLLMInferenceTrace_code.csv"]
    assert seen[-1] == (len(LOG), len(LOG))
    assert fetch_trace(NAME, folder=tmp_path, base=server) == kept and len(PATHS) == 1
    assert [path.name for path in tmp_path.iterdir()] == [kept.name]


@pytest.mark.parametrize(
    ("base", "says"),
    [
        ("/gone", "404"),
        ("/short", r"holds 4,\d+ requests where"),
        ("/broken", "broke off|cannot be"),
        ("/away", "leads to another host, .localhost:"),
    ],
)
def test_what_is_not_the_log_is_not_kept(server: str, tmp_path: Path, base: str, says: str) -> None:
    with pytest.raises(BadFact, match=says) as caught:
        fetch_trace(NAME, folder=tmp_path, base=server + base)
    assert not list(tmp_path.iterdir()) and "\n" not in str(caught.value)


def test_a_server_that_sends_a_byte_now_and_then_or_no_end_is_left(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "WITHIN_S", 0.3)
    with pytest.raises(BadFact, match=r"did not come within 0\.3 s"):
        fetch_trace(NAME, folder=tmp_path, base=f"{server}/slow")
    monkeypatch.setattr(traces, "WITHIN_S", 60.0)
    monkeypatch.setattr(traces, "MAX_BYTES", 1_000)
    with pytest.raises(BadFact, match="sends more than 0 GiB"):
        fetch_trace(NAME, folder=tmp_path, base=server)
    assert not list(tmp_path.iterdir())


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadFact, match="cannot be reached"):
        fetch_trace(NAME, folder=tmp_path, base="http://127.0.0.1:9")
    with pytest.raises(UnknownName, match="azure2023-conv"):
        fetch_trace("azure2023-convv", folder=tmp_path)


def test_a_public_log_that_was_not_fetched_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(BadFact, match=f"tonnage catalog traces --fetch {NAME}"):
        find_trace(NAME)


def test_the_command_says_the_licence_and_a_simulation_plays_it_by_name(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(traces, "BASE", server)
    with pytest.raises(BadFact, match="tonnage catalog traces --fetch azure2023-code"):
        find_trace(NAME)
    done = command("catalog", "traces", "--fetch", NAME)
    assert done.exit_code == 0 and "8,819 requests in " in done.output and "CC-BY 4.0" in done.output
    assert len(traces.read_trace(find_trace(NAME)).sent_s) == ROWS
    assert find_trace("own.csv") == "own.csv"
    case = f"model: 8B\naccelerator: H100\ntraffic: {{trace: {NAME}, requests: 500}}\n"
    told = command("simulate", "-", "--why", given=case)
    assert told.exit_code == 0 and "500 requests of" in told.output and "Splitwise" in told.output
