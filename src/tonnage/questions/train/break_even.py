"""What would change a training plan: rivals' prices, the deadline, the budget, the tokens to train on.

Steps do not change with any of these, so that everything already arranged is asked again: which of it is in time,
which within the money, which is then the cheapest, or the fastest where only money limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tonnage.core.break_even import Axis, Contender, break_even_along, break_even_prices
from tonnage.domain.answer import Quantity
from tonnage.domain.plan import BreakEven
from tonnage.domain.train_plan import TrainOption
from tonnage.questions.train.option import ROUNDING, chance_of_run, holds
from tonnage.units import show

MAX_OPTIONS: Final = 60
"""Arranged options that are asked again, by cost."""
NOTHING: Final = "nothing that was looked at does it"


def train_break_even(
    options: Sequence[TrainOption],
    *,
    evaluated: Iterable[TrainOption],
    deadline_s: float,
    budget_usd: float | None,
    stated: bool,
    confidence: float,
) -> tuple[BreakEven, ...]:
    """
    Every input at which the first option stops being the first.

    Parameters
    ----------
    options : sequence of TrainOption
        Ranked.
    evaluated : iterable of TrainOption
        Everything that was arranged, in time and within the money or not.
    deadline_s : float
        By which the run shall end: the request's, else what is called patience; infinite when only money limits. [s]
    budget_usd : float, optional
    stated : bool
        Whether the deadline is the request's own.
    confidence : float
        The least chance of fitting and of keeping both. [-]
    """
    few = sorted((o for o in evaluated if math.isfinite(o.cost.value)), key=lambda o: o.cost.value)[:MAX_OPTIONS]
    asked = _value_function(few, fastest=math.isinf(deadline_s), stated=stated, confidence=confidence)
    found: list[BreakEven] = []
    if math.isfinite(deadline_s):
        found += break_even_prices(options)
    if stated:
        least = min(option.run.wall_s.value for option in few)
        until = Axis(name="deadline", now=deadline_s, unit="s", least=least)
        found += break_even_along(until, at=lambda s: asked(s, budget_usd, 1.0), nothing=NOTHING)
    if budget_usd is not None:
        spent = Axis(name="budget", now=budget_usd, unit="USD")
        found += break_even_along(spent, at=lambda usd: asked(deadline_s, usd, 1.0), nothing=NOTHING)
    run, c = options[0].run, options[0].configuration
    tokens = run.steps * c.global_batch * c.seq_len
    # Beyond what the fastest arranged option does in time, larger counts would have to be looked at.
    most = tokens * deadline_s / min(option.run.wall_s.value for option in few)
    longer = Axis(name="tokens to train on", now=tokens, unit="tokens", most=most)
    found += break_even_along(longer, at=lambda n: asked(deadline_s, budget_usd, n / tokens), nothing=NOTHING)
    return tuple(found)


def _value_function(
    few: Sequence[TrainOption], *, fastest: bool, stated: bool, confidence: float
) -> Callable[[float, float | None, float], list[Contender]]:
    """What each is worth by a deadline, within a budget, at a multiple of the work."""

    def at(deadline_s: float, budget_usd: float | None, work: float) -> list[Contender]:
        found = []
        for option in few:
            wall, usd = _times(option.run.wall_s, work), _times(option.cost, work)
            if wall.value > deadline_s or (budget_usd is not None and usd.value > budget_usd):
                continue
            until = deadline_s if stated else None
            chance = chance_of_run(option, deadline_s=until, budget_usd=budget_usd, wall_s=wall, cost=usd)
            found.append(
                Contender(
                    name=_name(option),
                    cost=wall if fastest else usd,
                    told=_describe(option, wall, usd),
                    sure=holds(option, chance, confidence=confidence),
                    chance=None if chance >= confidence - ROUNDING else chance,
                    listed=option.bill.trust == "primary",
                    configuration=option.configuration,
                )
            )
        return found

    return at


def _times(quantity: Quantity, work: float) -> Quantity:
    """So many times the work takes so many times as long and as much: start-up is a matter of minutes."""
    low, high = (end * work if end is not None else None for end in (quantity.low, quantity.high))
    return Quantity(value=quantity.value * work, unit=quantity.unit, low=low, high=high, basis=quantity.basis)


def _name(option: TrainOption) -> str:
    return f"{option.accelerators} x {option.configuration.accelerator}"


def _describe(option: TrainOption, wall: Quantity, usd: Quantity) -> str:
    return f"{_name(option)} for {show(usd.value, 'USD')} in {show(wall.value, 's')}"
