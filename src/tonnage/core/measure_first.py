"""
Which five-minute measurement is the likeliest to overturn a plan? One line of every first screen.

Each option near the first has one unknown: how much faster it is than predicted, normal in logarithms, with the width
of its interval and the correlations of `error_model`. It moves the option's cost and its chance of meeting the
objectives. Measuring an option tells its own unknown, but for `REPEATED`, and part of all others that share causes;
then the plan's own rule is asked again: the cheapest of those with the confidence asked for. The measurement whose
outcomes most often lead to another option is proposed, with the value from which they do. `calibrate.worth` weighs two
and three measurements together, by draws; this is one, over `_STEPS` equally likely outcomes, in milliseconds.

A plan is overturned by another option, not by one replica more or less of the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import takewhile
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from tonnage.catalog import part_name, parts_name
from tonnage.catalog.spreads import NINETY, end_at, score_of
from tonnage.core.error_model import correlation
from tonnage.core.ranking import time_leads, weighed_usd_per_h
from tonnage.domain.answer import Quantity
from tonnage.domain.batch_plan import BatchOption
from tonnage.domain.calibration import FirstMeasurement
from tonnage.domain.infer_plan import InferOption
from tonnage.domain.metrics import METRICS
from tonnage.domain.plan import Bill, Configuration, RankedPlan, ServeOption
from tonnage.domain.train_plan import RunOption, TrainConfiguration, TrainOption
from tonnage.engines.registry import engine_spec
from tonnage.units import show, whole_percent

MINUTES: Final = 5.0
"""Of the measurement itself, without starting an instance and reading weights. [min]"""
REPEATED: Final = 0.03
"""A measurement of the very configuration and load repeats itself as well as this. [log]"""
MARGIN: Final = 0.02
"""Another option overturns the first from this share of its cost on: prices move more. [-]"""
LEAST: Final = 0.02
"""Chance of overturning below which a measurement is said to change nothing. [-]"""
COMPETING: Final = 8
"""Options that are weighed: the rest cost more even where all goes well. [-]"""
_STEPS: Final = 40
_HALVINGS: Final = 12
Weighed = ServeOption | BatchOption | RunOption | InferOption


class Rival(NamedTuple):
    """An option whose one unknown is how much faster it is than predicted, and what measuring it would be."""

    place: int
    """In the plan, from 0."""
    configuration: Configuration | TrainConfiguration | None
    cost: Callable[[float], float]
    """Where it is so many standard deviations faster than predicted. Money of any unit that its rivals share."""
    margin: float
    """Standard deviations from the prediction to its limits: it keeps them with a chance of the normal's integral."""
    measured: Quantity
    """What the measurement reads: a time [s] or a rate [1/s, tokens/s]."""
    name: str
    """Of that quantity."""
    what: str
    """The configuration in a few words."""
    load: str
    usd: float | None
    """Of `MINUTES` of what has to be rented; absent = bought, or one's own."""
    accelerators: float = 0.0
    """Of the whole option, by which two of one configuration differ."""

    @property
    def width(self) -> float:
        """Standard deviation of the logarithm of what is measured."""
        return max(1e-3, (_reach(self.measured, up=True) + _reach(self.measured, up=False)) / 2.0)

    def at(self, faster: float) -> float:
        """What the measurement reads where the option is so many standard deviations faster."""
        rising = (faster > 0.0) == (self.measured.unit != "s")
        moved = abs(faster) * _reach(self.measured, up=rising)
        return self.measured.value * math.exp(moved if rising else -moved)


