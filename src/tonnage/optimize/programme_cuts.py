"""
What makes a programme's bound tight and its shared counts whole: rows that every whole solution keeps, and facets.

Demand is covered by whole replicas and slots by whole instances; the relaxation buys 2.3 replicas of a quarter of an
instance each. Mixed-integer rounding of one row, sum of a x >= b over whole x >= 0: for any scale d, with f the
fraction of b / d,

    sum of (floor(a / d) + min(1, fraction(a / d) / f)) x  >=  ceil(b / d)

It is applied to rows that demand something, to the same with what holds their columns in place of these (instances
for replicas), and to the room of a machine with the tightest demand of each of its users put in.

Source: Nemhauser & Wolsey, "A recursive procedure to generate all cuts for 0-1 mixed integer programs", 1990.

Rounding tries a few scales of a row. Of a row over whole numbers alone, sum of a x >= b, every row
that its whole solutions keep can be told, the one that a point breaks most by a small linear programme over factors,

    least of  sum of factor x value    with  sum of factor x count >= 1  for every cover (whole counts of at least b)

Covers are added as they are broken: the cheapest under given factors is a knapsack, solved over whole steps of b.
Sizes are rounded up to steps, so that more counts as a cover and every row found is kept by the covers there are. Only
columns that the point takes are in that programme; the others follow one after the other, each with the least factor
that still keeps every cover.

Source: Boccia, Sforza, Sterle & Vasilyev, "A cut and branch approach for the capacitated p-median problem based on
Fenchel cutting planes", 2008 (covers as they are broken); Balas, "Facets of the knapsack polytope", 1975 (one after the
other).

The relaxation pays parts of instances by the hour; periods in whole numbers pay more. So its shared columns are made
whole twice, at the periods' own costs and at what whole numbers make of them; the caller keeps the better.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tonnage.optimize.highs import Column, run

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
    """The row by mixed-integer rounding; none where the right side over the scale is whole, or little above it."""
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
    """A column's factor in the rounded row, of its factor over the scale (`part`) and the fraction f (`share`)."""
    if not whole:
        return max(0.0, part) / share
    down = math.floor(part + TOLERANCE)
    return down + min(1.0, max(0.0, part - down) / share)


def _is_split(room: Room, values: Sequence[float]) -> bool:
    """Whether the point has a fraction of an instance in a room."""
    return any(abs(values[i] - round(values[i])) > ROW_TOLERANCE for i in room.holds)


def _standing(cover: Cover, choice: set[int], *, rooms: Sequence[Room], room_of: dict[int, int]) -> Cover:
    """The row with instances in place of the replicas that they hold, in the rooms of `choice`."""
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

        def met_by_others(cover: Cover, i: int = i) -> float:
            return sum(f * values[j] for j, f in cover.terms.items() if j != i) / cover.terms[i]

        ranked.append(sorted(tight.get(i, ()), key=met_by_others)[:MAX_DEMANDS])
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


STEPS: Final = 2000
"""Whole steps of a demand, to which sizes of replicas are rounded up. [-]"""
MOST_COVERS: Final = 60
"""Looked at for one row. [-]"""
HULL_TOLERANCE: Final = 1e-6

Array = np.ndarray[Any, np.dtype[np.float64]]


def broken_facets(covers: Sequence[Cover], point: Point) -> list[Cover]:
    """Of each row of whole columns, the row of its whole solutions that the point breaks most, where one is broken."""
    found = (broken_facet(cover, point.values) for cover in covers if all(point.whole[i] for i in cover.terms))
    return [cut for cut in found if cut is not None]


