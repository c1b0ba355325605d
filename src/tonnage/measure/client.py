"""How long did one request take? Sends it over HTTP/1.1 and notes when each token arrived.

Why not a library: the time of a token is taken where the bytes arrive, before any queue of ours, and
one request costs about a tenth of a millisecond of CPU, so that thousands a second leave room on one
core. Connections are kept and reused; no proxy, no redirect, no host but the one that was given.

A key is read from the environment, lives in the bytes that are sent, and is cut out of whatever a
server echoes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import time
from collections import deque
from functools import partial
from typing import Any, Final, Literal, cast
from urllib.parse import SplitResult, urlsplit

import msgspec

from tonnage.errors import BadRequest, echo
from tonnage.measure.stream import Body, Broken, Event, events_of, head_of, take_body
from tonnage.record import Record

MAX_DETAIL_LENGTH: Final = 200
MAX_ECHO_LENGTH: Final = 65_536
MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
CLOSES: Final = 3
"""Connections found closed that show that a server keeps none, whatever its headers say (llama.cpp's)."""
KEY_ENV: Final = "OPENAI_API_KEY"


class Target(Record, kw_only=True):
    """Where to ask, and what."""

    host: str
    port: int
    tls: bool
    path: str
    kind: Literal["chat", "completions"]
    model: str

    @property
    def url(self) -> str:
        """The address without anything secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{self.path}"


class Reply(msgspec.Struct, kw_only=True):
    """What came of one request, on the clock of `time.perf_counter`; filled in as it arrives. [s]"""

    sent_s: float
    first_s: float | None = None
    """First token that is not empty."""
    last_s: float | None = None
    """Last token, or the word that it was the last."""
    token_s: list[float] = []
    """Each event with text."""
    status: int | None = None
    failure: str | None = None
    """Short stable kind: refused, reset, timeout, malformed, cut, empty, server error, http 429 …"""
    detail: str | None = None
    resent: bool = False
    """The server had closed the waiting connection, and the request went out again on a new one."""
    prompt_tokens: Any = None
    """As the server says."""
    output_tokens: Any = None
    """As the server says."""
    cached_tokens: Any = None
    """Of the prompt, in its prefix cache, as the server says."""
    model: str | None = None
    """That the answer says it is of."""
    prompt_s: float | None = None
    """The server's own time to read the prompt."""
    predicted_s: float | None = None
    """The server's own time to write the answer."""


class Connection(Record, kw_only=True):
    """A target, how to speak to it, and the connections that wait for the next request."""

    target: Target
    head: bytes
    secret: str | None
    tls: ssl.SSLContext | None
    idle: deque[_Wire]
    closed: list[float]
    """When the server had closed a waiting connection as it was used: after a few, none is kept."""

    def __reduce__(self) -> tuple[partial[Connection], tuple[Target]]:
        """For another process, which connects anew."""
        return partial(open_connection, key=self.secret), (self.target,)


def target_of(url: str, *, model: str, kind: Literal["chat", "completions"]) -> Target:
    """
    The endpoint that a URL means: the server's root, its `/v1`, or the full path; keys in it are refused.

    Examples
    --------
    >>> target_of("http://127.0.0.1:8000", model="m", kind="chat").url
    'http://127.0.0.1:8000/v1/chat/completions'
    """
    parts = address_of(url)
    if parts is None:
        raise BadRequest("URL: expected the address of a server, such as 'http://127.0.0.1:8000/v1'")
    if parts.username or parts.password or parts.query:
        raise BadRequest(f"URL: keys do not belong into an address; put yours into the environment as {KEY_ENV}")
    tail = "/chat/completions" if kind == "chat" else "/completions"
    path = parts.path.rstrip("/").removesuffix("/completions").removesuffix("/chat")
    path = path if path.endswith("/v1") else f"{path}/v1"
    return target_at(parts, path=path + tail, kind=kind, model=model)


def address_of(url: str) -> SplitResult | None:
    """The parts of an address of HTTP, plain where it does not say; None for what is no such address."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        known = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return None if not known or any(c in url for c in " \r\n\t") else parts


def target_at(parts: SplitResult, *, path: str, kind: Literal["chat", "completions"], model: str = "") -> Target:
    """A path of the server that an address names."""
    tls = parts.scheme == "https"
    port = parts.port or (443 if tls else 80)
    return Target(host=parts.hostname or "", port=port, tls=tls, path=path, kind=kind, model=model)


def key_of(name: str | None) -> str | None:
    """The API key in the environment variable of this name; the usual one may be unset, a named one may not."""
    key = os.environ.get(name or KEY_ENV)
    if not key:
        if name:
            raise BadRequest(f"--key-env: the environment variable '{echo(name)}' is not set")
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise BadRequest(f"the key in {echo(name or KEY_ENV)} holds a space, a line end or a character beyond ASCII")
    return key


def open_connection(target: Target, *, key: str | None) -> Connection:
    """Everything that requests to one target share; connects to nothing yet."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    lines = [
        f"POST {target.path} HTTP/1.1",
        f"Host: {host}:{target.port}",
        "User-Agent: tonnage",
        "Accept: text/event-stream",
        "Content-Type: application/json",
    ]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    context = ssl.create_default_context() if target.tls else None
    return Connection(target=target, head="\r\n".join(lines).encode(), secret=key, tls=context, idle=deque(), closed=[])


