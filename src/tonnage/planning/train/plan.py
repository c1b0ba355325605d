"""Plan a training or fine-tuning run: every accelerator that can be rented, every count, the best arrangement of each.

The path: filters leave sites; each site is tried at doubling counts; the least a try can take and cost (compute alone,
at perfect scaling) orders them, so that the dear ones are never searched. The search arranges the rest, the run over
time says how long and how surely, the bill says how much. Whatever loses keeps its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date
from functools import partial
from math import inf, log2
from typing import Final

import msgspec
from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.fitted import with_training_totals
from tonnage.catalog.hub.resolve import resolve
from tonnage.domain.answer import Verdict
from tonnage.domain.plan import PLAN_SCHEMA
from tonnage.domain.requests.train import FineTune, Train
from tonnage.domain.train_plan import TrainOption, TrainPlan
from tonnage.engines.training import framework_words
from tonnage.errors import BadRequest, UnknownName
from tonnage.planning.core.header import answer_or_relax, by_reason, model_facts, nearest_of_each, provenance
from tonnage.planning.core.moved_losers import moved_losers
from tonnage.planning.core.ranking import choices, frontier, job_traits, unlikely, with_verdicts
from tonnage.planning.sites import Site, sites
from tonnage.planning.train import narrative
from tonnage.planning.train.break_even import train_break_even
from tonnage.planning.train.job import PATIENCE_S, TrainContext, job_of
from tonnage.planning.train.machine import host_needs, with_electricity
from tonnage.planning.train.option import ROUNDING, InfeasibleRun, beyond, evaluate, measured_run, timeline
from tonnage.planning.train.places import MAX_ACCELERATORS, WORKERS, Rental, rentals, trainable_sites
from tonnage.planning.train.power import training_load
from tonnage.planning.train.refusals import by_nearness, what_stops
from tonnage.planning.train.scaling import faster_stack, scaling_curves, setup_of, spot_against_on_demand, stops_paying
from tonnage.planning.train.search import Place, floor, state_bytes, templates
from tonnage.pricing.bills import primary_first
from tonnage.units import show

__all__ = ["Attempt", "attempts_at", "plan_train", "train_options", "train_plan_alone", "training_context"]

DOUBLINGS: Final = 3
"""Counts looked at beyond the first that could meet the deadline with perfect scaling."""
KEPT_PER_SITE: Final = 3
ENOUGH: Final = 2
"""Counts of one place and term that are dearer than a smaller one before larger ones are left alone."""
KEPT: Final = 40
ENLARGED: Final = 3
"""Accelerators that are arranged at larger counts, to say what a shorter deadline would ask for."""
LARGER: Final = 4
"""Times the count."""
WORTH: Final = 2.0
"""A try whose least cost is beyond this multiple of the best found is not searched. [-]"""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A rental with the least it can take and cost."""

    rental: Rental
    wall_s: float
    usd: float

    @property
    def what(self) -> str:
        return f"{self.rental.place.count} x {self.rental.place.accelerator.id}"

    def least(self, hasty: bool) -> float:
        """The least of what options are ranked by: time where only money limits, else cost. [s or USD]"""
        return self.wall_s if hasty else self.usd


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
    plan = partial(train_plan_alone, additions=additions, today=today or date.today())
    return answer_or_relax(request, plan, led_by=narrative.describe_option)


def train_options(
    request: Train | FineTune, *, additions: Additions = catalog.NOTHING, today: date, worth: float = WORTH
) -> tuple[TrainOption, ...]:
    """
    The options of the plan in their order, without what explains them: what a search over many plans asks for.

    Tries whose least is beyond so many times the best are not searched; where only the first counts, 1.
    """
    asked = training_context(request, additions=additions, today=today)
    found, _ = sites(request.filters, additions=additions, without=WORKERS)
    open_sites, _ = trainable_sites(
        found, filters=request.filters, precision=asked.job.precision, framework=request.framework
    )
    tries = [one for site in open_sites for one in attempts_at(asked, site) if isinstance(one, Attempt)]
    return tuple(_best_first(asked, _evaluate(asked, tries, worth=worth)[0]))


