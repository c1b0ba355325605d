"""Plan a batch: finish N items by a deadline for the least money, and say what more speed would cost.

Nobody waits for a single answer, so replicas run full: each holds as many requests as its cache and its engine take,
and finishes them at the saturated rate that `tonnage predict` gives for the same case. Instances follow from the
deadline at the rate that holds with the confidence asked for; start, interruptions and billing steps are on the bill.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from functools import partial
from operator import add
from typing import Final, NamedTuple

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.hub.resolve import resolve
from tonnage.domain.answer import Verdict
from tonnage.domain.batch_plan import BatchOption, BatchPlan
from tonnage.domain.case import Traffic
from tonnage.domain.layout import Engine
from tonnage.domain.model import Model
from tonnage.domain.money import Offer
from tonnage.domain.plan import PLAN_SCHEMA, Configuration
from tonnage.domain.requests.serve import Batch, Serve
from tonnage.engines.registry import engine_spec
from tonnage.errors import BadRequest
from tonnage.optimize.layouts import replica_layouts
from tonnage.physics.memory import stored_bytes
from tonnage.planning.batch import narrative
from tonnage.planning.batch.break_even import Candidate, batch_break_even
from tonnage.planning.batch.option import Found, Work, option_of
from tonnage.planning.batch.runs import Job, JobRun, Place, instances_by, place_of, run_on
from tonnage.planning.board_power import predicted_load
from tonnage.planning.core.header import (
    Infeasible,
    answer_or_relax,
    by_reason,
    model_facts,
    nearest_of_each,
    provenance,
    what_binds,
)
from tonnage.planning.core.moved_losers import alone, moved_losers
from tonnage.planning.core.ranking import choices, job_traits, surely_cheapest, unlikely, with_verdicts
from tonnage.planning.deployment import case_of, deploy
from tonnage.planning.error_model import chance_of, end_at
from tonnage.planning.quality import apply_quality_floor, changes_among
from tonnage.planning.serve import limits
from tonnage.planning.serve.traffic import served_latency
from tonnage.planning.sites import Site, reach_of, sites, with_slices
from tonnage.pricing.bills import primary_first

__all__ = ["LARGEST_FLEET", "plan_batch"]

LARGEST_FLEET: Final = 256
"""Accelerators of the largest fleet looked at, where the request names no limit. List prices are no stock."""
LARGEST_REPLICA: Final = 32
SIZES_LOOKED_AT: Final = 3
"""Layouts from the smallest that fits: larger ones only cost more when nobody waits."""
WORTH_THE_HASTE: Final = 1.05
"""Without a deadline, as many instances are taken as raise the cost by no more than this. [-]"""
KEPT_PER_SITE: Final = 2
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
    plan = partial(_plan_once, additions=additions, today=today or date.today())
    return answer_or_relax(request, plan, led_by=narrative.describe_option)


def _plan_once(request: Batch, *, additions: Additions, today: date) -> BatchPlan:
    """The plan, without what relaxing its constraints would buy."""
    model = resolve(request.model, additions=additions)
    if not model.layers:
        raise BadRequest(f"model: {model.id} is no language model; ask `tonnage plan infer {model.id} --rate …`")
    limits.check_context(model, _as_serve(request))
    allowed, refused, no_format = apply_quality_floor(request, model)
    open_sites, excluded = sites(request.filters, additions=additions) if no_format is None else ((), ())
    look = partial(_look, request, allowed, model, tuple(with_slices(open_sites)), additions=additions, today=today)
    seen = look()
    if not allowed.precisions:
        other = look(startable=False)
        if any(option.sure for option in seen.options):
            refused = (*refused, *limits.needs_checkpoint(_in_order(seen.options)[0], _in_order(other.options)))
        else:
            seen = _Look(*map(add, seen, other))
    found, missed, chances, evaluated = seen.found, seen.missed, seen.chances, seen.evaluated
    ranked = _with_verdicts(request, _in_order(seen.options))
    by = narrative.BY_NEARNESS
    doing = {option.configuration.accelerator for option in ranked}
    rejected = (*refused, *nearest_of_each(missed, doing=doing, by=by), *excluded)
    binding = None if ranked else no_format or what_binds(missed, excluded, by=by)
    return BatchPlan(
        schema=PLAN_SCHEMA,
        feasible=bool(ranked),
        sentence=narrative.sentence(request, ranked, binding=binding),
        request=request,
        model=model_facts(model),
        options=ranked,
        choices=choices([job_traits(option) for option in ranked]),
        frontier=narrative.trade_offs(found),
        card_for_card=narrative.card_for_card(ranked),
        spot_against=narrative.spot_against(ranked),
        rejected=rejected,
        rejected_by_reason=by_reason(rejected),
        calibrations=() if ranked else moved_losers(missed, alone(request), by=by, additions=additions),
        break_even=batch_break_even(
            request,
            ranked,
            chances=chances,
            sized=_size_run,
            remade=lambda asked, work: _remade(asked, model, work, additions=additions),
        ),
        binding=binding,
        evaluated=evaluated,
        quality=changes_among((o.configuration.precision for o in ranked), request=request, model=model),
        provenance=provenance(
            (option.bill for option in ranked),
            today=today,
            assumed=narrative.assumptions(request, model, largest=_most(request), additions=additions),
        ),
    )


class _Look(NamedTuple):
    """What some formats give on every site."""

    options: list[BatchOption]
    found: list[Found]
    missed: list[Infeasible]
    chances: list[Candidate]
    evaluated: int


def _look(
    request: Batch, allowed: Batch, model: Model, open_sites: Sequence[Site], *, additions: Additions, today: date,
    startable: bool = True,
) -> _Look:  # fmt: skip
    """Every configuration that can be started from the model's checkpoint, or every one that needs another."""
    options: list[BatchOption] = []
    found: list[Found] = []
    missed: list[Infeasible] = []
    chances: list[Candidate] = []
    evaluated = 0
    for site in open_sites:
        here: list[Found] = []
        for outcome in _works(allowed, model, site, additions=additions, startable=startable):
            evaluated += 1
            if isinstance(outcome, Infeasible):
                missed.append(outcome)
                continue
            places = _chances(request, site, outcome)
            runs, misses = _runs(request, site, work=outcome, chances=places)
            here += runs
            missed += misses
            chances += places
        found += here
        made = [option_of(one, accelerator=site.accelerator, today=today) for one in _best(here)]
        options += made
    return _Look(options, found, missed, chances, evaluated)


