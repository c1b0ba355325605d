"""Workers are killed when their task takes too long or nobody wants it any more, and the next task finds another."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.patience import PATIENCE_S

from tonnage.catalog import NOTHING
from tonnage.errors import TonnageError
from tonnage.web.records import Limits, Settings, TooLong, TooMuchMemory, WorkerLost
from tonnage.web.workers import Lane, spawn_context

pytest.importorskip("litestar", reason="the web extra brings it")

GIB = 1024**3


def with_lane(test: Callable[[Lane], Coroutine[Any, Any, None]], *, question_s: float = 60.0) -> None:
    async def run() -> None:
        limits = Limits(question_s=question_s, memory_bytes=GIB)
        lane = Lane(
            spawn_context(),
            settings=Settings(additions=NOTHING, memory_bytes=GIB),
            warm="tests.web.misbehaving",
            workers=1,
            limits=limits,
        )
        try:
            await test(lane)
        finally:
            lane.kill()

    asyncio.run(run())


def is_gone(pid: int) -> bool:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


async def pid_of(lane: Lane) -> int:
    """Followed, so that a busy machine may take longer than the lane allows."""
    found: int = await lane.run("name", {}, client="a", followed=lambda: True)
    return found


def test_a_worker_does_one_task_after_the_other() -> None:
    async def test(lane: Lane) -> None:
        assert await pid_of(lane) == await pid_of(lane) != os.getpid()
        with pytest.raises(TonnageError, match="no tool"):
            await lane.run("tool", {"name": "nothing", "arguments": {}}, client="a")
        assert await pid_of(lane)

    with_lane(test)


def test_a_task_that_never_ends_is_stopped_with_its_worker() -> None:
    async def test(lane: Lane) -> None:
        first = await pid_of(lane)
        with pytest.raises(TooLong, match="it took longer"):
            await lane.run("spin", {}, client="a")
        assert is_gone(first) and await pid_of(lane) != first

    with_lane(test, question_s=0.5)


@pytest.mark.parametrize("task", ["spin", "compute"])
def test_a_task_that_nobody_wants_any_more_is_stopped_with_its_worker(task: str) -> None:
    async def test(lane: Lane) -> None:
        first, began = await pid_of(lane), asyncio.Event()
        asked = asyncio.ensure_future(lane.run(task, {}, client="a", began=lambda _: began.set()))
        await began.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert await pid_of(lane) != first and is_gone(first)

    with_lane(test)


def test_whoever_follows_a_task_may_let_it_take_longer() -> None:
    async def test(lane: Lane) -> None:
        looks = iter((True, True, True, False))
        with pytest.raises(TooLong):
            await lane.run("spin", {}, client="a", followed=lambda: next(looks))
        assert not list(looks), "it was stopped while somebody followed it"

    with_lane(test, question_s=0.2)


@pytest.mark.skipif(sys.platform != "linux", reason="the bound on memory is held on Linux")
def test_a_task_that_takes_too_much_memory_is_refused() -> None:
    async def test(lane: Lane) -> None:
        first = await pid_of(lane)
        assert await lane.run("take_memory", {"size": GIB // 4}, client="a") == GIB // 4
        with pytest.raises(TooMuchMemory, match="1 GiB"):
            await lane.run("take_memory", {"size": 2 * GIB}, client="a")
        assert await pid_of(lane) != first

    with_lane(test)


def test_a_worker_that_dies_or_fails_is_a_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    async def test(lane: Lane) -> None:
        with pytest.raises(WorkerLost, match="ended"):
            await lane.run("die", {}, client="a")
        with pytest.raises(WorkerLost, match="mistake of ours"):
            await lane.run("fail", {}, client="a")
        assert await pid_of(lane)

    with_lane(test)
    told = capfd.readouterr()
    assert "ZeroDivisionError" in told.err
    assert "may be written" not in told.out, "a worker wrote into the protocol of a server of tools"


def test_clients_that_leave_do_not_make_a_storm_of_new_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is being started for somebody who has left is there for the next one."""
    begun = 0
    gate = threading.Event()

    class Slow:
        lives = True
        progress = [0, 0]

        def __init__(self, *_: Any, **__: Any) -> None:
            nonlocal begun
            begun += 1
            gate.wait(60.0)

        def exchange(self, *_: Any) -> int:
            return 1

        def kill(self) -> None:
            pass

        clear = kill

    async def test() -> None:
        lane = Lane(
            spawn_context(),
            settings=Settings(additions=NOTHING),
            warm="",
            workers=2,
            limits=Limits(waiting=100, waiting_each=100),
        )
        for _ in range(20):
            left = [asyncio.ensure_future(lane.run("name", {}, client="a")) for _ in range(10)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for one in left:
                one.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        gate.set()
        assert await lane.run("name", {}, client="a") == 1
        lane.kill()

    monkeypatch.setattr("tonnage.web.workers.Worker", Slow)
    asyncio.run(test())
    assert begun <= 2
