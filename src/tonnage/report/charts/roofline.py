"""Operators under the roof: work per byte against speed, beside what memory and arithmetic allow at most."""

from __future__ import annotations

from typing import Any, Final

from tonnage.domain.plan import Roofline
from tonnage.report.charts.chart import Chart, axis, layered, records

__all__ = ["roofline_chart"]

TERA: Final = 1e12
COLOUR: Final = "#7f7f7f"
"""Of the roofs, on either ground."""
FEWEST: Final = 1.0
"""Left end of the axis. [FLOP/byte]"""


def roofline_chart(roof: Roofline | None) -> Chart | None:
    """Points by phase, their size the share of the step's time; None where nothing computes."""
    if roof is None or not roof.points or not roof.peaks:
        return None
    values = [
        (p.phase, p.operator, p.flop_per_byte, p.flop_per_s / TERA, p.share, p.compute) for p in roof.points
    ]  # fmt: skip
    left = min(FEWEST, *(point.flop_per_byte for point in roof.points))
    right = 10.0 * max(roof.peaks.values()) / roof.memory_bytes_per_s
    lines: list[tuple[Any, ...]] = []
    for name, peak in roof.peaks.items():
        ridge = peak / roof.memory_bytes_per_s
        lines += [(name, x, min(peak, x * roof.memory_bytes_per_s) / TERA) for x in (left, ridge, right)]
    x = axis("intensity", "FLOP per byte moved", scale={"type": "log"})
    y = axis("speed", "TFLOP/s (up is better)", scale={"type": "log"})
    body = layered(
        records(("phase", "operator", "intensity", "speed", "share", "format"), values),
        {"data": records(("roof", "intensity", "speed"), lines),
         "mark": {"type": "line", "tooltip": True, "strokeWidth": 1.5, "color": COLOUR},
         "encoding": {"x": x, "y": y, "detail": {"field": "roof"}}},
        {"data": records(("roof", "intensity", "speed"), [line for line in lines if line[1] == right]),
         "mark": {"type": "text", "align": "right", "dy": -8}, "encoding": {"x": x, "y": y, "text": {"field": "roof"}}},
        {"mark": {"type": "point", "filled": True, "opacity": 0.8, "tooltip": {"content": "data"}},
         "encoding": {"x": x, "y": y, "color": {"field": "phase", "type": "nominal", "title": None, "sort": None},
                      "size": {"field": "share", "type": "quantitative", "title": "share of the step",
                               "legend": None, "scale": {"range": [30, 500]}}}},
    )  # fmt: skip
    return Chart(
        name="roofline",
        title=f"Operators under the roof of one {roof.accelerator}",
        says="Work per byte against speed; the lines are what memory and arithmetic allow, the size of a point is its "
        "share of the step.",
        body=body,
        columns=("phase", "operator", "format", "FLOP/byte", "TFLOP/s", "of the roof", "of the step"),
        rows=tuple(
            (p.phase, p.operator, p.compute, f"{p.flop_per_byte:,.3g}", f"{p.flop_per_s / TERA:,.3g}",
             f"{p.flop_per_s / min(roof.peaks[p.compute], p.flop_per_byte * roof.memory_bytes_per_s):.0%}",
             f"{p.share:.0%}")
            for p in roof.points
        ),
    )  # fmt: skip
