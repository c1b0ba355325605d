"""
What does one replica take within the objectives? Every option is tried with the same requests.

The mean field (`engine.capacity`) says where to look; the simulator decides. Lengths are drawn once, arrivals are one
pattern stretched to each rate, so that two options differ in nothing but themselves. The value to plan with is the
lower bound of the bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from tonnage.core.replica import Replica, replica_arrays
from tonnage.core.session_reuse import reused_requests
from tonnage.domain.plan import SimulatedCapacity
from tonnage.domain.requests.common import Slo
from tonnage.domain.requests.serve import Serve
from tonnage.domain.simulate import SimulationTraffic
from tonnage.simulation.capacity import Point, stated
from tonnage.simulation.simulated import ReplicaArrays, Requests

if TYPE_CHECKING:
    from tonnage.simulation.disaggregated import Unit
    from tonnage.simulation.serving import Simulated

    Play = Callable[[Requests], Simulated]


MIN_REQUESTS: Final = {False: 2_500, True: 6_000}
"""Of a coarse and of a close look."""
PRECISION: Final = {False: 0.08, True: 0.02}
MAX_REQUESTS: Final = 20_000
TURNOVERS: Final = 12
"""Times that the requests in flight are replaced in a run, at least, within the two limits above. [-]"""
BEYOND_PERCENTILE: Final = 50
"""Requests of a run that lie beyond the objectives' percentile, at least."""
PATTERN_PER_S: Final = 5.0
"""Rate at which the pattern of arrivals is drawn: that of the chat log whose burstiness is published. [1/s]"""
ROUNDING: Final = 1e-9
STEPS: Final = 7
"""Halvings of the rate until so many are in flight as are asked for."""
BINDS: Final = {"kv": "kv", "batch limit": "batch", "compute": "compute", "bandwidth": "compute", "host": "compute"}
"""What `Capacity.binds` calls the resource when no objective fails before it."""
LIMITS: Final = ("ttft", "tpot", "e2e")
OF_UNITS: Final = {
    "ttft": "prompts wait for the prefill workers",
    "tpot": "the decode workers run that full",
    "e2e": "both kinds of workers run that full",
}
"""What stops a unit, of which no binding resource is told."""
CURVE: Final = (0.05, 0.25, 0.5, 0.75, 0.9, 1.1, 1.25, 1.5)
"""Shares of the capacity at which the first option's latencies are simulated besides: near zero to past the knee."""
KNOWN: Final = 0.04
"""A rate so close to one that was tried tells nothing new. [-]"""


class Trial(NamedTuple):
    """A replica, or a unit of workers, and the requests that it is tried with."""

    slo: Slo
    arrays: ReplicaArrays
    """Of the replica, or of one worker."""
    sent: Callable[[float], Requests]
    """The requests as they come at a rate of the whole replica or unit. [1/s]"""
    usual_per_s: float
    """Rate at whose hits clients that wait are played: no rate of theirs is known before. [1/s]"""
    play: Play
    """What plays requests on the replica, or on the unit."""
    alone: bool
    """It is a replica, whose binding resource can be told."""

    @property
    def requests(self) -> Requests:
        """As they come at the usual rate."""
        return self.sent(self.usual_per_s)

    def at(self, rate_per_s: float) -> Point:
        """What requests see at a rate of the whole replica or unit, by simulation."""
        run = self.play(self.sent(rate_per_s))
        return point_of(run, rate=rate_per_s, percentile=self.slo.percentile)

    def of_clients(self, clients: int) -> Point:
        """What requests see of which so many are always in flight on the replica, by simulation."""
        from tonnage.simulation.serving import simulate
        from tonnage.simulation.slo import settled_requests

        run = simulate(self.arrays, requests=self.requests, clients=clients)
        rate = clients / float(run.e2e_s[settled_requests(run)].mean())
        return point_of(run, rate=rate, percentile=self.slo.percentile)

    def capacity(self, start_per_s: float, precision: float) -> SimulatedCapacity:
        """The largest rate of the whole replica or unit within the objectives, searched from a rate near it."""
        from tonnage.simulation.slo import slo_capacity

        return slo_capacity(
            self.arrays,
            sent=self.sent,
            slo=self.slo,
            start=start_per_s,
            precision=precision,
            player=None if self.alone else self.play,
        )

    def clients(self, start: float, precision: float) -> tuple[SimulatedCapacity, int]:
        """The same of clients that wait, searched from so many, and the clients of its lower bound."""
        from tonnage.simulation.slo import client_capacity

        return client_capacity(self.arrays, requests=self.requests, slo=self.slo, start=start, precision=precision)


class SearchedCapacity(NamedTuple):
    """One replica after its simulations."""

    trial: Trial
    found: SimulatedCapacity
    best: Point | None
    """At the rate to plan with; absent = not even a lone request meets the objectives."""


