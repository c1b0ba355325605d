"""A running page for tests: the real server on a free port of this machine."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def page_address() -> Iterator[str]:
    pytest.importorskip("litestar")
    uvicorn = pytest.importorskip("uvicorn")
    from tonnage.web.app import application

    # Named TCP, so that asyncio turns off the wait for more bytes: 40 ms a reply.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application(), log_level="error"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[bound])), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
