"""Where questions wait and answers are kept: a bounded line, few at work, the last answers within reach.

Planning holds a processor for up to seconds; more than a few at once would make everybody wait, so the line has an
end, and whoever comes after it is told so at once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from anyio import CapacityLimiter, to_thread

from tonnage.catalog import Additions
from tonnage.errors import TonnageError
from tonnage.web.models import admitted
from tonnage.web.questions import QUESTIONS, answered, opened

__all__ = ["Busy", "Desk", "Kept", "ask", "begin", "desk", "follow", "is_kept", "kept", "key_of"]

AT_WORK: Final = 2
IN_LINE: Final = 16
KEPT: Final = 64


class Busy(TonnageError):
    """The line is full."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A question and its answer, for the pictures and comparisons that ask for it again."""

    path: str
    request: dict[str, Any]
    answer: Any


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A question at work: who waits for it gets the same answer, who watches hears how far it is."""

    task: asyncio.Future[Any]
    watchers: list[asyncio.Queue[tuple[int, int] | None]]


class Desk(msgspec.Struct, frozen=True, kw_only=True):
    """What one running application holds; the tables inside change, the desk does not."""

    additions: Additions
    uploads: Path
    places: CapacityLimiter
    answers: OrderedDict[str, Kept]
    jobs: dict[str, Job]


def desk(*, additions: Additions, uploads: Path) -> Desk:
    """A desk with nothing on it."""
    return Desk(additions=additions, uploads=uploads, places=CapacityLimiter(AT_WORK), answers=OrderedDict(), jobs={})


def key_of(path: str, request: Mapping[str, Any]) -> str:
    """The same for the same question, whatever the order of its fields."""
    return hashlib.sha256(msgspec.json.encode([path, dict(request)], order="deterministic")).hexdigest()[:24]


def kept(desk: Desk, key: str) -> Kept | None:
    """The answer of that key, if it is still here."""
    found = desk.answers.get(key)
    if found is not None:
        desk.answers.move_to_end(key)
    return found


async def ask(desk: Desk, path: str, *, request: dict[str, Any]) -> tuple[str, Any]:
    """
    The key and the answer of a question; the same question is not worked out twice while its answer is kept.

    Raises
    ------
    TonnageError
        The request is wrong.
    Busy
        Too many wait already.
    """
    request = opened(QUESTIONS[path], request)
    key = key_of(path, request)
    found = kept(desk, key)
    if found is not None:
        return key, found.answer
    # Whoever asked first may go away; the others still wait for the work.
    return key, await asyncio.shield(_job(desk, key, path=path, request=request).task)


def is_kept(desk: Desk, path: str, *, request: dict[str, Any]) -> bool:
    """Whether the answer to this question is here."""
    return kept(desk, key_of(path, opened(QUESTIONS[path], request))) is not None


def begin(desk: Desk, path: str, *, request: dict[str, Any]) -> None:
    """
    Set to work on a question that nobody waits for yet.

    Raises
    ------
    TonnageError
        As `ask`.
    """
    request = opened(QUESTIONS[path], request)
    key = key_of(path, request)
    if kept(desk, key) is None:
        # Looking at the exception says that somebody did: whoever follows the work is told what went wrong.
        task = _job(desk, key, path=path, request=request).task
        task.add_done_callback(lambda done: done.cancelled() or done.exception())


async def follow(desk: Desk, path: str, *, request: dict[str, Any]) -> AsyncIterator[tuple[int, int]]:
    """
    How far a question is, as (done, total), until it is answered.

    Raises
    ------
    TonnageError
        As `ask`.
    """
    request = opened(QUESTIONS[path], request)
    key = key_of(path, request)
    if kept(desk, key) is not None:
        return
    job = _job(desk, key, path=path, request=request)
    told: asyncio.Queue[tuple[int, int] | None] = asyncio.Queue(maxsize=1)
    job.watchers.append(told)
    job.task.add_done_callback(lambda _: _tell((told,), None))
    while (seen := await told.get()) is not None:
        yield seen
    await asyncio.shield(job.task)


def _job(desk: Desk, key: str, *, path: str, request: dict[str, Any]) -> Job:
    """The work on a question, begun unless it is under way."""
    if key in desk.jobs:
        return desk.jobs[key]
    if desk.places.statistics().tasks_waiting >= IN_LINE:
        raise Busy("too many questions at once; ask again in a few seconds")
    inner = admitted(request, folder=desk.uploads)
    watchers: list[asyncio.Queue[tuple[int, int] | None]] = []
    loop = asyncio.get_running_loop()

    def watch(done: int, total: int) -> None:
        loop.call_soon_threadsafe(_tell, tuple(watchers), (done, total))

    async def work() -> Any:
        try:
            answer = await to_thread.run_sync(
                lambda: answered(QUESTIONS[path], inner, additions=desk.additions, watch=watch), limiter=desk.places
            )
        finally:
            desk.jobs.pop(key, None)
        desk.answers[key] = Kept(path=path, request=request, answer=answer)
        while len(desk.answers) > KEPT:
            desk.answers.popitem(last=False)
        return answer

    desk.jobs[key] = Job(task=asyncio.ensure_future(work()), watchers=watchers)
    return desk.jobs[key]


def _tell(queues: tuple[asyncio.Queue[Any], ...], value: Any) -> None:
    """Only the newest word counts."""
    for queue in queues:
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(value)
