"""A server to attack: `tonnage web` in a process of its own on loopback, and a client that asks it quick questions."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
MODEL: Final = "meta-llama/Llama-3.1-8B-Instruct"
PLAN: Final = {"model": MODEL, "traffic": "chat", "ttft": "1 s", "tpot": "50 ms"}
"""A plan over the whole catalogue, but for its rate."""
LONG: Final = {
    "model": MODEL,
    "accelerator": "H100",
    "traffic": {"profile": "agent", "rate": "3/s", "requests": 200_000},
    "slo": {"ttft": "1 s", "tpot": "50 ms"},
    "capacity": True,
}
"""Among the longest simulations that the page takes: ten seconds, most of them to find what agents may load."""
MINUTES: Final = {**LONG, "traffic": {"profile": "agent", "rate": "3/s", "requests": 2_000_000}}
"""A simulation of minutes, for the command line."""
BETWEEN_S: Final = 0.1


class Server:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process, self.address = process, address
        found = re.fullmatch(r"http://([^/]+):(\d+)(?:/\?token=(.*))?", address)
        assert found is not None, address
        self.port, self.token = int(found[2]), found[3] or ""

    def connect(self) -> socket.socket:
        """A bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def send(self, path: str, body: Any) -> socket.socket:
        """A question whose answer nobody has read yet."""
        content = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        connection = self.connect()
        connection.sendall(head.encode() + content)
        return connection

    def state(self) -> dict[str, Any]:
        """What /health says."""
        told: dict[str, Any] = json.loads(ask(self, "GET", "/health")[2])
        return told

    def idle(self, within_s: float) -> bool:
        """Whether nothing is at work or waits, soon."""
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            now = self.state()
            if now["working"] == now["waiting"] == 0:
                return True
            time.sleep(0.05)
        return False

    def memory_bytes(self) -> float:
        """Of the server and all its workers, shared pages counted once."""
        return sum(_proportional_bytes(pid) for pid in family(self.process.pid))

    def interrupt_s(self) -> float:
        """How long it takes to end after Ctrl-C, which reaches every process of a terminal. [s]"""
        return end_of_s(self.process)


class Probe:
    """What quick questions waited for their answers, asked one after the other beside an attack."""

    def __init__(self) -> None:
        self.waits_s: list[float] = []
        self.failed: list[str] = []

    @property
    def slowest_s(self) -> float:
        """[s]"""
        return max(self.waits_s, default=0.0)

    def findings(self, limit_s: float = 1.0) -> tuple[str, ...]:
        """What broke the promise that /fit answers within a second."""
        late = [f"/fit took {self.slowest_s:.2f} s"] if self.slowest_s > limit_s else []
        return (*late, *[f"/fit: {why}" for why in dict.fromkeys(self.failed)])


@contextmanager
def served(*options: str, env: dict[str, str] | None = None) -> Iterator[Server]:
    """A server on a free port, warmed with one plan; killed at the end."""
    command = [sys.executable, "-m", "tonnage", "web", "--port", "0", *options]
    settings = {**os.environ, "TONNAGE_OFFLINE": "1", **(env or {})}
    with started(command, stderr=subprocess.PIPE, env=settings) as process:
        assert process.stderr is not None
        address = next(word for line in process.stderr for word in line.split() if word.startswith("http"))
        threading.Thread(target=process.stderr.read, daemon=True).start()
        server = Server(process, address)
        bearer = {"Authorization": f"Bearer {server.token}"} if server.token else {}
        ask(server, "POST", "/fit", {"model": MODEL, "accelerator": "H100"}, headers=bearer)
        ask(server, "POST", "/plan/serve", {**PLAN, "rate": "1/s", "accelerator": "L4", "quick": True}, headers=bearer)
        yield server


@contextmanager
def started(command: list[str], **how: Any) -> Iterator[subprocess.Popen[str]]:
    """A program in a session of its own; it and what it started are killed at the end."""
    process = subprocess.Popen(command, cwd=ROOT, text=True, start_new_session=True, **how)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def ask(
    server: Server,
    method: str,
    path: str,
    body: Any = None,
    *,
    headers: dict[str, str] | None = None,
    timeout_s: float = 300.0,
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer, over a connection of its own."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=timeout_s)
    try:
        content = body if body is None or isinstance(body, bytes) else json.dumps(body)
        kind = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, path, content, {**kind, **(headers or {})})
        reply = connection.getresponse()
        return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()
    finally:
        connection.close()


@contextmanager
def probed(server: Server) -> Iterator[Probe]:
    """Quick questions, each another one, one after the other until the attack is over."""
    probe, over = Probe(), threading.Event()

    def run() -> None:
        context = 1000
        while not over.is_set():
            context += 1
            began = time.monotonic()
            try:
                body = {"model": MODEL, "accelerator": "H100", "context": str(context)}
                status, _, _ = ask(server, "POST", "/fit", body, headers={"User-Agent": "probe"}, timeout_s=30)
                if status != 200:
                    probe.failed.append(f"status {status}")
            except (OSError, HTTPException) as wrong:
                probe.failed.append(type(wrong).__name__)
            probe.waits_s.append(time.monotonic() - began)
            over.wait(BETWEEN_S)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield probe
    finally:
        over.set()
        thread.join(60)


@contextmanager
def tools() -> Iterator[subprocess.Popen[str]]:
    """A server of tools for assistants."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with started([sys.executable, "-m", "tonnage", "mcp"], **pipes) as process:
        yield process


def end_of_s(process: subprocess.Popen[str]) -> float:
    """How long a program takes to end after Ctrl-C, which reaches every process of its terminal. [s]"""
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    process.wait(timeout=60)
    return time.monotonic() - began


def interrupted_cpu_s(command: list[str], *, after_cpu_s: float) -> tuple[int, float]:
    """
    Exit code of a command that is interrupted after so much work, and its work from then on; 0 if it was quicker.

    It is interrupted again after a second: the first time, a search that has an answer ends with that.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "tonnage", *command], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while process.returncode is None and _cpu_s(process.pid) < after_cpu_s:
        time.sleep(0.02)
    before_s = _cpu_s(process.pid)
    os.kill(process.pid, signal.SIGINT)  # Popen's own would reap one that has ended
    ended, status, used = 0, 0, None
    again = time.monotonic() + 1.0
    while not ended and time.monotonic() < again:
        ended, status, used = os.wait4(process.pid, os.WNOHANG)
        time.sleep(0.02)
    if not ended or used is None:
        os.kill(process.pid, signal.SIGINT)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode == -signal.SIGINT:  # the second one met an interpreter that was ending already
        process.returncode = 130
    return process.returncode, used.ru_utime + used.ru_stime - before_s


def _cpu_s(pid: int) -> float:
    """Work of a process so far; without end once it has ended. [s]"""
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        if fields[0] != "Z":
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return math.inf


def family(pid: int) -> list[int]:
    """A process and all that it started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):
            for child in (task / "children").read_text().split():
                found += family(int(child))
    return found


def _proportional_bytes(pid: int) -> float:
    with suppress(OSError):
        rolled = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
        return 1024.0 * int(re.search(r"^Pss:\s+(\d+)", rolled, re.MULTILINE)[1])  # type: ignore[index]
    return 0.0
