"""The cheapest values of a mixed-integer programme whose columns belong to periods, and a bound no solution undercuts.

Most columns belong to one period (an hour of the day); a few are shared by all (what is reserved). A small programme
goes to HiGHS whole. A large one, given to HiGHS so, still has gaps of 20-35 % after a minute, because it finds no good
solution to start from and its bound is that of fractions of machines. So:

1. The relaxation is solved and tightened by rows that whole numbers keep (`programme_cuts`). That is the bound.
2. Its shared columns are made whole one after the other, the relaxation solved again after each (`hold_shared`).
3. With those held and the rows between periods priced by duals, each period is a small programme of its own. A last
   relaxation with every whole number held sets the rest.
4. Unless that is near enough, or the programme too large, HiGHS improves it among the columns that the relaxation takes
   or nearly takes: a few seconds, in which it finds what the whole finds in ten times as many.
5. Unless that is near enough, or only a good solution was asked for, HiGHS takes the whole from there.

Costs are plain numbers: this file knows no money.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tonnage.optimize.highs import Column, Row, add_rows, highs_model, run
from tonnage.optimize.programme_cuts import (
    Cover,
    Point,
    Room,
    broken_facets,
    hold_shared,
    violated_cuts,
    whole_over_parts,
)

WHOLE_AT_MOST: Final = 200
"""Whole-number columns up to which HiGHS takes the programme as it is. [-]"""
NEAR_AT_MOST: Final = 100
"""The same where a good solution will do: the root of some programmes of 120 columns takes eight seconds. [-]"""
SAFETY_S: Final = 600.0
"""Wall time that no sound programme takes. Effort is counted in nodes: the answer is the same on a busy machine. [s]"""
WHOLE_AT_ONCE: Final = 3000
"""Whole-number columns up to which HiGHS improves a solution of the whole programme: beyond, its root takes longer than
all else and gains nothing. [-]"""
NODES: Final = 60
"""Of the search of the whole programme from a first solution: more nodes gain a quarter of a percent in as long. [-]"""
MAX_NEARBY_COST: Final = 0.0002
"""Reduced cost, over the bound, up to which a column is near the relaxation. [-]"""
NEARBY_NODES: Final = 10
GOOD_GAP: Final = 0.06
"""Gap to the relaxation, itself 3 to 5 % below the least, up to which a solution is taken for a good one. [-]"""
SMALL_COLUMNS: Final = 500
"""Whole-number columns whose root takes no time. [-]"""
SMALL_NODES: Final = 20_000
"""Of a small programme's search. [-]"""
ROUNDS: Final = 8
MIN_ROUND_GAIN: Final = 1e-3
"""Of the bound, by one round of rows. [-]"""
ROWS_PER_DEMAND: Final = 2.5
"""Rows added in a round for each that demands something. [-]"""
IDLE_SLACK: Final = 1e-4
"""Share of its right side beyond which an added row is idle. [-]"""
MAX_PERIOD_COST: Final = 0.001
"""Reduced cost, over the mean cost of a period, beyond which a column is left out of its programme. [-]"""
WIDER: Final = 5.0
"""Times that, where a period cannot follow without more columns. [-]"""
PERIOD_GAP: Final = 0.006
PERIOD_NODES: Final = 60
TOLERANCE: Final = 1e-7
NOTHING: Final = 1e-9
"""A value that is the solver's rounding. [-]"""


