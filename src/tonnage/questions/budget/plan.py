"""Plan a budget: the largest rate of a model, the best model at a rate, or what a sum of money trains."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, accelerators_text, model_name, part_name, parts_name
from tonnage.catalog.hub.resolve import resolve_text
from tonnage.catalog.standings import TASKS, Task, best_first, standing, task_of
from tonnage.core.calibration_use import Run, TrainRun, at_once
from tonnage.core.header import provenance
from tonnage.core.kept_replicas import kept_replicas
from tonnage.core.measure_first import (
    MINUTES,
    Rival,
    few_words,
    likeliest_to_overturn,
    rival_of,
    smoothly,
    to_stay_within,
)
from tonnage.domain.answer import Quantity, Verdict
from tonnage.domain.calibration import FirstMeasurement
from tonnage.domain.plan import BY_AVERAGES, PLAN_SCHEMA, ServeOption
from tonnage.domain.refusal import none_works, refusal
from tonnage.domain.requests.serve import Serve
from tonnage.errors import BadRequest
from tonnage.pricing.bills import HOURS_PER_MONTH
from tonnage.questions.budget.question import Affordable, AffordableRun, AffordableTune, Budget, BudgetPlan
from tonnage.questions.budget.training import DEADLINE_S, LAWS, affordable_runs, affordable_tunes, optimal_range
from tonnage.questions.serve.plan import serve_options
from tonnage.units import percent, show, whole_percent
from tonnage.version import can_simulate


def plan_budget(request: Budget, *, additions: Additions = catalog.NOTHING, today: date | None = None) -> BudgetPlan:
    """
    The most that the budget buys, with the plan behind it.

    Raises
    ------
    TonnageError
        A model or an accelerator is unknown, or the request contradicts itself. That the budget buys nothing is an
        answer: `feasible` is False and `binding` says what the least costs.
    """
    today = today or date.today()
    base = BudgetPlan(
        schema=PLAN_SCHEMA,
        feasible=False,
        sentence="",
        request=request,
        provenance=provenance((), today=today, assumed=_assumptions(request)),
    )
    if request.purpose == "serving":
        return _serving(base, additions=additions, today=today)
    return (_training if request.purpose == "training" else _finetuning)(base, additions=additions, today=today)


def _serving(base: BudgetPlan, *, additions: Additions, today: date) -> BudgetPlan:
    """
    The largest rate of the request's model, or the best models at its rate; where nothing is affordable, what the least
    costs.
    """
    request = base.request
    budget = f"{show((request.usd_per_h or 0.0), 'USD/h')}"
    if request.model is not None:
        resolve_text(request.model, additions=additions, instead="ask `tonnage plan infer` with --budget")
        models, looked = largest_affordable(request, additions=additions, today=today), 1
    else:
        models, looked = best_models(request, additions=additions, today=today)
    if not models:
        binding = _least_verdict(request, additions=additions, today=today)
        return replace(base, binding=binding, sentence=none_works(f"Not within {budget}", binding))
    first = models[0]
    name = model_name(first.model)
    served = f"{show(first.rate_per_s, '1/s')} of {name} ({first.output_tokens_per_s:,.0f} output tokens/s)"
    lead = "The largest rate" if request.model is not None else "The best model by published score"
    return replace(
        base,
        feasible=True,
        models=models,
        bill=first.option.cost,
        measure_first=_before_service(request, models),
        benchmark=TASKS[_task(request)][0],
        evaluated=looked,
        provenance=provenance((one.option.bill for one in models), today=today, assumed=base.provenance.assumed),
        sentence=f"{lead} within {budget}: {served} on {accelerators_text(first.option)}, "
        f"${first.usd_per_month:,.0f} a month.",
    )


def _least_verdict(request: Budget, *, additions: Additions, today: date) -> Verdict:
    """
    Why nothing is bought: what the cheapest deployment costs that serves next to no load (one request in 1,000 s), and
    by how much that exceeds the budget [USD/h]. No amount where the request asks for no model, or nothing meets the
    objectives.
    """
    serve = request.serve
    assert serve is not None
    if request.model is None:
        return refusal(
            "budget",
            "no model with a published score carries that rate within the objectives",
            nearest="a larger budget, a lower rate or looser objectives",
        )
    asked = replace(serve, model=request.model, quick=True, rate_per_s=LITTLE)
    options = serve_options(asked, additions=additions, today=today)
    if not options:
        return refusal(
            "objectives",
            "nothing that can be rented meets the objectives at any load",
            nearest=f"ask `tonnage plan serve {request.model} --rate 1/s` for what stands in the way",
        )
    cheapest = min(option.bill.usd_per_hour for option in options)
    monthly = cheapest * HOURS_PER_MONTH
    return refusal(
        "budget",
        f"the least that serves {model_name(request.model)} costs ${monthly:,.0f} a month",
        short_by=cheapest - (request.usd_per_h or 0.0),
        nearest=f"${monthly:,.0f}/month, fewer bits (--precision), or a smaller model",
        unit="USD/h",
    )


def _training(base: BudgetPlan, *, additions: Additions, today: date) -> BudgetPlan:
    """The compute-optimal run that the money buys, smaller models on more tokens, and fine-tunes beside it."""
    runs = affordable_runs(base.request, additions=additions, today=today)
    if not runs:
        return _no_run(base)
    tunes = affordable_tunes(base.request, additions=additions, today=today)
    first = runs[0]
    low, high = optimal_range(first)
    return replace(
        base,
        feasible=True,
        runs=runs,
        tunes=tunes,
        bill=first.cost,
        measure_first=_before_run(base.request, first),
        laws=LAWS,
        optimal_range=(low, high),
        sentence=f"{show(base.request.usd or 0.0, 'USD')} trains {first.parameters / 1e9:.3g}B parameters on "
        f"{first.tokens / 1e9:,.3g}B tokens at the compute optimum, in {first.wall_s / 86400:.0f} days on "
        f"{parts_name(first.configuration.count, first.configuration.accelerator)}.",
    )


def _finetuning(base: BudgetPlan, *, additions: Additions, today: date) -> BudgetPlan:
    """Fine-tunes that the money buys, the first of them in the sentence."""
    tunes = affordable_tunes(base.request, additions=additions, today=today)
    if not tunes:
        return _no_run(base)
    first = tunes[0]
    return replace(
        base,
        feasible=True,
        tunes=tunes,
        bill=first.cost,
        measure_first=_before_run(base.request, first),
        sentence=f"{show(base.request.usd or 0.0, 'USD')} tunes {model_name(first.model)} by {first.method} on "
        f"{first.tokens / 1e9:,.3g}B tokens, in {first.wall_s / 86400:.1f} days on {first.configuration.count} x "
        f"{part_name(first.configuration.accelerator)}.",
    )


def _before_service(request: Budget, models: tuple[Affordable, ...]) -> FirstMeasurement:
    """What would put the next model of the list first: the score ranks them, so each is as good as its place."""
    confidence = request.serve.confidence if request.serve is not None else 0.5
    rivals = [
        rival_of(one.option, place, confidence=confidence)._replace(
            what=f"{model_name(one.model)} on "
            f"{few_words(one.option.configuration, ranks=one.option.configuration.ranks)}",
            cost=partial(_place, place),
        )
        for place, one in enumerate(models)
    ]
    return likeliest_to_overturn(rivals, confidence=confidence)


def _place(place: int, _: float) -> float:
    """A cost that is the option's place in the list, whatever it measures: scores rank models, not money."""
    return 1.0 + place


