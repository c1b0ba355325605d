"""Make a model here, serve it there: two plans, one bill, one timeline; can one kind of accelerator do both?

Nothing is searched anew: `plan_train` and `plan_serve` answer their halves, and are asked again with one accelerator
allowed, or with a smaller way to do the same, to say what that would cost.
"""

from __future__ import annotations

from datetime import date
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, accelerators_text, model_name, part_name, provider_name
from tonnage.catalog.hub.resolve import resolve
from tonnage.core.cold_start import cold_start
from tonnage.core.error_model import Pair, correlation, ratio
from tonnage.core.measure_first import likelier
from tonnage.domain.answer import Basis, Quantity, weakest
from tonnage.domain.plan import PLAN_SCHEMA, Bill, Provenance, ServeOption, ServePlan
from tonnage.domain.refusal import none_works
from tonnage.domain.train_plan import Milestone, TrainOption, TrainPlan
from tonnage.physics.memory import stored_bytes
from tonnage.pricing.bills import HOURS_PER_MONTH
from tonnage.pricing.terms import egress_usd, term_hours
from tonnage.questions.lifecycle.question import LifecyclePlan, LifecycleRequest, OneType
from tonnage.questions.lifecycle.savings import savings_options
from tonnage.questions.serve.plan import plan_serve
from tonnage.questions.train.plan import plan_train, train_options
from tonnage.units import percent, show
from tonnage.version import __version__

MAX_TYPES: Final = 10
"""Kinds of accelerator asked whether they can do both: the cheapest to serve on."""
SECONDS_PER_MONTH: Final = HOURS_PER_MONTH * 3600.0


def plan_lifecycle(
    request: LifecycleRequest, *, additions: Additions = catalog.NOTHING, today: date | None = None
) -> LifecyclePlan:
    """
    Both halves of a model's life and what they cost together.

    Raises
    ------
    TonnageError
        Either half is wrong. That one of them cannot be done is an answer: `feasible` is False and `binding` says
        which limit stands in the way.
    """
    today = today or date.today()
    make = plan_train(request.make, additions=additions, today=today)
    serve = _plan_serve(request, additions=additions, today=today)
    dates = {**make.provenance.catalogue, **serve.provenance.catalogue}
    plan = LifecyclePlan(
        schema=PLAN_SCHEMA,
        feasible=make.feasible and serve.feasible,
        sentence="",
        request=request,
        make=make,
        serve=serve,
        provenance=Provenance(
            version=__version__, catalogue=dates, made=today.isoformat(), assumed=_assumptions(request)
        ),
    )
    if not plan.feasible:
        half, binding = ("serve", serve.binding) if make.feasible else ("make", make.binding)
        return replace(plan, sentence=none_works(f"No feasible plan to {half} the model", binding), binding=binding)
    trained, served = make.options[0], serve.options[0]
    size = stored_bytes(resolve(request.serve.model, additions=additions), served.configuration.precision)
    bill = _bill(request, trained, served=served, size=size)
    share = bill.part("serving") / bill.value
    plan = replace(
        plan,
        sentence=_sentence(request, trained, served=served, bill=bill, share=share),
        bill=bill,
        serve_share=share,
        kwh=_over_life(request, trained.kwh, served.energy.kwh_per_month if served.energy else None),
        kg_co2=_over_life(request, trained.kg_co2, served.energy.kg_co2_per_month if served.energy else None),
        timeline=_timeline(request, trained, served=served, size=size),
        measure_first=likelier((serve.measure_first, make.measure_first)),
    )
    if request.quick:
        return plan
    types = _one_type(request, make, serve=serve, additions=additions, today=today)
    smaller = savings_options(request, make, serve=serve, additions=additions, today=today)
    return replace(plan, one_type=types, one_type_text=_one_type_text(types), savings=smaller)


