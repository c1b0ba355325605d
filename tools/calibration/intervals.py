"""
Fit the 90 % factors of every estimate and write them where predictions look them up.

    python tools/calibration/left_out.py        first: what fits say that never saw the row's group
    python tools/calibration/intervals.py
    python tools/calibration/intervals.py --kind train    one table; --dry writes none

The residuals are those of tools/calibration/left_out.csv.gz: each number as predicted without its accelerator, family,
engine and source. One factor per kind, quantity and level is fitted on whole groups (tonnage_accuracy.intervals),
coverage on groups left out is printed, and src/tonnage/catalog/data/intervals/*.csv is rewritten. Quantities that no
measurement covers keep their row. Rows that contradict themselves (`validation.contradictions`), that were served at
a rate (`queueing`) or peaks of several devices that do not say how the states were split (`undivided`) are scored like
all others but teach no width; the last lines say what share of them is inside.
"""

from __future__ import annotations

import argparse
import csv
import datetime
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from tonnage.catalog.intervals import KINDS
from tonnage_accuracy.cases import kind_of
from tonnage_accuracy.contradictions import contradicting
from tonnage_accuracy.grouping import LEFT_OUT, group_by, labels_of, read_grouping
from tonnage_accuracy.intervals import QUANTITY_OF, Factor, fit, levels_of
from tonnage_accuracy.left_out import left_out_predictions
from tonnage_accuracy.metrics import quantile
from tonnage_accuracy.quantities import measured_numbers
from tonnage_accuracy.rows import Row, number, read_rows, text
from tonnage_accuracy.scoring import Score

ROOT = Path(__file__).parents[2]
TABLES = ROOT / "src" / "tonnage" / "catalog" / "data" / "intervals"
COLUMNS = ("quantity", "rung", "factor", "groups", "rows", "coverage_90", "coverage_rows", "fitted")
SMALLEST = 1.01


def main() -> None:
    """Fit, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--dry", action="store_true", help="print only")
    parser.add_argument("--kind", choices=KINDS, help="only this kind of case; the other tables stay")
    given = parser.parse_args()
    unseen = read_grouping(ROOT).unseen
    every = [row for path in sorted((ROOT / "measurements").glob("*.csv.gz")) for row in read_rows(path)]
    rows = [row for row in every if row.usable and row.table not in unseen]
    scores = [item for item in left_out(rows) if given.kind in (None, item.kind)]
    doubtful = unfit(rows)
    factors = fit((item for item in scores if item.id not in doubtful), source=read_grouping(ROOT).publisher)
    for found in factors:
        groups, every = ("-" if s is None else f"{s:.3f}" for s in (found.coverage_90, found.coverage_rows))
        print(f"{found.kind:6} {found.quantity:22} {found.rung:42} x {found.factor:6.3f}", end="")
        print(f"  {found.groups:4} groups {found.rows:6} numbers  covered: groups {groups}, rows {every}")
    show(scores, factors, doubtful)
    if not given.dry:
        for kind in KINDS if given.kind is None else (given.kind,):
            write(kind, [found for found in factors if found.kind == kind])


def left_out(rows: Iterable[Row]) -> list[Score]:
    """Every measured number, once for each kind of group it was predicted without."""
    stored = {kind: left_out_predictions(ROOT, kind) for kind in LEFT_OUT}
    found = []
    for row in rows:
        labels = labels_of(row)
        for wanted in measured_numbers(row):
            base = Score(
                id=row.id,
                block=row.block,
                kind=kind_of(row),
                quantity=wanted.quantity,
                measured=wanted.value,
                labels=labels,
            )
            for of in stored.values():
                known = of.get((row.id, wanted.quantity))
                if known is not None:
                    found.append(replace(base, predicted=known.predicted, level=known.level))
    return found


def unfit(rows: Iterable[Row]) -> set[str]:
    """Ids of rows that teach no width."""
    rows = list(rows)
    return contradicting(rows) | queueing(rows) | undivided(rows)


def undivided(rows: Iterable[Row]) -> set[str]:
    """
    Ids of peaks on several devices without a degree or a kind of sharding.

    Whether each of four devices holds all states or a quarter decides the peak; of what was not stated an error says
    nothing (LitGPT's page says of such rows that every run was on one GPU).
    """
    return {
        row.id
        for row in rows
        if row.layout == "training"
        and number(row, "peak_mem_gb")
        and (number(row, "num_accel") or 1.0) > 1.0
        and not any(text(row, name) for name in ("sharding", "tp", "pp", "cp", "ep", "dp"))
    }


def queueing(rows: Iterable[Row]) -> set[str]:
    """
    Ids of rows that were served at a rate.

    Their intervals are those of a closed loop and, on top, what a rate near the knee makes of its error
    (`planning.replica.with_queueing`): as teachers of the first part they would count the second twice.
    """
    return {row.id for row in rows if text(row, "load") == "open_loop"}


def show(scores: list[Score], factors: list[Factor], doubtful: set[str]) -> None:
    """Coverage and half-width of every kind and quantity over all left-out numbers."""
    widths = {(found.kind, found.quantity, found.rung): found.factor for found in factors}

    def width(item: Score) -> float:
        quantity = QUANTITY_OF[item.kind, item.quantity][0]
        names = (name for name in reversed(levels_of(item.level)) if (item.kind, quantity, name) in widths)
        return widths[item.kind, quantity, next(names)]

    print("\nleft-out numbers inside as shipped, and the median half-width")
    usable = [s for s in scores if s.predicted and s.measured and (s.kind, s.quantity) in QUANTITY_OF]
    for (kind, quantity), own in sorted(group_by(usable, lambda s: (s.kind, s.quantity)).items()):
        for title, part in (
            ("", own),
            ("calibrated", [s for s in own if "calibrated" in s.level.split(":")]),
            ("contradicting", [s for s in own if s.id in doubtful]),
        ):
            if part:
                inside = [1 / width(s) <= (s.predicted or 0) / (s.measured or 1) <= width(s) for s in part]
                half = quantile([(width(s) - 1 / width(s)) / 2 for s in part], 0.5) or 0.0
                shown = f"{sum(inside) / len(inside):7.1%}  ± {half:.1%}"
                print(f"{kind:6} {quantity:24} {title:14} {len(part):6} {shown}")


def write(kind: str, factors: list[Factor]) -> None:
    """One table; rows of quantities that were not fitted stay as they are."""
    path = TABLES / f"{kind}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        fitted_names = {found.quantity for found in factors}
        kept = [row for row in csv.DictReader(file) if row["quantity"] not in fitted_names]
    today = datetime.date.today().isoformat()
    fitted = [
        {
            "quantity": found.quantity,
            "rung": found.rung,
            "factor": f"{max(found.factor, SMALLEST):.4g}",
            "groups": found.groups,
            "rows": found.rows,
            "coverage_90": "" if found.coverage_90 is None else f"{found.coverage_90:.3f}",
            "coverage_rows": "" if found.coverage_rows is None else f"{found.coverage_rows:.3f}",
            "fitted": f"{today} on whole groups left out of the fits",
        }
        for found in factors
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows([*fitted, *kept])


if __name__ == "__main__":
    main()
