"""Which rows bound the whole replicas that carry one demand, and nothing else? The facets that a point breaks.

Rounding (`programme_cuts`) tries a few scales of a row. Of a row over whole numbers alone, sum of a x >= b, every row
that its whole solutions keep can be told, the one that a point breaks most by a small linear programme over factors,

    least of  sum of factor x value    with  sum of factor x count >= 1  for every cover (whole counts of at least b)

Covers are added as they are broken: the cheapest under given factors is a knapsack, solved over whole steps of b.
Sizes are rounded up to steps, so that more counts as a cover and every row found is kept by the covers there are. Only
columns that the point takes are in that programme; the others follow one after the other, each with the least factor
that still keeps every cover.

Source: Boccia, Sforza, Sterle & Vasilyev, "A cut and branch approach for the capacitated p-median problem based on
Fenchel cutting planes", 2008 (covers as they are broken); Balas, "Facets of the knapsack polytope", 1975 (one after the
other).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tonnage.optimize.programme_cuts import Cover, Point

STEPS: Final = 2000
"""Whole steps of a demand, to which sizes of replicas are rounded up. [-]"""
MOST_COVERS: Final = 60
"""Looked at for one row. [-]"""
MIN_VIOLATION: Final = 1e-3
"""Share of its right side by which the point must break a row. [-]"""
TOLERANCE: Final = 1e-6

Array = np.ndarray[Any, np.dtype[np.float64]]


def broken_facets(covers: Sequence[Cover], point: Point) -> list[Cover]:
    """Of each row of whole columns, the row of its whole solutions that the point breaks most, where one is broken."""
    found = (broken_facet(cover, point.values) for cover in covers if all(point.whole[i] for i in cover.terms))
    return [cut for cut in found if cut is not None]


def broken_facet(cover: Cover, values: Sequence[float]) -> Cover | None:
    """The row, of right side 1, that whole solutions of a demand keep and values break; absent where none is broken."""
    taken = [i for i in cover.terms if values[i] > TOLERANCE]
    if all(abs(values[i] - round(values[i])) < TOLERANCE for i in taken):
        return None
    sizes = {
        i: max(1, math.ceil(min(1.0, factor / cover.least) * STEPS - TOLERANCE)) for i, factor in cover.terms.items()
    }
    factors = _separate([sizes[i] for i in taken], [values[i] for i in taken])
    if factors is None:
        return None
    least = _nothing()
    for i, factor in zip(taken, factors, strict=True):
        least = _with(least, sizes[i], factor)
    terms = dict(zip(taken, factors, strict=True))
    for i in sorted(cover.terms.keys() - set(taken), key=lambda i: (-sizes[i], i)):
        rests = np.maximum(STEPS - sizes[i] * np.arange(1, -(-STEPS // sizes[i]) + 1), 0)
        terms[i] = max(0.0, float(np.max((1.0 - least[rests]) / np.arange(1, len(rests) + 1))))
        least = _with(least, sizes[i], terms[i])
    return Cover({i: factor for i, factor in terms.items() if factor > 0}, 1.0)


def _separate(sizes: Sequence[int], values: Sequence[float]) -> list[float] | None:
    """Factors of the row that the values break most, over columns of these sizes in steps."""
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
        if cost >= 1.0 - TOLERANCE:
            return [factor / min(cost, 1.0) for factor in factors]
        used = [k for k in range(count) if counts[k]]
        model.addRow(1.0, math.inf, len(used), used, [float(counts[k]) for k in used])
    return None


def _cheapest_cover(sizes: Sequence[int], factors: Sequence[float]) -> tuple[float, list[int]]:
    """What the cheapest whole counts cost that fill all steps, and these counts."""
    stages = [_nothing()]
    for size, factor in zip(sizes, factors, strict=True):
        stages.append(_with(stages[-1], size, factor))
    counts, rest = [0] * len(sizes), STEPS
    for k in reversed(range(len(sizes))):
        some = np.arange(-(-rest // sizes[k]) + 1)
        counts[k] = int(np.argmin(stages[k][np.maximum(rest - sizes[k] * some, 0)] + factors[k] * some))
        rest = max(0, rest - sizes[k] * counts[k])
    return float(stages[-1][STEPS]), counts


def _nothing() -> Array:
    """The cost of filling so many steps without any column: of none nothing, of some no end."""
    least = np.full(STEPS + 1, math.inf)
    least[0] = 0.0
    return least


def _with(least: Array, size: int, factor: float) -> Array:
    """The least cost of filling so many steps, one column more: by blocks of its size, the running best."""
    blocks = -(-STEPS // size) + 1
    costs = np.zeros(blocks * size)  # what fills more than all costs as much as all
    costs[size : size + STEPS] = least[1:]
    costs[size + STEPS :] = math.inf
    ramp = factor * np.arange(blocks)[:, None]
    best = np.minimum.accumulate(costs.reshape(blocks, size) - ramp, axis=0) + ramp
    found: Array = best.reshape(-1)[size - 1 : size + STEPS].copy()
    found[0] = 0.0
    return found
