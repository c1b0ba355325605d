"""Smaller ways to do the same, and what each saves: fewer bits, a smaller sibling, adapters instead of all weights.

Each lever asks the planners again with one change. What it costs in quality is said only where somebody published it;
nothing in the catalogue does, so the plan says what to check before it ships.
"""

from __future__ import annotations

from datetime import date
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.hub.resolve import resolve
from tonnage.errors import TonnageError
from tonnage.money.bills import HOURS_PER_MONTH
from tonnage.nouns.lifecycle import Lever, LifecycleRequest
from tonnage.nouns.model import Model
from tonnage.nouns.plan import ServePlan
from tonnage.nouns.train_plan import TrainPlan
from tonnage.nouns.workload import FineTune, Serve, Train
from tonnage.physics.parameters import parameters
from tonnage.planner.serve.plan import plan_serve
from tonnage.planner.train.plan import plan_train

__all__ = ["levers", "smaller_sibling"]

FORMATS: Final = ("bf16", "fp8", "int4")
UNKNOWN: Final = "not published for this model: compare answers on your own tasks before shipping"
CHECK_SIZE: Final = "a smaller model answers worse on hard tasks by an amount that only your own tasks can tell"
CHECK_ADAPTERS: Final = (
    "adapters learn less where much is new and forget less: arXiv 2405.09673; compare on your own tasks"
)
SMALLER: Final = 0.7
"""A sibling has at most this share of the parameters. [-]"""


def levers(
    request: LifecycleRequest, make: TrainPlan, *, serve: ServePlan, additions: Additions, today: date
) -> tuple[Lever, ...]:
    """Every lever that this life has, the most saving first; those that cannot be pulled last, with the reason."""
    made = make.options[0].cost.value * (1.0 + request.retrainings)
    served = serve.options[0].cost.value * request.months * HOURS_PER_MONTH
    now = made + served
    weights = serve.options[0].configuration.precision.weights
    found = []
    for name in FORMATS:
        if name != weights:
            asked = replace(request.serve, precisions=(name,))
            usd = _served(asked, request, additions=additions, today=today)
            change = f"serve with {name} weights instead of {weights}"
            found.append(_lever(change, usd=usd, rest=made, now=now, quality=UNKNOWN if name != "bf16" else ""))
    found += _fewer_trained(request, served=served, now=now, additions=additions, today=today)
    sibling = smaller_sibling(resolve(request.serve.model, additions=additions))
    if sibling is not None:
        found.append(_sibling(request, sibling, now=now, additions=additions, today=today))
    return tuple(sorted(found, key=lambda lever: -(lever.saves_usd if lever.saves_usd is not None else -1e18)))


def smaller_sibling(model: Model) -> Model | None:
    """The next smaller model of the same family and kind in the catalogue."""
    most = parameters(model).value * SMALLER
    siblings = [
        other
        for other in catalog.models().values()
        if other.family and other.family == model.family and other.kind == model.kind and other.layers
    ]
    sized = [(parameters(other).value, other) for other in siblings]
    return max(((size, other) for size, other in sized if size <= most), key=lambda pair: pair[0], default=(0, None))[1]


def _fewer_trained(
    request: LifecycleRequest, *, served: float, now: float, additions: Additions, today: date
) -> list[Lever]:
    """LoRA instead of a full fine-tune, QLoRA instead of LoRA."""
    make = request.make
    if not isinstance(make, FineTune):
        return []
    fewer = {"full": ("lora", "qlora"), "lora": ("qlora",), "dora": ("lora", "qlora")}.get(make.method, ())
    found = []
    for method in fewer:
        usd = _made(replace(make, method=method), request, additions=additions, today=today)
        change = f"{method} instead of {make.method}"
        found.append(_lever(change, usd=usd, rest=served, now=now, quality=CHECK_ADAPTERS))
    return found


def _sibling(request: LifecycleRequest, sibling: Model, *, now: float, additions: Additions, today: date) -> Lever:
    served = _served(replace(request.serve, model=sibling.id), request, additions=additions, today=today)
    made = _made(replace(request.make, model=sibling.id), request, additions=additions, today=today)
    usd = made if isinstance(made, float) else served
    rest = served if isinstance(made, float) and isinstance(served, float) else 0.0
    if isinstance(served, str):
        usd = served
    change = f"{sibling.id} ({parameters(sibling).value / 1e9:.3g}B) instead of {request.serve.model}"
    return _lever(change, usd=usd, rest=rest, now=now, quality=CHECK_SIZE)


def _served(serve: Serve, request: LifecycleRequest, *, additions: Additions, today: date) -> float | str:
    """What serving so costs over the life, or why it cannot. [USD]"""
    try:
        plan = plan_serve(serve, additions=additions, today=today)
    except TonnageError as error:
        return str(error)
    if not plan.options:
        return plan.binding.reason or "" if plan.binding is not None else "nothing serves it"
    return plan.options[0].cost.value * request.months * HOURS_PER_MONTH


def _made(make: Train | FineTune, request: LifecycleRequest, *, additions: Additions, today: date) -> float | str:
    """What making so costs over the life, or why it cannot. [USD]"""
    try:
        plan = plan_train(make, additions=additions, today=today)
    except TonnageError as error:
        return str(error)
    if not plan.options:
        return plan.binding.reason or "" if plan.binding is not None else "nothing makes it"
    return plan.options[0].cost.value * (1.0 + request.retrainings)


def _lever(change: str, *, usd: float | str, rest: float, now: float, quality: str) -> Lever:
    if isinstance(usd, str):
        return Lever(change=change, what=f"cannot be done: {usd}")
    total = usd + rest
    saved = now - total
    share = f"{saved / now:.0%} less" if saved >= 0 else f"{-saved / now:.0%} more"
    return Lever(change=change, usd=total, saves_usd=saved, what=share, quality=quality)
