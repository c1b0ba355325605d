"""How much load does one replica take within its latency objectives? By simulating it.

The same requests come faster and faster: one list of them is stretched in time, so that two rates
differ in nothing else (common random numbers). A rate passes when the stated share of requests meets
each objective and the backlog does not grow; the largest rate below which every rate tried has passed
is the capacity. Requests at the start, before the replica is full, do not count. Rates are tried at fixed
steps, so that the answer does not hang on where the search begins.

How sure: blocks of neighbouring requests are drawn again and again (block bootstrap); each draw has its
own capacity, from the misses counted at each rate. Their 5th percentile is the value to plan with. Rates are tried
beyond both ends of that interval, so that it is read between rates that were seen, never guessed below the least.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tonnage.domain.plan import LoadPoint, SimulatedCapacity
from tonnage.domain.requests.common import Slo
from tonnage.errors import BadRequest
from tonnage.simulation.capacity import stated
from tonnage.simulation.metrics import Summary, summary
from tonnage.simulation.serving import Simulated, simulate
from tonnage.simulation.simulated import Limits, ReplicaArrays, Requests
from tonnage.units import percent

if TYPE_CHECKING:
    from numpy.typing import NDArray


PRECISION: Final = 0.01
"""Distance of the capacity from a rate that fails, and of the rates that are tried. [-]"""
MOST_PROBES: Final = 20
SLOWEST: Final = 1e-3
"""Of the fluid bound: a replica that fails at so little meets its objectives at no rate. [-]"""
BLOCKS: Final = 40
"""Blocks of neighbouring requests that the bootstrap draws from. [-]"""
DRAWS: Final = 400
TAIL: Final = 0.05
"""Share of the draws below, and above, the interval. [-]"""
NEAR: Final = 4
"""Steps of the first stride from a rate that is said to be near. [-]"""
WIDER: Final = 0.08
"""First distance of the rates that are tried beyond the bisection's, until the interval lies between rates seen. [-]"""
GROWTH: Final = 1.5
"""Waiting in the last third over the middle third, beyond which the backlog counts as growing. [-]"""
WIDEST: Final = 4.0
"""Times the least rate that fails, and the same below it: what a draw finds farther away is no other number. [-]"""


class Probe(NamedTuple):
    """One rate tried: what was seen, and the first thing that failed."""

    point: LoadPoint
    failed: str
    ttft_mean_s: float
    misses: dict[str, tuple[float, ...]]
    """Share of requests over each objective, by block."""


def slo_capacity(
    replica: ReplicaArrays,
    *,
    sent: Callable[[float], Requests],
    slo: Slo,
    start: float | None = None,
    precision: float = PRECISION,
    player: Callable[[Requests], Simulated] | None = None,
) -> SimulatedCapacity:
    """
    The largest rate at which these requests meet the objectives, by bisection in the logarithm of the rate.

    Its limit may be the "backlog", too.

    Parameters
    ----------
    sent : callable
        Rate [1/s] -> the requests as they come at it, of which prefix caches may hold more or less; twenty thousand
        give a p95 to some per cent.
    start : number
        A rate near the answer, such as the mean field's: the search strides out from it in steps that double, small
        ones first. Absent = half of the fluid bound. [1/s]
    precision : number
        Distance of the rates that are tried. [-]
    player : callable
        What plays the requests; absent = one replica. Of others no binding resource is told.

    Raises
    ------
    BadRequest
        No objective is given, or there are too few requests for the percentile.
    """
    requests = sent(start or 1.0)
    _check(requests, slo)
    bound = fluid_bound(replica, requests)
    step = math.log1p(precision)

    def look(k: int) -> tuple[Simulated, float]:
        rate = math.exp(k * step)
        return (player(sent(rate)) if player else simulate(replica, requests=sent(rate))), rate

    return _search(
        look,
        slo=slo,
        step=step,
        first=round(math.log(min(start or bound / 2.0, bound * 2.0)) / step),
        stride=max(1, NEAR if start else round(0.34 / step)),
        ends=(math.floor(math.log(bound * SLOWEST) / step), None),
        limits=None if player else replica.limits,
    )


