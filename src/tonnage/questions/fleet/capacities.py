"""What candidates of a fleet carry, played request by request."""

from __future__ import annotations

from msgspec.structs import replace

from tonnage.core.replica import state_of
from tonnage.core.session_reuse import replica_at
from tonnage.core.stop import stop_asked
from tonnage.domain.plan import Configuration
from tonnage.questions.fleet.candidate import Candidate, lengths_served
from tonnage.questions.fleet.hours import of_bucket
from tonnage.questions.fleet.near_least import NEAR
from tonnage.questions.fleet.problem import FleetContext
from tonnage.questions.serve.chance import Curve, Odds


def simulate(asked: FleetContext, *, names: set[str]) -> FleetContext:
    """The context with candidates of those names simulated, each once; samples and training stay as they are."""
    done: dict[str, Candidate] = {}
    for candidate in asked.chances:
        # What carries samples or trains has no requests of prompts and answers to play.
        played = asked.request.workloads[candidate.workload].kind in {"serve", "batch"}
        if (
            played
            and not stop_asked()
            and candidate.name in names
            and not candidate.simulated
            and candidate.name not in done
        ):
            done[candidate.name] = _with_simulation(asked, candidate)
    found = [
        replace(candidate, rates=one.rates, capacities=one.capacities, odds=one.odds, points=one.points, simulated=True)
        if (one := done.get(candidate.name)) is not None
        else candidate
        for candidate in asked.chances
    ]
    return replace(asked, chances=tuple(_with_what_was_learnt(asked, found)))


def _with_simulation(asked: FleetContext, candidate: Candidate) -> Candidate:
    """The candidate with simulated capacities of each bucket alone, 0 where a lone request misses."""
    from tonnage.questions.serve.capacity_search import search_capacity

    workload = asked.request.workloads[candidate.workload]
    requests, which = asked.requests_of(candidate.workload)
    run = candidate.configuration
    assert isinstance(run, Configuration)
    rates, chances, points = [], [*candidate.odds], [*candidate.points]
    for bucket, point in enumerate(candidate.points):
        if point is None:
            rates.append(0.0)
            continue
        assert workload.serve is not None and candidate.replica is not None
        here = lengths_served(workload.serve, workload, bucket=bucket)
        mine = of_bucket(requests, which, bucket=bucket)
        found = search_capacity(here, candidate.replica, requests=mine, guess=point, close=False)
        rates.append(found.found.low_per_s if found.best is not None else 0.0)
        odds, averages = chances[bucket], point
        if found.best is None or odds is None:
            continue
        if candidate.replica.reuse is not None:
            own = replica_at(here, run, replica=candidate.replica, rate_per_s=rates[-1])
            state = state_of(here, own)
            points[bucket] = averages = state.largest()[0] or point
            odds = Odds(Curve(here, own, state=state), here.slo)
        chances[bucket] = odds.as_seen(found.best, binds=found.found.limit, best=averages.rate_per_s)
    candidate = replace(candidate, odds=tuple(chances), points=tuple(points), simulated=True)
    return candidate.carrying(workload, tuple(rates))


def _with_what_was_learnt(asked: FleetContext, found: list[Candidate]) -> list[Candidate]:
    """
    The candidates; those not simulated carry at most `NEAR` times the best simulated share of the mean field's rate.

    Where one prompt in twenty decides, all carry a fifth of what averages say: a programme that takes the others at
    their averages picks whatever was not simulated, round after round.
    """
    best: dict[tuple[int, int], float] = {}
    for one in (one for one in found if one.simulated):
        for bucket, (rate, point) in enumerate(zip(one.capacities, one.points, strict=True)):
            if point is not None and rate > 0:
                key = (one.workload, bucket)
                best[key] = max(best.get(key, 0.0), rate / point.rate_per_s)
    return [
        one
        if one.simulated or not one.odds
        else one.carrying(
            asked.request.workloads[one.workload],
            tuple(
                0.0 if point is None else point.rate_per_s * min(1.0, NEAR * best.get((one.workload, bucket), 1.0))
                for bucket, point in enumerate(one.points)
            ),
        )
        for one in found
    ]
