"""
How far off are we on what no fit has seen? Every fit again, with whole groups of rows left out in turn.

    python tools/calibration/left_out.py                 about six minutes on two cores
    python tools/calibration/left_out.py --only family source   some kinds of groups; what is stored of the others stays
    python tools/calibration/left_out.py --only source --group InferenceMAX   some groups of them; all else stays as
    stored
    python tools/calibration/left_out.py --rows training the rows of one table only; what is stored of the others stays
    python tools/calibration/left_out.py --engine llamacpp   rows of some engines only, and their fits; all else stays
    python tools/calibration/left_out.py --check         some refits against complete fits
    python tools/calibration/left_out.py --audit         engines' parameters against groups, fitted against prior

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
import csv
import gzip
import io
import multiprocessing
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import fits
from msgspec.structs import replace

import tonnage.catalog.engines as overheads_table
import tonnage.questions.predict.inference as infer_door
import tonnage.questions.predict.training as train_door
from tonnage_accuracy.grouping import LEFT_OUT, Grouping, group_by, read_grouping
from tonnage_accuracy.left_out import COLUMNS, left_out_predictions
from tonnage_accuracy.metrics import absolute_error_share, quantile
from tonnage_accuracy.rows import Row, read_rows, text
from tonnage_accuracy.scoring import Score, score

ROOT = Path(__file__).parents[2]
STORED = ROOT / "tools" / "calibration" / "left_out.csv.gz"
PARTS = 8
"""Shares that the rows as shipped are predicted in."""
TABLES: list[str] = []
"""Tables whose rows are left out; empty = all."""
ENGINES: list[str] = []
"""Engines whose rows are left out; empty = all."""
PAGE = ROOT / "docs" / "accuracy.left_out.csv"


class Fold(NamedTuple):
    """One group that is left out."""

    kind: str
    name: str


def main() -> None:
    """Leave every group out, write both tables, print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--only", choices=LEFT_OUT, nargs="+", default=list(LEFT_OUT))
    parser.add_argument("--group", nargs="+", default=[])
    parser.add_argument("--rows", choices=["training"])
    parser.add_argument("--engine", nargs="+", default=[], help="as the measurements name them")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--audit", action="store_true")
    given = parser.parse_args()
    if given.check or given.audit:
        fits.check() if given.check else fits.audit()
        return
    start = time.monotonic()
    if given.rows:
        TABLES.append(given.rows)
    ENGINES.extend(given.engine)
    rows = all_rows()
    kinds = tuple(kind for kind in LEFT_OUT if kind in given.only)
    groups = [Fold(kind, name) for kind in kinds for name in group_by(rows, lambda r, k=kind: group_name(r, k))]
    groups = [fold for fold in groups if not given.group or fold.name in given.group]
    context = multiprocessing.get_context("fork")
    if ENGINES:
        fits.only_engines(ENGINES)
    fits.prepare(*TABLES)
    with ProcessPoolExecutor(given.workers, mp_context=context) as pool:
        shipped = {(s.id, s.quantity): s for part in pool.map(as_shipped, range(PARTS)) for s in part}
        found = dict(zip(groups, pool.map(without, groups), strict=True))
    whole = () if given.group else kinds
    left_out = {kind: dict(shipped) if kind in whole else as_stored(shipped, kind) for kind in LEFT_OUT}
    for fold, scores in found.items():
        left_out[fold.kind] |= {(s.id, s.quantity): s for s in scores}
    store(shipped, left_out)
    if not ENGINES:  # a block's medians need the rows of its other engines
        write_page(shipped, left_out)
    show(shipped, left_out)
    print(f"{len(groups)} groups left out in {time.monotonic() - start:.0f} s")


@cache
def all_rows() -> tuple[Row, ...]:
    """Every usable row."""
    files = sorted((ROOT / "measurements").glob(f"{TABLES[0] if TABLES else ''}*.csv.gz"))
    rows = (row for path in files for row in read_rows(path) if row.usable)
    return tuple(row for row in rows if not ENGINES or (text(row, "engine") or text(row, "backend")) in ENGINES)


@cache
def grouping() -> Grouping:
    """Families and sources as they are fixed beside the measurements."""
    return read_grouping(ROOT)


def group_name(row: Row, kind: str) -> str:
    """The group of a row that a kind of leaving out takes away."""
    return grouping().leaves_with(row) if kind == "source" else grouping().group(row, kind)


def as_stored(shipped: dict[Key, Score], kind: str) -> dict[Key, Score]:
    """What an earlier run stored for a kind of group; a number that it did not know has none."""
    stored = left_out_predictions(ROOT, kind)
    return {
        key: replace(item, predicted=stored[key].predicted, level=stored[key].level)
        if key in stored
        else replace(item, predicted=None)
        for key, item in shipped.items()
    }


