"""Plan a batch: finish N items by a deadline for the least money, and say what more speed would cost.

Nobody waits for a single answer, so replicas run full: each holds as many requests as its cache and its engine take,
and finishes them at the saturated rate that `tonnage predict` gives for the same case. Instances follow from the
deadline at the rate that holds with the confidence asked for; start, interruptions and billing steps are on the bill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import partial
from operator import add
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.hub.resolve import resolve_text
from tonnage.catalog.spreads import chance_of, end_at
from tonnage.core.calibration_use import Run, at_once
from tonnage.core.deployment import case_of, deploy
from tonnage.core.driver import Found, Kind, alone, plan_or_relax
from tonnage.core.header import Context, Infeasible, nearness
from tonnage.core.quality import apply_quality_floor, changes_among
from tonnage.core.ranking import surely_cheapest, time_leads, unlikely, with_verdicts
from tonnage.core.serving_traffic import served_latency
from tonnage.core.sites import Site, reach_of, sites, with_slices
from tonnage.domain.answer import Verdict
from tonnage.domain.batch_plan import BatchOption, BatchPlan
from tonnage.domain.case import Traffic
from tonnage.domain.money import Offer
from tonnage.domain.plan import Configuration
from tonnage.domain.requests.serve import Batch, Serve
from tonnage.physics.memory import stored_bytes
from tonnage.pricing.bills import primary_first
from tonnage.questions.batch import narrative
from tonnage.questions.batch.narrative import batch_break_even
from tonnage.questions.batch.work import Candidate, JobRun, Work, candidate_of, option_of
from tonnage.questions.serve import limits
from tonnage.questions.serve.variations import Variations

LARGEST_REPLICA: Final = 32
SIZES_LOOKED_AT: Final = 3
"""Layouts from the smallest that fits: larger ones only cost more when nobody waits."""
WORTH_THE_HASTE: Final = 1.05
"""Without a deadline, as many instances are taken as raise the cost by no more than this. [-]"""
KEPT_PER_TERM: Final = 2
"""Of a site: a first, and another where it is rented so."""
ROUNDING: Final = 1e-9
FAR: Final = 3.0
"""Errors are followed so many times the way to the end of their interval. [-]"""
NARROW: Final = 1e-4
"""Of that, how closely a chance is found. [-]"""


def plan_batch(request: Batch, *, additions: Additions = catalog.NOTHING, today: date | None = None) -> BatchPlan:
    """
    Options that finish the items in time, cheapest first; the frontier of cost against time; reasons for losers.

    Raises
    ------
    TonnageError
        The model or an accelerator is unknown, or the request contradicts itself. That nothing finishes in time is
        an answer: `feasible` is False and `binding` says what would.
    """
    return plan_or_relax(BATCH, request, additions=additions, today=today)


def _ask(request: Batch, additions: Additions, today: date) -> Context[Batch]:
    model = resolve_text(request.model, additions=additions)
    limits.check_context(model, _as_serve(request))
    return Context(request=request, model=model, today=today, additions=additions)


def _search(asked: Context[Batch]) -> Found[Batch, BatchOption, BatchPlan]:
    """
    The options of the job. Configurations that need a checkpoint that is not named are options only where no other is
    in time surely enough; else the plan says what they would save.
    """
    request = asked.request
    allowed, refused, no_format = apply_quality_floor(request, asked.model)
    open_sites, excluded = sites(request.filters, additions=asked.additions) if no_format is None else ((), ())
    look = partial(_look, asked, allowed, tuple(with_slices(open_sites)))
    seen = look()
    lacks = partial(limits.unmade, request=request, model=asked.model)
    timed = time_leads(request)
    in_order = partial(_in_order, lacks=lacks, timed=timed)
    if not allowed.precisions:
        other = look(startable=False)
        if any(option.sure for option in seen.options):
            first, options = in_order(seen.options)[0], in_order(other.options)
            refused += limits.needs_checkpoint(request, asked.model, first=first, options=options)
        else:
            seen = _Look(*map(add, seen, other))
    ranked = with_verdicts(
        tuple(in_order(seen.options)),
        lead=partial(narrative.lead_reason, confidence=request.confidence, timed=timed),
        arithmetic=narrative.arithmetic,
        risk=partial(narrative.risk, lacks=lacks),
    )
    return Found(
        options=ranked,
        missed=seen.missed,
        refused=refused,
        excluded=excluded,
        binding=no_format,
        evaluated=seen.evaluated,
        plan=BatchPlan,
        sections=partial(_with_trade_offs, asked, seen),
    )


def _with_trade_offs(asked: Context[Batch], seen: _Look, plan: BatchPlan) -> BatchPlan:
    """A feasible plan with cost against time, accelerators against each other, spot, and break-even points."""
    request, ranked = asked.request, plan.options
    return replace(
        plan,
        model=plan.model | limits.other_checkpoints(ranked, request=request, model=asked.model),
        frontier=narrative.trade_offs(seen.found),
        card_for_card=narrative.card_for_card(ranked),
        spot_against=narrative.spot_against(ranked),
        break_even=batch_break_even(
            request, ranked, chances=seen.chances, sized=_size_run, remade=partial(_remade, asked)
        ),
        quality=changes_among((o.configuration.precision for o in ranked), request=request, model=asked.model),
    )


class _Look(NamedTuple):
    """What some formats give on every site: options, runs, what cannot do it, candidates, and configurations tried."""

    options: list[BatchOption]
    found: list[JobRun]
    missed: list[Infeasible]
    chances: list[Candidate]
    evaluated: int


def _look(asked: Context[Batch], allowed: Batch, open_sites: Sequence[Site], *, startable: bool = True) -> _Look:
    """Every configuration that can be started from the model's checkpoint, or every one that needs another."""
    request = asked.request
    seen = _Look([], [], [], [], 0)
    best = partial(_best, lacks=partial(limits.unmade, request=request, model=asked.model))
    evaluated = 0
    for site in open_sites:
        here: list[JobRun] = []
        for outcome in _works(replace(asked, request=allowed), site, startable=startable):
            evaluated += 1
            if isinstance(outcome, Infeasible):
                seen.missed.append(outcome)
                continue
            run, places = outcome.configuration, _candidates_at(request, site, outcome)
            if not places:
                seen.missed.append(Infeasible(configuration=run, verdict=limits.no_offer(site, run)))
            for sized in (_size_run(request, place) for place in places):
                if isinstance(sized, Verdict):
                    seen.missed.append(Infeasible(configuration=run, verdict=sized))
                else:
                    here.append(sized)
            seen.chances.extend(places)
        here = [*_with_one_cache(here)]
        seen.found.extend(here)
        seen.options.extend(option_of(one, accelerator=site.accelerator, today=asked.today) for one in best(here))
    return seen._replace(evaluated=evaluated)


