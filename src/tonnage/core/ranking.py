"""
The order of options, said once: why the first leads, what others cost, which cannot be told apart; the frontier.

A few options to choose from, for any kind of plan: cheapest as sure as asked or with an even chance, fastest near its
price, resilient or soonest. An
option is compared by four traits, which each kind of plan computes; the rule is the same for all kinds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from tonnage.core.error_model import Pair, Ratio, correlation, tie_ratio, within_text
from tonnage.domain.answer import Quantity
from tonnage.domain.batch_plan import BatchOption
from tonnage.domain.infer_plan import InferOption
from tonnage.domain.plan import Bill, Choice, ChoiceName, Configuration, RankedOption, ServeOption
from tonnage.domain.requests.serve import Serve
from tonnage.domain.train_plan import RunOption, TrainConfiguration
from tonnage.record import Record
from tonnage.simulation.router import working_replicas

EVEN: Final = 0.5
"""Chance from which an option is shown beside those with the confidence asked for. [-]"""
SAVES: Final = 0.02
"""Share of the cheapest's cost, or of the first's time, that another option saves to be shown beside it. [-]"""
NEAR: Final = 1.1
"""Times the first option's cost that the fastest may cost. [-]"""


STALE: Final = 1.05
"""Times that a price counts which nobody has read for 90 days; set by hand. [-]"""
UPKEEP_USD_PER_H: Final = 4.0 * 130_000.0 / (2_080.0 * 730.0)
"""
What one more kind of machinery counts: four hours a month of an administrator's year (the planning estimates of
catalog/data/tco/tco.csv: small_workstation_hours_month, admin_fte_year). [USD/h]
"""


Ranked = RankedOption[Configuration] | RankedOption[TrainConfiguration]
Option = TypeVar("Option", bound=Ranked)
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


STEPS: Final = 10.0
"""Of the confidence, from 0 to 1, in which it is lowered where nothing has what was asked for. [-]"""


def unlikely(chance: float | None, *, sure: bool) -> float:
    """
    What ranks an option before its cost: nothing where it has the confidence asked for, else the likelier first.

    Likelier in whole tens of points, as if the confidence had been lowered by ten until something has it: eight times
    the accelerators do not lead for half a point more. On measured configurations the limit is then kept more often
    than where the cheapest leads or none is named (docs/accuracy/confidence.csv).

    Examples
    --------
    >>> unlikely(0.9, sure=True), unlikely(0.7, sure=False) < unlikely(0.6, sure=False)
    (0.0, True)
    >>> unlikely(0.505, sure=False) == unlikely(0.59, sure=False)
    True
    """
    return 0.0 if sure or chance is None else -math.floor(round(STEPS * chance, 3)) / STEPS


def surely_cheapest(option: Ranked) -> tuple[bool, float, float]:
    """Order of the options: those with the confidence asked for by cost; where none has it, the likeliest first."""
    return not option.sure, unlikely(option.chance, sure=option.sure), option.cost.value


def time_leads(request: Any) -> bool:
    """Whether a job's accelerators are there, cost their power alone, and no deadline is stated: the soonest leads."""
    timed = getattr(request, "deadline_s", 0.0) is None
    return timed and bool(request.filters.owned) and not request.filters.own_prices


def _cost(option: Ranked) -> Quantity:
    return option.cost


