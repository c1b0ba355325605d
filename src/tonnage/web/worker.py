"""What one worker process does: it takes a task, works, hands back the outcome, and ends with the server.

A worker is killed when its question takes too long or nobody waits for it any more; so it owns nothing that outlives
it, and leaves Ctrl-C to the server.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

import msgspec

from tonnage.errors import TonnageError
from tonnage.web.records import Settings


def work(connection: Connection, settings: Settings, *, progress: Any, warm: str) -> None:
    """
    Do tasks until the other end closes.

    Parameters
    ----------
    connection : Connection
        Where tasks come from, as (name, arguments), and their values or exceptions go to, after one word at first.
    settings : Settings
        What the tasks share.
    progress : array of two
        Shared memory for how much of a task is done, and of how much.
    warm : str
        Module to import before the first task.
    """

    def told(*progressed: int) -> None:
        progress[:] = progressed

    _settle(settings)
    tasks = import_module("tonnage.web.tasks").TASKS
    settings = msgspec.structs.replace(settings, told=told)
    import_module(warm)
    if settings.replicas:
        from tonnage.core.kept_replicas import keep_replicas

        keep_replicas(settings.replicas)
    with suppress(EOFError, OSError):
        connection.send("ready")
        while True:
            name, arguments = connection.recv()
            connection.send(_outcome(partial(tasks[name], settings, **arguments)))


def _outcome(task: Callable[[], Any]) -> Any:
    """The task's value, or why there is none as an exception that can be sent."""
    try:
        return task()
    except TonnageError as wrong:
        return TonnageError(str(wrong))
    except MemoryError:
        return MemoryError()
    except RecursionError:
        return TonnageError("the request is nested too deeply to be read")
    except Exception:
        return RuntimeError(traceback.format_exc())


def _settle(settings: Settings) -> None:
    """Leave signals, standard output and the processor's time to others, and end with the server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # A server of tools speaks its protocol on standard output: nothing else may be written there.
    os.dup2(2, 1)
    if settings.nice and hasattr(os, "nice"):
        os.nice(settings.nice)
    if settings.memory_bytes and sys.platform == "linux":
        import resource

        # Of what is written to; a bound on addresses would count the gigabytes that libraries set aside.
        bound = int(settings.memory_bytes)
        resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))
    threading.Thread(target=_end_with_server, name="end with the server", daemon=True).start()


def _end_with_server() -> None:
    server = parent_process()
    if server is not None:
        wait([server.sentinel])
        os._exit(1)