def _surely_soonest(option: BatchOption) -> tuple[bool, float, float]:
    return not option.sure, option.wall_s.value, option.cost.value


def _in_order(options: list[BatchOption], *, lacks: Callable[[Configuration], bool], timed: bool) -> list[BatchOption]:
    """
    The cheapest (`timed`: the soonest) first of those as sure, those whose checkpoint somebody has to make first behind
    the others.
    """
    ordered = primary_first(sorted(options, key=_surely_soonest if timed else surely_cheapest))
    return sorted(ordered, key=lambda one: (not one.sure, lacks(one.configuration)))


def _as_serve(request: Batch) -> Serve:
    """The same lengths, formats and filters, for the parts that serving and batch share."""
    return Serve(
        model=request.model,
        lengths=request.lengths,
        concurrency=1.0,
        precisions=request.precisions,
        quality_floor=request.quality_floor,
        engines=request.engines,
        filters=request.filters,
    )


def _works(asked: Context[Batch], site: Site, *, startable: bool) -> Iterator[Work | Infeasible]:
    """
    Every configuration of one site that can do the job or why not, small layouts first, until a few sizes of each
    format work; each with a cache in FP8, too, where its quality is published.
    """
    request, domain = _as_serve(asked.request), reach_of(site)
    variations = Variations(request, asked.model)
    most = site.largest(LARGEST_REPLICA, allowed=request.filters.max_count)
    for engine in request.engines:
        for of_format in limits.configurations(
            request, asked.model, site=site, engine=engine, most=most, domain=domain, startable=startable
        ):
            sizes = set[int]()
            for configuration in of_format:
                if configuration.layout.ranks not in sizes and len(sizes) == SIZES_LOOKED_AT:
                    break
                work = _work(asked, configuration)
                yield work
                if isinstance(work, Work):
                    sizes.add(configuration.layout.ranks)
                limit = work.verdict.limit if isinstance(work, Infeasible) else "cache"
                for precision, _ in variations.caches(site, configuration)[1:] if limit == "cache" else ():
                    yield _work(asked, replace(configuration, precision=precision))


