"""Plan a serving workload: every accelerator that can be rented, every sensible way to run the model on it.

The path: filters leave *sites* (an accelerator, the link inside a node, the offers that rent it so);
each site gets the legal layouts and formats; memory prunes, the mean field of
`tonnage.simulation.capacity` says about what one replica takes within the objectives; `decide` simulates
what may still come among the first; replicas times the cheapest offer give the bill. Whatever loses
keeps its reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.hub.resolve import resolve
from tonnage.domain.fleet import FleetDay
from tonnage.domain.images import ImageCosts
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.model import Model
from tonnage.domain.plan import (
    BY_AVERAGES,
    PLAN_SCHEMA,
    Configuration,
    Rejection,
    ServeOption,
    ServePlan,
)
from tonnage.domain.requests.serve import Serve
from tonnage.domain.sessions import SessionCosts
from tonnage.engines.registry import engine_spec
from tonnage.errors import BadRequest
from tonnage.optimize.layouts import replica_layouts
from tonnage.planning.core.header import (
    Infeasible,
    answer_or_relax,
    by_reason,
    model_facts,
    nearest_of_each,
    nearness,
    provenance,
    quick_without_simulator,
)
from tonnage.planning.core.moved_losers import alone, moved_losers
from tonnage.planning.core.ranking import choices, frontier, serve_traits, with_verdicts
from tonnage.planning.quality import apply_quality_floor, changes_among
from tonnage.planning.serve import limits, narrative
from tonnage.planning.serve.break_even import serve_break_even
from tonnage.planning.serve.chance import Curve, Odds
from tonnage.planning.serve.day import fleet_day
from tonnage.planning.serve.decide import (
    Priced,
    adapters_kept,
    best_of_each,
    candidate_of,
    confidence_prices,
    decide_candidates,
    estimate_candidates,
    with_load_curve,
    without_too_dear,
)
from tonnage.planning.serve.option import Candidate, has_objectives, least_cost_of, least_of_one, most_of, roofline
from tonnage.planning.serve.pools import separate_pools
from tonnage.planning.serve.tokens import tokens_instead
from tonnage.planning.serve.variations import (
    Variations,
    engine_modes,
    kept_apart,
    least_with,
    primary_cost,
    sure_cost,
    variation_notes,
)
from tonnage.planning.sessions.reuse import reusing_replica, sessions_assumed
from tonnage.planning.sites import Site, rack_notes, reach_of, sites, with_slices
from tonnage.pricing.bills import primary_first
from tonnage.version import can_simulate

__all__ = ["outcome_of", "plan_serve", "serve_options", "serve_plan_alone"]

LARGEST_REPLICA = 64
"""Of the largest replica looked at: eight nodes of eight, or a rack of 72 less its spare trays. [accelerators]"""
FOLDED = 5.0
"""Times the cost of the plan, beyond which a single replica is not looked at. [-]"""
BY_NEARNESS = nearness(
    {"cost": 0, "budget": 0, "count": 0, "tpot": 1, "ttft": 1, "e2e": 1, "offer": 2, "cache": 3, "memory": 4}
)
"""Configurations that hold the model come nearer than those that do not."""


def plan_serve(request: Serve, *, additions: Additions = catalog.NOTHING, today: date | None = None) -> ServePlan:
    """
    Options that serve the workload, cheapest first, with reasons for every loser.

    Raises
    ------
    TonnageError
        The model or an accelerator is unknown, or the request contradicts itself. That nothing can
        serve it is an answer: `feasible` is False and `binding` says what stands in the way.
    """
    one = partial(serve_plan_alone, additions=additions, today=today or date.today())
    return answer_or_relax(
        request,
        lambda asked: quick_without_simulator(asked, one),
        led_by=narrative.describe_option,
        cut=lambda other: replace(other, quick=True),
    )


def serve_plan_alone(request: Serve, *, additions: Additions, today: date) -> ServePlan:
    """The plan, without what relaxing its constraints would buy."""
    model = resolve(request.model, additions=additions)
    if not model.layers:
        raise BadRequest(f"model: {model.id} decodes no text; ask `tonnage plan infer {model.id} --rate …`")
    limits.check_context(model, request)
    allowed, refused, no_format = apply_quality_floor(request, model)
    open_sites, excluded = sites(request.filters, additions=additions) if no_format is None else ((), ())
    open_sites = tuple(with_slices(open_sites))
    search = _search(request, allowed, model, open_sites=open_sites, today=today)
    outcomes, serving, missed, ranked = search
    doing = {option.configuration.accelerator for option in ranked}
    by_averages = partial(
        _search_formats, replace(request, quick=True), allowed, model, open_sites=open_sites, today=today
    )
    unstored = _unstored(by_averages, ranked) if not allowed.precisions else ()
    rejected = (*refused, *unstored, *nearest_of_each(missed, doing=doing, by=BY_NEARNESS), *excluded)
    binding = no_format or limits.what_stops(missed, excluded, by=BY_NEARNESS)
    day = _day(request, ranked, additions=additions, today=today)
    apart = separate_pools(request, serving, first=ranked[0], today=today) if request.pools and ranked else None
    return ServePlan(
        schema=PLAN_SCHEMA,
        feasible=bool(ranked),
        sentence=narrative.sentence(request, ranked, binding=binding) + narrative.following_text(day, apart),
        request=request,
        model=model_facts(model),
        options=with_load_curve(request, ranked, found=serving),
        frontier=frontier(
            ranked,
            objectives=(
                lambda o: o.bill.usd_per_hour,
                lambda o: o.capacity.tpot_s.value,
                lambda o: o.capacity.ttft_s.value,
            ),
        ),
        cheaper_at_risk=narrative.cheaper_at_risk(request, ranked),
        confidence_prices=confidence_prices(request, serving),
        why_not_fewer=narrative.why_not_fewer(request, ranked),
        choices=choices([serve_traits(request, option) for option in ranked]),
        sizes=narrative.sizes(request, ranked),
        rejected=rejected,
        rejected_by_reason=by_reason(rejected),
        calibrations=() if ranked else moved_losers(missed, alone(request), by=BY_NEARNESS, additions=additions),
        trail=narrative.trail(request, ranked, missed_memory=limits.missed_memory(missed))
        + adapters_kept(request, ranked, found=serving),
        break_even=serve_break_even(
            request,
            ranked,
            found=_equally_confirmed(serving, ranked),
            varied=partial(_variations_of, request, model),
            missed=missed,
            open_sites=open_sites,
            model=model,
        ),
        binding=None if ranked else binding,
        evaluated=len(outcomes),
        simulated=sum(option.capacity.simulated is not None for _, option in serving),
        quality=changes_among((o.configuration.precision for o in ranked), request=request, model=model),
        roofline=roofline(request, ranked[0], model=model, additions=additions) if ranked else None,
        day=day,
        sessions=_sessions(request, ranked, serving=serving, model=model, today=today),
        images=_images(request, ranked, serving=serving),
        pools=apart,
        tokens=tokens_instead(request, ranked, model=model.id),
        provenance=provenance(
            (option.bill for option in ranked),
            today=today,
            assumed=(
                *narrative.assumptions(request, model, additions=additions),
                *sessions_assumed(request),
                *([BY_AVERAGES] if request.pools and not can_simulate() else []),
                *rack_notes(ranked, open_sites),
                *variation_notes(request, model),
            ),
        ),
    )


def _day(request: Serve, ranked: tuple[ServeOption, ...], *, additions: Additions, today: date) -> FleetDay | None:
    """The first option over the period that its load repeats, where one is said."""
    if not ranked or not (request.shape.hours or request.shape.on_s):
        return None
    from tonnage.planning.serve.committed import base_prices

    prices = base_prices(request, ranked[0], additions=additions, today=today)
    return fleet_day(request, ranked[0], prices=prices)


class _Search(NamedTuple):
    """What the search for options found."""

    outcomes: list[Candidate | Infeasible]
    serving: list[tuple[Candidate, ServeOption]]
    missed: list[Infeasible]
    ranked: tuple[ServeOption, ...]


def _search(
    request: Serve, allowed: Serve, model: Model, *, open_sites: Sequence[Site], today: date, times: float = FOLDED
) -> _Search:
    """
    Every configuration that can be started from the model's checkpoint, and the options among them in their order.

    Those that need another checkpoint come with them only where no other meets the objectives surely enough.
    """
    search = partial(_search_formats, request, allowed, model, open_sites=open_sites, today=today, times=times)
    found = search()
    if allowed.precisions or (found.ranked and found.ranked[0].sure):
        return found
    other = search(startable=False)
    serving = found.serving + other.serving
    ranked, dear = _ranked(request, serving)
    return _Search(found.outcomes + other.outcomes, serving, found.missed + other.missed + dear, ranked)


def _search_formats(
    request: Serve, allowed: Serve, model: Model, *, open_sites: Sequence[Site], today: date, times: float = FOLDED,
    startable: bool = True,
) -> _Search:  # fmt: skip
    """Every configuration of every site, by averages or simulated."""
    outcomes = _worth_it(allowed, model, open_sites, times=times, startable=startable)
    candidates = [outcome for outcome in outcomes if isinstance(outcome, Candidate)]
    missed = [outcome for outcome in outcomes if isinstance(outcome, Infeasible)]
    by_averages = request.quick or not can_simulate()
    found = (estimate_candidates if by_averages else decide_candidates)(request, candidates, today=today)
    missed += [outcome for outcome in found if isinstance(outcome, Infeasible)]
    serving = [pair for pair in found if not isinstance(pair, Infeasible)]
    ranked, dear = _ranked(request, serving)
    return _Search(outcomes, serving, missed + dear, ranked)


def _ranked(request: Serve, serving: list[Priced]) -> tuple[tuple[ServeOption, ...], list[Infeasible]]:
    """Options in their order, and those that the load makes as dear as a replica is when it is not looked at."""
    kept, dear = without_too_dear(primary_first(best_of_each(request, serving)), times=FOLDED)
    return _with_verdicts(request, kept), dear


def _unstored(search: partial[_Search], ranked: tuple[ServeOption, ...]) -> tuple[Rejection, ...]:
    """The option by averages that another checkpoint would bring, where it costs less than the first."""
    named = ranked and ranked[0].sure
    return limits.needs_checkpoint(ranked[0], search(times=1.0, startable=False).ranked) if named else ()


def serve_options(
    request: Serve, *, additions: Additions = catalog.NOTHING, today: date, times: float = FOLDED
) -> tuple[ServeOption, ...]:
    """
    The options of the plan in their order, without what explains them: what a sweep over many plans asks for.

    Those whose single replica costs more than so many times the plan are left out; where only the first counts, 1.
    """
    model = resolve(request.model, additions=additions)
    limits.check_context(model, request)
    allowed, _, no_format = apply_quality_floor(request, model)
    open_sites = sites(request.filters, additions=additions)[0] if no_format is None else ()
    able = tuple(with_slices(open_sites))
    return _search(request, allowed, model, open_sites=able, today=today, times=times).ranked


def _sessions(
    request: Serve, ranked: tuple[ServeOption, ...], *, serving: list[Priced], model: Model, today: date
) -> SessionCosts | None:
    """What the first option's sessions cost, and what more cache would buy it."""
    if not ranked or ranked[0].reuse is None:
        return None
    from tonnage.planning.sessions.buys import session_costs

    return session_costs(request, ranked[0], found=candidate_of(ranked[0], serving), model=model, today=today)