def first_of(plan: RankedPlan[Any, Any], *, of: int | None = None) -> FirstMeasurement | None:
    """
    The measurement of ranked options, of those that may cost less than the first may; None where there are none.

    At most `COMPETING` are weighed, the first among them. With `of` it is a measurement of the option at that place.
    """
    options = [option for option in plan.options if isinstance(option, Weighed)]
    if not options:
        return None
    if time_leads(plan.request):
        options = [_by_time(one) for one in options]
    confidence, free = getattr(plan.request, "confidence", 0.5), 1.0 - getattr(plan.request, "headroom", 0.0)
    cap = _money(options[0], high=True)
    near = [place for place in range(1, len(options)) if place == of or _money(options[place], high=False) <= cap]
    chosen = sorted(near, key=lambda place: (place != of, _money(options[place], high=False), place))[: COMPETING - 1]
    rivals = [rival_of(options[place], place, free=free, confidence=confidence) for place in (0, *chosen)]
    return likeliest_to_overturn(rivals, confidence=confidence, of=of)


def likeliest_to_overturn(rivals: Sequence[Rival], *, confidence: float, of: int | None = None) -> FirstMeasurement:
    """
    Of the measurements of each rival, the one whose outcomes most often lead to another than the first.

    Where none does so with a chance of `LEAST`, that of the first, with the words that it changes no choice. With `of`
    only the option at that place is measured.

    Parameters
    ----------
    rivals : sequence of Rival
        The plan's choice first.
    confidence : float
        Chance of keeping its limits that an option needs. [-]
    """
    needed = score_of(end_at(confidence))
    best, lead, where = 0.0, next(rival for rival in rivals if of in (None, rival.place)), (0.0, 0, False)
    chance, far = 0.0, math.inf
    alone = lead
    # What is ranked behind for its price's trust, say, is behind it whatever its speed.
    while ahead := _choice(rivals, rivals[0], 0.0, needed=needed, prior=True):
        rivals = [*rivals[:ahead], *rivals[ahead + 1 :]]
    for rival in rivals if of is None else [one for one in rivals if one.place == of]:
        picks = [_choice(rivals, rival, outcome, needed=needed) for outcome in _outcomes()]
        turned = (_turns(rivals, rival, pick, at, needed=needed) for pick, at in zip(picks, _outcomes(), strict=True))
        share = sum(turned) / _STEPS
        if share > best:
            best, lead, where = share, rival, _turning_point(rivals, rival, picks, needed=needed)
            edge, _, slow = where
            order = slice(None, None, -1) if slow else slice(None)
            beyond = [(at, pick) for at, pick in zip(_outcomes()[order], picks[order], strict=True)
                      if (at <= edge if slow else at >= edge)]  # fmt: skip
            # Beyond the edge an option that shares its error may lead in its place: the first is overturned as well.
            # Farther on the first may lead again, with fewer replicas: the side ends there.
            held = [*takewhile(lambda one: one[1] != 0, beyond)]
            chance = len(held) / _STEPS
            far = (held[-1][0] + beyond[len(held)][0]) / 2.0 if len(held) < len(beyond) else math.inf
    if best < LEAST:
        return narrows(alone, "no likely result changes the choice")
    outcome, becomes, slower = where
    unit, value = lead.measured.unit, lead.at(outcome)
    above = slower == (unit == "s")
    end = None if far == math.inf else lead.at(far)
    when = f"{'over' if above else 'under'} {show(value, unit)}"
    if end is not None:
        when = f"between {show(min(value, end), unit)} and {show(max(value, end), unit)}"
    told = f"predicted {show(lead.measured.value, unit)}; {when}"
    other = rivals[becomes]
    more = f"on {other.accelerators:g}" if other.accelerators != lead.accelerators else "at another offer"
    instead = other.what if other.what != lead.what else f"the same {more}"
    then = "it leads" if other is lead else f"{instead} leads"
    return FirstMeasurement(
        sentence=f"{_lead(lead)}, {told} (chance {whole_percent(chance)}) {then}.",
        option=lead.place,
        what=lead.what,
        load=lead.load,
        quantity=lead.name,
        unit=unit,
        predicted=lead.measured.value,
        above=value if above else end,
        below=end if above else value,
        chance=chance,
        becomes=other.what,
        minutes=MINUTES,
        usd=lead.usd,
    )


