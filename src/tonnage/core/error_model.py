"""
How sure is a prediction? The one place that gives an interval its width, and an objective its chance of being met.

Errors are those of `catalog.spreads`: ln(measured / predicted) has a median, the bias, and 90 % of measurements of such
cases lie within one width of it. The spread is looked up by a *level*: whether the engine's host was measured, the
load, the structure of the model, what the kernels rest on and the software
(`known-host:steady:dense:calibrated:vllm`). The user's own calibration comes before any level.

An error has named causes (`CAUSES`): kernels of the accelerator, host work of the software, the two together, and a
rest of its own. Two stacks share the causes whose subjects they have in common, so their errors correlate
(`correlation`), and a comparison between them is surer than either number: `ratio` gives the interval of the ratio of
two costs, `tie_ratio` up to which ratio the dearer of two options may cost no more than the other.

What else was looked at does not enter, nor whether a number was simulated: that changes the number at the ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from tonnage.catalog.fitted import causes
from tonnage.catalog.spreads import chance_of, score_of, spread
from tonnage.domain.answer import Basis, Quantity, Spread
from tonnage.domain.calibration import Calibration
from tonnage.domain.case import InferCase, Traffic
from tonnage.domain.efficiency import Rung
from tonnage.domain.model import Model, Moe
from tonnage.domain.plan import Configuration
from tonnage.domain.train_plan import TrainConfiguration
from tonnage.record import Record

Kind = Literal["serve", "train", "infer"]

BASIS_OF_TIER: Final[dict[Rung, Basis]] = {
    "own": Basis.CALIBRATED,
    "architecture": Basis.DERIVED,
    "generation": Basis.DERIVED,
    "generic": Basis.ASSUMED,
}
"""How a number is founded whose kernels were measured on the accelerator itself, on kin of it, or nowhere."""
SHARED_BY_LATENCIES: Final = 0.25
"""Of the variance of two latencies of one stack under one load, what both have in common: correlation of the errors of
TTFT and TPOT on 2,411 published points, 0.19 to 0.30 by what is left out (log, 2026-11-22). Errors of a training step
and of its peak memory correlate by 0.14 to 0.20 (112 published points; log, 2026-11-23). [-]"""
_SPAN: Final = 4.0
_NODES: Final = 16
"""Of the integral over the shared cause: standard deviations to each side, and steps; good to 1e-4. [-]"""
_CERTAIN: Final = 3.3
"""Standard deviations of a normal, from which a limit holds for certain: 1 in 2,000. [-]"""
_HOSTS: Final = {True: "known-host", False: "borrowed-host"}
"""Whether the engine's own work was measured on such parts."""
_ONE_STEP_TOKENS: Final = 8192.0
"""Prompts that one step takes, by the usual chunk budget."""
_MANY_STEPS: Final = 16.0
"""Steps of prompts from which a first token is mostly waiting for other clients' prompts."""


class ErrorModel(Record, kw_only=True):
    """The error of every number of one stack under one load."""

    kind: Kind
    level: str
    calibration: Calibration | None = None
    """The user's own of this stack; its widths come first."""
    queueing: Mapping[str, tuple[float, float]] = {}
    """
    By latency, what queueing makes of it where the load is a fixed arrival rate: if the replica is as much faster, or
    slower, as its step times may be, it is also less, or more, loaded (`replica.with_queueing`). [-]
    """

    def spread(self, quantity: str) -> Spread:
        """Where measurements lie around a prediction of that quantity."""
        own = None if self.calibration is None else self.calibration.factors.get(quantity)
        return spread(self.kind, quantity, level=self.level) if own is None else Spread(math.log(own))

    def bounds(self, name: str, value: float) -> tuple[float, float]:
        """The ends of the 90 % interval of a value."""
        error, (less, more) = self.spread(name), self.queueing.get(name, (1.0, 1.0))
        return value * error.at(-1.0) * less, value * error.at(1.0) * more

    def quantity(self, name: str, value: float, *, unit: str, basis: Basis) -> Quantity:
        """A value with its 90 % interval."""
        low, high = self.bounds(name, value)
        return replace(Quantity(value=value, unit=unit, basis=basis).spread(self.spread(name)), low=low, high=high)


