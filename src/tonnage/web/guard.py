"""Who may ask, how much, how deep: what stands between the network and the planner.

The page is meant for the machine it runs on. A name that is not that machine's is refused, so that another site cannot
point its own name at it (DNS rebinding); a request that another site sends is refused; bodies, nesting and waiting
lines have ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from tonnage.catalog.hub.jsonfile import decode_json
from tonnage.errors import BadFact, BadRequest, echo
from tonnage.planner.files import DEEPEST

__all__ = ["HEADERS", "LARGEST_BODY", "LOOPBACK", "guarded", "mapping", "single"]

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
LARGEST_BODY: Final = 1024 * 1024
"""Of a request; a configuration file is a few KB. [bytes]"""
HEADERS: Final = {
    "content-security-policy": "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


def guarded(app: Asgi, *, hosts: tuple[str, ...]) -> Asgi:
    """The application behind the checks, with the security headers on whatever it sends."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        given = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}

        async def sealed(message: Any) -> None:
            if message["type"] == "http.response.start":
                held = list(message.get("headers", []))
                message = {**message, "headers": held + [(k.encode(), v.encode()) for k, v in HEADERS.items()]}
            await send(message)

        why = _refusal(scope["method"], given, hosts)
        if why is not None:
            return await _say(sealed, 403, why)
        await app(scope, receive, sealed)

    return serve


def mapping(body: bytes) -> dict[str, Any]:
    """
    The JSON object of a request body.

    Raises
    ------
    BadRequest
        Not JSON, not an object, a name given twice, or nested too deeply.
    """
    try:
        value = decode_json(body or b"{}", where="the body")
    except BadFact as error:
        raise BadRequest(str(error)) from None
    if not isinstance(value, dict):
        raise BadRequest("the body must be one JSON object of fields")
    if _depth(value) > DEEPEST:
        raise BadRequest(f"the body is nested more than {DEEPEST} deep")
    return value


def single(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    """
    The fields of a query that are not empty, each of which may stand once.

    Raises
    ------
    BadRequest
        A field given twice: which of its values is meant nobody can know.
    """
    found: dict[str, str] = {}
    for name, value in fields:
        if value and found.setdefault(name, value) != value:
            raise BadRequest(f"the query gives '{echo(name)}' twice; keep one")
    return found


def _refusal(method: str, given: dict[str, str], hosts: tuple[str, ...]) -> str | None:
    host = _host(given.get("host", ""))
    if host not in hosts:
        return f"this page answers to {', '.join(dict.fromkeys(hosts))}, not to '{echo(host)}'"
    origin = given.get("origin")
    if origin is not None and (origin == "null" or _host(urlsplit(origin).netloc) not in hosts):
        return "requests from other sites are refused"
    if method not in ("GET", "HEAD") and given.get("sec-fetch-site") not in (None, "same-origin", "none"):
        return "requests from other sites are refused"
    return None


def _host(netloc: str) -> str:
    """The name in a Host header, without port and brackets."""
    try:
        return (urlsplit(f"//{netloc}").hostname or "").lower()
    except ValueError:
        return ""


def _depth(value: Any) -> int:
    """Levels of nesting, counted without recursion and no further than needed."""
    level, current = 0, [value]
    while current and level <= DEEPEST + 1:
        level += 1
        current = [
            inner
            for item in current
            for inner in (item.values() if isinstance(item, dict) else item if isinstance(item, list) else ())
            if isinstance(inner, dict | list)
        ]
    return level


async def _say(send: Any, status: int, why: str) -> None:
    body = msgspec.json.encode({"schema": "tonnage.error/1", "error": why})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
