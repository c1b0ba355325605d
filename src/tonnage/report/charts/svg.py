"""One chart as SVG text, drawn by vl-convert: no browser, no request."""

from __future__ import annotations

import importlib.util
from typing import Any

from tonnage.errors import BadRequest
from tonnage.report.charts.chart import Chart, specification

__all__ = ["renderer", "svg"]


def svg(chart: Chart, *, theme: str = "light") -> str:
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