class Programme(NamedTuple):
    """Columns, rows, and how many periods the columns speak of."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    periods: int = 1


class Solved(NamedTuple):
    """Values of every column; none when nothing satisfies the rows."""

    values: tuple[float, ...] | None
    cost: float = math.inf
    bound: float = math.inf
    """No solution costs less."""

    @property
    def gap(self) -> float:
        """What may be left to gain, over the cost. [-]"""
        return 0.0 if self.cost <= self.bound + TOLERANCE else (self.cost - self.bound) / self.cost


def solve(programme: Programme, *, gap: float = 0.01, nodes: int | None = None, near: bool = False) -> Solved:
    """
    The programme to within a relative gap where that is reached; the gap it has is part of the answer.

    It ends when the gap is reached or after so many nodes of the search, which no other load on the machine changes;
    `near` is content with a good solution, whose bound may be the relaxation's.
    """
    if not programme.columns:
        met = all(row.lower <= TOLERANCE and row.upper >= -TOLERANCE for row in programme.rows)
        return Solved(values=(), cost=0.0, bound=0.0) if met else Solved(values=None)
    whole = sum(column.whole for column in programme.columns)
    if programme.periods == 1 or whole <= (NEAR_AT_MOST if near else WHOLE_AT_MOST):
        return _solve_whole(programme, gap=gap, nodes=nodes or SMALL_NODES)
    return _solve_by_period(programme, gap=gap, nodes=nodes or NODES, near=near)


def trim(programme: Programme, solved: Solved) -> Solved:
    """The solution without what is idle: the least in which no column is more. As it was where nothing is idle."""
    if solved.values is None:
        return solved
    most = [
        column._replace(upper=min(column.upper, value))
        for column, value in zip(programme.columns, solved.values, strict=True)
    ]
    # Columns end at their own values, so that what is looked through is small however large the programme.
    less = _solve_whole(
        programme._replace(columns=most), gap=PERIOD_GAP, nodes=PERIOD_NODES, start=solved.values, few=True
    )
    gained = less.values is not None and less.cost < solved.cost - TOLERANCE
    return less._replace(bound=min(solved.bound, less.cost)) if gained else solved


def lower_bound(programme: Programme) -> float | None:
    """What no solution undercuts, by the tightened relaxation alone; none where nothing satisfies the rows."""
    tight = _tighten(programme)
    return None if tight is None else tight.relaxed.cost


def is_large(programme: Programme) -> bool:
    """Whether a solution takes seconds, for the programme is too large to be given to HiGHS at once."""
    return programme.periods > 1 and sum(column.whole for column in programme.columns) > SMALL_COLUMNS


def _solve_whole(
    programme: Programme,
    *,
    gap: float,
    nodes: int,
    start: tuple[float, ...] | None = None,
    few: bool = False,
    held: dict[int, float] | None = None,
) -> Solved:
    """The programme as HiGHS solves it at once, `held` columns fixed; without values where it finds no solution."""
    model = highs_model(programme.columns, programme.rows, held=held)
    if start is not None:
        import highspy

        known = highspy.HighsSolution()
        known.col_value = list(start)
        model.setSolution(known)
        # What presolve finds at the root makes HiGHS restart: worth it of few columns, of all longer than it saves.
        model.setOptionValue("presolve", "on" if few else "off")
    model.setOptionValue("mip_rel_gap", gap)
    model.setOptionValue("time_limit", SAFETY_S)
    model.setOptionValue("mip_max_nodes", nodes)
    found = run(model)
    if found is None:
        return Solved(values=None)
    values, info = _tidy(programme.columns, found), model.getInfo()
    cost = _cost(programme.columns, values)
    whole = any(column.whole for column in programme.columns)
    bound = float(info.mip_dual_bound) if whole else float(info.objective_function_value)
    return Solved(values=values, cost=cost, bound=min(bound, cost))


def _solve_by_period(programme: Programme, *, gap: float, nodes: int, near: bool) -> Solved:
    """A tight bound, a first solution period by period near it, then as much of the rest as effort allows."""
    tight = _tighten(programme)
    if tight is None:
        return Solved(values=None)
    cut = programme._replace(rows=tight.rows)
    found = [values for values in (_dive(cut, tight), _round(programme, tight.relaxed)) if values is not None]
    first = min(found, key=lambda values: _cost(programme.columns, values), default=None)
    bound = tight.relaxed.cost
    if first is not None:
        cost = _cost(programme.columns, first)
        best = Solved(first, cost, min(bound, cost))
        count = sum(column.whole for column in programme.columns)
        if best.gap <= gap or count > WHOLE_AT_ONCE:
            return best
        few = cut._replace(columns=_nearby_columns(programme, tight.relaxed, first))
        better = _solve_whole(few, gap=gap, start=first, nodes=1 if near else NEARBY_NODES, few=True)
        if better.values is not None and better.cost < cost:
            first, best = better.values, Solved(better.values, better.cost, min(bound, better.cost))
        if best.gap <= gap or (near and best.gap <= GOOD_GAP and count > SMALL_COLUMNS):
            return best
    whole = _solve_whole(cut, gap=gap, start=first, nodes=1 if near else nodes)
    if whole.values is None:
        return whole
    return whole._replace(bound=min(max(bound, whole.bound), whole.cost))


def _nearby_columns(programme: Programme, relaxed: _Relaxed, first: Sequence[float]) -> list[Column]:
    """The columns, with those whole ones fixed to 0 that neither a first solution nor (nearly) the relaxation takes."""
    most = MAX_NEARBY_COST * abs(relaxed.cost)
    return [
        column
        if not column.whole or max(relaxed.values[i], first[i]) > TOLERANCE or relaxed.reduced[i] <= most
        else column._replace(upper=0.0)
        for i, column in enumerate(programme.columns)
    ]


class _Tight(NamedTuple):
    """The rows with those added that the relaxation broke, its solution under them, and HiGHS where it ended."""

    rows: Sequence[Row]
    relaxed: _Relaxed
    model: Any


def _tighten(programme: Programme) -> _Tight | None:
    """The relaxation with rows by rounding, until a round gains less than `MIN_ROUND_GAIN`; none where it has none."""
    whole = [column.whole for column in programme.columns]
    covers, rooms = _covers(programme), _rooms(programme)
    model = _relaxation(programme)
    if run(model) is None:
        return None
    known: list[Cover] = []
    bound = -math.inf
    for _ in range(ROUNDS):
        before, bound = bound, float(model.getInfo().objective_function_value)
        if bound - before < MIN_ROUND_GAIN * abs(bound):
            break
        values = tuple(model.getSolution().col_value)
        slack = [
            sum(f * values[i] for i, f in cover.terms.items()) > cover.least * (1.0 + IDLE_SLACK) for cover in known
        ]
        point = Point(values, whole)
        facets = broken_facets(covers, point)
        rounded = violated_cuts(covers, [*known, *facets], rooms=rooms, point=point)
        new = facets + rounded[: math.ceil(ROWS_PER_DEMAND * len(covers))]
        gone = [len(programme.rows) + n for n, idle in enumerate(slack) if idle]
        if gone:
            model.deleteRows(len(gone), gone)
        known = [cover for cover, idle in zip(known, slack, strict=True) if not idle] + new
        add_rows(model, [Row(cover.terms, cover.least) for cover in new])
        model.run()
    rows = [*programme.rows, *(Row(cover.terms, cover.least) for cover in known)]
    return _Tight(rows, _solution(model), model)


def _covers(programme: Programme) -> list[Cover]:
    """Rows of one period that demand a positive sum of columns, some of them whole."""
    columns = programme.columns
    return [
        Cover(row.terms, row.lower)
        for row in programme.rows
        if 0 < row.lower < math.inf
        and row.terms
        and min(row.terms.values()) > 0
        and len({columns[i].period for i in row.terms}) == 1
        and any(columns[i].whole for i in row.terms)
    ]


def _rooms(programme: Programme) -> list[Room]:
    """Rows in which some columns hold others."""
    found = []
    for row in programme.rows:
        if row.upper == 0.0 and row.lower == -math.inf:
            takes = {i: factor for i, factor in row.terms.items() if factor > 0}
            holds = {i: -factor for i, factor in row.terms.items() if factor < 0}
            if takes and holds:
                found.append(Room(takes, holds))
    return found


def _dive(programme: Programme, tight: _Tight) -> tuple[float, ...] | None:
    """A solution: shared columns made whole one by one in a solved model, then each period; none where one fails."""
    columns, model = programme.columns, tight.model
    whole_cost = whole_over_parts(columns, tight.relaxed.values)
    found: list[tuple[float, dict[int, float], _Relaxed]] = []
    for factor in dict.fromkeys((1.0, whole_cost)):
        held = hold_shared(columns, model, factor=factor)
        if held is None:
            continue
        relaxed = _solution(model)
        shared = math.fsum(columns[i].cost * value for i, value in held.items())
        found.append((shared + whole_cost * (relaxed.cost - shared), held, relaxed))
    if not found:
        return None
    _, held, relaxed = min(found, key=lambda each: each[0])
    priced = _price(programme, relaxed)
    pieces = [_piece(programme, priced, period) for period in range(programme.periods)]
    return _solve_held(programme, relaxed, priced=priced, pieces=pieces, held=held)


class _Relaxed(NamedTuple):
    values: tuple[float, ...]
    duals: tuple[float, ...]
    reduced: tuple[float, ...]
    """What each column costs beyond what it is worth."""
    cost: float


class _Priced(NamedTuple):
    """What the relaxation's duals make of the programme."""

    shared: tuple[int, ...]
    period_of_row: tuple[int | None, ...]
    """Absent = between periods."""
    costs: tuple[float, ...]
    """Of each column, the rows between periods priced in; of a shared one, in all periods together."""
    shares: dict[tuple[int, int], float]
    """(shared column, period) -> what it costs there."""
    constant: float


