"""Request logs: the public ones by name, and any file of one read line by line.

A log says when each request came and how long prompt and answer were; some say which blocks of the
prompt had been seen before. Readers know the column names of public logs (Azure, Mooncake, vLLM's
benchmarks, BurstGPT, OpenAI-style usage) and read CSV or JSON lines, plain or gzipped, whatever their
size. What is wrong with a log is said with the line it is in: nothing is sorted, skipped or repaired.

The package ships no log: the list says where each is, under which licence, and whom to cite.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import zlib
from array import array
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from tonnage.errors import BadFact, UnknownName, echo

__all__ = ["PublicTrace", "Trace", "public_trace", "public_traces", "read_trace"]

TIMES: Final = ("queued_ts", "arrival_time", "arrived_at", "arrival_s", "timestamp", "time", "created", "sent_s")
PROMPTS: Final = ("contexttokens", "input_length", "input_toks", "request tokens", "prompt_tokens",
                  "num_prefill_tokens", "prompt_len", "input_tokens", "input_len")  # fmt: skip
OUTPUTS: Final = ("generatedtokens", "output_length", "output_toks", "response tokens", "completion_tokens",
                  "output_tokens", "num_decode_tokens", "output_len")  # fmt: skip
MOST_REQUESTS: Final = 50_000_000
"""What a machine holds in memory: 24 bytes each. [requests]"""
LONGEST_LINE: Final = 4 * 1024 * 1024
MOST_TOKENS: Final = 100_000_000


class PublicTrace(msgspec.Struct, frozen=True, kw_only=True):
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


class Trace(msgspec.Struct, frozen=True, kw_only=True):
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


@cache
def public_traces() -> Mapping[str, PublicTrace]:
    """Every public log by name."""
    text = (files("tonnage.catalog") / "data/traffic/traces.csv").read_text(encoding="utf-8")
    return {
        row["name"]: PublicTrace(
            name=row["name"], what=row["what"], repository=row["repository"], path=row["path"], licence=row["licence"],
            cite=row["cite"], requests=int(row["requests"]),
            hash_tokens=int(row["hash_tokens"]) if row["hash_tokens"] else None,
        )
        for row in csv.DictReader(text.splitlines())
    }  # fmt: skip


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


def read_trace(path: str | Path, *, limit: int | None = None) -> Trace:
    """
    A request log from a CSV or JSON-lines file, gzipped or not; at most `limit` requests.

    Raises
    ------
    BadFact
        Missing, empty, a column missing, a value that is no number, negative, or earlier than the one before.
    """
    name = Path(path)
    columns = array("d"), array("q"), array("q"), array("q", [0]), array("q")
    sent, prompt, output, offsets, blocks = columns
    ids: dict[Any, int] = {}
    first = 0.0
    hashed, without = False, 0
    for line, row in _rows(name):
        if limit is not None and len(sent) >= limit:
            break
        at, p, o = _time(row, line, name), *_lengths(row, line, name)
        hashed = hashed or "hash_ids" in row
        at = at / 1000.0 if "hash_ids" in row else at
        first = at if not sent else first
        if sent and at - first < sent[-1]:
            raise BadFact(
                f"'{echo(name)}' line {line}: {_shown(at)} s is earlier than the request before it; sort it by time"
            )
        sent.append(at - first)
        prompt.append(max(1, p))
        output.append(max(1, o))
        without += 0 in (p, o)
        if "hash_ids" in row:
            blocks.extend(ids.setdefault(x, len(ids)) for x in _hashes(row, line, name))
        offsets.append(len(blocks))
        if len(sent) > MOST_REQUESTS:
            raise BadFact(f"'{echo(name)}' holds more than {MOST_REQUESTS:,} requests; read a part of it (limit)")
    if not sent:
        raise BadFact(f"'{echo(name)}' holds no requests; a trace has one line for each, with time and lengths")
    return Trace(
        sent_s=sent, prompt=prompt, output=output, offsets=offsets if hashed else array("q"), blocks=blocks,
        hash_tokens=512 if hashed else None, source=str(name),
        without_tokens=without,
    )  # fmt: skip


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Numbered rows of a file, with lower-case names of columns, one in memory at a time."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        with (
            gzip.open(path, "rt", encoding="utf-8-sig", newline="")
            if packed
            else path.open("r", encoding="utf-8-sig", newline="") as file
        ):
            yield from _parsed(file, path)
    except FileNotFoundError:
        raise BadFact(f"trace '{echo(path)}' does not exist; check the path, or see `tonnage catalog traces`") from None
    except IsADirectoryError:
        raise BadFact(f"trace '{echo(path)}' is a folder; name a file in it") from None
    except UnicodeDecodeError:
        raise BadFact(f"trace '{echo(path)}' is not text; give CSV or JSON lines, plain or gzipped") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise BadFact(f"trace '{echo(path)}' is a damaged gzip file; fetch it again") from None


def _parsed(file: IO[str], path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    number, header = 0, None
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise BadFact(
                f"'{echo(path)}' line {number} is longer than {LONGEST_LINE // 1024**2} MiB, which no request needs"
            )
        text = line.strip()
        if not text:
            continue
        if text.startswith("{"):
            yield number, _object(text, number, path)
        elif header is None:
            header = [name.strip().lower() for name in _cells(text, number, path)]
            _require(dict.fromkeys(header), number, path)
        else:
            cells = _cells(text, number, path) if '"' in text else text.split(",")
            if len(cells) != len(header):
                raise BadFact(f"'{echo(path)}' line {number} has {len(cells)} columns, the header {len(header)}")
            yield number, dict(zip(header, cells, strict=True))


def _object(text: str, number: int, path: Path) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):  # not JSON, or whole numbers of thousands of digits
        raise BadFact(f"'{echo(path)}' line {number} is not a JSON object; write one request a line") from None
    found = {str(key).lower(): value for key, value in row.items()}
    usage = found.get("usage")
    found |= {str(key).lower(): value for key, value in usage.items()} if isinstance(usage, dict) else {}
    _require(found, number, path)
    return found


def _cells(text: str, number: int, path: Path) -> list[str]:
    try:
        return next(csv.reader([text]))
    except csv.Error as error:
        raise BadFact(f"'{echo(path)}' line {number} is not CSV: {error}") from None


def _require(row: Mapping[str, Any], number: int, path: Path) -> None:
    for what, names in (("time", TIMES), ("prompt length", PROMPTS), ("output length", OUTPUTS)):
        if not any(name in row for name in names):
            have, known = ", ".join(list(row)[:8]), ", ".join(names[:5])
            raise BadFact(f"'{echo(path)}' line {number} has no {what}: expected one of {known} …; it has {echo(have)}")


def _time(row: Mapping[str, Any], number: int, path: Path) -> float:
    value = next(row[name] for name in TIMES if name in row)
    try:
        at = float(value)
    except (TypeError, ValueError, OverflowError):
        at = _date(value, number, path)
    if not math.isfinite(at) or at < 0:
        raise BadFact(
            f"'{echo(path)}' line {number}: time {echo(value)} is no time; expected seconds of at least 0, or a date"
        )
    return at


def _date(value: Any, number: int, path: Path) -> float:
    text = str(value).strip()
    whole, _, fraction = text.partition(".")
    digits = fraction.rstrip("Z")[:6]
    try:
        seconds = datetime.fromisoformat(whole + ("+00:00" if "+" not in whole else "")).timestamp()
        return seconds + (float(f"0.{digits}") if digits else 0.0)
    except ValueError:
        raise BadFact(
            f"'{echo(path)}' line {number}: '{echo(text)}' is no time; expected seconds, or 2024-05-10 12:00:00.123"
        ) from None


def _lengths(row: Mapping[str, Any], number: int, path: Path) -> tuple[int, int]:
    found = []
    for what, names in (("prompt", PROMPTS), ("output", OUTPUTS)):
        value = next(row[name] for name in names if name in row)
        try:
            tokens = float(value)
        except (TypeError, ValueError, OverflowError):
            tokens = math.nan
        if not (0 <= tokens <= MOST_TOKENS) or tokens != int(tokens):
            raise BadFact(f"'{echo(path)}' line {number}: {what} length '{echo(value)}' is no number of tokens")
        found.append(int(tokens))
    return found[0], found[1]


def _hashes(row: Mapping[str, Any], number: int, path: Path) -> list[Any]:
    ids = row["hash_ids"]
    if not isinstance(ids, list) or not all(isinstance(x, int | str) for x in ids):
        raise BadFact(f"'{echo(path)}' line {number}: hash_ids must be a list of block ids")
    return ids


def _shown(seconds: float) -> str:
    return f"{seconds:.3f}".rstrip("0").rstrip(".")
