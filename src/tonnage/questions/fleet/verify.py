"""
Played request by request: does the picked fleet hold the objectives?

Behind the picked fleet the router deals each bucket's requests to the kinds of replica in the proportions that the
programme chose, and among replicas of one kind to the one with the fewest in flight.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from tonnage.core.replica import Replica, replica_arrays
from tonnage.core.session_reuse import reused_requests
from tonnage.optimize.highs import UNLIMITED, Column, Row
from tonnage.optimize.programme import Programme, solve
from tonnage.questions.fleet.answer import FleetCheck, FleetWorkload
from tonnage.questions.fleet.candidate import Candidate, lengths_served
from tonnage.questions.fleet.hours import SEED
from tonnage.questions.fleet.other_workloads import service_s
from tonnage.questions.fleet.problem import Solution
from tonnage.questions.serve.option import has_objectives
from tonnage.record import Record
from tonnage.simulation.simulated import Requests

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tonnage.simulation.serving import Simulated


MAX_REPLICAS: Final = 12
"""Simulated of one kind: of more, so many get their share of the load. [replicas]"""
REQUESTS: Final = 12_000
ROUNDING: Final = 1e-6
"""Of a share of time. [-]"""
NARROW: Final = 1e-3
"""To which a chance is told. [-]"""


class Group(Record, kw_only=True):
    """Equal replicas of one workload, wherever they stand, in one period."""

    candidate: Candidate
    replicas: int
    """Up, whole ones: of spot ones, the share that is there."""
    up: float
    flows: tuple[float, ...]
    """Of each bucket, in any unit."""


def checks_of(solution: Solution) -> tuple[FleetCheck, ...]:
    """A check of every workload that serves or samples: whole, without its spares, and after the worst domain loss."""
    asked, found = solution.asked, list[FleetCheck]()
    for number, workload in enumerate(asked.request.workloads):
        if workload.kind not in {"serve", "infer"}:
            continue
        drawn = asked.requests_of(number) if workload.kind == "serve" else None
        period, groups = _hardest(solution, number)
        base = FleetCheck(
            workload=workload.name,
            hour=asked.hours.period_of.index(period),
            replicas=0,
            requests=0,
            meets=True,
            rate_per_s=asked.hours.loads[number][period],
            percentile=workload.serve.slo.percentile if workload.serve else 95.0,
            raised=asked.raised[number],
        )
        found.append(_check(base, workload, groups, drawn=drawn))
        if workload.spare_replicas:
            plural = "s" if workload.spare_replicas > 1 else ""
            spared = replace(base, lost=f"{workload.spare_replicas} replica{plural}")
            found.append(_check(spared, workload, _without_failed(groups, workload.spare_replicas), drawn=drawn))
        if workload.survives <= 0 or not asked.loss:
            continue
        lost, left = _worst_loss(solution, number, period=period)
        if lost:
            rate = base.rate_per_s * workload.survives
            left = _dealt_anew(left, workload)
            found.append(_check(replace(base, lost=lost, rate_per_s=rate), workload, left, drawn=drawn))
    return tuple(found)


def _groups_at(
    solution: Solution, number: int, *, period: int, left: dict[int, float] | None = None
) -> tuple[list[Group], float]:
    """
    Replicas of a workload in a period by their kind, and what they carry of the bucket that each is best at [1/s].

    `left` of each machine after a loss, on firm terms alone.
    """
    problem, fleet = solution.problem, solution.fleet
    kinds: dict[str, tuple[Candidate, float, list[float]]] = {}
    for (w, firm), counts in fleet.replicas.items():
        way, candidate = problem.ways[w], solution.behind[w]
        if way.pool != number or candidate is None or counts[period] <= 0:
            continue
        machine = problem.machines[way.machine]
        if left is not None and (not firm or left.get(way.machine, 0.0) <= 0):
            continue
        up = counts[period] if firm else counts[period] * min(t.available for t in machine.terms if not t.firm)
        up *= 1.0 if left is None else left[way.machine]
        able = [up * rate for rate in candidate.rates]
        chosen = [fleet.flows[w, firm, b][period] if (w, firm, b) in fleet.flows else None for b in range(len(able))]
        flows = [a if left is not None or f is None else f for a, f in zip(able, chosen, strict=True)]
        _, before, carried = kinds.get(candidate.name, (candidate, 0.0, [0.0] * len(flows)))
        kinds[candidate.name] = (candidate, before + up, [x + y for x, y in zip(carried, flows, strict=True)])
    groups = [
        Group(candidate=candidate, replicas=max(1, math.floor(up + 1e-9)), up=up, flows=tuple(flows))
        for candidate, up, flows in kinds.values()
    ]
    return groups, sum(group.replicas * max(group.candidate.rates) for group in groups)


def _dealt_anew(groups: list[Group], workload: FleetWorkload) -> list[Group]:
    """The groups with shares of the requests that keep the busiest of them least busy."""
    several = len(workload.buckets)
    if several == 1 or len(groups) < 2:
        return groups
    # Of each group, what it takes of each bucket; then the share of time that the busiest spends.
    columns = [
        Column(0.0, whole=False, upper=UNLIMITED if rate > 0 else 0.0) for g in groups for rate in g.candidate.rates
    ]
    busiest = len(columns)
    columns.append(Column(1.0, whole=False))
    rows = [
        Row({n * several + b: 1.0 for n in range(len(groups))}, bucket.share, bucket.share)
        for b, bucket in enumerate(workload.buckets)
    ]
    for n, group in enumerate(groups):
        spent = {n * several + b: 1.0 / (rate * group.up) for b, rate in enumerate(group.candidate.rates) if rate > 0}
        rows.append(Row({**spent, busiest: -1.0}, upper=0.0))
    solved = solve(Programme(columns, rows)).values
    if solved is None:
        return groups
    return [replace(group, flows=tuple(solved[n * several : (n + 1) * several])) for n, group in enumerate(groups)]


def _without_failed(groups: list[Group], number: int) -> list[Group]:
    """The groups without that number of replicas, those that carry most each first."""
    left = []
    for group in sorted(groups, key=lambda one: -max(one.candidate.rates)):
        gone = min(number, group.replicas)
        number -= gone
        if group.replicas > gone:
            share = 1.0 - gone / group.replicas
            flows = tuple(flow * share for flow in group.flows)
            left.append(replace(group, replicas=group.replicas - gone, up=group.up - gone, flows=flows))
    return left


def _hardest(solution: Solution, number: int) -> tuple[int, list[Group]]:
    """The period in which replicas of a workload are busiest (where a load has none: infinitely), and its groups."""
    best: tuple[float, int, list[Group]] = (-1.0, 0, [])
    for period, load in enumerate(solution.asked.hours.loads[number]):
        groups, able = _groups_at(solution, number, period=period)
        # Time of replicas that a unit of load takes, over what there is.
        busy = load / able if able else math.inf if load > 0 else 0.0
        if busy > best[0]:
            best = (busy, period, groups)
    return best[1], best[2]


def _worst_loss(solution: Solution, number: int, *, period: int) -> tuple[str, list[Group]]:
    """
    The failure domain whose loss leaves least of a workload's capacity ("" = none), and what firm groups are left.
    """
    request, problem = solution.asked.request, solution.problem
    if request.zones > 1:
        each = _left_without_zone(solution, period, zones=request.zones)
        domains = {
            f"zone{'s' if request.lost_zones > 1 else ''} {' and '.join(str(z + 1) for z in gone)}": {
                m: max(0.0, sum(each[z][m] for z in gone) - (len(gone) - 1)) for m in each[0]
            }
            for gone in itertools.combinations(range(request.zones), request.lost_zones)
        }
    else:
        names = sorted({machine.domain for machine in problem.machines})
        domains = {
            name: {m: float(machine.domain != name) for m, machine in enumerate(problem.machines)} for name in names
        }
    worst: tuple[float, str, list[Group]] = (math.inf, "", [])
    for name, left in domains.items():
        groups, able = _groups_at(solution, number, period=period, left=left)
        if able < worst[0]:
            worst = (able, name, groups)
    return worst[1], worst[2]


def _standing(solution: Solution, period: int) -> dict[int, float]:
    """Firm instances of each machine in a period."""
    found: dict[int, float] = {}
    for (m, name), counts in solution.fleet.instances.items():
        if any(term.name == name and term.firm for term in solution.problem.machines[m].terms):
            found[m] = found.get(m, 0.0) + counts[period]
    return found


def _left_without_zone(solution: Solution, period: int, *, zones: int) -> list[dict[int, float]]:
    """
    For the loss of each zone, the share of each machine's firm instances that is left (0 where none stand).

    Instances stand evenly: of each machine, and where that leaves a choice, by price, the most expensive placed first.
    """
    standing, filled = _standing(solution, period), [0.0] * zones
    lost: list[dict[int, float]] = [{} for _ in range(zones)]

    def price(m: int) -> float:
        return max(term.cost_per_hour for term in solution.problem.machines[m].terms)

    for m in sorted(standing, key=lambda m: (-price(m), m)):
        for _ in range(round(standing[m])):
            zone = min(range(zones), key=lambda z: (lost[z].get(m, 0.0), filled[z]))
            filled[zone] += price(m)
            lost[zone][m] = lost[zone].get(m, 0.0) + 1.0
    return [{m: 1.0 - gone.get(m, 0.0) / number if number else 0.0 for m, number in standing.items()} for gone in lost]


def _check(
    base: FleetCheck, workload: FleetWorkload, groups: list[Group], *, drawn: tuple[Requests, Any] | None
) -> FleetCheck:
    """Percentiles over all replicas' requests, refused ones missing every objective; misses where none completes."""
    if base.rate_per_s <= 0:
        return base
    if drawn is None:
        return _check_waiting(base, workload, groups)
    serve = workload.serve
    assert serve is not None
    n = min(REQUESTS, len(drawn[0].prompt))
    times: list[tuple[Any, Any, Any]] = []
    refused = 0
    for group, run in _played_groups(base, workload, groups, drawn=drawn, n=n):
        from tonnage.simulation.slo import settled_requests

        kept = settled_requests(run)
        weight = max(1.0, group.replicas / MAX_REPLICAS)
        # What was thinned out counts again.
        times += [(run.ttft_s[kept], run.tpot_s[kept], run.e2e_s[kept])] * round(weight)
        refused += run.num_refused
    replicas = sum(group.replicas for group in groups)
    if not times:
        return replace(base, meets=False, replicas=replicas)
    ttft, tpot, e2e = (np.concatenate(column) for column in zip(*times, strict=True))
    p = base.percentile
    # Requests that no replica takes miss every objective.
    p_left = min(100.0, p * (1.0 + refused / max(1, len(ttft))))
    seen = [float(np.nanpercentile(x, p_left)) if not np.isnan(x).all() else 0.0 for x in (ttft, tpot, e2e)]
    slo = serve.slo
    limits = (slo.ttft_s, slo.tpot_s, slo.e2e_s)
    meets = all(limit is None or value <= limit for value, limit in zip(seen, limits, strict=True))
    meets = meets and p_left < 100.0
    return replace(
        base,
        chance=_chance(base, workload, groups) if meets else None,
        replicas=replicas,
        requests=len(ttft),
        meets=meets,
        ttft_s=seen[0],
        tpot_s=seen[1],
        e2e_s=seen[2],
    )


