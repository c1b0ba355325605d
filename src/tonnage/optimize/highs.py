"""How is a programme told to HiGHS? Columns and rows of plain numbers become its model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

_FEASIBLE: Final = 2
"""HiGHS's kSolutionStatusFeasible."""
UNLIMITED: Final = 1e6
"""Upper bound of a count that nothing limits."""


class Column(NamedTuple):
    """One unknown, at least zero."""

    cost: float
    whole: bool = True
    period: int | None = None
    """Absent = shared by all periods."""
    upper: float = UNLIMITED


class Row(NamedTuple):
    """lower <= sum of factor x column <= upper."""

    terms: dict[int, float]
    lower: float = -math.inf
    upper: float = math.inf
    elastic: bool = False
    """A column of its own makes it hold whatever the others are."""


def highs_model(columns: Sequence[Column], rows: Sequence[Row], *, held: dict[int, float] | None) -> Any:
    """
    The programme as HiGHS takes it, with the `held` columns fixed to their values, whatever their bounds.

    Imported here, because only fleets need it.
    """
    import highspy

    model: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    model.silent()
    model.setOptionValue("threads", 1)  # the same answer on every machine
    fixed = held or {}
    count = len(columns)
    lower = [fixed.get(i, 0.0) for i in range(count)]
    upper = [fixed.get(i, column.upper) for i, column in enumerate(columns)]
    model.addVars(count, lower, upper)
    model.changeColsCost(count, list(range(count)), [float(column.cost) for column in columns])
    whole = [i for i, column in enumerate(columns) if column.whole]
    if whole:
        model.changeColsIntegrality(len(whole), whole, [highspy.HighsVarType.kInteger] * len(whole))
    add_rows(model, rows)
    return model


def run(model: Any) -> tuple[float, ...] | None:
    """The values where HiGHS ends; nothing where it found no solution."""
    model.run()
    return tuple(model.getSolution().col_value) if model.getInfo().primal_solution_status == _FEASIBLE else None


def add_rows(model: Any, rows: Sequence[Row]) -> None:
    """More rows for a model, which then keeps its basis."""
    starts: list[int] = []
    index: list[int] = []
    factors: list[float] = []
    for row in rows:
        starts.append(len(index))
        index += row.terms.keys()
        factors += (float(factor) for factor in row.terms.values())
    if rows:
        low, high = [row.lower for row in rows], [row.upper for row in rows]
        model.addRows(len(rows), low, high, len(index), starts, index, factors)
