"""Plan a serving workload: every accelerator that can be rented, every sensible way to run the model on it.

The path: filters leave *sites* (an accelerator, the link inside a node, the offers that rent it so);
each site gets the legal layouts and formats; memory prunes, the mean field of
`tonnage.simulation.capacity` says about what one replica takes within the objectives; `decide` simulates
what may still come among the first; replicas times the cheapest offer give the bill. Whatever loses
keeps its reason.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.hub.resolve import resolve_text
from tonnage.core.calibration_use import Run, at_once
from tonnage.core.driver import Found, Kind, alone, plan_or_relax
from tonnage.core.header import Context, Infeasible, as_asked, nearness, quick_without_simulator
from tonnage.core.kept_replicas import kept_replicas
from tonnage.core.quality import apply_quality_floor, changes_among
from tonnage.core.ranking import frontier
from tonnage.core.session_reuse import sessions_assumed
from tonnage.core.sites import Site, rack_notes, reach_of, sites, with_slices
from tonnage.core.stop import stop_asked
from tonnage.domain.model import Model
from tonnage.domain.plan import BY_AVERAGES, Configuration, ServeOption, ServePlan
from tonnage.domain.requests.serve import Serve
from tonnage.domain.serve_parts import FleetDay, ImageCosts
from tonnage.domain.sessions import SessionCosts
from tonnage.physics.known import Known, remembered
from tonnage.questions.serve import limits, narrative
from tonnage.questions.serve.apart import separate_pools
from tonnage.questions.serve.break_even import serve_break_even
from tonnage.questions.serve.day import fleet_day
from tonnage.questions.serve.decide import CONTENDERS, confidence_prices, decide_candidates, estimate_candidates
from tonnage.questions.serve.option import Candidate, has_objectives, roofline
from tonnage.questions.serve.settings import best_settings, chances_of, outcome_of
from tonnage.questions.serve.shown import FOLDED, Priced, adapters_kept, candidate_of, ranked_of, with_load_curve
from tonnage.questions.serve.tokens import tokens_instead
from tonnage.questions.serve.variations import (
    Variations,
    engine_modes,
    kept_apart,
    primary_cost,
    variation_notes,
)
from tonnage.simulation.router import working_replicas
from tonnage.version import can_simulate

LARGEST_REPLICA = 64
"""Of the largest replica looked at: eight nodes of eight, or a rack of 72 less its spare trays. [accelerators]"""
MOST_KEPT = 4096
"""Replicas that one question keeps: without one of its constraints most are asked for again. [-]"""
BRIEF: Final = 2.0
"""Times the plan that a replica may cost to be looked at for a brief one. [-]"""
BY_NEARNESS = nearness(
    {"cost": 0, "budget": 0, "count": 0, "tpot": 1, "ttft": 1, "e2e": 1, "offer": 2, "cache": 3, "memory": 4}
)
"""Configurations that hold the model come nearer than those that do not."""


def plan_serve(
    request: Serve, *, additions: Additions = catalog.NOTHING, today: date | None = None, brief: bool = False
) -> ServePlan:
    """
    Options that serve the workload, cheapest first, with reasons for every loser; a `brief` plan is without dear
    options, break-even points and what else takes a search of its own.

    Raises
    ------
    TonnageError
        The model or an accelerator is unknown, or the request contradicts itself. That nothing can
        serve it is an answer: `feasible` is False and `binding` says what stands in the way.
    """
    with kept_replicas(MOST_KEPT):
        kind = replace(SERVE, look=partial(_look, brief=True)) if brief else SERVE
        made = plan_or_relax(kind, quick_without_simulator(request), additions=additions, today=today)
    return as_asked(made, request)


def _ask(request: Serve, additions: Additions, today: date) -> Context[Serve]:
    model = resolve_text(request.model, additions=additions)
    limits.check_context(model, request)
    return Context(request=request, model=model, today=today, additions=additions)


def _look(asked: Context[Serve], *, brief: bool = False) -> Found[Serve, ServeOption, ServePlan]:
    """The search for options, and what a checkpoint that is not named would save; where nothing serves, why."""
    request, model = asked.request, asked.model
    allowed, refused, no_format = apply_quality_floor(request, model)
    open_sites, excluded = sites(request.filters, additions=asked.additions) if no_format is None else ((), ())
    open_sites = tuple(with_slices(open_sites))
    within = replace(asked, request=allowed)
    search = _search(within, open_sites, times=BRIEF if brief else FOLDED)
    ranked = search.ranked
    if ranked and ranked[0].sure and not (brief or stop_asked()):
        # The option that another checkpoint would bring, where it costs less than the first: by averages, if unasked.
        other = [one for one in ranked[1:] if limits.unmade(one.configuration, request=request, model=model)]
        if not allowed.precisions:
            less = replace(allowed, quick=True, budget_usd_per_h=ranked[0].bill.usd_per_hour)
            averaged = replace(within, request=less)
            other += _search_formats(averaged, open_sites, first_only=True, startable=False, known={}).ranked
        refused += limits.needs_checkpoint(request, model, first=ranked[0], options=other)
    return Found(
        options=with_load_curve(request, ranked, found=search.serving),
        missed=search.missed,
        refused=refused,
        excluded=excluded,
        binding=None if ranked else no_format or limits.what_stops(search.missed, excluded, by=BY_NEARNESS),
        evaluated=len(search.outcomes),
        assumed=(
            *sessions_assumed(request),
            *([BY_AVERAGES] if request.pools and not can_simulate() else []),
            *rack_notes(ranked, open_sites),
            *variation_notes(request, model),
        ),
        plan=ServePlan,
        sections=partial(_sections, asked, search, open_sites, brief),
    )


def _sections(
    asked: Context[Serve], search: _Search, open_sites: Sequence[Site], brief: bool, plan: ServePlan
) -> ServePlan:
    """
    A feasible plan with everything that explains its options; what takes a search of its own is left out of a `brief`
    one, and once a stop was asked for.
    """
    request, model, today, ranked = asked.request, asked.model, asked.today, plan.options
    serving, missed, first = search.serving, search.missed, ranked[0]
    day = _day(asked, first)
    stopped = brief or stop_asked()
    apart = separate_pools(request, serving, first=first, today=today) if request.pools and not stopped else None
    return replace(
        plan,
        model=plan.model | limits.other_checkpoints(ranked, request=request, model=model),
        sentence=plan.sentence + narrative.following_text(day, apart),
        frontier=frontier(
            ranked,
            objectives=(
                lambda o: o.bill.usd_per_hour,
                lambda o: o.capacity.tpot_s.value,
                lambda o: o.capacity.ttft_s.value,
            ),
        ),
        cheaper_at_risk=narrative.cheaper_at_risk(request, ranked),
        confidence_prices=() if stopped else confidence_prices(request, serving),
        why_not_fewer=narrative.why_not_fewer(request, first, chance=_with_one_fewer(request, first, serving)),
        sizes=narrative.sizes(request, first),
        trail=narrative.trail(request, ranked, missed_memory=limits.missed_memory(missed))
        + adapters_kept(request, ranked, found=serving),
        break_even=()
        if stopped
        else serve_break_even(
            request,
            ranked,
            # At a price as well confirmed as the first's: no other may come before it.
            found=[pair for pair in serving if pair[1].bill.trust == first.bill.trust],
            varied=partial(_variations_of, asked),
            missed=missed,
            open_sites=open_sites,
            model=model,
        ),
        simulated=len({id(one.simulated) for one, _ in serving if one.simulated is not None}),
        quality=changes_among((o.configuration.precision for o in ranked), request=request, model=model),
        roofline=roofline(request, first, found=candidate_of(first, serving)),
        day=day,
        sessions=_sessions(asked, first, serving=serving),
        images=_images(request, first, serving=serving),
        pools=apart,
        tokens=tokens_instead(request, ranked, model=model.id),
    )


def _day(asked: Context[Serve], first: ServeOption) -> FleetDay | None:
    """The first option over the period that its load repeats, where one is said."""
    request = asked.request
    if not (request.shape.hours or request.shape.on_s):
        return None
    from tonnage.questions.serve.day import base_prices

    prices = base_prices(request, first, additions=asked.additions, today=asked.today)
    return fleet_day(request, first, prices=prices)


def _with_one_fewer(request: Serve, first: ServeOption, serving: list[Priced]) -> float | None:
    """The chance of the first option with a replica fewer; None without objectives, or where none works then."""
    fewer = first.replicas - 1
    return candidate_of(first, serving).chance(request, fewer) if working_replicas(request, fewer) > 0 else None


class _Search(NamedTuple):
    """What the search for options found."""

    outcomes: list[Candidate | Infeasible]
    serving: list[tuple[Candidate, ServeOption]]
    missed: list[Infeasible]
    ranked: tuple[ServeOption, ...]


def _search(
    asked: Context[Serve],
    open_sites: Sequence[Site],
    *,
    first_only: bool = False,
    own: bool = False,
    known: Known | None = None,
    times: float = FOLDED,
) -> _Search:
    """
    Every configuration that can be started from the model's checkpoint and whose replica costs at most so many times
    the plan, and the options among them in their order.

    Those that need another checkpoint come with them only where no other meets the objectives surely enough, and never
    where the model's `own` is asked for. `known` keeps what no load moves.
    """
    known = {} if known is None else known
    looking = partial(_search_formats, asked, open_sites, first_only=first_only, known=known, times=times)
    found = looking()
    if own or asked.request.precisions or (found.ranked and (found.ranked[0].sure or stop_asked())):
        return found
    other = looking(startable=False)
    serving = found.serving + other.serving
    ranked, dear = ranked_of(asked.request, asked.model, serving=serving, by_cost=first_only)
    return _Search(found.outcomes + other.outcomes, serving, found.missed + other.missed + dear, ranked)


def _search_formats(
    asked: Context[Serve], open_sites: Sequence[Site], *, first_only: bool, known: Known, startable: bool = True,
    times: float = FOLDED,
) -> _Search:  # fmt: skip
    """
    Every configuration of every site in formats of one kind (`startable` or not), by averages or simulated, and the
    options among them; those that may come first alone where no other counts.
    """
    request = asked.request
    outcome = partial(outcome_of, request, asked.model, known=known)
    by_averages = request.quick or not can_simulate()
    # By averages what costs more at one replica than the first cannot be the first; simulated, it can.
    times = 1.0 if first_only and by_averages else times
    most = limits.most_compared(request) if first_only else math.inf
    tried = _worth_it(request, asked.model, open_sites, outcome=outcome, times=times, most=most, startable=startable)
    outcomes = [*tried.refused, *(outcome for _, outcome in tried.looked_at)]
    plain = [one for one in outcomes if isinstance(one, Candidate)]
    varied: dict[tuple[str, int], Candidate] = {}
    for at in chances_of(request):
        made = best_settings(at, asked.model, looked_at=tried.looked_at, outcome_of=outcome, most=most)
        made += kept_apart(at, [*plain, *made], known=known, most=most)
        varied |= {(repr(one.configuration), id(one.site)): one for one in made}
    outcomes += varied.values()
    candidates = [outcome for outcome in outcomes if isinstance(outcome, Candidate)]
    seen = {candidate.configuration.accelerator for candidate in candidates}
    outcomes += [miss for miss in tried.dear if miss.configuration.accelerator not in seen]
    missed = [outcome for outcome in outcomes if isinstance(outcome, Infeasible)]
    if by_averages:
        found = estimate_candidates(request, candidates, today=asked.today)
    else:
        shown = 1 if first_only else CONTENDERS
        found = decide_candidates(request, candidates, today=asked.today, shown=shown, known=known)
    missed += [outcome for outcome in found if isinstance(outcome, Infeasible)]
    serving = [pair for pair in found if not isinstance(pair, Infeasible)]
    ranked, dear = ranked_of(request, asked.model, serving=serving, by_cost=first_only)
    return _Search(outcomes, serving, missed + dear, ranked)


def serve_options(
    request: Serve,
    *,
    additions: Additions = catalog.NOTHING,
    today: date,
    first_only: bool = False,
    own: bool = False,
    known: Known | None = None,
) -> tuple[ServeOption, ...]:
    """
    The options of the plan in their order, without what explains them: what a sweep over many plans asks for.

    Those that cannot come first are left out where no other counts (`first_only`), and those that do not start from the
    model's `own` checkpoint where no other is asked for. `known` is what requests share that differ in rate, budget and
    confidence alone, at first empty.
    """
    asked = _ask(request, additions, today)
    allowed, _, no_format = apply_quality_floor(request, asked.model)
    if no_format is not None:
        return ()
    open_sites = remembered(known, (), made=lambda: (*with_slices(sites(request.filters, additions=additions)[0]),))
    return _search(replace(asked, request=allowed), open_sites, first_only=first_only, own=own, known=known).ranked


def _sessions(asked: Context[Serve], first: ServeOption, *, serving: list[Priced]) -> SessionCosts | None:
    """What the first option's sessions cost, and what more cache would buy it."""
    if first.reuse is None:
        return None
    from tonnage.questions.sessions.buys import session_costs

    found = candidate_of(first, serving)
    return session_costs(asked.request, first, found=found, model=asked.model, today=asked.today)


