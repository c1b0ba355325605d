"""What fills an accelerator's memory: a stack per accelerator, with the line it must stay under."""

from __future__ import annotations

from typing import Final

import msgspec

from tonnage.domain.answer import Quantity
from tonnage.report.charts.chart import Chart, axis, layer_charts, records
from tonnage.units import show

__all__ = ["Stack", "memory_chart"]

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


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """One bar: whose memory, what is in it, and the lines drawn across."""

    label: str
    memory: Quantity
    limit_bytes: float | None = None
    """What may be used. [bytes]"""


def memory_chart(stacks: tuple[Stack, ...]) -> Chart | None:
    """The stacks as horizontal bars; None when there are none."""
    drawn = _named_apart(stacks[:MOST])
    if not drawn:
        return None
    values = [
        (stack.label, band, size / GIB, order)
        for stack in drawn
        for order, (band, size) in enumerate(_bands(stack.memory).items())
    ]
    limits = [(stack.label, stack.limit_bytes / GIB) for stack in drawn if stack.limit_bytes is not None]
    y = axis("accelerator", "", kind="nominal", sort=[stack.label for stack in drawn])
    bars = {
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "y": y,
            "x": axis("gib", "memory of one accelerator [GiB]", stack="zero"),
            "color": {"field": "part", "type": "nominal", "title": None, "sort": None},
            "order": {"field": "order"},
        },
    }
    line = {
        "data": records(("accelerator", "limit"), limits),
        "mark": {"type": "tick", "thickness": 4, "size": 36, "tooltip": True},
        "encoding": {"y": y, "x": axis("limit", "memory of one accelerator [GiB]")},
    }
    rows = tuple(
        (stack.label, band, show(size, "bytes")) for stack in drawn for band, size in _bands(stack.memory).items()
    ) + tuple((stack.label, "may use", show(stack.limit_bytes, "bytes")) for stack in drawn if stack.limit_bytes)
    return Chart(
        name="memory",
        title="What fills the memory",
        says="Memory of one accelerator, opened into parts; the upright line is what may be used of it.",
        body=layer_charts(records(("accelerator", "part", "gib", "order"), values), bars, *([line] if limits else [])),
        columns=("accelerator", "part", "size"),
        rows=rows,
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


def _named_apart(stacks: tuple[Stack, ...]) -> tuple[Stack, ...]:
    """Bars of the same name would be drawn as one."""
    seen: dict[str, int] = {}
    named = []
    for stack in stacks:
        seen[stack.label] = seen.get(stack.label, 0) + 1
        again = f"{stack.label} ({seen[stack.label]})" if seen[stack.label] > 1 else stack.label
        named.append(msgspec.structs.replace(stack, label=again))
    return tuple(named)
