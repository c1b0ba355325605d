"""Answers as pictures: a chart is a Vega-Lite specification beside its table; here one row a kind of answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tonnage.domain.batch_plan import BatchPlan
from tonnage.domain.cost import RentOrBuy
from tonnage.domain.infer_plan import InferOption, InferPlan
from tonnage.domain.plan import ServePlan
from tonnage.domain.sessions import TraceSessions
from tonnage.domain.simulate import Simulated
from tonnage.domain.train_plan import TrainPlan
from tonnage.questions.charts.chart import Chart, axis, layer_charts, names, records, specification
from tonnage.questions.charts.memory import memory_chart
from tonnage.questions.charts.options import Axis, options_chart, point_of
from tonnage.questions.compare.answer import Comparison
from tonnage.questions.cost.charts import cost_charts
from tonnage.questions.fit.answer import FitAnswer
from tonnage.questions.fleet.answer import FleetPlan
from tonnage.questions.fleet.charts import fleet_charts
from tonnage.questions.lifecycle.answer import LifecyclePlan
from tonnage.questions.rl.answer import RlOption, RlPlan
from tonnage.questions.serve.charts import serve_charts, trace_charts
from tonnage.questions.simulate.charts import comparison_charts, simulation_charts
from tonnage.questions.train.charts import batch_charts, timeline_chart, train_charts
from tonnage.report.names import part_name
from tonnage.units import show

__all__ = ["Chart", "specification"]

Drawn = tuple[Chart | None, ...]
"""Pictures, and None for those that have nothing to show."""


def charts_of(answer: object) -> tuple[Chart, ...]:
    """The pictures of an answer, the most telling first; none for kinds without."""
    drawn = _GALLERY.get(type(answer), lambda _: ())(answer)
    return tuple(chart for chart in drawn if chart is not None)


def _fit_charts(answer: FitAnswer) -> Drawn:
    return (memory_chart(answer.rows, lambda row: f"{row.count} x {row.name}"),)


def _lifecycle_charts(plan: LifecyclePlan) -> Drawn:
    return (*serve_charts(plan.serve), timeline_chart(plan.timeline))


def _infer_charts(plan: InferPlan) -> Drawn:
    return (_latency_and_price(plan), memory_chart(plan.options[:5], _infer_label))


def _latency_and_price(plan: InferPlan) -> Chart | None:
    """Latency against the price of an hour; None where nothing is rented."""
    points = [
        point_of(
            _infer_label(option),
            option.latency_s,
            scale=1e3,
            usd=option.bill.usd_per_hour,
            evidence=str(option.basis),
            rank=rank,
        )
        for rank, option in enumerate(plan.options, 1)
        if option.bill is not None
    ]
    limit = plan.request.latency_s
    time = Axis("mean latency", "ms", None if limit is None else 1e3 * limit)
    return options_chart(points, time=time, money=Axis("Price", "USD/h"))


def _infer_label(option: InferOption) -> str:
    return f"{option.count} x {part_name(option.accelerator)} {option.precision.upper()}"


MOST_OPTIONS: Final = 6
"""Of reinforcement learning whose memory and phases are drawn."""


def _rl_charts(plan: RlPlan) -> Drawn:
    if not plan.options:
        return ()
    return (_phases(plan), memory_chart(plan.options[:MOST_OPTIONS], _rl_label))


def _rl_label(option: RlOption) -> str:
    return f"{option.accelerators} x {part_name(option.case.accelerator)}"


def _phases(plan: RlPlan) -> Chart:
    """Seconds of a step by phase: of the splits where the two sides are apart, else of the options."""
    rows: list[tuple[Any, ...]] = []
    if plan.splits:
        what = "accelerators that generate + that train"
        for split in plan.splits:
            label = f"{split.rollout} + {split.training}"
            rows += [(label, "rollout", split.rollout_s), (label, "training", split.training_s)]
    else:
        what = "option"
        for rank, option in enumerate(plan.options[:MOST_OPTIONS], 1):
            label = f"{rank}: {_rl_label(option)}"
            rows += [(label, phase.name, phase.value) for phase in option.phases]
    columns = ("where", "phase", "seconds")
    body = layer_charts(
        records(columns, rows),
        {
            "mark": {"type": "bar"},
            "encoding": {
                "y": names("where", what),
                "x": axis("seconds", "time of a step (s), less is better"),
                "color": {"field": "phase", "type": "nominal", "title": "phase"},
                "yOffset": {"field": "phase"},
            },
        },
    )
    longest = max(rows, key=lambda row: row[2])
    return Chart(
        "phases",
        "Rollout against training time",
        f"Time of a step by phase; the longest is {longest[1]} of {longest[0]} with {show(longest[2], 's')}.",
        body=body,
        columns=(what, "phase", "time"),
        rows=tuple((where, phase, show(seconds, "s")) for where, phase, seconds in rows),
    )


_GALLERY: Final[dict[type, Callable[[Any], Drawn]]] = {
    ServePlan: serve_charts,
    TrainPlan: train_charts,
    BatchPlan: batch_charts,
    LifecyclePlan: _lifecycle_charts,
    InferPlan: _infer_charts,
    RlPlan: _rl_charts,
    FleetPlan: fleet_charts,
    RentOrBuy: cost_charts,
    FitAnswer: _fit_charts,
    Simulated: simulation_charts,
    Comparison: comparison_charts,
    TraceSessions: trace_charts,
}
