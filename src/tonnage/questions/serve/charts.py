"""A serving plan as pictures: cost against latency, memory, latency against load, operators under the roof."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tonnage.catalog import part_name, parts_name
from tonnage.domain.metrics import SPEEDS, objectives
from tonnage.domain.plan import LoadPoint, ServeOption, ServePlan
from tonnage.domain.requests.common import Slo
from tonnage.domain.serve_parts import Roofline
from tonnage.domain.sessions import TraceSessions
from tonnage.report.charts.chart import (
    COLOURS,
    Chart,
    axis,
    colour,
    layer_charts,
    led_by,
    log_axis,
    memory_chart,
    records,
)
from tonnage.report.charts.options import Axis, options_chart, point_of
from tonnage.units import percent, show

UNBOUNDED: Final = 1e11
"""Tokens from which on a cache stands for one that nothing limits. [tokens]"""
MOST_LINES: Final = 5
USES: Final = tuple(use / 100 for use in (5, 7, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100))


def serve_charts(plan: ServePlan, rank: int = 1) -> tuple[Chart | None, ...]:
    """Every picture of a feasible plan, of the option of that rank; none when nothing works."""
    if not plan.options:
        return ()
    return (
        _price_and_latency(plan, rank), _latency_by_load(plan, plan.options[rank - 1]), _cost_by_use(plan),
        memory_chart(led_by(plan.options, rank, most=5), _label), roofline_chart(plan.roofline if rank == 1 else None),
        _hits_by_cache(plan), _images(plan),
    )  # fmt: skip


def _images(plan: ServePlan) -> Chart | None:
    if plan.images is None:
        return None
    from tonnage.questions.serve.page_option import images_chart

    return images_chart(plan)


def _price_and_latency(plan: ServePlan, chosen: int) -> Chart | None:
    """Price of the fleet against the latency whose objective has least room; TPOT where none is given."""
    slo, first = plan.request.slo, plan.options[0].capacity
    used = {metric: getattr(first, metric.name).value / limit for metric, limit in objectives(slo) if metric in SPEEDS}
    metric = max(used, key=lambda metric: used[metric]) if used else SPEEDS[1]
    field, limit = metric.name, getattr(slo, metric.name)
    scale, unit = (1.0, "s") if (limit or getattr(first, field).value) >= 2.0 else (1e3, "ms")
    points = [
        point_of(
            _label(option),
            getattr(option.capacity, field),
            scale=scale,
            usd=option.bill.usd_per_hour,
            evidence=str(option.basis),
            rank=rank,
            bill=option.bill,
        )
        for rank, option in enumerate(plan.options, 1)
        # Power alone is no price: beside rents it would look like the cheapest.
        if option.bill.trust != "unknown" or plan.options[0].bill.trust == "unknown"
    ]
    time = Axis(f"p{slo.percentile:g} {metric.title}", unit, None if limit is None else scale * limit)
    return options_chart(points, time=time, money=Axis("Price", "USD/h"), chosen=chosen)


def _latency_by_load(plan: ServePlan, best: ServeOption) -> Chart | None:
    """Latencies of an option's replica over its rate; None where it was not simulated."""
    request = plan.request
    seen = best.capacity.simulated
    if seen is None:
        return None
    peak = _own_rate(plan, best)
    return load_chart(
        seen.tried,
        slo=request.slo,
        knee_per_s=seen.knee_per_s,
        most_per_s=seen.low_per_s,
        peak_per_s=peak,
        own={metric.title: getattr(best.capacity, metric.name).value for metric in SPEEDS},
    )


def _own_rate(plan: ServePlan, best: ServeOption) -> float | None:
    """
    What one replica of an option is asked for at the peak, spares counted as working; requests in flight become
    a rate by Little's law, None where they take no time. [1/s]
    """
    request = plan.request
    if request.rate_per_s is not None:
        return request.rate_per_s * request.shape.peak_to_mean / best.replicas
    seen = best.capacity
    stay_s = seen.stay_s(request.lengths.output_tokens)
    return seen.concurrency / stay_s if stay_s > 0 else None


