"""Latency against load: where first tokens begin to queue, and where the objectives fail."""

from __future__ import annotations

from typing import Any, Final

from tonnage.domain.plan import LoadPoint
from tonnage.domain.workload import Slo
from tonnage.report.charts.chart import Chart, axis, layered, records
from tonnage.units import show

__all__ = ["load_chart"]

NAMES: Final = (("TTFT", "ttft_s"), ("TPOT", "tpot_s"))


def load_chart(tried: tuple[LoadPoint, ...], *, slo: Slo, knee_per_s: float, most_per_s: float) -> Chart | None:
    """
    Percentiles over the rate of one replica; None where fewer than two rates were simulated.

    Parameters
    ----------
    tried : tuple of LoadPoint
    slo : Slo
        Objectives, drawn across.
    knee_per_s : float
        Where first tokens begin to queue; marked where a larger rate was tried. [1/s]
    most_per_s : float
        Largest rate within the objectives. [1/s]
    """
    if len(tried) < 2:
        return None
    values = [
        (name, point.rate_per_s, *seen, point.passed)
        for name, field in NAMES
        for point in tried
        if (seen := getattr(point, field)) is not None and seen[0] > 0
    ]
    limits = [(name, limit) for name, field in NAMES if (limit := getattr(slo, field)) is not None]
    marks = [(f"most {most_per_s:.3g}/s", most_per_s)]
    if knee_per_s < max(point.rate_per_s for point in tried):  # at the last rate tried nothing queues yet
        marks = sorted([(f"knee {knee_per_s:.3g}/s", knee_per_s), *marks], key=_rate)
    x = axis("rate", "requests/s of one replica", scale={"zero": False})
    y = axis("p95", "seconds (down is better)", scale={"type": "log"})
    colour = {"field": "latency", "type": "nominal", "title": None, "sort": None}
    layers: list[dict[str, Any]] = [
        {"mark": {"type": "area", "opacity": 0.2},
         "encoding": {"x": x, "y": {**y, "field": "p50"}, "y2": {"field": "p99"}, "color": colour}},
        {"mark": {"type": "line", "point": True, "tooltip": {"content": "data"}},
         "encoding": {"x": x, "y": y, "color": colour}},
        {"data": records(("mark", "rate"), marks), "mark": {"type": "rule", "opacity": 0.6},
         "encoding": {"x": x}},
        # The two may lie close: one says its name on its left, the other on its right.
        *({"data": records(("mark", "rate"), [mark]), "mark": {"type": "text", "align": side, "dx": away, "y": 8},
           "encoding": {"x": x, "text": {"field": "mark"}}}
          for mark, side, away in zip(marks, ("right", "left"), (-4, 4), strict=False)),
    ]  # fmt: skip
    if limits:
        layers.append({"data": records(("latency", "limit"), limits), "mark": {"type": "rule", "strokeDash": [5, 4]},
                       "encoding": {"y": {**y, "field": "limit"}, "color": colour}})  # fmt: skip
    dashed = "; dashed are the objectives" if limits else ""
    return Chart(
        name="load",
        title="Latency against load",
        says=f"95th percentiles over the rate of one replica, shaded from the 50th to the 99th{dashed}.",
        body=layered(records(("latency", "rate", "p50", "p95", "p99", "passed"), values), *layers),
        columns=("latency", "requests/s", "p50", "p95", "p99", "objectives"),
        rows=tuple(
            (name, f"{rate:.3g}", show(p50, "s"), show(p95, "s"), show(p99, "s"), "hold" if passed else "fail")
            for name, rate, p50, p95, p99, passed in values
        ),
    )


def _rate(mark: tuple[str, float]) -> float:
    return mark[1]
