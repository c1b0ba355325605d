"""Prices over time as a picture: the market's middle and its spread on every day that a seller's price is of."""

from __future__ import annotations

from typing import Any

from tonnage.domain.listing import Listing
from tonnage.report.charts.chart import Chart, axis, colour, layer_charts, records

MOST = 6
"""Accelerators in one picture."""


def price_chart(listing: Listing) -> tuple[Chart, ...]:
    """The path of each accelerator, those with most days first; nothing where none has two."""
    paths: dict[str, list[dict[str, Any]]] = {}
    for row in listing.rows:
        paths.setdefault(row["accelerator"], []).append(row)
    several = sorted((path for path in paths.values() if len(path) > 1), key=lambda path: -len(path))[:MOST]
    if not several:
        return ()
    values = [
        (row["accelerator"], row["date"], row["market"], row["low"], row["high"], row["sellers"])
        for path in several
        for row in path
    ]
    x = axis("date", "day of the prices", kind="temporal")
    shade = colour("accelerator")
    y = axis("market", "USD per accelerator-hour, on demand", scale={"type": "log"})
    body = layer_charts(
        records(("accelerator", "date", "market", "low", "high", "sellers"), values),
        {
            "mark": {"type": "area", "opacity": 0.15},
            "encoding": {"x": x, "y": axis("low", "", scale={"type": "log"}), "y2": {"field": "high"}, "color": shade},
        },
        {
            "mark": {"type": "line", "point": True, "interpolate": "step-after", "tooltip": True},
            "encoding": {"x": x, "y": y, "color": shade},
        },
    )
    rows = [(name, day, f"{price:.2f}", f"{low:.2f}-{high:.2f}", f"{n:g}") for name, day, price, low, high, n in values]
    return (
        Chart(
            "prices",
            "What an accelerator-hour was asked for",
            "Median over sellers of their last price until a day, and the range of eight in ten of them. Sellers "
            "join on the day of their first dated price, so that a step may be another seller and not another price.",
            body=body,
            columns=("accelerator", "day", "USD/h", "spread", "sellers"),
            rows=tuple(rows),
        ),
    )