def as_shipped(part: int) -> list[Score]:
    """A share of the rows as users get them."""
    return list(score(all_rows()[part::PARTS]))


def without(fold: Fold) -> list[Score]:
    """The rows of a group as predicted by fits that never saw it; nothing where no fit did."""
    rows = [row for row in all_rows() if group_name(row, fold.kind) == fold.name]
    hidden = {row.id for row in rows}
    if not any(hidden & set(ids) for ids in fits.seen(*TABLES)):
        return []
    with ExitStack() as stack:
        if ENGINES:
            serving = fits.serving_without(hidden, engine=fold.name if fold.kind == "engine" else "")
            stack.enter_context(swapped(overheads_table, "_eras", lambda: MappingProxyType(serving)))
            return list(score(rows))
        training = fits.training_without(hidden)
        stack.enter_context(swapped(train_door, "training_coefficients", lambda: training))
        if TABLES:
            return list(score(rows))
        serving = fits.serving_without(hidden, engine=fold.name if fold.kind == "engine" else "")
        stack.enter_context(swapped(overheads_table, "_eras", lambda: MappingProxyType(serving)))
        networks = fits.infer_without(hidden)
        stack.enter_context(swapped(infer_door, "offline", lambda: networks))
        return list(score(rows))


@contextmanager
def swapped(module: Any, name: str, value: Any) -> Iterator[None]:
    """A fact of the catalogue replaced for a while."""
    kept = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, kept)


Key = tuple[str, str]


def store(shipped: dict[Key, Score], left_out: dict[str, dict[Key, Score]]) -> None:
    """Every number with its four left-out predictions and what each rests on; those of other tables as they were."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    if TABLES or ENGINES:
        own = {row.id for row in all_rows()}
        with gzip.open(STORED, "rt", encoding="utf-8", newline="") as file:
            writer.writerows(line for line in list(csv.reader(file))[1:] if line[0] not in own)
    for key, said in shipped.items():
        cells: list[str] = []
        for kind in LEFT_OUT:
            item = left_out[kind].get(key, said)
            cells += ["", ""] if item.predicted is None else [f"{item.predicted:.6g}", item.level]
        writer.writerow([*key, *cells])
    with STORED.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
        packed.write(text.getvalue().encode())


def write_page(shipped: dict[Key, Score], left_out: dict[str, dict[Key, Score]]) -> None:
    """Medians by block and quantity, and over all blocks, for docs/accuracy.md."""
    lines: list[list[str]] = []
    if TABLES:
        fresh = {score.kind for score in shipped.values()}
        with PAGE.open(encoding="utf-8", newline="") as file:
            lines = [line for line in list(csv.reader(file))[1:] if line[1] not in fresh]
    for every in (False, True):
        for (block, kind, quantity), own in group_by(
            shipped.values(), lambda s, e=every: ("all" if e else s.block, s.kind, s.quantity)
        ).items():
            medians = [median(own, left_out[group]) for group in LEFT_OUT]
            if quantity != "fits" and any(value is not None for value in medians):
                lines.append([block, kind, quantity, *("" if v is None else f"{v:.4f}" for v in medians)])
    with PAGE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["block", "kind", "quantity", *LEFT_OUT])
        writer.writerows(sorted(lines, key=lambda line: (line[0] == "all", line)))


def median(own: Iterable[Score], of: dict[Key, Score]) -> float | None:
    """Median error of some numbers under other predictions."""
    found = [of.get((s.id, s.quantity), s) for s in own]
    return quantile(
        [absolute_error_share(predicted=s.predicted, measured=s.measured) for s in found if s.predicted and s.measured],
        0.5,
    )


def show(shipped: dict[Key, Score], left_out: dict[str, dict[Key, Score]]) -> None:
    """In sample beside left out, for every kind and quantity, and for serving by block."""

    def line(name: str, own: Sequence[Score]) -> None:
        cells = [median(own, shipped), *(median(own, of) for of in left_out.values())]
        shown = "".join("       -" if cell is None else f"{cell:8.1%}" for cell in cells)
        print(f"{name:50s} {len(own):5d} {shown}")

    print(f"{'':50s} {'rows':>5s} {'as is':>8s}" + "".join(f"{kind[:7]:>8s}" for kind in left_out))
    groups = group_by(shipped.values(), lambda s: (s.kind, s.quantity))
    for (kind, quantity), own in sorted(groups.items()):
        line(f"{kind} {quantity}", own)
    for (kind, quantity, block), own in sorted(
        group_by(shipped.values(), lambda s: (s.kind, s.quantity, s.block)).items()
    ):
        if len(own) >= 20 and quantity != "fits":
            line(f"  {kind} {quantity} {block}", own)


if __name__ == "__main__":
    main()
