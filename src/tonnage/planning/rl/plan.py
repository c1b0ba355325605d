"""Plan reinforcement learning: accelerators that can be rented, counts, splits between rollout and training, layouts.

The path: filters leave sites; a site is worth arranging while perfect scaling of its arithmetic costs no more than
twice the best found; each count gets its best split and layouts (`candidates`), a run over time and a bill (`option`).
The cheapest that holds deadline and budget leads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date
from functools import partial
from math import inf, log2
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.fitted import with_training_totals
from tonnage.catalog.hub.resolve import resolve
from tonnage.domain.answer import Verdict
from tonnage.domain.plan import PLAN_SCHEMA, Decision
from tonnage.domain.requests.rl import Rl
from tonnage.domain.rl_plan import RlOption, RlPlan
from tonnage.errors import BadRequest
from tonnage.physics.parameters import active_parameters, parameters
from tonnage.planning.core.header import (
    COMMUNITY,
    answer_or_relax,
    by_reason,
    infeasible_sentence,
    model_facts,
    names_taken,
    nearest_of_each,
    nearness,
    provenance,
    what_binds,
    what_if,
)
from tonnage.planning.core.moved_losers import moved_losers
from tonnage.planning.core.ranking import Traits, at_risk, choices, surely_cheapest, unlikely, with_verdicts
from tonnage.planning.host import energy_use
from tonnage.planning.rl.candidates import Arranged, best_of
from tonnage.planning.rl.option import InfeasibleRl, RlContext, options_of
from tonnage.planning.rl.power import rl_load
from tonnage.planning.rl.rollout import kept_share
from tonnage.planning.sites import Site, sites
from tonnage.planning.train.machine import energy_of_run
from tonnage.planning.train.places import WORKERS, Rental, rentals, trainable_sites
from tonnage.pricing.bills import primary_first
from tonnage.units import show, whole_percent

if TYPE_CHECKING:
    from tonnage.planning.calibration_use import Run

__all__ = ["plan_rl", "rl_options"]

MAX_ACCELERATORS: Final = 1024
"""Looked at where neither count nor limit is given. [accelerators]"""
STATE_BYTES: Final = 8.0
"""Per parameter that any trainer holds somewhere: 16-bit weights and gradients, two 16-bit moments. [bytes]"""
PASSES: Final = 8.0
"""Of 2 FLOP a parameter and token: forward, backward, old policy, and generation at the least. [-]"""
WORTH: Final = 2.0
"""A rental whose least cost is beyond this multiple of the best found is not arranged. [-]"""
DOUBLINGS: Final = 3
"""Counts looked at beyond the first that holds the states."""
KEPT_PER_ACCELERATOR: Final = 3
KEPT: Final = 30
BY_NEARNESS: Final = nearness({"budget": 0, "deadline": 1, "cost": 2, "memory": 3, "layout": 4, "offer": 5})


def plan_rl(request: Rl, *, additions: Additions = catalog.NOTHING, today: date | None = None) -> RlPlan:
    """
    Options that do the run, the cheapest first, with reasons for every loser.

    Raises
    ------
    TonnageError
        The model or an accelerator is unknown, or the request contradicts itself. That nothing can do it is an answer:
        `feasible` is False and `binding` says what stands in the way.
    """
    plan = partial(_plan_once, additions=additions, today=today or date.today())
    return answer_or_relax(request, plan, led_by=_led_by)


def rl_options(
    request: Rl, *, additions: Additions = catalog.NOTHING, today: date | None = None
) -> tuple[RlOption, ...]:
    """The ranked options alone: without what relaxing constraints would buy, and without the trail."""
    model = with_training_totals(resolve(request.model, additions=additions))
    asked = RlContext(request=request, model=model, today=today or date.today(), additions=additions)
    found, _ = sites(request.filters, additions=additions)
    open_sites, _ = trainable_sites(found, filters=request.filters, precision=request.precision)
    return _rank(request, _evaluate(asked, open_sites)[0])


def _plan_once(request: Rl, *, additions: Additions, today: date) -> RlPlan:
    model = with_training_totals(resolve(request.model, additions=additions))
    longest = request.prompt_tokens + (request.max_response_tokens or request.response_tokens)
    if not model.layers:
        raise BadRequest(f"model: {model.id} generates no text; give a language model")
    if model.max_context and longest > model.max_context:
        raise BadRequest(
            f"max_response_tokens: prompt and response of {longest:,.0f} tokens are beyond the {model.max_context:,} "
            f"that {model.id} takes"
        )
    asked = RlContext(request=request, model=model, today=today, additions=additions)
    found, excluded = sites(request.filters, additions=additions, without=WORKERS)
    open_sites, refused = trainable_sites(found, filters=request.filters, precision=request.precision)
    options, missed, arranged, evaluated = _evaluate(asked, open_sites)
    ranked = tuple(
        _with_electricity(option, arranged.get(_key(option)), additions) for option in _rank(request, options)
    )
    doing = {option.case.accelerator for option in ranked}
    rejected = (*nearest_of_each(missed, doing=doing, by=BY_NEARNESS), *refused, *excluded)
    binding = None if ranked else what_binds(missed, (*refused, *excluded), by=BY_NEARNESS)
    moved = () if ranked else moved_losers(missed, partial(_both_sides, asked), by=BY_NEARNESS, additions=additions)
    first = arranged.get(_key(ranked[0])) if ranked else None
    return RlPlan(
        schema=PLAN_SCHEMA,
        feasible=bool(ranked),
        sentence=_sentence(request, ranked, binding),
        request=request,
        model=model_facts(model),
        options=ranked,
        choices=choices([_traits(option) for option in ranked]),
        cheaper_at_risk=_cheaper_at_risk(ranked),
        trail=_trail(ranked, first),
        splits=first.splits if first else (),
        off_policy=_off_policy(asked, ranked, open_sites) if ranked else "",
        rejected=rejected,
        rejected_by_reason=by_reason(rejected),
        calibrations=moved,
        binding=binding,
        evaluated=evaluated,
        provenance=provenance(
            (option.bill for option in ranked), today=today, assumed=_assumptions(request, ranked, additions)
        ),
    )


def _both_sides(asked: RlContext, miss: InfeasibleRl) -> Iterator[Run]:
    """What was arranged, as calibrations know it."""
    from tonnage.planning.calibrated import both_sides

    if miss.option is not None:
        yield from both_sides(miss.option, asked.model, name=asked.request.model)


def _key(option: RlOption) -> tuple[str, str | None, int]:
    return option.case.accelerator, option.configuration.intra_link, option.accelerators


def _with_electricity(option: RlOption, arranged: Arranged | None, additions: Additions) -> RlOption:
    """The option with its electricity and carbon; unchanged where the accelerator's power is not published."""
    load = rl_load(arranged) if arranged is not None else None
    if load is None:
        return option
    part = catalog.accelerator(option.case.accelerator, additions)
    use = energy_use(part, count=float(option.accelerators), busy=1.0, bill=option.bill, load=load)
    if use is None:
        return option
    kwh, kg = energy_of_run(use, seconds=option.run.billed_s)
    return replace(option, energy=use, kwh=kwh, kg_co2=kg)


