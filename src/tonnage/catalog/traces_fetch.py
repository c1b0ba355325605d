"""Public request logs brought here, when somebody asks for one: downloaded, counted, and kept in the user's cache."""

from __future__ import annotations

import gzip
import http.client
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

from tonnage.catalog.traces import PublicTrace, public_trace, public_traces
from tonnage.errors import BadFact, echo

__all__ = ["BASE", "fetch_trace", "found_trace", "trace_path"]

BASE: Final = "https://raw.githubusercontent.com"
"""Where files of repositories are: BASE/OWNER/NAME/HEAD/PATH."""
TIMEOUT_S: Final = 30.0
PIECE: Final = 1 << 18
LARGEST_BYTES: Final = 4 << 30
"""No log of the list is near it. [bytes]"""


def trace_path(trace: PublicTrace, folder: Path | None = None) -> Path:
    """Where a fetched log is kept: a folder, else the user's cache."""
    if folder is None:
        from platformdirs import user_cache_path

        folder = user_cache_path("tonnage") / "traces"
    return folder / f"{trace.name}{Path(trace.path).suffix}"


def found_trace(name: str) -> str:
    """
    The file that a trace's name stands for: itself, or the fetched log of that name.

    Raises
    ------
    BadFact
        A public log that has not been fetched.
    """
    trace = public_traces().get(name)
    if trace is None or Path(name).exists():
        return name
    kept = trace_path(trace)
    if not kept.exists():
        raise BadFact(f"trace '{echo(name)}' is not here yet; fetch it with `tonnage catalog traces --fetch {name}`")
    return str(kept)


def fetch_trace(
    name: str,
    *,
    folder: Path | None = None,
    base: str | None = None,
    watch: Callable[[int, int | None], None] | None = None,
) -> Path:
    """
    The public log of that name, downloaded unless it is here.

    Parameters
    ----------
    base : str
        Another place than BASE, such as a mirror.
    watch : callable
        Called with bytes received and bytes in all (absent when the server does not say).

    Raises
    ------
    UnknownName
        No such log.
    BadFact
        The server cannot be reached, has no such file, or sends something else than the log.
    """
    trace = public_trace(name)
    kept = trace_path(trace, folder)
    if kept.exists():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    arriving = kept.with_name(f"{kept.name}.{os.getpid()}.part")
    url = f"{base or BASE}/{trace.repository}/HEAD/{urllib.parse.quote(trace.path)}"
    try:
        with arriving.open("wb") as file:
            _download(url, file, watch or (lambda _, __: None))
        counted = _count(arriving)
        if counted != trace.requests:
            raise BadFact(
                f"{url} holds {counted:,} requests where {name} has {trace.requests:,}; it has changed or is damaged"
            )
        arriving.replace(kept)
    finally:
        arriving.unlink(missing_ok=True)
    return kept


def _download(url: str, file: IO[bytes], watch: Callable[[int, int | None], None]) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "tonnage"})
    received = 0
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            said = answer.headers.get("Content-Length")
            total = int(said) if said and said.isdigit() else None
            while piece := answer.read(PIECE):
                received += len(piece)
                if received > LARGEST_BYTES:
                    raise BadFact(f"{url} sends more than {LARGEST_BYTES >> 30} GiB, which no log of the list has")
                file.write(piece)
                watch(received, total)
    except urllib.error.HTTPError as error:
        raise BadFact(f"{url} answers {error.code} {error.reason}; the log may have moved") from None
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        raise BadFact(f"{url} cannot be reached ({echo(reason)}); check the connection") from None
    if total is not None and received < total:
        raise BadFact(f"{url} broke off after {received:,} of {total:,} bytes; try again")


def _count(path: Path) -> int:
    """Lines that are requests: all that are not empty, but for a header of CSV."""
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    lines = objects = 0
    with gzip.open(path, "rb") if packed else path.open("rb") as file:
        for line in file:
            text = line.strip()
            lines += bool(text)
            objects += text.startswith(b"{")
    return objects if objects else max(0, lines - 1)
