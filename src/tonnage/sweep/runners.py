"""Where questions are worked on: processes of this machine, or a Ray cluster; both do the same and may lose a worker.

Questions go out in chunks, large ones first, so that the last ones end together. Each process has a pool of its own, so
that one that dies takes only its chunk with it; that chunk is asked again, a few times at most. On Linux the processes
are forked from one that has loaded everything (`tonnage.sweep.ready`) and runs no threads: a worker starts, or starts
again, at no cost.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import sys
from collections import deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import BaseContext
from typing import Any, Final

from tonnage.errors import BadRequest, TonnageError, echo
from tonnage.sweep.work import Chunk, answered

__all__ = ["Found", "chunked", "on_processes", "on_ray"]

Found = list[tuple[str, bytes]]
TRIES: Final = 3
"""Of one chunk, before the sweep gives up: a question that kills every worker must end."""
IN_FLIGHT: Final = 4
"""Chunks handed to Ray per core at once."""
LARGEST_CHUNK: Final = 64
SHARE: Final = 4
"""A chunk is this part of a worker's share of what is left: the first are large, the last ones single questions."""


def chunked(questions: Chunk, *, workers: int) -> Iterator[Chunk]:
    """All questions in their order, in chunks that shrink."""
    start = 0
    while start < len(questions):
        size = max(1, min(LARGEST_CHUNK, (len(questions) - start) // (SHARE * workers)))
        yield questions[start : start + size]
        start += size


def on_processes(
    ask: str, questions: Chunk, *, take: dict[str, str], folders: tuple[str, ...], workers: int
) -> Iterator[Found]:
    """
    Answers as they come, a chunk at a time, from processes of this machine; one worker works in this process.

    Raises
    ------
    TonnageError
        A chunk lost its worker again and again.
    """
    if workers == 1:
        for chunk in chunked(questions, workers=1):
            yield answered(ask, chunk, take=take, folders=folders)
        return
    waiting: deque[tuple[Chunk, int]] = deque((chunk, 0) for chunk in chunked(questions, workers=workers))
    simulated = ask in ("plan", "simulate") and not all(request.get("quick") for _, request in questions)
    context = _context(loaded=simulated)
    pools = [_pool(context) for _ in range(min(workers, len(waiting)))]
    idle = list(range(len(pools)))
    busy: dict[Future[Found], tuple[int, Chunk, int]] = {}
    try:
        while waiting or busy:
            while waiting and idle:
                place = idle.pop()
                chunk, lost = waiting.popleft()
                busy[pools[place].submit(answered, ask, chunk, take=take, folders=folders)] = (place, chunk, lost)
            for future in wait(busy, return_when=FIRST_COMPLETED).done:
                place, chunk, lost = busy.pop(future)
                try:
                    yield future.result()
                except BrokenProcessPool:
                    pools[place] = _pool(context)
                    if lost + 1 >= TRIES:
                        raise TonnageError(_lost(chunk)) from None
                    waiting.appendleft((chunk, lost + 1))
                idle.append(place)
    finally:
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)


def on_ray(
    ask: str, questions: Chunk, *, take: dict[str, str], folders: tuple[str, ...], address: str
) -> Iterator[Found]:
    """
    Answers as they come, a chunk at a time, from a Ray cluster ("local" = one on this machine).

    Raises
    ------
    BadRequest
        Ray is not installed, or the cluster cannot be reached.
    """
    if importlib.util.find_spec("ray") is None:
        raise BadRequest("--ray needs the 'ray' extra: pip install 'tonnage[ray]'")
    ray: Any = importlib.import_module("ray")
    try:
        ray.init(address=None if address == "local" else address, log_to_driver=False, include_dashboard=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        told = f"--ray: the cluster at '{echo(address)}' cannot be reached: {error}"
        raise BadRequest(f"{told}; one that asks for a token wants it in RAY_AUTH_TOKEN") from None
    try:
        task = ray.remote(max_retries=TRIES - 1)(answered)
        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        running: list[Any] = []
        for chunk in chunked(questions, workers=cores):
            if len(running) >= cores * IN_FLIGHT:
                done, running = ray.wait(running)
                yield from ray.get(done)
            running.append(task.remote(ask, chunk, take=take, folders=folders))
        while running:
            done, running = ray.wait(running)
            yield from ray.get(done)
    finally:
        ray.shutdown()


def _context(*, loaded: bool) -> BaseContext:
    # Forking this process could hang, for it may run threads; a fork server runs none. It is trusted on Linux alone:
    # elsewhere what numpy has loaded may not survive a fork.
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    if loaded:
        context.set_forkserver_preload(["tonnage.sweep.ready"])
    return context


def _pool(context: BaseContext) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(max_workers=1, mp_context=context)


def _lost(chunk: Chunk) -> str:
    first = echo(chunk[0][1])
    return f"a worker died {TRIES} times on the same {len(chunk)} questions, the first of them {first}; out of memory?"
