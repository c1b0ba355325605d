"""Which rows does every whole-number solution keep, and the relaxation break? They make its bound tight.

Demand is covered by whole replicas and slots by whole instances; the relaxation buys 2.3 replicas of a quarter of an
instance each. Mixed-integer rounding of one row, sum of a x >= b over whole x >= 0: for any scale d, with f the
fraction of b / d,

    sum of (floor(a / d) + min(1, fraction(a / d) / f)) x  >=  ceil(b / d)

It is applied to rows that demand something, to the same with what holds their columns in place of these (instances
for replicas), and to the room of a machine with the tightest demand of each of its users put in.

Source: Nemhauser & Wolsey, "A recursive procedure to generate all cuts for 0-1 mixed integer programs", 1990.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

MIN_FRACTION: Final = 0.05
"""Fraction of the right side below which rounding it up gains too little. [-]"""
MIN_VIOLATION: Final = 1e-3
"""Share of its right side by which the relaxation must break a row. [-]"""
ROW_TOLERANCE: Final = 1e-6
TOLERANCE: Final = 1e-9
DIVISORS: Final = (1.0, 2.0, 3.0, 4.0)
MAX_DEMANDS: Final = 3
"""Tight demands of a user that are put into the room of its machine. [-]"""


class Cover(NamedTuple):
    """sum of factor x column >= least, over columns of at least zero."""

    terms: dict[int, float]
    least: float


class Room(NamedTuple):
    """What stands holds what runs: sum of takes x column <= sum of holds x column."""

    takes: dict[int, float]
    holds: dict[int, float]


class Point(NamedTuple):
    """A solution of the relaxation, and which of its columns must be whole."""

    values: Sequence[float]
    whole: Sequence[bool]


def rounding_cut(cover: Cover, *, scale: float, whole: Sequence[bool]) -> Cover | None:
    """The row by mixed-integer rounding; nothing where the right side is whole already."""
    least = cover.least / scale
    share = least - math.floor(least + TOLERANCE)
    if share < MIN_FRACTION:
        return None
    terms = {i: _factor(factor / scale, share, whole=whole[i]) for i, factor in cover.terms.items()}
    return Cover({i: factor for i, factor in terms.items() if factor}, float(math.ceil(least - TOLERANCE)))


def violated_cuts(
    covers: Sequence[Cover], known: Sequence[Cover], *, rooms: Sequence[Room], point: Point
) -> list[Cover]:
    """Rows that the point breaks, the farthest from it first; `known` are such rows found before."""
    values = point.values
    room_of = {i: k for k, room in enumerate(rooms) for i in room.takes}
    found: list[tuple[float, Cover]] = []
    for cover in covers:
        split = {
            room_of[i]
            for i in cover.terms
            if i in room_of and values[i] > ROW_TOLERANCE and _is_split(rooms[room_of[i]], values)
        }
        choices = [set(), split, *({k} for k in split)] if len(split) > 1 else [set(), split] if split else [set()]
        for choice in choices:
            found += _cuts(_standing(cover, choice, rooms=rooms, room_of=room_of), point, most=2)
    tight: dict[int, list[Cover]] = defaultdict(list)
    for cover in (*covers, *known):
        if sum(factor * values[i] for i, factor in cover.terms.items()) < cover.least * (1.0 + ROW_TOLERANCE):
            for i, factor in cover.terms.items():
                if factor > TOLERANCE:
                    tight[i].append(cover)
    for k, room in enumerate(rooms):
        if not _is_split(room, values):
            continue
        for base in _demand_covers(room, tight, values):
            found += _cuts(base, point, most=1)
            others = {room_of[i] for i in base.terms if i in room_of and values[i] > ROW_TOLERANCE} - {k}
            if others:
                found += _cuts(_standing(base, others, rooms=rooms, room_of=room_of), point, most=1)
    found.sort(key=lambda each: -each[0])
    once = {(cut.least, tuple(sorted((i, round(f, 6)) for i, f in cut.terms.items()))): cut for _, cut in found}
    return list(once.values())


def _factor(part: float, share: float, *, whole: bool) -> float:
    if not whole:
        return max(0.0, part) / share
    down = math.floor(part + TOLERANCE)
    return down + min(1.0, max(0.0, part - down) / share)


def _is_split(room: Room, values: Sequence[float]) -> bool:
    return any(abs(values[i] - round(values[i])) > ROW_TOLERANCE for i in room.holds)


def _standing(cover: Cover, choice: set[int], *, rooms: Sequence[Room], room_of: dict[int, int]) -> Cover:
    """The row with what holds them in place of the columns in some rooms."""
    if not choice:
        return cover
    terms: dict[int, float] = {}
    most: dict[int, float] = {}
    for i, factor in cover.terms.items():
        k = room_of.get(i)
        if k in choice and k is not None:
            most[k] = max(most.get(k, 0.0), factor / rooms[k].takes[i])
        else:
            terms[i] = terms.get(i, 0.0) + factor
    for k, each in most.items():
        for i, size in rooms[k].holds.items():
            terms[i] = terms.get(i, 0.0) + each * size
    return Cover(terms, cover.least)


def _demand_covers(room: Room, tight: dict[int, list[Cover]], values: Sequence[float]) -> Iterator[Cover]:
    """The room of a machine with a tight demand of each of its users in place of what they take."""
    used = [i for i in room.takes if values[i] > ROW_TOLERANCE]
    ranked: list[list[Cover]] = []
    for i in used:

        def beside(cover: Cover, i: int = i) -> float:
            return sum(f * values[j] for j, f in cover.terms.items() if j != i) / cover.terms[i]

        ranked.append(sorted(tight.get(i, ()), key=beside)[:MAX_DEMANDS])
    if not used or not all(ranked):
        return
    for n in range(max(map(len, ranked))):
        terms, least = dict(room.holds), 0.0
        for i, choices in zip(used, ranked, strict=True):
            cover = choices[min(n, len(choices) - 1)]
            times = room.takes[i] / cover.terms[i]
            least += times * cover.least
            for j, factor in cover.terms.items():
                if j != i:
                    terms[j] = terms.get(j, 0.0) + times * factor
        yield Cover(terms, least)


def _cuts(cover: Cover, point: Point, *, most: int) -> list[tuple[float, Cover]]:
    """The rows by rounding at several scales that the point breaks most, with the distance."""
    values, whole = point
    here = [(factor, values[i], whole[i]) for i, factor in cover.terms.items() if values[i] > ROW_TOLERANCE]
    scales = {factor / by for factor in {round(f, 12) for f, _, is_whole in here if is_whole} for by in DIVISORS}
    found: list[tuple[float, float]] = []
    for scale in scales:
        if scale <= 0:
            continue
        least = cover.least / scale
        share = least - math.floor(least + TOLERANCE)
        if share < MIN_FRACTION:
            continue
        right = math.ceil(least - TOLERANCE)
        missing = right - sum(_factor(f / scale, share, whole=is_whole) * value for f, value, is_whole in here)
        if missing > MIN_VIOLATION * right:
            found.append((missing / right, scale))
    cuts: list[tuple[float, Cover]] = []
    for missing, scale in sorted(found, reverse=True)[: 2 * most]:
        cut = rounding_cut(cover, scale=scale, whole=whole)
        if cut is not None:
            length = math.sqrt(sum(factor * factor for factor in cut.terms.values()))
            cuts.append((missing * cut.least / length, cut))
    return sorted(cuts, key=lambda each: -each[0])[:most]
