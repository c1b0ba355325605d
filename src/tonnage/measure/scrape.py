"""What does the server say of itself? Its metrics page, and others that were named, beside the requests.

Each look is one line in the file of results as soon as it is there. Pages are cut down to the lines that are known
before they are parsed, and read once a second at most, so that reading them delays no timestamp that counts. Asked
are the host that is measured and the addresses the user named, no other; no key is sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from tonnage.domain.diagnosis import Reading
from tonnage.domain.measurement import ServerState
from tonnage.errors import BadRequest, TonnageError, echo
from tonnage.measure.client import Target, address_of, target_at
from tonnage.measure.diagnose.window import evidence_of
from tonnage.measure.metrics import reading_of

EVERY_S: Final = 1.0
MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
TIMEOUT_S: Final = 2.0


def page_of(url: str) -> Target:
    """
    The metrics page that an address means; /metrics where it names no page.

    Examples
    --------
    >>> page_of("http://127.0.0.1:9400").url
    'http://127.0.0.1:9400/metrics'
    """
    parts = address_of(url)
    if parts is None:
        raise BadRequest(f"--metrics: '{echo(url)}' is no address such as http://127.0.0.1:9400/metrics")
    if parts.username or parts.password:
        raise BadRequest("--metrics: keys do not belong into an address")
    return target_at(parts, path=parts.path if parts.path not in {"", "/"} else "/metrics", kind="completions")


def pages_of(target: Target, named: Sequence[str]) -> tuple[tuple[Target, bool], ...]:
    """The pages to watch, and whether the user named each: one that was only guessed may be absent."""
    guess = Target(host=target.host, port=target.port, tls=target.tls, path="/metrics", kind="completions", model="")
    own = tuple((page_of(url), True) for url in named)
    return own if any(page.url == guess.url for page, _ in own) else ((guess, False), *own)


def engine_at(target: Target) -> str | None:
    """The engine that a server's metrics page names; absent without a page that is known."""
    ((page, _),) = pages_of(target, ())
    found = asyncio.run(fetch(page))
    reading = None if found is None else reading_of(found, at_s=0.0)
    return reading.engine if reading is not None else None


async def fetch(page: Target, *, key: str | None = None) -> bytes | None:
    """
    The page, cut at MAX_PAGE_BYTES; None where nothing answers in time, or not with status 200. A key is for the server
    that is measured alone.

    Plain HTTP/1.0: the answer ends with its connection.
    """
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(page.host, page.port, ssl=page.tls or None)
            host = f"[{page.host}]" if ":" in page.host else page.host
            secret = f"Authorization: Bearer {key}\r\n" if key else ""
            writer.write(f"GET {page.path} HTTP/1.0\r\nHost: {host}:{page.port}\r\n{secret}\r\n".encode())
            found = b""
            while part := await reader.read(65_536):
                found += part
                if len(found) > MAX_PAGE_BYTES:
                    break
            writer.close()
    except (OSError, TimeoutError):
        return None
    head, _, body = found.partition(b"\r\n\r\n")
    return body if b" 200" in head.partition(b"\r\n")[0] else None


async def watch(page: Target, keep: Callable[[Reading], None], *, named: bool = False) -> None:
    """
    Read a page until cancelled, and hand on what it says; a page that was only guessed and is absent ends it.

    Raises
    ------
    BadRequest
        A page that the user named does not answer at first, or says nothing that is known here.
    """
    start = time.perf_counter()
    first = True
    while True:
        found = await fetch(page)
        try:
            reading = None if found is None else reading_of(found, at_s=round(time.perf_counter() - start, 3))
        except TonnageError:
            if named:
                raise
            return
        if reading is not None:
            keep(reading)
        elif first and named:
            raise BadRequest(f"--metrics: {page.url} {'has no metric known here' if found else 'does not answer'}")
        elif first:
            return
        first = False
        await asyncio.sleep(EVERY_S)


def state_of(readings: Sequence[Reading]) -> ServerState | None:
    """The most that gauges showed and the growth of counters; nothing without an engine's page."""
    if not any(reading.engine for reading in readings):
        return None
    own = [reading for reading in readings if reading.engine]
    seen = evidence_of(own)

    def growth(name: str) -> float | None:
        values = [reading.values[name] for reading in own if name in reading.values]
        return values[-1] - values[0] if len(values) > 1 else None

    return ServerState(
        engine=seen.engine or "",
        running=seen.running_most,
        waiting=seen.waiting_most,
        kv_used=seen.kv_used_most,
        prompt_tokens=growth("prompt_tokens"),
        output_tokens=growth("output_tokens"),
        preemptions=growth("preemptions"),
        cached_share=seen.cached_share if len(own) > 1 else None,
    )