def narrows(rival: Rival, why: str) -> FirstMeasurement:
    """A measurement that changes no choice, and what is said of that."""
    return FirstMeasurement(
        sentence=f"{_lead(rival)}; {why}.",
        option=rival.place,
        what=rival.what,
        load=rival.load,
        quantity=rival.name,
        unit=rival.measured.unit,
        predicted=rival.measured.value,
        minutes=MINUTES,
        usd=rival.usd,
    )


def to_stay_within(rival: Rival, limit: float, *, what: str) -> FirstMeasurement:
    """
    The measurement of a job whose cost must stay below a limit, in the unit of its cost; `what` names that limit.

    Its chance is that of outcomes that break the limit; below `LEAST` it is said to break nothing.
    """
    slower = [outcome for outcome in _outcomes() if rival.cost(outcome) > limit]
    least = max(slower, default=0.0)  # outcomes are negative where it is slower: the least slow one
    value, unit = rival.at(least), rival.measured.unit
    chance = len(slower) / _STEPS
    if chance < LEAST:
        return narrows(rival, f"no likely result breaks {what}")
    told = f"predicted {show(rival.measured.value, unit)}; under {show(value, unit)} (chance {whole_percent(chance)})"
    return replace(
        narrows(rival, ""),
        sentence=f"{_lead(rival)}, {told} it breaks {what}.",
        below=value,
        chance=chance,
        becomes=f"a smaller job within {what}",
    )


def _lead(rival: Rival) -> str:
    price = f", ${rival.usd:,.2f}" if rival.usd is not None else ""
    # One replica is measured, of which the table's row has several.
    row = f" (option {rival.place + 1})" if rival.place else ""
    return f"Measure first ({MINUTES:g} min{price}): {rival.name} of {rival.what}{row}, {rival.load}"


@cache
def _outcomes() -> tuple[float, ...]:
    """Equally likely outcomes of a measurement, in its own standard deviations."""
    return tuple(score_of(end_at((step + 0.5) / _STEPS)) for step in range(_STEPS))


def _choice(rivals: Sequence[Rival], seen: Rival, outcome: float, *, needed: float, prior: bool = False) -> int:
    """
    Place among the rivals of what leads once `seen` is measured `outcome` standard deviations faster than predicted.

    The cheapest that keeps its limits with the confidence asked for (`needed`, in standard deviations), else the
    likeliest to keep them. With `prior` nothing is measured, so that only the prediction counts.
    """
    known = 0.0 if prior else 1.0 / (1.0 + (REPEATED / seen.width) ** 2)
    able: list[tuple[float, int]] = []
    likeliest: list[tuple[float, int]] = []
    for place, rival in enumerate(rivals):
        shared = 1.0 if rival is seen else correlation(rival.configuration, seen.configuration)
        moved = shared * math.sqrt(known) * outcome
        margin = (rival.margin + moved) / math.sqrt(max(1e-6, 1.0 - shared * shared * known))
        cost = rival.cost(moved)
        if margin >= needed - 1e-6:
            # Ties stay with the first.
            able.append((cost * (1.0 - MARGIN if place == 0 else 1.0), place))
        likeliest.append((-margin, place))
    return min(able)[1] if able else min(likeliest)[1]


def _turning_point(
    rivals: Sequence[Rival], seen: Rival, picks: Sequence[int], *, needed: float
) -> tuple[float, int, bool]:
    """The outcome from which the choice is another, which it is, and whether that takes a slower outcome."""
    turned = [
        place for place, pick in enumerate(picks) if _turns(rivals, seen, pick, _outcomes()[place], needed=needed)
    ]
    slower = sum(_outcomes()[place] for place in turned) < 0.0
    edge = turned[-1] if slower else turned[0]
    other = min(_STEPS - 1, edge + 1) if slower else max(0, edge - 1)
    beyond, inside = _outcomes()[edge], _outcomes()[other]
    for _ in range(_HALVINGS):
        middle = (inside + beyond) / 2.0
        if _turns(rivals, seen, _choice(rivals, seen, middle, needed=needed), middle, needed=needed):
            beyond = middle
        else:
            inside = middle
    return beyond, picks[edge], slower


