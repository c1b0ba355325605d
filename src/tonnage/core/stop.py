"""
Ctrl-C in the middle of a search gives the best found so far.

Whoever runs a search for somebody (the command line) watches for Ctrl-C; the search says when it holds an answer, and
asks between its parts whether to end with it. The first Ctrl-C before there is an answer, and the second after, raise
KeyboardInterrupt as ever. A program that calls the package watches nothing, and so is interrupted as ever.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

UNFINISHED = "stopped by Ctrl-C: the best found so far"


class Abandoned(Exception):
    """Work of a second or more that Ctrl-C broke off; the search goes on to its end without it."""


class _Search:
    """Of this process: a terminal asks for one answer at a time."""

    best_known = False
    asked = False
    abandons = False


def best_is_known() -> None:
    """Says that from here on the search has an answer to end with."""
    _Search.best_known = True


def stop_asked() -> bool:
    """Whether the search is to end with what it has."""
    return _Search.asked


@contextmanager
def abandoned_at_stop() -> Iterator[None]:
    """
    Within it, the Ctrl-C that asks the search to end breaks off what is under way, too.

    Raises
    ------
    Abandoned
        Ctrl-C came.
    """
    _Search.abandons = True
    try:
        yield
    finally:
        _Search.abandons = False


@contextmanager
def ends_at_best() -> Iterator[None]:
    """Within it, the first Ctrl-C after `best_is_known` asks the search to end; only the main thread can watch."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupted(number: int, frame: FrameType | None) -> None:
        if _Search.asked or not _Search.best_known:
            raise KeyboardInterrupt
        _Search.asked = True
        if _Search.abandons:
            raise Abandoned

    _Search.best_known = _Search.asked = False
    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _Search.best_known = _Search.asked = False
