"""What a machine or an inventory runs, as a picture: published score against output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from tonnage.catalog import model_name
from tonnage.domain.answer import Quantity
from tonnage.domain.machine import LocalAnswer, LocalRow
from tonnage.questions.own.local import score_of
from tonnage.questions.own.question import OwnPlan, OwnRow
from tonnage.report.charts.chart import (
    HEIGHT,
    PLACED,
    Chart,
    along,
    axis,
    colour,
    layer_charts,
    log_axis,
    name_layers,
    place_names,
    records,
)


class _Choice(NamedTuple):
    name: str
    group: str
    score: float
    rate: float
    """[tokens/s]"""
    low: float
    high: float


def format_name(weights: str) -> str:
    """A format of weights as its makers write it: "Q6_K", "FP8"."""
    return weights.removeprefix("gguf-").upper()


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
    name = f"{model_name(row.model)} {format_name(weights)}"
    return _Choice(name, on, score_of(row), rate.value, rate.low or rate.value, rate.high or rate.value)


def _scores(found: Sequence[_Choice], benchmark: str) -> Chart | None:
    """Score over output with its 90 % interval; names are of those that no other beats in both on their group."""
    found = [one for one in found if one.score]
    if len({one.score for one in found}) < 2:
        return None
    ends = [end for one in found for end in (one.low, one.high)]
    x = log_axis("rate", "output tokens/s (right is faster), log scale", over=ends)
    at: dict[str, Any] = {
        "x": x,
        "y": axis("score", f"{benchmark} in this format (up is better)", scale={"zero": False, "padding": 24}),
    }
    if len({one.group for one in found}) > 1:
        at["color"] = colour("group")
    span: dict[str, Any] = {**at, "x": {**x, "field": "low"}, "x2": {"field": "high"}}
    best, place = _best(found), along(x, ends)
    low, high = (end(one.score for one in found) for end in (min, max))
    down = {one: HEIGHT * (high - one.score) / (high - low) for one in found}
    places = dict(zip(best, place_names((one.name, place(one.rate), down[one]) for one in best), strict=True))
    body = layer_charts(
        records((*_Choice._fields, *PLACED), [(*one, *places.get(one, ("", 0, 0.0))) for one in found]),
        {"mark": {"type": "rule", "style": "interval"}, "encoding": span},
        {"mark": {"type": "point", "filled": True, "size": 70, "tooltip": {"content": "data"}}, "encoding": at},
        *name_layers(places.values(), at),
    )
    return Chart(
        "scores",
        "Quality against speed",
        f"Each point is a model in a format: its {benchmark} score over its output with the 90 % interval; names are "
        "of those that no other beats in both.",
        body=body,
        columns=("model", "on", benchmark, "tokens/s", "90 % interval"),
        rows=tuple(
            (one.name, one.group, f"{one.score:.1f}", f"{one.rate:,.3g}", f"{one.low:,.3g}-{one.high:,.3g}")
            for one in found
        ),
    )


def _best(found: Sequence[_Choice]) -> list[_Choice]:
    """Choices that no other beats: each model's best first, then its second formats."""
    best = [one for one in sorted(found, key=lambda one: -one.score) if not any(_beats(other, one) for other in found)]
    seen: Counter[tuple[str, str]] = Counter()
    formats: dict[_Choice, int] = {}
    for one in best:
        model = one.group, one.name.rpartition(" ")[0]
        formats[one] = seen[model]
        seen[model] += 1
    return sorted(formats, key=lambda one: formats[one])


def _beats(other: _Choice, one: _Choice) -> bool:
    """Whether another on the same group is as good and as fast, and better in one of both."""
    pair, own = other[2:4], one[2:4]
    return other.group == one.group and pair != own and pair[0] >= own[0] and pair[1] >= own[1]
