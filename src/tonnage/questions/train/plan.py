"""Plan a training or fine-tuning run: every accelerator that can be rented, every count, the best arrangement of each.

The path: filters leave sites; each site is tried at doubling counts; the least a try can take and cost (compute alone,
at perfect scaling) orders them, so that the dear ones are never searched. The search arranges the rest, the run over
time says how long and how surely, the bill says how much. Whatever loses keeps its reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from functools import partial
from math import inf, log2
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, accelerators_text
from tonnage.catalog.fitted import with_training_totals
from tonnage.catalog.hub.resolve import resolve
from tonnage.core.calibration_use import Run, TrainRun
from tonnage.core.driver import Found, Kind, plan_or_relax
from tonnage.core.header import Loser
from tonnage.core.ranking import Traits, frontier, time_leads, traits_of, with_verdicts
from tonnage.core.sites import Site, none_passes, sites
from tonnage.domain.answer import Verdict
from tonnage.domain.plan import Rejection
from tonnage.domain.refusal import refusal
from tonnage.domain.train_plan import FineTune, RunOption, Train, TrainOption, TrainPlan
from tonnage.domain.training import TrainSetup
from tonnage.engines.registry import framework_words, software_of, software_spec
from tonnage.errors import BadRequest, UnknownName
from tonnage.questions.train import narrative
from tonnage.questions.train.attempts import (
    DOUBLINGS,
    WORTH,
    Attempt,
    best_first,
    doublings_to,
    search_attempts,
)
from tonnage.questions.train.job import PATIENCE_S, TrainContext, job_of
from tonnage.questions.train.machine import host_needs, training_load, with_electricity
from tonnage.questions.train.narrative import train_break_even
from tonnage.questions.train.option import beyond, chance_of_run, evaluate, measured_run, timeline
from tonnage.questions.train.places import MAX_ACCELERATORS, WORKERS, InfeasibleRun, rentals, trainable_sites
from tonnage.questions.train.scaling import (
    faster_stack,
    fastest_likely,
    scaling_curves,
    setup_of,
    spot_against_on_demand,
    stops_paying,
)
from tonnage.questions.train.search import Place, floor, state_bytes, templates
from tonnage.units import show, whole_percent

KEPT: Final = 40
CONVERTED_USD: Final = 500.0
"""Of people's work, to fine-tune in software that reads no published checkpoint: a day of an engineer. Chosen. [USD]"""
ENLARGED: Final = 3
"""Accelerators that are arranged at larger counts, to say what a shorter deadline would ask for."""
LARGER: Final = 4
"""Times the count."""


def plan_train(
    request: Train | FineTune, *, additions: Additions = catalog.NOTHING, today: date | None = None
) -> TrainPlan:
    """
    Options that do the run, best first, with reasons for every loser.

    Best is the cheapest whose chance that memory fits and that the deadline is met is at least the confidence; of a
    training run with a budget alone, the fastest of such within it.

    Raises
    ------
    TonnageError
        The model or an accelerator is unknown, or the request contradicts itself. That nothing can do it is an answer:
        `feasible` is False and `binding` says what stands in the way.
    """
    return plan_or_relax(TRAIN, request, additions=additions, today=today)


def train_options(
    request: Train | FineTune, *, additions: Additions, today: date, worth: float = WORTH
) -> tuple[TrainOption, ...]:
    """
    The options of the plan in their order, without what explains them: what a search over many plans asks for.

    Tries whose least is beyond so many times the best are not searched; where only the first counts, 1.
    """
    asked = training_context(request, additions=additions, today=today)
    open_sites, _ = _sites(asked)
    tries = [one for site in open_sites for one in attempts_at(asked, site) if isinstance(one, Attempt)]
    return tuple(_best_first(asked, _search(asked, tries, worth=worth)[0]))


