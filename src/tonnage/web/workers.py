"""Processes that work on questions, each of which can be killed: a lane of like workers behind a line.

Quick questions have a lane of their own, so that they never wait behind expensive ones, whose workers yield the
processor to them. On Linux the workers of plans are forked from a process that has loaded everything and runs no
threads (as in `tonnage.sweep.runners`): replacing one that was killed costs milliseconds. Elsewhere, and for quick
questions, a worker is a new interpreter.
"""

from __future__ import annotations

import asyncio
import atexit
import multiprocessing
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any, Final

from tonnage.errors import TonnageError
from tonnage.units import GiB
from tonnage.web.line import Line
from tonnage.web.records import Limits, Settings, TooLong, TooMuchMemory, WorkerLost
from tonnage.web.worker import work

CHECK_S: Final = 0.5
"""Between two looks whether somebody still follows a question that has used up its time. [s]"""
Arguments = Mapping[str, Any]
PRELOADED: Final = "tonnage.web.ready"
START_S: Final = 5.0
"""For a process that is just being started, before its server ends without it. [s]"""
STARTS: Final = threading.Lock()
"""Held while an interpreter starts: one whose server ends in the middle of that would complain of half an order."""
FORK_S: Final = 0.2
"""The same for a process that is forked: its order is written at once, and the rest of its start may be seconds of
loading, for which nobody who pressed Ctrl-C waits. [s]"""
FORKS: Final = threading.Lock()
"""Held while a process is forked."""


def spawn_context() -> BaseContext:
    """Each worker a new interpreter."""
    return multiprocessing.get_context("spawn")


def fork_context() -> BaseContext:
    """Each worker forked from a loaded process without threads, where that is safe; else a new interpreter."""
    if sys.platform != "linux":
        return spawn_context()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOADED])
    return context


def stop_starts() -> None:
    """Let the process that is just being started begin, and start no other: this program ends."""
    STARTS.acquire(timeout=START_S)
    FORKS.acquire(timeout=FORK_S)


atexit.register(stop_starts)


class Worker:
    """One process and the pipe to it; all but `lives` and `kill` block and belong into a thread."""

    def __init__(self, context: BaseContext, settings: Settings, *, warm: str) -> None:
        self.progress = context.RawArray("q", 2)
        """How much of its task is done, of how much: memory that the process writes to."""
        self._pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(  # type: ignore[attr-defined]
            target=work, args=(theirs, settings), kwargs={"progress": self.progress, "warm": warm}, daemon=True
        )
        with FORKS if context.get_start_method() == "forkserver" else STARTS, _without_interrupts():
            self._process.start()
        theirs.close()
        self._pipe.recv()  # what it imports is no part of its first task

    @property
    def lives(self) -> bool:
        """Whether it can take a task."""
        return self._process.exitcode is None

    def exchange(self, task: str, arguments: Arguments) -> Any:
        """
        Hand a task over and wait for its value.

        Raises
        ------
        EOFError, OSError
            The process ended before that.
        Exception
            What the task raised, as `tonnage.web.worker.work` sends it.
        """
        self._pipe.send((task, arguments))
        value = self._pipe.recv()
        if isinstance(value, Exception):
            raise value
        return value

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self._process.kill()

    def clear(self) -> None:
        """Wait for its end and clear away what is left of it."""
        self._process.join()
        self._pipe.close()