def _turns(rivals: Sequence[Rival], seen: Rival, pick: int, outcome: float, *, needed: float) -> bool:
    """
    Whether an outcome of measuring `seen`, after which `pick` leads, overturns the first.

    What it tells of third options is told better by measuring those, and so is what another option gains by a first
    that is as fast as predicted. A rival that leads only where it is slower does so because the first is slower with
    it, which measuring the first tells better.
    """
    if seen is rivals[0]:
        return pick != 0 and outcome < 0.0
    if rivals[pick] is not seen:
        return False
    return outcome > 0.0 or rivals[_choice(rivals, seen, 0.0, needed=needed)] is seen


# Kinds of options


def rival_of(option: Weighed, place: int, *, free: float = 1.0, confidence: float) -> Rival:
    """
    An option of any ranked plan as a rival.

    Parameters
    ----------
    place : int
        In the plan, from 0.
    free : float
        Share of capacity that the request plans with: one less its headroom. [-]
    confidence : float
        Chance that the request asks for. [-]
    """
    configuration = None if isinstance(option, InferOption) else option.configuration
    cost = smoothly(_cost(option))
    if isinstance(option, InferOption):
        measured, name, load, ranks = option.capacity_per_s, "samples/s", f"batches of {option.batch:,}", 1
        units = min(float(option.count), option.used * option.count / free)
        cost = _in_whole(units, option.count, each=1.0, usd=_cost(option).value, rate=measured)
    elif isinstance(option, ServeOption):
        capacity, ranks = option.capacity, option.configuration.ranks
        metric = METRICS["tpot_s" if capacity.tpot_s.value > 0.0 else "ttft_s"]
        measured, name = getattr(capacity, metric.name), metric.title
        load = f"{max(1, round(capacity.concurrency)):,} at once"
        units = option.replicas * (1.0 - option.headroom) / free
        each = option.accelerators / option.replicas / option.bill.accelerators_per_instance
        usd = weighed_usd_per_h(option)
        cost = _in_whole(units, option.replicas, each=each, usd=usd, rate=capacity.max_rate_per_s)
    elif isinstance(option, BatchOption):
        measured, name, ranks = option.items_per_s, "items/s", option.configuration.ranks
        load = f"{max(1, round(option.concurrency)):,} at once"
    elif isinstance(option, TrainOption):
        layout = option.configuration.layout
        # As few data-parallel replicas as hold what they share: more differ by the exchange of gradients alone.
        ranks = min(layout.ranks, layout.ranks // layout.dp * max(layout.ep, _fewest_sharing(option)))
        measured, name, load = option.step_s, "step time", "20 steps"
    else:
        measured, name, load, ranks = option.step_s, "step time", "whole steps", option.accelerators
    what = (
        f"{part_name(option.accelerator)} {option.precision.upper()}"
        if isinstance(option, InferOption)
        else few_words(option.configuration, ranks=ranks)
    )
    return Rival(
        place=place,
        configuration=configuration,
        cost=cost,
        margin=_margin(option, confidence=confidence),
        measured=measured,
        name=name,
        what=what,
        load=load,
        usd=_usd(option.bill, ranks),
        accelerators=option.count if isinstance(option, InferOption) else option.accelerators,
    )


def _fewest_sharing(option: TrainOption) -> int:
    """Data-parallel replicas, a power of two or all, that hold the states which the option's replicas share."""
    layout = option.configuration.layout
    shared = ("optimizer", "gradients", "weights")[: layout.zero_stage]
    each = sum(part.value for part in option.memory.parts if part.name in shared)
    room = option.limit_bytes - (option.memory.value - each)
    fewest = math.ceil(each * layout.dp / room) if room > 0.0 else layout.dp
    return min(layout.dp, 1 << max(0, fewest - 1).bit_length())


def few_words(c: Configuration | TrainConfiguration, *, ranks: int) -> str:
    """ "1 x h200-sxm-141gb TP1 FP8 vLLM"."""
    training = isinstance(c, TrainConfiguration)
    names = ("tp", "pp", "cp", "ep") if training else ("tp", "pp", "dp", "ep")
    degrees = [f"{name.upper()}{n}" for name in names if (n := getattr(c.layout, name)) > 1]
    if isinstance(c, TrainConfiguration):
        degrees += [c.layout.sharding.upper()] if c.layout.zero_stage >= 3 else []
        software = [c.precision.upper(), c.software]
    else:
        software = [c.precision.stored.upper(), *c.settings(), engine_spec(c.engine.name).title]
    return " ".join([parts_name(ranks, c.accelerator), *(degrees or ["TP1"]), *software])


def smoothly(cost: Quantity) -> Callable[[float], float]:
    """A cost that falls with speed as its own interval says."""

    def of(faster: float) -> float:
        return cost.value * math.exp(-faster * _reach(cost, up=faster < 0.0))

    return of


def _in_whole(units: float, replicas: int, *, each: float, usd: float, rate: Quantity) -> Callable[[float], float]:
    """
    The hourly cost of a service, which falls with speed by whole instances; spare replicas stay as planned.

    Parameters
    ----------
    units : float
        Replicas that the load needs as predicted, before they are rounded up.
    replicas : int
        Replicas as planned, spare ones included.
    each : float
        Instances that one replica takes.
    usd : float
        Cost as planned. [USD/h]
    rate : Quantity
        What one replica takes; its interval says how far speed may move it.
    """
    spare = replicas - math.ceil(units - 1e-9)
    rented = max(1, math.ceil(replicas * each - 1e-9))

    def of(faster: float) -> float:
        needed = units * math.exp(-faster * _reach(rate, up=faster > 0.0))
        count = max(1, math.ceil(needed - 1e-9) + spare)
        return usd * math.ceil(count * each - 1e-9) / rented

    return of


def _margin(option: Weighed, *, confidence: float) -> float:
    """Standard deviations from the prediction to an option's limits; infinite where no chance is known."""
    chance = option.chance
    if not option.sure and (chance is None or chance >= confidence):
        return -math.inf  # unsure for what no measurement of speed tells
    return math.inf if chance is None else score_of(end_at(chance))


def _reach(quantity: Quantity, *, up: bool) -> float:
    """Standard deviation of a quantity's logarithm on one side; 0 where it has no interval."""
    end = quantity.high if up else quantity.low
    if not end or end <= 0.0 or quantity.value <= 0.0:
        return 0.0
    return abs(math.log(end / quantity.value)) / NINETY


def _cost(option: Weighed) -> Quantity:
    """What it costs: rent, of a job in all; of what nobody rents, its price."""
    if not isinstance(option, InferOption):
        return option.cost
    usd = option.bill.usd_per_hour if option.bill is not None else option.price_usd
    return Quantity(value=math.inf if usd is None else usd, unit="USD").within(
        math.exp(NINETY * _reach(option.capacity_per_s, up=True))
    )


def _by_time(option: Weighed) -> Weighed:
    """A job's option that costs its time."""
    if isinstance(option, BatchOption):
        return replace(option, cost=option.wall_s)
    return replace(option, cost=option.run.wall_s) if isinstance(option, RunOption) else option


def _money(option: Weighed, *, high: bool) -> float:
    """An end of the interval of what it costs."""
    cost = _cost(option)
    return float((cost.high if high else cost.low) or cost.value)


def _usd(bill: Bill | None, ranks: float) -> float | None:
    """Rent of the instances that so many accelerators take, for `MINUTES`; None where nothing is rented. [USD]"""
    if bill is None:
        return None
    instances = max(1, math.ceil(ranks / bill.accelerators_per_instance - 1e-9))
    return instances * bill.usd_per_instance_hour * MINUTES / 60.0


def likelier(found: Iterable[FirstMeasurement | None]) -> FirstMeasurement | None:
    """Of the measurements of a plan's parts, the likeliest to overturn it; the first of those that are equal."""
    known = [one for one in found if one is not None]
    return max(known, key=lambda one: one.chance, default=None)
