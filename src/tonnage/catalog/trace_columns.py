"""What do the lines of a request log say: when, how long, which blocks seen before?

A log is read in pieces, and a piece becomes three columns at once where it holds nothing unusual: a request then costs
less than a microsecond. Any other piece is read line by line, so that a fault can be said with its line. Nothing is
guessed: times that count something else than seconds, a name given twice, true for 1 and times of two kinds in one
log are refused.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from tonnage.catalog import trace_bytes
from tonnage.errors import BadFact, echo

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


TIMES: Final = ("queued_ts", "arrival_time", "arrived_at", "arrival_s", "timestamp", "time", "created", "sent_s")
PROMPTS: Final = ("contexttokens", "input_length", "input_toks", "request tokens", "prompt_tokens",
                  "num_prefill_tokens", "prompt_len", "input_tokens", "input_len")  # fmt: skip
OUTPUTS: Final = ("generatedtokens", "output_length", "output_toks", "response tokens", "completion_tokens",
                  "output_tokens", "num_decode_tokens", "output_len")  # fmt: skip
WANTED: Final = (("time", TIMES), ("prompt length", PROMPTS), ("output length", OUTPUTS))
MAX_REQUESTS: Final = 15_000_000
"""24 bytes of memory each. [requests]"""
MAX_BLOCKS: Final = 10_000_000
"""Block ids of all requests. [ids]"""
MAX_DISTINCT: Final = 1_500_000
"""Block ids that differ; each costs 200 bytes while it is read. [ids]"""
MAX_ID_LENGTH: Final = 64
MAX_TOKENS: Final = 100_000_000
MAX_SHAPES: Final = 1_000
_DECODER: Final = msgspec.json.Decoder()

_EPOCHS: Final = ((1e17, "nanoseconds"), (1e14, "microseconds"), (1e11, "milliseconds"))
"""Numbers no clock shows in seconds: 1e11 s are three thousand years from now."""
_DAYS: Final = (36_526, 73_051)
"""Days that spreadsheets count from 1899-12-30 to the years 2000 and 2100."""
MOST_PER_S: Final = 1000.0
"""Requests of a log, above which such numbers are days."""
_NUMBER: Final = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*\Z")
_DATE: Final = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d)(?::(\d\d(?:\.\d+)?))?(Z|[+-]\d\d:?\d\d)?\Z")


class Place(NamedTuple):
    """Where one line keeps what is wanted: keys of a JSON object, or of its `usage`."""

    keys: tuple[tuple[bool, str], ...]
    """For time, prompt and output: whether it is in `usage`, and its name there."""
    hashes: str | None


class Columns:
    """A log while it is read. Times are absolute until `take` has seen the first, then they begin at 0."""

    def __init__(self, path: Path) -> None:
        self.name = echo(path)
        self.sent_s: array[float] = array("d")
        self.prompt: array[int] = array("q")
        self.output: array[int] = array("q")
        self.offsets: array[int] = array("q", [0])
        self.blocks: array[int] = array("q")
        self.without_tokens = 0
        self.first_s = 0.0
        self.hashed: bool | None = None
        self.clock: str | None = None
        """Of what kind its times are: numbers, dates, or dates with their distance from UTC."""
        self.header: tuple[int, tuple[int, ...]] | None = None
        """Columns of a CSV file, and which of them are wanted; absent for JSON lines."""
        self.ids: dict[Any, int] = {}
        self.places: dict[tuple[str, ...], Place] = {}
        """By the names of a row, and after an empty one those of its usage."""

    def wrong(self, line: int, what: str) -> BadFact:
        """A fault, with its line."""
        return BadFact(f"'{self.name}' line {line}{what}")


def add_requests(log: Columns, piece: bytes, *, first: int, room: int | None) -> bool:
    """
    Add the requests of some whole lines, the first of which has the number `first`; at most `room` of them.

    Returns whether there is room for more.

    Raises
    ------
    BadFact
        A column missing, a value that is none, times out of order or of two kinds, more than a log may hold.
    """
    more = (room is None and _take_at_once(log, piece)) or _take_each(log, piece, first=first, room=room)
    if len(log.sent_s) > MAX_REQUESTS:
        raise BadFact(f"'{log.name}' holds more than {MAX_REQUESTS:,} requests; read a part of it (limit)")
    return more


def _take_each(log: Columns, piece: bytes, *, first: int, room: int | None) -> bool:
    """
    Add the requests of a piece line by line, at most `room`; whether there is room for more.

    The first line of a log that begins with no brace is the header of a CSV file.
    """
    lines = piece.decode().split("\n")
    numbered = [(number, text) for number, line in enumerate(lines, first) if (text := line.strip())]
    if numbered and log.header is None and not log.sent_s and not numbered[0][1].startswith("{"):
        log.header = _header(log, *numbered.pop(0))
    if room is not None:
        numbered = numbered[:room]
    if numbered:
        numbers = [number for number, _ in numbered]
        times, *lengths = _objects(log, numbered) if log.header is None else _cells(log, numbered)
        _add(log, numbers, at=_times(log, numbers, times), lengths=lengths)
    return room is None or len(numbered) < room


def _take_at_once(log: Columns, piece: bytes) -> bool:
    """Add a piece that holds nothing unusual, and say so. What is wrong is left to the reader of each line to say."""
    try:
        return _objects_at_once(log, piece) if log.header is None else _cells_at_once(log, piece)
    except BadFact:
        return False


def _cells_at_once(log: Columns, piece: bytes) -> bool:
    """Add a piece of CSV as arrays of bytes; False, with nothing added, where it holds anything unusual."""
    assert log.header is not None
    found = trace_bytes.cells(piece, width=log.header[0], wanted=log.header[1])
    lengths = [] if found is None else [trace_bytes.numbers(found, place) for place in (1, 2)]
    if found is None or any(column is None for column in lengths):
        return False
    at, kind = trace_bytes.numbers(found, 0), "numbers"
    if at is None:
        told = trace_bytes.dates(found, 0)
        if told is None:
            return False
        at, kind = told[0], "dates with an offset" if told[1] else "dates"
    numbers = range(len(at))
    _same_clock(log, 0, kind)
    _add(log, numbers, at=_seconds(log, numbers, at) if kind == "numbers" else at, lengths=lengths)
    return True


def _objects_at_once(log: Columns, piece: bytes) -> bool:
    """Add a piece of JSON lines that all have the keys of the lines before; False, with nothing added, for others."""
    if not log.places:
        return False
    try:
        rows = _DECODER.decode_lines(piece)
    except (ValueError, RecursionError):
        return False
    (keys, place), *others = log.places.items()
    outer = keys[: keys.index("")]
    if others or not rows or set(map(type, rows)) != {dict} or set(map(tuple, rows)) != {outer}:
        return False
    inner = [row["usage"] for row in rows] if "usage" in outer else []
    if any(within for within, _ in place.keys) and (
        set(map(type, inner)) != {dict} or set(map(tuple, inner)) != {keys[len(outer) + 1 :]}
    ):
        return False
    if any(piece.count(f'"{name}"'.encode()) != len(rows) for name in {name for _, name in place.keys}):
        return False
    times, *lengths = [[row[key] for row in (inner if within else rows)] for within, key in place.keys]
    numbers = range(len(rows))
    _hash_ids(log, numbers, [row[place.hashes] for row in rows] if place.hashes else None)
    _add(log, numbers, at=_times(log, numbers, times), lengths=lengths)
    return True


def _header(log: Columns, number: int, text: str) -> tuple[int, tuple[int, ...]]:
    """Number of columns of a CSV file, and which of them are time, prompt and output."""
    names = [name.strip().lower() for name in _split_quoted(log, number, text)]
    _require(log, number, {name: name for name in names})
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise log.wrong(number, f" names the column '{echo(twice)}' twice; keep one")
    return len(names), tuple(next(names.index(name) for name in known if name in names) for _, known in WANTED)


def _require(log: Columns, number: int, values: Mapping[str, Any]) -> None:
    """Refuse names without one of each kind, and two names of one kind whose values differ; vLLM has two times."""
    for what, known in WANTED:
        found = [name for name in known if name in values]
        if not found:
            few = echo(", ".join(itertools.islice(values, 8)))
            raise log.wrong(number, f" has no {what}: expected one of {', '.join(known[:5])} …; it has {few}")
        other = next((name for name in found if values[name] != values[found[0]]), None)
        if other is not None and {*found} != {*TIMES[:2]}:
            raise log.wrong(number, f" gives the {what} twice, as '{found[0]}' and as '{other}'; keep one")


def _split_quoted(log: Columns, number: int, text: str) -> list[str]:
    try:
        return next(csv.reader([text]))
    except csv.Error as error:
        raise log.wrong(number, f" is not CSV: {error}") from None


def _cells(log: Columns, numbered: Sequence[tuple[int, str]]) -> list[list[str]]:
    """Times, prompts and outputs of CSV lines, as texts."""
    assert log.header is not None
    width, wanted = log.header
    rows = [_split_quoted(log, number, text) if '"' in text else text.split(",") for number, text in numbered]
    if set(map(len, rows)) != {width}:
        place = next(i for i, row in enumerate(rows) if len(row) != width)
        raise log.wrong(numbered[place][0], f" has {len(rows[place])} columns, the header {width}")
    return [[row[place] for row in rows] for place in wanted]


def _objects(log: Columns, numbered: Sequence[tuple[int, str]]) -> list[list[Any]]:
    """Times, prompts and outputs of JSON lines as they are; block ids go into the log at once."""
    found: list[list[Any]] = [[], [], []]
    decode = msgspec.json.decode
    for number, text in numbered:
        try:
            row = decode(text)
            usage = row.get("usage")
            inner = usage if isinstance(usage, dict) else {}
            place = log.places.get((*row, "", *inner)) or _place(log, number, row, inner=inner)
        except (ValueError, RecursionError, AttributeError, TypeError):
            raise log.wrong(number, " is not a JSON object; write one request a line") from None
        if any(text.count(f'"{key}"') > 1 for _, key in place.keys):
            _refuse_twice(log, number, text)
        for column, (within, key) in zip(found, place.keys, strict=True):
            column.append(inner[key] if within else row[key])
        _hash_ids(log, [number], [row[place.hashes]] if place.hashes else None)
    return found


def _place(log: Columns, number: int, row: dict[str, Any], *, inner: dict[str, Any]) -> Place:
    """Where rows with these keys hold what is wanted, whatever the case of their letters."""
    names: dict[str, tuple[bool, str]] = {}
    for within, key in [*((False, key) for key in row), *((True, key) for key in inner)]:
        before = names.get(key.lower())
        if before is not None and (before[0] == within or row[before[1]] != inner[key]):
            raise log.wrong(number, f" gives '{echo(key)}' twice; keep one")
        names[key.lower()] = (within, key)
    _require(log, number, {name: (inner if within else row)[key] for name, (within, key) in names.items()})
    keys = tuple(next(names[name] for name in known if name in names) for _, known in WANTED)
    hashes = names.get("hash_ids")
    place = Place(keys=keys, hashes=hashes[1] if hashes is not None and not hashes[0] else None)
    if len(log.places) < MAX_SHAPES and len(names) == len(row) + len(inner):
        log.places[*row, "", *inner] = place
    return place


def _refuse_twice(log: Columns, number: int, text: str) -> None:
    """Refuse a line in which some object has a key twice."""

    def once(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            twice = Counter(names).most_common(1)[0][0]
            raise log.wrong(number, f" gives '{echo(twice)}' twice; keep one")

    try:
        json.loads(text, object_pairs_hook=once, parse_int=len, parse_float=len)
    except (ValueError, RecursionError):
        raise log.wrong(number, " is not a JSON object; write one request a line") from None


def _hash_ids(log: Columns, numbers: Sequence[int], lists: Sequence[Any] | None) -> None:
    """
    Add the block ids of some requests to the log, numbered as they first come; `lists` is None where they have none.
    """
    hashed = lists is not None
    if log.hashed is not None and log.hashed != hashed:
        raise log.wrong(numbers[0], f" has {'' if hashed else 'no '}hash_ids, unlike the lines before it")
    log.hashed = hashed
    if lists is None:
        return
    for number, given in zip(numbers, lists, strict=True):
        if not isinstance(given, list) or not set(map(type, given)) <= {int, str}:
            raise log.wrong(number, ": hash_ids must be a list of block ids")
    flat = list(itertools.chain.from_iterable(lists))
    if any(isinstance(x, str) and len(x) > MAX_ID_LENGTH for x in flat):
        raise log.wrong(numbers[0], f" or one after it has a block id of more than {MAX_ID_LENGTH} characters")
    ids, held = log.ids, len(log.blocks)
    for x in dict.fromkeys(flat):
        ids.setdefault(x, len(ids))
    log.blocks.extend(map(ids.__getitem__, flat))
    log.offsets.extend(itertools.islice(itertools.accumulate(map(len, lists), initial=held), 1, None))
    for many, most, what in ((len(log.blocks), MAX_BLOCKS, ""), (len(ids), MAX_DISTINCT, "different ")):
        if many > most:
            raise log.wrong(numbers[-1], f": more than {most:,} {what}block ids; read a part of the log (limit)")


def _add(log: Columns, numbers: Sequence[int], *, at: Array, lengths: Sequence[Any]) -> None:
    """
    Add requests to the log: times in seconds, lengths in tokens, those of 0 as 1.

    Lengths that are no number of tokens are refused, and times before that of the last request.
    """
    import numpy as np

    columns = []
    for what, column in zip(("prompt", "output"), lengths, strict=True):
        tokens = column if isinstance(column, np.ndarray) else _floats(column)
        if tokens is None:
            tokens = np.array([_float(value) for value in column])
        bad = ~((tokens >= 0) & (tokens <= MAX_TOKENS)) | (tokens != np.floor(tokens))
        if bad.any():
            place = int(bad.argmax())
            raise log.wrong(numbers[place], f": {what} length '{echo(column[place])}' is no number of tokens")
        columns.append(tokens.astype(np.int64))
    if not log.sent_s:
        log.first_s = float(at[0])
    since = at - log.first_s
    back = np.diff(since, prepend=log.sent_s[-1] if log.sent_s else 0.0) < 0
    if back.any():
        place = int(back.argmax())
        said = f"{at[place]:.3f}".rstrip("0").rstrip(".")
        raise log.wrong(numbers[place], f": {said} s is earlier than the request before it; sort it by time")
    log.sent_s.frombytes(since.tobytes())
    log.without_tokens += int(((columns[0] == 0) | (columns[1] == 0)).sum())
    for kept, tokens in ((log.prompt, columns[0]), (log.output, columns[1])):
        kept.frombytes(np.maximum(tokens, 1).tobytes())


def _floats(values: Sequence[Any]) -> Array | None:
    """Numbers, or texts of numbers, all at once; None where one of them is something else."""
    import numpy as np

    kinds = set(map(type, values))
    if not (kinds <= {int, float} or (kinds == {str} and "_" not in "".join(values))):
        return None
    try:
        return np.fromiter(map(float, values), np.float64, len(values))
    except (ValueError, OverflowError):
        return None


def _float(value: Any) -> float:
    """A number, or a text of one; NaN for anything else, which the caller refuses."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value) if not isinstance(value, str) or _NUMBER.match(value) else math.nan
    except (ValueError, OverflowError):
        return math.nan


