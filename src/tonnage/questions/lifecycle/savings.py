"""Smaller ways to do the same, what each saves and what it costs in quality: fewer bits, smaller and distilled models,
adapters instead of all weights.

Each lever asks the planners again with one change. Serving is asked by averages alone, for the plan and for the lever
alike, and what the lever is worth is applied to the plan's own cost. What it costs in quality is what others have
published of it; where nobody has, the lever says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import partial
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.published import cache_change, method_change, model_change, same_model, students
from tonnage.core.driver import plan_alone
from tonnage.core.quality import judge_change, weights_change
from tonnage.domain.model import Model
from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.domain.precision import number_format
from tonnage.domain.published import QualityChange
from tonnage.domain.requests.serve import Serve
from tonnage.domain.train_plan import FineTune, Train, TrainOption, TrainPlan
from tonnage.errors import TonnageError
from tonnage.physics.parameters import parameters
from tonnage.pricing.bills import HOURS_PER_MONTH
from tonnage.questions.lifecycle.question import LifecycleRequest, SavingsOption
from tonnage.questions.serve.plan import SERVE, serve_options
from tonnage.questions.train.plan import TRAIN, train_options
from tonnage.record import Record
from tonnage.units import percent

FORMATS: Final = ("bf16", "fp8", "int8", "int4", "nvfp4")
CACHE: Final = "fp8"
SMALLER: Final = 0.7
"""A sibling has at most this share of the parameters. [-]"""
FEWER_TRAINED: Final = {"full": ("lora", "qlora"), "lora": ("qlora",), "dora": ("lora", "qlora")}


class _Life(Record, kw_only=True):
    """The plan that levers are pulled on."""

    request: LifecycleRequest
    model: Model
    made_usd: float
    served_usd: float
    quick_usd: float | None
    """Of serving by averages alone; absent = they find no way. [USD]"""
    additions: Additions
    today: date


def savings_options(
    request: LifecycleRequest, make: TrainPlan, *, serve: ServePlan, additions: Additions, today: date
) -> tuple[SavingsOption, ...]:
    """
    Every lever that this life has, the most saving first; those that cannot be pulled last, with the reason. Costs are
    of the life's months and leave moving weights out.
    """
    model = resolve(request.serve.model, additions=additions)
    quick = _quick_serving_cost(request.serve, request.months, additions=additions, today=today)
    life = _Life(
        request=request,
        model=model,
        made_usd=make.options[0].cost.value * (1.0 + request.retrainings),
        served_usd=serve.options[0].cost.value * request.months * HOURS_PER_MONTH,
        quick_usd=quick if isinstance(quick, float) else None,
        additions=additions,
        today=today,
    )
    now = serve.options[0].configuration.precision
    found = [*_fewer_bits(life, now.weights, now.kv), *_fewer_trained(life), *_other_models(life)]
    return tuple(sorted(found, key=lambda lever: -(lever.saves_usd if lever.saves_usd is not None else -1e18)))


def smaller_sibling(model: Model) -> Model | None:
    """The next smaller model of the same family and kind in the catalogue; None without a family or a smaller one."""
    most = parameters(model).value * SMALLER
    siblings = [
        other
        for other in catalog.models().values()
        if other.family and other.family == model.family and other.kind == model.kind and other.layers
    ]
    sized = [(parameters(other).value, other) for other in siblings]
    return max(((size, other) for size, other in sized if size <= most), key=lambda pair: pair[0], default=(0, None))[1]


def _fewer_bits(life: _Life, weights: str, kv: str) -> Iterable[SavingsOption]:
    """The same model with weights in each other format that the catalogue plans, and with a cache in fewer bits."""
    serve = life.request.serve
    sixteen = weights if number_format(weights).bits == 16 else "bf16"
    for name in FORMATS:
        if name not in {weights, sixteen if weights == sixteen else ""}:
            change = weights_change(serve.model, life.model, weights=name)
            usd = _serving_cost(life, replace(serve, precisions=(name,), quality_floor=None))
            yield _with_saving(life, f"serve with {name} weights instead of {weights}", served=usd, quality=change)
    if number_format(kv).bits >= 16:
        usd = _serving_cost(life, replace(serve, precisions=(weights,), kv_precision=CACHE, quality_floor=None))
        change = cache_change(serve.model, CACHE)
        yield _with_saving(life, f"serve with an {CACHE} cache instead of {kv}", served=usd, quality=change)


def _fewer_trained(life: _Life) -> Iterable[SavingsOption]:
    """LoRA instead of a full fine-tune, QLoRA instead of LoRA."""
    make = life.request.make
    if isinstance(make, FineTune):
        for method in FEWER_TRAINED.get(make.method, ()):
            usd = _making_cost(life, replace(make, method=method))
            change = method_change(method, model=make.model, instead_of=make.method)
            yield _with_saving(life, f"{method} instead of {make.method}", made=usd, quality=change)


def _other_models(life: _Life) -> Iterable[SavingsOption]:
    """A smaller model of the family, and those that were distilled from this one."""
    asked = life.request.serve.model
    sibling = smaller_sibling(life.model)
    distilled = [other for other in catalog.models().values() if _is_student(other, asked) and other != sibling]
    for other, how in ((sibling, ""), *((student, ", distilled from it,") for student in distilled)):
        if other is None:
            continue
        served = _serving_cost(life, replace(life.request.serve, model=other.id))
        made = _making_cost(life, replace(life.request.make, model=other.id))
        size = f"{parameters(other).value / 1e9:.3g}B"
        what = f"{other.id} ({size}){how} instead of {asked}"
        yield _with_saving(life, what, served=served, made=made, quality=model_change(asked, other.id))


def _is_student(model: Model, teacher: str) -> bool:
    return bool(model.layers) and any(same_model(name, model.id) for name in students(teacher))


def _quick_serving_cost(serve: Serve, months: float, *, additions: Additions, today: date) -> float | str:
    """What serving so costs over the life by averages alone, or why it cannot. [USD]"""
    asked = replace(serve, quick=True)
    found = _first_usd(
        partial(serve_options, asked, additions=additions, today=today, first_only=True),
        partial(plan_alone, SERVE, asked, additions=additions, today=today),
    )
    return found if isinstance(found, str) else found * months * HOURS_PER_MONTH


def _first_usd(
    options: Callable[[], Sequence[ServeOption | TrainOption]], alone: Callable[[], ServePlan | TrainPlan]
) -> float | str:
    """What the first of the options costs, or why there is none, as the plan says. [USD/h or USD]"""
    try:
        found = options()
        binding = None if found else alone().binding
    except TonnageError as error:
        return str(error)
    return found[0].cost.value if binding is None else binding.reason or "nothing does it"


def _serving_cost(life: _Life, serve: Serve) -> float | str:
    """What serving so costs over the life, in the plan's own terms, or why it cannot. [USD]"""
    found = _quick_serving_cost(serve, life.request.months, additions=life.additions, today=life.today)
    if isinstance(found, str) or life.quick_usd is None:
        return found
    return life.served_usd * found / life.quick_usd