def training_context(request: Train | FineTune, *, additions: Additions, today: date) -> TrainContext:
    """The request with its model and job, once they agree."""
    model = with_training_totals(resolve(request.model, additions=additions))
    job = job_of(request, model)
    if model.max_context and job.seq_len > model.max_context and not request.extend_context:
        raise BadRequest(
            f"seq_len: {job.seq_len:,} is beyond the {model.max_context:,} tokens that {model.id} takes; "
            "give less, or --extend-context"
        )
    framework = request.framework
    if framework is not None and not any(name in framework.lower() for name in framework_words()):
        raise UnknownName("framework", framework, known=framework_words())
    return TrainContext(request=request, model=model, job=job, today=today, additions=additions)


def train_plan_alone(request: Train | FineTune, *, additions: Additions, today: date) -> TrainPlan:
    """The plan, without what relaxing its constraints would buy."""
    asked = training_context(request, additions=additions, today=today)
    found, excluded = sites(request.filters, additions=additions, without=WORKERS)
    open_sites, refused = trainable_sites(
        found, filters=request.filters, precision=asked.job.precision, framework=request.framework
    )
    tries: list[Attempt] = []
    missed: list[InfeasibleRun] = []
    for site in open_sites:
        for outcome in attempts_at(asked, site):
            (missed if isinstance(outcome, InfeasibleRun) else tries).append(outcome)  # type: ignore[arg-type]
    options, more, evaluated = _evaluate(asked, tries)
    missed += more
    dear = None if options else _without_budget(asked, tries)
    missed += [] if dear is None else [dear]
    kept = tuple(_finish(asked, option) for option in _best_first(asked, options))
    ranked = _with_verdicts(asked, kept)
    doing = {option.configuration.accelerator for option in ranked}
    rejected = (*nearest_of_each(missed, doing=doing, by=by_nearness), *refused, *excluded)
    binding = None if dear is None else dear.verdict
    if not ranked and binding is None:
        binding = what_stops(asked, missed, excluded=(*refused, *excluded), open_sites=open_sites)
    runs = partial(measured_run, model=asked.model, asked=request.model, additions=additions)
    points = scaling_curves(asked, ranked[0], sites=open_sites) if ranked else ()
    return TrainPlan(
        schema=PLAN_SCHEMA,
        kind="train" if isinstance(request, Train) else "finetune",
        feasible=bool(ranked),
        sentence=narrative.sentence(asked, ranked, binding=binding),
        request=request,
        model=model_facts(asked.model),
        options=ranked,
        choices=choices([job_traits(option) for option in ranked]),
        frontier=frontier(ranked, objectives=(lambda o: o.cost.value, lambda o: o.run.wall_s.value)),
        cheaper_at_risk=narrative.cheaper_at_risk(ranked),
        scaling=points,
        stops_paying=stops_paying(points),
        faster=faster_stack(asked, ranked[0]) if ranked else "",
        spot=spot_against_on_demand(asked, ranked[0], sites=open_sites) if ranked else "",
        rejected=rejected,
        rejected_by_reason=by_reason(rejected),
        calibrations=() if ranked else moved_losers(missed, runs, by=by_nearness, additions=additions),
        trail=narrative.trail(asked, ranked),
        break_even=train_break_even(
            ranked,
            evaluated=[
                *options,
                *(miss.option for miss in missed if miss.option is not None),
                *_larger(asked, tries, ranked=ranked),
            ],
            deadline_s=_goal_s(asked),
            budget_usd=request.budget_usd,
            stated=request.deadline_s is not None,
            confidence=request.confidence,
        ),
        binding=binding,
        evaluated=evaluated,
        provenance=provenance(
            (option.bill for option in ranked),
            today=today,
            assumed=narrative.assumptions(asked, ranked, additions=additions),
        ),
    )


