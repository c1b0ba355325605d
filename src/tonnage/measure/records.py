"""Where do results go? Into a file of JSON lines, each written before anything else happens to it.

The first line says what is measured; then come requests as they complete, and the end of each stage.
A line is one write to the system, so killing the client loses nothing that had completed; a last line
that was cut is dropped, and `--resume` goes on behind it. Times are seconds since the start of their
segment (one segment a start of the client), on a clock that no one can set.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from tonnage.domain.diagnosis import Reading
from tonnage.domain.measurement import Load, ServerState
from tonnage.domain.requests.common import Slo
from tonnage.errors import BadFact, BadRequest, echo
from tonnage.measure.files import read_whole, refuse_heavy
from tonnage.record import Record, SparseRecord

LOG_SCHEMA = "tonnage.measurement-log/1"


def check_bounds(*rows: tuple[str, float, float, float]) -> None:
    """
    Refuse numbers out of range: option, value, least and most of each.

    Raises
    ------
    BadRequest
        One is.
    """
    for name, value, low, high in rows:
        if not low <= value <= high:
            raise BadRequest(f"{name}: {value:g} is outside {low:g} to {high:g}")


class Spec(SparseRecord, kw_only=True):
    """What is measured, and how: resuming needs it to be the same."""

    url: str
    kind: Literal["chat", "completions"]
    model: str
    load: Load
    sweep: Literal["rate", "concurrency"] | None = None
    most: float | None = None
    """Highest level of a sweep."""
    slo: Slo = Slo()
    prompt_tokens: int
    output_tokens: int
    ignore_eos: bool = True
    timeout_s: float = 120.0
    seed: int = 0
    shared: float = 0.0
    """Of each prompt, what all of them begin with: 0 = a cold cache. [-]"""
    busy: bool = False
    """Other load on the machine is told, and forbids nothing."""


class Header(Record, kw_only=True, tag="header"):
    """The first line."""

    schema: str = LOG_SCHEMA
    spec: Spec
    version: str
    """Of Tonnage."""
    date: str


class Segment(Record, kw_only=True, tag="segment"):
    """The client starts, or goes on, with a stage."""

    segment: int
    stage: int
    load: Load
    words: int
    """Words of a prompt that make up the wanted tokens, by the server's own count."""
    date: str
    salt: str = ""
    """Of this start of the client: with the stage and the index of a request it gives the prompt."""


class Outcome(SparseRecord, kw_only=True, tag="request"):
    """One request that ended, well or not. [s] since the start of its segment."""

    segment: int
    stage: int
    index: int
    warmup: bool = False
    intended_s: float
    """When the load said it should be sent; latencies count from here."""
    sent_s: float
    first_s: float | None = None
    last_s: float | None = None
    end_s: float
    gap_s: tuple[float, ...] = ()
    """Between events with text."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    """Of the prompt, in the server's prefix cache, by its own count."""
    answered_as: str = ""
    """The model that the answer names, where it is not the one that was asked."""
    output_tokens: int | None = None
    miscounted: str | None = None
    """What is wrong with the server's own count, when it cannot be."""
    resent: bool = False
    """The server had closed the waiting connection; it went out again on a new one."""
    failure: str | None = None
    detail: str | None = None
    server_prompt_s: float | None = None
    server_predicted_s: float | None = None


class Scrape(Record, kw_only=True, tag="scrape"):
    """One look at a metrics page while a stage runs; its moment counts since the stage's pages were first asked."""

    segment: int
    page: str
    reading: Reading


class StageEnd(SparseRecord, kw_only=True, tag="stage"):
    """A stage is complete, or was stopped."""

    stage: int
    segment: int | None = None
    """The start of the client that it ended in; absent in files of earlier versions."""
    stopped: str | None = None
    fatal: bool = False
    """The run stopped with it."""
    lag_s: float | None = None
    """How late the client's own heartbeat ran, p99. [s]"""
    server: ServerState | None = None
    wrong: tuple[str, ...] = ()
    """What took from the server while it was measured."""
    told: tuple[str, ...] = ()
    """What it was measured under: a lowered power limit."""


