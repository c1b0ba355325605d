"""What fills an accelerator's memory: a stack per accelerator, with the line it must stay under."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from tonnage.domain.answer import Quantity
from tonnage.report.charts.chart import Chart, axis, colour, layer_charts, records
from tonnage.units import show

Bar = tuple[str, Quantity, float | None]
"""Its name, what fills it, and what may be used. [bytes]"""

GIB: Final = 1024.0**3
MOST: Final = 8
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


def memory_chart(options: Sequence[Any], label: Callable[..., str]) -> Chart | None:
    """
    The memory of each option as a horizontal bar, with the line it must stay under; None when there are none.

    Parameters
    ----------
    options : sequence
        What has `memory` and `limit_bytes`.
    label : callable
        Option -> the name of its bar.
    """
    drawn = _named_apart([(label(one), one.memory, one.limit_bytes) for one in options[:MOST]])
    if not drawn:
        return None
    values = [
        (name, band, size / GIB, order)
        for name, memory, _ in drawn
        for order, (band, size) in enumerate(_bands(memory).items())
    ]
    limits = [(name, limit / GIB) for name, _, limit in drawn if limit is not None]
    y = axis("accelerator", "", kind="nominal", sort=[name for name, _, _ in drawn])
    bars = {
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "y": y,
            "x": axis("gib", "memory of one accelerator [GiB]", stack="zero"),
            "color": colour("part"),
            "order": {"field": "order"},
        },
    }
    line = {
        "data": records(("accelerator", "limit"), limits),
        "mark": {"type": "tick", "thickness": 4, "size": 36, "tooltip": True},
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
        height=44 * len(drawn) + 20,
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
