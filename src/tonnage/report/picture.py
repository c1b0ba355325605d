"""Charts as files: SVG, PNG, or one HTML page that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tonnage.errors import BadRequest, echo
from tonnage.report.charts.chart import Chart, renderer, specification
from tonnage.report.html import figures, standalone

SUFFIXES: Final = (".svg", ".png", ".html")


def check_path(path: str) -> None:
    """
    Refuse a file that could not be drawn later, before a long calculation is wasted on it.

    Raises
    ------
    BadRequest
        Another suffix, or the `plots` extra missing.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise BadRequest(f"--plot: '{echo(path)}' must end in {', '.join(SUFFIXES)}")
    if suffix != ".html":
        renderer()


def save(charts: tuple[Chart, ...], path: str, *, title: str = "Tonnage", page: str = "") -> None:
    """
    Write the charts to a file, by its suffix.

    Parameters
    ----------
    charts : tuple of Chart
        SVG and PNG hold one picture: all charts below each other.
    path : str
        Ends in .svg, .png or .html.
    title : str
        Of the HTML page.
    page : str
        The HTML body around the charts when the page tells more than they do; empty = the charts alone.

    Raises
    ------
    BadRequest
        Another suffix, nothing to draw, the `plots` extra missing, or the file cannot be written.
    """
    check_path(path)
    suffix = Path(path).suffix.lower()
    if not charts and not page:
        raise BadRequest("--plot: this answer has nothing to draw; its sentence says why")
    if suffix == ".html":
        content: bytes = standalone(page or figures(charts), title=title).encode()
    else:
        together = _below_each_other(charts)
        drawn = renderer().vegalite_to_svg(together) if suffix == ".svg" else None
        content = drawn.encode() if drawn is not None else renderer().vegalite_to_png(together, scale=2)
    try:
        Path(path).write_bytes(content)
    except OSError as error:
        raise BadRequest(f"--plot: '{echo(path)}' cannot be written: {(error.strerror or 'unknown').lower()}") from None


def _below_each_other(charts: tuple[Chart, ...]) -> dict[str, Any]:
    """All charts in one document, on white: a file is looked at on any ground."""
    documents = [specification(chart) for chart in charts]
    shared = {"$schema": documents[0]["$schema"], "config": {**documents[0]["config"], "background": "white"}}
    inner = [
        {key: value for key, value in document.items() if key not in ("$schema", "config")} for document in documents
    ]
    if len(inner) == 1:
        return {**shared, **inner[0]}
    # Parameters of one picture among several are not seen by its own layers: they belong to the whole document.
    known = {one["name"]: one for document in inner for one in document.pop("params", ())}
    shared |= {"params": list(known.values())} if known else {}
    return {**shared, "vconcat": inner, "resolve": {"scale": {"color": "independent"}}}