def _evaluate(
    asked: RlContext, open_sites: tuple[Site, ...]
) -> tuple[list[RlOption], list[InfeasibleRl], dict[tuple[str, str | None, int], Arranged], int]:
    """Rentals arranged, those that can be cheapest first, until what is left cannot be near the best."""
    options: list[RlOption] = []
    missed: list[InfeasibleRl] = []
    kept: dict[tuple[str, str | None, int], Arranged] = {}
    best, evaluated = inf, 0
    for least, rental in sorted(_tries(asked, open_sites), key=lambda one: (one[0], one[1].place.count)):
        place = rental.place
        limit = min(inf if _hasty(asked.request) else WORTH * best, asked.request.budget_usd or inf)
        if evaluated and least > limit:
            missed.append(_too_expensive(asked, rental, least=least, best=best))
            continue
        arranged = best_of(asked.request, place, model=asked.model)
        evaluated += arranged.evaluated if arranged else 1
        if arranged is not None:
            kept.setdefault((place.accelerator.id, place.intra_link, place.count), arranged)
        for outcome in options_of(asked, rental, arranged=arranged):
            if isinstance(outcome, InfeasibleRl):
                missed.append(outcome)
            else:
                options.append(outcome)
                leads = outcome.sure and outcome.bill.trust == "primary"
                best = min(best, outcome.cost.value) if leads else best
    return options, missed, kept, evaluated