def close(connection: Connection) -> None:
    """Close the waiting connections."""
    while connection.idle:
        connection.idle.pop().shut()


def request_bytes(connection: Connection, *, prompt: str, output_tokens: int, ignore_eos: bool) -> bytes:
    """The request as it goes over the wire."""
    body: dict[str, object] = {
        "model": connection.target.model,
        "max_tokens": output_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if connection.target.kind == "chat":
        body["messages"] = [{"role": "user", "content": prompt}]
    else:
        body["prompt"] = prompt
    if ignore_eos:
        body["ignore_eos"] = True
    data = msgspec.json.encode(body)
    return b"%b\r\nContent-Length: %d\r\n\r\n%b" % (connection.head, len(data), data)


async def ask(connection: Connection, data: bytes, *, timeout_s: float) -> Reply:
    """Send one request and wait for all of its answer; whatever goes wrong is in the reply."""
    reply = Reply(sent_s=time.perf_counter())
    wire: _Wire | None = None
    try:
        async with asyncio.timeout(timeout_s):
            for fresh in (False, True):
                wire = _waiting(connection) if not fresh else await _connect(connection)
                if wire is None:
                    continue
                try:
                    await wire.exchange(data, reply)
                    break
                except ConnectionError:
                    # A server may close a waiting connection just as it is used; nothing was answered, so ask anew.
                    if fresh or wire.heard:
                        raise
                    reply.resent = True
                    connection.closed.append(reply.sent_s)
    except TimeoutError:
        _fail(reply, "timeout", f"no complete answer within {timeout_s:g} s")
    except Broken as error:
        _fail(reply, error.kind, str(error))
    except ConnectionRefusedError:
        _fail(reply, "refused", "the server refuses connections")
    except ssl.SSLError as error:
        _fail(reply, "tls", error.reason or "TLS failed")
    except ConnectionError:
        _fail(reply, "reset", "the server closed the connection")
    except OSError as error:
        _fail(reply, "unreachable", (error.strerror or str(error)).lower())
    if wire is not None:
        if wire.reusable and len(connection.closed) < CLOSES:
            connection.idle.append(wire)
        else:
            wire.shut()
    if reply.detail:  # the key first: half of it may be left otherwise
        shown = reply.detail.replace(connection.secret, "***") if connection.secret else reply.detail
        reply.detail = shown[:MAX_DETAIL_LENGTH]
    return reply


def _fail(reply: Reply, kind: str, detail: str) -> None:
    """Keeps the first failure of a request; late is no failure where all tokens and their count have come."""
    if kind == "timeout" and reply.failure is None and reply.last_s is not None and reply.output_tokens is not None:
        return  # all tokens and their count are here; only the end of the connection is late
    reply.failure = reply.failure or kind
    reply.detail = reply.detail or detail


def _waiting(connection: Connection) -> _Wire | None:
    while connection.idle:
        wire = connection.idle.pop()
        if wire.reusable:
            return wire
        wire.shut()
    return None


async def _connect(connection: Connection) -> _Wire:
    target = connection.target
    _, wire = await asyncio.get_running_loop().create_connection(_Wire, target.host, target.port, ssl=connection.tls)
    return wire


class _Wire(asyncio.Protocol):
    """One connection. It has state because asyncio calls back into an object; one exchange at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.buffer = bytearray()
        self.text = bytearray()
        self.body: Body | None = None
        self.reply: Reply | None = None
        self.waiter: asyncio.Future[None] | None = None
        self.heard = False
        self.seen = 0
        self.finished = False
        self.reusable = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name

    async def exchange(self, data: bytes, reply: Reply) -> None:
        """Send a request; returns when its answer is complete."""
        self.heard = False
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError
        self.reply, self.body, self.seen = reply, None, 0
        self.finished = self.reusable = False
        self.buffer.clear()
        self.text.clear()
        self.waiter = asyncio.get_running_loop().create_future()
        self.transport.write(data)
        try:
            await self.waiter
        finally:
            self.reply = self.waiter = None

    def data_received(self, data: bytes) -> None:
        """Bytes arrived: this is the moment that counts."""
        now = time.perf_counter()
        if self.reply is None or self.waiter is None or self.waiter.done():
            self.reusable = False  # an answer to nothing: the connection cannot be trusted any more
            return
        self.heard = True
        self.seen += len(data)
        self.buffer += data
        try:
            self._read(self.reply, now)
        except Broken as error:
            self._end(error)

    def _read(self, reply: Reply, now: float) -> None:
        """Reads what has arrived: the head, then the body, whose end completes the exchange."""
        if self.seen > MAX_RESPONSE_BYTES:
            raise Broken("malformed", "the answer does not end")
        if self.body is None:
            head = head_of(self.buffer)
            if head is None:
                return
            reply.status = head.status
            self.body = Body(head=head, left=head.length or 0, ended=head.length == 0)
        self.text += take_body(self.buffer, self.body)
        if self.body.head.status == 200 and self.body.head.stream:
            events, done = events_of(self.text)
            for event in events:
                self._note(event, reply, now)
            self.finished = self.finished or done
        if self.body.ended:
            self._complete(reply)

    def _note(self, event: Event, reply: Reply, now: float) -> None:
        """Puts the moment of an event with text, and counts and times that the server states, into the reply."""
        if event.error is not None:
            raise Broken("server error", _one_line(msgspec.json.encode(event.error)))
        if reply.model is None and isinstance(event.model, str):
            reply.model = event.model
        if event.has_text:
            if reply.first_s is None:
                reply.first_s = now
            reply.token_s.append(now)
            reply.last_s = now
        if event.finished:
            self.finished = True
            reply.last_s = now if reply.first_s is not None else None
        if event.usage is not None:
            reply.prompt_tokens, reply.output_tokens = event.usage.prompt_tokens, event.usage.completion_tokens
            reply.cached_tokens = event.cached_tokens
        if event.timings is not None and event.timings.prompt_ms is not None:
            reply.prompt_s = event.timings.prompt_ms / 1e3
            reply.predicted_s = None if event.timings.predicted_ms is None else event.timings.predicted_ms / 1e3

    def _complete(self, reply: Reply) -> None:
        """The body has ended: the exchange is a success, or fails with the kind that says why."""
        assert self.body is not None
        head = self.body.head
        self.reusable = head.keep and self.body.ended
        if head.status != 200:
            self._end(Broken(f"http {head.status}", _one_line(bytes(self.text[:MAX_ECHO_LENGTH]))))
        elif not head.stream:
            self._end(Broken("malformed", "the answer is not an event stream"))
        elif reply.first_s is None and self.finished:
            self._end(Broken("empty", "the answer has no text"))
        elif not self.finished:
            self._end(Broken("cut", "the stream ended before the answer did"))
        else:
            self._end(None)

    def _end(self, error: Exception | None) -> None:
        if self.waiter is None or self.waiter.done():
            return
        if error is None:
            self.waiter.set_result(None)
        else:
            self.waiter.set_exception(error)

    def eof_received(self) -> bool | None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side closed: the end of a body without a length, a cut answer, or a reset before a token."""
        self.transport = None
        self.reusable = False
        if self.reply is None:
            return
        if self.body is not None and self.body.head.length is None and not self.body.head.chunked and exc is None:
            self._complete(self.reply)  # such a body ends with its connection
            self.reusable = False
        elif self.reply.first_s is not None:
            self._end(Broken("cut", "the connection ended before the answer did"))
        else:
            self._end(ConnectionResetError())

    def shut(self) -> None:
        """Close at once."""
        self.reusable = False
        if self.transport is not None:
            with contextlib.suppress(Exception):
                self.transport.abort()


def _one_line(data: bytes) -> str:
    """A server's own words as one printable line, of any length."""
    text = " ".join(data.decode("utf-8", "replace").split())
    return "".join(c if c.isprintable() else "�" for c in text)
