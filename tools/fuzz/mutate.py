"""Bad inputs made from good ones: bytes flipped, cut, repeated, spliced, numbers and words of the format put in."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
NUMBERS = (b"0", b"-1", b"1e308", b"1e-308", b"NaN", b"Infinity", b"9223372036854775808", b"18446744073709551616",
           b"0.1", b"1" * 400, b"-0", b"4294967295", b"999999999999")  # fmt: skip
LONGEST = 400_000
"""Inputs grow no further. [bytes]"""

Change = Callable[[random.Random, bytes, Sequence[bytes], Sequence[bytes]], bytes]


def _flip(pick: random.Random, data: bytes, _: Sequence[bytes], __: Sequence[bytes]) -> bytes:
    if not data:
        return b"\x00"
    changed = bytearray(data)
    for _ in range(pick.choice((1, 1, 2, 8))):
        changed[pick.randrange(len(changed))] = pick.randrange(256)
    return bytes(changed)


def _cut(pick: random.Random, data: bytes, _: Sequence[bytes], __: Sequence[bytes]) -> bytes:
    start, end = sorted((pick.randrange(len(data) + 1), pick.randrange(len(data) + 1)))
    return data[:start] + data[end:] if pick.random() < 0.7 else data[start:end]


def _repeat(pick: random.Random, data: bytes, _: Sequence[bytes], __: Sequence[bytes]) -> bytes:
    start = pick.randrange(len(data) + 1)
    piece = data[start : start + pick.choice((1, 4, 40, 400))]
    return data[:start] + piece * pick.choice((2, 3, 50, 500)) + data[start:]


def _splice(pick: random.Random, data: bytes, _: Sequence[bytes], others: Sequence[bytes]) -> bytes:
    other = pick.choice(others)
    return data[: pick.randrange(len(data) + 1)] + other[pick.randrange(len(other) + 1) :]


def _number(pick: random.Random, data: bytes, _: Sequence[bytes], __: Sequence[bytes]) -> bytes:
    found = list(NUMBER.finditer(data[:20_000]))
    if not found:
        return data + pick.choice(NUMBERS)
    where = pick.choice(found)
    return data[: where.start()] + pick.choice(NUMBERS) + data[where.end() :]


def _word(pick: random.Random, data: bytes, words: Sequence[bytes], _: Sequence[bytes]) -> bytes:
    where = pick.randrange(len(data) + 1)
    return data[:where] + pick.choice([*words, b"\xff\xfe", b"\x00", b"\xe2\x80\xae"]) + data[where:]


CHANGES: tuple[Change, ...] = (_flip, _cut, _repeat, _splice, _number, _word, _word, _number)


def mutated(pick: random.Random, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """One input: a good one with a few changes, now and then noise alone."""
    if pick.random() < 0.02:
        return pick.randbytes(pick.choice((0, 1, 9, 90, 900)))
    data = pick.choice(seeds)
    for _ in range(pick.choice((1, 1, 2, 3, 6))):
        data = pick.choice(CHANGES)(pick, data, words, seeds)[:LONGEST]
    return data
