"""Runs with an end, as pictures: time against cost, scaling, the calendar."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from tonnage.domain.answer import Quantity
from tonnage.domain.batch_plan import BatchOption, BatchPlan
from tonnage.domain.train_plan import PAYS, Milestone, TrainOption, TrainPlan
from tonnage.report.charts.chart import Chart, axis, colour, layer_charts, log_axis, names, records
from tonnage.report.charts.memory import memory_chart
from tonnage.report.charts.options import Axis, Point, options_chart, point_of
from tonnage.report.names import in_names, part_name
from tonnage.units import show

MOST_STACKS: Final = 4
HOUR_S: Final = 3600.0
LATE: Final = 0.8
"""Of the axis: milestones beyond it have their time on their left. [-]"""
BATCHES: Final = {"strong": "same batch (strong)", "weak": "batch grows (weak)"}
"""Kind of curve -> what it holds."""
DAYS_FROM: Final = 72.0
"""Jobs that last longer are drawn in days. [h]"""


def train_charts(plan: TrainPlan) -> tuple[Chart | None, ...]:
    """Every picture of a feasible plan; none when nothing works."""
    if not plan.options:
        return ()
    points = [_point(n, option, option.run.wall_s) for n, option in enumerate(plan.options, 1)]
    return (
        _time_and_cost(points, deadline_s=plan.request.deadline_s),
        _scaling(plan),
        memory_chart(plan.options[:MOST_STACKS], _label),
        timeline_chart(plan.options[0].timeline),
    )


def batch_charts(plan: BatchPlan) -> tuple[Chart | None, ...]:
    """Every picture of a feasible plan; none when nothing works."""
    points = [_point(n, option, option.wall_s) for n, option in enumerate(plan.options, 1)]
    drawn = _time_and_cost(points, deadline_s=plan.request.deadline_s)
    return (drawn, memory_chart(plan.options[:MOST_STACKS], _label))


def _point(rank: int, option: TrainOption | BatchOption, wall_s: Quantity) -> Point:
    name = f"{option.accelerators} x {part_name(option.configuration.accelerator)}"
    return point_of(name, wall_s, scale=1.0 / HOUR_S, usd=option.cost.value, evidence=str(option.basis), rank=rank)


def _label(option: TrainOption | BatchOption) -> str:
    return in_names(option.configuration.label())


def _time_and_cost(points: Sequence[Point], *, deadline_s: float | None) -> Chart | None:
    """Options by duration and cost of the whole job, in days where hours would be large numbers."""
    limit = deadline_s or 0.0
    scale, unit = (24.0, "days") if points and max(points[0].value, limit / HOUR_S) > DAYS_FROM else (1.0, "h")
    scaled = [p._replace(value=p.value / scale, low=p.low / scale, high=p.high / scale) for p in points]
    time = Axis("time", unit, limit / HOUR_S / scale if limit else None)
    return options_chart(scaled, time=time, money=Axis("Cost", "USD of the job"))


def _scaling(plan: TrainPlan) -> Chart | None:
    """Speed over the number of accelerators, beside perfect scaling; two counts alone tell nothing of a curve."""
    if len({point.count for point in plan.scaling}) < 3:
        return None
    values = [(BATCHES[point.kind], point.count, point.tokens_per_s, point.efficiency) for point in plan.scaling]
    first = plan.scaling[0]
    perfect = [("perfect", n, first.tokens_per_s * n / first.count) for n in sorted({v[1] for v in values})]
    x = axis("count", "accelerators", kind="ordinal", axis={"labelAngle": 0})
    rates = (*(point.tokens_per_s for point in plan.scaling), *(rate for _, _, rate in perfect))
    y = log_axis("tokens", "tokens/s of the whole job", over=rates)
    body = layer_charts(
        records(("kind", "count", "tokens", "efficiency"), values),
        {
            "data": records(("kind", "count", "tokens"), perfect),
            "mark": {"type": "line", "strokeDash": [4, 4]},
            "encoding": {"x": x, "y": y},
        },
        *_end_layers(plan, x=x),
        {
            "mark": {"type": "line", "point": True, "tooltip": {"content": "data"}},
            "encoding": {"x": x, "y": y, "color": colour("kind")},
        },
    )
    told = plan.stops_paying
    where = f" Where does it stop paying? {told[0].upper()}{told[1:]}." if told else ""
    return Chart(
        "scaling",
        "What more accelerators bring",
        f"Speed over the number of accelerators; dashed is perfect scaling.{where}",
        body=body,
        columns=("batch held", "accelerators", "tokens/s", "efficiency"),
        rows=tuple(
            (BATCHES[p.kind], f"{p.count:,}", f"{p.tokens_per_s:,.0f}", f"{p.efficiency:.0%}") for p in plan.scaling
        ),
    )


def _end_layers(plan: TrainPlan, *, x: dict[str, Any]) -> list[dict[str, Any]]:
    """A line at the count from which on a doubling brings too little, with its name; nothing where none was found."""
    strong = [point for point in plan.scaling if point.kind == "strong"]
    last = next((a.count for a, b in pairwise(strong) if b.step_s * PAYS > a.step_s), None)
    if last is None:
        return []
    where = records(("count", "says"), [(last, f"pays up to {last:,}")])
    return [
        {"data": where, "mark": {"type": "rule", "strokeDash": [2, 3], "opacity": 0.7}, "encoding": {"x": x}},
        {
            "data": where,
            "mark": {"type": "text", "align": "right", "dx": -5, "y": 8},
            "encoding": {"x": x, "text": {"field": "says"}},
        },
    ]


def timeline_chart(milestones: tuple[Milestone, ...]) -> Chart | None:
    """The milestones along the run."""
    if len(milestones) < 2:
        return None
    last = milestones[-1].after_s
    unit, each = ("days", 24.0 * HOUR_S) if last > DAYS_FROM * HOUR_S else ("hours", HOUR_S)
    values = [
        (
            0.0,
            m.after_s / each,
            m.what.split(";")[0],
            m.date,
            show(m.after_s, "s") if m.after_s else "",
            m.after_s > 0.8 * last,
        )
        for m in milestones
    ]
    x = axis("after", f"{unit} after the start")
    y = names("what")
    body = layer_charts(
        records(("start", "after", "what", "date", "says", "late"), values),
        {
            "mark": {"type": "rule", "opacity": 0.4},
            "encoding": {"x": {**x, "field": "start"}, "x2": {"field": "after"}, "y": y},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1, "tooltip": {"content": "data"}},
            "encoding": {"x": x, "y": y},
        },
        *(
            {
                "transform": [{"filter": when}],
                "mark": {"type": "text", "align": side, "dx": dx, "dy": dy},
                "encoding": {"x": x, "y": y, "text": {"field": "says"}},
            }
            for when, side, dx, dy in (("!datum.late", "left", 9, 1), ("datum.late", "right", -8, -8))
        ),
    )
    return Chart(
        "timeline",
        "The run over time",
        f"Milestones by {unit} after the start.",
        body=body,
        columns=("milestone", "after", "date"),
        rows=tuple((m.what, show(m.after_s, "s"), m.date) for m in milestones),
        height=28 * len(milestones) + 20,
    )
