"""Two measurements of servers from the history: what was another, and what came of it at each load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from tonnage.domain.measurement import COMPARISON_SCHEMA, Entry, HistoryComparison, LoadPair, Measurement, Point
from tonnage.measure.history import Place, entry, measured_server
from tonnage.units import percent

SAME: Final = 0.05
"""By which two runs of the same thing may differ. [-]"""


def compare(first: int, second: int, *, place: Place) -> HistoryComparison:
    """
    Entries of the history side by side, load by load; the ratio is the second over the first.

    Raises
    ------
    TonnageError
        There is none of a number, or it is of no server.
    """
    entries = [replace(entry(place, number), document=None) for number in (first, second)]
    one, other = (measured_server(place, number) for number in (first, second))
    pairs = tuple(_pairs(one, other))
    moved = [pair for pair in pairs if pair.ratio is not None and abs(pair.ratio - 1.0) > SAME]
    judged = sum(pair.ratio is not None for pair in pairs)
    notes = [f"{number}: {run.disowned}" for number, run in ((first, one), (second, other)) if run.disowned]
    if not judged:
        sentence = f"Measurements {first} and {second} have no load in common."
    elif moved:
        sentence = f"{len(moved)} of {judged} numbers differ by more than {percent(SAME)} from {first} to {second}."
    else:
        sentence = f"All {judged} numbers of {first} and {second} agree within {percent(SAME)}."
    return HistoryComparison(
        schema=COMPARISON_SCHEMA,
        sentence=sentence,
        first=entries[0],
        second=entries[1],
        differs=tuple(_differs((entries[0], one), (entries[1], other))),
        pairs=pairs,
        notes=tuple(notes),
    )


def _differs(*runs: tuple[Entry, Measurement]) -> Iterator[tuple[str, str, str]]:
    """What the two were of: machine, address, model, every version, and the engine that answered."""
    said = [
        {
            "machine": which.machine,
            "of": which.subject or "",
            "model": which.model or "",
            "engine": next((point.server.engine for point in run.points if point.server), ""),
            **which.versions,
        }
        for which, run in runs
    ]
    for name in dict.fromkeys([*said[0], *said[1]]):
        pair = (said[0].get(name, ""), said[1].get(name, ""))
        if pair[0] != pair[1]:
            yield name, *pair


def _pairs(one: Measurement, other: Measurement) -> Iterator[LoadPair]:
    """Numbers of each load that both have."""
    theirs = {_load(point): point for point in other.points}
    for point in one.points:
        match = theirs.get(_load(point))
        if match is None:
            continue
        for name in ("ttft_s", "tpot_s", "output_tokens_per_s", "cached_share"):
            a, b = _number(point, name), _number(match, name)
            if a is None and b is None:
                continue
            ratio = b / a if a and b and name != "cached_share" else None
            yield LoadPair(load=_load(point), name=name, first=a, second=b, ratio=ratio)


def _load(point: Point) -> str:
    lengths = f"{point.prompt_tokens or 0:,.0f} in / {point.output_tokens or 0:,.0f} out"
    return f"{point.level:g}{'/s' if point.rate_per_s is not None else ' at once'}, {lengths}"


def _number(point: Point, name: str) -> float | None:
    value = getattr(point, name)
    return value if value is None or isinstance(value, float) else value.mean
