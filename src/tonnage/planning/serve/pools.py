"""Would workers of their own for prompts and for answers be cheaper? Small units of both, simulated like replicas.

A unit is some prefill and some decode workers, all of one configuration that serves the load on its own as well. Its
capacity within the objectives is searched as a replica's is, with the same requests; as many units as the load needs
make the fleet. The cache of each prompt moves over the link that the unit has: inside an instance where it fits into
one, over the network otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from tonnage.domain.plan import PoolWorkers, SeparatePools, ServeOption
from tonnage.domain.requests.serve import Serve
from tonnage.planning.replica import Replica
from tonnage.planning.replica_arrays import ReplicaArrays
from tonnage.planning.serve.option import (
    Candidate,
    bills_of,
    replicas_of,
    share_of,
)
from tonnage.planning.serve.variations import UNITS, unit_of
from tonnage.planning.sessions.reuse import draw_reused
from tonnage.simulation.capacity import Point
from tonnage.units import show
from tonnage.version import can_simulate

if TYPE_CHECKING:
    from tonnage.simulation.serving import Simulated
    from tonnage.simulation.simulated import Requests
    from tonnage.simulation.slo import SloCapacity

    Play = Callable[[Requests], Simulated]

__all__ = ["separate_pools"]

LOOKED_AT: Final = 3
"""Configurations, by what they cost as they are."""
GUESS: Final = 0.7
"""Of what the same workers take as replicas: where the search begins."""


def separate_pools(
    request: Serve, serving: list[tuple[Candidate, ServeOption]], *, first: ServeOption, today: date
) -> SeparatePools | None:
    """The cheapest fleet of pools on the configurations that cost least; absent = none serves, or none is simulated."""
    if (
        not can_simulate()
        or request.rate_per_s is None
        or (request.slo.ttft_s, request.slo.tpot_s, request.slo.e2e_s) == (None, None, None)
    ):
        return None
    from tonnage.planning.serve.capacity_search import draw_requests

    requests = draw_requests(request)
    alike = [pair for pair in serving if pair[0].unit is None]
    cheapest = sorted(alike, key=lambda pair: (not pair[1].sure, pair[1].bill.usd_per_hour))[:LOOKED_AT]
    found = [
        one
        for candidate, _ in cheapest
        for unit in UNITS
        if (one := _fleet(request, candidate, unit=unit, requests=requests, first=first, today=today)) is not None
    ]
    if not found:
        return None
    best = min(found, key=lambda one: (one.bill.usd_per_hour, one.tpot_s))
    candidate = next(c for c, _ in cheapest if c.configuration == best.configuration)
    both, tried = _together(request, candidate, workers=best.prefill_workers + best.decode_workers, requests=requests)
    best = replace(best, together_per_s=both, simulations=sum(one.simulations for one in found) + tried)
    return replace(best, sentence=_sentence(best))


def _fleet(
    request: Serve, candidate: Candidate, *, unit: tuple[int, int], requests: Requests, first: ServeOption, today: date
) -> SeparatePools | None:
    """As many units as carry the load, on the cheapest offer; absent = a unit misses the objectives at any rate."""
    from tonnage.planning.serve import capacity_search

    ranks, workers = candidate.configuration.layout.ranks, sum(unit)
    worker, made = unit_of(request, candidate, workers=PoolWorkers(prefill=unit[0], decode=unit[1]))
    if made is None:
        return None
    few = _drawn(request, worker, requests, concurrency=candidate.best.concurrency * workers)
    arrays = capacity_search.arrays_of(request, worker, requests=few, in_flight=candidate.best.concurrency)
    play = capacity_search.unit_player(made, worker, arrays=arrays)
    seen = _capacity(request, candidate, arrays=arrays, workers=workers, requests=few, play=play)
    if not seen.rate_per_s:
        return None
    full = _at(play, few, seen.low_per_s, request.slo.percentile)
    units = replicas_of(request, full)
    bills = bills_of(candidate.site, replicas=units * workers, ranks=ranks, request=request, today=today)
    if not bills:
        return None
    point = _at(play, few, share_of(request, units), request.slo.percentile)
    return SeparatePools(
        configuration=candidate.configuration,
        prefill_workers=unit[0],
        decode_workers=unit[1],
        units=units,
        accelerators=units * workers * ranks,
        rate_per_s=seen.low_per_s,
        together_per_s=0.0,
        limit=seen.limit,
        ttft_s=point.ttft_tail_s,
        tpot_s=point.tpot_tail_s,
        transfer_s=made.transfer_s,
        leaves_node=made.leaves_node,
        bill=bills[0],
        saves=1.0 - bills[0].usd_per_hour / first.bill.usd_per_hour,
        simulations=len(seen.probes),
        sentence="",
    )


def _drawn(request: Serve, replica: Replica, requests: Requests, *, concurrency: float) -> Requests:
    """As many requests as a look needs, with what the replica's cache has of each."""
    from tonnage.planning.serve.capacity_search import front_requests

    few = front_requests(request, requests, concurrency=concurrency, close=False)
    found: Requests = draw_reused(request, replica, requests=few)
    return found


