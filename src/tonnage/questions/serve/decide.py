"""
Which candidates are worth simulating, and which option of each accelerator is kept?

The mean field prunes, the simulation decides: a candidate that could not come among the first even if one replica
took `MARGIN` times what the mean field says stays an estimate, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from tonnage.core.header import Infeasible
from tonnage.core.ranking import EVEN
from tonnage.core.session_reuse import replica_at
from tonnage.core.stop import Abandoned, abandoned_at_stop, best_is_known, stop_asked
from tonnage.domain.plan import ConfidencePrice
from tonnage.domain.requests.serve import Serve
from tonnage.physics.known import Known, remembered
from tonnage.questions.serve import limits
from tonnage.questions.serve.chance import MARGIN, Curve, Odds
from tonnage.questions.serve.option import (
    Candidate,
    Cost,
    bills_of,
    has_objectives,
    is_sure,
    load_at,
    needed_of,
    option_of,
)
from tonnage.questions.serve.settings import most_of
from tonnage.questions.serve.shown import Priced, name_of, rows_to_show

if TYPE_CHECKING:
    from tonnage.questions.serve.capacity_search import SearchedCapacity
    from tonnage.simulation.simulated import Requests


COARSE: Final = 1.3
"""A close look's capacity over a coarse one's, at most: a step of the coarse search, and chance."""
ENOUGH: Final = 12
"""Looks after which what they showed is trusted."""
BEYOND: Final = 1.25
"""Times the most that was seen, for those that were not."""
CONTENDERS: Final = 8
"""Sure options after which a candidate that is dearer at best is no longer simulated: as many as are shown."""
CONFIDENCE_STEPS: Final = (-0.2, -0.1, 0.1, 0.15)
"""Other confidences that are priced, from the one asked for. [-]"""
MOST: Final = 0.99


def estimate_candidates(request: Serve, candidates: list[Candidate], *, today: date) -> list[Priced | Infeasible]:
    """Every candidate as the mean field sees it, and the cheapest fleet with an even chance."""
    found = [_price(request, candidate, today=today) for candidate in candidates]
    return [*found, *_with_even_chance(request, candidates, today=today)]


def decide_candidates(
    request: Serve, candidates: list[Candidate], *, today: date, shown: int = CONTENDERS, known: Known
) -> list[Priced | Infeasible]:
    """
    Candidates with their simulated capacity where that may bring them among the first (`shown`); the others as
    estimated; and the cheapest fleet with an even chance.

    Twice: in large steps and few requests for all that may matter, then closely for those that still may. `known` keeps
    what was simulated, which no load moves. Where one alone is shown, what is dearer than it is left out.
    """
    from tonnage.questions.serve.capacity_search import draw_requests

    if not candidates:
        return []
    best_is_known()
    requests = remembered(known, ("requests",), made=partial(draw_requests, request))
    coarse = _look(request, requests, known=known)
    found = _search_contenders(request, candidates, margin=MARGIN, look=coarse, shown=shown)
    seen = [one for one in found if isinstance(one, Candidate) and one.simulated is not None]
    others = [one for one in found if isinstance(one, Infeasible) or one.simulated is None]
    look = _look(request, requests, known=known, first=coarse)
    closely = _search_contenders(request, seen, margin=COARSE, look=look, shown=shown)
    priced = [one if isinstance(one, Infeasible) else _price(request, one, today=today) for one in (*others, *closely)]
    priced = _complete_search(request, priced, today=today, look=look, shown=shown)
    if shown == 1:
        return priced
    even = [*_with_even_chance(request, [*others, *closely], today=today, look=look)]
    return [*_with_other_levels(request, priced, today=today, look=look), *even]


def _with_even_chance(
    request: Serve, found: Sequence[Candidate | Infeasible], *, today: date, look: Look | None = None
) -> Iterator[Priced]:
    """
    The cheapest fleet that meets the objectives with an even chance, where that is less than asked for; nothing where
    none does. With `look`, what may be the cheapest is simulated, at best at `COARSE` times what averages say.
    """
    if not has_objectives(request) or request.confidence <= EVEN:
        return
    candidates = {i: one for i, one in enumerate(found) if isinstance(one, Candidate)}
    cheapest = _settle_cheapest(request, candidates, EVEN, look=look, margin=1.0 if look is None else COARSE)
    if cheapest is not None:
        place, replicas = cheapest
        seen = candidates[place]
        run = seen.configuration
        bills = bills_of(seen.site, replicas=replicas, ranks=run.ranks, request=request, today=today)
        yield seen, option_of(request, seen, bills=bills, confidence=EVEN)


def _with_other_levels(
    request: Serve, found: list[Priced | Infeasible], *, today: date, look: Look
) -> list[Priced | Infeasible]:
    """Options of which those that are the cheapest at another confidence that is priced are simulated as well."""
    candidates = {i: one[0] for i, one in enumerate(found) if not isinstance(one, Infeasible)}
    before = dict(candidates)
    for level in _levels(request) if has_objectives(request) else ():
        _settle_cheapest(request, candidates, level, look=look)
    for place, candidate in before.items():
        if (seen := candidates.get(place)) is not candidate:
            miss = look(candidate) if seen is None else None
            found[place] = miss if isinstance(miss, Infeasible) else _price(request, seen or candidate, today=today)
    return found


def _levels(request: Serve) -> list[float]:
    """Confidences that are priced: ten points apart, with the one asked for and an even one. [-]"""
    asked = request.confidence
    return sorted({round(asked + step, 4) for step in CONFIDENCE_STEPS if EVEN <= asked + step <= MOST} | {EVEN, asked})


def _settle_cheapest(
    request: Serve, candidates: dict[int, Candidate], confidence: float, *, look: Look | None, margin: float = 1.0
) -> tuple[int, int] | None:
    """
    Place and replicas of the cheapest fleet that has a confidence, itself simulated where there is a `look`; what is
    simulated on the way takes its place among the candidates, or leaves them.
    """
    while not stop_asked():
        cheapest = _cheapest_at(request, _by_least_cost(request, candidates), confidence, margin=margin)
        if cheapest is None:
            return None
        place, replicas, _ = cheapest
        candidate = candidates[place]
        seen = look(candidate) if look is not None else candidate
        if isinstance(seen, Infeasible):
            del candidates[place]
        elif candidate.simulated is None and seen.simulated is not None:
            candidates[place] = seen
        else:
            return place, replicas
    return None


def _complete_search(
    request: Serve, found: list[Priced | Infeasible], *, today: date, look: Look, shown: int
) -> list[Priced | Infeasible]:
    """
    Simulates what would be shown among the first as an estimate only: after the close look, simulated leaders may cost
    more than estimates that were left out. A stop asked for ends it with what is known.
    """
    while not stop_asked():
        rows = rows_to_show([pair for pair in found if not isinstance(pair, Infeasible) and pair[1].sure])
        pair = next((pair for pair in rows[:shown] if pair[0].simulated is None), None)
        if pair is None:
            return found
        try:
            with abandoned_at_stop():
                seen = look(pair[0])
        except Abandoned:
            return found
        place = next(i for i, other in enumerate(found) if other is pair)
        found[place] = seen if isinstance(seen, Infeasible) else _price(request, seen, today=today)
    return found


def _search_contenders(
    request: Serve, candidates: list[Candidate], *, margin: float, look: Look, shown: int
) -> list[Candidate | Infeasible]:
    """
    Looks at candidates in the order of what they cost at best, at prices that sellers state before others, until none
    that is left can come among the first.

    At best, a replica takes `margin` times what is known of it, or less once enough looks have shown less. Once so many
    sure options that were looked at (`shown`) cost no more than a candidate at best, it stays as it is, as does what
    exceeds budget or count at best.
    """
    order = sorted(((_least_cost(request, c, margin=margin), i) for i, c in enumerate(candidates)))
    leaders: list[Rank] = []
    ratios: list[float] = []
    found: list[Candidate | Infeasible] = []
    most = limits.most_compared(request)
    for least, i in order:
        candidate = candidates[i]
        last = sorted(leaders)[shown - 1] if len(leaders) >= shown else NONE
        # In large steps the one that is shown may yet turn out dearer: what is close behind it leads then.
        if least > (last if stop_asked() else (last[0], COARSE * last[1])) and (shown == 1 or stop_asked()):
            continue  # what can only come after all that are shown is not waited for
        learnt = min(margin, BEYOND * max(ratios)) if len(ratios) >= ENOUGH else margin
        seen: Candidate | Infeasible = candidate
        best = max(least, _least_cost(request, candidate, margin=learnt))
        if not stop_asked() and best <= last and best[1] <= most:
            with suppress(Abandoned), abandoned_at_stop():
                seen = look(candidate)
                ratios.append(0.0 if isinstance(seen, Infeasible) else seen.best.rate_per_s / candidate.best.rate_per_s)
        found.append(seen)
        if isinstance(seen, Candidate):
            leaders.append(_cost_if_sure(request, seen))
    return found


Rank = tuple[bool, float]
"""Whether no primary source states a price, and what it is compared by: a stated price comes first. [-, USD/h]"""
NONE: Final[Rank] = True, math.inf


def _cost_if_sure(request: Serve, candidate: Candidate) -> Rank:
    """What a candidate's fleet is compared by; `NONE` beyond budget or count, and where it is not sure."""
    replicas = needed_of(request, candidate)
    cost = candidate.cost(request, replicas)
    beyond = limits.beyond_limits(request, replicas * candidate.configuration.ranks, usd_per_h=cost.usd)
    return cost[:2] if beyond is None and is_sure(request, candidate.chance(request, replicas)) else NONE


