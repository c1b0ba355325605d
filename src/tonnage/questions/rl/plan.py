"""Plan reinforcement learning: accelerators that can be rented, counts, splits between rollout and training, layouts.

The path: filters leave sites; a site is worth arranging while perfect scaling of its arithmetic costs no more than
twice the best found; each count gets its best split and layouts (`candidates`), a run over time and a bill.
The cheapest that holds deadline and budget leads.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from functools import partial
from math import ceil
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, accelerators_text, model_name, seller
from tonnage.catalog.fitted import with_training_totals
from tonnage.catalog.hub.resolve import resolve, resolve_text
from tonnage.core.board_power import SUM, serving_load, spread
from tonnage.core.calibration_use import Run
from tonnage.core.driver import Found, Kind, plan_or_relax
from tonnage.core.header import COMMUNITY, Context, Loser, names_taken, nearness, what_if
from tonnage.core.host import LoadShare
from tonnage.core.ranking import at_risk, time_leads, with_verdicts
from tonnage.core.sites import Site, sites
from tonnage.domain.answer import Basis
from tonnage.domain.layout import Engine
from tonnage.domain.plan import Configuration, Decision
from tonnage.domain.precision import Precision
from tonnage.domain.refusal import refusal
from tonnage.domain.rl import RlCase
from tonnage.errors import BadRequest
from tonnage.physics.parameters import active_parameters, parameters
from tonnage.pricing.energy import IDLE_DRAW
from tonnage.questions.rl.candidates import Arranged, best_of
from tonnage.questions.rl.question import Rl, RlOption, RlPlan
from tonnage.questions.rl.sides import Generation, both_sides, kept_share
from tonnage.questions.train.attempts import (
    DOUBLINGS,
    WORTH,
    Attempt,
    best_first,
    doublings_to,
    search_attempts,
)
from tonnage.questions.train.machine import training_load, with_electricity
from tonnage.questions.train.option import (
    ROUNDING,
    chance_of_run,
    configuration_of,
    cost_of,
    outcomes,
    run_of,
)
from tonnage.questions.train.places import WORKERS, InfeasibleRun, Rental, rentals, trainable_sites
from tonnage.questions.train.plan import check_framework
from tonnage.units import percent, show, whole_percent

MAX_ACCELERATORS: Final = 1024
"""Looked at where neither count nor limit is given. [accelerators]"""
STATE_BYTES: Final = 8.0
"""Per parameter that any trainer holds somewhere: 16-bit weights and gradients, two 16-bit moments. [bytes]"""
PASSES: Final = 8.0
"""Of 2 FLOP a parameter and token: forward, backward, old policy, and generation at the least. [-]"""
KEPT: Final = 30


def plan_rl(request: Rl, *, additions: Additions = catalog.NOTHING, today: date | None = None) -> RlPlan:
    """
    Options that do the run, the cheapest first, with reasons for every loser.

    Raises
    ------
    TonnageError
        The model or an accelerator is unknown, or the request contradicts itself. That nothing can do it is an answer:
        `feasible` is False and `binding` says what stands in the way.
    """
    return plan_or_relax(RL, request, additions=additions, today=today)


def _ask(request: Rl, additions: Additions, today: date) -> Context[Rl]:
    """The request with its model; refuses models that generate no text and responses beyond its context."""
    model = resolve_text(request.model, additions=additions, instead="give a language model")
    model = with_training_totals(model)
    longest = request.prompt_tokens + (request.max_response_tokens or request.response_tokens)
    if model.max_context and longest > model.max_context:
        raise BadRequest(
            f"max_response_tokens: prompt and response of {longest:,.0f} tokens are beyond the {model.max_context:,} "
            f"that {model.id} takes"
        )
    check_framework(request.framework, method="full")
    return Context(request=request, model=model, today=today, additions=additions)


Key = tuple[str, str | None, int]
"""Accelerator, link and count: what is arranged on them does not depend on who rents them."""


def _look(asked: Context[Rl]) -> Found[Rl, RlOption, RlPlan]:
    """Everything arranged, and the options, cheapest first."""
    request = asked.request
    found, excluded = sites(request.filters, additions=asked.additions, without=WORKERS)
    open_sites, refused = trainable_sites(found, filters=request.filters, precision=request.precision)
    kept: dict[Key, Arranged] = {}
    evaluated = 0

    def arrange(rental: Rental) -> list[RlOption | InfeasibleRun]:
        nonlocal evaluated
        place = rental.place
        arranged = best_of(request, place, model=asked.model)
        evaluated += arranged.evaluated if arranged else 1
        if arranged is not None:
            kept.setdefault((place.accelerator.id, place.intra_link, place.count), arranged)
        return _options_of(asked, rental, arranged=arranged)

    tries = _attempts(asked, open_sites)
    options, missed, _ = search_attempts(request, tries, arrange=arrange, worth=WORTH, whatever=True)
    told = with_verdicts(
        tuple(best_first(options, request=request, most=KEPT)),
        lead=partial(_lead, request),
        arithmetic=_arithmetic,
        risk=_risk,
        ranked_by=lambda option: option.cost,
    )
    ranked = tuple(_with_electricity(option, kept.get(_key(option)), asked.additions) for option in told)
    return Found(
        options=ranked,
        missed=missed,
        excluded=(*refused, *excluded),
        evaluated=evaluated,
        plan=RlPlan,
        sections=partial(_sections, asked, open_sites, kept),
    )


def _sections(asked: Context[Rl], open_sites: tuple[Site, ...], kept: dict[Key, Arranged], plan: RlPlan) -> RlPlan:
    """A feasible plan with what explains it: other splits, one step off policy, cheaper options at a risk."""
    ranked = plan.options
    first = kept[_key(ranked[0])]
    return replace(
        plan,
        cheaper_at_risk=_cheaper_at_risk(ranked),
        trail=_trail(ranked[0], first),
        splits=first.splits,
        off_policy=_off_policy(asked, ranked[0], open_sites),
    )


def _measured(asked: Context[Rl], miss: Loser) -> Iterator[Run]:
    """What was arranged, as calibrations know it."""

    if isinstance(miss, InfeasibleRun) and isinstance(miss.option, RlOption):
        yield from both_sides(miss.option, asked.model, name=asked.request.model)


def _key(option: RlOption) -> Key:
    return option.case.accelerator, option.configuration.intra_link, option.accelerators


def _with_electricity(option: RlOption, arranged: Arranged | None, additions: Additions) -> RlOption:
    """The option with its electricity and carbon; unchanged where the accelerator's power is not published."""
    load = _step_load(arranged) if arranged is not None else None
    part = catalog.accelerator(option.case.accelerator, additions)
    return option if load is None else with_electricity(option, accelerator=part, load=load)


