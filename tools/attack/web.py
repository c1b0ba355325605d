"""Attacks on the page and the HTTP API, with real sockets, against a server that each of them starts on loopback."""

from __future__ import annotations

import json
import random
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tools.attack.bodies import address_of, bodies
from tools.attack.rows import Outcome, Row
from tools.attack.server import (
    LONG,
    MINUTES,
    MODEL,
    PLAN,
    Probe,
    ask,
    end_of_s,
    interrupted_cpu_s,
    probed,
    served,
    tools,
)

QUICK: Final = "`/fit` answers within 1 s at every moment"
HEADER_S: Final = 10.0
BODY_S: Final = 20.0
SPARE_S: Final = 3.0


def _count(full: int, share: float, *, least: int = 1) -> int:
    """Attempts; those that are made at the same time take no longer for being many."""
    return max(least, round(full * share))


def _figures(probe: Probe, more: str = "") -> str:
    told = f"slowest of {len(probe.waits_s)} quick questions {probe.slowest_s:.2f} s"
    return f"{told}, {more}" if more else told


def abandoned_simulations(share: float) -> Outcome:
    """Two at a time, each left after some seconds, while it is at work."""
    rounds, findings = _count(10, share), []
    with served() as server, probed(server) as probe:
        for _ in range(rounds):
            held = [server.send("/simulate", LONG) for _ in range(2)]
            time.sleep(5)
            for connection in held:
                connection.close()
            if not server.idle(1.0):
                findings.append("a simulation went on after its client had left")
    return Outcome(2 * rounds, (*findings, *probe.findings()), _figures(probe))


def abandoned_plans(share: float) -> Outcome:
    """Six at once, left after a second."""
    rounds, findings = _count(10, share), []
    with served() as server, probed(server) as probe:
        for round_ in range(rounds):
            held = [server.send("/plan/serve", {**PLAN, "rate": f"{2 + round_ + n / 10}/s"}) for n in range(6)]
            time.sleep(1)
            for connection in held:
                connection.close()
            if not server.idle(1.0):
                findings.append("a plan went on after its client had left")
    return Outcome(6 * rounds, (*findings, *probe.findings()), _figures(probe))


def parallel_plans(share: float) -> Outcome:
    """Each gets its answer, or 503 and when to come back; then it comes back."""
    number = _count(50, share, least=50)
    told: list[tuple[int, dict[str, str]]] = []

    def plan(rate: float) -> None:
        status, headers, _ = ask(server, "POST", "/plan/serve", {**PLAN, "rate": f"{rate}/s", "provider": "gcp"})
        told.append((status, headers))

    with served() as server, probed(server) as probe:
        _together([lambda rate=1 + n / 10: plan(rate) for n in range(number)])
    findings = [f"status {status}" for status, _ in told if status not in (200, 503)]
    findings += [
        "503 without Retry-After" for status, headers in told if status == 503 and "retry-after" not in headers
    ]
    full = sum(status == 503 for status, _ in told)
    return Outcome(number, (*findings, *probe.findings()), _figures(probe, f"{full} asked to come back later"))


def leaving_clients(share: float) -> Outcome:
    """Plans, simulations and quick questions, left at once or within half a second."""
    number, pick = _count(200, share, least=200), random.Random(1)

    def leave(n: int) -> None:
        path, body = pick.choice([
            ("/plan/serve", {**PLAN, "rate": f"{1 + n / 7:.3f}/s"}), ("/simulate", {**LONG, "replicas": 1 + n % 5}),
            ("/fit", {"model": MODEL, "accelerator": "H100", "context": str(20_000 + n)}),
        ])  # fmt: skip
        with server.send(path, body):
            time.sleep(pick.random() / 2)

    with served() as server, probed(server) as probe:
        before = server.memory_bytes()
        _together([lambda n=n: leave(n) for n in range(number)])
        findings = [] if server.idle(3.0) else ["work went on after all had left"]
        grown = server.memory_bytes() - before
    return Outcome(number, (*findings, *probe.findings()), _figures(probe, f"memory {grown / 1e6:+.0f} MB"))