def joint_chance(ends: Sequence[float]) -> float:
    """
    Probability that all of several objectives of one stack keep their limits. [-]

    Normal errors with one cause in common that makes up `SHARED_BY_LATENCIES` of their variance: never more than the
    least of the chances, never less than their product, and rising in each.

    Parameters
    ----------
    ends : sequence of float
        For each objective, how far its error may go, as `chance_of` takes it. [-]

    Examples
    --------
    >>> from tonnage.catalog.spreads import end_at, end_of
    >>> one = end_at(0.9)
    >>> [round(joint_chance(ends), 2) for ends in ([one], [one, end_of(True)], [one, one], [one, end_of(False)])]
    [0.9, 0.9, 0.82, 0.0]
    """
    least = min(map(chance_of, ends), default=1.0)
    doubtful = [score for score in map(score_of, ends) if score < _CERTAIN]
    if len(doubtful) < 2 or least <= 0.0:
        return least
    nodes, weights = _shared_causes()
    own, erf, total = math.sqrt(2.0 * (1.0 - SHARED_BY_LATENCIES)), math.erf, 0.0
    for weight, moved in nodes:
        all_hold = 1.0
        for end in doubtful:
            all_hold *= 0.5 * (1.0 + erf((end - moved) / own))
        total += weight * all_hold
    return min(total / weights, least)


@cache
def _shared_causes() -> tuple[tuple[tuple[float, float], ...], float]:
    """Each value of the cause in common: its weight and how far it moves all latencies; and the weights' sum."""
    causes = [_SPAN * (2.0 * i / _NODES - 1.0) for i in range(_NODES + 1)]
    weights = [math.exp(-cause * cause / 2.0) for cause in causes]
    common = math.sqrt(SHARED_BY_LATENCIES)
    return tuple((weight, common * cause) for weight, cause in zip(weights, causes, strict=True)), sum(weights)


def basis_of_tier(tier: Rung, *, overheads_borrowed: bool = False, calibrated: bool = False) -> Basis:
    """
    How a number is founded: by the evidence of its weakest kernel, the engine's own overheads, the user's calibration.

    Examples
    --------
    >>> basis_of_tier("own").value, basis_of_tier("own", overheads_borrowed=True).value, basis_of_tier("generic").value
    ('calibrated', 'derived', 'assumed')
    """
    if calibrated:
        return Basis.CALIBRATED
    basis = BASIS_OF_TIER[tier]
    return Basis.DERIVED if overheads_borrowed and basis is Basis.CALIBRATED else basis


def correlation(
    one: Configuration | TrainConfiguration | None, other: Configuration | TrainConfiguration | None
) -> float:
    """Correlation of the errors of two configurations of one model, by shared causes: 1 if equal, 0 without one. [-]"""
    if one is None or other is None:
        return 0.0
    if one == other:
        return 1.0
    kind: Kind = "train" if isinstance(one, TrainConfiguration) else "serve"
    same = one.accelerator == other.accelerator, _software(one) == _software(other)
    return _shared_variance(kind, *same)


@cache
def _shared_variance(kind: Kind, same_accelerator: bool, same_software: bool) -> float:
    """Share of the variance whose causes two stacks have in common. [-]"""
    common = {"accelerator": same_accelerator, "software": same_software}
    return sum(cause.share for cause in causes(kind) if all(common[subject] for subject in cause.shared_by))


def _software(configuration: Configuration | TrainConfiguration) -> str:
    return configuration.engine.name if isinstance(configuration, Configuration) else configuration.software


def serve_level(model: Model, *, basis: str, load: str, engine: str, host_known: bool) -> str:
    """
    The level of a served language model.

    `host_known`: the engine's own work was measured on such parts. It comes first, as it tells most: without it a time
    per token is 1.7 times as far off, whatever its kernels stand on (log, 2026-11-23).
    """
    return ":".join((_HOSTS[host_known], load, structure(model), basis, engine))


def as_measured(level: str) -> str:
    """
    The level of a served model on the same load, where its stack had been measured.

    Examples
    --------
    >>> as_measured("borrowed-host:steady:dense:assumed:vllm")
    'known-host:steady:dense:calibrated:vllm'
    """
    _, load, model, _, engine = level.split(":")
    return ":".join((_HOSTS[True], load, model, Basis.CALIBRATED.value, engine))


def serve_load(traffic: Traffic, *, in_flight: float, prompt_tokens: float, saturated: bool = False) -> str:
    """
    The class of a load on one replica, by which its error differs.

    `saturated`: offline, or as much as the replica takes and more. Clients and arrivals: `light` (the prompts of all in
    flight fit into one step), `steady`, `crowded` (they need sixteen and more). A batch given as such is `steady`.
    """
    if saturated or traffic.saturated:
        return "saturated"
    if traffic.concurrency is None and traffic.rate_per_s is None:
        return "steady"
    return load_class(in_flight, prompt_tokens)


