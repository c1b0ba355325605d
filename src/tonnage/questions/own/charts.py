"""What a machine or an inventory runs, as a picture: published score against output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tonnage.catalog import model_name
from tonnage.core.quality import share_kept
from tonnage.domain.answer import Quantity
from tonnage.domain.machine import LocalAnswer, LocalRow
from tonnage.questions.own.question import OwnPlan, OwnRow
from tonnage.report.charts.chart import Chart, axis, colour, layer_charts, log_axis, records

NEAR: Final = (2.0, 0.06)
"""Points so close in output (a factor) and score (a share) have names that could lie on each other."""


class _Choice(NamedTuple):
    name: str
    group: str
    score: float
    rate: float
    """[tokens/s]"""
    low: float
    high: float


def local_charts(answer: LocalAnswer) -> tuple[Chart | None, ...]:
    """Models of one machine; nothing where they do not differ in a published score."""
    rows = [
        _choice(row, row.format, on=answer.machine, rate=row.decode_per_s) for row in answer.all_rows or answer.rows
    ]
    return (_scores(rows, answer.benchmark),)


def own_charts(plan: OwnPlan) -> tuple[Chart | None, ...]:
    """Models of every group; nothing where they do not differ in a published score."""
    rows = [
        _choice(row, row.weights, on=group.name, rate=row.output_tokens_per_s)
        for group in plan.groups
        for row in group.rows
    ]
    return (_scores(rows, plan.benchmark),)


def _choice(row: LocalRow | OwnRow, weights: str, *, on: str, rate: Quantity) -> _Choice:
    """A row with what its format keeps of the score; 0 = no score."""
    name = f"{model_name(row.model)} {weights.removeprefix('gguf-')}"
    score = (row.quality or 0.0) * share_kept(row.change)
    return _Choice(name, on, score, rate.value, rate.low or rate.value, rate.high or rate.value)


def _scores(found: Sequence[_Choice], benchmark: str) -> Chart | None:
    """Score over output with its 90 % interval; those that no other beats in both on their group are named."""
    found = [one for one in found if one.score]
    if len({one.score for one in found}) < 2:
        return None
    groups = list(dict.fromkeys(one.group for one in found))
    values: list[tuple[Any, ...]] = []
    for one in sorted(found, key=lambda one: one.rate):
        named = "" if any(_beats(other, one) for other in found) else one.name
        last = next((value for value in reversed(values) if value[-2] and named), None)
        # Names of every second group stand below their points, and one that would lie on the name before it.
        near = last is not None and one.rate < NEAR[0] * last[3] and last[2] - one.score < NEAR[1] * one.score
        below = not last[-1] if last is not None and near else bool(groups.index(one.group) % 2)
        values.append((*one, named, below))
    ends = [end for one in found for end in (one.low, one.high)]
    x = log_axis("rate", "output tokens/s (right is faster), log scale", over=ends)
    at: dict[str, Any] = {
        "x": x,
        "y": axis("score", f"{benchmark} in this format (up is better)", scale={"zero": False, "padding": 24}),
    }
    if len(groups) > 1:
        at["color"] = colour("group")
    span: dict[str, Any] = {**at, "x": {**x, "field": "low"}, "x2": {"field": "high"}}
    labels: list[dict[str, Any]] = [
        {
            "transform": [{"filter": {"field": "below", "equal": below}}],
            "mark": {"type": "text", "dy": away},
            "encoding": {"x": at["x"], "y": at["y"], "text": {"field": "label"}},
        }
        for below, away in ((False, -9), (True, 16))
        if any(value[-1] is below for value in values)  # an axis over no values has no extent
    ]
    body = layer_charts(
        records((*_Choice._fields, "label", "below"), values),
        {"mark": {"type": "rule", "style": "interval"}, "encoding": span},
        {"mark": {"type": "point", "filled": True, "size": 70, "tooltip": {"content": "data"}}, "encoding": at},
        *labels,
    )
    return Chart(
        "scores",
        "Quality against speed",
        f"Each point is a model in a format: its {benchmark} score over its output with the 90 % interval; those that "
        "no other beats in both are named.",
        body=body,
        columns=("model", "on", benchmark, "tokens/s", "90 % interval"),
        rows=tuple(
            (one.name, one.group, f"{one.score:.1f}", f"{one.rate:,.3g}", f"{one.low:,.3g}-{one.high:,.3g}")
            for one in found
        ),
    )


def _beats(other: _Choice, one: _Choice) -> bool:
    """Whether another on the same group is as good and as fast, and better in one of both."""
    pair, own = other[2:4], one[2:4]
    return other.group == one.group and pair != own and pair[0] >= own[0] and pair[1] >= own[1]