class _Piece(NamedTuple):
    """One period's programme, and where its columns stand in the whole."""

    programme: Programme
    places: tuple[int, ...]


def _solution(model: Any) -> _Relaxed:
    found = model.getSolution()
    cost = float(model.getInfo().objective_function_value)
    return _Relaxed(tuple(found.col_value), tuple(found.row_dual), tuple(found.col_dual), cost)


def _price(programme: Programme, relaxed: _Relaxed) -> _Priced:
    """Duals as prices: rows between periods go into their columns' costs, costs of shared columns among the periods."""
    columns = programme.columns
    shared = tuple(i for i, column in enumerate(columns) if column.period is None)
    costs = [column.cost for column in columns]
    constant = 0.0
    shares: dict[tuple[int, int], float] = {}
    periods: list[int | None] = []
    for row, dual in zip(programme.rows, relaxed.duals, strict=True):
        seen = {columns[i].period for i in row.terms} - {None}
        period = next(iter(seen), 0) if len(seen) <= 1 else None
        periods.append(period)
        if period is None:
            constant += dual * (row.lower if dual > 0 else row.upper) if dual else 0.0
        for i, factor in row.terms.items():
            if period is None:
                costs[i] -= dual * factor
            elif columns[i].period is None:
                shares[i, period] = shares.get((i, period), 0.0) + dual * factor
    for i in shared:
        # What the periods do not account for is spread evenly.
        rest = costs[i] - sum(shares.get((i, period), 0.0) for period in range(programme.periods))
        for period in range(programme.periods):
            shares[i, period] = shares.get((i, period), 0.0) + rest / programme.periods
    return _Priced(shared, tuple(periods), tuple(costs), shares, constant)


