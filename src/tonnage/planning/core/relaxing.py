"""
When constraints leave nothing: what would relaxing each of them alone buy?

Every constraint that the request names is dropped in turn and the plan made again, with the others kept. What then
leads, and for how much, stands beside the constraint; one that buys nothing is not named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from tonnage.domain.infer_plan import Infer
from tonnage.domain.plan import RankedPlan
from tonnage.domain.workload import Batch, Filters, FineTune, Serve, Train

__all__ = ["answer_or_relax", "relaxations", "what_relaxing_buys"]

Request = TypeVar("Request", bound=Serve | Batch | Train | FineTune | Infer)
Plan = TypeVar("Plan", bound=RankedPlan[Any, Any])

FLAGS: Final = {
    "accelerators": "accelerator", "exclude_accelerators": "exclude", "vendors": "vendor", "segments": "segment",
    "providers": "provider", "regions": "region", "countries": "country", "max_count": "max-accelerators",
    "certifications": "certification", "max_power_w": "max-power", "terms": "term", "always_on": "always-on",
    "provider_kinds": "provider-kind", "eu_owned": "eu-owned", "billing_step_s": "billing",
    "own_prices": "price", "discounts": "discount", "free_egress": "free-egress", "provisioning_s": "provisioning",
}  # fmt: skip
"""Fields whose flag has another name."""
LIMITS: Final = {
    "quality_floor": "quality", "precisions": "precision", "deadline_s": "deadline", "budget_usd": "budget",
    "budget_usd_per_h": "budget", "count": "count", "max_context": "context",
    "latency_s": "latency", "hours": "hours",
}  # fmt: skip
"""Limits of a request beside its filters; which of them a kind of request has is its own business."""
OBJECTIVES: Final = ("ttft_s", "tpot_s", "e2e_s")
ALL_TERMS: Final = ("on-demand", "spot", "reserved-1y", "reserved-3y")


def relaxations(request: Request) -> Iterator[tuple[str, Request]]:
    """The request without each of its constraints in turn, and what was dropped, as a flag."""
    for name, filters in _filters(request.filters):
        yield name, replace(request, filters=filters)
    usual = {field.name: field.default for field in _fields(request)}
    for name, flag in LIMITS.items():
        if name in usual and getattr(request, name) != usual[name]:
            yield f"--{flag}", replace(request, **{name: usual[name]})
    if isinstance(request, Serve):
        for name in OBJECTIVES:
            if getattr(request.slo, name) is not None:
                yield f"--{name.removesuffix('_s')}", replace(request, slo=replace(request.slo, **{name: None}))


def what_relaxing_buys(request: Request, leads: Callable[[Request], str | None]) -> tuple[str, ...]:
    """
    What dropping one constraint at a time buys.

    Parameters
    ----------
    request : Serve, Batch, Train, FineTune or Infer
        That nothing can do.
    leads : callable
        Request -> the option that leads then, in a few words; None where there is none.
    """
    found = ((flag, leads(other)) for flag, other in relaxations(request))
    return tuple(f"without {flag}: {told}" for flag, told in found if told is not None)


def answer_or_relax(
    request: Request,
    plan: Callable[[Request], Plan],
    *,
    led_by: Callable[[Any], str],
    cut: Callable[[Request], Request] = lambda request: request,
) -> Plan:
    """
    The plan for a request; where nothing does it, with what relaxing one constraint buys.

    Parameters
    ----------
    request : Serve, Batch, Train, FineTune or Infer
    plan : callable
        Request -> its plan.
    led_by : callable
        Option -> it in a few words.
    cut : callable, optional
        Request -> the same, answered sooner; for what is only asked whether it would do.
    """
    made = plan(request)
    if made.feasible:
        return made

    def leads(other: Request) -> str | None:
        options = plan(cut(other)).options
        return led_by(options[0]) if options else None

    return replace(made, relaxing=what_relaxing_buys(request, leads))


def _filters(filters: Filters) -> Iterator[tuple[str, Filters]]:
    usual = Filters()
    for field in _fields(filters):
        name = field.name
        now, default = getattr(filters, name), getattr(usual, name)
        if name == "terms":
            default = tuple(dict.fromkeys((*now, *ALL_TERMS)))
        if name == "community" and not now:
            yield "the rule against community hosts (--community)", replace(filters, community=True)
        elif now != default:
            yield f"--{FLAGS.get(name, name)}", replace(filters, **{name: default})


def _fields(struct: Any) -> tuple[Any, ...]:
    from msgspec.structs import fields

    return fields(type(struct))
