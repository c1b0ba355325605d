"""
Which candidates are worth simulating, and which option of each accelerator is kept?

The mean field prunes, the simulation decides: a candidate that could not come among the first even if one replica
took `MARGIN` times what the mean field says stays an estimate, and says so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from tonnage.core.header import Infeasible
from tonnage.core.ranking import EVEN, recommended, unlikely, with_verdicts
from tonnage.core.stop import Abandoned, abandoned_at_stop, best_is_known, stop_asked
from tonnage.domain.model import Model
from tonnage.domain.plan import ConfidencePrice, Configuration, Decision, ServeOption
from tonnage.domain.requests.serve import Serve
from tonnage.physics.known import Known, remembered
from tonnage.questions.serve import limits, narrative
from tonnage.questions.serve.option import (
    Candidate,
    Cost,
    add_costs,
    bills_of,
    has_objectives,
    is_sure,
    load_at,
    needed_of,
    option_of,
)

if TYPE_CHECKING:
    from tonnage.questions.serve.capacity_search import SearchedCapacity
    from tonnage.simulation.simulated import Requests


MARGIN: Final = 1.9
"""Simulated capacity over the mean field's, at most: as seen over configurations and loads (log, 2026-11-23)."""
COARSE: Final = 1.3
"""A close look's capacity over a coarse one's, at most: a step of the coarse search, and chance."""
ENOUGH: Final = 12
"""Looks after which what they showed is trusted."""
BEYOND: Final = 1.25
"""Times the most that was seen, for those that were not."""
CONTENDERS: Final = 8
"""Sure options after which a candidate that is dearer at best is no longer simulated: as many as are shown."""
FOLDED: Final = 5.0
"""Times the cost of the plan, beyond which a single replica is not looked at. [-]"""
KEPT_PER_SITE: Final = 3
CONFIDENCE_STEPS: Final = (-0.2, -0.1, 0.1, 0.15)
"""Other confidences that are priced, from the one asked for. [-]"""
MOST: Final = 0.99

Priced = tuple[Candidate, ServeOption]


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
    even = () if shown == 1 else _with_even_chance(request, [*others, *closely], today=today, look=look)
    return [*priced, *even]


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
    of_these = partial(_cheapest_at, request, confidence=EVEN, margin=1.0 if look is None else COARSE)
    while not stop_asked() and (cheapest := of_these(_by_least_cost(request, candidates))):
        place, replicas, _ = cheapest
        candidate = candidates[place]
        seen = look(candidate) if look is not None else candidate
        if isinstance(seen, Infeasible):
            del candidates[place]
        elif candidate.simulated is None and seen.simulated is not None:
            candidates[place] = seen
        else:
            run = seen.configuration
            bills = bills_of(seen.site, replicas=replicas, ranks=run.ranks, request=request, today=today)
            yield seen, option_of(request, seen, bills=bills, confidence=EVEN)
            return


def _complete_search(
    request: Serve, found: list[Priced | Infeasible], *, today: date, look: Look, shown: int
) -> list[Priced | Infeasible]:
    """
    Simulates what would be shown among the first as an estimate only: after the close look, simulated leaders may cost
    more than estimates that were left out. A stop asked for ends it with what is known.
    """
    while not stop_asked():
        rows = _rows_to_show([pair for pair in found if not isinstance(pair, Infeasible) and pair[1].sure])
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
        if least > last and (shown == 1 or stop_asked()):
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
        name = _name(seen.configuration), first is not None
        return _with_simulation(request, seen, tested=remembered(known, name, made=capacity))

    return look


def closely(request: Serve, candidate: Candidate) -> Candidate | Infeasible:
    """A candidate with its simulated capacity, or why it cannot serve; as it is where the request asks for averages."""
    if request.quick:
        return candidate
    from tonnage.questions.serve.capacity_search import draw_requests

    requests, known = draw_requests(request), Known()
    return _look(request, requests, known=known, first=_look(request, requests, known=known))(candidate)


def _name(configuration: Configuration) -> str:
    """A configuration by what its speed depends on: one accelerator alone has no use for a link."""
    link = configuration.intra_link if configuration.layout.ranks > 1 else None
    return f"{configuration.label()} {link or ''}"


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
    scale = candidate.scale * (load_at(request, tested.best) / load_at(request, candidate.best))
    return replace(candidate, best=tested.best, binds=tested.found.limit, tested=tested, scale=scale)


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
    asked = request.confidence
    levels = {round(asked + step, 4) for step in CONFIDENCE_STEPS if EVEN <= asked + step <= MOST} | {EVEN, asked}
    tries = _by_least_cost(request, dict(enumerate(pair[0] for pair in found)))
    prices: list[ConfidencePrice] = []
    for level in sorted(levels):
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


