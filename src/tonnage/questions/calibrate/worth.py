"""
Which measurement most raises the chance that a plan's choice is right? Expected value of information.

Each option that competes has one unknown: how much faster or slower it is than predicted, normal in logarithms, with
the width of its interval and the correlations of `error_model`. It decides how many replicas the option needs, so what
it costs, and whether it keeps the objectives. The choice is right where its option is the cheapest that keeps them.
Measuring an option tells its own unknown but for `REPEATED`, and part of all others that share causes. A measurement is
worth what the best choice after it is more often right, on average over what it may say; proposals are added one by
one until the next raises that by less than `WORTH`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from tonnage.catalog import part_name
from tonnage.catalog.spreads import NINETY
from tonnage.core.error_model import correlation
from tonnage.core.ranking import weighed_usd_per_h
from tonnage.domain.answer import Quantity
from tonnage.domain.calibration import MEASURE_PLAN_SCHEMA, MeasurePlan, Proposal
from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.errors import BadRequest
from tonnage.questions.calibrate.posterior import Array
from tonnage.units import percent

COMPETING: Final = 10
"""Options that are looked at: the rest cost more even where all goes well. [-]"""
DRAWS: Final = 1000
REPEATED: Final = 0.03
"""A measurement of the very configuration and load repeats itself as well as this. [log]"""
WORTH: Final = 0.01
"""Gain of the chance below which nothing more is proposed. [-]"""
MOST: Final = 3
MINUTES: Final = 15.0
"""Five for three loads, ten to start an instance and read weights (assumed). [min]"""
_NODES: Final = (-2.0202, -0.9586, 0.0, 0.9586, 2.0202)
_WEIGHTS: Final = (0.0199532, 0.3936193, 0.9453087, 0.3936193, 0.0199532)
"""Gauss-Hermite, five nodes; outcomes of a measurement."""


class _Unknown(NamedTuple):
    """An option as its one unknown sets it: faster is positive, in standard deviations."""

    option: ServeOption
    width: float
    """Standard deviation of the logarithm of its rate."""
    units: float
    """Replicas needed as predicted, before they are rounded up. [-]"""
    usd_per_h: float
    """What it counts for as planned: `weighed_usd_per_h`. [USD/h]"""


def measure_plan(plan: ServePlan) -> MeasurePlan:
    """
    What to measure before a serving plan is bought.

    Raises
    ------
    BadRequest
        The plan has no options.
    """
    if not plan.options:
        raise BadRequest("the plan has no options: nothing to measure; loosen what binds first")
    rivals = _rivals(plan)
    matrix = _correlations(rivals)
    limits = (plan.request.slo.ttft_s, plan.request.slo.tpot_s)
    draws = np.random.default_rng(plan.provenance.seed).standard_normal((DRAWS, len(rivals)))
    now, places, chances = worth_measuring(rivals, matrix, draws=draws, limits=limits)
    proposals = tuple(
        _proposal(rivals[place].option, plan.options.index(rivals[place].option), chance)
        for place, chance in zip(places, chances, strict=True)
    )
    return MeasurePlan(
        schema=MEASURE_PLAN_SCHEMA,
        sentence=_sentence(plan, now, proposals),
        sure_now=now,
        competing=len(rivals),
        proposals=proposals,
        notes=(
            "Chances hold as far as intervals do; objectives are met where TTFT and TPOT at the plan's load are.",
            f"Minutes: five for three loads and {MINUTES - 5:g} to start an instance (assumed).",
        ),
    )


def worth_measuring(
    rivals: Sequence[_Unknown],
    matrix: Array,
    *,
    draws: Array,
    limits: tuple[float | None, float | None],
) -> tuple[float, list[int], list[float]]:
    """
    Chance that the first rival is right now, the places worth measuring in order, and the chance after each.

    `matrix` has the correlations of their unknowns, `draws` standard normal numbers (draw, rival), `limits` the
    objectives of TTFT and TPOT. [s] No places where the first stands alone, or nothing raises the chance by `WORTH`.
    """

    def right(mean: Array, covariance: Array) -> Array:
        """Chance of each to be the right choice, under a normal belief."""
        root = np.linalg.cholesky(covariance + 1e-9 * np.eye(len(covariance)))
        costs = np.array(
            [_costs(one, column, limits=limits) for one, column in zip(rivals, (mean + draws @ root.T).T, strict=True)]
        )
        least = costs.min(axis=0)
        return np.asarray(((costs <= least * (1.0 + 1e-9)) & np.isfinite(costs)).mean(axis=1), dtype=np.float64)

    def after(places: Sequence[int]) -> float:
        """Chance that the best choice is right once some are measured, over what they may say."""
        chosen = list(places)
        noise = np.diag([(REPEATED / rivals[place].width) ** 2 for place in chosen])
        seen = matrix[np.ix_(chosen, chosen)] + noise
        gain = np.linalg.solve(seen, matrix[chosen]).T
        covariance = matrix - gain @ matrix[chosen]
        root, total = np.linalg.cholesky(seen), 0.0
        for nodes in product(range(len(_NODES)), repeat=len(chosen)):
            outcome = root @ np.array([math.sqrt(2.0) * _NODES[node] for node in nodes])
            weight = math.prod(_WEIGHTS[node] for node in nodes) / math.pi ** (len(chosen) / 2.0)
            total += weight * float(right(gain @ outcome, covariance).max())
        return total

    now = float(right(np.zeros(len(rivals)), matrix)[0])
    places: list[int] = []
    chances: list[float] = []
    # One alone is chosen whatever is measured; the quadrature, coarser than the draws, may say otherwise by a percent.
    while 1 < len(rivals) > len(places) < MOST:
        value, place = max((after([*places, other]), -other) for other in range(len(rivals)) if other not in places)
        if value - (chances[-1] if chances else now) < WORTH:
            break
        places.append(-place)
        chances.append(min(1.0, value))
    return now, places, chances


def _rivals(plan: ServePlan) -> list[_Unknown]:
    """
    The first option, and those that may cost no more than it does where all goes wrong for it, `COMPETING` in all.

    What an option needs before rounding is its replicas times the share of their capacity that the load takes, over
    the share that it may take (1 - the headroom asked for).
    """
    first = plan.options[0]
    most = first.cost.high or first.cost.value
    near = [o for o in plan.options[1:] if (o.cost.low or o.cost.value) <= most][: COMPETING - 1]
    free = 1.0 - plan.request.headroom
    return [
        _Unknown(
            o,
            max(1e-3, _width(o.capacity.max_rate_per_s)),
            o.replicas * (1.0 - o.headroom) / free,
            weighed_usd_per_h(o),
        )
        for o in (first, *near)
    ]


def _width(rate: Quantity) -> float:
    """Standard deviation of a rate's logarithm, from its 90 % interval; 0 without one. [log]"""
    if not rate.low or not rate.high or rate.high <= rate.low:
        return 0.0
    return math.log(rate.high / rate.low) / (2.0 * NINETY)


