"""One model from training to the end of its service: two deployments, one bill, one timeline.

`tonnage plan lifecycle` returns a `LifecyclePlan`; both plans it joins are inside, whole.
"""

from __future__ import annotations

from tonnage.domain.answer import Quantity
from tonnage.domain.plan import PlanHeader, ServePlan
from tonnage.domain.published import QualityChange
from tonnage.domain.train_plan import Milestone, TrainPlan
from tonnage.questions.lifecycle.request import LifecycleRequest
from tonnage.record import SparseRecord

__all__ = ["LifecycleRequest"]


class OneType(SparseRecord, kw_only=True):
    """Both halves on one kind of accelerator."""

    accelerator: str
    make_usd: float
    serve_usd: float
    total_usd: float
    times_the_mix: float
    """Over the best mix of two kinds. [-]"""
    times_low: float | None = None
    """Its 90 % interval, errors of halves that are the same left out; below 1 the two cannot be told apart. [-]"""
    times_high: float | None = None


class SavingsOption(SparseRecord, kw_only=True):
    """A smaller way to do the same, and what it saves: fewer bits, a smaller sibling, adapters alone."""

    change: str
    usd: float | None = None
    """Of the whole life with it; absent = it cannot be done. [USD]"""
    saves_usd: float | None = None
    """Against the plan; negative = it costs more. [USD]"""
    what: str = ""
    quality: str = ""
    """What is known of its cost in quality, in one line."""
    published: QualityChange | None = None
    """The same in numbers; absent = weights as released, which lose nothing."""


class LifecyclePlan(PlanHeader[LifecycleRequest], kw_only=True, tag_field="kind", tag="lifecycle"):
    """The answer to a lifecycle request."""

    make: TrainPlan
    serve: ServePlan
    bill: Quantity | None = None
    """Of the whole life, opened into making, moving the weights, serving. [USD]"""
    serve_share: float | None = None
    """Of the bill that serving takes. [-]"""
    kwh: float | None = None
    """Of the whole life, hosts and cooling included; absent where either half's power is not published. [kWh]"""
    kg_co2: float | None = None
    """Of the whole life; absent where either grid is not known. [kg]"""
    one_type: tuple[OneType, ...] = ()
    """Cheapest first."""
    one_type_text: str = ""
    savings: tuple[SavingsOption, ...] = ()
    timeline: tuple[Milestone, ...] = ()