def _images(request: Serve, ranked: tuple[ServeOption, ...], *, serving: list[Priced]) -> ImageCosts | None:
    """What images cost on the first option's accelerators, wherever they are encoded."""
    if not ranked or request.lengths.images is None:
        return None
    from tonnage.planning.serve.images import image_costs

    return image_costs(request, ranked[0], found=candidate_of(ranked[0], serving))


def _with_verdicts(request: Serve, options: tuple[ServeOption, ...]) -> tuple[ServeOption, ...]:
    """Ranked options with the reason for their place."""
    if not options:
        return ()
    return with_verdicts(
        options,
        lead=narrative.lead_reason(options[0], request=request),
        arithmetic=narrative.arithmetic,
        risk=partial(narrative.risk, request=request),
    )


def _equally_confirmed(
    serving: list[tuple[Candidate, ServeOption]], ranked: tuple[ServeOption, ...]
) -> list[tuple[Candidate, ServeOption]]:
    """What serves the load at a price as well confirmed as the first's: no other may come before it."""
    trust = ranked[0].bill.trust if ranked else "primary"
    return [pair for pair in serving if pair[1].bill.trust == trust] or serving


def _worth_it(
    request: Serve, model: Model, open_sites: Sequence[Site], *, times: float = FOLDED, startable: bool = True
) -> list[Candidate | Infeasible]:
    """
    Every configuration of every site whose single replica costs no more than so many times the plan.

    In the order of what one replica costs at least, so that what is left out cannot be the plan, however many replicas
    the others take: neither an objective nor the load moves the bound but through the plan's own cost.
    """
    best = math.inf
    kept: list[Candidate | Infeasible] = []
    tries: list[tuple[float, int, Site, Configuration]] = []
    for site in open_sites:
        each = min(least_of_one(site, request), default=math.inf)
        for tried in _configurations(request, model, site, startable=startable):
            if isinstance(tried, Infeasible):
                kept.append(tried)
            else:
                tries.append((each * tried.layout.ranks, len(tries), site, tried))
    asked, dear = has_objectives(request), dict[str, float]()
    looked_at: list[tuple[Site, Candidate | Infeasible]] = []
    for least, _, site, configuration in sorted(tries, key=lambda one: one[:2]):
        if least > times * best:
            dear[configuration.accelerator] = min(dear.get(configuration.accelerator, math.inf), least)
            continue
        outcome = outcome_of(request, model, site=site, configuration=configuration)
        kept.append(outcome)
        looked_at.append((site, outcome))
        if isinstance(outcome, Candidate) and not (asked and outcome.firm(request) <= 0.0):
            best = min(best, primary_cost(request, outcome))
    kept += _vary_settings(request, model, looked_at, best=best)
    kept += kept_apart(request, [one for one in kept if isinstance(one, Candidate)], best=best)
    seen = {each.configuration.accelerator for each in kept if isinstance(each, Candidate)}
    places = {configuration.accelerator: configuration for _, _, _, configuration in reversed(tries)}
    kept += [
        Infeasible(configuration=places[name], verdict=limits.too_dear(least, best=best, times=times))
        for name, least in dear.items()
        if name not in seen
    ]
    return kept


