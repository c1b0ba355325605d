"""Public logs fetched: from a server of the test's own, counted, kept once; what goes wrong is one sentence."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from tonnage.catalog import traces
from tonnage.catalog.traces import fetch_trace, find_trace
from tonnage.cli import root
from tonnage.errors import BadFact, UnknownName

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


def test_a_server_that_sends_a_byte_now_and_then_is_left(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "WITHIN_S", 0.3)
    with pytest.raises(BadFact, match=r"did not come within 0\.3 s"):
        fetch_trace(NAME, folder=tmp_path, base=f"{server}/slow")
    assert not list(tmp_path.iterdir())


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadFact, match="cannot be reached"):
        fetch_trace(NAME, folder=tmp_path, base="http://127.0.0.1:9")
    with pytest.raises(UnknownName, match="azure2023-conv"):
        fetch_trace("azure2023-convv", folder=tmp_path)


def test_the_command_says_the_licence_and_a_simulation_plays_it_by_name(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(traces, "BASE", server)
    with pytest.raises(BadFact, match="tonnage catalog traces --fetch azure2023-code"):
        find_trace(NAME)
    done = CliRunner().invoke(root, ["catalog", "traces", "--fetch", NAME])
    assert done.exit_code == 0 and "8,819 requests in " in done.output and "CC-BY 4.0" in done.output
    assert len(traces.read_trace(find_trace(NAME)).sent_s) == ROWS
    assert find_trace("own.csv") == "own.csv"
    case = f"model: 8B\naccelerator: H100\ntraffic: {{trace: {NAME}, requests: 500}}\n"
    told = CliRunner().invoke(root, ["simulate", "-", "--why"], input=case)
    assert told.exit_code == 0 and "500 requests of" in told.output and "Splitwise" in told.output