def _times(log: Columns, numbers: Sequence[int], values: Sequence[Any]) -> Array:
    """Seconds, from numbers or from dates; one kind in a log."""
    import numpy as np

    at = _floats(values)
    if at is not None:
        _same_clock(log, numbers[0], "numbers")
    else:
        read = _dates(log)
        at = np.array([read(number, value) for number, value in zip(numbers, values, strict=True)])
    bad = ~np.isfinite(at) | (at < 0)
    if bad.any():
        place = int(bad.argmax())
        told = f": time {echo(values[place])} is no time; expected seconds of at least 0, or a date"
        raise log.wrong(numbers[place], told)
    return _seconds(log, numbers, at) if log.clock == "numbers" else at


def _seconds(log: Columns, numbers: Sequence[int], at: Array) -> Array:
    """
    Times as numbers in seconds; those of logs with `hash_ids` are milliseconds.

    A number that no clock shows in that unit is refused: read as seconds, milliseconds since 1970 make a log of
    minutes one of days.
    """
    place = int(at.argmax())
    scale, wanted = (1000.0, "milliseconds") if log.hashed else (1.0, "seconds")
    unit = next((unit for least, unit in _EPOCHS if at[place] >= least * scale), None)
    if unit is None and log.hashed and not log.sent_s and 1e9 <= at[0] < 1e11:
        unit, place = "seconds", 0
    if unit is not None:
        why = ", as logs with hash_ids have them" if log.hashed else ""
        raise log.wrong(numbers[place], f": time {at[place]:.0f} counts {unit} of the clock; write {wanted}{why}")
    return at / scale