def attempts_at(asked: TrainContext, site: Site) -> Iterator[Attempt | InfeasibleRun]:
    """Counts of one site worth a search; those that cannot hold the states or be in time are told at once."""
    request, job = asked.request, asked.job
    place = Place(accelerator=site.accelerator, count=1, per_node=site.per_node, intra_link=site.intra_link)
    given = (request.framework,) if request.framework else ()
    kinds = templates(asked.model, place, job=job, frameworks=given)
    each = floor(kinds).least
    alone_s = each * job.sequences * (1.0 + request.validation) * (1.0 + request.headroom)
    state, memory = min(state_bytes(kind) for kind in kinds), site.accelerator.driver_memory_bytes
    goal = _goal_s(asked)
    counts = _counts(asked, least=state / memory, first=alone_s / goal, stock=site.stock)
    named = site.accelerator.id
    for rental in rentals(site, counts=counts, terms=request.filters.terms, today=asked.today):
        count = rental.place.count
        if state / count > memory:
            verdict = Verdict(
                ok=False,
                limit="memory",
                short_by=state / count - memory,
                unit="bytes",
                reason=f"needs {show(state, 'bytes')} of states, more than available: "
                f"{count} x {show(memory, 'bytes')}",
            )
            yield InfeasibleRun(what=f"{count} x {named}", accelerator=named, count=count, verdict=verdict)
            continue
        wall = alone_s / count
        yield Attempt(rental=rental, wall_s=wall, usd=wall / 3600 * rental.usd_per_hour)


def _counts(asked: TrainContext, *, least: float, first: float, stock: int | None) -> tuple[int, ...]:
    """
    Doubling counts, from one below what memory and time need at best to a few doublings beyond; of what is there, all.
    """
    request = asked.request
    if request.count is not None:
        return (request.count,)
    most = min(request.filters.max_count or MAX_ACCELERATORS, MAX_ACCELERATORS, stock or MAX_ACCELERATORS)
    needed = 0 if first <= 1 else int(log2(first)) + (log2(first) % 1 > 0)
    held = 0 if least <= 1 else int(log2(least)) + (log2(least) % 1 > 0)
    slower = 1 if request.deadline_s is None else 0
    low = max(0, needed - slower, held - 1)
    high = max(needed, held) + DOUBLINGS if stock is None and _goal_s(asked) < inf else int(log2(most))
    return tuple(2**power for power in range(low, high + 1) if 2**power <= most) or (2 ** int(log2(most)),)


def _goal_s(asked: TrainContext) -> float:
    """The time a good run takes at most: the deadline, else what is called patience; none when only money limits."""
    if narrative.by_time(asked):
        return inf
    return asked.request.deadline_s or PATIENCE_S[asked.job.kind]


def _evaluate(
    asked: TrainContext, tries: list[Attempt], *, worth: float = WORTH
) -> tuple[list[TrainOption], list[InfeasibleRun], int]:
    """Search the tries, those that can be best first, until what is left cannot be near the best."""
    hasty, budget = narrative.by_time(asked), asked.request.budget_usd or inf
    options: list[TrainOption] = []
    missed: list[InfeasibleRun] = []
    cheapest: dict[tuple[str, str | None, str], float] = {}
    dearer: Counter[tuple[str, str | None, str]] = Counter()
    best, evaluated = inf, 0
    for attempt in sorted(tries, key=lambda t: (t.least(hasty), t.rental.place.count)):
        place = attempt.rental.place
        key = (place.accelerator.id, place.intra_link)
        if attempt.usd > budget or (attempt.least(hasty) > worth * best and evaluated):
            missed.append(_ruled_out(attempt, best, budget_usd=budget, hasty=hasty))
            continue
        # Once two counts in time cost more than another, larger ones do too; of what is there already, which costs the
        # same, all is looked at. Neither one count in time nor one far too late rules out more: with memory left free
        # four times the parts have been 24 times as fast.
        there = attempt.rental.offers[0].stock is not None
        offered = {made.term for made in attempt.rental.bills}
        if _goal_s(asked) < inf and not there and all(dearer[*key, term] >= ENOUGH for term in offered):
            continue
        evaluated += 1
        for outcome in evaluate(asked, attempt.rental):
            if isinstance(outcome, InfeasibleRun):
                missed.append(outcome)
                continue
            options.append(outcome)
            if _patient(asked, outcome) and outcome.chance >= asked.request.confidence:
                # What the rule would not choose rules out nothing.
                bought, usd = (*key, outcome.bill.term), outcome.cost.value
                if usd >= cheapest.get(bought, inf):
                    dearer[bought] += 1
                cheapest[bought] = min(usd, cheapest.get(bought, inf))
                least = outcome.run.wall_s.value if hasty else outcome.cost.value
                leads = outcome.sure and outcome.bill.trust == "primary"
                best = min(best, least) if leads else best
    return options, missed, evaluated


