"""How are millions of lines of plain CSV read without looking at each? As arrays of bytes.

Numbers of digits and at most one point, and dates as Azure writes them, are what almost every log holds. A piece that
holds anything else is not read here: `None` sends it to the reader that looks at each value and can say what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


EXACT_DIGITS: Final = 15
"""A number of so many digits divided by a power of ten is the nearest double, as `float` would give it."""
MAX_DATE_LENGTH: Final = 29
ZERO, POINT, COMMA, NEWLINE, QUOTE, ZULU = b'0.,\n"Z'


class Cells:
    """Where the wanted columns of a piece lie in it."""

    def __init__(self, data: Array, *, starts: list[Array], sizes: list[Array]) -> None:
        self.data, self.starts, self.sizes = data, starts, sizes


def cells(piece: bytes, *, width: int, wanted: Sequence[int]) -> Cells | None:
    """The cells of whole lines of `width` columns; None for quotes, empty lines or another number of columns."""
    import numpy as np

    piece = piece.replace(b"\r\n", b"\n")
    piece = _bare(piece) if b'"' in piece else piece
    if not piece.endswith(b"\n") or b'"' in piece or b"\r" in piece:
        return None
    data = np.frombuffer(piece, np.uint8)
    marks = np.flatnonzero((data == COMMA) | (data == NEWLINE))
    ends = data[marks] == NEWLINE
    if len(marks) % width or not ends[width - 1 :: width].all() or int(ends.sum()) * width != len(marks):
        return None
    begins = np.concatenate(([0], marks[:-1] + 1))
    return Cells(
        data,
        starts=[begins[place::width] for place in wanted],
        sizes=[(marks - begins)[place::width] for place in wanted],
    )


def _bare(piece: bytes) -> bytes:
    """The piece without quotes, where each stands at the end of a cell and none holds a comma; else as it is."""
    import numpy as np

    data = np.frombuffer(piece, np.uint8)
    marks = (data == COMMA) | (data == NEWLINE)
    quotes = data == QUOTE
    places = np.flatnonzero(quotes)
    opening, closing = places[::2], places[1::2]
    if len(opening) != len(closing) or (marks & np.logical_xor.accumulate(quotes)).any():
        return piece
    first = opening[opening > 0] - 1
    after = closing[closing < len(data) - 1] + 1
    return piece.replace(b'"', b"") if marks[first].all() and marks[after].all() else piece


def numbers(found: Cells, place: int) -> Array | None:
    """A column of numbers without sign and exponent; None where one is none, or has more digits than are exact."""
    import numpy as np

    data, starts, sizes = found.data, found.starts[place], found.sizes[place]
    if not len(sizes) or not int(sizes.min()) >= 1 or int(sizes.max()) > EXACT_DIGITS + 1:
        return None
    if not (data == POINT).any():
        return _whole_numbers(data, starts, sizes)
    value, behind, points = np.zeros(len(starts), np.int64), np.zeros(len(starts), np.int64), np.zeros(len(starts), int)
    last = len(data) - 1
    for k in range(int(sizes.max())):
        byte, inside = data[np.minimum(starts + k, last)], k < sizes
        point, digit = inside & (byte == POINT), inside & (byte >= ZERO) & (byte <= ZERO + 9)
        if not (point | digit | ~inside).all():
            return None
        value = np.where(digit, value * 10 + byte - ZERO, value)
        behind += digit & (points > 0)
        points += point
    if points.max() > 1 or (sizes - points).min() < 1 or (sizes - points).max() > EXACT_DIGITS:
        return None
    return value / 10.0**behind if points.any() else value.astype(np.float64)


def _whole_numbers(data: Array, starts: Array, sizes: Array) -> Array | None:
    """Numbers of digits alone, at half the work of those that may have a point; None where one is anything else."""
    import numpy as np

    smallest, largest = int(sizes.min()), int(sizes.max())
    if largest > EXACT_DIGITS:
        return None
    value, last = np.zeros(len(starts), np.int64), len(data) - 1
    for k in range(largest):
        digit = data[np.minimum(starts + k, last)] - np.uint8(ZERO)  # below "0" it wraps to above 9
        if k < smallest:
            if (digit > 9).any():
                return None
            value *= 10
            value += digit
            continue
        inside = k < sizes
        if (inside & (digit > 9)).any():
            return None
        value = np.where(inside, value * 10 + digit, value)
    return value.astype(np.float64)


def dates(found: Cells, place: int) -> tuple[Array, bool] | None:
    """
    A column of dates in seconds since 1970, and whether they say that they are of UTC.

    Only "2023-11-16 18:15:46", with or without fraction and Z, the same for all; None for others.
    """
    import numpy as np

    starts, sizes = found.starts[place], found.sizes[place]
    if not len(sizes) or int(sizes.min()) < 19 or int(sizes.max()) > MAX_DATE_LENGTH:
        return None
    at, zulu = np.zeros(len(starts)), set()
    for size in np.unique(sizes):
        rows = np.flatnonzero(sizes == size)
        text = found.data[starts[rows][:, None] + np.arange(size)]
        marked = bool((text[:, -1] == ZULU).any())
        zulu.add(marked)
        text = text[:, :-1] if marked and (text[:, -1] == ZULU).all() else text
        told = _moments(text)
        if told is None or len(zulu) > 1:
            return None
        at[rows] = told
    return at, zulu.pop()


def _moments(text: Array) -> Array | None:
    """Seconds since 1970 of dates of one length, a row of characters each, read as UTC; None where one is no date."""
    import numpy as np

    size = text.shape[1]
    marks = {4: b"-", 7: b"-", 10: b" T", 13: b":", 16: b":", **({19: b"."} if size > 19 else {})}
    digits = [k for k in range(size) if k not in marks]
    figures = text[:, digits].astype(np.int64) - ZERO
    if size == 20 or not all(np.isin(text[:, k], np.frombuffer(mark, np.uint8)).all() for k, mark in marks.items()):
        return None
    if figures.min() < 0 or figures.max() > 9:
        return None
    day = figures[:, :8] @ (10 ** np.arange(7, -1, -1))
    hour, minute, second = (figures[:, k] * 10 + figures[:, k + 1] for k in (8, 10, 12))
    if hour.max() > 23 or minute.max() > 59 or second.max() > 60:
        return None
    known, which = np.unique(day, return_inverse=True)
    try:
        begins = [datetime(d // 10_000, d // 100 % 100, d % 100, tzinfo=UTC).timestamp() for d in known.tolist()]
    except ValueError:
        return None
    behind = size - 20
    part = figures[:, 14:] @ (10 ** np.arange(behind - 1, -1, -1)) / 10.0**behind if behind > 0 else 0.0
    found: Array = np.array(begins)[which] + (hour * 3600 + minute * 60 + second) + part
    return found
