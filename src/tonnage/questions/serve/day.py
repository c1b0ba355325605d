"""
The first option while its load rises and falls: sized, followed, switched off, or a committed base with a burst.

The load repeats: a day or a week by the hour, or bursts and pauses. A fleet that follows it starts replicas a cold
start before they are needed, for the hours are known; one that scales to zero is switched off when nobody has asked
for a while, and the next request waits for a start. Costs are those of whole instances, for the time that the provider
charges: every stop loses half of its billing step on average.

A committed base: the fleet that follows its load has n(t) replicas. With k of them committed an hour costs C(k)
whatever happens, and the others D(n(t) - k) while they run. C counts with what on-demand prices are expected to do
over the term (`core.quotes`), so that the k which is picked is the one that costs least over the whole of it; what is
printed is what is paid now.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from datetime import date
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage.catalog import Additions, provider_name
from tonnage.catalog.traffic import shapes
from tonnage.core.cold_start import cold_start
from tonnage.core.sites import Site, sites, with_slices
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.cost import BillingRules
from tonnage.domain.plan import Bill, ServeOption
from tonnage.domain.requests.serve import Serve
from tonnage.domain.serve_parts import FleetDay, FleetWay, Valleys
from tonnage.pricing.bills import HOURS_PER_MONTH, usd_per_hour_of
from tonnage.pricing.terms import PREPAID, billing_rules, mean_charged_s
from tonnage.questions.serve.option import bills_of
from tonnage.simulation.router import Idle, idle_of_bursts, idle_of_poisson, replicas_in_all, replicas_of_day
from tonnage.units import percent, show

INTERVAL_S: Final = 300.0
"""A day is cut into. [s]"""
HOUR_S: Final = 3600.0
DAY_S: Final = 86400.0
ON_DEMAND: Final = "on-demand"
BASE: Final = "base and burst"


def fleet_day(request: Serve, option: ServeOption, *, prices: BasePrices | None = None) -> FleetDay | None:
    """
    What each way of sizing the option's fleet costs; absent when the load is not said to vary over time.

    `prices` of committed replicas add a base that stands and a burst on demand, where that costs less.
    Absent as well where adapters are merged: each set of replicas then follows the load of its own adapter.
    """
    shape, kept = request.shape, option.configuration.engine.adapters
    if kept is not None and kept.kept == "merged":
        return None
    if request.rate_per_s is None or not (shape.hours or shape.on_s):
        return None
    start = _start(request, option)
    rates, interval = _rates(request, start.value)
    usable_per_s = option.capacity.max_rate_per_s.value * (1.0 - request.headroom)
    followed = replicas_of_day(rates, interval_s=interval, capacity_per_s=usable_per_s, lead_s=start.value)
    replicas = tuple(replicas_in_all(request, needed) for needed in followed)
    named = f"in bursts of {show(shape.on_s, 's')} with pauses of {show(shape.off_s or 0.0, 's')}" if shape.on_s else ""
    ways: tuple[FleetWay, ...] = (
        _peak(request, option, rates, usable_per_s),
        _average(request, option, rates, usable_per_s),
        _autoscale(request, option, replicas, start_s=start.value, interval_s=interval),
        _to_zero(request, option, rates, usable_per_s=usable_per_s, start_s=start.value),
    )
    based = _base_and_burst(request, option, replicas, prices=prices, interval_s=interval, like=ways[2])
    ways = (*ways, *([based] if based is not None else []))
    fit = [way for way in ways if way.meets and way.name not in ({BASE} if not _allowed(based) else set())]
    return FleetDay(
        shape=shape.name or named or "by the hour as given",
        source=shapes()[shape.name].source if shape.name else "yours",
        period_s=len(rates) * interval,
        interval_s=interval,
        rates_per_s=rates,
        replicas=replicas,
        usable_per_s=usable_per_s,
        cold_start=start,
        ways=ways,
        wasted_share=max(0.0, 1.0 - ways[2].usd_per_hour / ways[0].usd_per_hour),
        valleys=_valleys(request, option, rates, usable_per_s),
        best=min(fit, key=lambda way: way.usd_per_hour).name,
    )


def _start(request: Serve, option: ServeOption) -> Quantity:
    """From the decision to the first token, opened into its parts. [s]"""
    if request.cold_start_s is not None:
        part = Quantity(name="as given", value=request.cold_start_s, basis=Basis.ASSUMED, source="yours")
        return Quantity.of_parts("s", (part,)) if part.value else Quantity(value=0.0, unit="s")
    found = cold_start(
        weight_bytes=option.weight_bytes,
        provider=option.bill.provider,
        start_from=request.start_from,
        graphs=option.configuration.engine.cuda_graphs is not False,
    )
    return Quantity.of_parts("s", found.parts)


def _rates(request: Serve, start_s: float) -> tuple[tuple[float, ...], float]:
    """Mean arrivals of each interval of the period [1/s], and the length of an interval [s]."""
    shape, mean = request.shape, request.rate_per_s or 0.0
    if shape.hours:
        each = round(HOUR_S / INTERVAL_S)
        return tuple(mean * hour for hour in shape.hours for _ in range(each)), INTERVAL_S
    # One burst and one pause of mean lengths, in steps that see the shorter of them and a start.
    on, off = shape.on_s or 0.0, shape.off_s or 0.0
    step = max(1.0, min(INTERVAL_S, on / 4.0, off / 4.0, max(start_s, 10.0) / 2.0), (on + off) / 20_000.0)
    busy, idle = max(1, round(on / step)), max(1, round(off / step))
    peak = mean * (busy + idle) / busy
    return (peak,) * busy + (0.0,) * idle, step


def _replicas_needed(rate: float, usable_per_s: float) -> int:
    """Replicas that carry a rate, one at least; spares are added by the caller."""
    return max(1, math.ceil(rate / usable_per_s - 1e-9))


def _is_reserved(option: ServeOption) -> bool:
    """Whether the price is paid for every hour, used or not."""
    return option.bill.term in PREPAID


def _usd_per_hour(option: ServeOption, replicas: int) -> float:
    return usd_per_hour_of(option.bill, replicas=replicas, ranks=option.configuration.ranks)


def _spare_sentence(request: Serve, needed: int, replicas: int) -> str:
    if replicas == needed:
        return f"{needed}"
    why = f"one of {request.zones} zones may be lost" if request.zones > 1 else f"{request.spare_replicas} spare"
    return f"{needed}, {replicas} in all ({why})"


def _peak(request: Serve, option: ServeOption, rates: tuple[float, ...], usable_per_s: float) -> FleetWay:
    """Replicas for the busiest interval, on all the time: the fleet that others are compared with."""
    top = max(rates)
    needed = _replicas_needed(top, usable_per_s)
    replicas = replicas_in_all(request, needed)
    cost = _usd_per_hour(option, replicas)
    return FleetWay(
        name="peak",
        replicas_mean=float(replicas),
        replicas_most=replicas,
        usd_per_hour=cost,
        usd_per_month=cost * HOURS_PER_MONTH,
        arithmetic=(
            f"{show(top, '1/s')} / {show(usable_per_s, '1/s')} = {top / usable_per_s:.2f}, "
            f"so {_spare_sentence(request, needed, replicas)}, at {show(cost / replicas, 'USD/h')} each all the time"
        ),
        meets=True,
    )


def _average(request: Serve, option: ServeOption, rates: tuple[float, ...], usable_per_s: float) -> FleetWay:
    """Replicas for the mean rate, on all the time; misses where the busiest interval needs more with headroom."""
    mean, top = sum(rates) / len(rates), max(rates)
    needed = _replicas_needed(mean, usable_per_s)
    replicas = replicas_in_all(request, needed)
    cost = _usd_per_hour(option, replicas)
    # All of them work until one fails; beyond their capacity the queue grows.
    over = sum(rate > replicas * option.capacity.max_rate_per_s.value for rate in rates) / len(rates)
    short = top > needed * usable_per_s * (1.0 + 1e-9)
    note = "at the peak less is free, or may fail, than is asked for" if short else ""
    return FleetWay(
        name="average",
        replicas_mean=float(replicas),
        replicas_most=replicas,
        usd_per_hour=cost,
        usd_per_month=cost * HOURS_PER_MONTH,
        arithmetic=f"{show(mean, '1/s')} / {show(usable_per_s, '1/s')} = {mean / usable_per_s:.2f}, "
        f"so {_spare_sentence(request, needed, replicas)}",
        meets=not short,
        note=f"overloaded {percent(over)} of the time: requests come faster than they are answered" if over else note,
    )


def _autoscale(
    request: Serve, option: ServeOption, replicas: tuple[int, ...], *, start_s: float, interval_s: float
) -> FleetWay:
    """`replicas` (spares among them) on in each interval; a reserved price is paid for the most of them always."""
    mean = sum(replicas) / len(replicas)
    reserved = _is_reserved(option)
    costs = {n: _usd_per_hour(option, max(replicas) if reserved else n) for n in set(replicas)}
    cost = sum(costs[n] for n in replicas) / len(replicas)
    if not reserved:
        cost = min(costs[max(replicas)], cost + _rounding(option, replicas, interval_s=interval_s))
    shape = request.shape
    missed = _cold_start_share(request, start_s) if shape.on_s and max(replicas) > min(replicas) else 0.0
    return FleetWay(
        name="autoscaled",
        replicas_mean=mean,
        replicas_most=max(replicas),
        usd_per_hour=cost,
        usd_per_month=cost * HOURS_PER_MONTH,
        arithmetic=(
            f"{min(replicas)} to {max(replicas)}, {mean:.2f} on average, each started {show(start_s, 's')} before the "
            f"load needs it"
        ),
        meets=missed <= 1.0 - request.slo.percentile / 100.0,
        cold_share=missed,
        note="a reserved price is paid whether it runs or not"
        if reserved
        else "bursts are not foreseen: their first requests wait until more replicas have started"
        if missed
        else "",
    )


def _base_and_burst(
    request: Serve,
    option: ServeOption,
    replicas: tuple[int, ...],
    *,
    prices: BasePrices | None,
    interval_s: float,
    like: FleetWay,
) -> FleetWay | None:
    """The autoscaled fleet (`like`) with the replicas committed that a term pays for; None where none does."""
    if prices is None:
        return None

    found = fit_base(prices, replicas, ranks=option.configuration.ranks)
    if found is None:
        return None
    over = tuple(max(0, n - found.committed) for n in replicas)
    steps = _rounding(replace(option, bill=found.burst), over, interval_s=interval_s)
    cost = found.usd_per_hour + steps
    held, burst, most = found.held, found.burst, max(over)
    mean = sum(over) / len(over)
    alone = found.on_demand_usd_per_hour + _rounding(replace(option, bill=found.burst), replicas, interval_s=interval_s)
    note = "" if held.term in request.filters.terms else f"allow it with --term {ON_DEMAND},{held.term}"
    return FleetWay(
        name=BASE,
        replicas_mean=found.committed + mean,
        replicas_most=found.committed + most,
        usd_per_hour=cost,
        usd_per_month=cost * HOURS_PER_MONTH,
        arithmetic=(
            f"{found.committed} committed ({held.term} at {provider_name(held.provider)}, "
            f"{show(held.usd_per_hour, 'USD/h')}), {min(over)} to {most} more on demand at "
            f"{provider_name(burst.provider)}, {mean:.2f} on average; all on demand {show(alone, 'USD/h')}"
        ),
        meets=like.meets,
        cold_share=like.cold_share,
        note=note,
        committed=found.committed,
        base=f"{provider_name(held.provider)} {held.term}",
        commitment=held.commitment,
        saves=1.0 - cost / alone,
    )


def _allowed(based: FleetWay | None) -> bool:
    """Whether the request takes the term that the base is on."""
    return based is not None and not based.note


def _rules(option: ServeOption) -> BillingRules:
    """How the option's provider bills; the general rules where they are not known."""
    return option.billing or billing_rules(None)


