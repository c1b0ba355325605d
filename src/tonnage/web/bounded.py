"""Requests that end: a body comes in time or not at all, and work stops when whoever asked has gone."""

from __future__ import annotations

import asyncio
from typing import Any

from tonnage.web.guard import LARGEST_BODY, Asgi, sentence
from tonnage.web.records import Limits

_CLOSE = {"connection": "close"}


def bound_body(app: Asgi, *, limits: Limits) -> Asgi:
    """The application with its request's body read beforehand, and cancelled when the client leaves."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        try:
            async with asyncio.timeout(limits.body_s):
                body = await _body(receive)
        except TimeoutError:
            told = f"the body did not come within {limits.body_s:g} s"
            return await sentence(told, status=408, headers=_CLOSE)(scope, receive, send)
        if body is None:
            return None
        if len(body) > LARGEST_BODY:
            told = f"the body is larger than {LARGEST_BODY:,} bytes"
            return await sentence(told, status=413, headers=_CLOSE)(scope, receive, send)
        if scope["method"] == "HEAD":  # GET without its body, which the server leaves out; no question is asked for it
            scope = {**scope, "method": "GET", "query_string": b""}
        await _until_gone(app, scope, body, receive, send)

    return serve


async def _body(receive: Any) -> bytes | None:
    """The body, no further than it may go; None when the client left before its end."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST_BODY or not message.get("more_body", False):
            return b"".join(parts)


async def _until_gone(app: Asgi, scope: Any, body: bytes, receive: Any, send: Any) -> None:
    """
    Have the application answer a request whose body is here already; cancel it when the client leaves first.

    A server that stops answers 503 where no answer has begun.
    """
    started, ended = False, asyncio.Event()
    inbox = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Any:
        if inbox:
            return inbox.pop()
        await ended.wait()
        return {"type": "http.disconnect"}

    async def noted(message: Any) -> None:
        nonlocal started
        started = True
        await send(message)

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    work, leaving = asyncio.ensure_future(app(scope, replay, noted)), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:  # the server is stopping
        work.cancel()
        if not started:
            await sentence("the server is stopping", status=503, headers=_CLOSE)(scope, receive, send)
        return
    finally:
        leaving.cancel()
        ended.set()
    if not work.done():
        work.cancel()
        await asyncio.wait({work})
    if not work.cancelled():
        work.result()