def _in_order(options: list[BatchOption]) -> list[BatchOption]:
    return primary_first(sorted(options, key=surely_cheapest))


def _with_verdicts(request: Batch, options: list[BatchOption]) -> tuple[BatchOption, ...]:
    """Ranked options with the reason for their place."""
    if not options:
        return ()
    return with_verdicts(
        tuple(options),
        lead=narrative.lead_reason(options[0], request=request),
        arithmetic=narrative.arithmetic,
        risk=narrative.risk,
    )


def _as_serve(request: Batch) -> Serve:
    """The same lengths, formats and filters, for the parts that serving and batch share."""
    return Serve(
        model=request.model,
        lengths=request.lengths,
        concurrency=1.0,
        precisions=request.precisions,
        engines=request.engines,
        filters=request.filters,
    )


def _works(
    request: Batch, model: Model, site: Site, *, additions: Additions, startable: bool
) -> Iterator[Work | Infeasible]:
    """Every configuration of one site, small layouts first."""
    asked = _as_serve(request)
    most = site.largest(LARGEST_REPLICA, allowed=request.filters.max_count)
    for engine in request.engines:
        worth = limits.precisions(asked, model, accelerator=site.accelerator, engine=engine, startable=startable)
        for precision in worth:
            served = 0
            for layout in replica_layouts(
                model,
                site.accelerator,
                per_node=site.per_node,
                max_ranks=most,
                layered=engine_spec(engine).layered,
                domain=reach_of(site),
            ):
                configuration = Configuration(
                    accelerator=site.accelerator.id,
                    layout=layout,
                    precision=precision,
                    engine=Engine(name=engine),
                    intra_link=site.intra_link,
                )
                work = _work(request, model, configuration, additions=additions)
                yield work
                served += isinstance(work, Work)
                if served >= SIZES_LOOKED_AT:
                    break