Look = Callable[[Candidate], Candidate | Infeasible]
"""Candidate -> it simulated, or why it cannot serve."""


def _look(request: Serve, requests: Requests, *, known: Known, first: Look | None = None) -> Look:
    """
    A function that simulates a candidate, closely where `first` is what looks at it coarsely before; one configuration
    that is rented in two ways is simulated once.
    """
    from tonnage.questions.serve.capacity_search import search_capacity

    def look(candidate: Candidate) -> Candidate | Infeasible:
        """The candidate simulated, or why it cannot serve."""
        seen = first(candidate) if first is not None and candidate.simulated is None else candidate
        if isinstance(seen, Infeasible):
            return seen
        capacity = partial(
            search_capacity,
            request,
            seen.replica,
            requests=requests,
            guess=seen.best,
            close=first is not None,
            unit=seen.state.unit,
        )
        name = name_of(seen.configuration), first is not None
        return _with_simulation(request, seen, tested=remembered(known, name, made=capacity))

    return look


def closely(request: Serve, candidate: Candidate) -> Candidate | Infeasible:
    """A candidate with its simulated capacity, or why it cannot serve; as it is where the request asks for averages."""
    if request.quick:
        return candidate
    from tonnage.questions.serve.capacity_search import draw_requests

    requests, known = draw_requests(request), Known()
    return _look(request, requests, known=known, first=_look(request, requests, known=known))(candidate)