def _rounding(option: ServeOption, replicas: tuple[int, ...], *, interval_s: float) -> float:
    """What billing steps add to a fleet that follows its load: half a step for each replica that stops. [USD/h]"""
    stops = sum(max(0, before - after) for before, after in pairwise((*replicas, replicas[0])))
    return stops * _rules(option).step_s / 2.0 / (len(replicas) * interval_s) * _usd_per_hour(option, 1)


def _charged_share(option: ServeOption, idle: Idle, *, cycle_s: float) -> float:
    """Share of time that is charged when a fleet is on once a cycle. [-]"""
    rules = _rules(option)
    on_s = mean_charged_s(idle.on_share * cycle_s, step_s=rules.step_s, least_s=rules.least_s)
    return min(1.0, on_s / cycle_s)


def _cold_start_share(request: Serve, start_s: float) -> float:
    """Share of a burst's requests that come before what it needs has started. [-]"""
    return min(1.0, start_s / (request.shape.on_s or math.inf))


def _to_zero(
    request: Serve, option: ServeOption, rates: tuple[float, ...], *, usable_per_s: float, start_s: float
) -> FleetWay:
    """The fleet switched off after a pause and started by the next request, whose wait may miss TTFT or E2E."""
    timeout_s, shape = request.idle_timeout_s, request.shape
    if shape.on_s is not None:
        peak = max(rates)
        replicas = replicas_in_all(request, _replicas_needed(peak, usable_per_s))
        idle = idle_of_bursts(
            on_s=shape.on_s, off_s=shape.off_s or 0.0, rate_on_per_s=peak, timeout_s=timeout_s, start_s=start_s
        )
        paid = _charged_share(option, idle, cycle_s=shape.on_s + (shape.off_s or 0.0))
        mean, most, cost = idle.on_share * replicas, replicas, paid * _usd_per_hour(option, replicas)
    else:
        counts = [replicas_in_all(request, _replicas_needed(rate, usable_per_s)) for rate in rates]
        each = list(zip(counts, (_idle(rate, timeout_s, start_s) for rate in rates), strict=True))
        mean = sum(n * idle.on_share for n, idle in each) / len(each)
        most = max(n for n, _ in each)
        usd = {n: _usd_per_hour(option, n) for n, _ in each}
        shares = [_steady_charged_share(option, idle, rate=rate) for rate, (_, idle) in zip(rates, each, strict=True)]
        paid = sum(shares) / len(shares)
        cost = sum(usd[n] * share for (n, _), share in zip(each, shares, strict=True)) / len(each)
        waiting = sum(r * idle.cold_share for r, (_, idle) in zip(rates, each, strict=True)) / sum(rates)
        idle = Idle(cold_share=waiting, on_share=sum(idle.on_share for _, idle in each) / len(each))
    if _is_reserved(option):
        cost = _usd_per_hour(option, most)
    allowed = 1.0 - request.slo.percentile / 100.0
    timed = request.slo.ttft_s is not None or request.slo.e2e_s is not None
    return FleetWay(
        name="scale-to-zero",
        replicas_mean=mean,
        replicas_most=most,
        usd_per_hour=cost,
        usd_per_month=cost * HOURS_PER_MONTH,
        arithmetic=(
            f"on {percent(idle.on_share, 1)} of the time: off {show(timeout_s, 's')} after the last request, "
            f"started anew in {show(start_s, 's')}; {percent(paid, 1)} is charged, by {_rules(option).stated}"
        ),
        meets=not timed or idle.cold_share <= allowed,
        cold_share=idle.cold_share,
        note=f"more than the {percent(allowed)} of requests that may miss the objective wait for a start; the way "
        "to go if they may"
        if timed and idle.cold_share > allowed
        else "",
    )


