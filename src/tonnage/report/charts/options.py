"""Options as points: what they cost against the time that decides, one chart for every kind of plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from tonnage.domain.answer import Quantity
from tonnage.domain.plan import Bill
from tonnage.report.charts.chart import LOW, SIDES, Chart, axis, log_axis, past_end, records, side
from tonnage.report.wording import money as priced

MOST_POINTS: Final = 60
MOST_LABELS: Final = 4
"""Points of the frontier that carry their name."""
MAX_TIMES: Final = 3.0
"""Options that cost more times as much as the first are left to the table. [-]"""
WIDE: Final = 12.0
"""Slowest over fastest from which on the axis of time is logarithmic. [-]"""
LEADER: Final = 15
"""Length of the line that joins a point to its name. [px]"""
ASIDE: Final = {"left": 0.17, "middle": 0.0, "right": -0.17}
"""Where a point lies -> how far from it the middle of its name is, of the width. [-]"""
RAISED: Final = 0.065
"""How far above its point a name stands, of the height. [-]"""
APART: Final = (0.34, 0.11)
"""Room that a name takes, of the width and the height; another within it is not written. [-]"""
ROOM: Final = 1.25
"""Right end of the axis over the limit: what exceeds it by more tells nothing that decides. [-]"""
SOLID: Final = "datum.evidence == 'measured' || datum.evidence == 'calibrated'"
"""Points of measured speed are filled, others open: the marks of the tables."""


class Point(NamedTuple):
    """One option of the plan."""

    option: str
    value: float
    low: float
    high: float
    usd: float
    evidence: str
    rank: int
    """From 1, as the tables count."""
    listed: bool
    """At a price that its seller states."""


def point_of(
    option: str, time: Quantity, *, scale: float, usd: float, evidence: str, rank: int, bill: Bill | None
) -> Point:
    """An option by its time with the 90 % interval, times `scale` to the unit of the axis."""
    ends = (time.value, time.low or time.value, time.high or time.value)
    value, low, high = (scale * end for end in ends)
    return Point(option, value, low, high, usd, evidence, rank, bill is None or bill.trust == "primary")


class Axis(NamedTuple):
    """What an axis shows."""

    name: str
    unit: str
    limit: float | None = None


def options_chart(points: Sequence[Point], *, time: Axis, money: Axis, chosen: int = 1) -> Chart | None:
    """
    Options by time and money, both better when smaller: 90 % intervals, the limit with what lies past it, the
    steps of the best price for each speed, the chosen option ringed, the recommended one with a thin ring. None where
    there is nothing to choose from.

    Parameters
    ----------
    points : sequence of Point
        By rank; in the units of the axes.
    time : Axis
        TPOT, TTFT, hours of a job, latency; `limit` in its unit.
    money : Axis
        USD/h, or USD of the whole job.
    chosen : int
        Rank of the option that is ringed first.
    """
    shown = [point for point in points if point.usd <= MAX_TIMES * points[0].usd][:MOST_POINTS]
    points = shown + [point for point in points if point.rank == chosen and point not in shown]
    if not points:
        return None
    # What others say of a price steps below no seller's own, as no choice does.
    told = [point for point in points if not point.listed]
    best = _frontier([point for point in points if point.listed or not points[0].listed])
    right = _right(points, best, time.limit)
    x, place = _across(points, time, right=right)
    top, per_run = max(point.usd for point in points), not money.unit.endswith("/h")
    y = axis("usd", f"{money.unit} (down is cheaper)", scale={"domain": [0, 1.06 * top], "nice": True})
    values = [
        (
            *point,
            f"{point.option}, {priced(point.usd) if per_run else f'${point.usd:,.2f}'}",
            side(place(point.value)),
            _named_below(point, points, place=place, top=top),
        )
        for point in points
    ]
    tooltip = [
        {"field": "label", "title": "option"},
        *({"field": name, "title": f"{title} [{time.unit}]", "format": ",.3~g"} for name, title in (
            ("value", time.name), ("low", "90 % from"), ("high", "to"))),
        {"field": "usd", "title": money.unit, "format": ",.2f"}, {"field": "evidence", "title": "evidence"},
    ]  # fmt: skip
    steps = [(min(point.value, right), point.usd) for point in best]
    steps += [(right, steps[-1][1])]
    seen = {"x": x, "y": y, "tooltip": tooltip,
            "shape": {"condition": {"test": "datum.listed", "value": "circle"}, "value": "triangle-up"}}  # fmt: skip
    layers: list[dict[str, Any]] = [
        *_limit_layers(time, x, right=right),
        {"data": records(("value", "usd"), steps),
         "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5, "color": "#7f7f7f"},
         "encoding": {"x": x, "y": y}},
        {"mark": {"type": "rule", "strokeWidth": 1.5, "clip": True, "style": "interval"},
         "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y}},
        past_end(x, y, end=right),
        {"transform": [{"filter": SOLID}], "mark": {"type": "point", "filled": True, "size": 70}, "encoding": seen},
        {"transform": [{"filter": f"!({SOLID})"}], "mark": {"type": "point", "filled": False, "size": 60},
         "encoding": seen},
        *_name_layers({"x": x, "y": y}, _place_labels(points, best, place=place, top=top, chosen=chosen)),
    ]  # fmt: skip
    past = f"; the shaded part is past the limit of {_plain(time.limit)} {time.unit}" if time.limit is not None else ""
    beyond = "; an arrow is an interval that goes on" if any(point.high > right for point in points) else ""
    others = "; triangles are at prices that others than the seller state" if told else ""
    return Chart(
        "frontier",
        f"{money.name} against {time.name}",
        f"Each point is an option with its 90 % interval, filled where its speed is measured; the steps are the "
        f"best price for each speed{others}{past}{beyond}.",
        body={
            "params": [{"name": "chosen", "value": chosen}],
            "data": records((*Point._fields, "label", "side", "high_up"), values),
            "layer": layers,
        },
        columns=("option", f"{time.name} [{time.unit}]", "90 % interval", money.unit, "price of", "evidence"),
        rows=tuple(
            (
                p.option,
                f"{p.value:,.3g}",
                f"{p.low:,.3g}-{p.high:,.3g}",
                f"{p.usd:,.2f}",
                "" if not told else "its seller" if p.listed else "others",
                p.evidence,
            )
            for p in points
        ),
    )


def _plain(value: float) -> str:
    """A limit without a power of ten: "1,000"."""
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def _limit_layers(time: Axis, x: dict[str, Any], *, right: float) -> list[dict[str, Any]]:
    """The limit with its name, and what lies past it up to the right end; nothing without a limit."""
    if time.limit is None:
        return []
    return [
        {
            "data": {"values": [{"from": time.limit, "to": right}]},
            "mark": {"type": "rect", "opacity": 0.12, "style": "limit"},
            "encoding": {"x": {**x, "field": "from"}, "x2": {"field": "to"}},
        },
        {
            "data": {"values": [{"from": time.limit, "says": f"limit {_plain(time.limit)} {time.unit}"}]},
            "layer": [
                {"mark": {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 1.5, "style": "limit"}},
                {
                    "mark": {
                        "type": "text",
                        "align": "right",
                        "dx": -5,
                        "y": 8,
                        "style": "limit",
                        "fontWeight": "bold",
                    },
                    "encoding": {"text": {"field": "says"}},
                },
            ],
            "encoding": {"x": {**x, "field": "from"}},
        },
    ]


def _name_layers(position: dict[str, Any], ranks: Sequence[int]) -> list[dict[str, Any]]:
    """The chosen option ringed; it and the first named below where there is room, others on the frontier above."""
    layers: list[dict[str, Any]] = [
        {
            "transform": [{"filter": "datum.rank == chosen"}],
            "mark": {"type": "point", "filled": False, "size": 260, "strokeWidth": 2},
            "encoding": position,
        },
        {
            "transform": [{"filter": "datum.rank == 1 && chosen != 1"}],
            "mark": {"type": "point", "filled": False, "size": 200, "strokeWidth": 1, "strokeDash": [2, 2]},
            "encoding": position,
        },
    ]
    bold = {"fontWeight": "bold", "fontSize": 12}
    other = "(datum.rank != 1 || !datum.high_up)"
    for who, below, style in (
        ("datum.rank == chosen && datum.high_up", True, bold),
        ("datum.rank == chosen && !datum.high_up", False, bold),
        ("datum.rank == 1 && chosen != 1 && datum.high_up", True, {}),
        (f"indexof({list(ranks)}, datum.rank) >= 0 && datum.rank != chosen && {other}", False, {}),
    ):
        end = LEADER if below else -LEADER
        joined = {**position, "y2": {"field": "usd"}}
        chosen = {"transform": [{"filter": who}]}
        layers.append(
            {
                **chosen,
                "mark": {"type": "rule", "strokeWidth": 1, "opacity": 0.7, "yOffset": end},
                "encoding": joined,
            }
        )
        for where, (align, away) in SIDES.items():
            at = {"type": "text", "align": align, "dx": away, "dy": end + (7 if below else -5), **style}
            layers.append({
                "transform": [{"filter": f"({who}) && datum.side == '{where}'"}],
                "layer": [{"mark": {**at, "style": "halo", "aria": False}}, {"mark": at}],
                "encoding": {**position, "text": {"field": "label"}},
            })  # fmt: skip
    return layers


def _frontier(points: Sequence[Point]) -> list[Point]:
    """Options that no other beats in time and money, from the fastest on."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (point.value, point.usd)):
        if not best or point.usd < best[-1].usd:
            best.append(point)
    return best


