"""
How many replicas, and when: by arithmetic (zones that may fail, scale to zero), and simulated behind a router.

In the arithmetic gaps between requests are Poisson, within bursts or throughout, a day is a row of rates. Rates are
requests per second, capacities the largest rate of one replica within its objectives.

The router takes turns, sends each request to the ready replica with the fewest in flight, or to the one that
holds most of its prefix, unless that one is far busier than the others (SGLang's cache-aware rule). The
autoscaler looks every so often: it wants so many replicas that each has about a given number of
requests in flight, starts what is missing (of use after a cold start, paid for at once), and drains one
at a time when load has been too low for long enough. Fewest 0 is scale to zero: a request that finds
nobody ready waits for the start. A replica's step that has begun counts as done when the router looks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal, get_args

from tonnage.domain.requests.serve import Serve
from tonnage.errors import BadRequest
from tonnage.record import Record
from tonnage.simulation.serving import Simulated, loop_of, never_admitted, play_run, select_requests
from tonnage.simulation.simulated import Floats, ReplicaArrays, Requests


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
    """
    Replicas that must carry the load: those left without the spares, or without the largest of several zones.

    The larger loss of the two counts, never both at once.
    """
    return replicas - max(spare, math.ceil(replicas / zones) if zones > 1 else 0)


def peak_load(request: Serve) -> float:
    """
    Arrivals at the peak, or requests in flight where a number of these is asked for. [1/s or requests]

    One request in flight where neither is asked for.
    """
    load = request.concurrency or 1.0 if request.rate_per_s is None else request.rate_per_s
    return load * request.shape.peak_to_mean


def replicas_in_all(request: Serve, needed: float) -> int:
    """
    Whole replicas, spares included: `needed`, rounded up and at least 1, are left when what may fail has failed.
    """
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


Rule = Literal["round-robin", "least-loaded", "prefix-aware"]
RULES: Final[tuple[str, ...]] = get_args(Rule)
"""In the order of `loop_state`."""
MOST_TURNS: Final = 2_000
"""Turns after which a run that has not settled is an error of ours."""
_SAME_S: Final = 1e-9


class Scaling(Record, kw_only=True):
    """An autoscaler's settings."""

    in_flight: float
    """Requests in flight wanted per replica. [requests]"""
    fewest: int = 1
    cold_start_s: float = 0.0
    """From the decision to the first step: machine, weights, warm-up. [s]"""
    every_s: float = 15.0
    """Between two looks. [s]"""
    keep_s: float = 300.0
    """Load too low for this long takes one replica away. [s]"""


