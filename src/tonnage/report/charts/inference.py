"""A plan for cameras, images or audio as pictures: what each kind of accelerator costs and takes, and its memory."""

from __future__ import annotations

from tonnage.domain.infer_plan import InferOption, InferPlan
from tonnage.report.charts.chart import Chart
from tonnage.report.charts.memory import Stack, memory_chart
from tonnage.report.charts.options import Axis, options_chart, point_of
from tonnage.report.names import part_name

__all__ = ["infer_charts"]


def infer_charts(plan: InferPlan) -> tuple[Chart, ...]:
    """Every picture of a feasible plan; none when nothing works."""
    stacks = tuple(
        Stack(label=_label(option), memory=option.memory, limit_bytes=option.limit_bytes) for option in plan.options[:5]
    )
    drawn = (_latency_and_price(plan), memory_chart(stacks))
    return tuple(chart for chart in drawn if chart is not None)


def _latency_and_price(plan: InferPlan) -> Chart | None:
    """Latency against the price of an hour; None where nothing is rented."""
    points = [
        point_of(
            _label(option),
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


def _label(option: InferOption) -> str:
    return f"{option.count} x {part_name(option.accelerator)} {option.precision.upper()}"
