"""Whole files of other tools, within limits: what is larger than memory is for gets one sentence, not a crash."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, Final

import msgspec

from tonnage.errors import BadFact, echo

MAX_BYTES: Final = 128 * 1024**2
"""Of one file, unpacked; a report of 10,000 requests with the time of each token is half of it. [bytes]"""
MAX_MEMORY_BYTES: Final = 300e6
"""That the values of one JSON text may take. [bytes]"""
_WEIGHTS: Final = ((b"{", 180.0), (b"[", 72.0), (b",", 60.0))
"""Upper bounds of what an object, a list and one more value cost CPython. [bytes]"""
_GZIP: Final = b"\x1f\x8b"


def read_whole(path: Path, *, what: str, unpack: bool = False) -> bytes:
    """
    All bytes of a file, unpacked where it is a gzip file and `unpack` says so.

    Raises
    ------
    BadFact
        Missing, unreadable, larger than the limit, or a damaged gzip file.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise BadFact(f"'{echo(path)}' does not exist; name the file of {what}") from None
    except IsADirectoryError:
        raise BadFact(f"'{echo(path)}' is a folder; name the file of {what} in it") from None
    except OSError as error:
        raise BadFact(f"'{echo(path)}' cannot be read: {(error.strerror or 'unknown error').lower()}") from None
    except ValueError:
        raise BadFact(f"'{echo(path)}' is no path; check its characters") from None
    if unpack and data[:2] == _GZIP:
        data = _unpack(data, path)
    if len(data) > MAX_BYTES:
        raise BadFact(f"'{echo(path)}' is larger than {MAX_BYTES // 1024**2} MiB; record {what} in parts")
    return data


def _unpack(data: bytes, path: Path) -> bytes:
    """All members of a gzip file, up to a byte beyond the limit, at which the caller refuses it."""
    found = b""
    try:
        while data and len(found) <= MAX_BYTES:
            part = zlib.decompressobj(wbits=31)
            found += part.decompress(data, MAX_BYTES + 1 - len(found))
            if not part.eof and len(found) <= MAX_BYTES:
                raise BadFact(f"'{echo(path)}' is a damaged gzip file; fetch it again")
            data = part.unused_data
    except zlib.error:
        raise BadFact(f"'{echo(path)}' is a damaged gzip file; fetch it again") from None
    return found


def json_in(data: bytes) -> Any:
    """What JSON says; None where it is none."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def refuse_heavy(data: bytes, path: Path) -> None:
    """Refuse JSON that would become more values than memory is for."""
    memory = sum(data.count(mark) * weight for mark, weight in _WEIGHTS)
    if memory > MAX_MEMORY_BYTES:
        raise BadFact(
            f"'{echo(path)}' holds too many values to be read at once ({memory / 1e6:,.0f} MB, "
            f"at most {MAX_MEMORY_BYTES / 1e6:,.0f} MB); record less in one file"
        )