def client_capacity(
    replica: ReplicaArrays, *, requests: Requests, slo: Slo, start: float, precision: float = PRECISION
) -> tuple[SimulatedCapacity, int]:
    """
    The most clients, each of whom waits for its answer, whose requests meet the objectives, none beyond the slots: the
    rates that they bring, and the clients of the lower bound. Searched as `slo_capacity` does, from `start` clients.

    Raises
    ------
    BadRequest
        No objective is given, or there are too few requests for the percentile.
    """
    import numpy as np

    _check(requests, slo)
    counts, most = [1], slots(replica, requests)
    while counts[-1] < most:
        counts.append(min(most, max(counts[-1] + 1, round(counts[-1] * (1.0 + precision)))))
    rates: dict[int, float] = {}

    def look(k: int) -> tuple[Simulated, float]:
        run, rates[counts[k]] = _of_clients(replica, requests, counts[k])
        return run, rates[counts[k]]

    first = int(np.searchsorted(counts, min(start, most)))
    ends = (0, len(counts) - 1)
    found = _search(
        look, slo=slo, step=math.log1p(precision), first=first, stride=NEAR, ends=ends, limits=replica.limits
    )
    tried = sorted(rates)
    rising = np.maximum.accumulate([rates[count] for count in tried])
    return found, max(1, math.floor(np.interp(found.low_per_s, rising, tried) + 1e-6))


def _search(
    look: Callable[[int], tuple[Simulated, float]],
    *,
    slo: Slo,
    step: float,
    first: int,
    stride: int,
    ends: tuple[int, int | None],
    limits: Limits | None,
) -> SimulatedCapacity:
    """
    The capacity among loads that are numbered in their order, `step` apart in the logarithm: `look` plays one and says
    its rate [1/s]. `ends` are the least and the largest number, `limits` those of the one replica that is played.
    """
    probes: dict[int, Probe] = {}
    runs: dict[int, Simulated] = {}

    def passes(k: int) -> bool:
        runs[k], rate = look(k)
        probes[k] = _probe(runs[k], rate, slo=slo)
        return probes[k].point.passed

    _bisect(passes, first=first, ends=ends, stride=stride)
    if any(probe.point.passed for probe in probes.values()):
        _widen(passes, probes, slo=slo, step=step, ends=ends)
    ordered = tuple(probes[k] for k in sorted(probes))
    failing = next((k for k in sorted(probes) if probes[k].failed), None)
    # Percentiles are not monotone near the edge: only what lies below every failure counts.
    passing = max((k for k in probes if failing is None or k < failing), default=None)
    best = probes[passing].point.rate_per_s if passing is not None else 0.0
    limit = probes[failing].failed if failing is not None else "none found"
    shown = runs[passing if passing is not None else min(probes)]
    seen = runs[failing] if failing is not None else shown
    binding, cause = resource(seen, limits) if limits else ("", "")
    least, most = _bootstrap(ordered, best, slo) if best else (0.0, 0.0)
    return SimulatedCapacity(
        rate_per_s=best,
        low_per_s=least,
        high_per_s=most,
        limit=limit,
        resource=binding,
        cause=cause,
        knee_per_s=_knee(ordered),
        simulations=len(probes),
        requests=sum(len(run.requests.prompt) for run in runs.values()),
        tried=tuple(probe.point for probe in ordered),
    )


def probe_at(play: Callable[[Requests], Simulated], *, requests: Requests, slo: Slo, rate_per_s: float) -> LoadPoint:
    """Requests of a rate, played and judged as the search does; objectives may be absent. [1/s]"""
    return _probe(play(requests), rate_per_s, slo=slo).point


def probe_clients(replica: ReplicaArrays, clients: int, *, requests: Requests, slo: Slo) -> LoadPoint:
    """So many clients that wait, at the rate that they bring, judged in the same way."""
    return _probe(*_of_clients(replica, requests, clients), slo=slo).point


def _of_clients(replica: ReplicaArrays, requests: Requests, clients: int) -> tuple[Simulated, float]:
    """A run of so many clients that wait, and the rate that they bring. [1/s]"""
    run = simulate(replica, requests=requests, clients=clients)
    return run, clients / float(run.e2e_s[settled_requests(run)].mean())


def _bisect(passes: Callable[[int], bool], *, first: int, ends: tuple[int, int | None], stride: int) -> None:
    """
    Tries whole numbers from `first` until one passes and the next fails, the least fails or the largest passes;
    `MOST_PROBES` at most.

    Strides double from `stride` until both a pass and a failure are known.
    """
    least, most = ends
    low, high, k = least - 1, None, first
    for _ in range(MOST_PROBES):
        low, high = (max(low, k), high) if passes(k) else (low, k if high is None else min(high, k))
        if high is None:
            if low == most:
                return
            k, stride = (low + stride if most is None else min(most, low + stride)), 2 * stride
        elif high - low <= 1:
            return
        elif low < least:
            k, stride = max(least, high - stride), 2 * stride
        else:
            k = (low + high) // 2