def _tries(asked: RlContext, open_sites: tuple[Site, ...]) -> Iterator[tuple[float, Rental]]:
    """Every rental worth a look, with the least that its arithmetic alone can cost. [USD]"""
    request, model = asked.request, asked.model
    tokens = request.prompts_per_step * request.responses_per_prompt * (request.prompt_tokens + request.response_tokens)
    flop = PASSES * active_parameters(model).value * tokens * request.steps
    held = STATE_BYTES * parameters(model).value
    for site in open_sites:
        card = site.accelerator
        peak = max(card.peaks.get("bf16", 0.0), card.peaks.get("fp16", 0.0), card.peaks.get("fp8", 0.0))
        if not peak:
            continue
        counts = _counts(request, least=held / card.driver_memory_bytes)
        for rental in rentals(site, counts=counts, terms=request.filters.terms, today=asked.today):
            yield flop / peak / rental.place.count / 3600.0 * rental.usd_per_hour, rental


def _counts(request: Rl, *, least: float) -> tuple[int, ...]:
    """Doubling counts from what holds the states on; both sides together."""
    if request.count is not None:
        return (request.count,)
    most = min(request.filters.max_count or MAX_ACCELERATORS, MAX_ACCELERATORS)
    low = max(1 if request.staleness else 0, 0 if least <= 1 else int(log2(least)) + (log2(least) % 1 > 0))
    return tuple(2**power for power in range(low, low + DOUBLINGS + 1) if 2**power <= most)


def _too_expensive(asked: RlContext, rental: Rental, *, least: float, best: float) -> InfeasibleRl:
    place, budget = rental.place, asked.request.budget_usd
    what = f"{place.count} x {place.accelerator.id}"
    if budget is not None and least > budget:
        verdict = Verdict(
            ok=False,
            limit="budget",
            short_by=least - budget,
            unit="USD",
            reason=f"{what} costs at least {show(least, 'USD')}, and {show(budget, 'USD')} are allowed",
        )
    else:
        verdict = Verdict(
            ok=False,
            limit="cost",
            short_by=least - best,
            unit="USD",
            reason=f"costs at least {show(least, 'USD')}, {least / best:.1f} times the best, however it is arranged",
        )
    return InfeasibleRl(what=what, accelerator=place.accelerator.id, count=place.count, verdict=verdict)


def _rank(request: Rl, options: list[RlOption]) -> tuple[RlOption, ...]:
    """The cheapest first, or the fastest where only money is limited; a few of each accelerator."""
    hasty = _hasty(request)
    kept: list[RlOption] = []
    seen: Counter[str] = Counter()
    order = _surely_fastest if hasty else surely_cheapest
    for option in primary_first(sorted(options, key=order)):
        if seen[option.case.accelerator] < KEPT_PER_ACCELERATOR and len(kept) < KEPT:
            kept.append(option)
            seen[option.case.accelerator] += 1
    lead = "fastest within the budget" if hasty else "cheapest that does the steps"
    if kept and not kept[0].sure:
        lead = f"likeliest to keep every limit: {whole_percent(kept[0].chance)}"
        lead += f", and none has {whole_percent(request.confidence)}"
    elif kept and (request.deadline_s is not None or hasty):
        lead += f", with at least {whole_percent(request.confidence)} ({whole_percent(kept[0].chance)})"
    return with_verdicts(
        tuple(kept),
        lead=lead,
        arithmetic=_arithmetic,
        risk=_risk,
        ranked_by=lambda option: option.run.wall_s if hasty else option.cost,
    )


def _hasty(request: Rl) -> bool:
    """Whether the fastest leads: only money is limited."""
    return request.budget_usd is not None and request.deadline_s is None


def _surely_fastest(option: RlOption) -> tuple[bool, float, float]:
    """Order of the options where only money is limited."""
    return not option.sure, unlikely(option.chance, sure=option.sure), option.run.wall_s.value


def _arithmetic(option: RlOption) -> str:
    step = show(option.step_s.value, "s")
    return f"a step takes {step} on {_split_text(option)}; it waits for {option.binds} longest"


def _risk(option: RlOption) -> str:
    return "" if option.sure else f"deadline, budget and memory hold with {whole_percent(option.chance)} only"


def _cheaper_at_risk(options: tuple[RlOption, ...]) -> str:
    best = at_risk(options)
    return "" if best is None else f"{_led_by(best)}: {_risk(best)}"


def _split_text(option: RlOption) -> str:
    """Who generates and who trains."""
    rollout = f"{option.replicas} replicas of TP{option.case.rollout_layout.tp}"
    if option.shared:
        return f"{option.accelerators} shared ({rollout})"
    return f"{option.rollout_accelerators} for rollout ({rollout}) and {option.train_accelerators} for training"


