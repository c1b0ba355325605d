"""A fleet as pictures: which instances stand in which hour, and where the month's money goes."""

from __future__ import annotations

from typing import Final

from tonnage.questions.fleet.answer import FleetPlan, PoolInstances
from tonnage.report.charts.chart import Chart, axis, colour, records

MOST_LINES: Final = 12


def fleet_charts(plan: FleetPlan) -> tuple[Chart | None, ...]:
    """Instances by the hour and the bill; none when nothing carries the load."""
    return _by_hour(plan), _bill(plan)


def _by_hour(plan: FleetPlan) -> Chart | None:
    """Instances that stand in each hour of the day or the week, on top of each other."""
    if not plan.instances:
        return None
    values = [
        (_label(one), hour, span.count)
        for one in plan.instances
        for span in one.hours
        for hour in range(span.start, span.stop)
    ]
    # A run of part of an hour holds its instances for that part only.
    whole = all(float(count).is_integer() for _, _, count in values)
    body = {
        "data": records(("instance", "hour", "count"), values),
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "x": axis(
                "hour",
                f"hour of the {'week' if plan.period_h > 24 else 'day'}",
                kind="ordinal",
                axis={"labelAngle": 0, "labelOverlap": True},
            ),
            "y": axis("count", "instances" if whole else "instances, mean of the hour", aggregate="sum", stack="zero"),
            "color": colour("instance"),
        },
    }
    return Chart(
        "hours",
        "What stands when",
        "Instances by the hour, a colour for each offer and term."
        + ("" if whole else " Parts of one: it stands for a part of the hour."),
        body=body,
        columns=("instance", "hours", "how many"),
        rows=tuple(
            (_label(one), f"{span.start}-{span.stop} h", f"{span.count:g}")
            for one in plan.instances
            for span in one.hours
        ),
    )


def _bill(plan: FleetPlan) -> Chart | None:
    """Lines of the bill of one month, the largest first."""
    if plan.bill is None or not plan.bill.parts:
        return None
    parts = sorted(plan.bill.parts, key=lambda part: -part.value)[:MOST_LINES]
    body = {
        "data": records(("line", "usd"), [(part.name, part.value) for part in parts]),
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "y": axis("line", "", kind="nominal", sort=None, axis={"labelLimit": 330}),
            "x": axis("usd", "USD a month"),
        },
    }
    return Chart(
        "bill",
        "Where the month's money goes",
        "Lines of the bill of one month, the largest first.",
        body=body,
        columns=("line", "USD a month"),
        rows=tuple((part.name, f"{part.value:,.2f}") for part in parts),
        height=26 * len(parts) + 20,
    )


def _label(one: PoolInstances) -> str:
    return " ".join(filter(None, (one.provider, one.instance_type, one.term)))
