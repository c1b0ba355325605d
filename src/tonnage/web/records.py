"""What a server, its workers and their tasks pass to each other: limits, settings, kept answers, and refusals.

An answer that is kept for the pictures, comparisons and files that ask for it again travels as the bytes of its record,
which only the server's own processes write and read; the server itself never looks inside, so that no answer, however
large, holds up others.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import Any, Final

import msgspec

from tonnage.catalog import Additions
from tonnage.errors import TonnageError
from tonnage.record import Record

MIN_WORKERS: Final = 2
"""One simulation that is followed may run for long; another question must find a worker beside it."""


class Limits(Record, kw_only=True):
    """What one server allows."""

    question_s: float = 60.0
    """Of work on one question; the wait for a worker has the same bound. [s]"""
    memory_bytes: float = 4 * 1024.0**3
    """Of one worker, beyond which its question is refused; held on Linux. [bytes]"""
    workers: int = msgspec.field(default_factory=lambda: max(MIN_WORKERS, os.cpu_count() or 1))
    """Processes for questions that plan or simulate."""
    waiting: int = 64
    """Questions that wait for a worker, of all clients."""
    waiting_each: int = 16
    """Questions of one client that wait for a worker."""
    header_s: float = 10.0
    """For the head of a request, from its first byte, or from the connection for the first one. [s]"""
    body_s: float = 20.0
    """For the body of a request. [s]"""
    send_s: float = 30.0
    """In which a client must take the next part of an answer. [s]"""
    connections: int = 1000
    """Open at once; beyond that the oldest one that has not sent a whole head is closed."""


class Busy(TonnageError):
    """
    The line is full, or a question has waited too long in it.

    Parameters
    ----------
    message : str
        What to do.
    retry_s : float
        When to ask again. [s]
    """

    def __init__(self, message: str, *, retry_s: float) -> None:
        super().__init__(message)
        self.retry_s = retry_s


class TooLong(TonnageError):
    """A question took longer than it may, and was stopped."""


class TooMuchMemory(TonnageError):
    """A question needed more memory than a worker has."""


class WorkerLost(TonnageError):
    """The process that worked on a question ended, or failed in a way that is our mistake."""


Told = Callable[[int, int], None]
"""Takes how much is done, and of how much."""


class Settings(Record, kw_only=True):
    """What every task of one server shares."""

    additions: Additions
    uploads: str = ""
    """Folder of uploaded configurations; empty where none are taken."""
    memory_bytes: float = 0.0
    """At most; 0 sets no bound. [bytes]"""
    nice: int = 0
    """Added to the priority's number, so that planning leaves the processor to quick answers."""
    told: Told | None = None
    """Takes how far a task is; absent where nobody asks."""
    replicas: int = 0
    """Kept from one question to the next, which mostly changes the load; 0 keeps none."""


class Kept(Record, kw_only=True):
    """A question and its answer, for the pictures and comparisons that ask for it again."""

    path: str
    request: dict[str, Any]
    document: bytes
    """As JSON, the same bytes as the command line's `--json`."""
    sentence: str
    record: bytes
    """The answer itself, for another worker."""

    @property
    def answer(self) -> Any:
        """The answer as its noun."""
        return pickle.loads(self.record)

    @property
    def size_bytes(self) -> int:
        """What keeping it takes. [bytes]"""
        return len(self.document) + len(self.record)
