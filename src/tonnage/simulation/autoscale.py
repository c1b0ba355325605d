"""How many replicas, and when? Zones that may fail, scale to zero, and what a fixed fleet wastes.

Arithmetic beside the simulation in `router`: gaps between requests are
Poisson, within bursts or throughout, a day is a row of rates. Rates are requests per second, capacities the largest
rate of one replica within its objectives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tonnage.domain.requests.serve import Serve
from tonnage.record import Record


class Idle(Record, kw_only=True):
    """A replica that is switched off when nobody has asked for a while."""

    cold_share: float
    """Requests that find it off, and those that come while it starts. [-]"""
    on_share: float
    """Time it is paid for, cold starts included. [-]"""


def fleet_of(needed: int, *, spare: int = 0, zones: int = 1) -> int:
    """
    Replicas in all, so that `needed` are left when `spare` of them fail, or all of one zone of several.

    Examples
    --------
    >>> fleet_of(4, spare=1), fleet_of(4, zones=3)
    (5, 6)
    """
    replicas = needed + spare
    while replicas_carrying(replicas, spare=spare, zones=zones) < needed:
        replicas += 1
    return replicas


def replicas_carrying(replicas: int, *, spare: int, zones: int) -> int:
    """Replicas that must carry the load: those left without the spares, or without the largest of several zones."""
    return replicas - max(spare, math.ceil(replicas / zones) if zones > 1 else 0)


def peak_load(request: Serve) -> float:
    """Arrivals at the peak, or requests in flight where a number of these is asked for. [1/s or requests]"""
    load = request.concurrency or 1.0 if request.rate_per_s is None else request.rate_per_s
    return load * request.shape.peak_to_mean


def replicas_in_all(request: Serve, needed: float) -> int:
    """Whole replicas, of which so many are left to a request's load when what it allows for has failed."""
    return fleet_of(max(1, math.ceil(needed - 1e-9)), spare=request.spare_replicas, zones=request.zones)


def working_replicas(request: Serve, replicas: int) -> int:
    """Replicas that carry the load when what may fail has failed."""
    return replicas_carrying(replicas, spare=request.spare_replicas, zones=request.zones)


def idle_of_poisson(*, rate_per_s: float, timeout_s: float, start_s: float = 0.0) -> Idle:
    """
    Switched off `timeout_s` after the last request, when requests come independently; a start takes `start_s`.

    P(off) = p = exp(-rate timeout). Of each gap min(gap, timeout) is paid for, and each start: on-share 1 - p +
    rate p start. Each start keeps its own request waiting and those that come meanwhile: p (1 + rate start).
    """
    off = math.exp(-rate_per_s * timeout_s)
    return Idle(
        cold_share=min(1.0, off * (1.0 + rate_per_s * start_s)),
        on_share=min(1.0, 1.0 - off + rate_per_s * off * start_s),
    )


def idle_of_bursts(*, on_s: float, off_s: float, rate_on_per_s: float, timeout_s: float, start_s: float) -> Idle:
    """
    The same for requests that come in bursts, exponential in length like the pauses between them.

    A pause outlasts the timeout with P = exp(-timeout / off); until then it is paid for: off (1 - P). The start at
    the next burst keeps those waiting that come before it is done, at most the burst's. Within a burst requests are
    independent.
    """
    outlasts = math.exp(-timeout_s / off_s)
    inside = idle_of_poisson(rate_per_s=rate_on_per_s, timeout_s=timeout_s, start_s=start_s)
    requests = max(1.0, rate_on_per_s * on_s)
    waiting = outlasts * min(requests, 1.0 + rate_on_per_s * start_s) / requests
    paid = inside.on_share * on_s + off_s * (1.0 - outlasts) + outlasts * start_s
    return Idle(cold_share=min(1.0, waiting + inside.cold_share), on_share=min(1.0, paid / (on_s + off_s)))


def replicas_of_day(
    rates_per_s: Sequence[float], *, interval_s: float, capacity_per_s: float, lead_s: float
) -> tuple[int, ...]:
    """
    Replicas for each interval of a forecast that repeats: enough for the highest rate until a start would be of use.

    r(t) = ceil(max over [t, t + lead] of rate / capacity), at least one.
    """
    n = len(rates_per_s)
    ahead = min(math.ceil(lead_s / interval_s), n - 1)
    highest = (max(rates_per_s[(i + j) % n] for j in range(ahead + 1)) for i in range(n))
    return tuple(max(1, math.ceil(rate / capacity_per_s - 1e-9)) for rate in highest)
