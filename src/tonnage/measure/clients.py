"""
How many processes does an offered load need, and can this machine send it at all?

One request costs the client some tenth of a millisecond of one core, each token of its answer a tenth of that: at
thousands a second a single loop falls behind, and what it then measures is itself. So the cost is measured on this
machine before anything is sent, against a server of our own on loopback; a rate that needs more than a share of one
core is sent by several processes, and one that needs more than all cores together is refused.

The processes follow one schedule: each knows every arrival and sends its own, every n-th. Together they are the same
open loop (Poisson, constant or gamma), on one clock (that of the system, which all processes share) and into one file.
"""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from tonnage.domain.measurement import Load
from tonnage.errors import BadRequest
from tonnage.measure.client import ask, close, open_connection, request_bytes, target_of
from tonnage.measure.load import Stage, Stop, faster_loop, run_stage
from tonnage.measure.records import Spec
from tonnage.record import Record

BUSY: Final = 0.4
"""Of one core, that one client may need: beyond half of it, waits for its own loop grow to milliseconds."""
REHEARSED: Final = 50
"""Requests of each kind in the rehearsal."""
APART_S: Final = 1e-4
"""Between two tokens of the rehearsal, which arrive one by one as those of many streams do. [s]"""
REHEARSED_TOKENS: Final = 16
QUIET_PER_S: Final = 50.0
"""Up to which rate no rehearsal is worth its tenth of a second: a hundredth of a core. [requests/s]"""
AHEAD_S: Final = 0.05
"""From the word to begin to the first arrival, so that every process is there. [s]"""
END_S: Final = 5.0


class Cost(Record, kw_only=True):
    """What the client itself costs on this machine."""

    request_s: float
    """Of one core, for a request with one token. [s]"""
    token_s: float
    """For each further token that comes by itself. [s]"""

    def busy(self, load: Load, output_tokens: int) -> float:
        """Cores that an offered rate needs; 0 for a closed loop, which sends when it can. [cores]"""
        each_s = self.request_s + self.token_s * max(0, output_tokens - 1)
        return (load.rate_per_s or 0.0) * each_s


def clients_for(load: Load, output_tokens: int, *, cost: Cost, cores: int | None = None) -> int:
    """
    Processes that send a load on time; one for a closed loop, which sends when it can.

    Raises
    ------
    BadRequest
        All cores together are too slow for it.

    Examples
    --------
    >>> cost = Cost(request_s=2e-4, token_s=2e-5)
    >>> clients_for(Load(rate_per_s=2000.0, requests=100, duration_s=9.0), 4, cost=cost, cores=2)
    2
    """
    cores = cores or len(_usable_cores())
    busy = cost.busy(load, output_tokens)
    needed = max(1, math.ceil(busy / BUSY))
    if needed > cores:
        most = (load.rate_per_s or 0.0) * BUSY * cores / busy
        raise BadRequest(
            f"--rate: {load.rate_per_s:,.0f} requests/s of {output_tokens} tokens need {busy:.1f} cores for the client "
            f"alone; with {cores} it sends at most {most:,.0f}/s on time: lower --rate or --output-tokens, or measure "
            "from several machines"
        )
    return needed


def client_cost() -> Cost:
    """What this machine's processor takes for a request and for a token, counted in the client's own thread."""
    found: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        thread = threading.Thread(target=_answer, args=(listening, (1, REHEARSED_TOKENS)), daemon=True)
        thread.start()
        for _ in range(2):
            with asyncio.Runner(loop_factory=faster_loop()) as runner:
                found.append(runner.run(_rehearse(port)))
        thread.join(END_S)
    token_s = max(0.0, (found[1] - found[0]) / (REHEARSED_TOKENS - 1))
    return Cost(request_s=found[0], token_s=token_s)


async def _rehearse(port: int) -> float:
    """CPU time of this thread for one request, the mean of those after a first that opens the connection. [s]"""
    target = target_of(f"http://127.0.0.1:{port}", model="rehearsal", kind="chat")
    connection = open_connection(target, key=None)
    data = request_bytes(connection, prompt="a few words", output_tokens=1, ignore_eos=True)
    await ask(connection, data, timeout_s=END_S)
    before_s = time.thread_time()
    for _ in range(REHEARSED):
        await ask(connection, data, timeout_s=END_S)
    took_s = time.thread_time() - before_s
    close(connection)
    return took_s / REHEARSED