def _led_by(option: RlOption) -> str:
    wall, usd = show(option.run.wall_s.value, "s"), show(option.cost.value, "USD")
    return f"{option.accelerators} x {option.case.accelerator} for {usd} in {wall}"


def _traits(option: RlOption) -> Traits:
    listed = option.bill.trust == "primary"
    return Traits(usd=option.cost.value, seconds=option.run.wall_s.value, sure=option.sure, listed=listed)


def _sentence(request: Rl, options: tuple[RlOption, ...], binding: Verdict | None) -> str:
    purpose = f"for {request.steps:,.0f} steps of {request.algorithm.upper()} on {request.model}"
    if not options:
        return infeasible_sentence(purpose, binding)
    best, old = options[0], ", old price" if options[0].bill.stale else ""
    wall, cost = best.run.wall_s, best.cost
    return (
        f"Rent {best.bill.instances} x {best.bill.instance_type} ({best.accelerators} x {best.case.accelerator}) at "
        f"{best.bill.provider} {best.bill.region} for {show(wall.value, 's')} ({show(wall.low or 0, 's')}-"
        f"{show(wall.high or 0, 's')}): {show(cost.value, 'USD')} ({show(cost.low or 0, 'USD')}-"
        f"{show(cost.high or 0, 'USD')}) {purpose}, {show(best.step_s.value, 's')} a step on {_split_text(best)} "
        f"({best.bill.term}, {best.bill.as_of}{old})."
    )


def _trail(options: tuple[RlOption, ...], first: Arranged | None) -> tuple[Decision, ...]:
    if not options or first is None:
        return ()
    best = options[0]
    said = [
        Decision(
            question="Which accelerators, how many?",
            answer=f"{best.accelerators} x {best.case.accelerator}",
            because=best.verdict,
        ),
        Decision(
            question="Who generates, who trains?",
            answer=_split_text(best),
            because=f"of a step rollout takes {show(first.made.total_s, 's')}, training "
            f"{show(first.trained.total_s, 's')}",
        ),
    ]
    others = sorted(
        (split for split in first.splits if split.rollout != best.case.rollout_count), key=lambda split: split.step_s
    )
    if others:
        other = others[0]
        said.append(
            Decision(
                question="Another split?",
                answer=f"{other.rollout} for rollout, {other.training} for training: {show(other.step_s, 's')} a step",
                because=f"{other.step_s / best.step_s.value:.2f} times the first's",
            )
        )
    return tuple(said)


def _off_policy(asked: RlContext, ranked: tuple[RlOption, ...], open_sites: tuple[Site, ...]) -> str:
    """What a staleness of one step would save on the accelerators of the first option."""
    best = ranked[0]
    if asked.request.staleness or best.accelerators < 2:
        return ""
    stale = replace(asked.request, staleness=1)
    for site in open_sites:
        if site.accelerator.id != best.case.accelerator or site.intra_link != best.configuration.intra_link:
            continue
        for rental in rentals(site, counts=(best.accelerators,), terms=(best.bill.term,), today=asked.today):
            other = best_of(stale, rental.place, model=asked.model)
            if other is None or other.result.step_s is None:
                return ""
            ratio = other.result.step_s.value / best.step_s.value
            split = f"{other.case.rollout_count} for rollout and {other.case.count - (other.case.rollout_count or 0)}"
            word = f"{1 - ratio:.0%} less" if ratio < 1 else f"{ratio - 1:.0%} more"
            apart = f"one step off policy ({split} for training) a step takes {word} time"
            return f"{apart}; what it does to learning is not said"
    return ""


def _assumptions(request: Rl, ranked: tuple[RlOption, ...], additions: Additions) -> tuple[str, ...]:
    said = [*what_if(additions), *names_taken(request.filters, additions)]
    if request.max_response_tokens is None:
        said.append(f"responses are cut at four times their mean: {4 * request.response_tokens:,.0f} tokens")
    said += [note for option in ranked[:1] for note in option.notes]
    if ranked and request.kept is None and request.algorithm == "dapo":
        said.append(f"{1 / kept_share(ranked[0].case):.1f} responses are generated for each that is trained on")
    if request.count is None and request.filters.max_count is None:
        said.append(f"at most {MAX_ACCELERATORS} accelerators are looked at; list prices are no stock")
    if not request.filters.community:
        said.append(COMMUNITY)
    said.append("prices exclude VAT, storage and egress")
    return tuple(dict.fromkeys(said))