def half_open(share: float) -> Outcome:
    """Connections that send nothing, half a head, or a byte now and then."""
    number = _count(600, share, least=600)
    with served() as server, probed(server) as probe:
        held = [server.connect() for _ in range(number)]
        began = time.monotonic()
        for n, connection in enumerate(held):
            connection.sendall((b"", b"POST /fit HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"G")[n % 3])
        while time.monotonic() - began < HEADER_S - 1:
            time.sleep(1)
            for connection in held[2::3]:
                connection.sendall(b"E")
        time.sleep(max(0.0, began + HEADER_S + SPARE_S - time.monotonic()))
        left = sum(not _is_closed(connection) for connection in held)
    findings = [f"{left} were still open after {HEADER_S + SPARE_S:g} s"] if left else []
    return Outcome(number, (*findings, *probe.findings()), _figures(probe, "all closed" if not left else ""))


def slow_bodies(share: float) -> Outcome:
    """Bodies that are announced and then dribble, or never come."""
    number = _count(200, share, least=200)
    head = b"POST /fit HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    with served() as server, probed(server) as probe:
        held = [server.connect() for _ in range(number)]
        began = time.monotonic()
        for connection in held:
            connection.sendall(head)
        while time.monotonic() - began < BODY_S - 1:
            time.sleep(1)
            for connection in held[::2]:
                connection.sendall(b" ")
        time.sleep(max(0.0, began + BODY_S + SPARE_S - time.monotonic()))
        told = [connection.recv(65536) for connection in held]
    findings = [f"not a 408: {reply[:40]!r}" for reply in told if b" 408 " not in reply[:20]]
    return Outcome(number, (*findings, *probe.findings()), _figures(probe))


def too_long(share: float) -> Outcome:
    """Expensive questions of each kind under a limit of two seconds."""
    rounds, findings, slowest = _count(10, share), [], 0.0
    fleet = {
        "workloads": [
            {"name": f"w{n}", "model": MODEL, "rate": f"{n + 1}/s", "traffic": "chat", "ttft": "1 s"} for n in range(12)
        ]
    }
    ways = {name: LONG[name] for name in LONG if name != "capacity"} | {
        "ways": {f"{n} replicas": {"replicas": n} for n in range(1, 9)}
    }
    questions: dict[str, Any] = {"/simulate": LONG, "/plan/fleet": fleet, "/compare/ways": ways}
    with served("--time-limit", "2 s") as server, probed(server) as probe:
        for _ in range(rounds):
            for path, body in questions.items():
                began = time.monotonic()
                status, _, told = ask(server, "POST", path, body)
                slowest = max(slowest, time.monotonic() - began)
                if status != 504 or b"ask" not in told:
                    findings.append(f"{path}: status {status}")
    if slowest > 3:
        findings.append(f"stopped after {slowest:.1f} s only")
    figures = _figures(probe, f"stopped after {slowest:.1f} s at most")
    return Outcome(rounds * len(questions), (*findings, *probe.findings()), figures)


def interrupted(share: float) -> Outcome:
    """Ctrl-C on a server with simulations at work, plans in line and connections open."""
    rounds, slowest = _count(10, share), 0.0
    for _ in range(rounds):
        with served() as server:
            held = [server.send("/simulate", LONG)] + [server.connect() for _ in range(20)]
            held += [server.send("/plan/serve", {**PLAN, "rate": f"{n + 1}/s"}) for n in range(6)]
            time.sleep(2)
            slowest = max(slowest, server.interrupt_s())
            for connection in held:
                connection.close()
    findings = (f"it took {slowest:.2f} s",) if slowest > 1 else ()
    return Outcome(rounds, findings, f"slowest {slowest:.2f} s")


def interrupted_commands(share: float) -> Outcome:
    """Ctrl-C on commands of minutes, at moments over their first twenty seconds of work."""
    rounds, pick, findings, slowest = _count(10, share), random.Random(3), [], 0.0
    fleet = [
        {"name": f"w{n}", "model": MODEL, "rate": f"{n + 1}/s", "traffic": "chat", "ttft": "1 s"} for n in range(8)
    ]
    with tempfile.TemporaryDirectory() as folder:
        files = {"simulate": MINUTES, "plan": {"plan": "fleet", "workloads": fleet}}
        for name, content in files.items():
            Path(folder, f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        commands = [[name, f"{folder}/{name}.json"] for name in files]
        commands.append(["plan", "serve", MODEL, "--rate", "60/s", "--traffic", "reasoning", "--ttft", "2s"])
        for command in commands * rounds:
            code, cpu_s = interrupted_cpu_s(command, after_cpu_s=pick.uniform(0.5, 6))
            slowest = max(slowest, cpu_s)
            if code not in (0, 130) or cpu_s > 1:
                findings.append(f"{' '.join(command[:2])}: code {code} after {cpu_s:.2f} CPU s")
    return Outcome(len(commands) * rounds, tuple(findings), f"slowest {slowest:.2f} CPU s")


def interrupted_tools(share: float) -> Outcome:
    """Ctrl-C on the server of tools, while it starts, waits for a line, or works."""
    rounds, findings, slowest = _count(10, share), [], 0.0
    asked = {"name": "simulate_serving", "arguments": LONG}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked}
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "attack", "version": "1"}}
    lines = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about},
             {"jsonrpc": "2.0", "method": "notifications/initialized"}, call]  # fmt: skip
    for n in range(3 * rounds):
        with tools() as process:
            assert process.stdin is not None and process.stdout is not None
            for line in lines[:1] if n % 3 == 0 else lines[:2] if n % 3 == 1 else lines:
                process.stdin.write(json.dumps(line) + "\n")
            process.stdin.flush()
            process.stdout.readline()
            time.sleep(n % 3 * 3)
            took_s = end_of_s(process)
            slowest = max(slowest, took_s)
            if process.returncode != 130 or took_s > 1:
                findings.append(f"code {process.returncode} after {took_s:.2f} s")
    return Outcome(3 * rounds, tuple(findings), f"slowest {slowest:.2f} s")