def _chance(base: FleetCheck, workload: FleetWorkload, groups: list[Group]) -> float | None:
    """
    That replicas carry the load within the objectives: the largest confidence with which each kind does. [-]

    The error of a kind is one for all its replicas. Kinds err together here, though partly by themselves: what one then
    lacks another has, so that the chance of a workload on several kinds is this or higher. None without objectives.
    """
    if workload.serve is None or not has_objectives(workload.serve):
        return None
    carried = [sum(group.flows[b] for group in groups) for b in range(len(workload.buckets))]
    loads = [
        [
            base.rate_per_s * bucket.share * group.flows[b] / carried[b] / group.up if carried[b] > 0 else 0.0
            for b, bucket in enumerate(workload.buckets)
        ]
        for group in groups
    ]
    return min(_chance_of(group, workload, load) for group, load in zip(groups, loads, strict=True))


def _chance_of(group: Group, workload: FleetWorkload, loads: list[float]) -> float:
    """That a replica carries so much of each bucket (`loads`, 1/s of one replica) within the objectives. [-]"""
    candidate = group.candidate
    if (
        len(loads) == 1
        and candidate.odds[0] is not None
        and candidate.points[0] is not None
        and candidate.capacities[0] > 0
    ):
        return candidate.odds[0].chance(loads[0] * candidate.points[0].rate_per_s / candidate.capacities[0])

    def carries(confidence: float) -> bool:
        firm = candidate.firm(workload, confidence)
        busy = math.fsum(
            load / sure if sure > 0 else math.inf for load, sure in zip(loads, firm, strict=True) if load > 0
        )
        return busy <= 1.0 + ROUNDING

    low, high = (workload.confidence, 1.0) if carries(workload.confidence) else (0.0, workload.confidence)
    while high - low > NARROW:
        middle = (low + high) / 2.0
        low, high = (middle, high) if carries(middle) else (low, middle)
    return low


