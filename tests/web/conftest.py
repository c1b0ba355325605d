"""A running page for tests: the real server on a free port of this machine."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from tests.patience import PATIENCE_S


@pytest.fixture(scope="session")
def page_address() -> Iterator[str]:
    pytest.importorskip("litestar")
    pytest.importorskip("uvicorn")
    from tonnage.web import jobs
    from tonnage.web.records import Limits

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "NICE", 0)  # beside other tests a polite worker would get no time at all
        with serving(Limits(question_s=PATIENCE_S)) as address:  # a busy machine is no fault of a question
            yield address


@pytest.fixture(scope="session")
def started() -> Callable[..., AbstractContextManager[str]]:
    """`with started(question_s=3.0) as address`: a server whose other limits are the usual ones; options by name."""
    pytest.importorskip("litestar", reason="the web extra brings it")
    pytest.importorskip("uvicorn")
    from tonnage.web.records import Limits

    def start(*, token: str = "", **limits: Any) -> AbstractContextManager[str]:
        return serving(Limits(**limits), **({"token": token} if token else {}))

    return start


@contextmanager
def serving(limits: Any, **options: Any) -> Iterator[str]:
    """The address of a server in this process with those limits."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from tonnage.web.app import application
    from tonnage.web.connections import protocol

    # Workers are processes of their own, which no fixture keeps off the network.
    os.environ["TONNAGE_OFFLINE"] = "1"
    # Named TCP, so that asyncio turns off the wait for more bytes: 40 ms a reply.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        application(limits=limits, **options),
        log_level="critical",
        lifespan="on",
        timeout_graceful_shutdown=0,
        http=protocol(H11Protocol, limits=limits),
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[bound])), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
    os.environ.pop("TONNAGE_OFFLINE", None)
