"""Runs with an end, as pictures: time against cost, scaling, the calendar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tonnage.domain.answer import Quantity
from tonnage.domain.batch_plan import BatchOption, BatchPlan
from tonnage.domain.train_plan import Milestone, TrainOption, TrainPlan
from tonnage.report.charts.chart import Chart, axis, layered, records
from tonnage.report.charts.memory import Stack, memory_chart
from tonnage.units import show

__all__ = ["batch_charts", "timeline_chart", "train_charts"]

MOST_POINTS: Final = 60
MOST_STACKS: Final = 4
HOUR_S: Final = 3600.0


def train_charts(plan: TrainPlan) -> tuple[Chart, ...]:
    """Every picture of a feasible plan; none when nothing works."""
    if not plan.options:
        return ()
    points = [_point(n, option, option.run.wall_s) for n, option in enumerate(plan.options[:MOST_POINTS], 1)]
    drawn = (
        time_against_cost(points, deadline_s=plan.request.deadline_s),
        _scaling(plan),
        memory_chart(_stacks(plan.options)),
        timeline_chart(plan.options[0].timeline),
    )
    return tuple(chart for chart in drawn if chart is not None)


def batch_charts(plan: BatchPlan) -> tuple[Chart, ...]:
    """Every picture of a feasible plan; none when nothing works."""
    if not plan.options:
        return ()
    deadline_s = getattr(plan.request, "deadline_s", None)
    points = [_point(n, option, option.wall_s) for n, option in enumerate(plan.options[:MOST_POINTS], 1)]
    drawn = (time_against_cost(points, deadline_s=deadline_s), memory_chart(_stacks(plan.options)))
    return tuple(chart for chart in drawn if chart is not None)


def _point(rank: int, option: TrainOption | BatchOption, wall_s: Quantity) -> tuple[Any, ...]:
    return (
        f"{option.accelerators} x {option.configuration.accelerator}",
        wall_s.value / HOUR_S,
        (wall_s.low or wall_s.value) / HOUR_S,
        (wall_s.high or wall_s.value) / HOUR_S,
        option.cost.value,
        option.bill.term,
        rank,
    )


def _stacks(options: Sequence[TrainOption | BatchOption]) -> tuple[Stack, ...]:
    return tuple(
        Stack(label=option.configuration.label(), memory=option.memory, limit_bytes=option.limit_bytes)
        for option in options[:MOST_STACKS]
    )


def time_against_cost(points: list[tuple[Any, ...]], *, deadline_s: float | None) -> Chart:
    """Options by hours and dollars; the lower left is better."""
    columns = ("option", "hours", "low", "high", "usd", "term", "rank")
    x = axis("hours", "hours until it is done (left is better)", scale={"type": "log"})
    y = axis("usd", "USD of the whole job (down is better)", scale={"type": "log"})
    colour = {"field": "term", "type": "nominal", "title": None}
    layers: list[dict[str, Any]] = [
        {"mark": {"type": "rule", "opacity": 0.35},
         "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y, "color": colour}},
        {"mark": {"type": "point", "filled": True, "size": 60, "tooltip": {"content": "data"}},
         "encoding": {"x": x, "y": y, "color": colour}},
        {"transform": [{"filter": "datum.rank == 1"}], "mark": {"type": "text", "dy": -10, "align": "left"},
         "encoding": {"x": x, "y": y, "text": {"field": "option"}}},
    ]  # fmt: skip
    if deadline_s is not None:
        layers.append({"data": {"values": [{"deadline": deadline_s / HOUR_S}]},
                       "mark": {"type": "rule", "strokeDash": [5, 4], "tooltip": True},
                       "encoding": {"x": {"field": "deadline", "type": "quantitative"}}})  # fmt: skip
    limit = "; the dashed line is the deadline" if deadline_s is not None else ""
    return Chart(
        name="frontier",
        title="Time against cost",
        says=f"Each point is an option; bars are 90 % intervals of its time{limit}.",
        body=layered(records(columns, points), *layers),
        columns=("option", "hours", "90 % interval", "USD", "term"),
        rows=tuple((p[0], f"{p[1]:,.1f}", f"{p[2]:,.1f}-{p[3]:,.1f}", f"{p[4]:,.0f}", str(p[5])) for p in points),
    )


def _scaling(plan: TrainPlan) -> Chart | None:
    """Speed over the number of accelerators, beside perfect scaling."""
    if len(plan.scaling) < 2:
        return None
    values = [(point.kind, point.count, point.tokens_per_s, point.efficiency) for point in plan.scaling]
    first = plan.scaling[0]
    perfect = [("perfect", n, first.tokens_per_s * n / first.count) for n in sorted({v[1] for v in values})]
    x = axis("count", "accelerators", kind="ordinal", axis={"labelAngle": 0})
    y = axis("tokens", "tokens/s of the whole job", scale={"type": "log"})
    body = layered(
        records(("kind", "count", "tokens", "efficiency"), values),
        {"data": records(("kind", "count", "tokens"), perfect), "mark": {"type": "line", "strokeDash": [4, 4]},
         "encoding": {"x": x, "y": y}},
        {"mark": {"type": "line", "point": True, "tooltip": {"content": "data"}},
         "encoding": {"x": x, "y": y, "color": {"field": "kind", "type": "nominal", "title": None}}},
    )  # fmt: skip
    return Chart(
        name="scaling",
        title="What more accelerators bring",
        says=f"Speed over the number of accelerators; dashed is perfect scaling.{_where_it_ends(plan.stops_paying)}",
        body=body,
        columns=("batch held", "accelerators", "tokens/s", "efficiency"),
        rows=tuple((p.kind, f"{p.count:,}", f"{p.tokens_per_s:,.0f}", f"{p.efficiency:.0%}") for p in plan.scaling),
    )


def _where_it_ends(told: str) -> str:
    """ " Where does it stop paying? Not up to 2 accelerators: …"; empty where nothing is known."""
    return f" Where does it stop paying? {told[0].upper()}{told[1:]}." if told else ""


def timeline_chart(milestones: tuple[Milestone, ...]) -> Chart | None:
    """The milestones along the run."""
    if len(milestones) < 2:
        return None
    values = [(0.0, m.after_s / HOUR_S, m.what, m.date) for m in milestones]
    x = axis("hours", "hours after the start")
    y = axis("what", "", kind="nominal", sort=None)
    body = layered(
        records(("start", "hours", "what", "date"), values),
        {"mark": {"type": "rule", "opacity": 0.4},
         "encoding": {"x": {**x, "field": "start"}, "x2": {"field": "hours"}, "y": y}},
        {"mark": {"type": "point", "filled": True, "size": 80, "tooltip": {"content": "data"}},
         "encoding": {"x": x, "y": y}},
    )  # fmt: skip
    return Chart(
        name="timeline",
        title="The run over time",
        says="Milestones by hours after the start.",
        body=body,
        columns=("milestone", "after", "date"),
        rows=tuple((m.what, show(m.after_s, "s"), m.date) for m in milestones),
        height=28 * len(milestones) + 20,
    )
