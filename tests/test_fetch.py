"""Servers that mean harm, for every command that fetches: it ends in time, in one sentence, and asks no other host."""

import contextlib
import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.command import told
from tonnage.catalog import refresh, traces
from tonnage.catalog.hub import online
from tonnage.data import update
from tonnage.errors import UNSEEN, TonnageError
from tonnage.fetch import in_time
from tonnage.measure import scrape
from tonnage.measure.diagnose import window

WITHIN_S = 0.4
PATIENCE_S = 20.0
"""Of a busy machine; whoever waits for the server waits for good."""
OK = b"HTTP/1.1 200 OK\r\n"
ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
MOVED = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: {}\r\n\r\n"
SAYS: dict[str, bytes] = {
    "another host": b"",
    "a loop": b"",
    "a file": MOVED.format("file:///etc/hostname").encode(),
    "gzip": OK + b"Content-Encoding: gzip\r\n\r\n",
    "a page of HTML": OK + b"Content-Type: text/html\r\nContent-Length: 14\r\n\r\n<html></html>\n",
    "less than it says": OK + b"Content-Length: 900\r\n\r\n{",
    "negative length": OK + b"Content-Length: -5\r\n\r\n{}",
    "hidden characters": b"HTTP/1.1 500 \x1b[2J\xe2\x80\xae\r\nContent-Length: 0\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x1b[2J" * 20,
    "nothing": b"",
}
"""A fault of a server, and what it answers; the next ones never end."""
DRIPS = {"its head": (OK, b"a"), "its body": (ENDLESS, b"a")}
FLOODS = {"more and more": (ENDLESS, b"[1,2]," * 10_000), "more and more of its head": (OK, b"a: b\r\n" * 10_000)}


class Server:
    """On this machine; `asked` counts the connections that it had."""

    def __init__(self, fault: str, away: str = "") -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        self.asked, self.ended = 0, threading.Event()
        self.fault, self.away = fault, away
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while not self.ended.is_set():
                client, _ = self.listening.accept()
                self.asked += 1
                threading.Thread(target=self.answer, args=(client,), daemon=True).start()

    def answer(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            client.recv(65536)
            if self.fault in DRIPS or self.fault in FLOODS:
                head, more = (DRIPS | FLOODS)[self.fault]
                client.sendall(head)
                while not self.ended.wait(0.02 if self.fault in DRIPS else 0):
                    client.sendall(more)
            moved = {"another host": self.away, "a loop": f"{self.url}/again"}.get(self.fault)
            client.sendall(MOVED.format(moved).encode() if moved else SAYS.get(self.fault, b""))
            if self.fault == "gzip":
                client.sendall(gzip.compress(b"[" * 10_000_000))


@pytest.fixture
def served() -> Iterator[Callable[..., Server]]:
    kept: list[Server] = []

    def start(fault: str, away: str = "") -> Server:
        kept.append(Server(fault, away))
        return kept[-1]

    yield start
    for one in kept:
        one.ended.set()
        one.listening.close()


def _started(folder: Path) -> Path:
    script = folder / "start.sh"
    script.write_text("vllm serve meta-llama/Llama-3.1-8B-Instruct\n", encoding="utf-8")
    return script


FETCHES: dict[str, Callable[[str, Path], list[object]]] = {
    "data update": lambda url, _: ["data", "update", "--from", url],
    "catalog traces": lambda _, folder: ["catalog", "traces", "--fetch", "azure2023-conv", "--folder", folder],
    "diagnose": lambda url, _: ["diagnose", f"{url}/metrics", "--window", "1s"],
    "diagnose Prometheus": lambda url, _: ["diagnose", url, "--window", "1s"],
    "catalog refresh": lambda *_: ["catalog", "refresh", "aws"],
    "catalog refresh --model": lambda *_: ["catalog", "refresh", "--model", "own/model"],
    "fit of a hub's model": lambda *_: ["fit", "own/model", "--accelerator", "H100"],
    "measure serve": lambda url, folder: ["measure", "serve", url, "--model", "m", "--requests", "1", "--warmup", "0",
                                          "--concurrency", "1", "--timeout", "0.4s", "--output", folder / "run.jsonl"],
    "measure serve --metrics": lambda url, folder: ["measure", "serve", url, "--model", "m", "--requests", "1",
                                                    "--metrics", f"{url}/metrics", "--output", folder / "run.jsonl"],
    "measure quick": lambda url, folder: ["measure", "quick", url, "--model", "8B", "--accelerator", "H100",
                                          "--time", "9 s", "--output", folder, "--out", folder / "own.toml"],
    "calibrate": lambda url, folder: ["calibrate", f"{url}/metrics", "--model", "8B", "--accelerator", "H100",
                                      "--engine", "vllm", "--out", folder / "own.toml"],
    "advise": lambda url, folder: ["advise", _started(folder), url, "--window", "1s"],
}  # fmt: skip


OF_A_HUB = ("fit of a hub's model", "catalog refresh --model")


@pytest.mark.parametrize("fault", [*SAYS, *DRIPS, *FLOODS])
@pytest.mark.parametrize("command", FETCHES)
def test_every_fetch_ends_in_one_sentence(
    command: str, fault: str, served: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if command == "catalog refresh":
        pytest.importorskip("gpuhunt")
    other = served("nothing")
    server = served(fault, other.url.replace("127.0.0.1", "localhost"))
    monkeypatch.setenv("TONNAGE_DATA_FOLDER", str(tmp_path / "data"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "TONNAGE_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(update, "INDEX_S", WITHIN_S)
    monkeypatch.setattr(window, "WITHIN_S", WITHIN_S)
    monkeypatch.setattr(scrape, "TIMEOUT_S", WITHIN_S)
    monkeypatch.setattr(refresh, "WITHIN_S", WITHIN_S)
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", server.url)
    for name, value in (("WITHIN_S", WITHIN_S), ("MAX_BYTES", 1 << 20), ("BASE", server.url)):
        monkeypatch.setattr(traces, name, value)
    if command in OF_A_HUB:
        constants = pytest.importorskip("huggingface_hub.constants")
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("HF_ENDPOINT", other.url)
        with contextlib.suppress(TonnageError):  # the library's imports take longer than the servers have
            online.fetch(online.Repository("own/first"), "config.json")
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setattr(online.fetch, "__kwdefaults__", {**(online.fetch.__kwdefaults__ or {}), "timeout_s": 0.15})
    began = time.monotonic()
    done = told(*FETCHES[command](server.url, tmp_path))
    shown = done.stdout + done.stderr
    assert time.monotonic() - began < PATIENCE_S
    assert done.exit_code == 2 and isinstance(done.exception, SystemExit), shown
    assert not UNSEEN.search(shown) and len(done.stderr.splitlines()) <= 2 and len(shown) < 2000, shown
    assert server.asked and (not other.asked or command in OF_A_HUB)  # a hub keeps files elsewhere


def test_what_hangs_is_left_behind() -> None:
    assert in_time(lambda: 7, PATIENCE_S) == 7
    with pytest.raises(TimeoutError):
        in_time(threading.Event().wait, 0.01)
    with pytest.raises(ZeroDivisionError):
        in_time(lambda: 1 // 0, PATIENCE_S)