def _least_cost(request: Serve, candidate: Candidate, *, margin: float) -> Rank:
    """What it costs if one replica takes `margin` times what is known."""
    return candidate.cost(request, needed_of(request, candidate, factor=margin))[:2]


def _with_simulation(request: Serve, candidate: Candidate, *, tested: SearchedCapacity) -> Candidate | Infeasible:
    """
    The candidate with its simulated capacity in place of the mean field's; where even a lone request misses an
    objective, that verdict.
    """
    from tonnage.questions.serve.capacity_search import LIMITS

    if tested.best is None:
        limit = tested.found.limit if tested.found.limit in LIMITS else "ttft"
        alone = tested.trial.at(tested.found.tried[0].rate_per_s)
        missing = limits.misses_objective(request.slo, alone, limit=limit)
        return Infeasible(configuration=candidate.configuration, verdict=missing, alone=alone)
    own = _with_its_hits(request, candidate, rate_per_s=tested.best.rate_per_s)
    averages = load_at(request, own.best) / own.scale
    odds = own.odds.as_seen(tested.best, binds=tested.found.limit, best=averages)
    scale = load_at(request, tested.best) / averages
    return replace(own, best=tested.best, binds=tested.found.limit, tested=tested, scale=scale, odds=odds)


def _with_its_hits(request: Serve, candidate: Candidate, *, rate_per_s: float) -> Candidate:
    """
    The candidate by averages with what its cache gives at the rate that a simulation found; itself where prompts find
    nothing again, where that is known of workers apart, and for clients, who are simulated with its hits as they are.
    """
    if candidate.state.unit is not None or candidate.replica.reuse is None or request.rate_per_s is None:
        return candidate
    run = candidate.configuration
    replica = replica_at(request, run, replica=candidate.replica, rate_per_s=rate_per_s)
    made = most_of(request, replica, configuration=run)
    if isinstance(made, Infeasible):
        return candidate
    state, best, _ = made
    odds = Odds(Curve(request, replica, state=state), request.slo)
    return replace(candidate, replica=replica, state=state, best=best, scale=1.0, odds=odds)