def _answer(listening: socket.socket, tokens: Sequence[int]) -> None:
    """One connection for each count of tokens: every request gets so many events, each sent by itself."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    event = b'data: {"choices":[{"delta":{"content":"x "}}]}\n\n'
    token = b"%x\r\n%b\r\n" % (len(event), event)
    end = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
    with suppress(OSError):
        for count in tokens:
            connection, _ = listening.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while connection.recv(65536):
                    connection.sendall(head)
                    for _ in range(count):
                        time.sleep(APART_S)
                        connection.sendall(token)
                    connection.sendall(end)


class Clients:
    """
    Applies the stages of one run, by as many processes as each needs.

    Parameters
    ----------
    spec : Spec
        What is measured.
    file : Path
        File of results; each line of each process is one write to its end.

    Raises
    ------
    BadRequest
        All cores together are too slow for a rate that is named; a sweep's own levels are marked instead.
    """

    def __init__(self, spec: Spec, file: Path) -> None:
        self._spec, self._file = spec, file
        self._cost: Cost | None = None
        for rate in (spec.load.rate_per_s, spec.most if spec.sweep == "rate" else None):
            if rate is not None and rate > QUIET_PER_S:
                clients_for(replace(spec.load, rate_per_s=rate), spec.output_tokens, cost=self._known_cost())

    async def run(self, stage: Stage, progress: Any = None) -> Stop:
        """Apply one stage; every outcome is in the file when this returns."""
        number = self._number(stage.load)
        if number == 1:
            return await run_stage(stage, progress)
        return await _run_clients(stage, number=number, file=self._file)

    def _number(self, load: Load) -> int:
        if (load.rate_per_s or 0.0) <= QUIET_PER_S:
            return 1
        try:
            return clients_for(load, self._spec.output_tokens, cost=self._known_cost())
        except BadRequest:
            return len(_usable_cores())

    def _known_cost(self) -> Cost:
        self._cost = self._cost or client_cost()
        return self._cost


class _Task(Record, kw_only=True):
    """What one process needs to know."""

    stage: Stage
    file: str
    share: tuple[int, int]


async def _run_clients(stage: Stage, *, number: int, file: Path) -> Stop:
    """One stage by several processes, which are gone when this ends, however it ends."""
    context = multiprocessing.get_context("spawn")
    tasks = [_Task(stage=stage, file=str(file), share=(place, number)) for place in range(number)]
    pipes: list[Pipe] = []
    processes: list[Any] = []
    try:
        for task in tasks:
            mine, theirs = context.Pipe()
            process = context.Process(target=_client, args=(theirs, task), daemon=True)
            process.start()
            theirs.close()
            pipes.append(mine)
            processes.append(process)
        return await asyncio.to_thread(_lead, pipes)
    finally:
        for process in processes:
            process.kill()
            process.join()


def _lead(pipes: Sequence[Pipe]) -> Stop:
    """Wait until every process is ready, give the word, and gather how each ended."""
    try:
        for pipe in pipes:
            pipe.recv()
        start_s = time.perf_counter() + AHEAD_S
        for pipe in pipes:
            pipe.send(start_s)
        stops: list[Stop] = [pipe.recv() for pipe in pipes]
    except (EOFError, OSError):
        return Stop(reason="a process of the client ended, perhaps out of memory", fatal=True, lag_s=None)
    first = next((stop for stop in stops if stop.reason is not None), stops[0])
    lags = [stop.lag_s for stop in stops if stop.lag_s is not None]
    return Stop(reason=first.reason, fatal=any(stop.fatal for stop in stops), lag_s=max(lags, default=None))


def _client(pipe: Pipe, task: _Task) -> None:
    """One process: its share of the arrivals."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends the others
    stage = replace(task.stage, file=os.open(task.file, os.O_WRONLY | os.O_APPEND))

    def begin() -> float:
        pipe.send("ready")
        start_s: float = pipe.recv()
        return start_s

    with asyncio.Runner(loop_factory=faster_loop()) as runner:
        pipe.send(runner.run(run_stage(stage, share=task.share, begin=begin)))
    close(stage.connection)
    os.close(stage.file)


def _usable_cores() -> Sequence[int]:
    affinity: Callable[[int], Any] | None = getattr(os, "sched_getaffinity", None)
    return tuple(affinity(0)) if affinity is not None else tuple(range(os.cpu_count() or 1))
