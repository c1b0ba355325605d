"""
One chart: what is drawn, and the same numbers as a table; memory by what fills it.

A chart holds no pixels. `specification` gives the Vega-Lite document, a plain dictionary that any renderer draws and
any test can read; `svg` draws it by vl-convert, without a browser or a request.
"""

from __future__ import annotations

import importlib.util
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, Final

from tonnage.domain.answer import Quantity
from tonnage.errors import BadRequest
from tonnage.record import Record
from tonnage.units import show

SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"
WIDTH: Final = 560
COLOURS: Final = ("#0066dd", "#dd7700", "#aa8899", "#995566", "#1199ee", "#dd0022", "#cc11aa", "#227711")
"""Told apart by people with any kind of colour vision, and with 3 : 1 at least on both grounds."""
FONTS: Final = "Verdana, DejaVu Sans, sans-serif"
"""Of one width, and one of them nearly everywhere: what was measured for the drawing is what a screen shows."""
INK: Final = {"light": "#1c2430", "dark": "#e6e9ee"}
ACCENT: Final = {"light": "#0b6f7b", "dark": "#4fb9c4"}
"""Of marks that stand for options, as on the page."""
FAINT: Final = {"light": "#d5dae2", "dark": "#3a4452"}


class Chart(Record):
    """A picture and its table."""

    name: str
    """Short and stable: memory, frontier, cost, …"""
    title: str
    says: str
    """What it shows, in one sentence: the text for those who do not see it."""
    body: dict[str, Any]
    """Vega-Lite without schema, size and theme; data inline."""
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    height: int = 300

    def vega(self, theme: str = "light") -> dict[str, Any]:
        """The Vega-Lite document: light or dark text and lines, on no ground."""
        return specification(self, theme=theme)