def _work(request: Batch, model: Model, configuration: Configuration, *, additions: Additions) -> Work | Infeasible:
    """How fast one full replica of a configuration works, or why it cannot."""
    # As full as it gets: what `tonnage predict` calls saturated.
    case = case_of(configuration, model=model, lengths=request.lengths, traffic=Traffic(saturated=True))
    at = deploy(case, model=model, accelerator=catalog.accelerator(case.accelerator, additions))
    if not at.pool.verdict.ok:
        return Infeasible(configuration=configuration, verdict=at.pool.verdict)
    lengths = request.lengths
    whole = lengths.prompt_tokens + lengths.output_tokens
    if at.pool.sequences < 1:
        return Infeasible(configuration=configuration, verdict=limits.too_little_cache(whole, at.pool.tokens))
    found, tier = served_latency(at)
    basis = at.basis(tier)
    errors = at.errors(basis, load="saturated", in_flight=found.running)
    return Work(
        configuration=configuration,
        job=Job(
            items=request.items,
            items_per_s=found.requests_per_s,
            # Items are tokens over a fixed length, and tokens per second is what most measurements state.
            factor=errors.factor("output_tokens_per_s"),
            ranks=configuration.layout.ranks,
            weight_bytes=stored_bytes(model, configuration.precision),
            item_s=found.e2e_s,
        ),
        memory=at.pool.memory,
        kv_tokens=min(at.pool.tokens, 1e12),
        limit_bytes=at.pool.limit_bytes,
        basis=basis,
        lengths=lengths,
        concurrency=found.running,
        binds="batch" if found.running >= at.max_num_seqs else "kv",
        load=predicted_load(at, found, arrivals=False),
    )


def _chances(request: Batch, site: Site, work: Work) -> list[Candidate]:
    """The work on every offer of the site that holds it and lists a price."""
    places = ((offer, place_of(work.job, offer, term=term)) for offer, term in _offers(request, site, work.job))
    return [
        Candidate(work=work, place=place, fastest=_fleet(request, work.job, place))
        for _, place in places
        if place is not None
    ]


def _runs(request: Batch, site: Site, *, work: Work, chances: list[Candidate]) -> tuple[list[Found], list[Infeasible]]:
    """The work at each of its places, on as many instances as the request needs."""
    found: list[Found] = []
    missed: list[Infeasible] = []
    for chance in chances:
        place, outcome = chance.place, _size_run(request, work, chance.place)
        if isinstance(outcome, Verdict):
            missed.append(Infeasible(configuration=work.configuration, verdict=outcome))
        else:
            run, kept = outcome
            sure = kept is None or kept >= request.confidence - NARROW
            step = _step(work.job, place)
            found.append(
                Found(work=work, place=place, run=run, chance=kept, sure=sure, step=step, fastest=chance.fastest)
            )
    if not chances:
        missed.append(Infeasible(configuration=work.configuration, verdict=limits.no_offer(site, work.configuration)))
    return found, missed


def _remade(request: Batch, model: Model, work: Work, *, additions: Additions) -> Work | None:
    """The configuration of a work with the lengths of another request; None where it does not hold one."""
    most = request.lengths.prompt_tokens + request.lengths.output_tokens
    if model.max_context is not None and most > model.max_context:
        return None
    made = _work(request, model, work.configuration, additions=additions)
    return made if isinstance(made, Work) else None