class Lane:
    """
    Like workers, and the line before them.

    Parameters
    ----------
    context : BaseContext
        How a worker is started.
    settings : Settings
        What every task shares.
    warm : str
        Module that a worker imports before its first task.
    workers : int
        Questions at once.
    limits : Limits
        Time and waiting.
    patience_s : float
        For a task that nobody waits for any more, before its worker is killed. [s]
    """

    def __init__(
        self,
        context: BaseContext,
        *,
        settings: Settings,
        warm: str,
        workers: int,
        limits: Limits,
        patience_s: float = 0.0,
    ) -> None:
        self._context, self._settings, self._warm, self._limits = context, settings, warm, limits
        self._workers, self._patience_s = workers, patience_s
        self.line = Line(workers, waiting=limits.waiting, waiting_each=limits.waiting_each, wait_s=limits.question_s)
        self._idle: list[Worker] = []
        self._takers: deque[asyncio.Future[Worker]] = deque()
        self._working: set[Worker] = set()
        # Beyond one for each worker: one that was killed may hold its thread for a moment.
        self._threads = ThreadPoolExecutor(2 * workers)
        self._starting, self._ended = 0, False
        self._late, self._may_be_late = 0, max(1, workers - 1)

    async def run(
        self,
        task: str,
        arguments: Arguments,
        *,
        client: str,
        began: Callable[[Worker], None] = lambda _: None,
        followed: Callable[[], bool] = lambda: False,
    ) -> Any:
        """
        The answer of one task; its worker is killed when the time is over or the caller is cancelled.

        Parameters
        ----------
        began : callable
            Called with the worker that takes the task.
        followed : callable
            Whether somebody watches the task and can cancel it: then it may take longer.

        Raises
        ------
        TonnageError
            The task was refused, took too long or too much memory, or lost its worker.
        Busy
            No worker became free.
        """
        async with self.line.turn(client):
            worker = await self._free()
            self._working.add(worker)
            worker.progress[:] = 0, 0
            began(worker)
            exchange = asyncio.get_running_loop().run_in_executor(self._threads, worker.exchange, task, arguments)
            try:
                await self._in_time(exchange, followed)
            finally:
                self._working.discard(worker)
                if _is_sound(exchange):
                    self._offer(worker)
                else:
                    exchange.cancel()
                    self._end(worker)
                    if not self._idle and not self._starting:
                        self._start()
        return _unpack(exchange, self._limits)

    def warm(self) -> None:
        """Start a worker before it is asked for, without waiting for it."""
        self._start()

    def kill(self) -> None:
        """Kill every worker, and start no other."""
        self._ended = True
        for worker in (*self._idle, *self._working):
            worker.kill()
        self._idle.clear()

    async def _free(self) -> Worker:
        """A living worker without a task: one that comes back, or a new one, whichever is first."""
        while self._idle:
            worker = self._idle.pop()
            if worker.lives:
                return worker
        taker: asyncio.Future[Worker] = asyncio.get_running_loop().create_future()
        self._takers.append(taker)
        # One that is being started for somebody who has left is as good: a start for each of 200 clients that leave
        # kept this loop busy for seconds.
        if self._starting < sum(not one.done() for one in self._takers):
            self._start()
        try:
            return await taker
        except asyncio.CancelledError:
            if taker.done() and not taker.cancelled() and taker.exception() is None:
                self._offer(taker.result())
            raise

    def _offer(self, worker: Worker) -> None:
        """Give a worker to whoever waits for one; where nobody does it stays idle, or ends where there are enough."""
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                return taker.set_result(worker)
        if len(self._idle) + len(self._working) < self._workers:
            self._idle.append(worker)
        else:
            self._end(worker)
        return None

    def _end(self, worker: Worker) -> None:
        worker.kill()
        self._threads.submit(worker.clear)

    async def _in_time(self, exchange: asyncio.Future[Any], followed: Callable[[], bool]) -> None:
        """
        Wait for a task to end; raises `TooLong` when its time is over.

        Unless somebody follows it: then it may go on, as long as one worker of several is left to others.
        """
        limit_s = self._limits.question_s
        try:
            done, _ = await asyncio.wait({exchange}, timeout=limit_s)
        except asyncio.CancelledError:
            # A new interpreter costs more than the end of a quick question.
            await asyncio.wait({exchange}, timeout=self._patience_s)
            raise
        if done:
            return
        if self._late >= self._may_be_late:
            raise TooLong(f"it took longer than {limit_s:g} s and was stopped")
        self._late += 1
        try:
            while not done:
                if not followed():
                    raise TooLong(f"it took longer than {limit_s:g} s and was stopped")
                done, _ = await asyncio.wait({exchange}, timeout=CHECK_S)
        finally:
            self._late -= 1

    def _start(self) -> None:
        """Start a worker in a thread that the end of this program does not wait for."""
        if self._ended:
            return
        self._starting += 1
        threading.Thread(target=self._start_here, args=(asyncio.get_running_loop(),), daemon=True).start()

    def _start_here(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            worker = Worker(self._context, self._settings, warm=self._warm)
        except (EOFError, OSError):
            worker = None
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(self._started, worker)

    def _started(self, worker: Worker | None) -> None:
        self._starting -= 1
        if worker is not None:
            return self._offer(worker)
        told = "no process could be started to work on it; is this machine out of memory?"
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                return taker.set_exception(WorkerLost(told))
        return None


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """What is started here leaves Ctrl-C alone until it says otherwise itself."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # starting it would undo the next line
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _is_sound(exchange: asyncio.Future[Any]) -> bool:
    """Whether the worker can take another task; after a lack of memory its memory is in pieces."""
    ended = exchange.done() and not exchange.cancelled()
    return ended and isinstance(exchange.exception(), TonnageError | None)


def _unpack(exchange: asyncio.Future[Any], limits: Limits) -> Any:
    """A task's value, or a sentence for what ended it; a mistake of ours goes to stderr as it is."""
    try:
        return exchange.result()
    except TonnageError:
        raise
    except (EOFError, OSError):
        told = "the process that worked on it ended, perhaps out of memory; ask for less at once"
        raise WorkerLost(told) from None
    except MemoryError:
        most = f"{limits.memory_bytes / GiB:.3g} GiB that a question may take"
        raise TooMuchMemory(f"it needs more than the {most}; ask for less at once") from None
    except Exception as wrong:
        print(wrong, file=sys.stderr)
        told = "something went wrong that is a mistake of ours; the server's own output says what"
        raise WorkerLost(told) from None
