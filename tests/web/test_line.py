"""The line before the workers: bounded, fair between clients, and sound when somebody leaves it."""

import asyncio

import pytest

from tonnage.web.line import Line
from tonnage.web.records import Busy


def line(**changes: float) -> Line:
    wanted = {"waiting": 8, "waiting_each": 4, "wait_s": 60.0} | changes
    return Line(1, waiting=int(wanted["waiting"]), waiting_each=int(wanted["waiting_each"]), wait_s=wanted["wait_s"])


async def worked(line: Line, client: str, done: list[str]) -> None:
    async with line.turn(client):
        await asyncio.sleep(0)
        done.append(client)


def test_clients_take_turns_however_many_questions_one_has() -> None:
    async def run() -> list[str]:
        done: list[str] = []
        queue = line()
        asked = [worked(queue, client, done) for client in ("a", "a", "a", "a", "b", "c", "b")]
        await asyncio.gather(*asked)
        assert queue.length == queue.taken == 0
        return done

    assert asyncio.run(run()) == ["a", "a", "b", "c", "a", "b", "a"]


@pytest.mark.parametrize("clients", ["aaaaaa", "abcdefghijk"])
def test_beyond_its_bounds_it_says_when_to_come_back(clients: str) -> None:
    async def run() -> None:
        queue = line()
        async with queue.turn("first"):
            waiting = [asyncio.ensure_future(worked(queue, client, [])) for client in clients[:-1]]
            await asyncio.sleep(0)
            with pytest.raises(Busy) as refused:
                async with queue.turn(clients[-1]):
                    pass
            assert refused.value.retry_s >= 1
            for task in waiting:
                task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert queue.length == queue.taken == 0

    asyncio.run(run())


def test_who_leaves_the_line_holds_up_nobody() -> None:
    async def run() -> list[str]:
        done: list[str] = []
        queue = line()
        async with queue.turn("first"):
            leaving = asyncio.ensure_future(worked(queue, "a", done))
            staying = asyncio.ensure_future(worked(queue, "b", done))
            await asyncio.sleep(0)
            leaving.cancel()
            await asyncio.sleep(0)
        await staying
        # Called up and gone in the same moment: the place goes on to the next.
        async with queue.turn("first"):
            called = asyncio.ensure_future(worked(queue, "a", done))
            after = asyncio.ensure_future(worked(queue, "c", done))
            await asyncio.sleep(0)
        called.cancel()
        await after
        assert queue.length == queue.taken == 0
        return done

    assert asyncio.run(run()) == ["b", "c"]


def test_a_wait_ends() -> None:
    async def run() -> None:
        queue = line(wait_s=0.01)
        async with queue.turn("first"):
            with pytest.raises(Busy, match="no worker became free"):
                async with queue.turn("a"):
                    pass
            assert queue.length == 0

    asyncio.run(run())