def with_verdicts(
    options: tuple[Option, ...],
    *,
    lead: Callable[[Option], str],
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
    lead : callable
        The first option -> why it leads.
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
    said = [replace(first, verdict="; ".join(filter(None, (lead(first), risk(first), arithmetic(first)))))]
    for option in options[1:]:
        tie = tie_with_first(option, first, ranked_by=ranked_by)
        known = within_text(tie)
        against = (
            ratios(option, known) if ratios else f"{option.cost.value / first.cost.value:.2f}x the first's cost{known}"
        )
        verdict = "; ".join(filter(None, (against, risk(option), arithmetic(option))))
        said.append(replace(option, verdict=verdict, ties=tie is not None))
    return tuple(said)


def tie_with_first(option: Option, first: Option, *, ranked_by: Callable[[Option], Quantity] = _cost) -> Ratio | None:
    """
    The ratio of both quantities where the option's may be no more than the first's; None where it does not tie.

    An option that has the confidence asked for and one that has not never tie.
    """
    if option.sure is not first.sure:
        return None
    return tie_ratio(Pair(ranked_by(option), ranked_by(first), correlation(option.configuration, first.configuration)))


def weighed_usd_per_h(option: ServeOption) -> float:
    """
    The score by which options as sure as asked for are recommended: price by its age, and upkeep. [USD/h]

    Prefill and decode in pools, and a replica over several machines, are one more kind of machinery each. How well the
    kernels are known is no part of it: the chance of meeting the objectives holds that.
    """
    bill, run = option.bill, option.configuration
    kinds = (run.pools is not None) + (run.layout.ranks > bill.accelerators_per_instance)
    return bill.compared_usd_per_hour * (STALE if bill.stale else 1.0) + kinds * UPKEEP_USD_PER_H


def recommended(options: Sequence[ServeOption]) -> ServeOption:
    """
    Which of some options by cost to recommend: of those as sure as asked for what weighs least, else the first.

    At least one option is given.
    """
    first = options[0]
    alike = [one for one in options if first.sure and one.sure and one.bill.trust == first.bill.trust]
    return min(alike, key=weighed_usd_per_h, default=first)


def at_risk(options: Sequence[Option]) -> Option | None:
    """The cheapest option with an even chance, where it costs less than all with the confidence asked for."""
    if not options or not options[0].sure:
        return None
    least = min(option.cost.value for option in options if option.sure) * (1.0 - SAVES)
    likely = [option for option in options if not option.sure and (option.chance is None or option.chance >= EVEN)]
    cheaper = [option for option in likely if option.cost.value < least]
    return min(cheaper, key=lambda option: option.cost.value, default=None)


class Traits(Record, kw_only=True):
    """What a choice between options looks at."""

    usd: float
    """Of the job, or of an hour of service; infinite where nobody rents it. [USD]"""
    seconds: float
    """To the end of the job, or of a mean request. [s]"""
    sure: bool = True
    chance: float | None = None
    """Of keeping what is asked for; absent where nothing is. [-]"""
    late: bool = False
    """Ends after what a run without a deadline may take."""
    listed: bool = True
    """At a price that its seller states."""
    survives: bool | None = None
    """Carries the peak when one instance or replica is lost; absent for jobs."""


def choices(options: Sequence[Traits]) -> tuple[Choice, ...]:
    """
    The options worth choosing from, by their place in the ranking; never the same option twice.

    "cheapest" has the confidence asked for where one does; where the ranking puts another first, that is "recommended".
    "even" is cheaper still, with an even chance. "fastest" is faster than the first by `SAVES` or more and costs at
    most `NEAR` times as much. Of a service, "resilient" is the cheapest that carries the peak after a failure, where
    the first does not; of a job, "soonest" is what ends first at any price. What else cannot lead is no choice: an
    option less sure than the first, or at a price of third parties where the first's is its seller's (it may look
    cheaper than the cheapest).
    """
    if not options:
        return ()
    first = options[0]
    alike = [
        place
        for place, option in enumerate(options)
        if (option.listed or not first.listed) and (first.late or not option.late)
    ]
    able = [place for place in alike if options[place].sure or not first.sure]
    found: dict[int, ChoiceName] = {0: "cheapest"}
    if first.sure:
        least = min(able, key=lambda i: (options[i].usd, i))
        likely = [i for i in alike if options[i].sure or (options[i].chance or 0.0) >= EVEN]
        even = min(likely, key=lambda i: (options[i].usd, i))
        found = {0: "recommended", least: "cheapest"} if least else found
        if options[even].usd < options[least].usd * (1.0 - SAVES):
            found.setdefault(even, "even")
    near = [i for i in able if options[i].usd <= NEAR * first.usd]
    fastest = min(near, key=lambda i: (options[i].seconds, options[i].usd), default=0)
    seconds = first.seconds
    if options[fastest].seconds < seconds * (1.0 - SAVES):
        found.setdefault(fastest, "fastest")
        seconds = options[fastest].seconds
    if first.survives is None:
        last = min(able, key=lambda i: (options[i].seconds, options[i].usd))
        if options[last].seconds < seconds * (1.0 - SAVES):
            found.setdefault(last, "soonest")
    elif not first.survives:
        safe = [i for i in able if options[i].survives]
        found.setdefault(min(safe, key=lambda i: (options[i].usd, i), default=0), "resilient")
    return tuple(Choice(name=name, option=place) for place, name in found.items())


def traits_of(request: object, option: object) -> Traits:
    """
    The traits of an option of any kind of plan.

    Of a service: an hour of it, a mean request or sample, and whether the load is carried with one instance (or
    replica) fewer. Of a job: its bill and the time to its end.
    """
    if isinstance(option, ServeOption):
        assert isinstance(request, Serve)
        working = working_replicas(request, option.replicas)
        lost = max(1, math.ceil(option.replicas / option.bill.instances))
        return Traits(
            usd=option.bill.usd_per_hour,
            seconds=option.capacity.stay_s(request.lengths.output_tokens),
            sure=option.sure,
            chance=option.chance,
            listed=_listed(option.bill),
            survives=(1.0 - option.headroom) * working <= option.replicas - lost,
        )
    if isinstance(option, InferOption):
        instances = option.bill.instances if option.bill is not None else option.count
        lost = max(1, math.ceil(option.count / instances))
        return Traits(
            usd=option.bill.usd_per_hour if option.bill is not None else math.inf,
            seconds=option.latency_s.value,
            listed=_listed(option.bill),
            survives=option.used * option.count <= option.count - lost,
        )
    assert isinstance(option, BatchOption | RunOption)
    wall = option.wall_s if isinstance(option, BatchOption) else option.run.wall_s
    return Traits(
        usd=option.cost.value,
        seconds=wall.value,
        sure=option.sure,
        chance=option.chance,
        listed=_listed(option.bill),
    )


def _listed(bill: Bill | None) -> bool:
    """Whether a price is its seller's; what nobody rents has none to doubt."""
    return bill is None or bill.trust == "primary"