def _cost_by_use(plan: ServePlan) -> Chart:
    """
    Cost of a million output tokens over the share of the capacity that is used: the first option of each accelerator, a
    few of them.
    """
    answer = plan.request.lengths.output_tokens
    best: dict[str, ServeOption] = {}
    for option in plan.options:
        best.setdefault(option.configuration.accelerator, option)
    values, rows = [], []
    for option in list(best.values())[:MOST_LINES]:
        full = option.bill.usd_per_hour / (option.capacity.max_rate_per_s.value * option.replicas * answer * 3600) * 1e6
        values += [(_label(option), use, full / use) for use in USES]
        used = 1 - option.headroom
        rows.append((_label(option), f"{full:,.2f}", f"{full / 0.5:,.2f}", f"{full / 0.1:,.2f}", percent(used)))
    body = layer_charts(
        records(("option", "use", "usd"), values),
        {
            "mark": {"type": "line", "tooltip": True},
            "encoding": {
                "x": axis("use", "share of the capacity that is used", axis={"format": "%"}),
                "y": log_axis("usd", "USD per million output tokens", over=[value[2] for value in values]),
                "color": colour("option"),
            },
        },
    )
    return Chart(
        "cost",
        "What idle time costs",
        "Cost of a million output tokens over the share of the rented capacity in use; log scale.",
        body=body,
        columns=("option", "USD/1M at 100 %", "at 50 %", "at 10 %", "used at the peak here"),
        rows=tuple(rows),
    )


def _hits_by_cache(plan: ServePlan) -> Chart | None:
    """
    What is found again, and what the first option costs, over the size of its cache; None without sessions or with
    fewer than two finite sizes.
    """
    found = plan.sessions
    sizes = [size for size in found.sizes if 0 < size.tokens < UNBOUNDED] if found is not None else []
    if len(sizes) < 2:
        return None
    values = [(size.name, size.tokens, size.hit_rate, size.usd_per_hour, size.now) for size in sizes]
    x = log_axis("tokens", "KV cache capacity of one replica (tokens)", over=[size.tokens for size in sizes])
    prices = sorted({size.usd_per_hour for size in sizes})
    # One price for every size would be a line without a scale.
    usd = axis(
        "usd",
        "USD/h of the plan",
        axis={"format": ",.2f", "values": prices} if len(prices) < MOST_PRICES else {"format": ",.2f"},
        scale={"domain": [0.0, 1.1 * prices[-1]]},
    )
    share = axis("share", "prompt tokens found again", axis={"format": "%"}, scale={"zero": False})
    body = layer_charts(
        records(("cache", "tokens", "share", "usd", "now"), values),
        {"mark": {"type": "line", "point": True, "color": COLOURS[0]}, "encoding": {"x": x, "y": share}},
        {"mark": {"type": "line", "point": True, "color": COLOURS[1]}, "encoding": {"x": x, "y": usd}},
    )
    return Chart(
        "cache",
        "What cache buys",
        "Share of the prompt tokens found again (blue) and price of the plan (orange) over the size of the cache.",
        body={**body, "resolve": {"scale": {"y": "independent"}}},
        columns=("cache", "tokens a replica", "found again", "USD/h"),
        rows=tuple(
            (size.name, f"{size.tokens:,.0f}", percent(size.hit_rate, 1), f"{size.usd_per_hour:,.2f}") for size in sizes
        ),
    )


def trace_charts(found: TraceSessions) -> tuple[Chart, ...]:
    """
    What a log's second half finds again over the size of a cache, beside what its first half lets expect; none where
    nothing was replayed.
    """
    if not found.curve:
        return ()
    values = [(at.tokens, "second half", at.hit_rate) for at in found.curve]
    values += [(at.tokens, "predicted from the first", at.predicted) for at in found.curve if at.predicted is not None]
    encoding = {
        "x": log_axis("tokens", "cache (tokens)", over=[at.tokens for at in found.curve]),
        "y": axis("share", "prompt tokens found again", axis={"format": "%"}),
        "color": {"field": "of", "type": "nominal", "title": None},
    }
    body = layer_charts(
        records(("tokens", "of", "share"), values), {"mark": {"type": "line", "point": True}, "encoding": encoding}
    )
    chart = Chart(
        "hits",
        "Cache hits over cache size",
        "Share of the second half's prompt tokens found again, replayed and predicted, over the cache's size.",
        body=body,
        columns=("cache, tokens", "second half found", "predicted from the first"),
        rows=tuple(
            (f"{at.tokens:,.0f}", percent(at.hit_rate, 1), "–" if at.predicted is None else percent(at.predicted, 1))
            for at in found.curve
        ),
    )
    return (chart,)


def _label(option: ServeOption) -> str:
    c = option.configuration
    return f"{parts_name(option.accelerators, c.accelerator)} {c.precision.stored.upper()}"


MOST_PRICES: Final = 5
"""Prices that an axis names one by one."""


