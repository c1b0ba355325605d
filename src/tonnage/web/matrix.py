"""What runs on a machine as a matrix: models by kind and size, formats across, speed and longest context in each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tonnage import catalog
from tonnage.catalog import model_name
from tonnage.domain.machine import LocalAnswer, LocalRow
from tonnage.domain.model import Moe
from tonnage.record import Record
from tonnage.units import GiB

BANDS: Final = ((100.0, "100 tokens/s or more"), (50.0, "50 to 100"), (25.0, "25 to 50"), (10.0, "10 to 25"),
                (0.0, "slower"))  # fmt: skip
"""Least output and its name, fastest first: shades of the cells. [tokens/s]"""
BILLION: Final = 1e9


class Cell(Record, kw_only=True):
    """One model in one format."""

    speed: str = ""
    """Empty = not offered in this format, or does not fit."""
    interval: str = ""
    context: str = ""
    moved: str = ""
    """What lies in the host's memory."""
    band: int = 0
    """From 1, the fastest; 0 = nothing runs."""
    best: bool = False
    """The format that is recommended for this model."""


class MatrixRow(Record, kw_only=True):
    """One model."""

    name: str
    size: str
    score: str
    cells: tuple[Cell, ...]


class Matrix(Record, kw_only=True):
    """The whole, in groups of models that a reader compares."""

    machine: str
    benchmark: str
    heads: tuple[str, ...]
    groups: tuple[tuple[str, tuple[MatrixRow, ...]], ...]
    bands: tuple[str, ...]
    lacking: int
    """Models that fit in no format."""


def matrix_of(answer: Any) -> Matrix | None:
    """The matrix of an answer that holds every format; None of any other."""
    if not isinstance(answer, LocalAnswer) or not answer.all_rows:
        return None
    formats = list(dict.fromkeys(row.format.upper() for row in answer.all_rows if _gguf(row)))
    # In the order of their bits, as the names of these formats say it.
    heads = (*sorted(formats, key=lambda name: name.lstrip("Q"), reverse=True), "own format")
    best = {(row.model, row.format.upper()) for row in answer.rows}
    rows: dict[str, list[LocalRow]] = {}
    for row in answer.all_rows:
        rows.setdefault(row.model, []).append(row)
    groups: dict[str, list[MatrixRow]] = {"Dense": [], "Mixture of experts": []}
    for model, found in sorted(rows.items(), key=lambda item: -item[1][0].parameters):
        cells = {row.format.upper() if _gguf(row) else "own format": _cell(row, best=best) for row in found}
        sparse = any(isinstance(layer.feed_forward, Moe) for layer in catalog.model(model).layers)
        first = found[0]
        groups["Mixture of experts" if sparse else "Dense"].append(
            MatrixRow(
                name=model_name(model),
                size=f"{first.parameters / BILLION:.3g} B",
                score=f"{'> ' if stands.beside else ''}{stands.score:.1f}" if (stands := first.stands) else "",
                cells=tuple(cells.get(head, Cell()) for head in heads),
            )
        )
    return Matrix(
        machine=answer.machine,
        benchmark=answer.benchmark,
        heads=heads,
        lacking=len(answer.infeasible),
        groups=tuple((name, tuple(held)) for name, held in groups.items() if held),
        bands=tuple(name for _, name in BANDS),
    )


def fastest(rows: Sequence[LocalRow]) -> tuple[tuple[str, LocalRow], ...]:
    """
    Models that lead in something, each with what: best published score, largest, longest context, fastest.

    The first three, no model twice; of those fast enough to read along (10 tokens/s) where any is, else of all. `rows`
    come with the best score first; none where there are none.
    """
    fast = [row for row in rows if row.decode_per_s.value >= BANDS[3][0]] or list(rows)
    if not fast:
        return ()
    scored = fast[0]
    wanted = (
        ("Best published score", scored),
        ("Largest", max(fast, key=lambda row: row.parameters)),
        ("Longest context", max(fast, key=lambda row: (row.most_context, row.parameters))),
        ("Fastest", max(fast, key=lambda row: row.decode_per_s.value)),
    )
    named: dict[str, tuple[str, LocalRow]] = {}
    for name, row in wanted:
        named.setdefault(row.model, (name, row))
    return tuple(named.values())[:3]


def _cell(row: LocalRow, *, best: set[tuple[str, str]]) -> Cell:
    """One row as a cell; `best` are the models and formats that are recommended."""
    speed = row.decode_per_s
    band = next(place for place, (least, _) in enumerate(BANDS, 1) if speed.value >= least)
    ends = (speed.low or speed.value, speed.high or speed.value)
    moved = row.offload.moved_bytes
    own = "" if _gguf(row) else f" {row.format.upper()}"
    return Cell(
        speed=f"{_two(speed.value)}{own}",
        interval=f"{_two(ends[0])} to {_two(ends[1])}",
        context=f"{row.most_context // 1024}k context",
        band=band,
        best=(row.model, row.format.upper()) in best,
        moved=f"{_two(moved / GiB)} GiB on the host" if moved else "",
    )


def _two(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:,.0f}"


def _gguf(row: LocalRow) -> bool:
    return row.precision.experts is None and row.precision.weights.startswith("gguf-")