def _work(asked: Context[Batch], configuration: Configuration) -> Work | Infeasible:
    """How fast one full replica of a configuration works, or why it cannot."""
    request, model, lengths = asked.request, asked.model, asked.request.lengths
    # As full as it gets: what `tonnage predict` calls saturated.
    case = case_of(configuration, model=model, lengths=lengths, traffic=Traffic(saturated=True))
    at = deploy(case, model=model, accelerator=catalog.accelerator(case.accelerator, asked.additions))
    if not at.pool.verdict.ok:
        return Infeasible(configuration=configuration, verdict=at.pool.verdict)
    if at.pool.sequences < 1:
        whole = lengths.prompt_tokens + lengths.output_tokens
        return Infeasible(configuration=configuration, verdict=limits.too_little_cache(whole, at.pool.tokens))
    found, tier = served_latency(at)
    basis = at.basis_on(tier)
    errors = at.errors(basis, load="saturated", in_flight=found.running)
    return Work(
        configuration=configuration,
        items=request.items,
        at=at,
        served=found,
        # Items are tokens over a fixed length, and tokens per second is what most measurements state.
        error=errors.spread("output_tokens_per_s"),
        basis=basis,
        weight_bytes=stored_bytes(model, configuration.precision),
    )


def _candidates_at(request: Batch, site: Site, work: Work) -> list[Candidate]:
    """The work on every offer of the site that holds it and lists a price, with the most instances allowed."""
    found = (candidate_of(work, offer, term=term) for offer, term in _offers(request, site, work.ranks))
    return [replace(at, fastest=_most_instances(request, at)) for at in found if at is not None]


def _remade(asked: Context[Batch], request: Batch, work: Work) -> Work | None:
    """The configuration of a work with the lengths of another request; None where it does not hold one."""
    most, longest = request.lengths.prompt_tokens + request.lengths.output_tokens, asked.model.max_context
    if longest is not None and most > longest:
        return None
    made = _work(replace(asked, request=request), work.configuration)
    return made if isinstance(made, Work) else None


def _offers(request: Batch, site: Site, ranks: int) -> list[tuple[Offer, str]]:
    """
    The cheapest offer that takes a replica of `ranks` accelerators, with its term, of each provider, accelerators of an
    instance and term: other regions and instance types of that size only cost more for the same work.
    """
    cheapest: dict[tuple[str, str, float], tuple[float, Offer]] = {}
    for offer in site.offers:
        if not site.takes(offer, ranks):
            continue
        for term in request.filters.terms:
            price = offer.usd_per_hour(term)
            key = (offer.provider, term, offer.count)
            if price is not None and (key not in cheapest or price < cheapest[key][0]):
                cheapest[key] = (price, offer)
    return [(offer, key[1]) for key, (_, offer) in cheapest.items()]


def _size_run(request: Batch, at: Candidate) -> JobRun | Verdict:
    """
    The job on the cheapest number of instances that keeps the deadline with the confidence asked for, else with which
    the estimate does, else why not. The budget is kept by the estimate; without a deadline, see `_without_haste`.
    """
    most = at.fastest
    if most < 1:
        return narrative.too_many(request, at)
    if request.deadline_s is None:
        run = _without_haste(at, haste=time_leads(request))
    else:
        speed = at.work.error.at(-end_at(request.confidence))
        firm, middle = (at.instances_by(request.deadline_s, speed=each) for each in (min(1.0, speed), 1.0))
        if middle is None or middle > most:
            return narrative.too_late(request, at.run(most))
        run = at.cheapest_from(firm if firm is not None and firm <= most else middle)
    if request.budget_usd is not None and run.usd > request.budget_usd:
        return narrative.too_expensive(request, run)
    chance = _chance(request, at, run.instances)
    return replace(run, chance=chance, sure=chance is None or chance >= request.confidence - NARROW)