def _piece(programme: Programme, priced: _Priced, period: int) -> _Piece:
    """The programme of one period: its own columns and the shared ones, at their prices, and the rows within it."""
    columns = programme.columns
    own = tuple(i for i, column in enumerate(columns) if column.period == period) + priced.shared
    at = {i: k for k, i in enumerate(own)}
    cut = [
        columns[i]._replace(cost=priced.costs[i] if columns[i].period == period else priced.shares[i, period])
        for i in own
    ]
    rows = [
        row._replace(terms={at[i]: factor for i, factor in row.terms.items()})
        for row, where in zip(programme.rows, priced.period_of_row, strict=True)
        if where == period
    ]
    return _Piece(Programme(cut, rows), own)


def _solve_held(
    programme: Programme,
    relaxed: _Relaxed,
    *,
    priced: _Priced,
    pieces: list[_Piece],
    held: dict[int, float],
) -> tuple[float, ...] | None:
    """A solution of the whole with the shared columns held, or nothing when a period cannot follow."""
    values = dict(held)
    # Of the mean period: what is reserved may pay for all that a quiet one takes, and its own cost be nothing.
    near = MAX_PERIOD_COST * abs(relaxed.cost) / max(1, programme.periods)
    for period, piece in enumerate(pieces):
        extra = _portion(programme, relaxed, priced=priced, piece=piece, period=period)
        here = {k: held[i] for k, i in enumerate(piece.places) if i in held}
        columns = piece.programme.columns
        for most in (near, WIDER * near, math.inf):
            able = [
                column
                if not column.whole or i in held or relaxed.values[i] > TOLERANCE or relaxed.reduced[i] <= most
                else column._replace(upper=0.0)
                for i, column in zip(piece.places, columns, strict=True)
            ]
            cut = Programme(able, [*piece.programme.rows, *extra])
            found = _solve_whole(cut, gap=PERIOD_GAP, nodes=PERIOD_NODES, held=here).values
            if found is not None:
                break
        if found is None:
            return None
        values |= {i: value for i, value in zip(piece.places, found, strict=True) if programme.columns[i].whole}
    final = run(_relaxation(programme, held=values))
    return None if final is None else _tidy(programme.columns, final)


