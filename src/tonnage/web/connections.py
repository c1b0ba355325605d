"""Connections that end: whoever opens one sends a whole request head soon, and takes what it is sent.

uvicorn has a time limit between two requests but none for a head that never ends or an answer that is never read
(its issue 157). This stands between the transport and uvicorn's protocol, passes every call on, and closes what takes
too long; with too many open, the one that has owed its head for the longest.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from tonnage.web.records import Limits

_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def protocol(inner: Callable[..., Any], *, limits: Limits) -> Callable[..., Any]:
    """What makes uvicorn's protocol for a connection, with limits around it; it goes into `Config(http=…)`."""
    owing: OrderedDict[Connection, None] = OrderedDict()
    opened: set[Connection] = set()

    def make(*args: Any, **options: Any) -> Connection:
        return Connection(inner(*args, **options), limits=limits, owing=owing, opened=opened)

    return make


class Connection:
    """
    One connection; an `asyncio.Protocol` by its methods.

    A timer runs while it owes the head of a request (`_owes`), another while its client reads nothing (`_unread`).
    """

    def __init__(
        self, inner: Any, *, limits: Limits, owing: OrderedDict[Connection, None], opened: set[Connection]
    ) -> None:
        self._inner, self._limits, self._owing, self._opened = inner, limits, owing, opened
        self._transport: Any = None
        self._owes: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._asked, self._more = 0, False  # requests at work; whether bytes came meanwhile
        self._silent = True
        app = inner.app

        async def counted(scope: Any, receive: Any, send: Any) -> None:
            self._has_head()
            self._asked += 1
            try:
                await app(scope, receive, send)
            finally:
                self._asked -= 1
                if self._asked == 0 and self._more and not self._transport.is_closing():
                    self._owe()
                self._more = False

        inner.app = counted

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._opened.add(self)
        if len(self._opened) > self._limits.connections and self._owing:
            next(iter(self._owing)).late()
        self._owe()
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._silent = False
        if self._asked:
            self._more = True  # the end of a body, or the beginning of another head
        elif self._owes is None:
            self._owe()
        self._inner.data_received(data)

    def eof_received(self) -> Any:
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_head()
        self._is_read()
        self._opened.discard(self)
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._is_read()
        self._unread = asyncio.get_running_loop().call_later(self._limits.send_s, self._transport.abort)
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._is_read()
        self._inner.resume_writing()

    def late(self) -> None:
        """Close a connection that owes its head; one that has begun to send it is told why."""
        self._has_head()
        if not self._silent and not self._transport.is_closing():
            self._transport.write(_LATE)
        self._transport.close()

    def _owe(self) -> None:
        self._has_head()
        self._owes = asyncio.get_running_loop().call_later(self._limits.header_s, self.late)
        self._owing[self] = None

    def _has_head(self) -> None:
        self._owing.pop(self, None)
        if self._owes is not None:
            self._owes.cancel()
            self._owes = None

    def _is_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
