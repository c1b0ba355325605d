"""Pictures of a plan of reinforcement learning: its phases, and what fills the memory."""

from __future__ import annotations

from typing import Any, Final

from tonnage.questions.rl.answer import RlOption, RlPlan
from tonnage.report.charts.chart import Chart, axis, layer_charts, names, records
from tonnage.report.charts.memory import memory_chart
from tonnage.report.names import part_name
from tonnage.units import show

MOST_OPTIONS: Final = 6
"""Of reinforcement learning whose memory and phases are drawn."""


def rl_charts(plan: RlPlan) -> tuple[Chart | None, ...]:
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
