"""
Can two options be told apart? The interval of the ratio of their costs, what both are wrong about left out of it.

Two options of one plan err together as far as they share what their error comes from. The same configuration at two
prices is as fast at both, whatever that is: the ratio is that of the prices. The same accelerator under the same
software shares half of the error (`ALIKE`); different accelerators share next to none, and their errors add in squares.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from tonnage.nouns.answer import Quantity
from tonnage.nouns.plan import Configuration
from tonnage.nouns.train_plan import TrainConfiguration

__all__ = ["ALIKE", "Pair", "Ratio", "ratio", "shared", "tied", "within"]

ALIKE: Final = 0.5
"""Correlation of errors of two runs of a model on one accelerator under one engine or framework. [-]

Source: calibration/shared.py, on predictions that never saw the model's family; medians over models are 0.42 for time
per token, 0.70 for training steps and 0.67 for inference, and -0.07 to 0.38 where part or software differs.
"""
EXACT: Final = 1e-9


class Pair(NamedTuple):
    """What is weighed: a cost, the first option's, and the correlation of their errors."""

    cost: Quantity
    first: Quantity
    shared: float = 0.0


class Ratio(NamedTuple):
    """Of an option's cost over the first's, with its 90 % interval. [-]"""

    value: float
    low: float
    high: float


def shared(one: Configuration | TrainConfiguration | None, other: Configuration | TrainConfiguration | None) -> float:
    """Correlation of the errors of two configurations of one model: 1 for the same, `ALIKE` on the same part. [-]"""
    if one is None or other is None:
        return 0.0
    if one == other:
        return 1.0
    return ALIKE if _runs_on(one) == _runs_on(other) else 0.0


def ratio(*pairs: Pair) -> Ratio | None:
    """The ratio of the pairs' sums; their errors are independent. Nothing where a sum is no positive number."""
    total, base = sum(pair.cost.value for pair in pairs), sum(pair.first.value for pair in pairs)
    if not (0.0 < total < math.inf and 0.0 < base < math.inf):
        return None
    down = math.hypot(*(_apart(pair, total=total, base=base, up=False) for pair in pairs))
    up = math.hypot(*(_apart(pair, total=total, base=base, up=True) for pair in pairs))
    value = total / base
    return Ratio(value, value * math.exp(-down), value * math.exp(up))


def tied(*pairs: Pair) -> Ratio | None:
    """The ratio, where the dearer option may cost no more than the first; nothing where they can be told apart."""
    if any(None in {pair.cost.low, pair.cost.high, pair.first.low, pair.first.high} for pair in pairs):
        return None
    found = ratio(*pairs)
    return found if found is not None and found.low <= 1.0 + EXACT <= found.value + 2 * EXACT else None


def within(found: Ratio | None) -> str:
    """What stands behind the ratio of a tie: " (0.91x-1.28x within error)"; empty for none."""
    if found is None or found.high / found.low < 1.0 + EXACT:
        return ""
    return f" ({found.low:.2f}x-{found.high:.2f}x within error)"


def _apart(pair: Pair, *, total: float, base: float, up: bool) -> float:
    """How far one pair may move the logarithm of the ratio up, or down, weighted by its share of both sums."""
    mine, lead = _reaches(pair.cost, of=total), _reaches(pair.first, of=base)
    if pair.shared >= 1.0:
        # Both are quicker than predicted, or both slower.
        moves = (lead[0] - mine[0], mine[1] - lead[1])
        return max(0.0, *(move if up else -move for move in moves))
    one, other = (mine[1], lead[0]) if up else (mine[0], lead[1])
    return math.sqrt(max(0.0, one * one + other * other - 2.0 * pair.shared * one * other))


def _reaches(cost: Quantity, *, of: float) -> tuple[float, float]:
    """Logarithms from the value to the low and to the high end, times its share of a sum."""
    if cost.value <= 0:
        return 0.0, 0.0
    low = cost.value if cost.low is None or cost.low <= 0 else min(cost.low, cost.value)
    high = cost.value if cost.high is None else max(cost.high, cost.value)
    share = cost.value / of
    return math.log(cost.value / low) * share, math.log(high / cost.value) * share


def _runs_on(configuration: Configuration | TrainConfiguration) -> tuple[str, str]:
    software = configuration.engine.name if isinstance(configuration, Configuration) else configuration.software
    return configuration.accelerator, software