def training_context(request: Train | FineTune, *, additions: Additions, today: date) -> TrainContext:
    """The request with its model and job, once they agree."""
    model = with_training_totals(resolve(request.model, additions=additions))
    job = job_of(request, model)
    if model.max_context and job.seq_len > model.max_context and not request.extend_context:
        raise BadRequest(
            f"seq_len: {job.seq_len:,} is beyond the {model.max_context:,} tokens that {model.id} takes; "
            "give less, or --extend-context"
        )
    check_framework(request.framework, method=job.case.method)
    return TrainContext(request=request, model=model, job=job, today=today, additions=additions)


def check_framework(name: str | None, *, method: str) -> None:
    """Nothing, where no framework is named or one that is known and trains so; else `UnknownName` or `BadRequest`."""
    if name is None:
        return
    if not any(word in name.lower() for word in framework_words()):
        raise UnknownName("framework", name, known=framework_words())
    if method == "qlora" and not software_of(name).four_bit_base:
        raise BadRequest(f"framework: {name} trains no adapters over weights in 4 bits; say axolotl or trl, or lora")


def _sites(asked: TrainContext) -> tuple[tuple[Site, ...], tuple[Rejection, ...]]:
    """Where such a job may run, and what cannot train it, or passes no filter."""
    request = asked.request
    found, excluded = sites(request.filters, additions=asked.additions, without=WORKERS)
    able, refused = trainable_sites(
        found, filters=request.filters, precision=asked.job.case.precision, framework=request.framework
    )
    return able, (*refused, *excluded)


def _look(asked: TrainContext) -> Found[Train | FineTune, TrainOption, TrainPlan]:
    """
    Everything arranged, the options among it, and where there is none what stops them: the budget if the run would work
    without it.
    """
    open_sites, excluded = _sites(asked)
    outcomes = [outcome for site in open_sites for outcome in attempts_at(asked, site)]
    tries = [one for one in outcomes if isinstance(one, Attempt)]
    missed = [one for one in outcomes if isinstance(one, InfeasibleRun)]
    options, more, evaluated = _search(asked, tries)
    missed += more
    limits = {min(missed, key=by_nearness).verdict.limit} if missed and not options else set()
    if asked.request.deadline_s and "layout" in limits:
        # So many as the deadline needs cannot share the batch: how soon do those end that can?
        fewer = [one for site in open_sites for one in attempts_at(asked, site, most=asked.job.global_batch)]
        missed += _search(asked, [one for one in fewer if isinstance(one, Attempt)])[1]
    dear = None if options else _without_budget(asked, tries)
    missed += [] if dear is None else [dear]
    ranked = _with_verdicts(asked, tuple(_finish(asked, option) for option in _best_first(asked, options)))
    binding = None if dear is None else dear.verdict
    if not ranked and binding is None:
        binding = what_stops(asked, missed, excluded=excluded, open_sites=open_sites)
    arranged = [*options, *(miss.option for miss in missed if isinstance(miss.option, TrainOption))]
    return Found(
        options=ranked,
        missed=missed,
        excluded=excluded,
        binding=binding,
        evaluated=evaluated,
        plan=partial(TrainPlan, kind=asked.job.kind),
        sections=partial(_sections, asked, open_sites, tries, arranged),
    )


def _sections(
    asked: TrainContext, open_sites: tuple[Site, ...], tries: list[Attempt], arranged: list[TrainOption],
    plan: TrainPlan,
) -> TrainPlan:  # fmt: skip
    """A feasible plan with what explains it: scaling, spot, faster software, break-even points."""
    request, ranked = asked.request, plan.options
    points = scaling_curves(asked, ranked[0], sites=open_sites)
    return replace(
        plan,
        frontier=frontier(ranked, objectives=(lambda o: o.cost.value, lambda o: o.run.wall_s.value)),
        cheaper_at_risk=narrative.cheaper_at_risk(ranked),
        scaling=points,
        stops_paying=stops_paying(points),
        faster=faster_stack(asked, ranked[0]),
        spot=spot_against_on_demand(asked, ranked[0], sites=open_sites),
        trail=narrative.trail(asked, ranked),
        break_even=train_break_even(
            ranked,
            evaluated=[*arranged, *_larger(asked, tries, ranked=ranked)],
            deadline_s=_goal_s(asked),
            budget_usd=request.budget_usd,
            stated=request.deadline_s is not None,
            confidence=request.confidence,
        ),
    )