def _relaxation(programme: Programme, *, held: dict[int, float] | None = None) -> Any:
    """The programme without whole numbers as HiGHS takes it, some columns held."""
    return highs_model([column._replace(whole=False) for column in programme.columns], programme.rows, held=held)


def _round(programme: Programme, relaxed: _Relaxed) -> tuple[float, ...] | None:
    """The relaxation rounded up: whole columns that cost nothing, then those that pay; none where a row breaks."""
    values = relaxed.values
    held: dict[int, float] = {}
    for free in (True, False):
        held |= {
            i: float(math.ceil(values[i] - TOLERANCE))
            for i, column in enumerate(programme.columns)
            if column.whole and (column.cost == 0) is free
        }
        found = run(_relaxation(programme, held=held))
        if found is None:
            return None
        values = found
    return _tidy(programme.columns, values)


def _portion(programme: Programme, relaxed: _Relaxed, *, priced: _Priced, piece: _Piece, period: int) -> list[Row]:
    """Rows that keep a period at its share of what rows between periods demand, as the relaxation divides it."""
    at = {i: k for k, i in enumerate(piece.places)}
    found = []
    for row, where in zip(programme.rows, priced.period_of_row, strict=True):
        if where is not None or row.elastic or not math.isfinite(row.lower):
            continue
        terms = {i: factor for i, factor in row.terms.items() if programme.columns[i].period == period}
        share = sum(factor * relaxed.values[i] for i, factor in terms.items())
        if terms and share > TOLERANCE:
            found.append(Row({at[i]: factor for i, factor in terms.items()}, lower=share * (1.0 - 1e-9)))
    return found


def _tidy(columns: Sequence[Column], values: Sequence[float]) -> tuple[float, ...]:
    """Whole numbers whole, nothing below zero or next to it."""
    return tuple(
        float(round(value)) if column.whole else float(value) if value > NOTHING else 0.0
        for column, value in zip(columns, values, strict=True)
    )


def _cost(columns: Sequence[Column], values: Sequence[float]) -> float:
    return math.fsum(column.cost * value for column, value in zip(columns, values, strict=True))