def _vary_settings(
    request: Serve,
    model: Model,
    looked_at: Iterable[tuple[Site, Candidate | Infeasible]],
    *,
    best: float,
) -> list[Candidate]:
    """
    Other settings of what was looked at, the cheapest of each, where they cost less than the same without: in the order
    of what they cost at least, until none that is left can cost less than the best plan.
    """
    tries: list[tuple[float, int, Site, Candidate | Infeasible, Configuration]] = []
    costs: dict[int, float] = {}
    variations = Variations(request, model)
    for site, found in looked_at:
        for configuration, gain in variations.of(site, found):
            least = least_with(request, found, site=site, gain=gain)
            if least < best:
                tries.append((least, len(tries), site, found, configuration))
                costs[id(found)] = sure_cost(request, found)
    chosen: dict[int, tuple[float, int, Candidate]] = {}
    for least, _, site, found, configuration in sorted(tries, key=lambda one: one[:2]):
        if least >= best:
            break
        outcome = outcome_of(request, model, site=site, configuration=configuration)
        cost, changes = sure_cost(request, outcome), len(configuration.settings())
        before = chosen[id(found)][:2] if id(found) in chosen else (costs[id(found)], 0)
        if isinstance(outcome, Candidate) and (cost, changes) < before:
            chosen[id(found)] = cost, changes, outcome
            best = min(best, cost)
    return [outcome for _, _, outcome in chosen.values()]