def draw_requests(request: Serve) -> Requests:
    """
    The requests that every option is tried with, at a nominal rate; a run takes from the front what it needs. Tokens of
    images are added to every prompt as a constant; nothing is reused here.
    """
    from tonnage.questions.simulate.traffic import scaled_lengths, traffic_of

    lengths, bursts = request.lengths, request.shape.dispersion
    seen = lengths.images.prompt_tokens if lengths.images is not None else 0.0
    text = max(1.0, lengths.prompt_tokens - seen)
    asked = SimulationTraffic(
        profile=lengths.profile,
        reuse=False,  # what caches give depends on the option: `draw_reused`
        prompt_tokens=None if lengths.profile else text,
        output_tokens=None if lengths.profile else lengths.output_tokens,
        rate_per_s=PATTERN_PER_S,
        process="wandering" if bursts > 1.0 else "poisson",
        dispersion=bursts if bursts > 1.0 else None,
        window_s=1.0,
        num_requests=max(MAX_REQUESTS, _beyond(request)),
    )
    found = traffic_of(asked).requests
    found = scaled_lengths(found, prompt_tokens=text, output_tokens=lengths.output_tokens)
    return found._replace(prompt=found.prompt + round(seen)) if seen else found


def trial_of(
    request: Serve,
    replica: Replica,
    *,
    requests: Requests,
    guess: Point,
    close: bool,
    unit: Unit | None,
    held: float | None = None,
) -> Trial:
    """
    A replica, or a unit of its kind, with as many of the requests, from the front, as a look needs at something that
    holds so many at once (`held`, else what `guess` says). `close` takes more of them.
    """
    drawn = front_requests(request, requests, concurrency=held or guess.concurrency, close=close)
    caches = 1 if unit is None else unit.prefill or unit.decode
    reused = reused_requests(request, replica, requests=drawn)

    def sent(rate_per_s: float) -> Requests:
        from tonnage.simulation.arrivals import at_rate

        found = reused(rate_per_s / caches)
        return found._replace(sent_s=at_rate(found.sent_s, rate_per_s))

    usual = caches * replica.reuse.rate_per_s if replica.reuse is not None else guess.rate_per_s
    arrays = arrays_of(request, replica, requests=sent(usual), in_flight=guess.concurrency)
    play = partial(_played, arrays) if unit is None else unit_player(unit, replica, arrays=arrays)
    return Trial(request.slo, arrays, sent, usual, play, unit is None)


def search_capacity(
    request: Serve, replica: Replica, *, requests: Requests, guess: Point, close: bool, unit: Unit | None = None
) -> SearchedCapacity:
    """
    The capacity of a replica, or of a unit of its kind, by simulation, from a `guess` such as the mean field's. Without
    objectives it is the rate at which requests always wait; `best` is None where even a lone request misses an
    objective.
    """
    trial = trial_of(request, replica, requests=requests, guess=guess, close=close, unit=unit)
    if not stated(request.slo):
        return _saturated_capacity(trial)
    waiting = 0
    if request.rate_per_s is None and unit is None:
        seen, waiting = trial.clients(guess.concurrency, PRECISION[close])
    else:
        seen = trial.capacity(guess.rate_per_s, PRECISION[close])
    known = seen.limit in LIMITS
    found = replace(
        seen,
        limit=seen.limit if known else BINDS[seen.resource or "compute"],
        resource=seen.resource or "compute",
        cause=seen.cause or OF_UNITS.get(seen.limit, "nothing fails"),
    )
    if not seen.rate_per_s:
        return SearchedCapacity(trial, found, None)
    best = trial.of_clients(waiting) if waiting else trial.at(seen.low_per_s)
    return SearchedCapacity(trial, found, best)


def load_curve(
    request: Serve, replica: Replica, *, found: SimulatedCapacity, guess: Point, unit: Unit | None
) -> SimulatedCapacity:
    """
    A capacity with latencies from near zero load to past the knee added: the search itself tries only what lies near
    the capacity. The knee is the largest rate tried whose median TTFT is at most twice that of the first.
    """
    from tonnage.simulation.slo import probe_at, probe_clients

    trial = trial_of(request, replica, requests=draw_requests(request), guess=guess, close=True, unit=unit)

    def known(rate: float) -> bool:
        return any(abs(rate / one.rate_per_s - 1.0) <= KNOWN for one in found.tried)

    if request.rate_per_s is None and unit is None:
        counts = sorted({max(1, round(share * guess.concurrency)) for share in CURVE})
        probe = partial(probe_clients, trial.arrays, requests=trial.requests, slo=trial.slo)
        seen = [one for one in map(probe, counts) if not known(one.rate_per_s)]
    else:
        rates = [share * found.rate_per_s for share in CURVE if not known(share * found.rate_per_s)]
        seen = [probe_at(trial.play, requests=trial.sent(rate), slo=trial.slo, rate_per_s=rate) for rate in rates]
    tried = sorted((*found.tried, *seen), key=lambda one: one.rate_per_s)
    twice = 2.0 * (found.tried or tried)[0].ttft_s[0]
    return replace(
        found,
        tried=tuple(tried),
        knee_per_s=max(one.rate_per_s for one in tried if one.ttft_s[0] <= twice),
        simulations=found.simulations + len(seen),
        requests=found.requests + len(seen) * len(trial.requests.prompt),
    )