def attempts_at(asked: TrainContext, site: Site, *, most: float = inf) -> Iterator[Attempt | InfeasibleRun]:
    """
    Counts of one site worth a search, each with the least wall time and cost that perfect scaling allows; those that
    cannot hold the states are told at once. The first count is `most` where time needs more.
    """
    request, (kinds, alone_s) = asked.request, _alone(asked, site)
    state, memory = min(state_bytes(kind) for kind in kinds), site.accelerator.driver_memory_bytes
    goal = _goal_s(asked)
    counts = _counts(asked, least=state / memory, first=min(most, alone_s / goal), stock=site.stock)
    for rental in rentals(site, counts=counts, terms=request.filters.terms, today=asked.today):
        count = rental.place.count
        if state / count > memory:
            verdict = refusal(
                "memory",
                f"needs {show(state, 'bytes')} of states, more than available: {count} x {show(memory, 'bytes')}",
                short_by=state / count - memory,
            )
            yield rental.misses(verdict)
            continue
        wall = alone_s / count
        yield Attempt(rental=rental, wall_s=wall, usd=wall / 3600 * rental.usd_per_hour)


def _alone(asked: TrainContext, site: Site) -> tuple[tuple[TrainSetup, ...], float]:
    """Ways to train at a site, and the least time that all work takes one of its accelerators. [s]"""
    request, job = asked.request, asked.job
    place = Place(accelerator=site.accelerator, count=1, per_node=site.per_node, intra_link=site.intra_link)
    given = (request.framework,) if request.framework else ()
    # Of one accelerator and of several, whose usual software is another: no arrangement is faster than all of them.
    kinds = tuple(
        kind
        for count in (1, 2)
        for kind in templates(asked.model, replace(place, count=count), job=job, frameworks=given)
    )
    return kinds, floor(kinds).least * job.sequences * (1.0 + request.validation) * (1.0 + request.headroom)


def _counts(asked: TrainContext, *, least: float, first: float, stock: int | None) -> tuple[int, ...]:
    """
    Counts to try, powers of two unless one is stated: from what the time needs at perfect scaling (one below without a
    deadline) and half of what states need, to a few doublings beyond. Of accelerators in stock, up to all that are
    allowed.
    """
    request = asked.request
    if request.count is not None:
        return (request.count,)
    most = min(request.filters.max_count or MAX_ACCELERATORS, MAX_ACCELERATORS, stock or MAX_ACCELERATORS)
    needed, held = doublings_to(first), doublings_to(least)
    slower = 1 if request.deadline_s is None else 0
    low = max(0, needed - slower, held - 1)
    high = max(needed, held) + DOUBLINGS if stock is None else int(log2(most))
    return tuple(2**power for power in range(low, high + 1) if 2**power <= most) or (2 ** int(log2(most)),)


def _leads_by_cost(options: tuple[TrainOption, ...]) -> bool:
    """Whether the first is the cheapest of those as sure, at prices as well confirmed."""
    alike = [o for o in options if o.sure and o.bill.trust == options[0].bill.trust]
    return not alike or alike[0].cost.value <= min(option.cost.value for option in alike)


def _traits(request: Train | FineTune, option: TrainOption) -> Traits:
    """The traits of an option, and whether it ends after what a run without a deadline may take."""
    patience = PATIENCE_S["train" if isinstance(request, Train) else "finetune"]
    limited = request.deadline_s is not None or request.budget_usd is not None
    return replace(traits_of(request, option), late=not limited and option.run.wall_s.value > patience)


def _goal_s(asked: TrainContext) -> float:
    """The time a good run takes at most: the deadline, else what is called patience."""
    return asked.request.deadline_s or PATIENCE_S[asked.job.kind]


def _search(
    asked: TrainContext, tries: Sequence[Attempt], *, worth: float = WORTH
) -> tuple[list[TrainOption], list[InfeasibleRun], int]:
    """Rentals arranged by the request's rule: see `search_attempts`."""
    return search_attempts(
        asked.request,
        tries,
        arrange=partial(evaluate, asked),
        worth=worth,
        goal_s=_goal_s(asked),
    )


