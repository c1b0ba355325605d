"""Plan a serving workload: every accelerator that can be rented, every sensible way to run the model on it.

The path: filters leave *sites* (an accelerator, the link inside a node, the offers that rent it so);
each site gets the legal layouts and formats; memory prunes, the mean field of
`tonnage.engine.capacity` says what one replica takes within the objectives; replicas times the
cheapest offer give the bill. Whatever loses keeps its reason.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date

from tonnage import __version__, catalog
from tonnage.catalog import Additions
from tonnage.catalog.hub.resolve import resolve
from tonnage.engine.capacity import Point, ReplicaLoad, at_concurrency, at_rate, largest_concurrency
from tonnage.money.bills import HOURS_PER_MONTH, bill, usd_per_hour_of
from tonnage.money.energy import busy_share
from tonnage.nouns.answer import Quantity, Verdict
from tonnage.nouns.layout import Engine, Layout
from tonnage.nouns.model import Model
from tonnage.nouns.money import Offer
from tonnage.nouns.plan import PLAN_SCHEMA, Bill, Capacity, Configuration, Provenance, Rejection, ServeOption, ServePlan
from tonnage.nouns.precision import Precision
from tonnage.nouns.workload import Serve
from tonnage.planner.missed import Missed
from tonnage.planner.replica import Replica, build_replica, concurrency_limit
from tonnage.planner.serve import formats, limits, story
from tonnage.planner.serve.account import accounted
from tonnage.planner.sites import Site, sites
from tonnage.search.frontier import frontier
from tonnage.search.layouts import replica_layouts

__all__ = ["plan_serve"]

LARGEST_REPLICA = 32
"""Accelerators of the largest replica looked at: four nodes of eight. [accelerators]"""
EFFICIENT_SIZES = 2
"""Doublings of a layout looked at beyond the smallest that fits: larger ones cost more for the same load,
but reach tighter objectives, so they are looked at further only while an objective is missed."""
KEPT_PER_SITE = 3


def plan_serve(request: Serve, *, additions: Additions = catalog.NOTHING, today: date | None = None) -> ServePlan:
    """
    Options that serve the workload, cheapest first, with reasons for every loser.

    Raises
    ------
    TonnageError
        The model or an accelerator is unknown, or the request contradicts itself. That nothing can
        serve it is an answer: `feasible` is False and `binding` says what stands in the way.
    """
    today = today or date.today()
    model = resolve(request.model, additions=additions)
    formats.check_context(model, request)
    open_sites, excluded = sites(request.filters, additions=additions)
    options: list[ServeOption] = []
    missed: list[Missed] = []
    evaluated = 0
    for site in open_sites:
        found: list[ServeOption] = []
        for outcome in _outcomes(request, model, site, today):
            evaluated += 1
            if isinstance(outcome, ServeOption):
                found.append(outcome)
            else:
                missed.append(outcome)
        kept = sorted(found, key=_rank)[:KEPT_PER_SITE]
        options += [accounted(request, option, accelerator=site.accelerator) for option in kept]
    options.sort(key=_rank)
    ranked = story.with_verdicts(request, tuple(options))
    rejected = (*_rejections(missed, ranked), *excluded)
    return ServePlan(
        schema=PLAN_SCHEMA,
        feasible=bool(ranked),
        sentence=story.sentence(request, ranked, binding=_binding(request, missed, excluded)),
        request=request,
        model=story.model_facts(model),
        options=ranked,
        frontier=frontier(ranked, objectives=(_cost, lambda o: o.capacity.tpot_s.value, _ttft)),
        cheaper_at_risk=story.cheaper_at_risk(request, ranked),
        why_not_fewer=story.why_not_fewer(request, ranked),
        choices=story.choices(request, ranked),
        rejected=rejected,
        trail=story.trail(request, ranked, missed_memory=_missed_memory(missed)),
        flips=story.flips(request, ranked),
        binding=None if ranked else _binding(request, missed, excluded),
        evaluated=evaluated,
        provenance=Provenance(
            version=__version__,
            catalogue=story.catalogue_dates(option.bill for option in ranked),
            made=today.isoformat(),
            assumed=story.assumptions(request, model, additions=additions),
        ),
    )


def _cost(option: ServeOption) -> float:
    return option.bill.usd_per_hour


def _rank(option: ServeOption) -> tuple[bool, float, float]:
    """Those on measured kernels, or that hold within error, come first; then the cheapest, at one price the faster."""
    return not option.sure, option.bill.usd_per_hour, option.capacity.tpot_s.value


def _ttft(option: ServeOption) -> float:
    return option.capacity.ttft_s.value


def _outcomes(request: Serve, model: Model, site: Site, today: date) -> Iterator[ServeOption | Missed]:
    """Every configuration of one site, small layouts first, stopping where larger ones only cost more."""
    for engine in request.engines:
        worth = formats.precisions(request, model, accelerator=site.accelerator, engine=engine)
        if not worth:
            yield _without_kernels(request, site, engine)
        for precision in worth:
            served = 0
            for layout in _layouts(request, model, site):
                configuration = Configuration(
                    accelerator=site.accelerator.id,
                    layout=layout,
                    precision=precision,
                    engine=Engine(name=engine, max_model_len=request.max_context),
                    intra_link=site.intra_link,
                )
                outcome = _outcome(request, model, site, configuration, today)
                yield outcome
                served += isinstance(outcome, ServeOption)
                if served > EFFICIENT_SIZES:
                    break


def _without_kernels(request: Serve, site: Site, engine: str) -> Missed:
    weights = request.precisions[0] if request.precisions else "any format"
    configuration = Configuration(
        accelerator=site.accelerator.id,
        layout=Layout(),
        precision=Precision(weights=weights),
        engine=Engine(name=engine),
    )
    return Missed(configuration=configuration, verdict=formats.no_kernels(request, site, engine=engine))


def _layouts(request: Serve, model: Model, site: Site) -> Iterable[Layout]:
    most = min(LARGEST_REPLICA, request.filters.max_count or LARGEST_REPLICA)
    return replica_layouts(model, site.accelerator, per_node=site.per_node, max_ranks=most)


def _outcome(
    request: Serve, model: Model, site: Site, configuration: Configuration, today: date
) -> ServeOption | Missed:
    replica = build_replica(
        model=model, accelerator=site.accelerator, configuration=configuration, lengths=request.lengths
    )
    if not replica.verdict.ok or replica.times is None:
        return Missed(configuration=configuration, verdict=replica.verdict)
    load = _load(request, replica)
    if load.max_concurrency < 1:
        need = request.lengths.prompt_tokens + request.lengths.output_tokens
        return Missed(configuration=configuration, verdict=limits.too_little_cache(need, replica.kv_tokens))
    best, binds = largest_concurrency(replica.times, load)
    if best is None:
        alone = at_concurrency(replica.times, load, concurrency=0.01)
        missing = limits.misses_objective(request, alone, limit=binds)
        return Missed(configuration=configuration, verdict=missing, alone=alone)
    replicas = _replicas(request, best)
    bills = _bills(site, replicas=replicas, ranks=configuration.layout.ranks, request=request, today=today)
    if not bills:
        return Missed(configuration=configuration, verdict=limits.no_offer(site, configuration))
    beyond = limits.beyond_limits(request, replicas * configuration.layout.ranks, bills=bills)
    if beyond is not None:
        return Missed(configuration=configuration, verdict=beyond)
    return _option(request, replica, configuration, replicas=replicas, best=best, binds=binds, bills=bills)


def _load(request: Serve, replica: Replica) -> ReplicaLoad:
    lengths = request.lengths
    output_tail = lengths.output_p95 or lengths.output_tokens
    return ReplicaLoad(
        output_tokens=lengths.output_tokens,
        output_tail_tokens=output_tail,
        dispersion=request.shape.dispersion,
        percentile=request.slo.percentile,
        ttft_s=request.slo.ttft_s,
        tpot_s=request.slo.tpot_s,
        e2e_s=request.slo.e2e_s,
        max_concurrency=concurrency_limit(replica, request.lengths),
    )


def _replicas(request: Serve, best: Point, *, factor: float = 1.0) -> int:
    """Replicas for the peak with the wanted headroom, plus spares, if capacity is `factor` times what is predicted."""
    peak = request.shape.peak_to_mean / (1.0 - request.headroom)
    if request.rate_per_s is not None:
        needed = request.rate_per_s * peak / (best.rate_per_s * factor)
    else:
        needed = (request.concurrency or 1.0) * peak / (best.concurrency * factor)
    return max(1, math.ceil(needed - 1e-9)) + request.spare_replicas


def _bills(site: Site, *, replicas: int, ranks: int, request: Serve, today: date) -> list[Bill]:
    made = [
        bill(offer, replicas=replicas, ranks=ranks, term=term, today=today)
        for offer in site.offers
        if _holds(offer, ranks, site)
        for term in request.filters.terms
        if offer.usd_per_hour(term) is not None
    ]
    return sorted((b for b in made if isinstance(b, Bill)), key=lambda b: b.usd_per_hour)


def _holds(offer: Offer, ranks: int, site: Site) -> bool:
    """A replica fits inside one instance, or spans whole instances of the largest kind."""
    return offer.count >= ranks or (offer.count == site.per_node and ranks % offer.count == 0)


def _option(
    request: Serve,
    replica: Replica,
    configuration: Configuration,
    *,
    replicas: int,
    best: Point,
    binds: str,
    bills: list[Bill],
) -> ServeOption:
    assert replica.times is not None
    load = _load(request, replica)
    working = replicas - request.spare_replicas
    if request.rate_per_s is not None:
        share = request.rate_per_s * request.shape.peak_to_mean / working
        point = at_rate(replica.times, load, rate_per_s=share)
        headroom = 1.0 - share / best.rate_per_s
    else:
        share = (request.concurrency or 1.0) * request.shape.peak_to_mean / working
        point = at_concurrency(replica.times, load, concurrency=share)
        headroom = 1.0 - share / best.concurrency
    tokens_per_s = point.rate_per_s * working / request.shape.peak_to_mean * request.lengths.output_tokens
    capacity = _capacity(replica, point=point, best=best, binds=binds)
    cost = _cost_interval(request, bills[0], best=best, ranks=configuration.layout.ranks, replica=replica)
    return ServeOption(
        configuration=configuration,
        replicas=replicas,
        accelerators=replicas * configuration.layout.ranks,
        capacity=capacity,
        memory=replica.memory,
        kv_tokens=replica.kv_tokens,
        bill=bills[0],
        other_offers=tuple(bills[1:4]),
        cost=cost,
        headroom=headroom,
        usd_per_month=cost.value * HOURS_PER_MONTH,
        usd_per_million_output_tokens=cost.value / (tokens_per_s * 3600.0) * 1e6,
        basis=str(replica.basis),
        sure=story.is_sure(request, capacity, basis=replica.basis),
    )


def _cost_interval(request: Serve, made: Bill, *, best: Point, ranks: int, replica: Replica) -> Quantity:
    """The bill, and what it becomes when capacity lies at either end of its interval."""
    error = replica.factors["requests_per_s"]
    fewest, most = (_replicas(request, best, factor=factor) for factor in (error, 1.0 / error))
    return Quantity(
        value=made.usd_per_hour,
        unit="USD/h",
        low=usd_per_hour_of(made, replicas=fewest, ranks=ranks),
        high=usd_per_hour_of(made, replicas=most, ranks=ranks),
        basis=replica.basis,
        parts=made.lines,
    )


def _capacity(replica: Replica, *, point: Point, best: Point, binds: str) -> Capacity:
    def timed(value: float, name: str) -> Quantity:
        return Quantity(value=value, unit="s", basis=replica.basis).within(replica.factors[name])

    rate = Quantity(value=best.rate_per_s, unit="1/s", basis=replica.basis)
    return Capacity(
        max_rate_per_s=rate.within(replica.factors["requests_per_s"]),
        concurrency=point.concurrency,
        ttft_s=timed(point.ttft_tail_s, "ttft_s"),
        tpot_s=timed(point.tpot_tail_s, "tpot_s"),
        ttft_mean_s=point.ttft_mean_s,
        tpot_mean_s=point.tpot_mean_s,
        binds="batch" if binds == "kv" and best.concurrency >= replica.max_num_seqs * 0.999 else binds,
        binds_text=story.binds_text(binds, best, replica=replica),
        prompt_share=_prompt_share(replica, point),
    )


def _prompt_share(replica: Replica, point: Point) -> float:
    """Of the time at work, the part that prompts take: the rest is decoding."""
    assert replica.times is not None
    return min(1.0, point.rate_per_s * replica.times.prefill_work_s / busy_share(mean_requests=point.concurrency))


def _rejections(missed: list[Missed], options: tuple[ServeOption, ...]) -> tuple[Rejection, ...]:
    """One line per accelerator that serves in no configuration: the one that came closest."""
    serving = {option.configuration.accelerator for option in options}
    closest: dict[str, Missed] = {}
    for miss in missed:
        name = miss.configuration.accelerator
        if name not in serving and (name not in closest or _nearness(miss) < _nearness(closest[name])):
            closest[name] = miss
    return tuple(
        Rejection(what=miss.configuration.label(), verdict=miss.verdict)
        for miss in sorted(closest.values(), key=_nearness)
    )


def _nearness(miss: Missed) -> tuple[int, float]:
    """Configurations that hold the model come closer than those that do not; then by shortfall."""
    order = {"budget": 0, "count": 0, "tpot": 1, "ttft": 1, "e2e": 1, "offer": 2, "cache": 3, "memory": 4}
    return order.get(miss.verdict.limit or "", 5), miss.verdict.short_by or 0.0


def _missed_memory(missed: list[Missed]) -> bool:
    return any(miss.verdict.limit in {"memory", "cache"} and miss.configuration.layout.ranks == 1 for miss in missed)


def _binding(request: Serve, missed: list[Missed], excluded: tuple[Rejection, ...]) -> Verdict:
    """When nothing serves: the limit that stops the configuration that came closest, and what would work."""
    if not missed:
        counts = Counter(loser.verdict.limit or "filter" for loser in excluded)
        limit = counts.most_common(1)[0][0] if counts else "filter"
        return Verdict(
            ok=False,
            limit=limit,
            reason=f"no offer passes the filters; '{limit}' removes {counts[limit]} accelerators",
            nearest=f"drop or widen '{limit}'",
        )
    named = {miss.verdict.limit for miss in missed}
    if named <= {"memory", "cache", "offer", "tp"}:
        return min(missed, key=_nearness).verdict
    reachable = [miss for miss in missed if miss.alone is not None]
    if reachable and not any(miss.verdict.limit in {"budget", "count"} for miss in missed):
        return limits.unreachable(reachable)
    return min(missed, key=_nearness).verdict