def _without_budget(asked: TrainContext, tries: list[Attempt]) -> InfeasibleRun | None:
    """The run that leads where money is no limit, as beyond the budget; None without a budget or such a run."""
    if asked.request.budget_usd is None:
        return None
    free = replace(asked, request=replace(asked.request, budget_usd=None))
    first = next(iter(_best_first(free, _evaluate(free, tries, worth=1.0)[0])), None)
    verdict = None if first is None else beyond(asked.request, first)
    if first is None or verdict is None:
        return None
    name, count = first.configuration.accelerator, first.accelerators
    return InfeasibleRun(what=f"{count} x {name}", accelerator=name, count=count, verdict=verdict, option=first)


def _larger(asked: TrainContext, tries: list[Attempt], *, ranked: tuple[TrainOption, ...]) -> list[TrainOption]:
    """The best accelerators at the next counts: dearer now, and what a shorter deadline would ask for."""
    if _goal_s(asked) == inf:
        return []
    looked_at: dict[str, int] = {}
    for option in ranked:
        name = option.configuration.accelerator
        if name in looked_at or len(looked_at) < ENLARGED:
            looked_at[name] = max(looked_at.get(name, 0), option.accelerators)
    found = []
    for attempt in tries:
        place = attempt.rental.place
        if 1 < place.count / looked_at.get(place.accelerator.id, inf) <= LARGER:
            outcomes = evaluate(asked, attempt.rental)
            found += [o.option if isinstance(o, InfeasibleRun) else o for o in outcomes]
    return [option for option in found if option is not None]


def _ruled_out(attempt: Attempt, best: float, *, budget_usd: float, hasty: bool) -> InfeasibleRun:
    """Beyond the budget at best, or far beyond the best found."""
    place, least = attempt.rental.place, show(attempt.usd, "USD")
    if attempt.usd > budget_usd:
        verdict = Verdict(
            ok=False,
            limit="budget",
            short_by=attempt.usd - budget_usd,
            unit="USD",
            reason=f"{attempt.what} costs at least {least} however it is arranged, and {show(budget_usd, 'USD')} are "
            "allowed",
        )
    elif hasty:
        verdict = Verdict(
            ok=False,
            limit="cost",
            short_by=attempt.wall_s - best,
            unit="s",
            reason=f"takes at least {show(attempt.wall_s, 's')}, {attempt.wall_s / best:.1f} times the fastest, "
            "however it is arranged",
        )
    else:
        verdict = Verdict(
            ok=False,
            limit="cost",
            short_by=attempt.usd - best,
            unit="USD",
            reason=f"costs at least {least}, {attempt.usd / best:.1f} times the best, however it is arranged",
        )
    return InfeasibleRun(what=attempt.what, accelerator=place.accelerator.id, count=place.count, verdict=verdict)


def _patient(asked: TrainContext, option: TrainOption) -> bool:
    """Whether it ends in the time that is called good when no deadline is given."""
    return option.run.wall_s.value <= _goal_s(asked)


def _rank(asked: TrainContext, option: TrainOption) -> tuple[bool, bool, float, float, float]:
    """The cheapest with the confidence, or the fastest where only money limits; where none has it, the likeliest."""
    wall, usd = option.run.wall_s.value, option.cost.value
    behind = unlikely(option.chance, sure=option.chance >= asked.request.confidence - ROUNDING)
    if _goal_s(asked) == inf:
        return False, not option.sure, behind, wall, usd
    return not _patient(asked, option), not option.sure, behind, usd, wall


def _best_first(asked: TrainContext, options: list[TrainOption]) -> list[TrainOption]:
    """Best first, a few of each accelerator."""
    kept: list[TrainOption] = []
    seen: Counter[str] = Counter()
    for option in primary_first(sorted(options, key=lambda o: _rank(asked, o))):
        if seen[option.configuration.accelerator] < KEPT_PER_SITE and len(kept) < KEPT:
            kept.append(option)
            seen[option.configuration.accelerator] += 1
    return kept


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
    if not options:
        return ()
    first, hasty = options[0], narrative.by_time(asked)
    return with_verdicts(
        options,
        lead=narrative.lead_reason(asked, first),
        arithmetic=narrative.arithmetic,
        risk=partial(narrative.risk, first=first),
        ratios=partial(narrative.ratios, asked=asked, first=first),
        ranked_by=lambda option: option.run.wall_s if hasty else option.cost,
    )
