"""
A committed base with an on-demand burst, fitted to the load: how many replicas a term pays for, how many come and go.

The fleet that follows its load has n(t) replicas. With k of them committed an hour costs C(k) whatever happens, and the
others D(n(t) - k) while they run. C counts with what on-demand prices are expected to do over the term
(`planning.commitments`), so that the k which is picked is the one that costs least over the whole of it; what is
printed is what is paid now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage.catalog import Additions
from tonnage.core.sites import Site, sites, with_slices
from tonnage.domain.plan import Bill, ServeOption
from tonnage.domain.requests.serve import Serve
from tonnage.pricing.bills import usd_per_hour_of
from tonnage.questions.serve.option import bills_of

TERMS: Final = ("reserved-1y", "reserved-3y", "contract")
"""A base may be had on."""
ON_DEMAND: Final = "on-demand"
SAME: Final = 1e-9


class Base(NamedTuple):
    """So many replicas committed, the rest on demand."""

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
    Committed and on-demand prices of the option's replicas, whatever terms the request names; None where either lacks.
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