def refuse_days(log: Columns) -> None:
    """Refuse numbers that are a spreadsheet's days: read as seconds, a log of a day would last one."""
    span, n = log.sent_s[-1], len(log.sent_s)
    if _DAYS[0] <= log.first_s < _DAYS[1] and n > max(1.0, span * MOST_PER_S):
        told = f" begins at {log.first_s:g} and has {n:,} requests in {span:g} s: these are days of a spreadsheet"
        raise BadFact(f"'{log.name}'{told}; write dates, or seconds from the first")


def _same_clock(log: Columns, number: int, kind: str) -> None:
    """Note of what kind the log's times are; another kind than before is refused."""
    if log.clock not in {None, kind}:
        raise log.wrong(number, f" has {kind} for a time where the lines before it have {log.clock}; write one kind")
    log.clock = kind


def _dates(log: Columns) -> Callable[[int, Any], float]:
    """A reader of dates, and of numbers among them, that keeps the minute it has read last."""
    minutes: dict[str, float] = {}

    def read(number: int, value: Any) -> float:
        if not isinstance(value, str) or _NUMBER.match(value):
            _same_clock(log, number, "numbers")
            return _float(value)
        found = _DATE.match(value.strip())
        if found is None:
            told = f": '{echo(value.strip())}' is no time; expected seconds, or 2024-05-10 12:00:00.123"
            raise log.wrong(number, told)
        minute, seconds, offset = found.groups()
        _same_clock(log, number, "dates with an offset" if offset else "dates")
        at = minutes.get(minute + (offset or ""))
        if at is None:
            try:
                moment = datetime.fromisoformat(minute + (offset or ""))
            except ValueError:
                raise log.wrong(number, f": '{echo(value.strip())}' is no time; no calendar has it") from None
            minutes.clear()
            at = minutes[minute + (offset or "")] = (moment if offset else moment.replace(tzinfo=UTC)).timestamp()
        past = float(seconds or 0.0)
        return at + past if past < 61 else math.nan

    return read
