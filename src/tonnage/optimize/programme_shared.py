"""How many of what all periods share (reserved instances)? Whole numbers near the relaxation, found before the periods.

The relaxation pays parts of instances by the hour; periods in whole numbers pay more. So its shared columns are made
whole twice, at the periods' own costs and at what whole numbers make of them; the caller keeps the better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from tonnage.optimize.highs import Column, run

FIXING_DISTANCE: Final = 0.1
"""Distance to a whole number at which a shared column is taken for it. [-]"""
TOLERANCE: Final = 1e-7


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
    up = math.fsum(cost * math.ceil(value - TOLERANCE) for cost, value in of_periods)
    return 1.0 if parts <= TOLERANCE else 1.0 + (up / parts - 1.0) / 2.0


def hold_shared(columns: Sequence[Column], model: Any, *, factor: float) -> dict[int, float] | None:
    """Whole numbers of the shared columns, found at so many times what periods cost; the model then holds them."""
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
    if those:
        model.changeColsCost(len(those), list(those), [factor * columns[i].cost for i in those])


def _nearest(value: float) -> int:
    return math.floor(value + 0.5)
