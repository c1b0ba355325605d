"""Pictures of an inference plan: latency against price, and what fills the memory."""

from __future__ import annotations

from tonnage.domain.infer_plan import InferOption, InferPlan
from tonnage.report.charts.chart import Chart
from tonnage.report.charts.memory import memory_chart
from tonnage.report.charts.options import Axis, options_chart, point_of
from tonnage.report.names import part_name


def infer_charts(plan: InferPlan) -> tuple[Chart | None, ...]:
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