def load_chart(
    tried: tuple[LoadPoint, ...],
    *,
    slo: Slo,
    knee_per_s: float,
    most_per_s: float,
    peak_per_s: float | None = None,
    own: Mapping[str, float] | None = None,
) -> Chart | None:
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
    peak_per_s : float, optional
        What this replica is asked for at the peak. [1/s]
    own : mapping, optional
        Latency -> what the plan says of it at that peak: a ring on the curve, which it leads to. [s]
    """
    if len(tried) < 2:
        return None
    values = [
        (metric.title, point.rate_per_s, *seen, point.passed)
        for metric in SPEEDS
        for point in tried
        if (seen := getattr(point, metric.name)) is not None and seen[0] > 0
    ]
    limits = [(metric.title, limit) for metric, limit in objectives(slo) if metric in SPEEDS]
    marks = [(f"capacity {show(most_per_s, 'count')}/s", most_per_s)]
    if knee_per_s < max(point.rate_per_s for point in tried):  # at the last rate tried nothing queues yet
        marks.append((f"knee {show(knee_per_s, 'count')}/s", knee_per_s))
    if peak_per_s is not None:
        marks.append((f"your load {show(peak_per_s, 'count')}/s", peak_per_s))
    placed = [(*mark, place) for place, mark in enumerate(sorted(marks, key=lambda mark: mark[1]))]
    x = axis("rate", "requests/s of one replica", scale={"domain": [0, 1.02 * values[-1][1]], "nice": False})
    drawn = [seconds for value in values for seconds in value[2:5]] + [limit for _, limit in limits]
    y = log_axis("p95", "seconds (down is better)", over=drawn)
    shade = colour("latency")
    layers: list[dict[str, Any]] = [
        {"mark": {"type": "area", "fillOpacity": 0.2, "strokeOpacity": 0.9, "strokeWidth": 1},
         "encoding": {"x": x, "y": {**y, "field": "p50"}, "y2": {"field": "p99"}, "color": shade,
                      "stroke": {**shade, "legend": None}}},
        {"mark": {"type": "line", "point": True, "tooltip": {"content": "data"}},
         "encoding": {"x": x, "y": y, "color": shade}},
        {"data": records(("mark", "rate", "place"), placed), "mark": {"type": "rule", "opacity": 0.6},
         "encoding": {"x": x}},
        # They may lie close: each writes its name on a line of its own.
        *({"data": records(("mark", "rate", "place"), [mark]),
           "mark": {"type": "text", "align": "right", "dx": -4, "y": 8 + 13 * mark[2]},
           "encoding": {"x": x, "text": {"field": "mark"}}}
          for mark in placed),
    ]  # fmt: skip
    layers += _own_load(own or {}, peak_per_s, tried, x=x, y=y, colour=shade)
    if limits:
        layers.append({"data": records(("latency", "limit"), limits), "mark": {"type": "rule", "strokeDash": [5, 4]},
                       "encoding": {"y": {**y, "field": "limit"}, "color": shade}})  # fmt: skip
    dashed = "; dashed are the objectives" if limits else ""
    return Chart(
        "load",
        "Latency against load",
        f"95th percentiles over the rate of one replica, shaded from the 50th to the 99th{dashed}"
        f"{'; the rings are what your load sees' if own and peak_per_s is not None else ''}.",
        body=layer_charts(records(("latency", "rate", "p50", "p95", "p99", "passed"), values), *layers),
        columns=("latency", "requests/s", "p50", "p95", "p99", "objectives"),
        rows=tuple(
            (name, f"{rate:.3g}", show(p50, "s"), show(p95, "s"), show(p99, "s"), "hold" if passed else "fail")
            for name, rate, p50, p95, p99, passed in values
        ),
    )


def _own_load(
    own: Mapping[str, float],
    peak_per_s: float | None,
    tried: Sequence[LoadPoint],
    *,
    x: dict[str, Any],
    y: dict[str, Any],
    colour: dict[str, Any],
) -> list[dict[str, Any]]:
    """What the asked load sees, ringed; dashed from there to the first simulated rate where none lies below."""
    if peak_per_s is None or not own:
        return []
    here = [(name, peak_per_s, value) for name, value in own.items() if value > 0]
    first = min(tried, key=lambda point: point.rate_per_s)
    ways = [
        (metric.title, first.rate_per_s, seen[1])
        for metric in SPEEDS
        if first.rate_per_s > peak_per_s and metric.title in own and (seen := getattr(first, metric.name)) is not None
    ]
    encoding = {"x": x, "y": y, "color": colour}
    return [
        {
            "data": records(("latency", "rate", "p95"), [*here, *ways]),
            "mark": {"type": "line", "strokeDash": [2, 3]},
            "encoding": encoding,
        },
        {
            "data": records(("latency", "rate", "p95"), here),
            "mark": {"type": "point", "size": 160, "strokeWidth": 2.5, "tooltip": {"content": "data"}},
            "encoding": encoding,
        },
    ]


TERA: Final = 1e12
COLOUR: Final = "#7f7f7f"
"""Of the roofs, on either ground."""
NAMED: Final = 5
"""Operators that carry their name: those with most of the time."""
CLEAR: Final = (0.16, 0.2)
"""Room of a name: share of the width, and of a decade of speed. [-]"""
FEWEST: Final = 1.0
"""Left end of the axis. [FLOP/byte]"""


def roofline_chart(roof: Roofline | None) -> Chart | None:
    """Points by phase, their size the share of the step's time; None where nothing computes."""
    if roof is None or not roof.points or not roof.peaks:
        return None
    values = [(p.phase, p.operator, p.flop_per_byte, p.flop_per_s / TERA, p.share, p.compute) for p in roof.points]
    left = min(FEWEST, *(point.flop_per_byte for point in roof.points))
    right = 10.0 * max(roof.peaks.values()) / roof.memory_bytes_per_s
    lines: list[tuple[Any, ...]] = []
    for name, peak in roof.peaks.items():
        ridge = peak / roof.memory_bytes_per_s
        lines += [(name, x, min(peak, x * roof.memory_bytes_per_s) / TERA) for x in (left, ridge, right)]
    x = log_axis("intensity", "FLOP per byte moved", ends=(left, right))
    reach = [line[2] for line in lines] + [value[3] for value in values]
    y = log_axis("speed", "TFLOP/s (up is better)", over=reach, room=1.5)
    told = _told_operators(values, ends=(left, right))
    middle = math.sqrt(left * right)
    body = layer_charts(
        records(("phase", "operator", "intensity", "speed", "share", "format"), values),
        {
            "data": records(("roof", "intensity", "speed"), lines),
            "mark": {"type": "line", "tooltip": True, "strokeWidth": 1.5, "color": COLOUR},
            "encoding": {"x": x, "y": y, "detail": {"field": "roof"}},
        },
        {
            "data": records(("roof", "intensity", "speed"), [line for line in lines if line[1] == right]),
            "mark": {"type": "text", "align": "right", "dy": -8},
            "encoding": {"x": x, "y": y, "text": {"field": "roof"}},
        },
        *(
            {
                "data": records(("phase", "operator", "intensity", "speed"), named),
                "mark": {"type": "text", "align": align, "dx": away},
                "encoding": {"x": x, "y": y, "text": {"field": "operator"}},
            }
            for align, away, named in (
                ("left", 16, [one for one in told if one[2] < middle]),
                ("right", -16, [one for one in told if one[2] >= middle]),
            )
            if named
        ),
        {
            "mark": {"type": "point", "filled": True, "opacity": 0.8, "tooltip": {"content": "data"}},
            "encoding": {
                "x": x,
                "y": y,
                "color": colour("phase"),
                "size": {
                    "field": "share",
                    "type": "quantitative",
                    "title": "share of the step",
                    "legend": None,
                    "scale": {"range": [30, 500]},
                },
            },
        },
    )
    return Chart(
        "roofline",
        f"Operators under the roof of one {part_name(roof.accelerator)}",
        "Work per byte against speed; the lines are what memory and arithmetic allow, the size of a point is its "
        "share of the step.",
        body=body,
        columns=("phase", "operator", "format", "FLOP/byte", "TFLOP/s", "of the roof", "of the step"),
        rows=tuple(
            (
                p.phase,
                p.operator,
                p.compute,
                f"{p.flop_per_byte:,.3g}",
                f"{p.flop_per_s / TERA:,.3g}",
                percent(p.flop_per_s / min(roof.peaks[p.compute], p.flop_per_byte * roof.memory_bytes_per_s)),
                percent(p.share),
            )
            for p in roof.points
        ),
    )


def _told_operators(values: Sequence[tuple[Any, ...]], *, ends: tuple[float, float]) -> list[tuple[Any, ...]]:
    """The points with most of the time whose names do not lie on one another."""
    told: list[tuple[Any, ...]] = []
    width = math.log10(ends[1] / ends[0])
    for value in sorted(values, key=lambda value: -value[4]):
        across, up = math.log10(value[2]), math.log10(value[3])
        clear = all(
            abs(across - math.log10(other[2])) > CLEAR[0] * width or abs(up - math.log10(other[3])) > CLEAR[1]
            for other in told
        )
        if clear and len(told) < NAMED:
            told.append(value[:4])
    return told
