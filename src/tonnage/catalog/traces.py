"""
Request logs: the public ones by name, fetched when somebody asks, and any file of one read line by line.

A log says when each request came and how long prompt and output were; some say which blocks of the prompt had been seen
before. Readers know the column names of public logs (Azure, Mooncake, vLLM's benchmarks, BurstGPT, OpenAI-style usage)
and read CSV or JSON lines, plain or gzipped, whatever their size. What is wrong with a log is said with the line it is
in: nothing is sorted, skipped or repaired.

The package ships no log: the list says where each is, under which licence, and whom to cite. A fetched one is kept in
the user's cache.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import IO, Final

from tonnage.catalog.rows import DATA, read_rows
from tonnage.catalog.trace_columns import Columns, add_requests, refuse_days
from tonnage.errors import BadFact, UnknownName, echo
from tonnage.foreign import plain_text
from tonnage.record import Record
from tonnage.units import show

MAX_LINE_LENGTH: Final = 4 * 1024 * 1024
PIECE: Final = 1 << 17
MAX_EMPTY: Final = 1_000_000
"""Empty lines of a log, which would otherwise be read for as long as a packed file holds any."""
MAX_FOLD: Final = 100
"""How much larger than its packed file a log may be; logs are five to fifteen times as large."""
UNPACKED_FREE: Final = 64 << 20
"""Beyond which that counts. [bytes]"""
BLOCK_TOKENS: Final = (512, 256, 128, 64, 32, 16, 1024, 2048, 4096)
"""Sizes of blocks that logs count in; of those that fit alike, the first. [tokens]"""
FITTING: Final = 0.9
"""Least share of a log's prompts that have as many ids as blocks."""


class PublicTrace(Record, kw_only=True):
    """A public request log: where it is and what its licence asks."""

    name: str
    what: str
    repository: str
    path: str
    licence: str
    cite: str
    requests: int
    hash_tokens: int | None = None
    """Tokens of one prefix block, where the log has block ids."""


class Trace(Record, kw_only=True):
    """A log as columns, in the order of the file. Times begin at 0."""

    sent_s: array[float]
    prompt: array[int]
    output: array[int]
    offsets: array[int]
    """Where each request's block ids begin; empty when the log has none."""
    blocks: array[int]
    hash_tokens: int | None = None
    source: str = ""
    without_tokens: int = 0
    """Requests with no prompt or no answer, read as one token: they took a step all the same."""
    unit: str = ""
    """Of its times, where they are numbers."""
    cut: bool = False
    """Its last line is CSV and has no end."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """How it was read, where that may not be what was meant."""
        said = {
            f"its times are read as {self.unit}, so it lasts {show(self.sent_s[-1], 's')}": self.unit,
            f"{self.without_tokens:,} without a prompt or an answer count as one token of it": self.without_tokens,
            "its last line has no end, so its last number may be cut": self.cut,
        }
        return tuple(text for text, counts in said.items() if counts)


@cache
def public_traces() -> Mapping[str, PublicTrace]:
    """Every public log by name."""
    return {trace.name: trace for trace in read_rows(DATA / "traffic" / "traces.csv", PublicTrace)}


def public_trace(name: str) -> PublicTrace:
    """
    The public log of that name.

    Raises
    ------
    UnknownName
        No such log.
    """
    if name not in public_traces():
        raise UnknownName("trace", name, known=public_traces())
    return public_traces()[name]


def read_trace(path: str | Path, *, limit: int | None = None, watch: Callable[[int, int], None] | None = None) -> Trace:
    """
    A request log from a CSV or JSON-lines file, gzipped or not; at most `limit` requests.

    Times are seconds, or dates with or without their distance from UTC; those of a log with `hash_ids` are
    milliseconds, as Mooncake writes them. `watch` is told bytes read and bytes in all.

    Raises
    ------
    BadFact
        Missing, empty, a column missing, a value that is no number, negative, or earlier than the one before; times
        that count milliseconds of the clock, or of two kinds; block ids that no size of a block makes of the prompts.
    """
    name = Path(plain_text(str(path), where="trace"))
    log, whole = Columns(name), True
    try:
        for first, piece in _pieces(name, watch):
            whole = piece.endswith(b"\n")
            if not add_requests(log, piece, first=first, room=None if limit is None else limit - len(log.sent_s)):
                break
    except UnicodeDecodeError:
        raise BadFact(f"trace '{echo(path)}' is not text; give CSV or JSON lines, plain or gzipped") from None
    if not log.sent_s:
        raise BadFact(f"'{echo(name)}' holds no requests; a trace has one line for each, with time and lengths")
    refuse_days(log)
    return Trace(
        sent_s=log.sent_s,
        prompt=log.prompt,
        output=log.output,
        offsets=log.offsets if log.hashed else array("q"),
        blocks=log.blocks,
        hash_tokens=_block_tokens(log, name) if log.hashed else None,
        source=str(name),
        without_tokens=log.without_tokens,
        unit=("milliseconds" if log.hashed else "seconds") if log.clock == "numbers" else "",
        cut=log.header is not None and not whole,
    )


def _block_tokens(log: Columns, path: Path) -> int:
    """
    Tokens of a block: the size by which most prompts have as many ids as they have blocks, the last one full or not.

    Nothing in such logs states it: Mooncake's blocks are of 512 tokens, engines' of 16 to 64.
    """
    import numpy as np

    prompt, ids = np.frombuffer(log.prompt, np.int64), np.diff(np.frombuffer(log.offsets, np.int64))
    fits = {size: (ids >= prompt // size) & (ids <= -(-prompt // size)) for size in BLOCK_TOKENS}
    best = max(BLOCK_TOKENS, key=lambda size: int(fits[size].sum()))
    if fits[best].mean() < FITTING:
        at = int(np.argmin(fits[best]))
        raise BadFact(
            f"'{echo(path)}' request {at + 1}: {prompt[at]:,} tokens and {ids[at]:,} block ids contradict others;"
            f" expected one id for every block of the prompt, of {min(BLOCK_TOKENS)} to {max(BLOCK_TOKENS):,} tokens"
        )
    return best


def _pieces(path: Path, watch: Callable[[int, int], None] | None) -> Iterator[tuple[int, bytes]]:
    """Whole lines of a file, some of them at a time, with the number of the first."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            size = raw.seek(0, io.SEEK_END)
            raw.seek(0)
            source = gzip.GzipFile(fileobj=raw) if packed else raw
            for first, piece in _whole_lines(source, path, most=MAX_FOLD * size + UNPACKED_FREE if packed else None):
                yield first, piece.removeprefix(b"\xef\xbb\xbf" if first == 1 else b"")
                if watch is not None:
                    watch(min(raw.tell(), size), size)
    except FileNotFoundError:
        raise BadFact(f"trace '{echo(path)}' does not exist; check the path, or see `tonnage catalog traces`") from None
    except IsADirectoryError:
        raise BadFact(f"trace '{echo(path)}' is a folder; name a file in it") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise BadFact(f"trace '{echo(path)}' is a damaged gzip file; fetch it again") from None
    except ValueError:  # a null character, or half of a surrogate pair
        raise BadFact(f"trace '{echo(path)}' is no path; check its characters") from None
    except OSError as error:
        raise BadFact(f"trace '{echo(path)}' cannot be read: {(error.strerror or 'unknown error').lower()}") from None


