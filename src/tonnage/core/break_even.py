"""
At which value of an input does another option win? Planned again along that input; the nearest change is named.

A plan hands in a function: value of one input -> what each contender costs there, those that cannot do it left out.
Everything that does not depend on that input was worked out once by the plan, so that asking again is arithmetic.
The value is where another contender becomes the cheapest; its interval begins where the two cannot be told apart
within the errors of their costs, and ends where the other wins beyond them. Where they cannot be told apart at the
present value already, they tie, and the point says so.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from tonnage.catalog import part_name, parts_name
from tonnage.core.error_model import Pair, Ratio, correlation, ratio
from tonnage.core.ranking import unlikely
from tonnage.domain.answer import Quantity
from tonnage.domain.batch_plan import BatchOption
from tonnage.domain.plan import BreakEven, Configuration, ServeOption
from tonnage.domain.train_plan import TrainConfiguration, TrainOption
from tonnage.record import Record

RATIO: Final = 1.1
"""Step of the scan along an input. [-]"""
PRECISE: Final = 0.005
"""A flip is narrowed to this share of its value. [-]"""
REACH: Final = 8.0
"""How far from the present value is looked, either way. [-]"""
MAX_PRICES: Final = 3
"""Rivals whose price is named."""
DOUBLINGS: Final = (-3, -2, -1, 0, 1, 2, 3)
"""Of the present lengths, at which rates are worked out."""
Thing = TypeVar("Thing")


class Axis(Record, kw_only=True):
    """One input of a request: its name, what it is now, its unit, and how far it may go."""

    name: str
    now: float
    unit: str
    least: float = 0.0
    most: float = math.inf
    ratio: float = RATIO
    down: bool = True
    """Whether smaller values are looked at."""
    up: bool = True


class Contender(Record, kw_only=True):
    """One option at one value of an input."""

    name: str
    """Options of one name are the same choice."""
    cost: Quantity
    """Without an interval it is exact."""
    told: str
    """What the answer would become."""
    sure: bool = True
    """Options that are not sure never win over those that are."""
    chance: float | None = None
    """Of options that are not sure the likeliest leads, whatever it costs. [-]"""
    listed: bool = True
    """At a price that its seller states: of options alike sure, others never win over these."""
    configuration: Configuration | TrainConfiguration | None = None
    """Says which errors it shares with others; absent = none."""

    @property
    def standing(self) -> tuple[bool, bool, float]:
        """What comes before its cost: plans are ranked by chance, then by who states the price."""
        return self.sure, self.listed, -unlikely(self.chance, sure=self.sure)


Along = Callable[[float], Sequence[Contender]]


Rented = ServeOption | BatchOption | TrainOption


def break_even_along(axis: Axis, *, at: Along, nothing: str = "nothing does it") -> tuple[BreakEven, ...]:
    """
    The nearest change below and above the present value of one input.

    Parameters
    ----------
    axis : Axis
        The input.
    at : callable
        Value -> the contenders that can do it there.
    nothing : str, optional
        What the answer becomes where none is left.

    Returns
    -------
    tuple of BreakEven
        At most one above and one below; none on a side where the leader stays within `REACH`, and none at all where
        no contender can do it now.
    """
    here = at(axis.now)
    if not here:
        return ()
    leader = _winner(here)
    seen: dict[float, _State] = {}

    def state(value: float) -> _State:
        if value not in seen:
            seen[value] = _state(leader.name, at(value), nothing)
        return seen[value]

    found = []
    for wanted, step, word in ((axis.up, axis.ratio, "above"), (axis.down, 1.0 / axis.ratio, "below")):
        if wanted:
            flip = _nearest(axis, step, word, state)
            found += [flip] if flip is not None else []
    return tuple(found)


def break_even_prices(options: Sequence[Rented]) -> tuple[BreakEven, ...]:
    """
    Prices of an instance-hour at which another accelerator would cost as little as the first option, which leads now.

    Of each other accelerator its best option counts, the cheapest `MAX_PRICES` of those; one less sure than the first
    never leads. Empty where no option has the confidence asked for: the likeliest leads then, whatever it costs.
    """
    if not options or not options[0].sure:
        return ()
    best, first = options[0], dict[str, Rented]()
    for option in options[1:]:
        first.setdefault(option.configuration.accelerator, option)
    leader = best.configuration.accelerator
    found = []
    for rival in sorted(first.values(), key=lambda option: option.cost.value):
        name, price = rival.configuration.accelerator, rival.bill.usd_per_instance_hour
        if name == leader or rival.sure < best.sure:
            continue
        value = price * best.cost.value / rival.cost.value
        instance = parts_name(rival.bill.accelerators_per_instance, name)
        over = _over(rival, best)
        # Factors by which the rival's price may be wrong: up to which it ties, and from which it has won.
        spread, certain = (over.value / over.low, over.high / over.value) if over.low > 0 else (1.0, 1.0)
        found.append(
            BreakEven(
                input=f"{instance} ({rival.bill.instance_type}, {rival.bill.term}) below",
                value=value,
                unit="USD/h",
                becomes=f"cheaper than {part_name(leader)}",
                low=value / certain,
                high=value * spread,
                now=price,
                ties=value * spread >= price,
            )
        )
    return tuple(found[:MAX_PRICES])


class _State(Record):
    """How the present leader stands at one value."""

    lost: bool
    """Another is cheaper, or the leader cannot do it."""
    close: bool
    """Another cannot be told apart from it, or has won."""
    gone: bool
    """Another has won beyond errors."""
    told: str


def _winner(contenders: Iterable[Contender]) -> Contender:
    """The one of the highest standing, the cheapest of those."""
    return min(contenders, key=lambda c: (*(-part for part in c.standing), c.cost.value))


def _state(leader: str, contenders: Sequence[Contender], nothing: str) -> _State:
    """How the option of that name stands among contenders at one value; `nothing` is told where there are none."""
    if not contenders:
        return _State(lost=True, close=True, gone=True, told=nothing)
    best = _winner(contenders)
    own = [c for c in contenders if c.name == leader]
    if not own:
        return _State(lost=True, close=True, gone=True, told=best.told)
    mine = _winner(own)
    others = [c for c in contenders if c.name != leader and c.standing >= mine.standing]
    above = any(c.standing > mine.standing for c in others)
    return _State(
        lost=best.name != leader,
        close=above or any(_over(c, mine).low <= 1.0 for c in others),
        gone=above or any(_over(c, mine).high < 1.0 for c in others),
        told=best.told,
    )


def _over(other: Contender | Rented, leader: Contender | Rented) -> Ratio:
    """The other's cost over the leader's, with its interval; without one where a cost is zero or infinite."""
    shared = correlation(other.configuration, leader.configuration)
    usd, first = other.cost.value, leader.cost.value
    exact = usd / first if first > 0 else math.inf if usd > 0 else 1.0
    return ratio(Pair(other.cost, leader.cost, shared)) or Ratio(exact, exact, exact)


def _nearest(axis: Axis, step: float, word: str, state: Callable[[float], _State]) -> BreakEven | None:
    """
    The nearest value at which the leader loses, with the interval around it; None where it stays within `REACH`.

    An end of the interval is None where the other does not win beyond errors within `REACH`.
    """
    scan = _scan(axis, step)
    value = _crossing(axis.now, scan, lambda v: state(v).lost)
    if value is None:
        return None
    near = _crossing(axis.now, scan, lambda v: state(v).close)
    far = _crossing(axis.now, scan, lambda v: state(v).gone)
    ties = state(axis.now).close
    early = axis.now if ties else near
    low, high = (early, far) if word == "above" else (far, early)
    return BreakEven(
        input=f"{axis.name} {word}",
        value=value,
        unit=axis.unit,
        becomes=state(value).told,
        low=low,
        high=high,
        now=axis.now,
        ties=ties,
    )


def _scan(axis: Axis, step: float) -> list[float]:
    """Values from the present one on, each `step` times the one before, as far as `REACH` and the axis go."""
    steps = math.ceil(math.log(REACH) / abs(math.log(step)))
    values = [axis.now * step**k for k in range(1, steps + 1)]
    return [value for value in values if axis.least <= value <= axis.most]


def _crossing(now: float, scan: Sequence[float], changed: Callable[[float], bool]) -> float | None:
    """
    The first value at which it has changed, narrowed to `PRECISE`; None where nothing changes along the scan.

    Where it has changed at the present value already, the first value of the scan.
    """
    before = now
    for value in scan:
        if changed(value):
            break
        before = value
    else:
        return None
    if changed(now):
        return scan[0]
    near, far = before, value
    while abs(far / near - 1.0) > PRECISE:
        middle = math.sqrt(near * far)
        near, far = (near, middle) if changed(middle) else (middle, far)
    return far


Known = Sequence[tuple[Thing, Sequence[tuple[float, float]]]]
"""Things, each with what it takes at shares of the present lengths over what it takes at these, the smallest first."""


def scaled_at(known: Known[Thing], share: float) -> Iterator[tuple[Thing, float]]:
    """
    Each thing with what it takes at `share` times the present lengths, over what it takes at these. [-]

    Things that are not known at so long or so short lengths are left out.
    """
    for thing, points in known:
        scale = _between(points, share)
        if scale is not None:
            yield thing, scale


def _between(points: Sequence[tuple[float, float]], share: float) -> float | None:
    """The scale at a share, interpolated between the two nearest known points on logarithms; None beyond all."""
    after = bisect_left([known for known, _ in points], share * (1 - 1e-9))
    if after == len(points):
        return None
    if after == 0:
        return points[0][1] if math.isclose(share, points[0][0], rel_tol=1e-6) else None
    (near, a), (far, b) = points[after - 1], points[after]
    t = math.log(share / near) / math.log(far / near)
    return float(a ** (1.0 - t) * b**t)
