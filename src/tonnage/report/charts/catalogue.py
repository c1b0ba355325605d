"""Pictures of the catalogue: prices over time, and what is predicted of published measurements against them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from tonnage.catalog import model_name
from tonnage.domain.listing import Listing
from tonnage.domain.published import Published
from tonnage.report.charts.chart import Chart, axis, colour, layer_charts, log_axis, records
from tonnage.units import show

MOST_SOURCES: Final = 5
"""Sources with a colour of their own; the rest share one."""
OTHERS: Final = "other sources"
MOST_PATHS: Final = 6
"""Accelerators in one picture."""


def price_chart(listing: Listing) -> tuple[Chart, ...]:
    """The path of each accelerator, those with most days first; nothing where none has two."""
    paths: dict[str, list[dict[str, Any]]] = {}
    for row in listing.rows:
        paths.setdefault(row["accelerator"], []).append(row)
    several = sorted((path for path in paths.values() if len(path) > 1), key=lambda path: -len(path))[:MOST_PATHS]
    if not several:
        return ()
    values = [
        (row["accelerator"], row["date"], row["market"], row["low"], row["high"], row["sellers"])
        for path in several
        for row in path
    ]
    x = axis("date", "day of the prices", kind="temporal")
    shade = {**colour("accelerator"), **({"legend": None} if len(several) == 1 else {})}
    y = axis("market", "USD per accelerator-hour, on demand", scale={"type": "log"})
    body = layer_charts(
        records(("accelerator", "date", "market", "low", "high", "sellers"), values),
        {
            "mark": {"type": "area", "interpolate": "step-after", "fillOpacity": 0.15},
            "encoding": {
                "x": x,
                "y": axis("low", "", scale={"type": "log"}),
                "y2": {"field": "high"},
                "color": shade,
            },
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
            "Price of an accelerator-hour, on demand",
            "Median over sellers of their last price until a day, and the range of eight in ten of them. Sellers "
            "join on the day of their first dated price, so that a step may be another seller and not another price.",
            body=body,
            columns=("accelerator", "day", "USD/h", "spread", "sellers"),
            rows=tuple(rows),
        ),
    )


Held = tuple[Published, float]
"""A published result, and what is predicted of one of its numbers, in that number's unit."""


def held_chart(field: str, held: Sequence[Held], *, title: str, unit: str) -> Chart:
    """
    One kind of measured number, each predicted by this release, by source.

    Parameters
    ----------
    field : str
        Of `Published.measured`, which every result has.
    held : sequence
        Two at least.
    title, unit : str
        What the number is called, and its unit.
    """
    counted = Counter(publisher(result) for result, _ in held)
    shown = [name for name, _ in counted.most_common(MOST_SOURCES)]
    values = [
        (publisher(result), publisher(result) if publisher(result) in shown else OTHERS, model_name(result.model),
         result.measured[field], predicted)
        for result, predicted in held
    ]  # fmt: skip
    ends = [value for row in values for value in row[3:]]
    low, high = min(ends), max(ends)
    x, y = (log_axis(name, f"{name} {title} [{unit}]", over=ends) for name in ("measured", "predicted"))
    body = layer_charts(
        records(("source", "colour", "model", "measured", "predicted"), values),
        {"data": records(("measured", "predicted"), [(low, low), (high, high)]),
         "mark": {"type": "line", "strokeDash": [5, 4], "color": "#7f7f7f", "strokeWidth": 1.5},
         "encoding": {"x": x, "y": y}},
        {"mark": {"type": "point", "filled": True, "size": 36, "opacity": 0.65, "tooltip": {"content": "data"}},
         "encoding": {"x": x, "y": y, "color": {**colour("colour"), "sort": [*shown, OTHERS]}}},
    )  # fmt: skip
    return Chart(
        f"held-{field.replace('_', '-')}",
        f"{title[:1].upper()}{title[1:]}: predicted against measured",
        f"Each point is one of {len(held):,} published measurements; on the dashed line the prediction is what was "
        "measured. The fits have read most of them.",
        body=body,
        columns=("model", f"measured [{unit}]", f"predicted [{unit}]", "source"),
        rows=tuple(
            (model, show(measured, "count"), show(predicted, "count"), source)
            for source, _, model, measured, predicted in values
        ),
    )


def publisher(result: Published) -> str:
    """
    Who published a result: a repository, or what stands before the first comma or bracket of its source.

    Examples
    --------
    >>> one = Published(id="A-1", kind="serve", model="m", family="f", parameters=1.0, active_parameters=1.0,
    ...                 accelerator="h100", count=1.0, engine="vllm", source="QwenLM/Qwen3 docs/speed.md (2025)")
    >>> publisher(one)
    'QwenLM/Qwen3'
    """
    first = result.source.split(" ")[0]
    return first if "/" in first else result.source.partition(",")[0].partition(" (")[0]