def _check_waiting(base: FleetCheck, workload: FleetWorkload, groups: list[Group]) -> FleetCheck:
    """Samples: the computed mean time to an answer, where each kind of replica gets the share chosen for it."""
    asked = workload.infer
    assert asked is not None
    whole = sum(group.flows[0] for group in groups)
    replicas = sum(group.replicas for group in groups)
    if whole <= 0:
        return replace(base, meets=False, replicas=replicas)
    waits = 0.0
    for group in groups:
        share = group.flows[0] / whole
        waits += share * service_s(group.candidate, each_per_s=base.rate_per_s * share / group.replicas)
    meets = math.isfinite(waits) and (asked.latency_s is None or waits <= asked.latency_s)
    seen = waits if math.isfinite(waits) else None
    return replace(base, replicas=replicas, meets=meets, e2e_s=seen, percentile=50.0)


def _played_groups(
    base: FleetCheck, workload: FleetWorkload, groups: list[Group], *, drawn: tuple[Requests, Any], n: int
) -> list[tuple[Group, Simulated]]:
    """A simulation of each group that gets requests, of the first `n`; of many replicas a few with their share."""
    from tonnage.simulation.arrivals import at_rate
    from tonnage.simulation.router import simulate_fleet
    from tonnage.simulation.serving import select_requests

    requests, which = drawn[0].pick(slice(n)), drawn[1][:n]
    requests = requests._replace(sent_s=at_rate(requests.sent_s, base.rate_per_s))
    dealt = _dealt(groups, which)
    rng = np.random.Generator(np.random.PCG64(SEED + 1))
    thinned = rng.random(n)
    found = []
    for i, group in enumerate(groups):
        replicas = min(group.replicas, MAX_REPLICAS)
        chosen = (dealt == i) & (thinned < replicas / group.replicas)
        mine, replica = select_requests(requests, chosen), group.candidate.replica
        if not len(mine.prompt):
            continue
        assert replica is not None
        share = base.rate_per_s * len(mine.prompt) / n / replicas
        mine = _reused(workload, replica, requests=mine, which=which[chosen], rate_per_s=share)
        arrays = replica_arrays(
            replica,
            kv_tokens=replica.kv_tokens,
            prompt_tokens=float(mine.prompt.mean()),
            output_tokens=float(mine.output.mean()),
            options={"longest": int((mine.prompt + mine.output).max())},
        )
        run = simulate_fleet(arrays, requests=mine, replicas=replicas, rule="least-loaded")
        found.append((group, run))
    return found