def _widen(
    passes: Callable[[int], bool], probes: dict[int, Probe], *, slo: Slo, step: float, ends: tuple[int, int | None]
) -> None:
    """Tries loads below and above those tried, in strides that double, until few draws have their capacity beyond."""
    least, most = ends
    down = up = max(1, round(math.log1p(WIDER) / step))
    farthest = round(math.log(WIDEST) / step)
    # As quantiles are read between two draws, neither of them may lie outside.
    few = TAIL - 2.0 / DRAWS
    while len(probes) < MOST_PROBES:
        ordered = sorted(probes)
        edge = next((k for k in ordered if probes[k].failed), ordered[-1])
        over = _excess(tuple(probes[k] for k in ordered), slo) > 0
        if over[0].mean() > few and edge - ordered[0] < farthest and (most is None or ordered[0] > least):
            passes(max(ordered[0] - down, least) if most is not None else ordered[0] - down)
            down *= 2
        elif (~over.any(axis=0)).mean() > few and ordered[-1] - edge < farthest and ordered[-1] != most:
            passes(ordered[-1] + up if most is None else min(ordered[-1] + up, most))
            up *= 2
        else:
            return


def saturated_capacity(replica: ReplicaArrays, *, requests: Requests) -> tuple[float, float, Simulated]:
    """
    What a replica finishes when somebody always waits: without objectives nothing else ends its capacity.

    Returns
    -------
    (number, number, Simulated)
        The rate while it is full, its lower bound (5 % over blocks of requests), and the run. [1/s]
    """
    import numpy as np

    clients = min(replica.limits.max_num_seqs + 16, max(2, len(requests.prompt) // 3))
    run = simulate(replica, requests=requests, clients=clients)
    ends = np.sort(run.last_s)
    # The first and the last requests meet a replica that fills or empties.
    edges = np.linspace(clients, len(ends) - clients - 1, 21).astype(int)
    spans = np.diff(ends[edges]) / np.diff(edges)
    each, error = float(spans.mean()), float(spans.std(ddof=1)) / math.sqrt(len(spans))
    return 1.0 / each, 1.0 / (each + 1.645 * error), run


def fluid_bound(replica: ReplicaArrays, requests: Requests) -> float:
    """
    The rate that no schedule exceeds: 1 / (prompt's own work + output tokens x decode step / batch). [1/s]

    The batch is the largest that seats and cache allow at mean lengths.
    """
    table, limits, batch = replica.table, replica.limits, slots(replica, requests)
    prompt = float((requests.prompt - requests.cached).mean())
    whole, output = float(requests.prompt.mean()), float(requests.output.mean())
    context = whole + output / 2.0
    step = float(table.decode_s[batch]) + float(table.context_s[batch]) * batch * context
    step = max(step, table.hidden_s) + table.host_s + table.host_sequence_s * batch
    rows = min(len(table.mixed_s) - 1, max(1, limits.budget))
    each = float(table.mixed_s[rows]) / rows + table.chunk_token_s + table.chunk_square_s * prompt / 2.0
    return 1.0 / (prompt * each + max(0.0, output - 1.0) * step / batch)


def slots(replica: ReplicaArrays, requests: Requests) -> int:
    """Requests of mean lengths that seats and cache allow at once, one at least."""
    limits = replica.limits
    context = float(requests.prompt.mean()) + float(requests.output.mean()) / 2.0
    return int(max(1, min(limits.max_num_seqs, limits.num_blocks * limits.block_tokens / max(1.0, context))))


def _check(requests: Requests, slo: Slo) -> None:
    if not stated(slo):
        raise BadRequest("no objective is given; state at least one of ttft, tpot, e2e")
    if not 0 < slo.percentile < 100:
        raise BadRequest(f"percentile {slo.percentile:g} must lie between 0 and 100, as in 95")
    needed = 20.0 / (1.0 - slo.percentile / 100.0)
    if len(requests.prompt) < needed:
        raise BadRequest(
            f"{len(requests.prompt)} requests are too few for the {slo.percentile:g}th percentile; give {needed:.0f}"
        )


def _probe(run: Simulated, rate: float, *, slo: Slo) -> Probe:
    """
    A run at a rate, judged by the requests after its start: the first objective that too many of them miss.

    Without one it fails by "backlog" where waits keep growing.
    """
    kept = settled_requests(run)
    ttft, tpot = summary(run.ttft_s[kept]), summary(run.tpot_s[kept])
    assert ttft is not None, "whoever is played has a first token"
    misses: dict[str, tuple[float, ...]] = {}
    failed = ""
    for name, most in stated(slo).items():
        over = getattr(run, name)[kept] > most
        misses[name] = _by_block(over)
        if not failed and over.mean() > 1.0 - slo.percentile / 100.0:
            failed = name.removesuffix("_s")
    if _growing(run):
        failed = failed or "backlog"
    point = LoadPoint(
        rate_per_s=rate, ttft_s=_tails(ttft), tpot_s=None if tpot is None else _tails(tpot), passed=not failed
    )
    return Probe(point, failed, ttft.mean, misses)


def _tails(found: Summary) -> tuple[float, float, float]:
    return found.p50, found.p95, found.p99


def settled_requests(run: Simulated) -> slice:
    """Requests after the start: twice the mean stay, and at most half of the run."""
    import numpy as np

    until = run.requests.sent_s[0] + 2.0 * float(run.e2e_s.mean())
    first = int(np.searchsorted(run.requests.sent_s, until))
    return slice(min(first, len(run.first_s) // 2), None)


def _by_block(over: NDArray[Any]) -> tuple[float, ...]:
    import numpy as np

    edges = np.linspace(0, len(over), BLOCKS + 1).astype(int)
    counts = np.diff(np.concatenate(([0], np.cumsum(over)))[edges])
    return tuple((counts / np.diff(edges)).tolist())


def _growing(run: Simulated) -> bool:
    """Whether waits keep growing: those of the last third are half as long again as the middle third's."""
    waits = run.started_s - run.requests.sent_s
    third = len(waits) // 3
    middle, last = float(waits[third : 2 * third].mean()), float(waits[2 * third :].mean())
    stay = float(run.e2e_s.mean())
    return last > GROWTH * middle and last - middle > 0.5 * stay


def resource(run: Simulated, limits: Limits) -> tuple[str, str]:
    """What the time of a run went to: waiting for cache or slots, else the kind of step that fills it; and in words."""
    busy = max(run.busy_s, 1e-12)
    starved = float(run.timeline.used_blocks.max() if len(run.timeline.used_blocks) else 0.0)
    if run.seats_blocked_s > 0.25 * busy and run.seats_blocked_s >= run.kv_blocked_s:
        return (
            "batch limit",
            f"all {limits.max_num_seqs} slots are taken {percent(run.seats_blocked_s / busy)} of the time",
        )
    if run.preempted.any() or (run.kv_blocked_s > 0.25 * busy and starved > 0.9 * (run.free_blocks or 1)):
        return "kv", f"the cache of {limits.num_blocks * limits.block_tokens:,} tokens is full"
    if run.host_s > 0.5 * busy:
        return "host", f"the host takes {percent(run.host_s / busy)} of the time"
    if run.prompt_s > 0.5 * busy:
        return "compute", f"prefill and mixed steps take {percent(run.prompt_s / busy)} of the time"
    return "bandwidth", f"decode steps take {percent(1.0 - run.prompt_s / busy)} of the time"


def _knee(ordered: tuple[Probe, ...]) -> float:
    """The largest rate tried whose mean time to first token is at most twice that of the least rate tried."""
    base = min(probe.ttft_mean_s for probe in ordered)
    return max(probe.point.rate_per_s for probe in ordered if probe.ttft_mean_s <= 2.0 * base)


def _excess(ordered: tuple[Probe, ...], slo: Slo) -> NDArray[Any]:
    """
    Share of misses beyond what is allowed, of the worst objective, by rate and draw; above 0 = the rate fails.

    Draws are of the same blocks at every rate. A backlog counts as all missed.
    """
    import numpy as np

    pick = np.random.default_rng(0).integers(0, BLOCKS, (DRAWS, BLOCKS))
    over = np.full((len(ordered), DRAWS), -np.inf)
    for i, probe in enumerate(ordered):
        for blocks in probe.misses.values():
            over[i] = np.maximum(over[i], np.array(blocks)[pick].mean(axis=1) - (1.0 - slo.percentile / 100.0))
        if probe.failed == "backlog":
            over[i] = np.maximum(over[i], 1.0)
    return over


def _bootstrap(ordered: tuple[Probe, ...], best: float, slo: Slo) -> tuple[float, float]:
    """
    5th and 95th percentile of the capacity over draws of blocks, the same blocks at every rate; `best` lies between.

    A draw that fails at the least rate tried counts as half of it, one that fails at none as the largest.
    """
    import numpy as np

    rates = np.array([probe.point.rate_per_s for probe in ordered])
    over = _excess(ordered, slo)
    if not np.isfinite(over).all():
        return best, best
    found = []
    for draw in range(DRAWS):
        bad = np.nonzero(over[:, draw] > 0)[0]
        if not len(bad):
            found.append(rates[-1])
            continue
        k = int(bad[0])
        if k == 0:
            found.append(rates[0] * 0.5)
            continue
        below, above = over[k - 1, draw], over[k, draw]
        share = -below / (above - below) if above > below else 0.0
        found.append(float(rates[k - 1] * (rates[k] / rates[k - 1]) ** share))
    low, high = np.quantile(found, [TAIL, 1.0 - TAIL])
    return min(float(low), best), max(float(high), best)