def _images(request: Serve, first: ServeOption, *, serving: list[Priced]) -> ImageCosts | None:
    """What images cost on the first option's accelerators, wherever they are encoded."""
    if request.lengths.images is None:
        return None
    from tonnage.questions.serve.apart import image_costs

    return image_costs(request, first, found=candidate_of(first, serving))


class _Tried(NamedTuple):
    """Configurations that were looked at while the bound on what a replica may cost fell, and those that were not."""

    refused: list[Infeasible]
    """That no engine runs."""
    looked_at: list[tuple[Site, Candidate | Infeasible]]
    dear: list[Infeasible]
    """Of each accelerator with one whose replica alone costs too much: the cheapest."""


def _worth_it(
    request: Serve,
    model: Model,
    open_sites: Sequence[Site],
    *,
    outcome: Callable[..., Candidate | Infeasible],
    times: float,
    most: float,
    startable: bool,
) -> _Tried:
    """
    Every configuration of every site whose single replica costs no more than so many times the plan, and `most` [USD/h]
    at most.

    In the order of what one replica costs at least, so that what is left out cannot be the plan, however many replicas
    the others take: neither an objective nor the load moves the bound but through the plan's own cost.
    """
    best = math.inf
    refused: list[Infeasible] = []
    tries: list[tuple[float, int, Site, Configuration]] = []
    for site in open_sites:
        prices = (
            price / offer.count
            for offer in site.offers
            for term in request.filters.terms
            if (price := offer.compared_usd_per_hour(term)) is not None
        )
        each = min(prices, default=math.inf)
        for tried in _configurations(request, model, site, startable=startable):
            if isinstance(tried, Infeasible):
                refused.append(tried)
            else:
                tries.append((each * tried.layout.ranks, len(tries), site, tried))
    asked, dear = has_objectives(request), dict[str, float]()
    loads = any(not limits.unmade(configuration, request=request, model=model) for *_, configuration in tries)
    looked_at: list[tuple[Site, Candidate | Infeasible]] = []
    for least, _, site, configuration in sorted(tries, key=lambda one: one[:2]):
        if least > min(times * best, most):
            dear[configuration.accelerator] = min(dear.get(configuration.accelerator, math.inf), least)
            continue
        found = outcome(site=site, configuration=configuration)
        looked_at.append((site, found))
        behind = isinstance(found, Candidate) and found.unmade and loads  # no bound for what it stands behind
        if isinstance(found, Candidate) and not behind and not (asked and found.firm(request) <= 0.0):
            best = min(best, primary_cost(request, found))
    places = {configuration.accelerator: configuration for _, _, _, configuration in reversed(tries)}
    too_dear = [
        Infeasible(configuration=places[name], verdict=limits.too_dear(least, best=best, times=times))
        for name, least in dear.items()
    ]
    return _Tried(refused, looked_at, too_dear)