def _reused(
    workload: FleetWorkload, replica: Replica, *, requests: Requests, which: NDArray[Any], rate_per_s: float
) -> Requests:
    """The requests with the prompts of sessions, and what the cache of one replica gives of them at its rate."""
    from tonnage.simulation.serving import select_requests

    assert workload.serve is not None
    columns = [requests.prompt.copy(), requests.output.copy(), requests.cached.copy()]
    for bucket in np.unique(which):
        here, mine = lengths_served(workload.serve, workload, bucket=int(bucket)), which == bucket
        found = reused_requests(here, replica, requests=select_requests(requests, mine))(rate_per_s)
        for column, values in zip(columns, (found.prompt, found.output, found.cached), strict=True):
            column[mine] = values
    return requests._replace(prompt=columns[0], output=columns[1], cached=columns[2])


def _dealt(groups: list[Group], which: np.ndarray[Any, Any]) -> Any:
    """Which group each request goes to; -1 = none takes its bucket."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    dealt = np.full(len(which), -1)
    draws = rng.random(len(which))
    for bucket in range(len(groups[0].flows) if groups else 0):
        flows = np.array([group.flows[bucket] for group in groups])
        if flows.sum() <= 0:
            continue
        mine = which == bucket
        dealt[mine] = np.minimum(
            np.searchsorted(np.cumsum(flows) / flows.sum(), draws[mine], side="right"), len(groups) - 1
        )
    return dealt