def _best_first(asked: TrainContext, options: list[TrainOption]) -> list[TrainOption]:
    """Options in their order: the request's rule, and what people's work costs beside the bill."""
    return best_first(
        options,
        request=asked.request,
        most=KEPT,
        goal_s=_goal_s(asked),
        work_usd=partial(_work_usd, asked),
    )


def _work_usd(asked: TrainContext, option: TrainOption) -> float:
    """What people spend on an option: a fine-tune in software that is no plain script takes checkpoints there. [USD]"""
    plain = software_spec(option.configuration.software).plain_scripts
    return CONVERTED_USD if asked.job.kind == "finetune" and not plain and asked.request.framework is None else 0.0


def _without_budget(asked: TrainContext, tries: list[Attempt]) -> InfeasibleRun | None:
    """The cheapest run where money is no limit, as beyond the budget; None without a budget or such a run."""
    if asked.request.budget_usd is None:
        return None
    free = replace(asked, request=replace(asked.request, budget_usd=None))
    options = _search(free, tries, worth=1.0)[0]
    first = min(options, key=lambda option: option.cost.value, default=None)
    verdict = None if first is None else beyond(asked.request, first)
    if first is None or verdict is None:
        return None
    kept = chance_of_run(first, deadline_s=asked.request.deadline_s, budget_usd=first.cost.value)
    verdict = replace(verdict, nearest=f"{verdict.nearest}, {whole_percent(kept)} sure")
    name = first.configuration.accelerator
    return InfeasibleRun(what=accelerators_text(first), accelerator=name, verdict=verdict, option=first)


def _larger(asked: TrainContext, tries: list[Attempt], *, ranked: tuple[TrainOption, ...]) -> list[TrainOption]:
    """
    The best accelerators at up to four times the counts shown: more expensive now, and what a shorter deadline would
    ask for.
    """
    looked_at: dict[str, int] = {}
    for option in ranked:
        name = option.configuration.accelerator
        if name in looked_at or len(looked_at) < ENLARGED:
            looked_at[name] = max(looked_at.get(name, 0), option.accelerators)
    found: list[RunOption | None] = []
    for attempt in tries:
        place = attempt.rental.place
        if 1 < place.count / looked_at.get(place.accelerator.id, inf) <= LARGER:
            outcomes = evaluate(asked, attempt.rental)
            found += [o.option if isinstance(o, InfeasibleRun) else o for o in outcomes]
    return [option for option in found if isinstance(option, TrainOption)]


def _finish(asked: TrainContext, option: TrainOption) -> TrainOption:
    """With what only kept options need: electricity, the timeline, and what host and storage must bring."""
    accelerator = catalog.accelerator(option.configuration.accelerator, asked.additions)
    load = training_load(setup_of(asked, option), option.step_s)
    return replace(
        with_electricity(option, accelerator=accelerator, load=load),
        needs=host_needs(asked, option),
        timeline=timeline(option, start=asked.today),
    )


def _with_verdicts(asked: TrainContext, options: tuple[TrainOption, ...]) -> tuple[TrainOption, ...]:
    """Ranked options with the reason for their place."""
    least = "cheapest" if _leads_by_cost(options) else "least work"
    least = "soonest" if time_leads(asked.request) else least
    return with_verdicts(
        options,
        lead=partial(narrative.lead_reason, asked, least=least),
        arithmetic=narrative.arithmetic,
        risk=lambda option: narrative.risk(option, first=options[0]),
        ratios=lambda option, known: narrative.ratios(option, known, first=options[0]),
        ranked_by=lambda option: option.cost,
    )


EASY: Final = 2.0
"""Times the least that perfect scaling allows: a deadline that is kept. [-]"""
_ORDER: Final = {"deadline": 0, "budget": 0, "cost": 1, "interruptions": 2, "layout": 3, "memory": 4}


