"""Against a running server, over sockets: questions end with their time or their client, slow clients are closed."""

import json
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tools.attack.server import LONG, MODEL, Server, family, served

httpx = pytest.importorskip("httpx")
pytest.importorskip("litestar", reason="the web extra brings it")

FIT = {"model": MODEL, "accelerator": "H100", "context": "8k"}
SPARE_S = 30.0
"""A busy machine is slow; what must not happen would take minutes."""


@pytest.fixture(scope="module")
def tight(started: Any) -> Iterator[Any]:
    """A server with one worker and little patience."""
    limits = {"question_s": 3.0, "header_s": 1.0, "body_s": 1.0, "send_s": 1.0}
    with started(workers=1, waiting=3, waiting_each=2, connections=20, **limits) as address:
        server = Server(None, address)  # type: ignore[arg-type]
        with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
            client.post("/plan/serve", json={"model": MODEL, "rate": "1/s", "accelerator": "L4", "quick": True})
        yield server


@pytest.fixture
def client(tight: Server) -> Iterator[Any]:
    with httpx.Client(base_url=tight.address, timeout=60, trust_env=False) as client:
        yield client


def until(what: Any) -> bool:
    """Whether it comes to be true while there is patience."""
    end = time.monotonic() + SPARE_S
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.05)
    return False


def fit_status(client: Any, **fields: str) -> int:
    """Of a quick question; asked again where a busy machine left it no time."""
    codes: list[int] = []
    assert until(lambda: codes.append(client.post("/fit", json=FIT | fields).status_code) or codes[-1] != 504)
    return codes[-1]


def test_a_question_that_takes_too_long_is_stopped_and_says_what_to_ask(tight: Server, client: Any) -> None:
    for accept in ("application/json", "text/html"):
        reply = client.post("/simulate", json=LONG, headers={"accept": accept})
        assert reply.status_code == 504 and "traffic.requests: 20000" in reply.json()["error"]
    fields = {"model": MODEL, "accelerator": "H100", "traffic.profile": "agent", "traffic.rate": "3/s",
              "traffic.requests": "200000", "slo.ttft": "1 s", "slo.tpot": "50 ms", "capacity": "true"}  # fmt: skip
    page = client.get("/simulate", params=fields, headers={"accept": "text/html"})
    assert page.status_code == 504 and 'role="alert"' in page.text and 'value="200000"' in page.text
    assert tight.idle(SPARE_S)


def test_a_client_that_leaves_stops_its_question(tight: Server, client: Any) -> None:
    held = [tight.send("/simulate", {**LONG, "replicas": n}) for n in (1, 2)]
    assert until(lambda: (tight.state()["working"], tight.state()["waiting"]) == (1, 1))
    for connection in held:
        connection.close()
    assert tight.idle(SPARE_S)
    assert fit_status(client) == 200


def test_two_clients_with_one_question_share_its_work(tight: Server) -> None:
    held = [tight.send("/simulate", {**LONG, "replicas": 3}) for _ in range(2)]
    assert until(lambda: tight.state()["working"] == 1)
    assert tight.state()["waiting"] == 0
    held[0].close()
    held[1].settimeout(SPARE_S)
    assert b" 504 " in held[1].recv(4096)[:20], "the other one still waits for it"
    held[1].close()


def test_a_full_line_says_when_to_come_back_and_quick_questions_pass_it(tight: Server, client: Any) -> None:
    held = [tight.send("/simulate", {**LONG, "replicas": n}) for n in range(1, 4)]
    assert until(lambda: tight.state()["waiting"] == 2)
    # httpx is another program than the one that sent these: it has a place of its own, and then the line is full.
    held.append(tight.send("/simulate", {**LONG, "replicas": 9}))
    held[-1].settimeout(SPARE_S)
    told = held[-1].recv(4096).lower()
    assert b" 503 " in told[:20] and b"retry-after: " in told
    assert fit_status(client, context="9k") == 200
    for connection in held:
        connection.close()
    assert tight.idle(SPARE_S)