def records(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Inline data of a specification."""
    return {"values": [dict(zip(columns, row, strict=True)) for row in rows]}


def axis(field: str, title: str, *, kind: str = "quantitative", **more: Any) -> dict[str, Any]:
    """A position channel; the title states the unit and, where it is not plain, which end is better."""
    return {"field": field, "type": kind, "title": title, **more}


def log_axis(
    field: str, title: str, *, over: Iterable[float] = (), room: float = 1.15, ends: tuple[float, float] | None = None,
    **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """
    A logarithmic channel that holds those values and a little room on either side, or goes from one end to the other.

    The farther apart its ends lie, the fewer steps a decade has.
    """
    held = [value for value in over if value > 0]
    low, high = ends or ((min(held) / room, max(held) * room) if held else (0.1, 10.0))
    decades = math.log10(high / low)
    steps = (1, 2, 5) if decades <= 2.5 else (1, 3) if decades <= 4.2 else (1,)
    ticks = [
        float(f"{step}e{power}")
        for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for step in steps
    ]
    held = [tick for tick in ticks if low <= tick <= high]
    shown = {
        "values": held,
        "tickCount": len(held),
        "format": "~g" if high < 1e4 else "~s",
        "labelOverlap": False,
    }
    scale = {"type": "log", "domain": [low, high], "nice": False, **more.pop("scale", {})}
    return axis(field, title, scale=scale, axis={**shown, **more.pop("axis", {})}, **more)


def names(field: str, title: str = "") -> dict[str, Any]:
    """A position channel of names, in the order in which they come."""
    return axis(field, title, kind="nominal", sort=None)


BELOW_NAME: Final = {"type": "bar", "tooltip": True, "height": {"band": 0.45}, "yOffset": 8}
"""Mark of bars below their names."""


def named_rows(field: str, *, sort: Sequence[str] | None = None) -> dict[str, Any]:
    """Rows of a bar each (`BELOW_NAME`), whose name stands above it: no width cuts it, and none is lost to it."""
    above = {"labelAlign": "left", "labelPadding": -4, "labelOffset": -13, "labelLimit": 0, "ticks": False}
    return axis(field, "", kind="nominal", sort=sort, axis=above)


def rows_px(count: int) -> int:
    """Height of a plot of so many named rows. [px]"""
    return 46 * count + 20


def colour(field: str) -> dict[str, Any]:
    """A colour for each value of a field, in the order in which they come."""
    return {"field": field, "type": "nominal", "title": None, "sort": None}


def layer_charts(data: dict[str, Any], *layers: dict[str, Any]) -> dict[str, Any]:
    """Layers over the same data."""
    return {"data": data, "layer": list(layers)}


LIMIT: Final = {"light": "#ad3210", "dark": "#ff9670"}
"""Colour of limits and of nothing else, as on the page: their words have 4.5 : 1 on either ground."""
INTERVAL: Final = {"light": "#3d8f99", "dark": "#4fa8b3"}
"""Of intervals: 3 : 1 at least beside what they lie on."""
PAPER: Final = {"light": "#ffffff", "dark": "#151d20"}
"""What a chart stands on: the edge of its names, that lines do not strike through them."""
SIDES: Final = {"left": ("left", -6), "middle": ("center", 0), "right": ("right", 6)}
"""Where a point lies -> how its name is aligned, and how far it is moved."""
LOW: Final = 0.2
"""Points lower than this share of the plot have their names above them. [-]"""


def side(at: float) -> str:
    """Where a name has room beside a point that lies so far along the axis."""
    return "left" if at < 0.3 else "right" if at > 0.7 else "middle"


def past_end(x: dict[str, Any], y: dict[str, Any], *, end: float, high: str = "high") -> dict[str, Any]:
    """An arrow at the right end of the axis for every interval that goes on beyond it."""
    return {
        "transform": [{"filter": f"datum.{high} > {end}"}],
        "mark": {"type": "point", "shape": "triangle-right", "filled": True, "size": 60, "style": "interval",
                 "xOffset": -3, "opacity": 1},
        "encoding": {"x": {**{name: x[name] for name in ("type", "title", "scale", "axis") if name in x}, "datum": end},
                     "y": y},
    }  # fmt: skip


def named_points(
    x: dict[str, Any],
    y: dict[str, Any],
    *,
    points: Sequence[tuple[str, float, float]],
    under: Sequence[dict[str, Any]] = (),
    reach: float = 0.0,
) -> dict[str, Any]:
    """
    Points (fields x and y) with their names over other layers; the first is ringed, and the axis holds `reach` too.

    Names stand where they have room (`place_names`), the first ones first.
    """
    place, ups = along(x, [*(point[1] for point in points), reach]), [point[2] for point in points]
    low, high = 0.0 if "domainMin" in y.get("scale", {}) else min(ups), max(ups)
    places = place_names((name, place(at), HEIGHT * (high - up) / ((high - low) or 1.0)) for name, at, up in points)
    values = [(*point, point is points[0], *where) for point, where in zip(points, places, strict=True)]
    values.sort(key=lambda value: value[1:3])  # as lines under them are drawn
    at = {"x": x, "y": y}
    return layer_charts(
        records(("name", "x", "y", "first", *PLACED), values),
        *under,
        {"mark": {"type": "point", "filled": True, "size": 70, "tooltip": {"content": "data"}}, "encoding": at},
        {"transform": [{"filter": "datum.first"}], "mark": {"type": "point", "size": 260, "strokeWidth": 2},
         "encoding": at},
        *name_layers(places, at),
    )  # fmt: skip


WIDTHS: Final = (280.0, 560.0, 1000.0)
"""Of the plot on a phone, in a column and over a page: the wider, the more names have room. [px]"""
HEIGHT: Final = 250.0
"""Of the part of the plot that holds points. [px]"""
LETTER, LINE = 6.4, 14.0
"""Width of a letter, height of a line. [px]"""
PLACED: Final = ("align", "dy", "from")
Place = tuple[str, int, float]
"""Alignment of a name, how far below its point it stands [px], and the width of the plot from which on it does [px]."""


def place_names(named: Iterable[tuple[str, float, float]]) -> list[Place]:
    """
    Where names have room beside their points, the first ones first; one that never has stands nowhere.

    Parameters
    ----------
    named : iterable of (str, float, float)
        Name, how far along the plot its point lies [0 to 1], how far down [px]. An empty name is none.

    Examples
    --------
    >>> place_names([("here", 0.5, 100.0), ("close to it", 0.5, 104.0), ("", 0.9, 0.0)])
    [('center', 21, 280.0), ('center', -14, 280.0), ('', 0, 0.0)]
    """
    points = list(named)
    found: dict[int, Place] = {}

    def box(one: int, align: str, dy: int, width: float) -> tuple[float, float, float]:
        name, along, down = points[one]
        left = along * width - {"left": 0.0, "center": 0.5, "right": 1.0}[align] * LETTER * len(name)
        return left, left + LETTER * len(name), down + dy

    for width in WIDTHS:
        for one, (name, *_) in enumerate(points):
            others = [box(other, *place[:2], width) for other, place in found.items()]
            for align, dy in product(("center", "right", "left"), (21, -14)) if name and one not in found else ():
                left, right, y = box(one, align, dy, width)
                inside = left >= -LETTER and right <= width + LETTER and y <= HEIGHT
                if inside and not any(left < its[1] and its[0] < right and abs(y - its[2]) < LINE for its in others):
                    found[one] = (align, dy, width)
                    break
    return [found.get(one, ("", 0, 0.0)) for one in range(len(points))]


def name_layers(places: Iterable[Place], at: dict[str, Any]) -> list[dict[str, Any]]:
    """Layers that write the field `name` of each value with its place in the fields `PLACED`."""
    # Where the plot is too narrow the name is empty: an axis over no values at all has no extent.
    text = {"condition": {"test": "width >= datum.from", "field": "name"}, "value": ""}
    marks = {(align, dy): {"type": "text", "align": align, "dy": dy} for align, dy, _ in places if align}
    return [
        {
            "transform": [{"filter": f"datum.align == '{align}' && datum.dy == {dy}"}],
            "layer": [{"mark": {**mark, "style": "halo", "aria": False}}, {"mark": mark}],
            "encoding": {"x": at["x"], "y": at["y"], "text": text},
        }
        for (align, dy), mark in marks.items()
    ]


def along(x: dict[str, Any], values: Sequence[float]) -> Callable[[float], float]:
    """How far along its axis, which begins at zero or has its ends, a value lies. [0 to 1]"""
    if x["scale"].get("type") == "log":
        low, high = x["scale"]["domain"]
        return lambda value: math.log(value / low) / math.log(high / low)
    most = max(values)
    return lambda value: value / most if most else 0.0


def limit_line(channel: str, value: float, *, says: str, left: bool = True) -> dict[str, Any]:
    """A dashed line across the plot where a channel has a value, its name at its end, `left` of an upright one."""
    end: dict[str, Any] = {"align": "left", "dx": 5, "dy": -7, "x": 0} if channel == "y" else {
        "align": "right" if left else "left", "dx": -5 if left else 5, "y": 8}  # fmt: skip
    return {
        "data": {"values": [{channel: value, "says": says}]},
        "layer": [
            {"mark": {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 1.5, "style": "limit"}},
            {"mark": {"type": "text", "style": "limit", "fontWeight": "bold", **end},
             "encoding": {"text": {"field": "says"}}},
        ],
        "encoding": {channel: {"field": channel, "type": "quantitative"}},
    }  # fmt: skip


def specification(chart: Chart, *, theme: str = "light") -> dict[str, Any]:
    """
    The whole Vega-Lite document.

    Parameters
    ----------
    chart : Chart
    theme : str
        light or dark: of the text and lines; the ground is transparent.
    """
    ink, faint = INK[theme], FAINT[theme]
    text = {"labelColor": ink, "titleColor": ink, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    config = {
        "background": "transparent",
        "font": FONTS,
        "view": {"stroke": None},
        "axis": {
            **text,
            "gridColor": faint,
            "domainColor": faint,
            "tickColor": faint,
            "labelLimit": 260,
            "tickCount": 6,
        },
        "mark": {"color": ACCENT[theme]},
        "bar": {"height": {"band": 0.7}},
        "legend": {
            **text,
            "orient": "bottom",
            "columns": 3,
            "columnPadding": 18,
            "labelLimit": 240,
            "symbolOpacity": 1,
        },
        "title": {"color": ink, "fontSize": 14, "anchor": "start"},
        "text": {"color": ink, "fontSize": 11},
        "rule": {"color": ink},
        "tick": {"color": ink},
        "range": {"category": list(COLOURS)},
        "style": {
            "limit": {"color": LIMIT[theme]},
            "interval": {"color": INTERVAL[theme]},
            "halo": {"stroke": PAPER[theme], "strokeWidth": 6, "strokeJoin": "round"},
        },
    }
    return {
        "$schema": SCHEMA,
        "description": chart.says,
        **({"title": chart.title} if chart.title else {}),
        "width": WIDTH,
        "height": chart.height,
        "config": config,
        **chart.body,
    }


def svg(chart: Chart, *, theme: str, width: int = WIDTH) -> str:
    """
    The chart as SVG text, its plot so many pixels wide.

    Raises
    ------
    BadRequest
        The `plots` extra is not installed.
    """
    found = {**specification(chart, theme=theme), "width": width}
    if width < WIDTH:  # a legend wider than the plot would make all of it small
        found["config"]["legend"]["columns"] = 1
    drawn: str = renderer().vegalite_to_svg(found)
    return drawn


def renderer() -> Any:
    """
    The module that draws.

    Raises
    ------
    BadRequest
        The `plots` extra is not installed.
    """
    if importlib.util.find_spec("vl_convert") is None:
        raise BadRequest("pictures need the 'plots' extra: pip install 'tonnage[plots]'")
    import vl_convert

    return vl_convert


Bar = tuple[str, Quantity, float | None]
"""Its name, what fills it, and what may be used. [bytes]"""

GIB: Final = 1024.0**3
MOST_STACKS: Final = 8
GROUPS: Final = (
    ("weights", "weights"),
    ("KV", "cache"),
    ("cache", "cache"),
    ("state", "cache"),
    ("gradient", "gradients"),
    ("optimizer", "optimizer"),
    ("activation", "activations"),
    ("logits", "activations"),
)
"""How a part's name begins or what it holds -> the band it is drawn in; the rest is the engine's own."""
OTHER: Final = "engine and libraries"


def led_by(options: Sequence[Any], rank: int, *, most: int) -> list[Any]:
    """The option of that rank, then the others in their order, so many in all."""
    return [*options[rank - 1 : rank], *options[: rank - 1], *options[rank:]][:most]


def memory_chart(options: Sequence[Any], label: Callable[..., str]) -> Chart | None:
    """
    The memory of the first options as horizontal bars, with the line each must stay under; None when there are none.

    Parameters
    ----------
    options : sequence
        What has `memory` and `limit_bytes`.
    label : callable
        Option -> the name of its bar.
    """
    drawn = _named_apart([(label(one), one.memory, one.limit_bytes) for one in options[:MOST_STACKS]])
    if not drawn:
        return None
    values = [
        (name, band, size / GIB, order)
        for name, memory, _ in drawn
        for order, (band, size) in enumerate(_bands(memory).items())
    ]
    limits = [(name, limit / GIB) for name, _, limit in drawn if limit is not None]
    y = named_rows("accelerator", sort=[name for name, _, _ in drawn])
    bars = {
        "mark": BELOW_NAME,
        "encoding": {
            "y": y,
            "x": axis("gib", "memory of one accelerator [GiB]", stack="zero"),
            "color": colour("part"),
            "order": {"field": "order"},
        },
    }
    line = {
        "data": records(("accelerator", "limit"), limits),
        "mark": {"type": "tick", "thickness": 4, "size": 26, "yOffset": 8, "tooltip": True},
        "encoding": {"y": y, "x": axis("limit", "memory of one accelerator [GiB]")},
    }
    rows = [(name, band, show(size, "bytes")) for name, memory, _ in drawn for band, size in _bands(memory).items()]
    rows += [(name, "may use", show(limit, "bytes")) for name, _, limit in drawn if limit]
    return Chart(
        "memory",
        "What fills the memory",
        "Memory of one accelerator, opened into parts; the upright line is what may be used of it.",
        body=layer_charts(records(("accelerator", "part", "gib", "order"), values), bars, *([line] if limits else [])),
        columns=("accelerator", "part", "size"),
        rows=tuple(rows),
        height=rows_px(len(drawn)),
    )


def _bands(memory: Quantity) -> dict[str, float]:
    """Bytes by band, in the order the bands are drawn."""
    sums: dict[str, float] = dict.fromkeys([band for _, band in GROUPS], 0.0)
    sums[OTHER] = 0.0
    for part in memory.parts:
        band = next((band for begins, band in GROUPS if begins.lower() in part.name.lower()), OTHER)
        sums[band] += part.value
    return {band: size for band, size in sums.items() if size > 0}


def _named_apart(bars: Sequence[Bar]) -> list[Bar]:
    """Bars of the same name would be drawn as one."""
    seen: Counter[str] = Counter()
    named = []
    for name, memory, limit in bars:
        seen[name] += 1
        named.append((f"{name} ({seen[name]})" if seen[name] > 1 else name, memory, limit))
    return named
