"""Machines and candidates of a fleet whose cost is not far from the least, so that the programme stays small."""

from __future__ import annotations

import math
from typing import Final

from tonnage.questions.fleet.answer import FleetRequest, FleetWorkload
from tonnage.questions.fleet.candidate import Candidate, fits_machine
from tonnage.questions.fleet.stock import Stock

FAR: Final = 3.0
"""A machine on which every request costs so many times the least is left out. [-]"""
NEAR: Final = 1.6
"""Simulated capacity over the mean field's, at most (see `questions.serve.decide`): nearer ones are simulated. [-]"""


def keep_near_least(
    request: FleetRequest, held: tuple[Stock, ...], *, found: list[Candidate]
) -> tuple[tuple[Stock, ...], list[Candidate], set[str]]:
    """
    Machines and candidates whose cost is not far from the least, on firm terms or on any, and the names of those near
    enough to be simulated. Own machines are always kept, and quotas double what counts as far.
    """
    pairs = [(candidate, one) for candidate in found for one in held if fits_machine(candidate, one)]
    # What may be taken away is no yardstick for what may not: a load that needs firm terms has no use for it.
    times = map(min, *(_times_the_least(request, pairs, firm=firm) for firm in (False, True)))
    limited = bool(request.quotas or request.own)
    far = FAR * 2.0 if limited else FAR
    machines: list[Stock] = [one for one in held if one.host_only or one.own]
    good: set[str] = set()
    near: set[str] = set()
    for (candidate, one), over in zip(pairs, times, strict=True):
        if one.own or over <= far:
            good.add(candidate.name)
            if one not in machines:
                machines.append(one)
        if one.own or over <= NEAR:
            near.add(candidate.name)
    kept = [candidate for candidate in found if candidate.name in good]
    return tuple(one for one in machines if not is_dominated_instance(one, machines, found=kept)), kept, near


def _times_the_least(request: FleetRequest, pairs: list[tuple[Candidate, Stock]], *, firm: bool) -> list[float]:
    """
    Times the least that each candidate costs on a machine: of its best bucket, or of the whole load, on `firm` terms
    alone or on any. [-]
    """
    least: dict[tuple[int, int], float] = {}
    least_whole: dict[int, float] = {}
    for candidate, one in pairs:
        if one.own or one.offer.contract is not None:  # what is paid for, or binds, is no yardstick for what does not
            continue
        for bucket in range(len(candidate.rates)):
            key = (candidate.workload, bucket)
            least[key] = min(least.get(key, math.inf), cost_per_unit(candidate, one, bucket=bucket, firm=firm))
        # An instance for a load alone can be had; a part of one only beside others, who may not be there.
        whole = _cost_of_load(request.workloads[candidate.workload], candidate, one, firm=firm, alone=True)
        least_whole[candidate.workload] = min(least_whole.get(candidate.workload, math.inf), whole)
    found = []
    for candidate, one in pairs:
        over = min(
            cost_per_unit(candidate, one, bucket=b, firm=firm) / bar
            if candidate.rates[b] > 0 and (bar := least.get((candidate.workload, b), math.inf)) > 0
            else math.inf
            for b in range(len(candidate.rates))
        )
        if (bar := least_whole.get(candidate.workload, math.inf)) > 0:
            whole = _cost_of_load(request.workloads[candidate.workload], candidate, one, firm=firm)
            over = min(over, whole / bar)
        found.append(over)
    return found


def cost_per_unit(candidate: Candidate, held: Stock, *, bucket: int, firm: bool = False) -> float:
    """
    The least that a request of a bucket costs there at full load, the rest of the machine being used too, on `firm`
    terms alone; infinite where it takes none of the bucket or no term has a price. [USD]
    """
    rate = candidate.rates[bucket]
    terms = (term for term in held.terms if not firm or term != "spot")
    prices = [price for term in terms if (price := held.offer.compared_usd_per_hour(term)) is not None]
    if rate <= 0 or not prices:
        return math.inf
    return min(prices) / held.offer.count * candidate.share / (rate * 3600.0)


def _cost_of_load(
    workload: FleetWorkload, candidate: Candidate, held: Stock, *, firm: bool, alone: bool = False
) -> float:
    """
    What the whole load costs there in whole replicas: of a small service the smallest slice is the cheapest, however
    expensive a request would be on a full one. On instances that others fill, or `alone` on them; on `firm` terms
    alone. [USD/h]
    """
    rate = candidate.mix_per_s(workload)
    if rate <= 0 or workload.rate_per_s <= 0:
        return math.inf
    bucket = max(range(len(candidate.rates)), key=lambda b: candidate.rates[b])
    replica = cost_per_unit(candidate, held, bucket=bucket, firm=firm) * candidate.rates[bucket] * 3600.0
    replicas = math.ceil(workload.rate_per_s * workload.shape.peak_to_mean / rate)
    if not alone:
        return replica * replicas
    count = held.offer.count
    return replica / candidate.share * count * math.ceil(replicas * candidate.share / count)


def is_dominated_instance(one: Stock, machines: list[Stock], *, found: list[Candidate]) -> bool:
    """
    Whether a smaller instance of the same kind holds the same replicas at no higher price of each accelerator, or it
    holds none; never of own machines and hosts.
    """
    if one.own or one.host_only:
        return False
    mine = {candidate.name for candidate in found if fits_machine(candidate, one)}
    return not mine or any(
        other.site is one.site
        and not other.own
        and other.passing is one.passing
        and one.offer.contract is None is other.offer.contract
        and other.offer.count < one.offer.count
        and other.users >= one.users
        and mine <= {candidate.name for candidate in found if fits_machine(candidate, other)}
        and all(
            _usd_per_accelerator(other, term) <= _usd_per_accelerator(one, term) * (1.0 + 1e-3) for term in one.terms
        )
        for other in machines
    )


def _usd_per_accelerator(held: Stock, term: str) -> float:
    """Price that an accelerator is compared by; infinite where the term is not offered. [USD/h]"""
    price = held.offer.compared_usd_per_hour(term)
    return math.inf if price is None else price / held.offer.count