def point_at(request: Serve, tested: SearchedCapacity, *, share: float) -> Point:
    """
    What requests see at one replica's load (`share`): at that rate, or with so many always in flight. A unit has no
    clients: there the rate with so many on average is sought between zero and the capacity.
    """
    if request.rate_per_s is not None or tested.best is None:
        return tested.trial.at(share)
    if tested.trial.alone:
        return tested.trial.of_clients(max(1, math.ceil(share - ROUNDING)))
    low, high, point = 0.0, tested.best.rate_per_s, tested.best
    for _ in range(STEPS):
        rate = (low + high) / 2.0
        point = tested.trial.at(rate)
        low, high = (rate, high) if point.concurrency < share else (low, rate)
    return point


def _beyond(request: Serve) -> int:
    return math.ceil(BEYOND_PERCENTILE / (1.0 - request.slo.percentile / 100.0))


def front_requests(request: Serve, requests: Requests, *, concurrency: float, close: bool) -> Requests:
    """As many requests from the front as a look needs at something that holds so many at once."""
    n = int(min(MAX_REQUESTS, max(MIN_REQUESTS[close], _beyond(request), TURNOVERS * concurrency)))
    return requests.pick(slice(n))


def arrays_of(request: Serve, replica: Replica, *, requests: Requests, in_flight: float | None = None) -> ReplicaArrays:
    """The replica as the simulator takes it, for these requests and about so many in flight (None = not known)."""
    return replica_arrays(
        replica,
        prompt_tokens=request.lengths.prompt_tokens,
        output_tokens=request.lengths.output_tokens,
        in_flight=in_flight,
        options={"longest": int((requests.prompt + requests.output).max())},
    )


def _played(arrays: ReplicaArrays, sent: Requests) -> Simulated:
    from tonnage.simulation.serving import simulate

    return simulate(arrays, requests=sent)


def unit_player(unit: Unit, replica: Replica, *, arrays: ReplicaArrays) -> Play:
    """
    A function that plays requests on a unit of workers: their images encoded first, their caches moved in between.
    """
    from tonnage.simulation.disaggregated import cache_transfer_s
    from tonnage.simulation.router import simulate_after, simulate_disaggregated, simulate_fleet

    def play(sent: Requests) -> Simulated:
        if not unit.prefill:
            return simulate_fleet(arrays, requests=sent, replicas=unit.decode)
        return simulate_disaggregated(
            (arrays, arrays),
            requests=sent,
            workers=(unit.prefill, unit.decode),
            transfer_s=cache_transfer_s(replica.placement, sent.prompt, leaves_node=unit.leaves_node),
        )

    if unit.encoders is not None:
        return partial(simulate_after, ready_s=unit.encoders.ready_s, play=play)
    return play


def point_of(run: Simulated, *, rate: float, percentile: float) -> Point:
    """What requests saw in a run at a rate, warm-up left out; TPOT is 0 where no request has a second token."""
    import numpy as np

    from tonnage.simulation.slo import settled_requests

    kept = settled_requests(run)
    ttft, e2e = run.ttft_s[kept], run.e2e_s[kept]
    tpot = run.tpot_s[kept]
    tpot = tpot[~np.isnan(tpot)] if not np.isnan(tpot).all() else np.zeros(1)
    return Point(
        rate_per_s=rate,
        concurrency=rate * float(e2e.mean()),
        tpot_mean_s=float(tpot.mean()),
        tpot_tail_s=float(np.percentile(tpot, percentile)),
        ttft_mean_s=float(ttft.mean()),
        ttft_tail_s=float(np.percentile(ttft, percentile)),
        e2e_tail_s=float(np.percentile(e2e, percentile)),
    )


def _saturated_capacity(trial: Trial) -> SearchedCapacity:
    """
    The capacity without objectives: the rate at which requests always wait for a place; its `best` counts those in the
    batch as in flight.
    """
    from tonnage.simulation import slo

    requests = trial.requests
    rate, least, run = slo.saturated_capacity(trial.arrays, requests=requests)
    resource, cause = slo.resource(run, trial.arrays.limits)
    best = point_of(run, rate=least, percentile=95.0)
    # Those who wait outside are no load of the replica: in flight are those in the batch.
    running = float((run.last_s - run.started_s).sum() / max(run.busy_s, 1e-12))
    best = replace(best, concurrency=running)
    found = SimulatedCapacity(
        rate_per_s=rate,
        low_per_s=least,
        high_per_s=max(rate, 2.0 * rate - least),
        limit=BINDS[resource],
        resource=resource,
        cause=cause,
        knee_per_s=rate,
        simulations=1,
        requests=len(requests.prompt),
    )
    return SearchedCapacity(trial, found, best)
