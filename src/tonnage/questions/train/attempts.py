"""Which rentals of a job are arranged, and which of what is found is kept: for training and reinforcement learning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import ceil, inf, log, log2
from typing import Final

from tonnage.core.ranking import EVEN, time_leads, unlikely
from tonnage.domain.refusal import refusal
from tonnage.domain.train_plan import FineTune, Train
from tonnage.pricing.bills import primary_first
from tonnage.questions.rl.question import Rl
from tonnage.questions.train.option import ROUNDING, Option
from tonnage.questions.train.places import InfeasibleRun, Rental
from tonnage.record import Record
from tonnage.units import show

DOUBLINGS: Final = 3
"""Counts looked at beyond the first that could do it."""
KEPT_PER_ACCELERATOR: Final = 3
WORTH: Final = 1.5
"""A rental whose least cost is beyond this multiple of the best found is not arranged. [-]"""
ALIKE: Final = 0.02
"""Share of its time by which a run on owned accelerators may be longer for less power. [-]"""


class Attempt(Record, kw_only=True):
    """A rental with the least it can take and cost."""

    rental: Rental
    wall_s: float
    usd: float


def doublings_to(count: float) -> int:
    """Doublings of one accelerator until there are so many."""
    return ceil(log2(max(1.0, count)))


def search_attempts(
    request: Train | FineTune | Rl,
    attempts: Iterable[Attempt],
    *,
    arrange: Callable[[Rental], list[Option | InfeasibleRun]],
    worth: float,
    goal_s: float = inf,
    whatever: bool = False,
) -> tuple[list[Option], list[InfeasibleRun], int]:
    """
    Arrange rentals, those that can be best first, until what is left cannot be near the best.

    Parameters
    ----------
    arrange : callable
        Rental -> one outcome for each term of its offers.
    worth : float
        Multiple of the best found beyond which nothing is arranged. [-]
    goal_s : float
        What ends later rules out nothing. [s]
    whatever : bool
        The first is arranged even where it must cost more than the budget.

    Returns
    -------
    Options, what cannot do it, and how many rentals were arranged.
    """
    budget = request.budget_usd or inf
    worth = inf if time_leads(request) else worth
    options: list[Option] = []
    missed: list[InfeasibleRun] = []
    best, arranged = inf, 0
    for attempt in sorted(attempts, key=lambda t: (t.usd, t.rental.place.count)):
        dear = attempt.usd > budget and not whatever
        if dear or (arranged and (attempt.usd > budget or attempt.usd / worth > best)):
            missed.append(_ruled_out(attempt, best, budget_usd=budget))
            continue
        # No count rules out a larger one: with memory left free four times the parts have been 24 times as fast.
        arranged += 1
        for outcome in arrange(attempt.rental):
            if isinstance(outcome, InfeasibleRun):
                missed.append(outcome)
                continue
            options.append(outcome)
            in_time = outcome.run.wall_s.value <= goal_s and outcome.chance >= request.confidence
            if in_time and outcome.sure and outcome.bill.trust == "primary":
                best = min(best, outcome.cost.value)
    return options, missed, arranged


def _ruled_out(attempt: Attempt, best: float, *, budget_usd: float) -> InfeasibleRun:
    """The verdict on a rental that is not arranged: beyond the budget at best, or far beyond the best found."""
    if attempt.usd > budget_usd:
        verdict = refusal(
            "budget",
            f"{attempt.rental.what} costs at least {show(attempt.usd, 'USD')} however it is arranged, and "
            f"{show(budget_usd, 'USD')} are allowed",
            short_by=attempt.usd - budget_usd,
        )
    else:
        least = f"{show(attempt.usd, 'USD')}, {attempt.usd / best:.1f} times the best"
        short = attempt.usd - best
        verdict = refusal("cost", f"costs at least {least}, however it is arranged", short_by=short, unit="USD")
    return attempt.rental.misses(verdict)


def best_first(
    options: Sequence[Option],
    *,
    request: Train | FineTune | Rl,
    most: int,
    goal_s: float = inf,
    work_usd: Callable[[Option], float] = lambda option: 0.0,
) -> list[Option]:
    """
    The best of each accelerator, at most so many, and the cheapest of all: what ends in time before the rest, of these
    the surest enough, the cheapest of them first; where none has the confidence, the likeliest. `work_usd` is what an
    option costs beside its bill, in work of people. [USD]
    """

    soonest = time_leads(request)

    def order(option: Option) -> tuple[bool, bool, float, float, float, float]:
        wall, usd = option.run.wall_s.value, option.cost.value + work_usd(option)
        behind = unlikely(option.chance, sure=option.chance >= request.confidence - ROUNDING)
        first = round(log(wall) / ALIKE) if soonest and 0.0 < wall < inf else 0.0
        return wall > goal_s, not option.sure, behind, first, usd, wall

    def price(option: Option) -> tuple[bool, bool, float]:
        return option.bill.trust != "primary", option.run.wall_s.value > goal_s, option.cost.value

    able = ([o for o in options if o.sure], [o for o in options if o.chance >= EVEN])
    cheapest = {id(min(those, key=price)) for those in able if those}
    kept: list[Option] = []
    seen: Counter[str] = Counter()
    for option in primary_first(sorted(options, key=order)):
        name = option.configuration.accelerator
        if (seen[name] < KEPT_PER_ACCELERATOR and len(kept) < most) or id(option) in cheapest:
            kept.append(option)
            seen[name] += 1
    return kept