def _attempts(asked: Context[Rl], open_sites: tuple[Site, ...]) -> Iterator[Attempt]:
    """Every rental worth a look, with the least that its arithmetic alone can take and cost at peak speed."""
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
            wall = flop / peak / rental.place.count
            yield Attempt(rental=rental, wall_s=wall, usd=wall / 3600.0 * rental.usd_per_hour)


def _counts(request: Rl, *, least: float) -> tuple[int, ...]:
    """Doubling counts of both sides together, from what holds the states on; the stated count alone."""
    if request.count is not None:
        return (request.count,)
    most = min(request.filters.max_count or MAX_ACCELERATORS, MAX_ACCELERATORS)
    low = max(1 if request.staleness else 0, doublings_to(least))
    return tuple(2**power for power in range(low, low + DOUBLINGS + 1) if 2**power <= most)


def _lead(request: Rl, first: RlOption) -> str:
    """Why the first option leads, by what the request limits."""
    asked, likely = whole_percent(request.confidence), whole_percent(first.chance)
    if not first.sure:
        return f"likeliest to keep every limit: {likely}, and none has {asked}"
    limited = request.deadline_s is not None or request.budget_usd is not None
    least = "soonest" if time_leads(request) else "cheapest"
    return f"{least} that does the steps" + (f", with at least {asked} ({likely})" if limited else "")


