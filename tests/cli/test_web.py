"""The page's command: how it listens."""

from __future__ import annotations

import socket

import pytest

from tonnage.cli.web import _named_tcp


def test_its_socket_says_tcp_so_that_no_reply_waits_for_more_bytes() -> None:
    uvicorn = pytest.importorskip("uvicorn", reason="the web extra brings it")
    with _named_tcp(uvicorn.Config("", host="127.0.0.1", port=0, log_level="error").bind_socket()) as bound:
        bound.listen()
        with socket.create_connection(bound.getsockname(), timeout=10), bound.accept()[0] as accepted:
            assert bound.proto == accepted.proto == socket.IPPROTO_TCP
