"""
What is predicted for a case whose source, or whose model family, nobody had measured? The figures that come first.

A number stands on the fit that never saw its group, where `tools/calibration/left_out.py` has stored one, inside an
interval
whose width never saw the group either (`tools/calibration/widths.py`). A number of a table that no fit has read
(`groups.toml`, `unseen`) and that has no stored one stands on the catalogue as shipped. Every other number is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tonnage.domain.accuracy import GroupErrors, OutOfSample, SetAside, Standing
from tonnage.validation.grouping import Grouping, read_grouping
from tonnage.validation.left_out import left_out_predictions, left_out_scores, left_out_widths
from tonnage.validation.rows import Row
from tonnage.validation.scoring import Predict, Score, score
from tonnage.validation.standings import group_errors, standing

__all__ = ["KINDS", "out_of_sample", "set_aside", "without_group"]

KINDS: Final = ("source", "family")


def out_of_sample(rows: Sequence[Row], scores: Sequence[Score], *, root: Path) -> OutOfSample:
    """Every figure by source and by family left out, and in sample by source."""
    grouping = read_grouping(root)
    lines: dict[str, list[GroupErrors]] = {}
    for kind in KINDS:
        found = without_group(rows, scores, root=root, kind=kind, grouping=grouping)
        lines[kind] = _lines(rows, found, grouping=grouping, kind=kind)
    fresh = {row.id for row in rows if row.table in grouping.unseen}
    taught = _lines(rows, [item for item in scores if item.id not in fresh], grouping=grouping, kind="source")
    new = _lines(rows, [item for item in scores if item.id in fresh], grouping=grouping, kind="source")
    standings = [*standing(lines["source"], left_out="source"), *standing(lines["family"], left_out="family")]
    return OutOfSample(
        standings=(*standings, *standing(taught, left_out="")),
        sources=tuple(lines["source"]),
        families=tuple(lines["family"]),
        unseen=tuple(standing(new, left_out="source")),
    )


def without_group(
    rows: Iterable[Row], scores: Sequence[Score], *, root: Path, kind: str, grouping: Grouping
) -> list[Score]:
    """The scores as predicted, and as wide, without the row's source or family."""
    stored, known = left_out_predictions(root, kind), {row.id: row for row in rows}
    name = grouping.leaves_with if kind == "source" else grouping.family
    groups = {id_: name(row) for id_, row in known.items()}
    found = left_out_scores(scores, stored, widths=left_out_widths(root, kind), group=groups)
    return [
        item if item.id in known and known[item.id].table in grouping.unseen and (item.id, item.quantity) not in stored
        else out
        for item, out in zip(scores, found, strict=True)
    ]  # fmt: skip


def set_aside(
    rows: Sequence[Row], scores: Sequence[Score], *, every: Iterable[Row], root: Path, predict: Predict
) -> list[SetAside]:
    """
    Figures with and without the rows that are set aside, and with settings put back that a measurement contradicts.

    In sample both ways: no fit read the rows that are set aside, and every fit read those that are not.
    """
    grouping = read_grouping(root)
    every = list(every)
    found = []
    for name in dict.fromkeys(rule.name for rule in grouping.aside):
        hidden = [replace(row, usable=True) for row in every if grouping.set_aside(row) == name]
        found.append(_beside(name, rows, scores, hidden, grouping=grouping, predict=predict))
    known = {row.id: row for row in rows}
    for change in grouping.restored:
        if change.id in known:
            row = known[change.id]
            back = replace(row, cells={**row.cells, change.column: change.value})
            title = f"{change.column} = {change.value} of {change.id}: {change.why}"
            found.append(_beside(title, rows, scores, [back], grouping=grouping, predict=predict))
    return [item for item in found if item.rows]


def _beside(
    name: str, rows: Sequence[Row], scores: Sequence[Score], hidden: Sequence[Row], *, grouping: Grouping,
    predict: Predict,
) -> SetAside:  # fmt: skip
    more = list(score(hidden, predict=predict))
    ids, blocks = {row.id for row in hidden}, {row.block for row in hidden}
    near = [item for item in scores if item.block in blocks]
    both = [*(item for item in near if item.id not in ids), *more]
    whole = [*(row for row in rows if row.id not in ids), *hidden]
    figures = {
        line.figure for line in standing(_lines(whole, more, grouping=grouping, kind="source", fewest=1), left_out="")
    }
    return SetAside(
        name=name,
        rows=len(ids),
        predicted=len({item.id for item in more if item.predicted is not None}),
        without=_of(figures, _lines(rows, near, grouping=grouping, kind="source")),
        with_them=_of(figures, _lines(whole, both, grouping=grouping, kind="source")),
    )


def _of(figures: set[str], lines: Iterable[GroupErrors]) -> tuple[Standing, ...]:
    return tuple(line for line in standing(lines, left_out="") if line.figure in figures)


def _lines(
    rows: Sequence[Row], scores: Iterable[Score], *, grouping: Grouping, kind: str, fewest: int = 0
) -> list[GroupErrors]:
    return group_errors(
        rows,
        scores,
        group=lambda row: grouping.group(row, kind),
        fewest=fewest or grouping.fewest,
        unknown=grouping.mostly_open,
    )