def _arithmetic(option: RlOption) -> str:
    step = show(option.step_s.value, "s")
    return f"a step takes {step} on {_split_text(option)}; it waits for {option.binds} longest"


def _risk(option: RlOption) -> str:
    return "" if option.sure else f"keeps every limit, memory among them, with {whole_percent(option.chance)} only"


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
    return f"{accelerators_text(option)} for {usd} in {wall}"


def _purpose(asked: Context[Rl]) -> str:
    request = asked.request
    return f"for {request.steps:,.0f} steps of {request.algorithm.upper()} on {model_name(request.model)}"


def _sentence(asked: Context[Rl], options: tuple[RlOption, ...]) -> str:
    best, old = options[0], ", old price" if options[0].bill.stale else ""
    return (
        f"Rent {best.bill.instances} x {best.bill.instance_type} ({accelerators_text(best)}) at {seller(best.bill)} "
        f"for {best.run.wall_s.shown()}: {best.cost.shown()} {_purpose(asked)}, {show(best.step_s.value, 's')} a step "
        f"on {_split_text(best)} ({best.bill.term}, {best.bill.as_of}{old})."
    )


def _trail(best: RlOption, first: Arranged) -> tuple[Decision, ...]:
    """Accelerators, split, and the next split of the same accelerators where there is one."""
    said = [
        Decision(
            question="Which accelerators, how many?",
            answer=accelerators_text(best),
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


def _off_policy(asked: Context[Rl], best: RlOption, open_sites: tuple[Site, ...]) -> str:
    """
    How a step's time on the first option's accelerators changes with a staleness of one step. Empty where the request
    allows staleness already, the option has one accelerator, or nothing runs so there.
    """
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
            word = f"{percent(1 - ratio)} less" if ratio < 1 else f"{percent(ratio - 1)} more"
            apart = f"one step off policy ({split} for training) a step takes {word} time"
            return f"{apart}; what it does to learning is not said"
    return ""


def _assumptions(asked: Context[Rl], ranked: tuple[RlOption, ...]) -> tuple[str, ...]:
    """Everything the answer takes as given that the user did not say."""
    request = asked.request
    said = [*what_if(asked.additions), *names_taken(request.filters, asked.additions)]
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


def _options_of(asked: Context[Rl], rental: Rental, *, arranged: Arranged | None) -> list[RlOption | InfeasibleRun]:
    """One outcome per term that the rental offers; one for all terms where nothing can be arranged or fits."""
    if arranged is None:
        verdict = refusal(
            "layout", f"no split and layouts divide {rental.what}", nearest="a count that is a power of 2"
        )
        return [rental.misses(verdict)]
    if not arranged.result.fits or arranged.result.step_s is None:
        verdict = refusal(
            "memory",
            arranged.result.why,
            short_by=_short_bytes(arranged),
            nearest=f"{2 * rental.place.count} accelerators, or an optimizer with smaller states",
        )
        return [rental.misses(verdict)]
    return outcomes(asked.request, rental, options_of=lambda term: [_option(asked, rental, arranged, term)])


def _short_bytes(arranged: Arranged) -> float:
    """What the fullest accelerator lacks, on the side that lacks more; 0 where nothing is known to lack. [bytes]"""
    driver_bytes = arranged.trained.setup.accelerator.driver_memory_bytes
    sides = (arranged.result.train_memory, arranged.result.rollout_memory)
    return max((side.value - driver_bytes for side in sides if side is not None), default=0.0)


def _option(asked: Context[Rl], rental: Rental, arranged: Arranged, term: str) -> RlOption:
    """One arrangement on the offers of one term: its run, bill, and chance of keeping deadline, budget and memory."""
    request, result, case, setup = asked.request, arranged.result, arranged.case, arranged.trained.setup
    assert result.step_s is not None and result.step is not None
    assert result.tokens_per_s_per_accelerator is not None
    assert result.train_memory is not None and result.rollout_memory is not None
    bills = [made for made in rental.bills if made.term == term]
    # As of any training job with this step.
    run = run_of(
        request,
        setup,
        step=result.step_s,
        steps=max(1.0, ceil(request.steps)),
        instances=bills[0].instances,
        instance_size=bills[0].accelerators_per_instance,
        term=term,
    )
    bills_by_cost, cost = cost_of(bills, run, basis=Basis(result.basis))
    option = RlOption(
        case=case,
        configuration=configuration_of(setup, rental.place),
        rollout=Configuration(
            accelerator=case.accelerator,
            layout=case.rollout_layout,
            engine=Engine(name=case.engine),
            precision=case.rollout_precision or Precision(weights="bf16"),
            intra_link=rental.place.intra_link,
        ),
        replicas=arranged.made.replicas,
        accelerators=case.count,
        rollout_accelerators=case.rollout_accelerators,
        train_accelerators=case.train_accelerators,
        step_s=result.step_s,
        step=result.step,
        tokens_per_s_per_accelerator=result.tokens_per_s_per_accelerator,
        rollout_tokens_per_s_per_accelerator=result.rollout_tokens_per_s_per_accelerator or 0.0,
        binds=result.binds,
        rollout_memory=result.rollout_memory,
        memory=result.train_memory,
        limit_bytes=rental.place.accelerator.driver_memory_bytes,
        run=run,
        bill=bills_by_cost[0],
        cost=cost,
        basis=result.basis,
        needs=result.needs,
        notes=(*rental.notes, *result.notes),
    )
    chance = chance_of_run(option, deadline_s=request.deadline_s, budget_usd=request.budget_usd)
    return replace(option, chance=chance, sure=chance >= request.confidence - ROUNDING)


def _step_load(arranged: Arranged) -> LoadShare | None:
    """
    Mean draw of all accelerators over their limit, step after step; None where a side does not fit.

    Generation draws as any served load, training as any step, the rest waits. Each pool of accelerators is at work in
    its own phases and idle in the others: shared ones in both, on policy also while new weights are on their way.
    """
    case, made, trained, step = arranged.case, arranged.made, arranged.trained, arranged.result.step_s
    if made.found is None or step is None:
        return None
    generating = made.decode_s + made.loop_s + made.prefill_s
    writes, learns = _generation_load(made, case), training_load(trained.setup, trained.step)
    pools = {
        "generation": (case.rollout_accelerators, generating, writes.value),
        "training": (case.train_accelerators, trained.total_s, learns.value),
    }
    # Above idle, of all accelerators over all of the step.
    above = sum(count * min(1.0, spent / step.value) * (share - IDLE_DRAW) for count, spent, share in pools.values())
    told = ", ".join(
        f"{name} {percent(spent / step.value)} at {percent(share)}" for name, (_, spent, share) in pools.items()
    )
    return spread(IDLE_DRAW + above / case.count, f"by phases of the step ({told}): {SUM}")


def _generation_load(made: Generation, case: RlCase) -> LoadShare:
    """Of one replica while it generates: tokens and decode steps are those of the drained batch."""
    found = made.found
    assert found is not None
    seconds = made.decode_s + made.loop_s + made.prefill_s
    steps = max(1.0, found.steps / made.steps)
    responses = made.responses / made.replicas
    return serving_load(
        made.deployment,
        running=responses * case.response_tokens / steps,
        tpot_s=seconds / steps,
        requests_per_s=responses / case.responses_per_prompt / seconds,
    )


RL: Final[Kind[Rl, Context[Rl], RlOption, RlPlan]] = Kind(
    ask=_ask,
    look=_look,
    nearness=nearness({"budget": 0, "deadline": 1, "cost": 2, "memory": 3, "layout": 4, "offer": 5}),
    purpose=_purpose,
    sentence=_sentence,
    describe=_led_by,
    assumed=_assumptions,
    measured=_measured,
)


def runs(plan: RlPlan, additions: Additions) -> Iterator[Run]:
    """The configurations that its numbers rest on, as calibrations know them: the best option first."""
    model = resolve(plan.request.model, additions=additions)
    for option in plan.options:
        yield from both_sides(option, model, name=plan.request.model)