def _steady_charged_share(option: ServeOption, idle: Idle, *, rate: float) -> float:
    """Share of time charged under Poisson arrivals at a rate: a fleet is off for a mean gap once a cycle. [-]"""
    if rate <= 0.0 or idle.on_share >= 1.0:
        return idle.on_share
    return _charged_share(option, idle, cycle_s=1.0 / (rate * (1.0 - idle.on_share)))


def _idle(rate: float, timeout_s: float, start_s: float) -> Idle:
    return idle_of_poisson(rate_per_s=rate, timeout_s=timeout_s, start_s=start_s)


def _valleys(request: Serve, option: ServeOption, rates: tuple[float, ...], usable_per_s: float) -> Valleys:
    """What the fleet for the peak could answer besides, of all replicas together; spares stay spare."""
    needed = _replicas_needed(max(rates), usable_per_s)
    free = sum(max(0.0, needed * usable_per_s - rate) for rate in rates) / len(rates)
    hours = free / usable_per_s * 24.0
    requests = free * DAY_S
    each = _usd_per_hour(option, replicas_in_all(request, needed)) / replicas_in_all(request, needed)
    return Valleys(
        replica_hours_per_day=hours,
        requests_per_day=requests,
        output_tokens_per_day=requests * request.lengths.output_tokens,
        usd_per_day=hours * each,
    )