def other_sites(_: float) -> Outcome:
    """Every kind of request a browser sends for another page, to every address, and headers that are malformed."""
    findings, count = [], 0
    get = f"/plan/serve?model={MODEL}&rate=3/s"
    with served() as server:
        own = f"http://127.0.0.1:{server.port}"
        origins = [
            "https://attacker.example",
            "http://127.0.0.1",
            f"http://127.0.0.1:{server.port + 1}",
            "null",
            f"http://localhost:{server.port}",
            f"ftp://127.0.0.1:{server.port}",
            f"{own}.attacker.example",
            f"http://x@127.0.0.1:{server.port}",
            "http://[",
            "http://[::1",
            "http://127.0.0.1:99999",
            "http://:80",
            "",
            "[",
            "://",
            "http://127.0.0.1:x",
            f"{own}/path",
            "http://\u00e9",
            "%00",
            "file://",
        ]
        strangers: list[dict[str, str]] = [{"Origin": origin} for origin in origins]
        for site in ("cross-site", "same-site", "nonsense"):
            for mode, kind in (
                ("no-cors", "image"),
                ("cors", "empty"),
                ("navigate", "iframe"),
                ("navigate", "document"),
            ):
                strangers.append({"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": kind})
        strangers += [
            {"Host": host}
            for host in (
                "attacker.example",
                "127.0.0.1.attacker.example",
                "[",
                "x@127.0.0.1",
                "127.0.0.1:99999",
                "localhost.",
                "0",
                "2130706433",
            )
        ]
        for accept in ("application/json", "text/html"):
            for headers in strangers:
                for method, path, body in (
                    ("GET", get, None),
                    ("POST", "/plan/serve", {**PLAN, "rate": "3/s"}),
                    ("POST", "/predict", {}),
                    ("POST", "/models", {}),
                    ("GET", "/compare?left=0", None),
                    ("GET", f"/progress{get}", None),
                    ("GET", "/chart/0/memory-dark.svg", None),
                ):
                    count += 1
                    status, _, told = ask(server, method, path, body, headers={**headers, "Accept": accept})
                    if not 400 <= status < 500 or b'class="answer"' in told:
                        findings.append(f"{method} {path[:12]} {headers}: status {status}")
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "json"):
            count += 1
            status, _, _ = ask(server, "POST", "/fit", {"model": MODEL}, headers={"Content-Type": kind})
            if status != 415:
                findings.append(f"type '{kind}': status {status}")
        if not server.idle(0.5):
            findings.append("something was asked")
        for headers in ({}, {"Origin": own}, {"Origin": own, "Sec-Fetch-Site": "same-origin"}):
            count += 1
            if ask(server, "POST", "/fit", {"model": MODEL, "accelerator": "H100"}, headers=headers)[0] != 200:
                findings.append(f"the page itself was refused with {headers}")
    return Outcome(count, tuple(findings), "")