def _plan_serve(request: LifecycleRequest, *, additions: Additions, today: date) -> ServePlan:
    """
    The serving half; where it takes a term beyond the life, which is paid to its end, the cheaper of that and of a plan
    without such terms.
    """
    plan = plan_serve(request.serve, additions=additions, today=today)
    life = request.months * HOURS_PER_MONTH
    if not plan.feasible or _served_hours(request, plan.options[0]) <= life:
        return plan
    filters = request.serve.filters
    short = replace(
        filters,
        terms=tuple(term for term in filters.terms if term_hours(term) <= life),
        quotes=tuple(one for one in filters.quotes if (one.term_s or 0.0) <= life * 3600.0),
    )
    if not short.terms:
        return plan
    other = plan_serve(replace(request.serve, filters=short), additions=additions, today=today)
    if not other.feasible:
        return plan
    usd = [one.options[0].cost.value * _served_hours(request, one.options[0]) for one in (plan, other)]
    return other if usd[1] < usd[0] else plan


def _bill(request: LifecycleRequest, made: TrainOption, *, served: ServeOption, size: float) -> Quantity:
    """
    Making (and making again), moving weights of `size` out of the place they were made in each time, serving; moving is
    free where nothing moves or no price is known. [USD]
    """
    making, serving = _halves(request, made, served)
    provider = catalog.providers().get(made.bill.provider)
    moved = made.bill.provider != served.bill.provider
    price = provider.egress_usd_per_gb if provider is not None else None
    out = size * (1.0 + request.retrainings)
    egress = egress_usd(out_bytes=out, usd_per_gb=price) if moved and price else 0.0
    parts = (
        Quantity(
            name="making",
            value=making.value,
            basis=made.cost.basis,
            source=f"rented at {provider_name(made.bill.provider)}",
        ),
        Quantity(
            name="moving weights",
            value=egress,
            basis=Basis.MEASURED,
            source=f"{show(size, 'bytes')} out of {provider_name(made.bill.provider)} at ${price or 0:g}/GB",
        ),
        Quantity(
            name="serving",
            value=serving.value,
            basis=served.cost.basis,
            source=f"rented at {provider_name(served.bill.provider)}, {show(served.cost.value, 'USD/h')} x "
            f"{_served_hours(request, served):,.0f} h",
        ),
    )
    kept = tuple(part for part in parts if part.value > 0)
    low = (making.low or making.value) + egress + (serving.low or serving.value)
    high = (making.high or making.value) + egress + (serving.high or serving.value)
    return Quantity(
        value=sum(part.value for part in kept),
        unit="USD",
        low=low,
        high=high,
        basis=weakest(part.basis for part in kept),
        parts=kept,
    )


def _served_hours(request: LifecycleRequest, served: ServeOption) -> float:
    """That serving is paid for: the life, or the whole of a term that is longer. [h]"""
    made = served.bill
    return max(request.months * HOURS_PER_MONTH, term_hours(made.term, made.contract))


def _over_life(request: LifecycleRequest, each_making: float | None, each_month: float | None) -> float | None:
    """
    Of the whole life: so much for each making, as often as asked, and so much a month of service; None where a half is
    not known.
    """
    if each_making is None or each_month is None:
        return None
    return each_making * (1.0 + request.retrainings) + each_month * request.months


def _one_type(
    request: LifecycleRequest, make: TrainPlan, *, serve: ServePlan, additions: Additions, today: date
) -> tuple[OneType, ...]:
    """The kinds of accelerator that can do both, cheapest together first, at prices as well confirmed as the plan's."""
    cheapest: dict[str, ServeOption] = {}
    for option in serve.options:
        if _as_trusted(option.bill, serve.options[0].bill):
            cheapest.setdefault(option.configuration.accelerator, option)
    first, serving = make.options[0], serve.options[0]
    mix = _halves(request, first, serving)
    found = []
    for name in dict.fromkeys([*list(cheapest)[:MAX_TYPES], first.configuration.accelerator]):
        served = cheapest.get(name)
        if served is None:
            continue
        filters = replace(request.make.filters, accelerators=(name,))
        trained = train_options(replace(request.make, filters=filters), additions=additions, today=today)
        if not trained or not _as_trusted(trained[0].bill, first.bill):
            continue
        alone = _halves(request, trained[0], served)
        # A half that is the same in both has no error of its own.
        shared = (
            correlation(trained[0].configuration, first.configuration),
            correlation(served.configuration, serving.configuration),
        )
        over = ratio(*map(Pair, alone, mix, shared))
        making, total = alone[0].value, alone[0].value + alone[1].value
        found.append(
            OneType(
                accelerator=name,
                make_usd=making,
                serve_usd=total - making,
                total_usd=total,
                times_the_mix=total / (mix[0].value + mix[1].value),
                times_low=over.low if over is not None else None,
                times_high=over.high if over is not None else None,
            )
        )
    return tuple(sorted(found, key=lambda one: one.total_usd))


