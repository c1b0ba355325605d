"""
How far off are we on what no fit has seen? Every fit again, with whole groups of rows left out in turn.

    python tools/calibration/left_out.py [--workers N]     about six minutes on two cores

The groups: each accelerator, each model family, each engine, each source block, as measurements/groups.toml joins them
(families of one shape, blocks of one publisher). Leaving one out takes all of its rows, of every kind of case, away
from every fit (engines' overheads, training, batches through networks; their own scripts say what is minimised), refits
(`refit.py`), and predicts its rows with what is left through the same door as a user's cases. What only the missing
rows taught is gone: an engine without rows falls back to what the catalogue says of engines that nobody measured, an
architecture without rows to the common value. Kernel grids stay: they come from
kernel tables, never from these rows, and have their own left-out errors (`check.py`).

Writes tools/calibration/left_out.csv.gz (each number as predicted without its accelerator, family, engine, source) and
docs/accuracy.left_out.csv (their medians by block).
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from unittest.mock import patch

import fits

import tonnage.catalog.engines as overheads_table
import tonnage.questions.predict.inference as infer_door
import tonnage.questions.train.setup as train_door
from tonnage_accuracy.grouping import LEFT_OUT, Grouping, group_by, read_grouping
from tonnage_accuracy.left_out import COLUMNS, FILE
from tonnage_accuracy.metrics import absolute_error_share, quantile
from tonnage_accuracy.rows import Row, usable_rows
from tonnage_accuracy.scoring import Score, score
from tonnage_accuracy.tables import write_table

ROOT = Path(__file__).parents[2]
PARTS = 8
"""Shares that the rows as shipped are predicted in."""
PAGE = ROOT / "docs" / "accuracy.left_out.csv"


DOORS = ((overheads_table, "_eras"), (train_door, "training_coefficients"), (infer_door, "offline"))
"""Where predictions look up what is fitted: engines' overheads, training, networks."""


class Fold(NamedTuple):
    """One group that is left out."""

    kind: str
    name: str


def main() -> None:
    """Leave every group out and write both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--workers", type=int, default=2)
    workers, start = parser.parse_args().workers, time.monotonic()
    groups = [Fold(kind, name) for kind in LEFT_OUT for name in dict.fromkeys(group_name(r, kind) for r in all_rows())]
    fits.prepare()
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
        shipped = {(s.id, s.quantity): s for part in pool.map(as_shipped, range(PARTS)) for s in part}
        found = dict(zip(groups, pool.map(without, groups), strict=True))
    left_out = {kind: dict(shipped) for kind in LEFT_OUT}
    for fold, scores in found.items():
        left_out[fold.kind] |= {(s.id, s.quantity): s for s in scores}
    write_table(ROOT / FILE, lines_of(shipped, left_out))
    write_page(shipped, left_out)
    print(f"{len(groups)} groups left out in {time.monotonic() - start:.0f} s")


@cache
def all_rows() -> list[Row]:
    """Every usable row."""
    return usable_rows(ROOT)


def group_name(row: Row, kind: str) -> str:
    """The group of a row that a kind of leaving out takes away."""
    return grouping().leaves_with(row) if kind == "source" else grouping().group(row, kind)


@cache
def grouping() -> Grouping:
    """Families and sources as they are fixed beside the measurements."""
    return read_grouping(ROOT)


def as_shipped(part: int) -> list[Score]:
    """A share of the rows as users get them."""
    return list(score(all_rows()[part::PARTS]))


def without(fold: Fold) -> list[Score]:
    """The rows of a group as predicted by fits that never saw it; nothing where no fit did."""
    rows = [row for row in all_rows() if group_name(row, fold.kind) == fold.name]
    hidden = {row.id for row in rows}
    if not hidden & fits.seen():
        return []
    serving = fits.serving_without(hidden, engine=fold.name if fold.kind == "engine" else "")
    found = MappingProxyType(serving), fits.training_without(hidden), fits.infer_without(hidden)
    with ExitStack() as stack:
        for (module, name), fitted in zip(DOORS, found, strict=True):
            stack.enter_context(patch.object(module, name, lambda fitted=fitted: fitted))
        return list(score(rows))


Key = tuple[str, str]


def lines_of(shipped: dict[Key, Score], left_out: dict[str, dict[Key, Score]]) -> Iterator[Sequence[str]]:
    """Every number with its four left-out predictions and what each rests on."""
    yield COLUMNS
    for key, said in shipped.items():
        cells: list[str] = []
        for kind in LEFT_OUT:
            item = left_out[kind].get(key, said)
            cells += ["", ""] if item.predicted is None else [f"{item.predicted:.6g}", item.level]
        yield (*key, *cells)


def write_page(shipped: dict[Key, Score], left_out: dict[str, dict[Key, Score]]) -> None:
    """Medians by block and quantity, and over all blocks, for docs/accuracy.md."""
    lines: list[list[str]] = []
    for every in (False, True):
        for (block, kind, quantity), own in group_by(
            shipped.values(), lambda s, e=every: ("all" if e else s.block, s.kind, s.quantity)
        ).items():
            medians = [median(own, left_out[group]) for group in LEFT_OUT]
            if quantity != "fits" and any(value is not None for value in medians):
                lines.append([block, kind, quantity, *("" if v is None else f"{v:.4f}" for v in medians)])
    lines.sort(key=lambda line: (line[0] == "all", line))
    write_table(PAGE, [["block", "kind", "quantity", *LEFT_OUT], *lines])


def median(own: Iterable[Score], of: dict[Key, Score]) -> float | None:
    """Median error of some numbers under other predictions."""
    found = [of.get((s.id, s.quantity), s) for s in own]
    return quantile(
        [absolute_error_share(predicted=s.predicted, measured=s.measured) for s in found if s.predicted and s.measured],
        0.5,
    )


if __name__ == "__main__":
    main()