def _before_run(request: Budget, run: AffordableRun | AffordableTune) -> FirstMeasurement:
    """The measurement that would settle whether the run stays within the budget: the speed of its step."""
    rate = run.tokens / run.wall_s
    most, least = run.cost.high or run.cost.value, run.cost.low or run.cost.value
    low, high = (rate * run.cost.value / end for end in (most, least))
    rival = Rival(
        place=0,
        configuration=run.configuration,
        cost=smoothly(run.cost),
        margin=math.inf,
        measured=Quantity(value=rate, unit="tokens/s", basis=run.cost.basis, low=low, high=high),
        name="tokens/s",
        what=few_words(run.configuration, ranks=run.configuration.count),
        load="20 steps",
        usd=60.0 * MINUTES * run.cost.value / run.wall_s,
    )
    return to_stay_within(rival, request.usd or math.inf, what="the budget")


def _no_run(base: BudgetPlan) -> BudgetPlan:
    binding = refusal(
        "budget",
        "no run of any size ends within deadline and budget on what can be rented",
        nearest="a longer deadline, more money, or other accelerators",
    )
    return replace(base, binding=binding, sentence=none_works("No run", binding))


def _assumptions(request: Budget) -> list[str]:
    """Everything the answer takes as given for its purpose."""
    if request.purpose == "serving":
        return [
            f"the largest rate is found in steps of {percent(TOLERANCE)}",
            "the model's own checkpoint, and formats that the engine makes as it loads (--precision names others)",
            *([] if can_simulate() else [BY_AVERAGES]),
        ]
    said = [] if request.deadline_s else [f"the run ends within {DEADLINE_S / 86400:.0f} days (--deadline)"]
    assert request.serve is not None
    said += [f"budget, deadline and memory are kept with {whole_percent(request.serve.confidence)} (--confidence)"]
    if request.purpose == "training":
        said += [
            "a dense decoder of the size, sequences of 4,096 tokens, each token seen once, C = 6 N D",
            "losses beyond about 100 tokens a parameter are extrapolated; a loss is no benchmark score",
        ]
    return said


