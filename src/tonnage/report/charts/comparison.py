"""Several answers side by side as pictures: the latencies of every way at their percentiles."""

from __future__ import annotations

from typing import Any, Final

from tonnage.domain.compare import Comparison
from tonnage.report.charts.chart import Chart, axis, records
from tonnage.units import show

__all__ = ["comparison_charts"]

SHOWN: Final = (("TTFT", "ttft"), ("TPOT", "tpot"), ("E2E", "e2e"))
PERCENTILES: Final = ("p50", "p95", "p99")


def comparison_charts(found: Comparison) -> tuple[Chart, ...]:
    """Latencies by side; none where the sides have no percentiles."""
    figures = {row.what: row.values for row in found.figures}
    values = [
        (side, name, percentile, seconds)
        for name, key in SHOWN
        for percentile in PERCENTILES
        for side, seconds in zip(found.sides, figures.get(f"{percentile} {key}", ()), strict=False)
        if isinstance(seconds, float) and seconds > 0
    ]
    if not values:
        return ()
    body: dict[str, Any] = {
        "data": records(("side", "latency", "percentile", "seconds"), values),
        "mark": {"type": "point", "filled": True, "size": 80, "tooltip": True},
        "encoding": {
            "y": axis("side", "", kind="nominal", sort=None),
            "x": axis("seconds", "seconds (left is better)", scale={"type": "log"}),
            "color": {"field": "latency", "type": "nominal", "title": None, "sort": None},
            "shape": {"field": "percentile", "type": "nominal", "title": None, "sort": None},
        },
    }
    chart = Chart(
        name="comparison",
        title="Latency of each way",
        says="Percentiles of time to first token, per output token, and of the whole answer, for every side.",
        body=body,
        columns=("side", "latency", "percentile", "value"),
        rows=tuple((side, name, percentile, show(seconds, "s")) for side, name, percentile, seconds in values),
        height=60 + 40 * len(found.sides),
    )
    return (chart,)
