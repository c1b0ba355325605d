"""Which questions are worked on, for whom, and the last answers.

The same question asked twice is worked on once; it is stopped when nobody waits for it or follows it any more. Quick
questions, everything made of kept answers, and pictures have workers of their own beside those that plan.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tonnage.errors import TonnageError
from tonnage.web.questions import QUESTIONS
from tonnage.web.records import Kept, Limits, Settings, TooLong
from tonnage.web.workers import Lane, Worker, fork_context, spawn_context

QUICK: Final = frozenset({"fit", "cost/rent-or-buy", "local"})
"""Questions that take milliseconds."""
QUICK_WORKERS: Final = 2
MANY: Final = 1024
MANY_EACH: Final = 256
"""Quick questions that wait, of all clients and of one."""
PATIENCE_S: Final = 2.0
"""For a quick question or picture that nobody waits for any more. [s]"""
NICE: Final = 10
REPLICAS: Final = 1024
"""That each planning worker keeps: of a dozen questions with all their candidates."""
KEPT: Final = 64
KEPT_BYTES: Final = 128 * 1024**2
GRACE_S: Final = 10.0
"""For which a page's question is worked on before the page comes to follow it. [s]"""
HEARTBEAT_S: Final = 1.0
"""Between two messages to whoever follows a question. [s]"""

Event = tuple[str, dict[str, Any]]


def key_of(path: str, request: Mapping[str, Any]) -> str:
    """The same for the same question, whatever the order of its fields."""
    return hashlib.sha256(msgspec.json.encode([path, dict(request)], order="deterministic")).hexdigest()[:24]


class Job:
    """One question at work."""

    def __init__(self) -> None:
        self.task: asyncio.Task[Kept] | None = None
        self.clients = 0
        """Who wait for its answer; with none left it is stopped."""
        self.followers = 0
        """Those among them who see how far it is and can cancel: for them it may take longer."""
        self.began_s = 0.0
        self.worker: Worker | None = None


