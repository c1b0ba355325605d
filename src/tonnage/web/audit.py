"""
Who asked what, and when? One JSON line for each question, appended to a file or written to standard output.

What is written: time, address (the one that a trusted proxy hands on), method, path, fields, status, seconds, release
and data of the answer. What is not: the token, cookies, other headers and the answer; whoever asks the same fields of
the same release and data gets that again. Pages without fields, scripts and the watchdog's question are no questions.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from tonnage.catalog.rows import data_version
from tonnage.errors import BadRequest, echo_path
from tonnage.version import __version__
from tonnage.web.guard import Asgi

SCHEMA: Final = "tonnage.audit/1"
MOST: Final = 64 * 1024
"""Of a body that is written down. [bytes]"""
SECRET: Final = frozenset({"token"})


class AuditLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One question."""

    at: str
    client: str
    method: str
    path: str
    fields: dict[str, str] = {}
    """Of the address."""
    body: str = ""
    """As sent; cut at 64 KiB."""
    status: int = 0
    """0 = whoever asked went away before the answer."""
    seconds: float = 0.0
    version: str = __version__
    data: str = ""
    schema: str = SCHEMA


def writer_of(path: str) -> int:
    """
    The open file that lines are appended to; `-` is standard output.

    Raises
    ------
    BadRequest
        It cannot be opened.
    """
    if path == "-":
        return sys.stdout.fileno()
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BadRequest(f"--audit: '{echo_path(path)}' cannot be written: {why}") from None


def with_audit(app: Asgi, file: int) -> Asgi:
    """The application, every question to it written down when its answer begins or fails to."""

    async def serve(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        asked = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"))) if scope["type"] == "http" else {}
        if scope["type"] != "http" or not (asked or scope["method"] == "POST"):
            return await app(scope, receive, send)
        line = AuditLine(
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            client=(scope.get("client") or ("",))[0],
            method=scope["method"],
            path=scope["path"],
            data=data_version(),
            fields={name: value for name, value in asked.items() if name not in SECRET},
        )
        body, begun = bytearray(), time.monotonic()

        async def read() -> Any:
            message = await receive()
            body.extend(message.get("body", b"")[: MOST - len(body)])
            return message

        async def write(message: Any) -> None:
            if message["type"] == "http.response.start":
                line.status = message["status"]
            await send(message)

        try:
            await app(scope, read, write)
        finally:
            line.body, line.seconds = body.decode("utf-8", "replace"), round(time.monotonic() - begun, 3)
            os.write(file, msgspec.json.encode(line) + b"\n")

    return serve