def tokens(_: float) -> Outcome:
    """Every address without, with a wrong and with the right token, on a server that others can reach."""
    findings, count = [], 0
    with served("--host", "0.0.0.0") as server:
        part = server.token[:-1]
        wrong = [{"Authorization": word} for word in ("Bearer", "Bearer x", f"Basic {server.token}", f"Bearer {part}")]
        cookie = f"tonnage_token_{server.port}"
        wrong += [{}, {"Cookie": f"{cookie}="}, {"Cookie": f"{cookie}={part}"}, {"Cookie": f"{cookie}0={server.token}"}]
        for path in (
            "/",
            "/api",
            "/openapi.json",
            "/fit",
            "/static/page.js",
            "/answer/0",
            "/?token=x",
            "/plan/serve?rate=1",
        ):
            for headers in wrong:
                count += 1
                status, _, _ = ask(server, "GET", path, headers=headers)
                if status != 401:
                    findings.append(f"{path} with {headers}: status {status}")
        for headers in ({"Authorization": f"Bearer {server.token}"}, {"Cookie": f"a=b; {cookie}={server.token}"}):
            count += 1
            if ask(server, "GET", "/", headers=headers)[0] != 200:
                findings.append(f"refused with {headers}")
        status, headers, _ = ask(server, "GET", f"/?token={server.token}")
        if status != 303 or "token" in headers["location"] or "HttpOnly; SameSite=Strict" not in headers["set-cookie"]:
            findings.append("the printed address does not leave the token in a cookie")
    return Outcome(count + 1, tuple(findings), "")