def simulate_fleet(
    replica: ReplicaArrays,
    *,
    requests: Requests,
    replicas: int,
    rule: Rule = "least-loaded",
    scaling: Scaling | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> Simulated:
    """
    Requests, as they are sent, on up to `replicas` replicas behind a router.

    Without `scaling` all of them are on from the start to the end. `watch` is that of `serving.simulate`.

    Raises
    ------
    BadRequest
        There is no replica, no request fits a replica's cache, or a setting of the autoscaler is out of range.
    """
    if replicas < 1:
        raise BadRequest(f"replicas {replicas} must be at least 1")
    loop = loop_of(replica, requests=requests, replicas=replicas)
    if not len(loop.requests.prompt):
        raise BadRequest("no request fits the cache of one replica; there is nothing to simulate")
    loop.script.control["rule"] = RULES.index(rule)
    if scaling is not None:
        _check(scaling, replicas)
        begin = float(loop.requests.sent_s[0])
        settings = {
            "look_every_s": scaling.every_s,
            "in_flight": scaling.in_flight,
            "cold_s": scaling.cold_start_s,
            "fewest": scaling.fewest,
            "most": replicas,
            "keep_s": scaling.keep_s,
            "look_s": begin + scaling.every_s,
        }
        for name, value in settings.items():
            loop.script.control[name] = value
        loop.script.power["since_s"][scaling.fewest :] = float("nan")
    return play_run(loop, watch, routed=True)


def _check(s: Scaling, replicas: int) -> None:
    if not (s.in_flight > 0 and s.every_s > 0 and 0 <= s.fewest <= replicas and s.cold_start_s >= 0 and s.keep_s >= 0):
        raise BadRequest(
            f"scaling: in_flight {s.in_flight:g} and every_s {s.every_s:g} must be above 0, fewest {s.fewest} at most"
            f" {replicas} replicas, times at least 0"
        )


def simulate_disaggregated(
    pools: tuple[ReplicaArrays, ReplicaArrays],
    *,
    requests: Requests,
    workers: tuple[int, int],
    transfer_s: Floats,
    watch: Callable[[int, int], None] | None = None,
) -> Simulated:
    """
    Prompts on one pool of workers, answers on another: each pair of arguments is (prefill, decode). A request is read
    by the first alone.

    The prefill worker computes the first token; the cache takes `transfer_s` seconds of each request to reach a decode
    worker, whose first step computes the key and value of that token. The client sees it when that step begins: who
    waits for a seat there waits for the first token. A request preempted there is computed again from its prompt.
    Requests that either pool can never admit are left out, and counted. Workers are paid for all of the run.
    """
    import numpy as np

    bad = never_admitted(requests, pools[1].limits) | never_admitted(requests, pools[0].limits)
    sent, moved = select_requests(requests, ~bad), np.asarray(transfer_s, float)[~bad]
    first = simulate_fleet(
        pools[0],
        requests=sent._replace(output=np.ones_like(sent.output)),
        replicas=workers[0],
        watch=watch,
    )
    longer = sent.output > 1
    if first.partial:
        return first._replace(requests=sent, last_s=np.where(longer, np.nan, first.last_s), num_refused=int(bad.sum()))
    arrive = first.first_s + moved
    order = np.argsort(arrive[longer], kind="stable")
    rows = np.nonzero(longer)[0][order]
    last, started, preempted = first.first_s.copy(), first.started_s, np.zeros(len(arrive), np.int64)
    seen = first.first_s.copy()
    paid, timeline = first.paid_s, first.timeline
    if len(rows):
        following = sent.pick(rows)._replace(
            sent_s=arrive[rows],
            prompt=sent.prompt[rows] + 1,
            output=sent.output[rows] - 1,
            cached=sent.prompt[rows],
            offsets=np.zeros(1, np.int64),
            blocks=np.zeros(0, np.int64),
            num_ids=0,
        )
        second = simulate_fleet(
            # Who comes with its cache joins the next step of those who decode, whatever prompts do elsewhere.
            pools[1]._replace(limits=pools[1].limits._replace(cached_again=False, mixed=True), delivery_s=0.0),
            requests=following,
            replicas=workers[1],
            watch=watch,
        )
        last[rows], preempted[rows], seen[rows] = second.last_s, second.preempted, second.started_s
        first = first._replace(
            gaps=second.gaps,
            steps=first.steps + second.steps,
            partial=second.partial,
            prompt_tokens=first.prompt_tokens + second.prompt_tokens - len(rows),
        )
        paid, timeline = np.concatenate((paid, second.paid_s)), second.timeline
    end = float(np.nanmax(last)) if np.isfinite(last).any() else float(arrive.max())
    return first._replace(
        requests=sent,
        started_s=started,
        first_s=seen,
        last_s=last,
        preempted=preempted,
        timeline=timeline,
        paid_s=np.full(len(paid), end - float(sent.sent_s[0])),
        num_refused=int(bad.sum()),
        span_s=max(end - float(sent.sent_s[0]), 1e-12),
    )


def simulate_after(
    requests: Requests, ready_s: Callable[[Floats], Floats], *, play: Callable[[Requests], Simulated]
) -> Simulated:
    """
    Requests that something else works on before they reach what is played, such as workers that encode their images.

    `ready_s` says of times of sending when each may go on; latencies count from when a client sent it.
    """
    import numpy as np

    ready = ready_s(requests.sent_s)
    order = np.argsort(ready, kind="stable")
    run = play(requests.pick(order)._replace(sent_s=ready[order]))
    if run.num_refused or len(run.requests.sent_s) != len(ready):
        raise BadRequest("a request does not fit the cache of one worker; plan with shorter prompts")
    back = np.argsort(order, kind="stable")
    found = {name: getattr(run, name)[back] for name in ("started_s", "first_s", "last_s", "preempted")}
    return run._replace(requests=requests, **found)


def simulate_clients_of_pools(
    pools: tuple[ReplicaArrays, ReplicaArrays],
    *,
    requests: Requests,
    clients: int,
    workers: tuple[int, int],
    transfer_s: Floats,
    watch: Callable[[int, int], None] | None = None,
) -> Simulated:
    """
    So many clients on two pools: their first requests say when they start; whoever has an answer sends the next one.

    The simulators of the two pools take requests as they are sent (`simulate_disaggregated`), but a client sends its
    next request only when the last one has ended. So the run is simulated with guessed times of sending, the times
    are replaced by those that its ends imply, and so on until nothing changes. What happens before a time depends on
    nothing after it: every turn settles at least the requests that follow the first answers after what is settled, so
    that the turns end with the exact run. Each turn looks one round of the clients further and no more.

    Parameters are those of `simulate_disaggregated`; times of sending are filled in.

    Raises
    ------
    BadRequest
        There is no client, or no request fits a worker of each pool.
    """
    import numpy as np

    if clients < 1:
        raise BadRequest(f"clients {clients} must be at least 1")
    bad = never_admitted(requests, pools[1].limits) | never_admitted(requests, pools[0].limits)
    asked, moved = select_requests(requests, ~bad), np.asarray(transfer_s, float)[~bad]
    n = len(asked.prompt)
    if not n:
        raise BadRequest("no request fits the cache of one worker of each pool; there is nothing to simulate")
    sent, settled, looked = asked.sent_s.copy(), 0, min(n, clients)
    for _ in range(MOST_TURNS):
        first = select_requests(asked, np.arange(n) < looked)._replace(sent_s=sent[:looked].copy())
        run = simulate_disaggregated(
            pools,
            requests=first,
            workers=workers,
            transfer_s=moved[:looked],
            watch=None if watch is None else partial(_watch_progress, watch, settled, n),
        )
        if run.partial:
            return run._replace(num_refused=int(bad.sum()))
        back = np.sort(run.last_s + first.think_s)
        ahead = min(n, looked + clients)
        following = np.concatenate((asked.sent_s[: min(clients, n)], back))[:ahead]
        same = np.abs(following[:looked] - sent[:looked]) <= _SAME_S * np.maximum(1.0, np.abs(sent[:looked]))
        settled = looked if same.all() else int(np.argmin(same))
        if settled == n:
            return run._replace(num_refused=int(bad.sum()))
        sent[:ahead], looked = following, ahead
    raise AssertionError(f"the run did not settle in {MOST_TURNS} turns")


def _watch_progress(watch: Callable[[int, int], None], settled: int, total: int, _answered: int, _all: int) -> None:
    """Says how much of the run is settled; how far a turn of it has come is no news."""
    watch(settled, total)