def load_class(in_flight: float, prompt_tokens: float) -> str:
    """
    The load of so many requests at once on a replica: `light`, `steady` or `crowded`.

    Examples
    --------
    >>> load_class(4, 1000), load_class(64, 1000), load_class(512, 1000)
    ('light', 'steady', 'crowded')
    """
    steps = in_flight * prompt_tokens / _ONE_STEP_TOKENS
    return "light" if steps <= 1.0 else "steady" if steps <= _MANY_STEPS else "crowded"


def load_ends(prompt_tokens: float) -> tuple[tuple[str, float], ...]:
    """The classes of load in their order, each with the requests at once up to which it reaches."""
    return (
        ("light", _ONE_STEP_TOKENS / prompt_tokens),
        ("steady", _MANY_STEPS * _ONE_STEP_TOKENS / prompt_tokens),
        ("crowded", math.inf),
    )


def train_level(model: Model, *, basis: str, method: str, software: str) -> str:
    """The level of a training setup: basis, `whole` (pretrain, full) or `adapter`, structure, software."""
    return ":".join((basis, "whole" if method in {"pretrain", "full"} else "adapter", structure(model), software))


def infer_level(case: InferCase, model: Model, *, basis: str, engine: str) -> str:
    """The level of batches through a network: basis, load (`open` = at a rate), structure, engine."""
    load = "open" if case.rate_per_s is not None else "saturated" if case.saturated else "steady"
    return ":".join((basis, load, structure(model), engine))


def structure(model: Model) -> str:
    """mixture (routed experts), dense, or network (known by its totals, not by layers)."""
    groups = (*model.layers, *model.encoder)
    if not groups:
        return "network"
    return "mixture" if any(isinstance(group.feed_forward, Moe) for group in groups) else "dense"


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


def ratio(*pairs: Pair) -> Ratio | None:
    """The ratio of the pairs' sums; their errors are independent. Nothing where a sum is no positive number."""
    total, base = sum(pair.cost.value for pair in pairs), sum(pair.first.value for pair in pairs)
    if not (0.0 < total < math.inf and 0.0 < base < math.inf):
        return None
    down = math.hypot(*(_log_move(pair, total=total, base=base, up=False) for pair in pairs))
    up = math.hypot(*(_log_move(pair, total=total, base=base, up=True) for pair in pairs))
    value = total / base
    return Ratio(value, value * math.exp(-down), value * math.exp(up))


def tie_ratio(*pairs: Pair) -> Ratio | None:
    """
    The ratio, where the dearer option may cost no more than the first.

    None where the two can be told apart, the option costs less than the first, or a cost has no interval.
    """
    if any(None in {pair.cost.low, pair.cost.high, pair.first.low, pair.first.high} for pair in pairs):
        return None
    found = ratio(*pairs)
    return found if found is not None and found.low <= 1.0 + EXACT <= found.value + 2 * EXACT else None


def within_text(found: Ratio | None) -> str:
    """What stands behind the ratio of a tie: " (0.91x-1.28x within error)"; empty for none."""
    if found is None or found.high / found.low < 1.0 + EXACT:
        return ""
    return f" ({found.low:.2f}x-{found.high:.2f}x within error)"


def _log_move(pair: Pair, *, total: float, base: float, up: bool) -> float:
    """How far one pair may move the logarithm of the ratio up, or down, weighted by its share of both sums. [-]"""
    cost, first = _reaches(pair.cost, of=total), _reaches(pair.first, of=base)
    if pair.shared >= 1.0:
        # One and the same error: both cost less than predicted, or both more.
        moves = (first[0] - cost[0], cost[1] - first[1])
        return max(0.0, *(move if up else -move for move in moves))
    own, other = (cost[1], first[0]) if up else (cost[0], first[1])
    return math.sqrt(max(0.0, own * own + other * other - 2.0 * pair.shared * own * other))


def _reaches(cost: Quantity, *, of: float) -> tuple[float, float]:
    """Logarithms from the value to its low and to its high end, times its share of a sum; 0 where an end is missing."""
    if cost.value <= 0:
        return 0.0, 0.0
    low = cost.value if cost.low is None or cost.low <= 0 else min(cost.low, cost.value)
    high = cost.value if cost.high is None else max(cost.high, cost.value)
    share = cost.value / of
    return math.log(cost.value / low) * share, math.log(high / cost.value) * share