T = TypeVar("T")
Line = Header | Segment | Outcome | Scrape | StageEnd

_LINE = msgspec.json.Decoder(Line)
_ENCODER = msgspec.json.Encoder()


class Log(Record, kw_only=True):
    """A whole file, read."""

    header: Header
    segments: tuple[Segment, ...]
    outcomes: tuple[Outcome, ...]
    ends: tuple[StageEnd, ...]
    scrapes: tuple[Scrape, ...] = ()
    complete_bytes: int
    """Length of the file without a last line that was cut."""

    def of_stage(self, stage: int) -> tuple[Outcome, ...]:
        """Requests of one stage; a request measured twice counts as it was last."""
        return tuple({outcome.index: outcome for outcome in self.outcomes if outcome.stage == stage}.values())

    def end_of(self, stage: int) -> StageEnd | None:
        """How a stage ended, if it did; one that went on after its end has not."""
        last = next((end for end in reversed(self.ends) if end.stage == stage), None)
        if last is None or last.segment is None:
            return last
        later = any(one.stage == stage and one.segment > last.segment for one in self.segments)
        return None if later else last


def create(path: Path, header: Header) -> int:
    """A new file with its first line; an existing one is never written over."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
    except FileExistsError:
        raise BadRequest(f"--output: '{echo(path)}' exists; go on with it by --resume, or name another") from None
    append(file, header)
    sync(file)
    return file


def reopen(path: Path, log: Log) -> int:
    """The file, to go on writing behind its last complete line."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.ftruncate(file, log.complete_bytes)
    return file


def append(file: int, line: Line) -> None:
    """Write one line with one write; a full disk is one sentence, and what was written before stays."""
    data = _ENCODER.encode(line) + b"\n"
    try:
        written = os.write(file, data)
        if written < len(data):
            os.write(file, data[written:])
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BadRequest(
            f"the results cannot be written ({reason}); those before are kept, go on by --resume"
        ) from None


def sync(file: int) -> None:
    """Make sure the lines survive a power cut, where the file is one that can."""
    try:
        os.fsync(file)
    except OSError:  # a pipe or a device
        return


def read_log(path: Path) -> Log:
    """Read a file of results; a cut last line is left out, any other broken line is an error."""
    data = read_whole(path, what="results")
    refuse_heavy(data, path)
    complete = data.rfind(b"\n") + 1
    lines = data[:complete].split(b"\n")[:-1]
    try:
        decoded = [_decode_line(line, number, path) for number, line in enumerate(lines, start=1)]
    except msgspec.DecodeError as error:
        raise BadFact(f"'{echo(path)}': {error}") from None
    if not decoded or not isinstance(decoded[0], Header) or decoded[0].schema != LOG_SCHEMA:
        raise BadFact(f"'{echo(path)}' does not start with a line of schema {LOG_SCHEMA}")
    return log_of(decoded[0], decoded, complete_bytes=complete)


def log_of(header: Header, lines: Sequence[Line], *, complete_bytes: int = 0) -> Log:
    """The lines of a file, sorted by what they are."""
    return Log(
        header=header,
        segments=tuple(_only(Segment, lines)),
        outcomes=tuple(_only(Outcome, lines)),
        ends=tuple(_only(StageEnd, lines)),
        scrapes=tuple(_only(Scrape, lines)),
        complete_bytes=complete_bytes,
    )


def _decode_line(line: bytes, number: int, path: Path) -> Line:
    try:
        found: Line = _LINE.decode(line)
        return found
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadFact(f"'{echo(path)}' line {number} is not a line of results: {error}") from None


def _only(kind: type[T], lines: Iterable[object]) -> Iterable[T]:
    return (line for line in lines if isinstance(line, kind))