def _correlations(rivals: Sequence[_Unknown]) -> Array:
    own = [one.option.configuration for one in rivals]
    shared = [[1.0 if i == j else min(0.99, correlation(a, b)) for j, b in enumerate(own)] for i, a in enumerate(own)]
    return np.array(shared)


def _costs(one: _Unknown, faster: Array, *, limits: tuple[float | None, float | None]) -> Array:
    """
    What an option costs in each draw, as options are weighed; infinite where it misses an objective. [USD/h]

    `faster` is its unknown in standard deviations, negative where it is slower than predicted. Replicas that the plan
    has beyond what the load needs stay in every draw.
    """
    o = one.option
    spare = o.replicas - math.ceil(one.units - 1e-9)
    replicas = np.maximum(1.0, np.ceil(one.units * np.exp(-faster * one.width) - 1e-9) + spare)
    each = o.accelerators / o.replicas / o.bill.accelerators_per_instance
    instances = np.ceil(replicas * each - 1e-9)
    cost = one.usd_per_h * instances / max(1, o.bill.instances)
    for latency, limit in zip((o.capacity.ttft_s, o.capacity.tpot_s), limits, strict=True):
        if limit is not None and latency.low and latency.high:
            up, down = math.log(latency.high / latency.value), math.log(latency.value / latency.low)
            moved = np.where(faster < 0.0, -faster * up, -faster * down) / NINETY
            cost = np.where(latency.value * np.exp(moved) > limit, math.inf, cost)
    return np.asarray(cost, dtype=np.float64)


def _proposal(option: ServeOption, place: int, chance: float) -> Proposal:
    """
    To measure an option on one instance: alone, at a quarter of its concurrency, and at all of it.

    `place` is the option's in the plan, `chance` that the choice is right once it is measured.
    """
    c, at_once = option.configuration, max(1.0, round(option.capacity.concurrency))
    return Proposal(
        option=place,
        accelerator=c.accelerator,
        engine=c.engine.name,
        layout="".join(c.layout.degrees()).upper() or "1 accelerator",
        precision=c.precision.weights,
        loads=tuple(sorted({1.0, max(1.0, round(at_once / 4)), at_once})),
        minutes=MINUTES,
        usd=option.bill.usd_per_instance_hour * MINUTES / 60.0,
        sure_after=chance,
    )


def _sentence(plan: ServePlan, now: float, proposals: Sequence[Proposal]) -> str:
    """The chance that the first option is right, and what raises it most."""
    first = plan.options[0].configuration
    lead = (
        f"{part_name(first.accelerator)} with {first.engine.name} is the right choice with a chance of {percent(now)}"
    )
    if not proposals:
        return f"{lead}; no measurement of one option would raise it by {percent(WORTH)} or more."
    last = proposals[-1]
    count = "one measurement" if len(proposals) == 1 else f"{len(proposals)} measurements"
    usd, minutes = sum(p.usd for p in proposals), sum(p.minutes for p in proposals)
    return f"{lead}; {count} ({minutes:g} min, ${usd:.2f}) would make it {percent(last.sure_after)}."