def _variations_of(request: Serve, model: Model, found: Candidate) -> list[Candidate]:
    """A candidate with other settings, wherever it serves with them: what another load may call for."""
    if found.configuration.settings():
        return []
    tried = (
        outcome_of(request, model, site=found.site, configuration=one.configuration)
        for one in Variations(request, model).of(found.site, found)
    )
    return [one for one in tried if isinstance(one, Candidate)]


def _configurations(
    request: Serve, model: Model, site: Site, *, startable: bool = True
) -> Iterator[Configuration | Infeasible]:
    """What may be tried on a site, small layouts first; an engine that does not run there says so."""
    for engine in request.engines:
        worth = limits.precisions(request, model, accelerator=site.accelerator, engine=engine, startable=startable)
        if not worth and startable:
            yield limits.without_kernels(request, site, engine=engine)
        for precision in worth:
            for layout in _layouts(request, model, site, layered=engine_spec(engine).layered):
                made = Configuration(
                    accelerator=site.accelerator.id,
                    layout=layout,
                    precision=precision,
                    engine=Engine(name=engine, max_model_len=request.max_context),
                    intra_link=site.intra_link,
                )
                yield from engine_modes(request, model, configuration=made)


def _layouts(request: Serve, model: Model, site: Site, *, layered: bool) -> Iterable[Layout]:
    most = site.largest(LARGEST_REPLICA, allowed=request.filters.max_count)
    return replica_layouts(
        model, site.accelerator, per_node=site.per_node, max_ranks=most, layered=layered, domain=reach_of(site)
    )


def outcome_of(request: Serve, model: Model, *, site: Site, configuration: Configuration) -> Candidate | Infeasible:
    """The configuration by the mean field: what one replica takes, or why it cannot serve."""
    replica = reusing_replica(request, configuration, model=model, accelerator=site.accelerator)
    most = most_of(request, replica, configuration=configuration)
    if isinstance(most, Infeasible):
        return most
    state, best, binds = most
    if least_cost_of(site, replicas=1, ranks=configuration.layout.ranks, request=request) is None:
        return Infeasible(configuration=configuration, verdict=limits.no_offer(site, configuration))
    odds = Odds(Curve(request, replica, state=state), request.slo)
    return Candidate(
        site=site, configuration=configuration, replica=replica, best=best, binds=binds, state=state, odds=odds
    )