def _named_below(point: Point, points: Sequence[Point], *, place: Callable[[float], float], top: float) -> bool:
    """Whether there is room for the name of a point below it, and no other point."""
    return point.usd > LOW * top and not any(
        0.0 < point.usd - other.usd < 2.5 * RAISED * top
        and abs(place(point.value) + ASIDE[side(place(point.value))] - place(other.value)) < APART[0] / 2
        for other in points
    )


def _place_labels(
    points: Sequence[Point], best: Sequence[Point], *, place: Callable[[float], float], top: float, chosen: int
) -> list[int]:
    """
    Ranks whose names are written: the first, the chosen one, and on the frontier those that lie on no other name and on
    no point.
    """
    always = [point for point in points if point.rank in (1, chosen)]
    taken = [  # with the heights of their names
        (point, point.usd + (-RAISED if _named_below(point, points, place=place, top=top) else RAISED) * top)
        for point in always
    ]
    for point in sorted(best, key=lambda point: point.usd):
        height = point.usd + RAISED * top
        close = any(
            abs(place(point.value) - place(other.value)) < APART[0] and abs(height - its) < APART[1] * top
            for other, its in taken
        )
        covers = any(
            abs(place(point.value) + ASIDE[side(place(point.value))] - place(other.value)) < APART[0] / 3
            and abs(point.usd + RAISED * top - other.usd) < APART[1] * top / 4
            for other in points
        )
        if point not in always and not close and not covers and len(taken) <= MOST_LABELS:
            taken.append((point, height))
    return [point.rank for point, _ in taken]


def _across(points: Sequence[Point], time: Axis, *, right: float) -> tuple[dict[str, Any], Callable[[float], float]]:
    """The axis of time, logarithmic where the times lie far apart, and how far along it a time lies. [0 to 1]"""
    title = f"{time.name}, {time.unit} (left is faster)"
    fastest = min(point.value for point in points)
    if fastest <= 0 or right < WIDE * fastest:
        scale = {"domain": [0, right], "nice": time.limit is None, "clamp": True}
        return axis("value", title, scale=scale), lambda value: value / right
    least = 0.7 * min((point.low for point in points if point.low > 0), default=fastest)
    found = log_axis("value", f"{title}, log scale", ends=(least, right), scale={"clamp": True})
    return found, lambda value: math.log(max(value, least) / least) / math.log(right / least)


def _right(points: Sequence[Point], best: Sequence[Point], limit: float | None) -> float:
    """Where the axis ends: past the limit, and past all that is on the frontier."""
    last = max(point.value for point in (*best, *points[:5]))
    return max(limit * ROOM, 1.02 * last) if limit is not None else 1.15 * last