# The largest rate that a budget serves, and the best model at a rate, on the plan itself and not on an approximation:
# simulation, steps of whole replicas, other accelerators, headroom and confidence all count. More load never costs less
# there: what a configuration takes depends on no rate, and a plan is the cheapest of them.

FIRST: Final = 1.0
"""Rate looked at first. [1/s]"""
LITTLE: Final = 1e-3
"""Next to no load. [1/s]"""
LEAST: Final = 1e-4
"""A service of fewer requests is none: nine a day. [1/s]"""
MOST: Final = 1e5
TOLERANCE: Final = 0.02
"""Distance of the rates that are tried. [-]"""
UP: Final = 10
"""Steps of the least leap to more."""
DOWN: Final = 70
"""Steps to a quarter of the rate."""
SHOWN: Final = 5
"""Models of an answer."""

KEPT: Final = 4096
"""Replicas that searches at one rate after the other share: a quarter less work over the whole market."""
Price = Callable[[float], ServeOption | None]
"""Rate -> the cheapest option within objectives and budget; None = there is none."""
Options = Callable[..., tuple[ServeOption, ...]]
"""The service at some rate and budget -> its options by averages, the cheapest first."""


def largest_rate(price: Price, budget_usd_per_h: float) -> tuple[ServeOption, float, float] | None:
    """
    The option at the largest rate that can be paid, that rate, and the next that cannot; None = not any.

    Rates are tried at fixed steps of `TOLERANCE`, so that a larger budget never buys less. The budget says how far to
    leap: cost grows about as the rate does.
    """
    step = math.log1p(TOLERANCE)
    least, most, k = (round(math.log(rate) / step) for rate in (LEAST, MOST, FIRST))
    low, high, best = least - 1, most + 1, None
    while high - low > 1:
        option = price(math.exp(k * step))
        low, high, best = (low, k, best) if option is None else (k, high, option)
        if best is None:
            k = max(least, k - DOWN)
        elif high > most:
            k = min(most, low + max(UP, int(math.log(budget_usd_per_h / best.bill.usd_per_hour) / step)))
        else:
            k = (low + high) // 2
    return (best, math.exp(low * step), math.exp(high * step)) if best is not None else None


def _price_service(request: Budget, model: str, *, additions: Additions, today: date) -> tuple[Serve, Options]:
    """
    The service of one model within the budget, and a function from it at any rate and budget to its options.

    Another checkpoint than the model's own counts only where that is never sure enough, whatever it costs: as in the
    plan of the same service without a budget.
    """
    assert request.serve is not None
    serve = replace(request.serve, model=model, budget_usd_per_h=request.usd_per_h)
    options = partial(serve_options, additions=additions, today=today, first_only=True, known={})
    own = _sure(options(replace(serve, rate_per_s=LITTLE, budget_usd_per_h=None, quick=True), own=True)) is not None
    return serve, partial(options, own=own)


