"""A plan for cameras, images or audio as pictures: what each kind of accelerator costs and takes, and its memory."""

from __future__ import annotations

from typing import Any, Final

from tonnage.domain.infer_plan import InferOption, InferPlan
from tonnage.report.charts.chart import Chart, axis, layered, records
from tonnage.report.charts.memory import Stack, memory_chart
from tonnage.units import show

__all__ = ["infer_charts"]

MOST_POINTS: Final = 60


def infer_charts(plan: InferPlan) -> tuple[Chart, ...]:
    """Every picture of a feasible plan; none when nothing works."""
    stacks = tuple(
        Stack(label=_label(option), memory=option.memory, limit_bytes=option.limit_bytes) for option in plan.options[:5]
    )
    drawn = (_delay_and_cost(plan), memory_chart(stacks))
    return tuple(chart for chart in drawn if chart is not None)


def _delay_and_cost(plan: InferPlan) -> Chart | None:
    """Latency against the price of an hour; None where nothing is rented."""
    rented = [(option, option.bill) for option in plan.options if option.bill is not None][:MOST_POINTS]
    if not rented:
        return None
    columns = ("option", "seconds", "low", "high", "usd", "used", "format", "rank")
    values = [
        (
            _label(option), option.latency_s.value, option.latency_s.low or option.latency_s.value,
            option.latency_s.high or option.latency_s.value, bill.usd_per_hour, option.used, option.precision, rank,
        )
        for rank, (option, bill) in enumerate(rented, 1)
    ]  # fmt: skip
    x = axis("seconds", "latency in seconds (left is better)", scale={"type": "log"})
    y = axis("usd", "USD/h (down is better)", scale={"type": "log"})
    colour = {"field": "format", "type": "nominal", "title": None}
    layers: list[dict[str, Any]] = [
        {"mark": {"type": "rule", "opacity": 0.35},
         "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y, "color": colour}},
        {"mark": {"type": "point", "filled": True, "size": 60, "tooltip": {"content": "data"}},
         "encoding": {"x": x, "y": y, "color": colour}},
        {"transform": [{"filter": "datum.rank == 1"}], "mark": {"type": "text", "dy": 14, "align": "left"},
         "encoding": {"x": x, "y": y, "text": {"field": "option"}}},
    ]  # fmt: skip
    if plan.request.latency_s is not None:
        layers.append({"data": {"values": [{"most": plan.request.latency_s}]},
                       "mark": {"type": "rule", "strokeDash": [5, 4], "tooltip": True},
                       "encoding": {"x": {"field": "most", "type": "quantitative"}}})  # fmt: skip
    limit = "; the dashed line is the longest that was allowed" if plan.request.latency_s is not None else ""
    return Chart(
        name="frontier",
        title="Latency against cost",
        says=f"Each point is an option at this load; bars are 90 % intervals{limit}.",
        body=layered(records(columns, values), *layers),
        columns=("option", "latency", "90 % interval", "USD/h", "used"),
        rows=tuple(
            (v[0], show(v[1], "s"), f"{show(v[2], 's')} to {show(v[3], 's')}", f"{v[4]:,.2f}", f"{v[5]:.0%}")
            for v in values
        ),
    )


def _label(option: InferOption) -> str:
    return f"{option.count} x {option.accelerator} {option.precision}"