def _capacity(
    request: Serve, candidate: Candidate, *, arrays: ReplicaArrays, workers: int, requests: Requests, play: Play
) -> SloCapacity:
    """What so many workers take within the objectives, however they are played."""
    from tonnage.planning.serve import capacity_search
    from tonnage.simulation import slo

    s = request.slo
    return slo.slo_capacity(
        arrays.table,
        arrays.limits,
        requests=requests,
        slo=slo.Slo(ttft_s=s.ttft_s, tpot_s=s.tpot_s, e2e_s=s.e2e_s, percentile=s.percentile),
        start=candidate.best.rate_per_s * workers * GUESS,
        precision=capacity_search.PRECISION[True],
        player=play,
    )


def _together(request: Serve, candidate: Candidate, *, workers: int, requests: Requests) -> tuple[float, int]:
    """What as many workers take behind one router when each does both, and the simulations that it took. [1/s]"""
    from tonnage.planning.serve import capacity_search
    from tonnage.simulation.router import simulate_fleet

    few = _drawn(request, candidate.replica, requests, concurrency=candidate.best.concurrency * workers)
    arrays = capacity_search.arrays_of(request, candidate.replica, requests=few, in_flight=candidate.best.concurrency)

    def play(sent: Requests) -> Simulated:
        return simulate_fleet(
            arrays.table, arrays.limits, requests=sent, replicas=workers, delivery_s=arrays.delivery_s
        )

    seen = _capacity(request, candidate, arrays=arrays, workers=workers, requests=few, play=play)
    return seen.low_per_s, len(seen.probes)


def _at(play: Play, requests: Requests, rate: float, percentile: float) -> Point:
    """What requests see on a unit at a rate."""
    from tonnage.planning.serve.capacity_search import point_of
    from tonnage.simulation.arrivals import at_rate

    return point_of(play(requests._replace(sent_s=at_rate(requests.sent_s, rate))), rate=rate, percentile=percentile)


def _sentence(found: SeparatePools) -> str:
    each = f"{found.prefill_workers} prefill + {found.decode_workers} decode workers"
    units = f"{found.units} units of {each}" if found.units > 1 else each
    saved = (
        f"{found.saves:.0%} less than"
        if found.saves > 0.005
        else ("as much as" if found.saves > -0.005 else f"{-found.saves:.0%} more than")
    )
    over = "the network" if found.leaves_node else "the link inside the instance"
    return (
        f"{units} of {found.configuration.label()} ({found.accelerators} accelerators) cost"
        f" ${found.bill.usd_per_hour:,.2f}/h, {saved} the first option: TTFT {show(found.ttft_s, 's')}, TPOT"
        f" {show(found.tpot_s, 's')}; a cache takes {show(found.transfer_s, 's')} over {over}; beyond"
        f" {show(found.units * found.rate_per_s, 'count')} requests/s {found.limit} fails. As many workers that each do"
        f" both take {show(found.units * found.together_per_s, 'count')} requests/s behind routers of the same size."
    )