class Jobs:
    """
    Lanes of workers, questions under way, and kept answers.

    Parameters
    ----------
    settings : Settings
        What every worker is told.
    limits : Limits
        Of time, memory and waiting.
    """

    def __init__(self, settings: Settings, *, limits: Limits) -> None:
        self.limits = limits
        behind = replace(settings, nice=NICE)
        planning = replace(behind, replicas=REPLICAS)
        self.plans = Lane(
            fork_context(), settings=planning, warm="tonnage.web.ready", workers=limits.workers, limits=limits
        )
        many = replace(limits, waiting=MANY, waiting_each=MANY_EACH)
        self.quick = Lane(
            spawn_context(),
            settings=settings,
            warm="tonnage.web.pages",
            workers=QUICK_WORKERS,
            limits=many,
            patience_s=PATIENCE_S,
        )
        self.pictures = Lane(
            spawn_context(),
            settings=behind,
            warm="tonnage.questions.answers",
            workers=1,
            limits=many,
            patience_s=PATIENCE_S,
        )
        self._answers: OrderedDict[str, Kept] = OrderedDict()
        self._jobs: dict[str, Job] = {}
        self._graces: set[asyncio.Task[None]] = set()

    def lane_of(self, path: str) -> Lane:
        """The workers for a question."""
        return self.quick if path in QUICK else self.plans

    def kept(self, key: str) -> Kept | None:
        """The answer of that key, if it is still here."""
        found = self._answers.get(key)
        if found is not None:
            self._answers.move_to_end(key)
        return found

    def sentences(self, without: list[str]) -> list[tuple[str, str]]:
        """Key and sentence of the kept answers but some, oldest first."""
        return [(key, kept.sentence) for key, kept in self._answers.items() if key not in without]

    async def ask(self, path: str, *, request: dict[str, Any], client: str) -> tuple[str, Kept]:
        """
        Key and answer of a question; cancelling this stops the work if nobody else waits for it.

        Raises
        ------
        TonnageError
            The request is wrong, too expensive, or too many wait.
        """
        key = key_of(path, request)
        found = self.kept(key)
        if found is not None:
            return key, found
        with self._join(key, path, request, client) as job:
            return key, await _end_of(job)

    def begin(self, path: str, *, request: dict[str, Any], client: str) -> None:
        """Work on a question whose page will come to follow it in a moment; stop if it does not."""

        async def grace() -> None:
            with self._join(key_of(path, request), path, request, client) as job:
                if job.task is not None:
                    await asyncio.wait({job.task}, timeout=GRACE_S)

        if self.kept(key_of(path, request)) is None:
            task = asyncio.ensure_future(grace())
            self._graces.add(task)
            task.add_done_callback(self._graces.discard)

    async def follow(self, path: str, *, request: dict[str, Any], client: str) -> AsyncIterator[Event]:
        """
        How far a question is, until its `end`: `waiting`, `working`, `progress`, each with its figures.

        Closing this stops the work if nobody else waits for it.
        """
        key = key_of(path, request)
        found = self.kept(key)
        if found is not None:
            yield "end", {"answer": f"/answer/{key}.json", "sentence": found.sentence}
            return
        with self._join(key, path, request, client) as job:
            job.followers += 1
            try:
                last: Event | None = None
                while job.task is not None and not job.task.done():
                    event = self._state(job, path)
                    if event != last:
                        yield event
                    last = event
                    await asyncio.wait({job.task}, timeout=HEARTBEAT_S)
                found = await _end_of(job)
            except TonnageError as wrong:
                yield "end", {"error": str(wrong)}
                return
            finally:
                job.followers -= 1
        yield "end", {"answer": f"/answer/{key}.json", "sentence": found.sentence}

    async def warm(self) -> None:
        """Start what takes long to start, without waiting for it."""
        for lane in (*[self.quick] * QUICK_WORKERS, self.plans):
            lane.warm()

    def kill(self) -> None:
        """Kill every worker."""
        for lane in (self.plans, self.quick, self.pictures):
            lane.kill()

    @contextmanager
    def _join(self, key: str, path: str, request: dict[str, Any], client: str) -> Iterator[Job]:
        """The work on a question, begun unless it is under way, and stopped when the last one leaves it."""
        job = self._jobs.get(key)
        if job is None:
            job = self._jobs[key] = Job()
            job.task = asyncio.ensure_future(self._work(key, job, path, request, client))
            # Whoever waits is told what went wrong; if nobody does, nobody is.
            job.task.add_done_callback(lambda done: done.cancelled() or done.exception())
        job.clients += 1
        try:
            yield job
        finally:
            job.clients -= 1
            if job.clients == 0 and job.task is not None and not job.task.done():
                self._jobs.pop(key, None)
                job.task.cancel()

    async def _work(self, key: str, job: Job, path: str, request: dict[str, Any], client: str) -> Kept:
        """The answer of a worker, kept; the oldest answers are dropped where too many or too large ones are kept."""

        def began(worker: Worker) -> None:
            job.worker, job.began_s = worker, asyncio.get_running_loop().time()

        try:
            answer: Kept = await self.lane_of(path).run(
                "ask",
                {"path": path, "request": request},
                client=client,
                began=began,
                followed=lambda: job.followers > 0,
            )
        except TooLong as late:
            raise TooLong(f"{late}; {QUESTIONS[path].instead}") from None
        finally:
            if self._jobs.get(key) is job:
                del self._jobs[key]
        self._answers[key] = answer
        size = sum(kept.size_bytes for kept in self._answers.values())
        while len(self._answers) > KEPT or (size > KEPT_BYTES and len(self._answers) > 1):
            size -= self._answers.popitem(last=False)[1].size_bytes
        return answer

    def _state(self, job: Job, path: str) -> Event:
        """How far a job is: `waiting`, `working`, or `progress` where its worker counts, with the seconds left."""
        if job.worker is None:
            return "waiting", {"questions": self.lane_of(path).line.length}
        elapsed_s = asyncio.get_running_loop().time() - job.began_s
        done, total = job.worker.progress
        if done >= total:  # nothing is counted, or not any more: a capacity is looked for after the requests
            return "working", {"elapsed_s": round(elapsed_s)}
        left = {"left_s": round(elapsed_s * (total - done) / done)} if done else {}
        return "progress", {"done": done, "total": total, "elapsed_s": round(elapsed_s), **left}


async def _end_of(job: Job) -> Kept:
    """The job's answer; cancelling this leaves the job alone, for others may wait for it."""
    assert job.task is not None
    return await asyncio.shield(job.task)
