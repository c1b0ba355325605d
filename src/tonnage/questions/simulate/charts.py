"""Simulations as pictures: percentiles and use over time; the latencies of several answers side by side."""

from __future__ import annotations

from typing import Any, Final

from tonnage.domain.simulate import Simulated
from tonnage.questions.compare.answer import Comparison
from tonnage.report.charts.chart import Chart, axis, colour, layer_charts, log_axis, names, records
from tonnage.report.metrics import METRICS, OBJECTIVES
from tonnage.units import show

PERCENTILES: Final = ("p50", "p90", "p95", "p99")


def simulation_charts(found: Simulated) -> tuple[Chart | None, ...]:
    """Latencies and the timeline; none when nothing could run."""
    return _latencies(found), _over_time(found)


def _latencies(found: Simulated) -> Chart | None:
    values = [
        (METRICS[name].title, percentile, seconds)
        for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s")
        if (latency := getattr(found, name)) is not None
        for percentile in PERCENTILES
        if (seconds := getattr(latency, percentile))
    ]
    if not values:
        return None
    body: dict[str, Any] = {
        "data": records(("latency", "percentile", "seconds"), values),
        "mark": {"type": "point", "filled": True, "size": 90, "tooltip": True},
        "encoding": {
            "y": names("latency"),
            "x": log_axis("seconds", "seconds (left is better)", over=[value[2] for value in values]),
            "color": colour("percentile"),
        },
    }
    return Chart(
        "latency",
        "Latency by percentile",
        "Percentiles of time to first token, per output token, of inter-token and end-to-end latency.",
        body=body,
        columns=("latency", "percentile", "value"),
        rows=tuple((name, percentile, show(seconds, "s")) for name, percentile, seconds in values),
        height=160,
    )


def _over_time(found: Simulated) -> Chart | None:
    seen = found.occupancy
    if seen is None or len(seen.at_s) < 2:
        return None
    values = [
        (at, kind, number)
        for kind, column in (("running", seen.running), ("waiting", seen.waiting))
        for at, number in zip(seen.at_s, column, strict=True)
    ]
    cache = list(zip(seen.at_s, seen.cache_share, strict=True))
    x = axis("at", "seconds")
    body = layer_charts(
        records(("at", "kind", "requests"), values),
        {
            "mark": {"type": "line", "tooltip": True},
            "encoding": {
                "x": x,
                "y": axis("requests", "requests"),
                "color": colour("kind"),
            },
        },
        {
            "data": records(("at", "share"), cache),
            "mark": {"type": "area", "opacity": 0.18, "tooltip": True},
            "encoding": {"x": x, "y": axis("share", "share of the cache in use", axis={"format": "%"})},
        },
    )
    step = max(1, len(seen.at_s) // 24)
    return Chart(
        "timeline",
        "What happened over time",
        "Requests running and waiting, and how full the cache was (shaded).",
        body={**body, "resolve": {"scale": {"y": "independent"}}},
        columns=("after", "running", "waiting", "cache in use"),
        rows=tuple(
            (show(at, "s"), f"{running:,.1f}", f"{waiting:,.1f}", f"{share:.0%}")
            for at, running, waiting, share in list(
                zip(seen.at_s, seen.running, seen.waiting, seen.cache_share, strict=True)
            )[::step]
        ),
    )


COMPARED_AT: Final = ("p50", "p95", "p99")


def comparison_charts(found: Comparison) -> tuple[Chart, ...]:
    """Latencies by side; none where the sides have no percentiles."""
    figures = {row.what: row.values for row in found.figures}
    values = [
        (side, metric.title, percentile, seconds)
        for metric in OBJECTIVES
        for percentile in COMPARED_AT
        for side, seconds in zip(found.sides, figures.get(f"{percentile} {metric.title.lower()}", ()), strict=False)
        if isinstance(seconds, float) and seconds > 0
    ]
    if not values:
        return ()
    body: dict[str, Any] = {
        "data": records(("side", "latency", "percentile", "seconds"), values),
        "mark": {"type": "point", "filled": True, "size": 80, "tooltip": True},
        "encoding": {
            "y": names("side"),
            "x": log_axis("seconds", "seconds (left is better)", over=[value[3] for value in values]),
            "color": colour("latency"),
            "shape": colour("percentile"),
        },
    }
    chart = Chart(
        "comparison",
        "Latency of each way",
        "Percentiles of time to first token, per output token, and of the whole answer, for every side.",
        body=body,
        columns=("side", "latency", "percentile", "value"),
        rows=tuple((side, name, percentile, show(seconds, "s")) for side, name, percentile, seconds in values),
        height=60 + 40 * len(found.sides),
    )
    return (chart,)
