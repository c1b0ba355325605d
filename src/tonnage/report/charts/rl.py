"""Pictures of a plan of reinforcement learning: rollout against training time, over the splits of the accelerators."""

from __future__ import annotations

from typing import Any

from tonnage.domain.rl_plan import RlOption, RlPlan
from tonnage.report.charts.chart import Chart, axis, layer_charts, records
from tonnage.report.charts.memory import Stack, memory_chart
from tonnage.report.names import part_name
from tonnage.units import show

__all__ = ["rl_charts"]

MOST_OPTIONS = 6


def rl_charts(plan: RlPlan) -> tuple[Chart, ...]:
    """Every picture of a feasible plan; none when nothing works."""
    if not plan.options:
        return ()
    stacks = tuple(
        Stack(label=f"{o.accelerators} x {part_name(o.case.accelerator)}", memory=o.memory, limit_bytes=o.limit_bytes)
        for o in plan.options[:MOST_OPTIONS]
    )
    drawn = (_phases(plan), memory_chart(stacks))
    return tuple(chart for chart in drawn if chart is not None)


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
            label = f"{rank}: {option.accelerators} x {part_name(option.case.accelerator)}"
            rows += [(label, name, seconds) for name, seconds in _seconds(option)]
    columns = ("where", "phase", "seconds")
    body = layer_charts(
        records(columns, rows),
        {
            "mark": {"type": "bar"},
            "encoding": {
                "y": axis("where", what, kind="nominal", sort=None),
                "x": axis("seconds", "time of a step (s), less is better"),
                "color": {"field": "phase", "type": "nominal", "title": "phase"},
                "yOffset": {"field": "phase"},
            },
        },
    )
    longest = max(rows, key=lambda row: row[2])
    return Chart(
        name="phases",
        title="Rollout against training time",
        says=f"Time of a step by phase; the longest is {longest[1]} of {longest[0]} with {show(longest[2], 's')}.",
        body=body,
        columns=(what, "phase", "time"),
        rows=tuple((where, phase, show(seconds, "s")) for where, phase, seconds in rows),
    )


def _seconds(option: RlOption) -> list[tuple[str, float]]:
    phases = [phase for part in option.step.parts for phase in (part.parts if part.rule == "max" else (part,))]
    return [(phase.name, phase.value) for phase in phases]