def _chance(request: Batch, at: Candidate, instances: int) -> float | None:
    """That so many instances keep deadline and budget, which one error of the rate decides; None without either. [-]"""
    if request.deadline_s is None and request.budget_usd is None:
        return None

    def keeps(x: float) -> bool:
        run = at.run(instances, speed=at.work.error.at(-x))
        late = request.deadline_s is not None and run.wall_s > request.deadline_s * (1.0 + ROUNDING)
        return not late and (request.budget_usd is None or run.usd <= request.budget_usd * (1.0 + ROUNDING))

    low, high = -FAR, FAR
    while high - low > NARROW:
        middle = (low + high) / 2.0
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return chance_of(high if high == FAR else low)


def _without_haste(at: Candidate, *, haste: bool) -> JobRun:
    """The job on as many instances as cost next to nothing more than the cheapest number; with `haste` on the most."""
    sizes = [at.step * 2**power for power in range(10)]
    runs = [at.run(size) for size in sizes if size <= at.fastest]
    least = min(run.usd for run in runs)
    return [run for run in runs if haste or run.usd <= least * WORTH_THE_HASTE][-1]


def _most_instances(request: Batch, at: Candidate) -> int:
    """Most instances that the request's limit and the offer's stock allow, in whole replicas; 0 = not even one."""
    offer, most = at.offer, request.filters.max_count or narrative.LARGEST_FLEET
    most = most if offer.stock is None else min(most, offer.stock)
    return int(most / offer.count) // at.step * at.step


def _with_one_cache(found: list[JobRun]) -> Iterator[JobRun]:
    """Of runs that differ in their cache's format alone the best one, in sixteen bits where both cost as much."""
    alike: dict[tuple[Configuration, int, str], list[JobRun]] = {}
    for one in found:
        run, at = one.at.work.configuration, one.at
        plain = replace(run, precision=replace(run.precision, kv=""))
        alike.setdefault((plain, id(at.offer), at.term), []).append(one)
    yield from (min(group, key=_surely_cheapest) for group in alike.values())


def _best(found: list[JobRun], *, lacks: Callable[[Configuration], bool]) -> list[JobRun]:
    """The first runs of a site at each term, of those whose checkpoint is there and of the others, by cost."""
    # Parts of one owned machine come to the same.
    whole = {(one.at.work.configuration.label(), one.instances * one.at.offer.count): one for one in found}
    ranked = sorted(whole.values() if found and found[0].at.offer.stock else found, key=_surely_cheapest)
    terms: dict[tuple[str, bool], list[JobRun]] = {}
    for one in ranked:
        terms.setdefault((one.at.term, lacks(one.at.work.configuration)), []).append(one)
    kept = [one for group in terms.values() for one in group[:KEPT_PER_TERM]]
    return sorted(kept, key=_surely_cheapest)


def _surely_cheapest(one: JobRun) -> tuple[bool, bool, float, float]:
    """The order of what will be options: `surely_cheapest`, sellers' own prices first."""
    listed = one.at.offer.trust_of(one.at.term) == "primary"
    return not one.sure, not listed, unlikely(one.chance, sure=one.sure), one.usd


BATCH: Final[Kind[Batch, Context[Batch], BatchOption, BatchPlan]] = Kind(
    ask=_ask,
    look=_search,
    nearness=nearness({"budget": 0, "deadline": 1, "count": 2, "offer": 3, "cache": 4, "memory": 5}),
    purpose=narrative.purpose,
    sentence=narrative.sentence,
    describe=narrative.describe_option,
    assumed=narrative.assumptions,
    measured=lambda asked, miss: alone(asked.request, miss),
)


def runs(plan: BatchPlan, _: Additions) -> Iterator[Run]:
    """The configurations that its numbers rest on, as calibrations know them: the best option first."""
    model, lengths = plan.request.model, plan.request.lengths
    for option in plan.options:
        yield at_once(option.configuration, model=model, lengths=lengths, concurrency=option.concurrency)
