"""Up to three options to choose from, for any kind of plan: cheapest, fastest near its price, resilient or soonest.

An option is compared by four traits, which each kind of plan computes; the rule is the same for all kinds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from tonnage.domain.batch_plan import BatchOption
from tonnage.domain.infer_plan import InferOption
from tonnage.domain.plan import Choice, ServeOption
from tonnage.domain.requests.serve import Serve
from tonnage.domain.train_plan import TrainOption
from tonnage.simulation.autoscale import replicas_carrying

__all__ = ["NEAR", "Traits", "choices", "infer_traits", "job_traits", "serve_traits"]

NEAR: Final = 1.1
"""Times the first option's cost that the fastest may cost. [-]"""


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """What a choice between options looks at."""

    usd: float
    """Of the job, or of an hour of service; infinite where nobody rents it. [USD]"""
    seconds: float
    """To the end of the job, or of a mean request. [s]"""
    sure: bool = True
    survives: bool | None = None
    """Carries the peak when one instance or replica is lost; absent for jobs."""


def choices(options: Sequence[Traits]) -> tuple[Choice, ...]:
    """
    The options worth choosing from, by their place in the ranking; never the same option twice.

    "cheapest" is the first of the ranking. "fastest" is faster than that and costs at most `NEAR` times as much.
    Of a service, "resilient" is the cheapest that carries the peak after a failure, where the first does not; of a
    job, "soonest" is what ends first at any price. An option less sure than the first is no choice.
    """
    if not options:
        return ()
    first = options[0]
    found = [Choice(name="cheapest", option=0)]
    able = [place for place, option in enumerate(options) if option.sure or not first.sure]
    near = [i for i in able if options[i].usd <= NEAR * first.usd]
    fastest = min(near, key=lambda i: (options[i].seconds, options[i].usd), default=0)
    if options[fastest].seconds < first.seconds:
        found.append(Choice(name="fastest", option=fastest))
    if first.survives is None:
        last = min(able, key=lambda i: (options[i].seconds, options[i].usd))
        if options[last].seconds < options[found[-1].option].seconds:
            found.append(Choice(name="soonest", option=last))
    elif not first.survives:
        safe = [i for i in able if options[i].survives]
        last = min(safe, key=lambda i: (options[i].usd, i), default=0)
        if last not in {choice.option for choice in found}:
            found.append(Choice(name="resilient", option=last))
    return tuple(found)


def serve_traits(request: Serve, option: ServeOption) -> Traits:
    """An hour of service, a mean request, and whether the peak is carried with one instance (or replica) fewer."""
    capacity = option.capacity
    working = replicas_carrying(option.replicas, spare=request.spare_replicas, zones=request.zones)
    lost = max(1, math.ceil(option.replicas / option.bill.instances))
    return Traits(
        usd=option.bill.usd_per_hour,
        seconds=capacity.ttft_mean_s + max(0.0, request.lengths.output_tokens - 1.0) * capacity.tpot_mean_s,
        sure=option.sure,
        survives=(1.0 - option.headroom) * working <= option.replicas - lost,
    )


def job_traits(option: BatchOption | TrainOption) -> Traits:
    """A job's bill and the time to its end."""
    wall = option.run.wall_s if isinstance(option, TrainOption) else option.wall_s
    return Traits(usd=option.cost.value, seconds=wall.value, sure=option.sure)


def infer_traits(option: InferOption) -> Traits:
    """An hour of service, a sample's latency, and whether the load is carried with one instance fewer."""
    instances = option.bill.instances if option.bill is not None else option.count
    lost = max(1, math.ceil(option.count / instances))
    return Traits(
        usd=option.bill.usd_per_hour if option.bill is not None else math.inf,
        seconds=option.latency_s.value,
        survives=option.used * option.count <= option.count - lost,
    )