TERMS: Final = ("reserved-1y", "reserved-3y", "contract")
"""A base may be had on."""
SAME: Final = 1e-9


class Base(NamedTuple):
    """A number of replicas committed and the rest of the fleet on demand."""

    committed: int
    held: Bill
    """Of the committed replicas."""
    burst: Bill
    """Of one replica on demand."""
    usd_per_hour: float
    """Paid on average, now. [USD/h]"""
    on_demand_usd_per_hour: float
    """The same fleet, all of it on demand. [USD/h]"""


class BasePrices(NamedTuple):
    """What replicas of an option cost committed, by number, and on demand."""

    held: Callable[[int], Bill | None]
    burst: Bill


def base_prices(request: Serve, option: ServeOption, *, additions: Additions, today: date) -> BasePrices | None:
    """
    Committed and on-demand prices of the option's replicas, whatever terms the request names, where sellers state them.

    None where either lacks, or the machines are owned. The option's own on-demand bill counts as it is.
    """
    run = option.configuration
    wide = replace(request.filters, accelerators=(run.accelerator,), terms=(ON_DEMAND, *TERMS))
    if request.filters.owned:
        return None
    places = [one for one in with_slices(sites(wide, additions=additions)[0]) if one.intra_link == run.intra_link]

    def least(replicas: int, terms: tuple[str, ...]) -> Bill | None:
        asked = replace(request, filters=replace(wide, terms=terms))
        found = [bill for site in places for bill in _bills(asked, site, option, replicas=replicas, today=today)]
        sure = [bill for bill in found if bill.trust == "primary"]
        return min(sure, key=lambda bill: bill.compared_usd_per_hour, default=None)

    burst = option.bill if option.bill.term == ON_DEMAND else least(1, (ON_DEMAND,))
    if burst is None or least(1, TERMS) is None:
        return None
    return BasePrices(lambda replicas: least(replicas, TERMS), burst)