def _making_cost(life: _Life, make: Train | FineTune) -> float | str:
    """What making so costs over the life, or why it cannot. [USD]"""
    found = _first_usd(
        partial(train_options, make, additions=life.additions, today=life.today, worth=1.0),
        partial(plan_alone, TRAIN, make, additions=life.additions, today=life.today),
    )
    return found if isinstance(found, str) else found * (1.0 + life.request.retrainings)


def _with_saving(
    life: _Life,
    change: str,
    *,
    quality: QualityChange | None,
    served: float | str | None = None,
    made: float | str | None = None,
) -> SavingsOption:
    """
    A change with what it saves over the life, and what it costs in quality; halves that are not given stay as they are,
    and a half that is a text says why it cannot be done.
    """
    halves = (life.made_usd if made is None else made, life.served_usd if served is None else served)
    for half in halves:
        if isinstance(half, str):
            return SavingsOption(change=change, what=f"cannot be done: {half}")
    now, total = life.made_usd + life.served_usd, sum(float(half) for half in halves)
    saved = now - total
    share = f"{percent(saved / now)} less" if saved >= 0 else f"{percent(-saved / now)} more"
    known = None if quality is None else judge_change(quality, life.request.serve.quality_floor)
    below = "; below the quality floor" if known is not None and known.passes is False else ""
    return SavingsOption(
        change=change,
        usd=total,
        saves_usd=saved,
        what=f"{share}{below}",
        quality="" if known is None else known.told,
        published=known,
    )