def _price(request: Serve, candidate: Candidate, *, today: date) -> Priced | Infeasible:
    """
    The candidate as an option on the cheapest offer, or the verdict: no offer for so many, or the request's count or
    budget.
    """
    replicas = needed_of(request, candidate)
    configuration = candidate.configuration
    ranks = configuration.ranks
    bills = bills_of(candidate.site, replicas=replicas, ranks=ranks, request=request, today=today)
    if not bills:
        lacking = limits.no_offer(candidate.site, configuration, accelerators=replicas * ranks)
        return Infeasible(configuration=configuration, verdict=lacking)
    beyond = limits.beyond_limits(request, replicas * ranks, usd_per_h=bills[0].usd_per_hour)
    if beyond is not None:
        return Infeasible(configuration=configuration, verdict=beyond)
    return candidate, option_of(request, candidate, bills=bills)


def confidence_prices(request: Serve, found: list[Priced]) -> tuple[ConfidencePrice, ...]:
    """
    What other confidences cost, ten points apart and the one asked for among them: the cheapest option that has each. A
    confidence that no option has is left out; empty without objectives.
    """
    if not has_objectives(request):
        return ()
    tries = _by_least_cost(request, dict(enumerate(pair[0] for pair in found)))
    prices: list[ConfidencePrice] = []
    for level in _levels(request):
        cheapest = _cheapest_at(request, tries, level)
        if cheapest is not None:
            place, replicas, cost = cheapest
            run = found[place][0].configuration
            prices.append(
                ConfidencePrice(
                    confidence=level,
                    usd_per_hour=cost.usd,
                    accelerator=run.accelerator,
                    accelerators=replicas * run.ranks,
                )
            )
    return tuple(prices)


Try = tuple[float, int, Candidate]
"""The least that a candidate costs, its place, and the candidate."""


def _by_least_cost(request: Serve, candidates: Mapping[int, Candidate]) -> list[Try]:
    """At another confidence nothing costs less than at the least one: in that order, a search ends early."""
    tries = [(_least_cost(request, one, margin=math.inf)[1], i, one) for i, one in candidates.items()]
    return sorted(tries, key=lambda each: each[:2])


def _cheapest_at(
    request: Serve, tries: list[Try], confidence: float, *, margin: float = 1.0
) -> tuple[int, int, Cost] | None:
    """
    Place, replicas and cost of the cheapest fleet that has a confidence, what was not simulated taking `margin` times
    what is known, at prices that sellers state before others; None where none has it.
    """
    best: tuple[int, int, Cost] | None = None
    for least, place, candidate in tries:
        ranks = candidate.configuration.ranks
        if best is not None and (False, least) >= best[2]:
            break
        if not candidate.firm(request, confidence):
            continue
        factor = margin if candidate.simulated is None else 1.0
        replicas = needed_of(request, candidate, confidence=confidence, factor=factor)
        cost = candidate.cost(request, replicas)
        over = math.isinf(cost.usd) or limits.beyond_limits(request, replicas * ranks, usd_per_h=cost.usd)
        if not over and (best is None or cost < best[2]):
            best = place, replicas, cost
    return best
