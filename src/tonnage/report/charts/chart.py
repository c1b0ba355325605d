"""One chart: what is drawn, and the same numbers as a table for those who cannot or will not look.

A chart holds no pixels. `specification` gives the Vega-Lite document, a plain dictionary that any renderer draws and
any test can read; `svg` draws it by vl-convert, without a browser or a request.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterable
from typing import Any, Final

from tonnage.errors import BadRequest
from tonnage.record import Record

SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"
WIDTH: Final = 560
COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c00", "#7f7f7f")
"""Okabe and Ito's palette, told apart by people with any kind of colour vision; dark enough on both grounds."""
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


def colour(field: str) -> dict[str, Any]:
    """A colour for each value of a field, in the order in which they come."""
    return {"field": field, "type": "nominal", "title": None, "sort": None}


def layer_charts(data: dict[str, Any], *layers: dict[str, Any]) -> dict[str, Any]:
    """Layers over the same data."""
    return {"data": data, "layer": list(layers)}


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


def svg(chart: Chart, *, theme: str) -> str:
    """
    The chart as SVG text.

    Raises
    ------
    BadRequest
        The `plots` extra is not installed.
    """
    drawn: str = renderer().vegalite_to_svg(specification(chart, theme=theme))
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