def _whole_lines(source: io.BufferedIOBase, path: Path, *, most: int | None) -> Iterator[tuple[int, bytes]]:
    """
    Pieces of whole lines, each with the number of its first line.

    Refused: more than `most` bytes in all, a line that is too long, and too many empty lines.
    """
    number, empty, held, read = 1, 0, b"", 0
    while piece := source.read(PIECE):
        read += len(piece)
        if most is not None and read > most:
            raise BadFact(
                f"'{echo(path)}' unpacks to over {MAX_FOLD} times its size, which no log does; unpack it first"
            )
        body, end, rest = (held + piece).rpartition(b"\n")
        lines = body + end
        empty += lines.count(b"\n\n") + lines.count(b"\n\r\n")
        if empty > MAX_EMPTY:
            raise BadFact(f"'{echo(path)}' has over {MAX_EMPTY:,} empty lines; a log has one line for each request")
        if len(rest) > MAX_LINE_LENGTH:
            line = number + lines.count(b"\n")
            raise BadFact(
                f"'{echo(path)}' line {line} is longer than {MAX_LINE_LENGTH // 1024**2} MiB, which no request needs"
            )
        if lines:
            yield number, lines
        number, held = number + lines.count(b"\n"), rest
    if held:
        yield number, held


BASE: Final = "https://raw.githubusercontent.com"
"""Where files of repositories are: BASE/OWNER/NAME/HEAD/PATH."""
WITHIN_S: Final = 3600.0
"""For all of a log. [s]"""
_DOWNLOAD_BYTES: Final = 1 << 18
MAX_BYTES: Final = 4 << 30
"""No log of the list is near it. [bytes]"""


def trace_path(trace: PublicTrace, folder: Path | None = None) -> Path:
    """Where a fetched log is kept: a folder, else the user's cache."""
    if folder is None:
        from platformdirs import user_cache_path

        folder = user_cache_path("tonnage") / "traces"
    return folder / f"{trace.name}{Path(trace.path).suffix}"


def find_trace(name: str) -> str:
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
    folder: Path | None,
    base: str | None = None,
    watch: Callable[[int, int | None], None] | None = None,
) -> Path:
    """
    The public log of that name, downloaded unless it is here.

    Parameters
    ----------
    folder : Path
        Where the log is kept; None = the user's cache.
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
    from urllib.parse import quote

    trace = public_trace(name)
    kept = trace_path(trace, folder)
    if kept.exists():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    arriving = kept.with_name(f"{kept.name}.{os.getpid()}.part")
    url = f"{base or BASE}/{trace.repository}/HEAD/{quote(trace.path)}"
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
    """Write what an address sends into a file; refused where it breaks off or is longer than any log."""
    # Here, for nothing else of the catalogue needs a network, and it takes longer to load than to list it.
    from tonnage.fetch import open_url

    received = 0
    with open_url(url, within_s=WITHIN_S, headers={"User-Agent": "tonnage"}) as answer:
        said = answer.headers.get("Content-Length")
        total = int(said) if said and said.isdigit() else None
        while piece := answer.read1(_DOWNLOAD_BYTES):
            received += len(piece)
            if received > MAX_BYTES:
                raise BadFact(f"{url} sends more than {MAX_BYTES >> 30} GiB, which no log of the list has")
            file.write(piece)
            watch(received, total)
    if received < (total or 0):
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