@pytest.mark.parametrize("sent", [b"", b"P", b"POST /fit HTTP/1.1\r\nHost: x\r\n"])
def test_a_head_that_never_ends_is_closed(tight: Server, sent: bytes) -> None:
    with tight.connect() as connection:
        connection.settimeout(SPARE_S)
        connection.sendall(sent)
        told = connection.recv(4096)
        assert told.startswith(b"HTTP/1.1 408 ") if sent else told == b""
        assert not sent or connection.recv(4096) == b""


def test_the_second_head_of_a_connection_has_its_time_too(tight: Server) -> None:
    head = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{tight.port}\r\n\r\n".encode()
    with tight.connect() as connection:
        connection.settimeout(SPARE_S)
        connection.sendall(head)
        told = b""
        while not told.endswith(b"}"):
            told += connection.recv(4096)
        connection.sendall(head[:20])
        assert connection.recv(4096).startswith(b"HTTP/1.1 408 ")


def test_a_body_that_never_ends_is_refused(tight: Server) -> None:
    head = (
        f"POST /fit HTTP/1.1\r\nHost: 127.0.0.1:{tight.port}\r\nContent-Type: application/json\r\n"
        "Content-Length: 9\r\n\r\n{"
    )
    with tight.connect() as connection:
        connection.settimeout(SPARE_S)
        connection.sendall(head.encode())
        assert b" 408 " in connection.recv(4096)[:20]


def test_an_answer_that_nobody_reads_is_dropped(tight: Server) -> None:
    head = f"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1:{tight.port}\r\n\r\n".encode()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(("127.0.0.1", tight.port))
        for _ in range(200):
            try:
                connection.settimeout(0.2)
                connection.sendall(head * 20)
            except (TimeoutError, OSError):
                break

        def ended() -> bool:
            try:
                connection.send(b"x")
            except TimeoutError:
                return False
            except OSError:
                return True
            return False

        assert until(ended)


def test_too_many_connections_cost_the_oldest_that_owes_its_head(tight: Server, client: Any) -> None:
    held = [tight.connect() for _ in range(60)]
    for n in range(3):
        assert fit_status(client, context=f"{n + 2}k") == 200
    assert until(lambda: all(connection.recv(1) == b"" for connection in held[:30]))
    for connection in held:
        connection.close()


def test_a_followed_question_may_take_longer_and_tells_more_than_its_end(started: Any) -> None:
    fields = {
        "model": MODEL,
        "accelerator": "H100",
        "traffic.profile": "reasoning",
        "traffic.rate": "2/s",
        "traffic.requests": "60000",
    }
    with started(question_s=0.3) as address, httpx.Client(base_url=address, timeout=120) as client:
        events = [
            line for line in client.get("/progress/simulate", params=fields).text.split("\r\n\r\n") if line.strip()
        ]
        told = [(event.split("event: ")[1].split()[0], json.loads(event.split("data: ")[1])) for event in events]
        assert {name for name, _ in told[:-1]} <= {"waiting", "working", "progress"} and len(told) > 1
        states = [figures for name, figures in told if name == "progress"]
        assert all(state["total"] == 60_000 and "elapsed_s" in state for state in states)
        name, end = told[-1]
        assert name == "end" and "requests" in end["sentence"]
        assert client.get(end["answer"]).json()["requests"] == 60_000
        again = client.get("/progress/simulate", params=fields).text
        assert again.count("event:") == 1 and end["answer"] in again


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent as a signal")
def test_ctrl_c_ends_the_server_and_all_that_it_started() -> None:
    with served() as server:
        held = [server.send("/simulate", {**LONG, "replicas": n}) for n in (1, 2, 3)]
        assert until(lambda: server.state()["working"] >= 2)
        started = family(server.process.pid)
        assert len(started) > 3
        server.interrupt_s()
        assert server.process.returncode == 130
        for connection in held:
            connection.close()
        assert until(lambda: not any(_lives(pid) for pid in started))


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
