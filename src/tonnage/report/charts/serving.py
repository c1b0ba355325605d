"""A serving plan as pictures: speed against yield, cost against use, what each option costs."""

from __future__ import annotations

from typing import Any, Final

from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.report.charts.chart import Chart, axis, layered, records
from tonnage.report.charts.load import load_chart
from tonnage.report.charts.memory import Stack, memory_chart
from tonnage.report.charts.roofline import roofline_chart

__all__ = ["serve_charts"]

MOST_POINTS: Final = 60
MOST_LINES: Final = 5
USES: Final = tuple(use / 100 for use in (5, 7, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100))


def serve_charts(plan: ServePlan) -> tuple[Chart, ...]:
    """Every picture of a feasible plan; none when nothing works."""
    if not plan.options:
        return ()
    stacks = tuple(
        Stack(label=_label(option), memory=option.memory, limit_bytes=option.limit_bytes) for option in plan.options[:5]
    )
    drawn = (
        _speed_and_yield(plan), _latency_by_load(plan), _cost_by_use(plan), memory_chart(stacks),
        roofline_chart(plan.roofline),
    )  # fmt: skip
    return tuple(chart for chart in drawn if chart is not None)


def _speed_and_yield(plan: ServePlan) -> Chart:
    """Tokens/s a user sees against tokens/s an accelerator yields; both better when larger."""
    answer = plan.request.lengths.output_tokens
    options = plan.options[:MOST_POINTS]
    columns = ("option", "user", "user_low", "user_high", "yield", "basis", "cost", "rank")
    values = []
    for rank, option in enumerate(options, 1):
        tpot = option.capacity.tpot_s
        each = option.capacity.max_rate_per_s.value * answer / option.configuration.layout.ranks
        values.append(
            (
                _label(option), 1 / tpot.value, 1 / (tpot.high or tpot.value), 1 / (tpot.low or tpot.value), each,
                option.basis, option.bill.usd_per_hour, rank,
            )
        )  # fmt: skip
    x = axis("user", "output tokens/s of one user (right is better)", scale={"zero": False})
    y = axis("yield", "tokens/s of one accelerator (up is better)")
    colour = {"field": "basis", "type": "nominal", "title": "step times"}
    layers: list[dict[str, Any]] = [
        {"mark": {"type": "rule", "opacity": 0.35},
         "encoding": {"x": {**x, "field": "user_low"}, "x2": {"field": "user_high"}, "y": y, "color": colour}},
        {"mark": {"type": "point", "filled": True, "size": 60, "tooltip": {"content": "data"}},
         "encoding": {"x": x, "y": y, "color": colour}},
        {"transform": [{"filter": "datum.rank == 1"}], "mark": {"type": "text", "dy": -10, "align": "left"},
         "encoding": {"x": x, "y": y, "text": {"field": "option"}}},
    ]  # fmt: skip
    if plan.request.slo.tpot_s:
        wanted = {"values": [{"least": 1 / plan.request.slo.tpot_s}]}
        layers.insert(0, {"data": wanted, "mark": {"type": "rule", "strokeDash": [5, 4], "tooltip": True},
                          "encoding": {"x": {"field": "least", "type": "quantitative"}}})  # fmt: skip
    rows = tuple((v[0], f"{v[1]:.1f}", f"{v[2]:.1f}-{v[3]:.1f}", f"{v[4]:,.0f}", str(v[5])) for v in values)
    limit = "; the dashed line is the slowest the objective allows" if plan.request.slo.tpot_s else ""
    return Chart(
        name="frontier",
        title="Speed for one user against yield of one accelerator",
        says=f"Each point is an option at its largest rate within the objectives; bars are 90 % intervals{limit}.",
        body=layered(records(columns, values), *layers),
        columns=("option", "tokens/s of one user", "90 % interval", "tokens/s of one accelerator", "step times"),
        rows=rows,
    )


def _latency_by_load(plan: ServePlan) -> Chart | None:
    """Of the first option's replica; None where it was not simulated."""
    seen = plan.options[0].capacity.simulated
    if seen is None:
        return None
    return load_chart(seen.tried, slo=plan.request.slo, knee_per_s=seen.knee_per_s, most_per_s=seen.low_per_s)


def _cost_by_use(plan: ServePlan) -> Chart:
    """Cost of a million output tokens over the share of the capacity that is used."""
    answer = plan.request.lengths.output_tokens
    best: dict[str, ServeOption] = {}
    for option in plan.options:
        best.setdefault(option.configuration.accelerator, option)
    values, rows = [], []
    for option in list(best.values())[:MOST_LINES]:
        full = option.bill.usd_per_hour / (option.capacity.max_rate_per_s.value * option.replicas * answer * 3600) * 1e6
        values += [(_label(option), use, full / use) for use in USES]
        used = 1 - option.headroom
        rows.append((_label(option), f"{full:,.2f}", f"{full / 0.5:,.2f}", f"{full / 0.1:,.2f}", f"{used:.0%}"))
    body = layered(
        records(("option", "use", "usd"), values),
        {
            "mark": {"type": "line", "tooltip": True},
            "encoding": {
                "x": axis("use", "share of the capacity that is used", axis={"format": "%"}),
                "y": axis("usd", "USD per million output tokens", scale={"type": "log"}),
                "color": {"field": "option", "type": "nominal", "title": None, "sort": None},
            },
        },
    )
    return Chart(
        name="cost",
        title="What idle time costs",
        says="Cost of a million output tokens over the share of the rented capacity in use; log scale.",
        body=body,
        columns=("option", "USD/1M at 100 %", "at 50 %", "at 10 %", "used at the peak here"),
        rows=tuple(rows),
    )


def _label(option: ServeOption) -> str:
    return f"{option.accelerators} x {option.configuration.accelerator} {option.configuration.precision.weights}"