def _offers(request: Batch, site: Site, job: Job) -> list[tuple[Offer, str]]:
    """The cheapest region of each provider, instance size and term: others only cost more for the same work."""
    cheapest: dict[tuple[str, str, float], tuple[float, Offer]] = {}
    for offer in site.offers:
        whole = offer.count >= job.ranks or (offer.count == site.per_node and job.ranks % offer.count == 0)
        if not whole:
            continue
        for term in request.filters.terms:
            price = offer.usd_per_hour(term)
            key = (offer.provider, term, offer.count)
            if price is not None and (key not in cheapest or price < cheapest[key][0]):
                cheapest[key] = (price, offer)
    return [(offer, key[1]) for key, (_, offer) in cheapest.items()]


def _size_run(request: Batch, work: Work, place: Place) -> tuple[JobRun, float | None] | Verdict:
    """Instances that keep deadline and budget with the confidence asked for, else by the estimate, else why not."""
    job, most = work.job, _fleet(request, work.job, place)
    if most < 1:
        return narrative.too_many(request, work, place=place)
    if request.deadline_s is None:
        run = _without_haste(job, place, most)
    else:
        speed = job.factor ** -end_at(request.confidence)
        firm = instances_by(job, place, deadline_s=request.deadline_s, speed=min(1.0, speed))
        middle = instances_by(job, place, deadline_s=request.deadline_s, speed=1.0)
        if middle is None or middle > most:
            return narrative.too_late(request, place=place, fastest=run_on(job, place, instances=most))
        run = run_on(job, place, instances=firm if firm is not None and firm <= most else middle)
    if request.budget_usd is not None and run.usd > request.budget_usd:
        return narrative.too_expensive(request, run, work=work)
    return run, _chance(request, job, place, instances=run.instances)


def _chance(request: Batch, job: Job, place: Place, *, instances: int) -> float | None:
    """That so many instances keep deadline and budget, which one error of the rate decides; None without either."""
    if request.deadline_s is None and request.budget_usd is None:
        return None

    def keeps(x: float) -> bool:
        run = run_on(job, place, instances=instances, speed=job.factor**-x)
        late = request.deadline_s is not None and run.wall_s > request.deadline_s * (1.0 + ROUNDING)
        return not late and (request.budget_usd is None or run.usd <= request.budget_usd * (1.0 + ROUNDING))

    low, high = -FAR, FAR
    while high - low > NARROW:
        middle = (low + high) / 2.0
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return chance_of(high if high == FAR else low)


def _without_haste(job: Job, place: Place, most: int) -> JobRun:
    """As many instances as cost next to nothing more than the cheapest number."""
    sizes = [_step(job, place) * 2**power for power in range(10)]
    runs = [run_on(job, place, instances=size) for size in sizes if size <= most]
    least = min(run.usd for run in runs)
    return [run for run in runs if run.usd <= least * WORTH_THE_HASTE][-1]


def _step(job: Job, place: Place) -> int:
    """Instances that one replica takes, or one that holds several."""
    return max(1, -(-job.ranks // int(place.offer.count)))


def _fleet(request: Batch, job: Job, place: Place) -> int:
    """Most instances that the request's limit allows, in whole replicas."""
    step, stock = _step(job, place), place.offer.stock
    most = _most(request) if stock is None else min(_most(request), stock)
    return int(most / place.offer.count) // step * step


def _most(request: Batch) -> int:
    return request.filters.max_count or LARGEST_FLEET


def _best(found: list[Found]) -> list[Found]:
    """The first of a site, and the first of each other term."""
    ranked = sorted(found, key=_surely_cheapest)
    terms: dict[str, list[Found]] = {}
    for one in ranked:
        terms.setdefault(one.place.term, []).append(one)
    kept = [one for group in terms.values() for one in group[:KEPT_PER_SITE]]
    return sorted(kept, key=_surely_cheapest)


def _surely_cheapest(one: Found) -> tuple[bool, bool, float, float]:
    """The order of what will be options: `surely_cheapest`, sellers' own prices first."""
    listed = one.place.offer.trust_of(one.place.term) == "primary"
    return not one.sure, not listed, unlikely(one.chance, sure=one.sure), one.run.usd