def by_nearness(miss: Loser) -> tuple[int, bool, float]:
    """How near a try came: what was arranged, and so says what would do, comes before a bound on what was not."""
    return _ORDER.get(miss.verdict.limit or "", 5), miss.verdict.nearest is None, miss.verdict.short_by or 0.0


def what_stops(
    asked: TrainContext, missed: list[InfeasibleRun], *, excluded: tuple[Rejection, ...], open_sites: tuple[Site, ...]
) -> Verdict:
    """
    When nothing does it: the limit that stops the try that came closest, and what would work; of the filters where
    nothing was tried.
    """
    if not missed:
        unfit = next((loser for loser in excluded if loser.verdict.limit in {"precision", "training"}), None)
        if unfit is not None and not open_sites:
            return replace(unfit.verdict, reason=f"{unfit.what}: {unfit.verdict.reason}")
        return none_passes(excluded) if excluded and not open_sites else _none_joins(asked, open_sites)
    closest = min(missed, key=by_nearness).verdict
    if closest.limit not in {"memory", "layout"}:
        return closest
    works = _smallest_that_works(asked, open_sites)
    return replace(
        closest, nearest=works or closest.nearest or "no count of these accelerators; a smaller model or LoRA"
    )


def _none_joins(asked: TrainContext, open_sites: tuple[Site, ...]) -> Verdict:
    """Why no offer holds the counts that were looked at: the most that one joins, and how long that takes at least."""
    powers, terms = tuple(2**k for k in range(int(log2(MAX_ACCELERATORS)) + 1)), asked.request.filters.terms
    joined = [
        (rental.place.count, _alone(asked, site)[1] / rental.place.count)
        for site in open_sites
        for rental in rentals(site, counts=powers, terms=terms, today=asked.today)
    ]
    wanted = asked.request.count or asked.request.filters.max_count or "several"
    reason, nearest = f"no offer that passes the filters joins {wanted} accelerators", "more providers"
    if joined:
        most = max(count for count, _ in joined)
        wall_s = min(wall_s for count, wall_s in joined if count == most)
        takes = f"on which it takes at least {show(wall_s, 's')}"
        reason += f"; {most} are the most, {takes}"
        if asked.request.count is None:
            reason = f"no offer that passes the filters joins more than {most} accelerators, {takes}"
            nearest = f"--deadline '{show(EASY * wall_s, 's', digits=2)}', or more providers"
    return refusal("offer", reason, nearest=nearest)


def _smallest_that_works(asked: TrainContext, open_sites: tuple[Site, ...]) -> str:
    """The fewest accelerators that hold the job, whatever count or limit was asked for; empty where none does."""
    powers = [2**k for k in range(int(log2(MAX_ACCELERATORS)) + 1)]
    smallest = ""
    for site in open_sites:
        for rental in rentals(site, counts=tuple(powers), terms=asked.request.filters.terms, today=asked.today):
            fits = fastest_likely(asked, rental.place, job=asked.job, framework=asked.request.framework)
            if fits is not None:
                powers = [n for n in powers if n < rental.place.count]
                label = fits.setup.layout.label
                smallest = f"smallest that works: {rental.what} ({label})"
                break
        if not powers:
            break
    return smallest


def _measured(asked: TrainContext, miss: Loser) -> Iterator[Run]:
    assert isinstance(miss, InfeasibleRun)
    return measured_run(miss, model=asked.model, asked=asked.request.model, additions=asked.additions)


TRAIN: Final[Kind[Train | FineTune, TrainContext, TrainOption, TrainPlan]] = Kind(
    ask=lambda request, additions, today: training_context(request, additions=additions, today=today),
    look=_look,
    nearness=by_nearness,
    purpose=lambda asked: f"to {narrative.purpose(asked.request)}",
    sentence=lambda _, options: narrative.sentence(options),
    describe=narrative.describe_option,
    assumed=narrative.assumptions,
    traits=_traits,
    measured=_measured,
)


def runs(plan: TrainPlan, _: Additions) -> Iterator[Run]:
    """The configurations that its numbers rest on, as calibrations know them: the best option first."""
    yield from (TrainRun(plan.request.model, option.configuration) for option in plan.options)
