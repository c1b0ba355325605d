"""Would workers of their own for prompts and for answers be cheaper? Small units of both, simulated like replicas.

A unit is some prefill and some decode workers, all of one configuration that serves the load on its own as well. Its
capacity within the objectives is searched as a replica's is, with the same requests; as many units as the load needs
make the fleet. The cache of each prompt moves over the link that the unit has: inside an instance where it fits into
one, over the network otherwise.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from tonnage.core.replica import Replica
from tonnage.domain.plan import PoolWorkers, SeparatePools, ServeOption, SimulatedCapacity
from tonnage.domain.requests.serve import Serve
from tonnage.questions.serve.option import Candidate, bills_of, has_objectives, replicas_of, share_of
from tonnage.questions.serve.variations import UNITS, unit_of
from tonnage.units import show
from tonnage.version import can_simulate

if TYPE_CHECKING:
    from tonnage.questions.serve.capacity_search import Trial
    from tonnage.simulation.pool_capacity import Unit
    from tonnage.simulation.simulated import Requests


LOOKED_AT: Final = 3
"""Configurations, by what they cost as they are."""
GUESS: Final = 0.7
"""Of what the same workers take as replicas: where the search begins."""


def separate_pools(
    request: Serve, serving: list[tuple[Candidate, ServeOption]], *, first: ServeOption, today: date
) -> SeparatePools | None:
    """The cheapest fleet of pools on the configurations that cost least; absent = none serves, or none is simulated."""
    if not can_simulate() or request.rate_per_s is None or not has_objectives(request):
        return None
    from tonnage.questions.serve.capacity_search import draw_requests
    from tonnage.simulation.pool_capacity import Unit

    requests = draw_requests(request)
    alike = [pair for pair in serving if pair[0].state.unit is None]
    cheapest = sorted(alike, key=lambda pair: (not pair[1].sure, pair[1].bill.usd_per_hour))[:LOOKED_AT]
    found = [
        one
        for candidate, _ in cheapest
        for workers in UNITS
        if (one := _fleet(request, candidate, workers=workers, requests=requests, first=first, today=today)) is not None
    ]
    if not found:
        return None
    best = min(found, key=lambda one: (one.bill.usd_per_hour, one.tpot_s))
    candidate = next(c for c, _ in cheapest if c.configuration == best.configuration)
    workers = best.prefill_workers + best.decode_workers
    together = Unit(prefill=0, decode=workers, transfer_s=0.0)
    _, both = _tried(request, candidate, worker=candidate.replica, unit=together, requests=requests)
    simulations = both.simulations + sum(one.simulations for one in found)
    best = replace(best, together_per_s=both.low_per_s, simulations=simulations)
    return replace(best, sentence=_sentence(best))


def _fleet(
    request: Serve, candidate: Candidate, *, workers: PoolWorkers, requests: Requests, first: ServeOption, today: date
) -> SeparatePools | None:
    """As many units as carry the load, on the cheapest offer; absent = a unit misses the objectives at any rate."""
    ranks, count = candidate.configuration.layout.ranks, workers.prefill + workers.decode
    worker, state = unit_of(request, candidate, workers=workers)
    if state is None or (made := state.unit) is None:
        return None
    trial, seen = _tried(request, candidate, worker=worker, unit=made, requests=requests)
    if not seen.rate_per_s:
        return None
    units = replicas_of(request, trial.at(seen.low_per_s))
    bills = bills_of(candidate.site, replicas=units * count, ranks=ranks, request=request, today=today)
    if not bills:
        return None
    point = trial.at(share_of(request, units))
    return SeparatePools(
        configuration=candidate.configuration,
        prefill_workers=workers.prefill,
        decode_workers=workers.decode,
        units=units,
        accelerators=units * count * ranks,
        rate_per_s=seen.low_per_s,
        together_per_s=0.0,
        limit=seen.limit,
        ttft_s=point.ttft_tail_s,
        tpot_s=point.tpot_tail_s,
        transfer_s=made.transfer_s,
        leaves_node=made.leaves_node,
        bill=bills[0],
        saves=1.0 - bills[0].usd_per_hour / first.bill.usd_per_hour,
        simulations=seen.simulations,
        sentence="",
    )


def _tried(
    request: Serve, candidate: Candidate, *, worker: Replica, unit: Unit, requests: Requests
) -> tuple[Trial, SimulatedCapacity]:
    """What a unit of a candidate's workers takes within the objectives."""
    from tonnage.questions.serve.capacity_search import PRECISION, trial_of

    workers, best = unit.prefill + unit.decode, candidate.best
    held = best.concurrency * workers
    trial = trial_of(request, worker, requests=requests, guess=best, close=False, unit=unit, held=held)
    return trial, trial.capacity(best.rate_per_s * workers * GUESS, PRECISION[True])


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