def _variations_of(asked: Context[Serve], found: Candidate) -> list[Candidate]:
    """
    A candidate with other settings, wherever it serves with them: what another load may call for. Empty for a candidate
    that has such settings already.
    """
    if found.configuration.settings():
        return []
    request, model = asked.request, asked.model
    tried = (
        outcome_of(request, model, site=found.site, configuration=configuration)
        for configuration, _ in Variations(request, model).of(found.site, found)
    )
    return [one for one in tried if isinstance(one, Candidate)]


def _configurations(
    request: Serve, model: Model, site: Site, *, startable: bool
) -> Iterator[Configuration | Infeasible]:
    """What may be tried on a site, small layouts first; for an engine that runs no format there, the verdict."""
    most = site.largest(LARGEST_REPLICA, allowed=request.filters.max_count)
    for engine in request.engines:
        worth = [
            *limits.configurations(
                request, model, site=site, engine=engine, most=most, domain=reach_of(site), startable=startable
            )
        ]
        if not worth and startable:
            yield limits.without_kernels(request, site, engine=engine)
        for made in itertools.chain(*worth):
            yield from engine_modes(request, model, configuration=made)


SERVE: Final[Kind[Serve, Context[Serve], ServeOption, ServePlan]] = Kind(
    ask=_ask,
    look=_look,
    nearness=BY_NEARNESS,
    purpose=narrative.purpose,
    sentence=narrative.sentence,
    describe=narrative.describe_option,
    assumed=narrative.assumptions,
    measured=lambda asked, miss: alone(asked.request, miss),
)


def runs(plan: ServePlan, _: Additions) -> Iterator[Run]:
    """The configurations that its numbers rest on, as calibrations know them: the best option first."""
    request = plan.request
    for option in plan.options:
        held = option.capacity.concurrency
        yield at_once(option.configuration, model=request.model, lengths=request.lengths, concurrency=held)
    if plan.pools is not None:
        yield at_once(plan.pools.configuration, model=request.model, lengths=request.lengths, concurrency=1.0)