def _bills(request: Serve, site: Site, option: ServeOption, *, replicas: int, today: date) -> list[Bill]:
    return bills_of(site, replicas=replicas, ranks=option.configuration.ranks, request=request, today=today)


def fit_base(prices: BasePrices, replicas: tuple[int, ...], *, ranks: int) -> Base | None:
    """
    The number of committed replicas that costs least with a fleet that follows its load; None where no term pays.

    Parameters
    ----------
    prices : BasePrices
    replicas : tuple of int
        On in each interval of the period.
    ranks : int
        Accelerators of one.
    """
    times = Counter(replicas)
    number = len(replicas)

    def on_demand(committed: int) -> float:
        return (
            sum(
                often * usd_per_hour_of(prices.burst, replicas=needed - committed, ranks=ranks)
                for needed, often in times.items()
                if needed > committed
            )
            / number
        )

    alone = on_demand(0)
    best: tuple[float, Base] | None = None
    for committed in sorted(set(times) - {0}):
        held = prices.held(committed)
        if held is None:
            continue
        rest = on_demand(committed)
        counted = held.compared_usd_per_hour + rest
        if counted < alone * (1.0 - SAME) and (best is None or counted < best[0]):
            best = counted, Base(committed, held, prices.burst, held.usd_per_hour + rest, alone)
    return best[1] if best else None
