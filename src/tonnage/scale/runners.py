"""Where chunks are worked on: processes of this machine, or a Ray cluster; both do the same and may lose a worker.

Each process has a pool of its own, so that one that dies takes only its chunk with it; that chunk is asked again, a
few times at most.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Final

from tonnage.errors import BadRequest, TonnageError, echo
from tonnage.scale.work import Chunk, answered

__all__ = ["Found", "on_processes", "on_ray"]

Found = list[tuple[str, bytes]]
TRIES: Final = 3
"""Of one chunk, before the sweep gives up: a question that kills every worker must end."""
IN_FLIGHT: Final = 4
"""Chunks handed to Ray per core at once."""


def on_processes(
    ask: str, chunks: Iterable[Chunk], *, take: dict[str, str], folders: tuple[str, ...], workers: int
) -> Iterator[Found]:
    """
    Answers of the chunks as they come, from processes of this machine; one worker works in this process.

    Raises
    ------
    TonnageError
        A chunk lost its worker again and again.
    """
    if workers == 1:
        for chunk in chunks:
            yield answered(ask, chunk, take=take, folders=folders)
        return
    waiting: deque[tuple[Chunk, int]] = deque((chunk, 0) for chunk in chunks)
    pools = [_pool() for _ in range(min(workers, len(waiting)))]
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
                    pools[place] = _pool()
                    if lost + 1 >= TRIES:
                        raise TonnageError(_lost(chunk)) from None
                    waiting.appendleft((chunk, lost + 1))
                idle.append(place)
    finally:
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)


def on_ray(
    ask: str, chunks: Iterable[Chunk], *, take: dict[str, str], folders: tuple[str, ...], address: str
) -> Iterator[Found]:
    """
    Answers of the chunks as they come, from a Ray cluster ("local" = one on this machine).

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
        raise BadRequest(f"--ray: the cluster at '{address}' cannot be reached: {error}") from None
    try:
        task = ray.remote(max_retries=TRIES - 1)(answered)
        most = max(1, int(ray.cluster_resources().get("CPU", 1))) * IN_FLIGHT
        running: list[Any] = []
        for chunk in chunks:
            if len(running) >= most:
                done, running = ray.wait(running)
                yield from ray.get(done)
            running.append(task.remote(ask, chunk, take=take, folders=folders))
        while running:
            done, running = ray.wait(running)
            yield from ray.get(done)
    finally:
        ray.shutdown()


def _pool() -> ProcessPoolExecutor:
    # Forking a process that runs threads can hang; a fresh interpreter cannot.
    return ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn"))


def _lost(chunk: Chunk) -> str:
    first = echo(chunk[0][1])
    return f"a worker died {TRIES} times on the same {len(chunk)} questions, the first of them {first}; out of memory?"