def broken_facet(cover: Cover, values: Sequence[float]) -> Cover | None:
    """The row, of right side 1, that whole solutions of a demand keep and values break; absent where none is broken."""
    taken = [i for i in cover.terms if values[i] > HULL_TOLERANCE]
    if all(abs(values[i] - round(values[i])) < HULL_TOLERANCE for i in taken):
        return None
    sizes = {
        i: max(1, math.ceil(min(1.0, factor / cover.least) * STEPS - HULL_TOLERANCE))
        for i, factor in cover.terms.items()
    }
    factors = _separate([sizes[i] for i in taken], [values[i] for i in taken])
    if factors is None:
        return None
    least = _cost_of_no_columns()
    for i, factor in zip(taken, factors, strict=True):
        least = _with_column(least, sizes[i], factor)
    terms = dict(zip(taken, factors, strict=True))
    for i in sorted(cover.terms.keys() - set(taken), key=lambda i: (-sizes[i], i)):
        rests = np.maximum(STEPS - sizes[i] * np.arange(1, -(-STEPS // sizes[i]) + 1), 0)
        terms[i] = max(0.0, float(np.max((1.0 - least[rests]) / np.arange(1, len(rests) + 1))))
        least = _with_column(least, sizes[i], terms[i])
    return Cover({i: factor for i, factor in terms.items() if factor > 0}, 1.0)


def _separate(sizes: Sequence[int], values: Sequence[float]) -> list[float] | None:
    """
    Factors of the row (right side 1) that the values break most, over columns of these sizes in steps.

    None where they break no row, or `MOST_COVERS` covers do not settle it.
    """
    import highspy

    model: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    model.silent()
    model.setOptionValue("threads", 1)
    model.setOptionValue("presolve", "off")
    count = len(sizes)
    model.addVars(count, [0.0] * count, [1.0] * count)
    model.changeColsCost(count, list(range(count)), list(values))
    for k, size in enumerate(sizes):
        model.addRow(1.0, math.inf, 1, [k], [float(-(-STEPS // size))])
    for _ in range(MOST_COVERS):
        model.run()
        if model.getInfo().objective_function_value > 1.0 - MIN_VIOLATION:
            return None
        factors = [max(0.0, factor) for factor in model.getSolution().col_value]
        cost, counts = _cheapest_cover(sizes, factors)
        if cost >= 1.0 - HULL_TOLERANCE:
            return [factor / min(cost, 1.0) for factor in factors]
        used = [k for k in range(count) if counts[k]]
        model.addRow(1.0, math.inf, len(used), used, [float(counts[k]) for k in used])
    return None


def _cheapest_cover(sizes: Sequence[int], factors: Sequence[float]) -> tuple[float, list[int]]:
    """What the cheapest whole counts cost that fill all steps, and these counts."""
    stages = [_cost_of_no_columns()]
    for size, factor in zip(sizes, factors, strict=True):
        stages.append(_with_column(stages[-1], size, factor))
    counts, rest = [0] * len(sizes), STEPS
    for k in reversed(range(len(sizes))):
        some = np.arange(-(-rest // sizes[k]) + 1)
        counts[k] = int(np.argmin(stages[k][np.maximum(rest - sizes[k] * some, 0)] + factors[k] * some))
        rest = max(0, rest - sizes[k] * counts[k])
    return float(stages[-1][STEPS]), counts


def _cost_of_no_columns() -> Array:
    """The cost of filling 0, 1, … steps without any column: 0 for none, infinite for more."""
    least = np.full(STEPS + 1, math.inf)
    least[0] = 0.0
    return least


def _with_column(least: Array, size: int, factor: float) -> Array:
    """The least cost of filling 0, 1, … steps with one column more: by blocks of its size, the running best."""
    blocks = -(-STEPS // size) + 1
    costs = np.zeros(blocks * size)  # what fills more than all costs as much as all
    costs[size : size + STEPS] = least[1:]
    costs[size + STEPS :] = math.inf
    ramp = factor * np.arange(blocks)[:, None]
    best = np.minimum.accumulate(costs.reshape(blocks, size) - ramp, axis=0) + ramp
    found: Array = best.reshape(-1)[size - 1 : size + STEPS].copy()
    found[0] = 0.0
    return found


FIXING_DISTANCE: Final = 0.1
"""Distance to a whole number at which a shared column is taken for it. [-]"""
SHARED_TOLERANCE: Final = 1e-7


def whole_over_parts(columns: Sequence[Column], values: Sequence[float]) -> float:
    """
    What periods cost in whole numbers, over what the relaxation pays for parts of them.

    Half of what rounding all of them up would cost: of small numbers much, of large ones next to nothing. Without it
    too little is shared: the relaxation has a third of an instance by the hour where a whole one is paid. [-]
    """
    of_periods = [
        (column.cost, values[i]) for i, column in enumerate(columns) if column.whole and column.period is not None
    ]
    parts = math.fsum(cost * value for cost, value in of_periods)
    up = math.fsum(cost * math.ceil(value - SHARED_TOLERANCE) for cost, value in of_periods)
    return 1.0 if parts <= SHARED_TOLERANCE else 1.0 + (up / parts - 1.0) / 2.0


def hold_shared(columns: Sequence[Column], model: Any, *, factor: float) -> dict[int, float] | None:
    """
    Whole numbers of the shared columns, found with the costs of periods multiplied by `factor`; the model then holds
    them, at its own costs again. None where no solution has them whole.
    """
    left = {i for i, column in enumerate(columns) if column.period is None and column.whole}
    by_period = [i for i, column in enumerate(columns) if column.period is not None and column.cost]
    for i in left:
        model.changeColBounds(i, 0.0, columns[i].upper)
    _charge(columns, model, by_period, factor=factor)
    held: dict[int, float] = {}
    while True:
        values = run(model)
        if values is None:
            return None
        if not left:
            break
        far = {i: abs(values[i] - round(values[i])) for i in left}
        closest = min(far, key=lambda i: (far[i], i))
        for i in [i for i in left if far[i] < FIXING_DISTANCE] or [closest]:
            held[i] = float(_nearest(values[i]))
            model.changeColBounds(i, held[i], held[i])
            left.discard(i)
    _charge(columns, model, by_period, factor=1.0)
    model.run()
    return held


def _charge(columns: Sequence[Column], model: Any, those: Sequence[int], *, factor: float) -> None:
    """Sets the costs of some columns in the model to so many times their own."""
    if those:
        model.changeColsCost(len(those), list(those), [factor * columns[i].cost for i in those])


def _nearest(value: float) -> int:
    return math.floor(value + 0.5)