def _as_trusted(bill: Bill, first: Bill) -> bool:
    """No price of third parties beside a seller's: one kind for both would look cheaper than the cheapest mix."""
    return bill.trust == "primary" or first.trust != "primary"


def _halves(request: LifecycleRequest, made: TrainOption, served: ServeOption) -> tuple[Quantity, Quantity]:
    """What making as often as asked and serving as long cost, without moving weights. [USD]"""
    hours = _served_hours(request, served)
    return made.cost.scaled(1.0 + request.retrainings), served.cost.scaled(hours)


def _one_type_text(types: tuple[OneType, ...]) -> str:
    """Whether one kind of accelerator does both, and how much more that costs than the mix."""
    if not types:
        return "no single kind of accelerator does both within the constraints"
    best = types[0]
    more = best.times_the_mix - 1.0
    if more < 0.005:
        return f"yes: {part_name(best.accelerator)} does both at the cost of the mix"
    low, high = best.times_low, best.times_high
    tie = (
        f" ({percent(low - 1.0, sign='+')} to {percent(high - 1.0, sign='+')} within error: not distinguishable)"
        if low and high and low <= 1.0
        else ""
    )
    usd = show(best.total_usd, "USD")
    return f"yes, {part_name(best.accelerator)} does both for {usd}, {percent(more)} more than the mix{tie}"


def _timeline(
    request: LifecycleRequest, made: TrainOption, *, served: ServeOption, size: float
) -> tuple[Milestone, ...]:
    """Start, model made, service up, end of service; retrainings while it serves take no time here."""
    done = made.run.wall_s.value
    start = cold_start(weight_bytes=size, provider=served.bill.provider).total_s
    end = done + start + request.months * SECONDS_PER_MONTH
    return (
        Milestone(after_s=0.0, what=f"making starts on {accelerators_text(made)}"),
        Milestone(after_s=done, what="the model is made; P90 " + show(made.run.wall_p90_s, "s")),
        Milestone(
            after_s=done + start,
            what=f"service is up on {accelerators_text(served)}",
        ),
        Milestone(after_s=end, what=f"end of {request.months:g} months of service"),
    )


def _sentence(
    request: LifecycleRequest, made: TrainOption, *, served: ServeOption, bill: Quantity, share: float
) -> str:
    """Where the model is made and served, and what the whole life costs."""
    again = f" (and {request.retrainings:g} times again)" if request.retrainings else ""
    return (
        f"Make it{again} on {accelerators_text(made)} at {provider_name(made.bill.provider)} in "
        f"{show(made.run.wall_s.value, 's')}, serve it on {accelerators_text(served)} at "
        f"{provider_name(served.bill.provider)}: {bill.shown()} over {request.months:g} months, "
        f"{percent(share)} of it for serving."
    )


def _assumptions(request: LifecycleRequest) -> tuple[str, ...]:
    """What the bill takes as given."""
    own = request.make.model
    same = (
        []
        if own == request.serve.model
        else [f"what is made from {model_name(own)} serves with the shape of {model_name(request.serve.model)}"]
    )
    return (
        *same,
        "the fleet that serves stands for the whole time, at today's prices",
        "prices exclude VAT and storage; a month is 730 hours",
    )