def _sure(options: tuple[ServeOption, ...]) -> ServeOption | None:
    """The cheapest option, where it is as sure as asked."""
    return options[0] if options and options[0].sure else None


def largest_affordable(request: Budget, *, additions: Additions, today: date) -> tuple[Affordable, ...]:
    """
    The model of the request at its largest rate, at prices that sellers state if any such is affordable; empty where
    not even a few requests a day can be paid.
    """
    assert request.model is not None
    serve, options = _price_service(request, request.model, additions=additions, today=today)
    budget = request.usd_per_h or 0.0
    priced: dict[float, float] = {}

    def within(rate: float, *, stated: bool) -> ServeOption | None:
        # Options at prices of sellers stand first: where the first has none, nothing at such a price is affordable.
        option = _sure(options(replace(serve, rate_per_s=rate)))
        if option is None or (stated and option.bill.trust != "primary"):
            return None
        priced[rate] = option.usd_per_month
        return option

    with kept_replicas(KEPT):
        found = largest_rate(partial(within, stated=True), budget) or largest_rate(
            partial(within, stated=False), budget
        )
        if found is None:
            return ()
        option, rate, beyond = found
        more = _sure(options(replace(serve, rate_per_s=beyond, budget_usd_per_h=2.0 * budget)))
    costs = more.usd_per_month if more is not None else None
    found_one = _affordable(serve, option, rate=rate, beyond=beyond, costs=costs)
    return (replace(found_one, priced=tuple(sorted(priced.items()))),)


def best_models(request: Budget, *, additions: Additions, today: date) -> tuple[tuple[Affordable, ...], int]:
    """
    The best models by a published score of the task that carry the rate within the budget, and how many were looked at.

    Those that only a price of no seller's own page makes affordable stand last.
    """
    assert request.rate_per_s is not None
    found: list[Affordable] = []
    others: list[Affordable] = []
    looked = 0
    for model in best_first(_task(request)):
        if standing(model, _task(request)) is None:
            break
        looked += 1
        serve, options = _price_service(request, model, additions=additions, today=today)
        try:
            option = _sure(options(replace(serve, rate_per_s=request.rate_per_s)))
        except BadRequest:
            continue  # a context that this model does not take
        if option is not None:
            stated = option.bill.trust == "primary"
            (found if stated else others).append(_affordable(serve, option, rate=request.rate_per_s))
        if len(found) == SHOWN:
            break
    return (*found, *others)[:SHOWN], looked


def _task(request: Budget) -> Task:
    """What the service is for, as its lengths say."""
    return task_of(request.serve.lengths.profile if request.serve else None)


def _affordable(
    serve: Serve, option: ServeOption, *, rate: float, beyond: float | None = None, costs: float | None = None
) -> Affordable:
    """
    A model within the budget at a rate; `beyond` is the least rate looked at that costs more, `costs` what that one
    costs a month (None = over twice the budget).
    """
    stands = standing(serve.model, task_of(serve.lengths.profile))
    return Affordable(
        model=serve.model,
        rate_per_s=rate,
        output_tokens_per_s=rate * serve.lengths.output_tokens,
        usd_per_month=option.usd_per_month,
        option=option,
        quality=stands.published if stands else None,
        stands=stands,
        next_rate_per_s=beyond,
        next_usd_per_month=costs,
    )


def runs(plan: BudgetPlan, _: Additions) -> Iterator[Run]:
    """The configurations that its numbers rest on, as calibrations know them: the best option first."""
    if (serve := plan.request.serve) is not None:
        for one in plan.models:
            held = one.option.capacity.concurrency
            yield at_once(one.option.configuration, model=one.model, lengths=serve.lengths, concurrency=held)
    yield from (TrainRun(tune.model, tune.configuration) for tune in plan.tunes)