def rank_of(option: ServeOption) -> tuple[bool, bool, float, float, int, float]:
    """
    Those that meet the objectives surely enough come first, those at a price that its seller states before others, the
    cheapest of them first, at one price what has fewer unusual settings, of these the faster.

    Where none does, the likeliest leads.
    """
    behind = unlikely(option.chance, sure=option.sure)
    run = option.configuration
    changes = len(run.settings()) - (run.engine.mm_encoder_tp_mode == "data")  # whole images are as exact
    changes += run.engine.adapters is not None and run.engine.adapters.kept == "swapped"
    unlisted, usd = option.bill.trust != "primary", option.bill.compared_usd_per_hour
    return not option.sure, unlisted, behind, usd, changes, option.capacity.tpot_s.value


def with_load_curve(request: Serve, ranked: tuple[ServeOption, ...], *, found: list[Priced]) -> tuple[ServeOption, ...]:
    """
    The options, the first with latencies over the whole range of loads; unchanged where it was not simulated or a stop
    was asked for.
    """
    known = ranked[0].capacity.simulated if ranked else None
    if known is None or stop_asked():
        return ranked
    from tonnage.questions.serve.capacity_search import load_curve

    first = ranked[0]
    one = candidate_of(first, found)
    seen = load_curve(request, one.replica, found=known, guess=one.best, unit=one.state.unit)
    return (replace(first, capacity=replace(first.capacity, simulated=seen)), *ranked[1:])


def adapters_kept(request: Serve, ranked: tuple[ServeOption, ...], *, found: list[Priced]) -> tuple[Decision, ...]:
    """Why the first option keeps the request's adapters as it does; empty without adapters."""
    if request.adapters.adapters is None:
        return ()
    from tonnage.questions.serve.drafts import adapter_decision

    return adapter_decision(ranked, found)


def candidate_of(option: ServeOption, found: list[Priced]) -> Candidate:
    """The candidate that became the option, by configuration and bill; it has to be among those found."""
    return next(one for one, other in found if (other.configuration, other.bill) == (option.configuration, option.bill))


def ranked_of(
    request: Serve, model: Model, *, serving: list[Priced], by_cost: bool
) -> tuple[tuple[ServeOption, ...], list[Infeasible]]:
    """
    The best few options of each accelerator and link in their order, each with its account, those whose checkpoint
    somebody has to make first behind the others as sure; and those that the load makes as dear as a replica is when it
    is not looked at. The recommended one comes first, or the cheapest where the order is `by_cost`.
    """
    lacks = partial(limits.unmade, request=request, model=model)
    shown = [add_costs(request, option, found=candidate) for candidate, option in _rows_to_show(serving)]
    in_order = sorted(shown, key=lambda one: (not one.sure, lacks(one.configuration)))
    kept, dear = _without_too_dear(in_order, times=FOLDED)
    if not kept:
        return (), dear
    made = [one for one in kept if one.sure is kept[0].sure and not lacks(one.configuration)] or kept
    first = made[0] if by_cost else recommended(made)
    passed = not lacks(first.configuration) and any(one.sure and lacks(one.configuration) for one in kept)
    told = with_verdicts(
        tuple(sorted(kept, key=lambda one: one is not first)),
        lead=partial(narrative.lead_reason, request=request, cheapest=made[0], passed=passed),
        arithmetic=narrative.arithmetic,
        risk=partial(narrative.risk, request=request, lacks=lacks),
    )
    return told, dear


def _without_too_dear(
    options: Sequence[ServeOption], *, times: float
) -> tuple[tuple[ServeOption, ...], list[Infeasible]]:
    """Options that cost at most so many times the first, and a verdict for each of the others."""
    most = times * options[0].bill.compared_usd_per_hour if options else 0.0
    dear = [
        Infeasible(
            configuration=option.configuration,
            verdict=limits.too_dear(
                option.bill.usd_per_hour, best=options[0].bill.usd_per_hour, times=times, count=option.accelerators
            ),
        )
        for option in options
        if option.bill.compared_usd_per_hour > most
    ]
    return tuple(option for option in options if option.bill.compared_usd_per_hour <= most), dear


def _rows_to_show(found: list[Priced]) -> list[Priced]:
    """
    Priced candidates in the order of options, each configuration once as sure as asked and once less sure: the best few
    replicas and units of each accelerator and link whose checkpoint is there, then of those whose is not; and the
    cheapest with an even chance.
    """
    kept: list[Priced] = []
    seen: set[tuple[str, bool]] = set()
    counts: Counter[tuple[object, ...]] = Counter()
    likely = [one for _, one in found if not one.sure and (one.chance or 0.0) >= EVEN]
    even = min(likely, key=lambda one: (one.bill.trust != "primary", one.bill.compared_usd_per_hour), default=None)
    for pair in sorted(found, key=lambda pair: (not pair[1].sure, pair[0].unmade, *rank_of(pair[1]))):
        candidate, option = pair
        run = candidate.configuration
        place = candidate.site.accelerator.id, candidate.site.intra_link, run.pools is None, candidate.unmade
        name = _name(run), option.sure
        if option is not even and (name in seen or counts[place] >= KEPT_PER_SITE):
            continue
        seen.add(name)
        counts[place] += 1
        kept.append(pair)
    return kept
