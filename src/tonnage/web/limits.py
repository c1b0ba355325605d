"""How long, how much and how many: every bound of the page, the HTTP API and the tools for assistants, in one place."""

from __future__ import annotations

import os
from typing import Final

import msgspec

from tonnage.errors import TonnageError

__all__ = ["Busy", "Limits", "TooLong", "TooMuchMemory", "WorkerLost"]

MIN_WORKERS: Final = 2
"""One simulation that is followed may run for long; another question must find a worker beside it."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
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
