"""The order of options, said once: why the first leads, what others cost, which cannot be told apart; the frontier."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, cast

import msgspec
from msgspec.structs import replace

from tonnage.domain.answer import Quantity
from tonnage.domain.plan import Configuration
from tonnage.domain.train_plan import TrainConfiguration
from tonnage.planning.error_model import Pair, Ratio, correlation, tie_ratio, within_text

__all__ = ["RankedOption", "at_risk", "frontier", "surely_cheapest", "tie_with_first", "whole_percent", "with_verdicts"]


class RankedOption(Protocol):
    """What an option of any kind has, to be ranked: a struct with these fields."""

    @property
    def configuration(self) -> Configuration | TrainConfiguration: ...
    @property
    def cost(self) -> Quantity: ...
    @property
    def sure(self) -> bool: ...
    @property
    def ties(self) -> bool: ...
    @property
    def verdict(self) -> str: ...


Option = TypeVar("Option", bound=RankedOption)
Point = TypeVar("Point")


def frontier(options: Sequence[Point], *, objectives: Sequence[Callable[[Point], float]]) -> tuple[int, ...]:
    """
    Indices of options that are not dominated, in the given order; smaller is better in every objective.

    One option dominates another when it is no worse in all objectives and better in one. Cost is
    O(n f) for f options on the frontier.
    """
    points = [tuple(objective(option) for objective in objectives) for option in options]
    kept: list[int] = []
    for index in sorted(range(len(points)), key=points.__getitem__):
        if not any(_dominates(points[other], points[index]) for other in kept):
            kept.append(index)
    return tuple(sorted(kept))


def _dominates(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a != b and all(x <= y for x, y in zip(a, b, strict=True))


def whole_percent(share: float) -> str:
    """
    A chance in words: whole percent, never certainty.

    Examples
    --------
    >>> whole_percent(0.8), whole_percent(0.9999), whole_percent(0.0)
    ('80 %', '99 %', '1 %')
    """
    return f"{min(99.0, max(1.0, math.floor(100.0 * share + 1e-2))):.0f} %"


def surely_cheapest(option: RankedOption) -> tuple[bool, float]:
    """Order of the options: those with the confidence asked for first, then by cost."""
    return not option.sure, option.cost.value


def _cost(option: RankedOption) -> Quantity:
    return option.cost


def with_verdicts(
    options: tuple[Option, ...],
    *,
    lead: str,
    arithmetic: Callable[[Option], str],
    risk: Callable[[Option], str],
    ratios: Callable[[Option, str], str] | None = None,
    ranked_by: Callable[[Option], Quantity] = _cost,
) -> tuple[Option, ...]:
    """
    Ranked options, each with the reason for its place and whether it ties with the first.

    Parameters
    ----------
    options : tuple of options
        Best first.
    lead : str
        Why the first leads.
    arithmetic : callable
        Option -> the numbers behind its cost, in words.
    risk : callable
        Option -> what may go wrong with it, in words; empty where nothing is.
    ratios : callable, optional
        Option and the interval of a tie in words -> how it compares with the first; its cost by default.
    ranked_by : callable, optional
        Option -> the quantity that it is ranked by.
    """
    if not options:
        return ()
    first = options[0]
    said = [_changed(first, verdict="; ".join(filter(None, (lead, risk(first), arithmetic(first)))))]
    for option in options[1:]:
        tie = tie_with_first(option, first, ranked_by=ranked_by)
        known = within_text(tie)
        against = ratios(option, known) if ratios else f"{_over(option, first):.2f}x the first's cost{known}"
        verdict = "; ".join(filter(None, (against, risk(option), arithmetic(option))))
        said.append(_changed(option, verdict=verdict, ties=tie is not None))
    return tuple(said)


def _over(option: RankedOption, first: RankedOption) -> float:
    return option.cost.value / first.cost.value


def _changed(option: Option, **changes: Any) -> Option:
    return cast(Option, replace(cast(msgspec.Struct, option), **changes))


def tie_with_first(option: Option, first: Option, *, ranked_by: Callable[[Option], Quantity] = _cost) -> Ratio | None:
    """The ratio of both where it might be no more than the first's; what is less sure ties with nothing."""
    if option.sure is not first.sure:
        return None
    return tie_ratio(Pair(ranked_by(option), ranked_by(first), correlation(option.configuration, first.configuration)))


def at_risk(options: Sequence[Option]) -> Option | None:
    """The cheapest option without the confidence asked for, where it costs less than a first that has it."""
    if not options or not options[0].sure:
        return None
    cheaper = [option for option in options if not option.sure and option.cost.value < options[0].cost.value]
    return min(cheaper, key=lambda option: option.cost.value, default=None)