def mixed(share: float) -> Outcome:
    """All kinds of questions by four clients for an hour: quick answers stay quick, memory flat."""
    seconds, pick = max(20.0, 3600.0 * share), random.Random(2)
    counts: list[int] = []

    def client(name: str) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            method, path, body, patience_s = _any_question(pick)
            try:
                status, _, _ = ask(server, method, path, body, headers={"User-Agent": name}, timeout_s=patience_s)
                counts.append(status)
            except (TimeoutError, OSError):
                counts.append(0)

    with served() as server, probed(server) as probe:
        names = [f"client {n}" for n in range(4)]
        threads = [threading.Thread(target=client, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        time.sleep(seconds / 3)
        early = server.memory_bytes()
        for thread in threads:
            thread.join()
        server.idle(5.0)
        grown = server.memory_bytes() - early
    findings = [f"status {status}" for status in set(counts) - {0, 200, 400, 404, 503, 504}]
    if grown > 300e6:
        findings.append(f"memory grew by {grown / 1e6:.0f} MB")
    more = f"{seconds:.0f} s, memory {grown / 1e6:+.0f} MB after the first third, {counts.count(0)} left early"
    return Outcome(len(counts), (*findings, *probe.findings()), _figures(probe, more))


def large_bodies(share: float) -> Outcome:
    """Four clients, each with one body of up to 1 MiB after the other that no question takes."""
    seconds, statuses = max(20.0, 300.0 * share), list[int]()
    sent = [(address_of(body), json.dumps(body.fields).encode()) for body in bodies(lambda n: n % 149 == 0)]

    def client(name: str, place: int) -> None:
        while time.monotonic() < end:
            address, content = sent[place % len(sent)]
            place += 1
            try:
                statuses.append(ask(server, "POST", address, content, headers={"User-Agent": name})[0])
            except OSError:
                statuses.append(0)

    with served() as server, probed(server) as probe:
        end = time.monotonic() + seconds
        _together([lambda n=n: client(f"client {n}", n * len(sent) // 4) for n in range(4)])
    findings = [f"status {status}" for status in set(statuses) - {0, 200, 400, 413, 503, 504}]
    refused = sum(status in (400, 413) for status in statuses)
    figures = _figures(probe, f"{seconds:.0f} s, {refused} of {len(statuses)} refused, {statuses.count(0)} cut off")
    return Outcome(len(statuses), (*findings, *probe.findings()), figures)


def _any_question(pick: random.Random) -> tuple[str, str, Any, float]:
    """Method, address, body, and how long this client waits. [s]"""
    rate = f"{pick.uniform(0.5, 20):.3f}/s"
    simulation = {**LONG, "capacity": False, "traffic": {"profile": "chat", "rate": rate, "requests": 20_000}}
    question, body = pick.choice([
        ("plan/serve", {**PLAN, "rate": rate, "provider": "gcp"}),
        ("plan/serve", {**PLAN, "rate": rate, "quick": True}),
        ("simulate", simulation), ("simulate", {**LONG, "replicas": pick.randint(1, 9)}), ("fit", {"model": MODEL}),
        ("plan/batch", {"model": MODEL, "items": f"{pick.randint(1, 99)}M", "deadline": "8 h", "traffic": "chat"}),
        ("cost/rent-or-buy", {"machine": "H100", "utilisation": f"{pick.randint(1, 99)} %"}),
        ("plan/serve", {"modle": 3}),
    ])  # fmt: skip
    return "POST", f"/{question}", body, pick.choice([0.3, 5.0, 120.0])


def _together(calls: list[Callable[[], object]]) -> None:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _is_closed(connection: socket.socket) -> bool:
    """Whether the server has closed it; whatever it said before is read."""
    connection.setblocking(False)
    try:
        while True:
            if not connection.recv(4096):
                return True
    except BlockingIOError:
        return False
    except OSError:
        return True


ROWS: Final[tuple[Row, ...]] = (
    Row(
        QUICK,
        "`POST /simulate` with capacity and 200,000 long requests, abandoned, two at a time",
        abandoned_simulations,
    ),
    Row(QUICK, "six `/plan/serve` at once, abandoned after 1 s", abandoned_plans),
    Row(QUICK, "50 parallel plans of one client", parallel_plans),
    Row(QUICK, "200 clients that leave within 0.5 s", leaving_clients),
    Row(QUICK, "600 connections whose head never ends; each closed after 10 s", half_open),
    Row(QUICK, "200 bodies that never end; each gets 408 after 20 s", slow_bodies),
    Row(QUICK, "five minutes of bodies of 1 MiB from four clients", large_bodies),
    Row(
        "a question has 60 s (here 2), then 504 and what to ask instead",
        "simulations, fleets, comparisons of minutes",
        too_long,
    ),
    Row("Ctrl-C ends the server within 1 s", "simulations at work, plans in line, connections open", interrupted),
    Row("Ctrl-C ends a command within 1 s", "simulations, fleets and plans of minutes", interrupted_commands),
    Row("Ctrl-C ends the server of tools within 1 s", "while it starts, waits, works", interrupted_tools),
    Row(
        "another site's page is refused, and asks nothing",
        "Origin, Sec-Fetch-Site, Host, Content-Type: foreign and malformed, each address",
        other_sites,
    ),
    Row("other machines need the token", "every address without, with a wrong and the right one", tokens),
    Row(QUICK + ", memory stays flat", "an hour of all questions by four clients, some of which leave", mixed),
)
