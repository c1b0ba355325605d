"""Answers as pictures: a chart is a Vega-Lite specification beside its table; here one row a kind of answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tonnage.domain.batch_plan import BatchPlan
from tonnage.domain.compare import Comparison
from tonnage.domain.cost import RentOrBuy
from tonnage.domain.fit import FitAnswer
from tonnage.domain.fleet_plan import FleetPlan
from tonnage.domain.infer_plan import InferPlan
from tonnage.domain.lifecycle import LifecyclePlan
from tonnage.domain.plan import ServePlan
from tonnage.domain.rl_plan import RlPlan
from tonnage.domain.sessions import TraceSessions
from tonnage.domain.simulate import Simulated
from tonnage.domain.train_plan import TrainPlan
from tonnage.report.charts.chart import Chart, specification
from tonnage.report.charts.fleet import fleet_charts
from tonnage.report.charts.inference import infer_charts
from tonnage.report.charts.memory import Stack, memory_chart
from tonnage.report.charts.owning import cost_charts
from tonnage.report.charts.rl import rl_charts
from tonnage.report.charts.serving import serve_charts, trace_charts
from tonnage.report.charts.simulation import comparison_charts, simulation_charts
from tonnage.report.charts.training import batch_charts, timeline_chart, train_charts

__all__ = ["Chart", "charts_of", "specification"]


def charts_of(answer: object) -> tuple[Chart, ...]:
    """The pictures of an answer, the most telling first; none for kinds without."""
    drawn: tuple[Chart, ...] = _GALLERY.get(type(answer), lambda _: ())(answer)
    return drawn


def _fit_charts(answer: FitAnswer) -> tuple[Chart, ...]:
    stacks = tuple(
        Stack(label=f"{row.count} x {row.name}", memory=row.memory, limit_bytes=row.limit_bytes) for row in answer.rows
    )
    chart = memory_chart(stacks)
    return () if chart is None else (chart,)


def _lifecycle_charts(plan: LifecyclePlan) -> tuple[Chart, ...]:
    timeline = timeline_chart(plan.timeline)
    return (*serve_charts(plan.serve), *(() if timeline is None else (timeline,)))


_GALLERY: Final[dict[type, Callable[[Any], tuple[Chart, ...]]]] = {
    ServePlan: serve_charts,
    TrainPlan: train_charts,
    BatchPlan: batch_charts,
    LifecyclePlan: _lifecycle_charts,
    InferPlan: infer_charts,
    RlPlan: rl_charts,
    FleetPlan: fleet_charts,
    RentOrBuy: cost_charts,
    FitAnswer: _fit_charts,
    Simulated: simulation_charts,
    Comparison: comparison_charts,
    TraceSessions: trace_charts,
}
